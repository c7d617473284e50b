package sqlresult

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The process says what comparing here says, word for word, whichever side is
// at fault.
func TestTheProcessSaysTheSame(t *testing.T) {
	for query, s := range map[string]Spec{
		"SELECT customer, sum(total) FROM orders GROUP BY 1": {Expected: "SELECT customer, SUM(total) FROM orders GROUP BY customer"},
		"SELECT 10.6":                              {Expected: "SELECT 10.5", Tolerance: 0.01},
		"SELECT id FROM orders":                    {Expected: "SELECT id FROM orders ORDER BY id DESC", Ordered: true},
		"SELECT id AS \"\u00e9\x01<\" FROM orders": {Expected: "SELECT id FROM orders", Columns: true},
		"SELECT load_extension('/tmp/x.so')":       {Expected: "SELECT 1"},
		"ATTACH '/etc/passwd' AS p":                {Expected: "SELECT 1"},
		"PRAGMA query_only=OFF":                    {Expected: "SELECT 1"},
		"SELECT randomblob(1000000000)":            {Expected: "SELECT 1"},
		"SELECT zeroblob(2000000000)":              {Expected: "SELECT 1"},
		"SELECT 1":                                 {Expected: "SELECT nothing FROM nowhere"},
		"SELECT 2":                                 {Database: "CREATE TABL x", Expected: "SELECT 1"},
		"WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t||t FROM n) SELECT length(t) FROM n": {Expected: "SELECT 1"},
	} {
		if s.Database == "" {
			s.Database = fixture
		}
		here, there := compare(t, s, query), Compare(context.Background(), s, query)
		var a, b *Wrong
		if errors.As(here, &a) != errors.As(there, &b) || (here == nil) != (there == nil) || here != nil && here.Error() != there.Error() {
			t.Errorf("%s: here %v, in a process %v", query, here, there)
		}
	}
}

// Each row takes the process down in another way, with the walls inside of it taken
// away. It is the agent's fault, and this process goes on.
func TestAQueryTakesOnlyItsProcessDown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits of the kernel are Linux's")
	}
	for name, how := range map[string]string{"memory": "eats", "a panic": "panics", "the end": "exits", "silence": "says nothing", "a file": "writes"} {
		t.Run(name, func(t *testing.T) {
			breakChild(t, how)
			err := Compare(context.Background(), Spec{Database: fixture, Expected: "SELECT 1"}, "SELECT 1")
			var wrong *Wrong
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Why, "ended the process that ran it") {
				t.Errorf("%v", err)
			}
			if how == "writes" {
				if info, err := os.Stat(written()); err == nil && info.Size() > 0 {
					t.Error("a file was written")
				}
			}
		})
	}
}

// What ends before the agent's query runs is ours, and so is a stop from outside.
func TestWhatIsNotTheAgentsFault(t *testing.T) {
	var wrong *Wrong
	breakChild(t, "never begins")
	if err := Compare(context.Background(), Spec{Database: fixture, Expected: "SELECT 1"}, "SELECT 1"); err == nil || errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Compare(ctx, Spec{Database: fixture, Expected: "SELECT 1"}, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	restartable.Store(false)
	defer restartable.Store(true)
	if err := Compare(context.Background(), Spec{Database: fixture, Expected: "SELECT 1"}, "SELECT 1"); err == nil || errors.As(err, &wrong) {
		t.Errorf("a program that cannot start itself again: %v", err)
	}
}

// brokenVariable makes the test binary a process whose query does something that the
// database would not let it do.
const brokenVariable = "TALLYSTICK_SQL_BROKEN"

func breakChild(t *testing.T, how string) {
	t.Helper()
	was := environment
	environment = append([]string{brokenVariable + "=" + how}, was...)
	t.Cleanup(func() { environment = was })
}

func written() string { return filepath.Join(os.TempDir(), "tallystick-sql-written") }

// broken stands for a hole in the database. It is not in the program.
func broken(how string) {
	if how == "never begins" {
		os.Exit(3)
	}
	if err := bound(); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(readyLine)
	switch how {
	case "eats":
		var all [][]byte
		for {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
			runtime.KeepAlive(all)
		}
	case "panics":
		panic("a bug in the database")
	case "writes":
		if os.WriteFile(written(), []byte("x"), 0o600) == nil {
			os.Stdout.WriteString("{}\n")
		}
		os.Exit(1)
	case "exits":
		os.Exit(0)
	}
	os.Exit(0)
}
