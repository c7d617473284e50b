package promote_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// benchmarks/simulation.sh makes it ten.
var simScale = flag.Int("simulation.scale", 1, "how many times 70 attempts a day the simulation of thirty days has")

// simClasses are those of an honest month. What becomes of each is in
// simAdvice.
var simClasses = []simClass{
	{"fix", bench.Bronze, 6},    // solved throughout
	{"triage", bench.Bronze, 6}, // one case never is
	{"refund", bench.Bronze, 6}, // mended on day 15
	{"search", bench.Silver, 6}, // worse since day 21
	{"smoke", bench.Bronze, 1},  // one case, many attempts
}

// simAdvice is what must be recommended after so many days, and nothing else
// however often it is asked.
var simAdvice = map[int]map[string]string{
	10: {"fix": "silver", "triage": "none", "refund": "none", "search": "silver", "smoke": "none"},
	20: {"fix": "silver", "triage": "none", "refund": "silver", "search": "silver", "smoke": "none"},
	30: {"fix": "silver", "triage": "none", "refund": "silver", "search": "none", "smoke": "none"},
}

// agentOf says which version of the agent of a class runs on a day, and which
// cases it fails.
func agentOf(class string, d int) (version string, fails []int) {
	switch {
	case class == "triage":
		return "1", []int{2}
	case class == "refund" && d < 15:
		return "1", []int{0}
	case class == "refund":
		return "2", nil
	case class == "search" && d >= 21:
		return "2", []int{5}
	}
	return "1", nil
}

// shift is who keeps the ledger on a day. Petra joins on day 15.
func shift(d int) string {
	switch {
	case d <= 8 || d > 28:
		return "olga"
	case d <= 16:
		return "oscar"
	}
	return "petra"
}

// live runs one honest day: attempts at every class by several targets and
// operators, another operator's second run of the last of each class, and in the
// evening the anchor.
func (w *world) live(d int) {
	w.Helper()
	morning := firstDay.Add(time.Duration(d-1)*day + 8*time.Hour)
	w.setClock(morning)
	if d > 1 && shift(d) != shift(d-1) {
		w.reopen(shift(d))
	}
	if d == 15 {
		w.changeSigners()
	}
	tick := func() { w.setClock(w.clock().Add(7 * time.Second)) }
	for range 50 * *simScale {
		tick()
		w.runs(run{class: "smoke", target: "agent", operator: []string{"olga", "oscar"}[d%2]})
	}
	for _, class := range []string{"fix", "triage", "refund", "search"} {
		version, fails := agentOf(class, d)
		runner, other := "olga", "oscar"
		if d%2 == 1 {
			runner, other = other, runner
		}
		for range *simScale {
			tick()
			w.runs(run{class: class, target: "baseline", operator: runner, fails: []int{0, 1, 2}})
			w.runs(run{class: class, target: "rival", operator: other, fails: []int{4}})
			tick()
			w.runs(run{class: class, target: "agent", version: version, operator: other, fails: fails})
			w.runs(run{class: class, target: "agent", version: version, operator: runner, fails: fails})
		}
		tick()
		last := run{class: class, target: "agent", version: version, operator: runner, fails: fails}
		if class == "fix" && d%10 == 0 {
			last.registered = w.publish // a witness sees it before its first case
		}
		id := w.runs(last)
		tick()
		w.reproduce(id, other, nil)
	}
	w.setClock(morning.Add(15*time.Hour + 30*time.Minute))
	w.publish()
}

// ask asks about every class, records the advice, and compares it.
func (w *world) ask(d int) {
	w.Helper()
	h, vault := w.history(), w.remembering()
	for _, c := range simClasses {
		rec := w.recommend(h, vault, c.name)
		if want := simAdvice[d][c.name]; rec.RecommendedTier != want || rec.CurrentTier != string(c.tier) {
			w.Errorf("day %d: %s is at %s, %s is recommended, want %s: %q", d, c.name, rec.CurrentTier, rec.RecommendedTier, want, rec.Rationale)
		}
		w.add(evidence.RecommendationKind, &rec.Recommendation)
	}
}

// honestMonth simulates thirty honest days.
func honestMonth(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, firstDay.Add(7*time.Hour), append(lieClasses(), simClasses...))
	for d := 1; d <= 30; d++ {
		w.live(d)
		if simAdvice[d] != nil {
			w.ask(d)
		}
	}
	w.must(w.ledger.Close())
	return w
}

// An honest month leaves nothing to find: no gap, no problem, no number that
// does not follow from its evidence. Then each way to tamper with it is tried,
// and found.
func TestThirtyDays(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty days take some seconds")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of what is read stays
	w := honestMonth(t)
	vault := w.remembering()

	if gaps := w.gaps(w.cfg, vault, true); len(gaps) > 0 {
		t.Errorf("%d gaps, the first: %s", len(gaps), gaps[0])
	}
	h := w.history()
	levels := map[history.Level]int{}
	for _, a := range h.Attempts {
		levels[a.Level]++
		if len(a.Problems) > 0 || a.Excluded > 0 || a.Abandoned > 0 || a.Finished == nil {
			t.Errorf("attempt %s: problems %q, %d excluded, %d abandoned", a.ID, a.Problems, a.Excluded, a.Abandoned)
		}
		for _, d := range w.recompute(vault, a) {
			t.Error(d)
		}
	}
	if h.Orphans != 0 || h.Manual != 0 || len(h.Events) != 0 {
		t.Errorf("%d orphans, %d by hand, events %v", h.Orphans, h.Manual, h.Events)
	}
	if want := 30 * (50**simScale + 4*(4**simScale+1)); len(h.Attempts) != want {
		t.Errorf("%d attempts, want %d", len(h.Attempts), want)
	}
	if levels[history.Reproduced] != 120 || levels[history.Scratch] != 0 {
		t.Errorf("levels %v", levels)
	}
	witnessed := 0
	for _, a := range h.Attempts {
		if a.Witnessed {
			witnessed++
		}
	}
	if witnessed != 3 {
		t.Errorf("%d attempts were witnessed, want 3", witnessed)
	}

	// A caller who asks again is told the same, whatever was asked and read before.
	again := w.history()
	advice := map[string][]string{}
	for _, c := range simClasses {
		rec := w.recommend(h, vault, c.name)
		if rec.RecommendedTier != simAdvice[30][c.name] {
			t.Errorf("%s: %s is recommended: %q", c.name, rec.RecommendedTier, rec.Rationale)
		}
		advice[c.name] = rec.KeepsFrom(bench.Silver)
	}
	first, err := canon.Marshal(w.recommend(h, vault, "fix").Recommendation)
	w.must(err)
	second, err := canon.Marshal(w.recommend(again, vaultIn(w.dir), "fix").Recommendation)
	w.must(err)
	if string(first) != string(second) {
		t.Errorf("%s\n%s", first, second)
	}

	m := w.splitDays()
	m.history = w.history() // the same ledger in thirty segments
	if m.history.Head != h.Head || len(m.segments) != 30 {
		t.Fatalf("the ledger in %d segments has another head", len(m.segments))
	}
	t.Run("files", func(t *testing.T) { forgeries(t, m) })
	t.Run("quorum", func(t *testing.T) { forgedQuorum(t, m) })
	t.Run("evidence", func(t *testing.T) { evidenceForgeries(t, m) })
	t.Run("gaps", func(t *testing.T) { strictGaps(t, m) })
	t.Run("lies", func(t *testing.T) { tellLies(t, m, advice) })

	t.Logf("%d attempts, %d entries, levels %s", len(h.Attempts), h.Entries, fmt.Sprint(levels))
}
