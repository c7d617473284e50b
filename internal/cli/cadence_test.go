package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/sequencer"
)

// Nine nights with an anchor and then silence is a gap that names the first day; what
// two people signed about it holds, and nothing else.
func TestSilentNightsAreAGap(t *testing.T) {
	p := newScoredPlace(t)
	keys := filepath.Join(p.dir, ".tally", "keys")
	ok := func(args ...string) {
		t.Helper()
		if code, _, stderr := p.tally(args...); code != 0 {
			t.Fatal(stderr)
		}
	}
	sign := func(args ...string) {
		t.Helper()
		ok(append([]string{"bench", "digest", ceremony.ExampleClass}, args...)...)
		for _, who := range []string{"example-alice", "example-bob"} {
			ok("bench", "sign", ceremony.ExampleClass, "--key", filepath.Join(keys, who))
		}
	}
	gaps := func(kind string) []string {
		t.Helper()
		_, stdout, stderr := p.tally("ledger", "verify", "--strict", "--since", "1000d", "--json")
		var report dossier.LedgerReport
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatalf("%v: %s %s", err, stdout, stderr)
		}
		var found []string
		for _, g := range report.Problems {
			if g.Kind == kind {
				found = append(found, g.Detail)
			}
		}
		return found
	}
	begins := func(name, kind string, want ...string) {
		t.Helper()
		got := gaps(kind)
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	p.attempt("agent", 1, "bench", 1) // of a signed class, so that the pins must be there
	p.now = time.Date(p.now.Year()+1, 5, 1, 22, 0, 0, 0, time.UTC)
	year := p.now.Format("2006")
	for range 9 {
		ok("ledger", "anchor", "publish")
		p.now = p.now.AddDate(0, 0, 1)
	}
	last := func(details []string) []string { // the day of the attempt has no anchor
		return slices.DeleteFunc(details, func(d string) bool { return strings.HasSuffix(d, "has entries and no anchor") })
	}
	if got := last(gaps("anchor")); len(got) != 0 {
		t.Errorf("after nine nights: %q", got)
	}
	p.now = p.now.AddDate(0, 0, 20)
	silent := "no anchor was published on 20 days, " + year + "-05-10 to " + year + "-05-29, and "
	if got := last(gaps("anchor")); len(got) != 1 || !strings.HasPrefix(got[0], silent+"anchors are due every day") {
		t.Errorf("silence: %q", got)
	}
	// A file of today fills no day before it.
	ok("ledger", "anchor", "publish")
	if got := last(gaps("anchor")); len(got) != 1 || !strings.HasPrefix(got[0], silent) {
		t.Errorf("silence, and then it goes on: %q", got)
	}
	// Entries by hand are claims.
	for day := 10; day < 30; day++ {
		p.write(func(l *sequencer.Ledger, _ *dossier.Place) {
			if _, err := l.SubmitManual("anchor.published", []byte(`{"date":"`+year+`-05-10","head":"sha256:`+strings.Repeat("1", 64)+`","root":"x","size":1,"witnesses":[],"alone":true}`)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got := last(gaps("anchor")); len(got) != 1 || !strings.HasPrefix(got[0], silent) {
		t.Errorf("filled by hand: %q", got)
	}
	// Two people say otherwise, and only they.
	sign("--anchors-every", "none")
	if got := last(gaps("anchor")); len(got) != 0 {
		t.Errorf("people signed for none: %q", got)
	}
	sign("--anchors-every", "24h")
	if got := last(gaps("anchor")); len(got) != 1 || !strings.HasPrefix(got[0], silent+"bench/digests.yaml says that anchors are due every 24h") {
		t.Errorf("people signed for every day: %q", got)
	}
	begins("signed pins", "pins")
	pins := filepath.Join(p.dir, "bench", "digests.yaml")
	data, err := os.ReadFile(pins)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pins, []byte(strings.Replace(string(data), `"24h"`, `"none"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	begins("edited pins", "pins", "attempt fix.agent.1 is of a signed class, and what bench/digests.yaml says of anchors and witnesses is not trusted")
	if got := last(gaps("anchor")); len(got) != 1 || !strings.HasPrefix(got[0], silent) {
		t.Errorf("edited pins: %q", got)
	}
	if err := os.Remove(pins); err != nil {
		t.Fatal(err)
	}
	begins("no pins", "pins", "attempt fix.agent.1 is of a signed class")
	if code, _, stderr := p.tally("bench", "digest", ceremony.ExampleClass, "--anchors-every", "often"); code != 2 {
		t.Errorf("not a rhythm: exit %d, %s", code, stderr)
	}
}
