package gate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// scratchBench is a verified scratch class of eight cases: the even ones are
// tagged easy, the odd ones hard, the last one alone. Gates come first.
func scratchBench(t *testing.T, gates string) *bench.Verified {
	t.Helper()
	dir := t.TempDir()
	write := func(name, data string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("bench/fix/registration.yaml", `version: 1
class: fix
trust: scratch
current_tier: bronze
`+gates+`
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`)
	write("bench/fix/rubric.star", "def score(a, b, c): return {}\n")
	for i := range 7 {
		yaml := string(bench.NewCase(caseID(i), "t", nil, nil, now).YAML())
		write("bench/fix/cases/"+caseID(i)+"/case.yaml", yaml+"tags: ["+tagOf(i)+"]\n")
		write("bench/fix/cases/"+caseID(i)+"/input/prompt.txt", fmt.Sprintf("do %d\n", i))
	}
	write("bench/fix/dataset.jsonl", fmt.Sprintf("{\"id\":%q,\"tags\":[%q]}\n", caseID(7), tagOf(7)))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	v, err := bench.Verify(root, "fix", bench.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func caseID(i int) string { return fmt.Sprintf("case-%02d", i+1) }

func tagOf(i int) string {
	switch {
	case i == 7:
		return "alone"
	case i%2 == 0:
		return "easy"
	}
	return "hard"
}

// attempt records one attempt at the eight cases in a real ledger and reads it
// back. Edit changes a record, or drops it by returning false.
func attempt(t *testing.T, v *bench.Verified, plan func(*evidence.Plan), edit func(i int, s *evidence.CaseScored) bool) Input {
	t.Helper()
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: "olga", Key: key.Public(), Roles: []seal.Role{seal.Operator}},
		{Principals: "alice", Key: otherKey(t, 8), Roles: []seal.Role{seal.Curator}}, {Principals: "bob", Key: otherKey(t, 9), Roles: []seal.Role{seal.Security}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ledger"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := sequencer.Config{Place: sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state")},
		Origin: "example.com/evals", TrustRoot: digest.IDOf(signers), Key: key, Now: func() time.Time { return now }}
	l, err := sequencer.Create(context.Background(), cfg, signers)
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind evidence.Kind, record evidence.Body) {
		t.Helper()
		if _, err := l.AppendRecord(kind, record); err != nil {
			t.Fatal(err)
		}
	}
	reg := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: "fix.agent.1", Origin: cfg.Origin, Class: "fix", Target: "agent", Number: 1, Mode: "replay", Signature: "s",
		Plan: evidence.Plan{BenchDigest: v.Digest(), RegistrationDigest: v.RegistrationDigest(), TargetDigest: digest.ContentOf([]byte("t")), Repeat: 1}}
	for i := range 8 {
		reg.Plan.Cases = append(reg.Plan.Cases, evidence.PlannedCase{ID: caseID(i), Digest: digest.ContentOf([]byte(caseID(i)))})
	}
	if plan != nil {
		plan(&reg.Plan)
	}
	reg.Plan.CaseCount = len(reg.Plan.Cases)
	add(evidence.AttemptRegisteredKind, reg)
	for i, c := range reg.Plan.Cases {
		s := &evidence.CaseScored{SchemaVersion: 1, Attempt: reg.Attempt, Class: "fix", CaseID: c.ID, Repeat: 1, Execution: 1, CaseDigest: c.Digest, Tags: []string{tagOf(i)},
			HarnessVersion: "1", IsolationClass: "gvisor", IsolationScope: "case", Vantage: "inside", Outcome: evidence.Passed, CostMicroUSD: 100,
			Score:     &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}},
			StartedAt: evidence.At(now), FinishedAt: evidence.At(now.Add(time.Duration(i+1) * time.Second)), EvidenceDigests: []digest.Content{c.Digest}}
		if edit != nil && !edit(i, s) {
			continue
		}
		add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: reg.Attempt, CaseID: c.ID, Repeat: 1, Execution: 1})
		add(evidence.CaseScoredKind, s)
	}
	add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: reg.Attempt, Outcomes: map[evidence.Outcome]int{},
		RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.NewReader(history.Options{}).Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot, Decode: true, Visit: visit})
	})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Bench: v, History: h, Attempt: h.Attempt(reg.Attempt)}
	in.Evidence = evidenceOf(in, func(*history.Case) error { return nil })
	return in
}

// evidenceOf is evidence of which the test says what is missing.
func evidenceOf(in Input, missing func(*history.Case) error) *dossier.Whole {
	return dossier.WholeForTest((&dossier.Reading{History: in.History}).Dossier(in.Attempt), missing)
}

func otherKey(t *testing.T, n byte) seal.PublicKey {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k.Public()
}

func failing(s *evidence.CaseScored, score float64) {
	s.Outcome = evidence.Failed
	s.Score.Passed, s.Score.Score = false, score
}

func breaks(s *evidence.CaseScored) {
	s.Outcome, s.Score, s.Reason = evidence.Errored, nil, "died"
}

func gate(tag string, m bench.Metric, threshold float64) string {
	return fmt.Sprintf("gates:\n  - {tag: %q, metric: %s, threshold: %v}", tag, m, threshold)
}

func TestEachMetricIsMetAndNotMet(t *testing.T) {
	failTwo := func(i int, s *evidence.CaseScored) bool {
		if i < 2 {
			failing(s, 0.5)
			s.Policy.Violations = 1
		}
		return true
	}
	for _, tt := range []struct {
		gate string
		edit func(int, *evidence.CaseScored) bool
		want string // value, met, n, or the reason
	}{
		{gate("*", bench.SolveRate, 0.75), failTwo, "0.75 true 8"},
		{gate("*", bench.SolveRate, 0.7500001), failTwo, "0.75 false 8"},
		{gate("easy", bench.SolveRate, 0.75), failTwo, "0.75 true 4"},
		{gate("hard", bench.SolveRate, 0.75), failTwo, "0.666667 false 3"},
		{gate("alone", bench.SolveRate, 1), failTwo, "1 true 1"},
		{gate("*", bench.MeanScore, 0.875), failTwo, "0.875 true 8"},
		{gate("*", bench.MeanScore, 0.9), failTwo, "0.875 false 8"},
		{gate("*", bench.LowerBound95, 0.67), nil, "0.675592 true 8"},
		{gate("*", bench.LowerBound95, 0.68), nil, "0.675592 false 8"},
		{gate("alone", bench.LowerBound95, 0.1), nil, "0 false 1"},
		{gate("*", bench.CostPerSolve, 134), failTwo, "133.333333 true 8"},
		{gate("*", bench.CostPerSolve, 133), failTwo, "133.333333 false 8"},
		{gate("*", bench.MedianLatencyMS, 5000), nil, "5000 true 8"},
		{gate("*", bench.MedianLatencyMS, 4999), nil, "5000 false 8"},
		{gate("easy", bench.P95LatencyMS, 7000), nil, "7000 true 4"},
		{gate("*", bench.P95LatencyMS, 7999), nil, "8000 false 8"},
		{gate("*", bench.PolicyViolations, 2), failTwo, "2 true 8"},
		{gate("hard", bench.PolicyViolations, 0), failTwo, "1 false 3"},
		{gate("*", bench.EvidenceCoverage, 1), nil, "1 true 8"},

		// What was not measured is not good enough.
		{gate("unheard-of", bench.PolicyViolations, 9), nil, "no case of the attempt has this tag"},
		{gate("alone", bench.PolicyViolations, 9), func(i int, s *evidence.CaseScored) bool {
			if i == 7 {
				breaks(s)
			}
			return true
		}, "no case has a score"},
		{gate("alone", bench.MedianLatencyMS, 900000), func(i int, _ *evidence.CaseScored) bool { return i != 7 }, "no case has a score"},
		{gate("*", bench.CostPerSolve, 900000), func(_ int, s *evidence.CaseScored) bool { failing(s, 0); return true }, "no case was solved"},
		{gate("*", bench.CostPerSolve, 900000), func(i int, s *evidence.CaseScored) bool { s.Unpriced = new(int64(i % 2)); return true }, "the cost is not known: at least $0.000800, 4 calls unpriced; give the model's price in providers.yaml (prices:, with input and output), let replies tell their usage (of a stream: stream_options.include_usage), and record again"},
		{gate("*", bench.CostPerSolve, 900000), func(i int, s *evidence.CaseScored) bool { s.Provenance = "recorded"; return true }, "the cost is not known: at least $0.000800, cost of 8 tasks not all told"},
		{gate("*", bench.EvidenceCoverage, 0), func(_ int, s *evidence.CaseScored) bool { failing(s, 0); return true }, "no case was solved"},

		// One good score must not stand for cases that broke or never ran.
		{gate("*", bench.MeanScore, 0.9), func(i int, s *evidence.CaseScored) bool {
			if i > 0 {
				breaks(s)
			}
			return true
		}, "1 false 8"},
		{gate("*", bench.SolveRate, 0.9), func(i int, _ *evidence.CaseScored) bool { return i == 0 }, "0.125 false 8"},
		{gate("easy", bench.MeanScore, 0.9), func(i int, _ *evidence.CaseScored) bool { return i == 0 || i%2 == 1 || i == 7 }, "1 false 4"},
		{gate("*", bench.LowerBound95, 0.6), func(i int, _ *evidence.CaseScored) bool { return i != 0 }, "0.64567 false 8"},
	} {
		results, err := resultsOf(attempt(t, scratchBench(t, tt.gate), nil, tt.edit))
		if err != nil || len(results) != 1 {
			t.Fatalf("%s: %v, %v", tt.gate, results, err)
		}
		r := results[0]
		got := r.Reason
		if r.Value != nil {
			got = fmt.Sprintf("%s %v %d", plain.Number(*r.Value), r.Met, r.N)
		} else if r.Met || (together(results) == IsMet) {
			t.Errorf("%s: met without a value", tt.gate)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.gate, got, tt.want)
		}
		if r.Met != (together(results) == IsMet) {
			t.Errorf("%s: %v and %v", tt.gate, r.Met, (together(results) == IsMet))
		}
	}
}

// A gate says how many cases may break or have no score; none unless it does, and
// none of those that no gate is about.
func TestAGateAllowsAsManyErrorsAsItSays(t *testing.T) {
	broke := func(n int, o evidence.Outcome) func(int, *evidence.CaseScored) bool {
		return func(i int, s *evidence.CaseScored) bool {
			if i < n {
				breaks(s)
				s.Outcome = o
			}
			return true
		}
	}
	neverRun := func(i int, _ *evidence.CaseScored) bool { return i > 0 }
	for _, tt := range []struct {
		name, gate string
		edit       func(int, *evidence.CaseScored) bool
		met        bool
		says       string
	}{
		{"one errored", `{tag: "*", metric: mean_score, threshold: 0.5}`, broke(1, evidence.Errored), false, "1 errored, were truncated or not run (the gate allows 0)"},
		{"one truncated", `{tag: "*", metric: solve_rate, threshold: 0.5}`, broke(1, evidence.Truncated), false, "the gate allows 0"},
		{"one not run", `{tag: "*", metric: solve_rate, threshold: 0.5}`, neverRun, false, "the gate allows 0"},
		{"one unscored", `{tag: "*", metric: solve_rate, threshold: 0.5}`, broke(1, evidence.Unscored), false, "1 have no score (the gate allows 0)"},
		{"the other allowance", `{tag: "*", metric: solve_rate, threshold: 0.5, max_errors: 9}`, broke(1, evidence.Unscored), false, "1 have no score (the gate allows 0)"},
		{"as many as allowed", `{tag: "*", metric: solve_rate, threshold: 0.5, max_errors: 2}`, broke(2, evidence.Errored), true, "with every task scored it would be 0.75 to 1; 2 errors of at most 2 and 0 unscored of at most 0"},
		{"one more than allowed", `{tag: "*", metric: solve_rate, threshold: 0.5, max_errors: 2}`, broke(3, evidence.Errored), false, "3 errored, were truncated or not run (the gate allows 2)"},
		{"unscored as allowed", `{tag: "*", metric: mean_score, threshold: 0.9, max_unscored: 1}`, broke(1, evidence.Unscored), true, "mean_score of all cases is 1"},
		{"outside of every gate", `{tag: alone, metric: solve_rate, threshold: 1}`, broke(1, evidence.Errored), false, "cases that no gate is about: of its tasks 1 errored"},
	} {
		in := attempt(t, scratchBench(t, "gates:\n  - "+tt.gate), nil, tt.edit)
		d, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, r := range d.Results {
			text = append(text, r.Text())
		}
		if said := strings.Join(text, "; "); d.Met != tt.met || d.By != ByGates || !strings.Contains(said, tt.says) || (d.Err(in.Attempt) == nil) != tt.met {
			t.Errorf("%s: %v by %s: %s", tt.name, d.Met, d.By, said)
		}
	}
}

func TestWithoutGatesEverySelectedCaseMustPass(t *testing.T) {
	in := attempt(t, scratchBench(t, ""), nil, nil)
	if d, err := Decide(in); err != nil || !d.Met || d.By != ByEveryCase || d.Err(in.Attempt) != nil {
		t.Errorf("all passed: %+v, %v", d, err)
	}
	in = attempt(t, scratchBench(t, ""), nil, func(i int, s *evidence.CaseScored) bool {
		if i == 3 {
			failing(s, 0.9)
		}
		return true
	})
	if d, err := Decide(in); err != nil || d.Met || !refusal.Is(d.Err(in.Attempt), refusal.GateNotMet) {
		t.Errorf("one failed: %+v, %v", d, err)
	}
}

// Gates are for the whole class. An attempt that left cases out does not meet them,
// whatever it selected; what it selected must pass.
func TestAFilteredRunDecidesNoGate(t *testing.T) {
	v := scratchBench(t, "gates:\n  - {tag: \"*\", metric: lower_bound_95, threshold: 0.5, max_errors: 1}\n  - {tag: hard, metric: solve_rate, threshold: 1}\n  - {tag: \"*\", metric: policy_violations, threshold: 0, max_errors: 1}")
	some := func(p *evidence.Plan) {
		p.Filtered = true
		p.Cases = []evidence.PlannedCase{p.Cases[0], p.Cases[2]}
	}
	easy := func(edit func(i int, s *evidence.CaseScored)) func(int, *evidence.CaseScored) bool {
		return func(i int, s *evidence.CaseScored) bool {
			s.Tags = []string{"easy"}
			edit(i, s)
			return true
		}
	}
	for _, tt := range []struct {
		name  string
		edit  func(i int, s *evidence.CaseScored)
		state State
		by    string
	}{
		{"both passed", func(int, *evidence.CaseScored) {}, IsNotDecided, BySelection},
		{"one failed", func(i int, s *evidence.CaseScored) {
			if i == 0 {
				failing(s, 0)
			}
		}, IsNotMet, BySelection},
		{"one errored, which the gates allow", func(i int, s *evidence.CaseScored) {
			if i == 0 {
				breaks(s)
			}
		}, IsNotMet, BySelection},
		{"all errored", func(_ int, s *evidence.CaseScored) { breaks(s) }, IsNotMet, ByGates},
		{"a violation", func(i int, s *evidence.CaseScored) { s.Policy.Violations = i }, IsNotMet, ByGates},
	} {
		in := attempt(t, v, some, easy(tt.edit))
		d, err := Decide(in)
		if err != nil || d.State() != tt.state || d.By != tt.by {
			t.Errorf("%s: %+v, %v", tt.name, d, err)
		}
		if run, gate := d.Err(in.Attempt), d.Demand(in.Attempt); (run == nil) != (tt.state == IsNotDecided) || !refusal.Is(gate, refusal.GateNotMet) {
			t.Errorf("%s: run %v, gate %v", tt.name, run, gate)
		}
	}
}

// A selection that fails no more than the gates would allow is good enough for the run,
// and decides no gate.
func TestASelectionMayFailAsTheGatesAllow(t *testing.T) {
	for threshold, state := range map[float64]State{0.5: IsNotDecided, 0.6: IsNotMet} {
		in := attempt(t, scratchBench(t, gate("*", bench.SolveRate, threshold)), func(p *evidence.Plan) {
			p.Filtered, p.Cases = true, p.Cases[:2]
		}, func(i int, s *evidence.CaseScored) bool {
			if i == 0 {
				failing(s, 0)
			}
			return true
		})
		d, err := Decide(in)
		if err != nil || d.State() != state || (d.Err(in.Attempt) == nil) != (state == IsNotDecided) || d.Demand(in.Attempt) == nil {
			t.Errorf("%v: %+v, %v", threshold, d, err)
		}
	}
}

// Whatever a filter leaves out, what is said of the rest is never that the gates are
// met; and what is said to be missed is missed by the whole attempt as well.
func TestWhatAPartSaysIsTrueOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 1))
	metrics := []bench.Metric{bench.SolveRate, bench.MeanScore, bench.LowerBound95, bench.CostPerSolve, bench.P95LatencyMS, bench.PolicyViolations, bench.EvidenceCoverage}
	missed := 0
	for range 60 {
		gates := "gates:"
		for _, m := range r.Perm(len(metrics))[:1+r.IntN(2)] {
			gates += fmt.Sprintf("\n  - {tag: %q, metric: %s, threshold: %d, max_errors: %d, max_unscored: %d}", []string{"*", "easy", "hard", "alone"}[r.IntN(4)], metrics[m], r.IntN(2), 1+r.IntN(3), 1+r.IntN(3))
		}
		v := scratchBench(t, gates)
		var kinds, violations [8]int
		keep, left := [8]bool{}, 0
		for i := range kinds {
			kinds[i], violations[i], keep[i] = r.IntN(6), r.IntN(12)/11, r.IntN(3) > 0
			if !keep[i] {
				left++
			}
		}
		edit := func(_ int, s *evidence.CaseScored) bool {
			i := int(s.CaseID[len(s.CaseID)-1]-'0') - 1
			s.Tags, s.Policy.Violations = []string{tagOf(i)}, violations[i]
			switch kinds[i] {
			case 0:
				failing(s, 0.5)
			case 1:
				breaks(s)
			case 2:
				breaks(s)
				s.Outcome = evidence.Unscored
			}
			return true
		}
		whole, err := Decide(attempt(t, v, nil, edit))
		if err != nil {
			t.Fatal(err)
		}
		if left == 0 || left == 8 {
			continue
		}
		part, err := Decide(attempt(t, v, func(p *evidence.Plan) {
			p.Filtered = true
			p.Cases = slices.DeleteFunc(p.Cases, func(c evidence.PlannedCase) bool { return !keep[int(c.ID[len(c.ID)-1]-'0')-1] })
		}, edit))
		if err != nil {
			t.Fatal(err)
		}
		if part.Met {
			t.Fatalf("%s\n%d cases were left out, and it is met: %+v", gates, left, part)
		}
		for _, g := range part.Results {
			if g.State() == IsNotMet && implied[g.Metric] == "" {
				if missed++; whole.State() != IsNotMet {
					t.Fatalf("%s\nof a part it is said that %s; the whole is %s", gates, g.Text(), whole.Text())
				}
			}
		}
	}
	if missed < 10 {
		t.Errorf("only %d gates were missed by a part: the test tries too little", missed)
	}
}

// Running only the cases that pass does not pass the gate.
func TestAFilteredAttemptDoesNotPassAGateOnWhatItLeftOut(t *testing.T) {
	v := scratchBench(t, "gates:\n  - {tag: \"*\", metric: solve_rate, threshold: 0.5}\n  - {tag: easy, metric: solve_rate, threshold: 0.5}\n  - {tag: hard, metric: solve_rate, threshold: 0.5}")
	in := attempt(t, v, func(p *evidence.Plan) {
		p.Filtered = true
		p.Cases = []evidence.PlannedCase{p.Cases[0], p.Cases[2], p.Cases[4], p.Cases[6]}
	}, func(_ int, s *evidence.CaseScored) bool { s.Tags = []string{"easy"}; return true })
	results, err := resultsOf(in)
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Met || r.Reason != "4 cases of the bench were not in the attempt" {
		t.Errorf("all: %+v", r)
	}
	if r := results[1]; !r.Met || r.N != 4 {
		t.Errorf("easy: %+v", r)
	}
	if r := results[2]; r.State() != IsNotDecided || r.Reason != "3 cases of the bench were not in the attempt" {
		t.Errorf("hard: %+v", r)
	}
}

func TestDecideRefusesAnotherRegistration(t *testing.T) {
	v := scratchBench(t, gate("*", bench.SolveRate, 0.9))
	softer := digest.ContentOf([]byte("softer"))
	_, err := resultsOf(attempt(t, v, func(p *evidence.Plan) { p.RegistrationDigest = softer }, nil))
	if !refusal.Is(err, refusal.BenchChanged) || !strings.Contains(err.Error(), softer.String()) || !strings.Contains(err.Error(), v.RegistrationDigest().String()) ||
		!strings.Contains(refusal.Of(err).Hint, "tally run fix") {
		t.Errorf("%v", err)
	}
	easier := digest.IDOf([]byte("easier cases"))
	_, err = resultsOf(attempt(t, v, func(p *evidence.Plan) { p.BenchDigest = easier }, nil))
	if !refusal.Is(err, refusal.BenchChanged) || !strings.Contains(err.Error(), easier.String()) || !strings.Contains(err.Error(), v.Digest().String()) {
		t.Errorf("an attempt at easier cases: %v", err)
	}
	in := attempt(t, v, func(p *evidence.Plan) { p.BenchDigest = easier }, nil)
	in.AcrossBenches = true
	if results, err := resultsOf(in); err != nil || len(results) != 1 {
		t.Errorf("across benches: %v, %v", results, err)
	}
}

func TestAClassWithoutGatesIsRefused(t *testing.T) {
	if err := Gated(scratchBench(t, "")); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("%v", err)
	}
	if err := Gated(scratchBench(t, gate("*", bench.SolveRate, 1))); err != nil {
		t.Errorf("%v", err)
	}
}

func TestMissingEvidenceIsCountedAndUnreadEvidenceIsNot(t *testing.T) {
	in := attempt(t, scratchBench(t, gate("*", bench.EvidenceCoverage, 1)), nil, nil)
	in.Evidence = evidenceOf(in, func(c *history.Case) error {
		if c.ID == caseID(3) {
			return refusal.Newf(refusal.DigestMismatch, "changed")
		}
		return nil
	})
	results, err := resultsOf(in)
	if err != nil || results[0].Met || *results[0].Value != 0.875 {
		t.Errorf("%+v, %v", results, err)
	}
	in.Evidence = nil
	if _, err := resultsOf(in); err == nil || !strings.Contains(err.Error(), "the evidence was not looked for") {
		t.Errorf("%v", err)
	}
}

// An attempt with a record of every case tells its bench, so its gates can be
// evaluated again when cases have changed since. One without does not.
func TestAPlanWithEveryRecordTellsItsBench(t *testing.T) {
	v := scratchBench(t, gate("hard", bench.SolveRate, 0.5))
	before := digest.IDOf([]byte("cases of before"))
	again := func(bench digest.ID, edit func(i int, s *evidence.CaseScored) bool) ([]Result, error) {
		in := attempt(t, v, func(p *evidence.Plan) { p.BenchDigest = bench }, edit)
		in.PlanIsBench = true
		return resultsOf(in)
	}
	want, err := resultsOf(attempt(t, v, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again(before, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	missing := func(i int, _ *evidence.CaseScored) bool { return i != 3 }
	if _, err := again(before, missing); !refusal.Is(err, refusal.BenchChanged) {
		t.Errorf("without a record: %v", err)
	}
	// The same bench tells the tags of a case without a record.
	want, err = resultsOf(attempt(t, v, nil, missing))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again(v.Digest(), missing); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// resultsOf are those of a decision.
func resultsOf(in Input) ([]Result, error) {
	d, err := Decide(in)
	if err != nil {
		return nil, err
	}
	return d.Results, nil
}

// Every surface has its word from the state, and every state of a report its colour.
func TestReportsAreGreenExactlyIfTheCommandIs(t *testing.T) {
	passed, failed := Row{ID: "a", Outcome: evidence.Passed}, Row{ID: "b", Outcome: evidence.Failed}
	met, missed, open := Result{Tag: "*", Metric: bench.SolveRate, Met: true}, Result{Tag: "*", Metric: bench.P95LatencyMS}, Result{Tag: "*", Metric: bench.MeanScore, Undecided: true}
	for _, tt := range []struct {
		name string
		r    Report
		red  bool
	}{
		{"all well", Report{Cases: []Row{passed}, Gates: []Result{met}}, false},
		{"a failed case that the gates take", Report{Cases: []Row{passed, failed}, Gates: []Result{met}}, false},
		{"a gate that no case shows", Report{Cases: []Row{passed}, Gates: []Result{met, missed}}, true},
		{"not decided, in a run", Report{Cases: []Row{passed}, Gates: []Result{met, open}}, false},
		{"not decided, in a gate", Report{Cases: []Row{passed}, Gates: []Result{met, open}, Refused: true}, true},
		{"a failed selected case", Report{Cases: []Row{failed}, Gates: []Result{open, {Tag: "*", Metric: Selection}}}, true},
		{"a failed selected case that the gates allow", Report{Cases: []Row{failed}, Gates: []Result{open, {Tag: "*", Metric: Selection, Met: true}}}, false},
		{"a level that is wanting", Report{Cases: []Row{passed}, Gates: []Result{met}, Refused: true, LevelWanting: "it is scratch"}, true},
		{"nothing", Report{}, true},
	} {
		var junit, tap bytes.Buffer
		if err := WriteJUnit(&junit, tt.r); err != nil {
			t.Fatal(err)
		}
		if err := WriteTAP(&tap, tt.r); err != nil {
			t.Fatal(err)
		}
		inJUnit := strings.Contains(junit.String(), "<failure") || strings.Contains(junit.String(), "<error")
		inTAP := false
		for line := range strings.Lines(tap.String()) {
			inTAP = inTAP || strings.HasPrefix(line, "not ok") && !strings.Contains(line, "# TODO")
		}
		if inJUnit != tt.red || inTAP != tt.red {
			t.Errorf("%s: JUnit red %v, TAP red %v\n%s%s", tt.name, inJUnit, inTAP, junit.String(), tap.String())
		}
	}
}
