package pgtest

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestEveryTestGetsAnEmptyDatabaseOfItsOwn(t *testing.T) {
	server := Running(t)
	first, second := Database(t), Database(t)
	if first == second {
		t.Fatalf("both databases are %s", first)
	}
	if _, err := server.Query(first, "create table rows (n int); insert into rows values (7)"); err != nil {
		t.Fatal(err)
	}
	if got, err := server.Query(first, "select n from rows"); err != nil || got != "7" {
		t.Errorf("got %q, %v; want 7", got, err)
	}
	if got, err := server.Query(second, "select n from rows"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("the second database has the table of the first: %q, %v", got, err)
	}
}

func TestStopEndsTheServerAndLeavesNothing(t *testing.T) {
	Running(t) // skips where there is none
	s, err := Start(true)
	if err != nil {
		t.Fatal(err)
	}
	address, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Query(address, "show fsync"); err != nil || got != "on" {
		t.Errorf("fsync is %q, %v; want on", got, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.dir, err)
	}
	if _, err := s.Query(address, "select 1"); err == nil {
		t.Error("the server still answers")
	}
}
