package promote_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// A lie is something that an operator puts into the ledger with her own key:
// every signature is right and every seal. Each has a task class of its own, in
// which an honest attempt alone would earn silver.
type lie struct {
	name string
	tell func(w *world, class string)

	// What finds it. Of each list all must be found, and nothing else.
	kinds  []string // of problems of its attempts, by a reader of the history
	unmet  []string // beginnings of the conditions that are not met
	notes  []string // parts of notes of the recommendation
	gaps   []string // ends of what strict verification misses
	fields []string // that differ when the attempts are counted again
}

const (
	oneFailed = "lower_bound_95="
	oneLess   = "passed_count=5 < minimum_cases[silver]=6"
	nonePass  = "passed_count=0 < minimum_cases[silver]=6"
	nothing   = "no attempt in the window counts"
	notAgain  = "no attempt under review was reproduced by a different runner"
)

// good is the honest part.
func (w *world) good(class string, r run) string {
	w.Helper()
	r.class, r.target = class, "agent"
	id := w.runs(r)
	if !r.open {
		w.reproduce(id, "oscar", nil)
	}
	return id
}

// another adds a further record of a case to the last attempt.
func (w *world) another(i int, fails bool) *evidence.CaseScored {
	w.Helper()
	pack, err := store.CreatePack(unsynced{}, filepath.Join(w.packs(), fmt.Sprintf("%s.more-%d.pack", w.last.Attempt, w.ledger.Tip().Size)))
	w.must(err)
	s := w.scores(pack, w.last, w.last.Plan.Cases[i], 1, fails, func(*evidence.CaseFiles) {})
	w.must(pack.Close())
	return s
}

// finish ends the last attempt as if its records were these.
func (w *world) finish() {
	w.Helper()
	w.add(evidence.AttemptFinishedKind, w.finished(w.last, w.lastRecords))
}

func onFirst(edit func(*evidence.CaseScored)) func(int, *evidence.CaseScored) {
	return func(i int, s *evidence.CaseScored) {
		if i == 0 {
			edit(s)
		}
	}
}

func amended(entry int64, score float64) *evidence.ScoreAmended {
	return &evidence.ScoreAmended{Entry: entry, Author: "olga", Reason: "on second thought",
		Score: evidence.Score{Passed: score == 1, Score: score, Breakdown: map[string]float64{}, FailureModes: []string{}}}
}

var (
	excluded = []string{nothing, oneFailed, nonePass, notAgain}
	less     = []string{oneFailed, oneLess}
)

var lies = []lie{
	{name: "nothing", tell: func(w *world, class string) { w.good(class, run{}) }},

	// What did not go well.
	{name: "an attempt that was never finished", tell: func(w *world, class string) {
		w.good(class, run{})
		w.good(class, run{open: true})
	}, unmet: []string{"attempt CLASS.agent.2 was registered at entry "}, gaps: []string{"attempt CLASS.agent.2 was registered and never finished"}},
	{name: "an attempt given up before its first case, of another target", tell: func(w *world, class string) {
		w.good(class, run{})
		w.runs(run{class: class, target: "other", open: true, skip: []int{0, 1, 2, 3, 4, 5}, noStart: []int{0, 1, 2, 3, 4, 5}})
	}, unmet: []string{oneFailed, nonePass, "attempt CLASS.other.2 was registered at entry "},
		gaps: []string{"never finished", "case case-1 has 0 of 1 records", "case case-2 has 0 of 1 records", "case case-3 has 0 of 1 records",
			"case case-4 has 0 of 1 records", "case case-5 has 0 of 1 records", "case case-6 has 0 of 1 records"}},
	{name: "a case started and never recorded", tell: func(w *world, class string) { w.good(class, run{skip: []int{2}}) },
		unmet: less, notes: []string{"not run: case-3"}, gaps: []string{"attempt CLASS.agent.1: case case-3 has 0 of 1 records"}},
	{name: "a case watched, killed and started again", tell: func(w *world, class string) { w.good(class, run{starts: map[int]int{1: 3}}) },
		unmet: less, notes: []string{"started more than once: case-2"}},
	{name: "good attempts duplicated over a bad one", tell: func(w *world, class string) {
		w.good(class, run{fails: []int{0}})
		for range 5 {
			w.good(class, run{})
		}
	}, unmet: less, notes: []string{"failed: case-1"}},
	{name: "each case picked from another retry", tell: func(w *world, class string) {
		w.good(class, run{fails: []int{0, 1, 2}})
		w.good(class, run{fails: []int{3, 4, 5}})
	}, unmet: []string{oneFailed, nonePass, "regression: 3 cases were solved before and are not now: case-4, case-5, case-6"}},

	// Records that are not in their place.
	{name: "a bad record, then a good one", tell: func(w *world, class string) {
		id := w.good(class, run{open: true, fails: []int{0}})
		w.add(evidence.CaseScoredKind, w.another(0, false))
		w.finish()
		w.reproduce(id, "oscar", nil)
	}, kinds: []string{"scored twice"}, unmet: append(slices.Clone(less), "attempt CLASS.agent.1: scored twice")},
	{name: "a record after the end", tell: func(w *world, class string) {
		w.good(class, run{skip: []int{0}})
		w.add(evidence.CaseScoredKind, w.another(0, false))
	}, kinds: []string{"scored late"}, unmet: append(slices.Clone(less), "attempt CLASS.agent.1: scored late")},
	{name: "a record of a case that was never started", tell: func(w *world, class string) { w.good(class, run{noStart: []int{0}}) },
		kinds: []string{"never started"}, unmet: append(slices.Clone(less), "attempt CLASS.agent.1: never started"), fields: []string{"outcomes", "cost_microdollars"}},
	{name: "a record of an unplanned case", tell: func(w *world, class string) {
		id := w.good(class, run{open: true})
		w.add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: id, CaseID: "easy", Repeat: 1, Execution: 1})
		s := w.another(0, false)
		s.CaseID = "easy"
		w.add(evidence.CaseScoredKind, s)
		w.finish()
		w.reproduce(id, "oscar", nil)
	}, kinds: []string{"not planned"}, unmet: []string{"attempt CLASS.agent.1: not planned"}},
	{name: "a record of another case under the same name", tell: func(w *world, class string) {
		w.good(class, run{lieScore: onFirst(func(s *evidence.CaseScored) { s.CaseDigest = digest.ContentOf([]byte("easier")) })})
	}, kinds: []string{"not as planned"}, unmet: append(slices.Clone(less), "attempt CLASS.agent.1: not as planned"), fields: []string{"plan", "outcomes", "cost_microdollars"},
		gaps: []string{"attempt CLASS.agent.1: case case-1: the record is of "}},
	{name: "a record of another class", tell: func(w *world, class string) {
		w.good(class, run{lieScore: onFirst(func(s *evidence.CaseScored) { s.Class = "smoke" })})
	}, kinds: []string{"of another class"}, unmet: append(slices.Clone(less), "attempt CLASS.agent.1: of another class"), fields: []string{"outcomes", "cost_microdollars"}},
	{name: "attempts numbered from one again", tell: func(w *world, class string) {
		w.good(class, run{fails: []int{0}})
		w.good(class, run{version: "2", lieRegister: func(r *evidence.AttemptRegistered) { r.Number = 1 }})
	}, kinds: []string{"numbered wrongly"}, unmet: []string{"attempt CLASS.agent.2: numbered wrongly"}},
	{name: "an attempt registered twice", tell: func(w *world, class string) {
		w.good(class, run{})
		w.add(evidence.AttemptRegisteredKind, w.last)
	}, kinds: []string{"registered twice"}, unmet: []string{"attempt CLASS.agent.1: registered twice"}, gaps: []string{"attempt CLASS.agent.1 was registered before, at entry "}},
	{name: "an attempt finished twice", tell: func(w *world, class string) {
		w.good(class, run{})
		w.finish()
	}, kinds: []string{"finished twice"}, unmet: []string{"attempt CLASS.agent.1: finished twice"}},

	// Attempts that are something else than they say.
	{name: "a plan changed after it was signed", tell: func(w *world, class string) {
		w.good(class, run{lieSigned: func(r *evidence.AttemptRegistered) { r.Plan.TargetDigest = digest.ContentOf([]byte("a better agent")) }})
	}, kinds: []string{"signature"}, unmet: excluded, notes: []string{"not signed by an operator in force"}},
	{name: "an attempt that no signer in force signed", tell: func(w *world, class string) { w.good(class, run{operator: "mallory"}) },
		kinds: []string{"signature"}, unmet: excluded, notes: []string{"not signed by an operator in force"}},
	{name: "an attempt for another ledger", tell: func(w *world, class string) {
		w.good(class, run{lieRegister: func(r *evidence.AttemptRegistered) { r.Origin = "example.com/fresh" }})
	}, kinds: []string{"of another ledger"}, unmet: excluded, notes: []string{"registered for another ledger"}},
	{name: "an attempt at another bench", tell: func(w *world, class string) {
		w.good(class, run{lieRegister: func(r *evidence.AttemptRegistered) { r.Plan.BenchDigest = digest.IDOf([]byte("easier")) }})
	}, unmet: excluded, notes: []string{"of another bench digest"}},
	{name: "an attempt under a softer registration", tell: func(w *world, class string) {
		w.good(class, run{lieRegister: func(r *evidence.AttemptRegistered) { r.Plan.RegistrationDigest = digest.ContentOf([]byte("soft")) }})
	}, unmet: excluded, notes: []string{"of another registration"}},
	{name: "only the easy cases, by a filter", tell: func(w *world, class string) {
		w.good(class, run{lieRegister: func(r *evidence.AttemptRegistered) { r.Plan.Filtered = true }})
	}, unmet: excluded, notes: []string{"run with a case or tag filter"}},
	{name: "only the easy cases, and no word of a filter", tell: func(w *world, class string) {
		w.good(class, run{lieRegister: func(r *evidence.AttemptRegistered) { r.Plan.Cases, r.Plan.CaseCount = r.Plan.Cases[1:], 5 }})
	}, unmet: less, notes: []string{"not run: case-1"}},
	{name: "an attempt without isolation", tell: func(w *world, class string) {
		w.good(class, run{lieScore: func(_ int, s *evidence.CaseScored) { s.IsolationClass = "namespace" }})
	}, unmet: excluded, notes: []string{"run without an accepted isolation"}},
	{name: "an edited cassette", tell: func(w *world, class string) {
		w.good(class, run{lieScore: onFirst(func(s *evidence.CaseScored) { s.Provenance = "edited" })})
	}, unmet: less, notes: []string{"cassette_provenance is edited: case-1"}},

	// Scores.
	{name: "an amendment that raises a score", tell: func(w *world, class string) {
		w.good(class, run{fails: []int{0}})
		w.add(evidence.ScoreAmendedKind, amended(w.lastEntries[0], 1))
	}, unmet: less, notes: []string{"1 amendment that raises a score is ignored"}},
	{name: "an amendment that lowers a score, taken back", tell: func(w *world, class string) {
		w.good(class, run{})
		w.add(evidence.ScoreAmendedKind, amended(w.lastEntries[0], 0))
		w.add(evidence.ScoreAmendedKind, amended(w.lastEntries[0], 1))
	}, unmet: less, notes: []string{"amended more than once: case-1"}},
	{name: "the evidence of an earlier run", tell: func(w *world, class string) {
		w.good(class, run{})
		first := w.lastRecords[0].EvidenceDigests
		w.good(class, run{lieScore: onFirst(func(s *evidence.CaseScored) { s.EvidenceDigests = first })})
	}, unmet: less, notes: []string{"its evidence is missing or changed: case-1"}, fields: []string{"trajectory"}},
	{name: "a score that its grading contradicts", tell: func(w *world, class string) {
		w.good(class, run{fails: []int{0}, lieScore: onFirst(func(s *evidence.CaseScored) {
			s.Outcome = evidence.Passed
			s.Score = &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}}
		})})
	}, unmet: less, notes: []string{"its evidence is missing or changed: case-1"}, fields: []string{"outcome", "score", "failure_modes"}},
	{name: "evidence that names what is not there", tell: func(w *world, class string) {
		w.good(class, run{lieEvidence: func(i int, f *evidence.CaseFiles) {
			if i == 0 {
				d := digest.ContentOf([]byte("never written"))
				f.Grading = &d
			}
		}})
	}, unmet: less, notes: []string{"its evidence is missing or changed: case-1"}, fields: []string{"evidence"}, gaps: []string{"case case-1: its evidence "}},
	{name: "totals that the records do not give: only counting again tells", tell: func(w *world, class string) {
		w.good(class, run{lieFinish: func(f *evidence.AttemptFinished) {
			half := 0.5
			f.Outcomes, f.MeanScore = map[evidence.Outcome]int{evidence.Passed: 60}, &half
		}})
	}, fields: []string{"outcomes", "mean_score"}},
	{name: "cost and tokens that the trajectory does not give: only counting again tells", tell: func(w *world, class string) {
		w.good(class, run{lieScore: onFirst(func(s *evidence.CaseScored) { s.Tokens, s.CostMicroUSD = 1, 1 })})
	}, fields: []string{"tokens", "cost_microdollars"}},

	// Second runs.
	{name: "no operator ran it again", tell: func(w *world, class string) { w.runs(run{class: class, target: "agent"}) }, unmet: []string{notAgain}},
	{name: "run again with the same key", tell: func(w *world, class string) { w.reproduce(w.runs(run{class: class, target: "agent"}), "olga", nil) },
		unmet: []string{"attempt CLASS.agent.1 was run again by its own runner", notAgain}},
	{name: "run again by the same person with another key", tell: func(w *world, class string) {
		w.reproduce(w.runs(run{class: class, target: "agent"}), "olga's laptop", nil)
	}, unmet: []string{"attempt CLASS.agent.1 was run again by its own runner", notAgain}},
	{name: "run again by a stranger", tell: func(w *world, class string) { w.reproduce(w.runs(run{class: class, target: "agent"}), "mallory", nil) },
		kinds: []string{"signature"}, unmet: []string{"attempt CLASS.agent.1: signature", notAgain}},
	{name: "a second run of another attempt under this one's name", tell: func(w *world, class string) {
		id := w.runs(run{class: class, target: "agent"})
		w.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) {
			r.Original = "fix.agent.1"
			r.Signature = w.signed("oscar", r)
			r.Original = id
		})
	}, kinds: []string{"signature"}, unmet: []string{"attempt CLASS.agent.1: signature", notAgain}},
	{name: "run again by hand", tell: func(w *world, class string) {
		id := w.runs(run{class: class, target: "agent"})
		r := &evidence.AttemptReproduced{Attempt: "x", Original: id, Origin: simOrigin, Agrees: true}
		ends, results := w.ends[id], digest.ContentOf([]byte("results"))
		r.Registered, r.Finished, r.Results = &ends[0], &ends[1], &results
		r.Signature = w.signed("oscar", r)
		w.byHand(evidence.AttemptReproducedKind, r)
	}, unmet: []string{notAgain}},
	{name: "run again with another result", tell: func(w *world, class string) {
		w.reproduce(w.runs(run{class: class, target: "agent"}), "oscar", func(r *evidence.AttemptReproduced) { r.Agrees, r.Divergence = false, "case-4" })
	}, unmet: []string{"attempt CLASS.agent.1 was run again by oscar and diverged: case-4", notAgain}},
	{name: "run again before it had finished", tell: func(w *world, class string) {
		id := w.good(class, run{open: true})
		w.reproduce(id, "oscar", nil)
		w.finish()
	}, kinds: []string{"reproduction"}, unmet: []string{"attempt CLASS.agent.1: reproduction: entry ", notAgain}},

	// By hand.
	{name: "the end of an abandoned attempt, by hand", tell: func(w *world, class string) {
		w.good(class, run{open: true})
		w.byHand(evidence.AttemptFinishedKind, w.finished(w.last, w.lastRecords))
	}, unmet: []string{"attempt CLASS.agent.1 was registered at entry ", notAgain}, gaps: []string{"attempt CLASS.agent.1 was registered and never finished"}},
	{name: "a record by hand", tell: func(w *world, class string) {
		id := w.good(class, run{open: true, skip: []int{0}})
		w.byHand(evidence.CaseScoredKind, w.another(0, false))
		w.finish()
		w.reproduce(id, "oscar", nil)
	}, unmet: less, notes: []string{"not run: case-1"}, gaps: []string{"attempt CLASS.agent.1: case case-1 has 0 of 1 records"}},
}

func lieClass(i int) string { return fmt.Sprintf("lie-%02d", i) }

// lieClasses are the classes of the liars.
func lieClasses() []simClass {
	var classes []simClass
	for i := range lies {
		classes = append(classes, simClass{lieClass(i), bench.Bronze, 6})
	}
	return classes
}

// tellLies continues the honest month: on its last evening the operator lies
// in every way that we know, and sets the clock back for one attempt. One
// reading finds each, and the honest classes are none the worse.
func tellLies(t *testing.T, m *month, advice map[string][]string) {
	w := m.world
	w.TB = t
	w.open("olga")
	for i, l := range lies {
		w.setClock(w.clock().Add(time.Second))
		l.tell(w, lieClass(i))
	}
	evening := w.clock()
	w.setClock(evening.Add(-20 * day))
	w.good(lieClass(0), run{})
	w.setClock(evening)
	// A record of an attempt that was never registered.
	orphan := w.another(0, false)
	orphan.Attempt = "smoke.agent.999999"
	w.add(evidence.CaseScoredKind, orphan)
	w.publish()
	w.must(w.ledger.Close())

	read := vaultIn(w.dir)
	h, gaps := w.history(), w.gaps(w.cfg, read, false)
	for i, l := range lies {
		t.Run(l.name, func(t *testing.T) { w.finds(t, h, read, lieClass(i), l, &gaps) })
	}
	if len(gaps) > 0 {
		t.Errorf("gaps that no lie accounts for: %q", gaps)
	}
	if h.Orphans != 2 { // the second registration under one id is one too
		t.Errorf("%d orphans", h.Orphans)
	}
	if h.Manual != 3 {
		t.Errorf("%d entries by hand", h.Manual)
	}
	back := h.Attempt(lieClass(0) + ".agent.2")
	if len(h.Events) != 1 || h.Events[0].Name != "ClockWentBack" || back.Time.Go().Before(evening) {
		t.Errorf("a clock set back gives the events %v, and an attempt of %s", h.Events, back.Time)
	}
	for _, c := range simClasses {
		rec := w.recommend(h, read, c.name)
		if rec.RecommendedTier != simAdvice[30][c.name] || !slices.Equal(rec.KeepsFrom(bench.Silver), advice[c.name]) {
			t.Errorf("%s: %s is recommended: %q, and before the lies %q", c.name, rec.RecommendedTier, rec.Unmet, advice[c.name])
		}
	}
	// A clock set ahead makes nothing fresh.
	now := w.clock()
	w.setClock(now.Add(time.Hour))
	w.open("olga")
	w.good("fix", run{version: "1"})
	w.publish()
	w.must(w.ledger.Close())
	w.setClock(now)
	if rec := w.recommend(w.history(), read, "fix"); rec.RecommendedTier != "none" || !strings.Contains(rec.Rationale[0], "a clock was set wrong") {
		t.Errorf("%s: %q", rec.RecommendedTier, rec.Rationale)
	}
}

// finds holds what is found of a class against what the lie must lead to, and
// takes its gaps off the list.
func (w *world) finds(t *testing.T, h *history.History, read reader, class string, l lie, gaps *[]string) {
	named := func(list []string) []string {
		var out []string
		for _, s := range list {
			out = append(out, strings.ReplaceAll(s, "CLASS", class))
		}
		return out
	}
	var kinds, fields []string
	for _, a := range h.Attempts {
		if a.Class != class {
			continue
		}
		for _, p := range a.Problems {
			kind, _, _ := strings.Cut(p, ":")
			kinds = append(kinds, kind)
		}
		for _, d := range w.recompute(read, a) {
			fields = append(fields, d.Field)
		}
	}
	if !slices.Equal(kinds, l.kinds) {
		t.Errorf("problems %q, want %q", kinds, l.kinds)
	}
	if !slices.Equal(fields, l.fields) {
		t.Errorf("counted again, these differ: %q, want %q", fields, l.fields)
	}
	rec := w.recommend(h, read, class)
	unmet := named(l.unmet)
	if got := rec.KeepsFrom(bench.Silver); !slices.EqualFunc(got, unmet, strings.HasPrefix) {
		t.Errorf("unmet\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(unmet, "\n  "))
	}
	if lied := len(l.unmet) > 0; lied == (rec.RecommendedTier == "silver") || lied && rec.RecommendedTier != "bronze" && rec.RecommendedTier != "none" {
		t.Errorf("%s is recommended", rec.RecommendedTier)
	}
	for _, note := range l.notes {
		if !strings.Contains(strings.Join(rec.Notes, "\n"), note) {
			t.Errorf("no note %q in %q", note, rec.Notes)
		}
	}
	for _, gap := range named(l.gaps) {
		i := slices.IndexFunc(*gaps, func(g string) bool { return strings.Contains(g, gap) })
		if i < 0 {
			t.Errorf("no gap %q in %q", gap, *gaps)
			continue
		}
		*gaps = slices.Delete(*gaps, i, i+1)
	}
}
