package viewer

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A page that takes long, and the ledger that grows meanwhile, keep no other page waiting.
func TestPagesDoNotWaitForEachOther(t *testing.T) {
	v := openShop(t)
	slow, err := v.enter()
	if err != nil {
		t.Fatal(err)
	}
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	entries := v.r.History.Entries
	if err := s.run("builtin:adversarial", "mitigated"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() { answered <- get(t, v, "/attempts").Code }()
	select {
	case code := <-answered:
		if code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	case <-time.After(time.Minute):
		t.Fatal("a page waits for another one that is not ready")
	}
	if v.r.History.Entries != entries {
		t.Error("the ledger was read on under a page that is being made")
	}
	slow()
	if get(t, v, "/attempts"); v.r.History.Entries == entries {
		t.Error("the ledger was not read on afterwards")
	}
}

// Every kind of page at once while attempts are recorded: for the race detector, and for
// pages of half a state.
func TestPagesBesideEachOtherWhileTheLedgerGrows(t *testing.T) {
	v := openShop(t)
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.run("hostile", "default") }()
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			for i := range 3 {
				for _, path := range []string{"/", "/attempts", "/attempt/hostile.default.1", "/attempt/hostile.default.1/case/hostile-long", "/attempt/hostile.default.1/case/kept-secret", "/matrix?class=hostile", "/corpus", "/corpus/hostile", "/judges", "/promotion/hostile",
					"/golden/hostile/default/plain-one", "/audit/hostile.default.1", "/ledger", "/compare?a=hostile.default.1&b=hostile.default.2", "/receipt/" + strconv.Itoa(n+i), "/attempt/hostile.default.1/case/plain-one/events", "/keys", "/checkpoint"} {
					if w := get(t, v, path); w.Code != http.StatusOK {
						t.Errorf("%s: status %d: %.300s", path, w.Code, w.Body)
					} else if strings.Contains(w.Body.String(), secret) {
						t.Errorf("%s tells what is held out", path)
					}
				}
			}
		})
	}
	readers.Wait()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
