package history

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/historytest"
)

// outcomesOf lists the effective outcome of every task, by case and repetition.
func outcomesOf(a *Attempt) map[string]evidence.Outcome {
	m := make(map[string]evidence.Outcome)
	for c := range a.Cases() {
		m[c.ID+"/"+string(rune('0'+c.Repeat))] = c.Effective()
	}
	return m
}

func wantOutcome(t *testing.T, a *Attempt, task string, want evidence.Outcome) {
	t.Helper()
	if got := outcomesOf(a)[task]; got != want {
		t.Errorf("%s %s is %q, want %q; problems %q", a.ID, task, got, want, a.Problems)
	}
}

func TestEveryPlannedCaseIsInTheDenominator(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 5, 1)
	b.Run(r, 1, 0, -1, 1, -1)
	a := read(b, Options{}).Attempt(r.Attempt)
	if a.Tasks() != 5 || a.Executions != 3 || a.Records != 3 || a.Passed != 2 || a.Excluded != 0 || len(a.Problems) != 0 || !a.Listed {
		t.Errorf("tasks %d, executions %d, records %d, passed %d, excluded %d, problems %q", a.Tasks(), a.Executions, a.Records, a.Passed, a.Excluded, a.Problems)
	}
	wantOutcome(t, a, "case-01/1", evidence.Passed)
	wantOutcome(t, a, "case-02/1", evidence.Failed)
	wantOutcome(t, a, "case-03/1", NotRun)
	wantOutcome(t, a, "case-05/1", NotRun)
}

func TestReadKeepsWhatTheRecordSays(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
	cassette := historytest.ContentOf("tape")
	r.Plan.Cases[0].Cassette = &cassette
	b.Register(r)
	s := historytest.Score(r, 0, 1, 0.5)
	s.CassetteDigest, s.Tags, s.Provenance = &cassette, []string{"easy", "npm"}, "recorded"
	s.Policy = evidence.PolicyCount{Violations: 2, Rollbacks: 3, RollbacksVerified: 1}
	s.Retries, s.Unpriced = 4, new(int64(2))
	index := b.Case(r, s)
	a := read(b, Options{}).Attempt(r.Attempt)
	for c := range a.Cases() {
		if c.Index != index || c.Digest != s.CaseDigest || c.Score != 0.5 || c.Tokens != 1000 || c.Cost != cost.Of(300, 2) || c.LatencyMS != 100 || c.Retries != 4 || c.Turns != 2 ||
			c.Violations != 2 || c.Rollbacks != 3 || c.RollbacksVerified != 1 || *c.Cassette != cassette || c.Outcome() != evidence.Failed ||
			!slices.Equal(c.Tags(), s.Tags) || !slices.Equal(c.FailureModes(), s.Score.FailureModes) || !slices.Equal(c.Evidence, s.EvidenceDigests) ||
			c.Context.Isolation != "gvisor" || c.Context.Provenance != "recorded" || c.Context.Operator != r.Operator {
			t.Errorf("%+v %+v", c, c.Context)
		}
	}
	if a.Finished != nil {
		t.Error("the attempt is not finished")
	}
}

// Each row is a way to bring a good record in that was not earned.
func TestRecordsThatDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, fault string
		write       func(b *historytest.Book, r *evidence.AttemptRegistered)
		want        evidence.Outcome
	}{
		{"a better second record of the same repetition", "scored twice", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Case(r, historytest.Score(r, 0, 1, 0))
			again := historytest.Score(r, 0, 1, 1)
			again.Execution = 2
			b.Case(r, again)
		}, evidence.Failed},
		{"a record that was never started", "never started", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Add(evidence.CaseScoredKind, historytest.Score(r, 0, 1, 1))
		}, NotRun},
		{"a record of an execution that was never started", "never started", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Start(r, 0, 1, 1)
			s := historytest.Score(r, 0, 1, 1)
			s.Execution = 2
			b.Add(evidence.CaseScoredKind, s)
		}, NotRun},
		{"a record after the end", "scored late", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Start(r, 0, 1, 1)
			b.Finish(r)
			b.Add(evidence.CaseScoredKind, historytest.Score(r, 0, 1, 1))
		}, NotRun},
		{"an easier case under the same name", "not as planned", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			s := historytest.Score(r, 0, 1, 1)
			s.CaseDigest = historytest.ContentOf("easy")
			b.Case(r, s)
		}, NotRun},
		{"a swapped recording", "not as planned", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			s := historytest.Score(r, 0, 1, 1)
			other := historytest.ContentOf("another tape")
			s.CassetteDigest = &other
			b.Case(r, s)
		}, NotRun},
		{"no recording where one was planned", "not as planned", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			s := historytest.Score(r, 0, 1, 1)
			s.CassetteDigest = nil
			b.Case(r, s)
		}, NotRun},
		{"an unplanned case", "not planned", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Case(r, historytest.Score(r, 0, 1, 0))
			b.Case(r, historytest.Score(r, 7, 1, 1))
		}, evidence.Failed},
		{"an unplanned repetition", "not planned", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Case(r, historytest.Score(r, 0, 1, 0))
			b.Case(r, historytest.Score(r, 0, 2, 1))
		}, evidence.Failed},
		{"a record of another class", "of another class", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			s := historytest.Score(r, 0, 1, 1)
			s.Class = "other"
			b.Case(r, s)
		}, NotRun},
		{"a record that a person appended", "", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Start(r, 0, 1, 1)
			b.ByHand(evidence.CaseScoredKind, historytest.Score(r, 0, 1, 1))
		}, NotRun},
		{"a record before its start", "never started", func(b *historytest.Book, r *evidence.AttemptRegistered) {
			b.Add(evidence.CaseScoredKind, historytest.Score(r, 0, 1, 1))
			b.Start(r, 0, 1, 1)
		}, NotRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := historytest.New(t)
			r := historytest.Registration("repo-fix.agent.1", "agent", 1, 2, 1)
			tape := historytest.ContentOf("tape")
			r.Plan.Cases[0].Cassette = &tape
			b.Register(r)
			tt.write(b, r)
			a := read(b, Options{}).Attempt(r.Attempt)
			wantOutcome(t, a, "case-01/1", tt.want)
			if a.Tasks() != 2 {
				t.Errorf("%d tasks, planned were 2", a.Tasks())
			}
			if tt.fault != "" && a.Faults()[tt.fault] == 0 {
				t.Errorf("faults %v, want %q", a.Faults(), tt.fault)
			}
		})
	}
}

func TestAbandonedExecutionsAreCounted(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 2, 1)
	b.Register(r)
	b.Start(r, 0, 1, 1) // looked, and killed the run
	b.Start(r, 0, 1, 2)
	s := historytest.Score(r, 0, 1, 1)
	s.Execution = 3
	b.Case(r, s)
	b.Start(r, 1, 1, 1)
	a := read(b, Options{}).Attempt(r.Attempt)
	if a.Executions != 4 || a.Abandoned != 3 || a.Excluded != 0 {
		t.Errorf("executions %d, abandoned %d, excluded %d; want 4, 3, 0", a.Executions, a.Abandoned, a.Excluded)
	}
	// The same is counted when the records are not kept.
	a = read(b, Options{Want: func(*Attempt) bool { return false }}).Attempt(r.Attempt)
	if a.Executions != 4 || a.Abandoned != 3 || a.Passed != 1 || a.Kept {
		t.Errorf("not kept: executions %d, abandoned %d, passed %d", a.Executions, a.Abandoned, a.Passed)
	}
}

func TestAttemptsOfAPlanAreCounted(t *testing.T) {
	b := historytest.New(t)
	for i := 1; i <= 3; i++ {
		b.Run(historytest.Registration("repo-fix.agent."+string(rune('0'+i)), "agent", i, 1, 1), 0)
	}
	other := historytest.Registration("repo-fix.agent.4", "agent", 4, 1, 1)
	other.Plan.TargetDigest = historytest.ContentOf("tuned")
	b.Run(other, 1)
	b.Run(historytest.Registration("repo-fix.rival.5", "rival", 5, 1, 1), 1)
	// A forger counts from one again.
	b.Run(historytest.Registration("repo-fix.agent.x", "agent", 1, 1, 1), 1)
	// The class is counted over all targets, and a renamed target that begins at
	// one again is found out.
	again := historytest.Registration("repo-fix.again.7", "again", 7, 1, 1)
	again.Plan.TargetDigest = historytest.Registration("x", "rival", 1, 1, 1).Plan.TargetDigest
	b.Run(again, 1)
	b.Run(historytest.Registration("repo-fix.renamed.1", "renamed", 1, 1, 1), 1)
	h := read(b, Options{})
	for _, tt := range []struct {
		id           string
		k, n, pk, pn int
		numbered     bool
	}{
		{"repo-fix.agent.2", 2, 8, 2, 4, true},
		{"repo-fix.agent.4", 4, 8, 1, 1, true},
		{"repo-fix.rival.5", 5, 8, 1, 2, true},
		{"repo-fix.agent.x", 6, 8, 4, 4, false},
		{"repo-fix.again.7", 7, 8, 2, 2, true},
		{"repo-fix.renamed.1", 8, 8, 1, 1, false},
	} {
		a := h.Attempt(tt.id)
		if a.Ordinal != tt.k || a.Siblings != tt.n || a.PlanOrdinal != tt.pk || a.PlanSiblings != tt.pn || (a.Faults()["numbered wrongly"] == 0) != tt.numbered {
			t.Errorf("%s is %d of %d, of its plan %d of %d, problems %q", tt.id, a.Ordinal, a.Siblings, a.PlanOrdinal, a.PlanSiblings, a.Problems)
		}
	}
}

func TestAmendmentsMayLowerAndNeverRaise(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 5, 1)
	at := b.Run(r, 1, 0, 1, 1, 0.5)
	amend := func(entry int64, pass bool, value float64) *evidence.ScoreAmended {
		return &evidence.ScoreAmended{Entry: entry, Author: "alice", Reason: "looked again",
			Score: evidence.Score{Passed: pass, Score: value, Breakdown: map[string]float64{}, FailureModes: []string{}}}
	}
	b.Add(evidence.ScoreAmendedKind, amend(at[0], false, 0.25))
	b.Add(evidence.ScoreAmendedKind, amend(at[1], true, 1))
	b.Add(evidence.ScoreAmendedKind, amend(at[2], false, 0))
	b.Add(evidence.ScoreAmendedKind, amend(at[2], true, 1)) // the mistake taken back
	b.ByHand(evidence.ScoreAmendedKind, amend(at[3], false, 0))
	b.Add(evidence.ScoreAmendedKind, amend(at[4], false, 0.75))
	b.Add(evidence.ScoreAmendedKind, amend(0, true, 1))
	a := read(b, Options{}).Attempt(r.Attempt)
	want := []struct {
		outcome evidence.Outcome
		score   float64
		raises  bool
	}{{evidence.Failed, 0.25, false}, {evidence.Failed, 0, true}, {evidence.Passed, 1, false}, {evidence.Passed, 1, false}, {evidence.Failed, 0.5, true}}
	i := 0
	for c := range a.Cases() {
		if c.Effective() != want[i].outcome || c.EffectiveScore() != want[i].score || c.Raises() != want[i].raises {
			t.Errorf("%s: %s %v, raises %v; want %+v", c.ID, c.Effective(), c.EffectiveScore(), c.Raises(), want[i])
		}
		i++
	}
}

// TestUnscoredRecordGetsItsFirstScore: for scorecards and gates, and only from an
// amendment that says so; the record stays what promotion goes by.
func TestUnscoredRecordGetsItsFirstScore(t *testing.T) {
	amend := func(entry int64, fills bool, value float64) *evidence.ScoreAmended {
		return &evidence.ScoreAmended{Entry: entry, Author: "alice", Reason: "the judge was down", Fills: fills,
			Score: evidence.Score{Passed: value >= 0.5, Score: value, Breakdown: map[string]float64{}, FailureModes: []string{}}}
	}
	for _, tt := range []struct {
		name    string
		outcome evidence.Outcome
		fills   []bool
		values  []float64
		want    evidence.Outcome
		score   float64
	}{
		{"an old amendment", evidence.Unscored, []bool{false}, []float64{1}, evidence.Unscored, 0},
		{"filled in", evidence.Unscored, []bool{true}, []float64{0.75}, evidence.Passed, 0.75},
		{"asked again until it is better", evidence.Unscored, []bool{true, true}, []float64{0.25, 1}, evidence.Failed, 0.25},
		{"lowered", evidence.Unscored, []bool{true, false}, []float64{0.75, 0.25}, evidence.Failed, 0.25},
		{"an error", evidence.Errored, []bool{true}, []float64{1}, evidence.Errored, 0},
		{"truncated", evidence.Truncated, []bool{true}, []float64{1}, evidence.Truncated, 0},
	} {
		b := historytest.New(t)
		r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
		b.Register(r)
		b.Start(r, 0, 1, 1)
		entry := b.Add(evidence.CaseScoredKind, historytest.UnscoredCase(r, 0, 1, tt.outcome))
		for i, fills := range tt.fills {
			b.Add(evidence.ScoreAmendedKind, amend(entry, fills, tt.values[i]))
		}
		for c := range read(b, Options{}).Attempt(r.Attempt).Cases() {
			if c.Effective() != tt.want || c.EffectiveScore() != tt.score || c.Uncorrected() != tt.outcome || c.WasScored() || c.IsScored() != (tt.want == evidence.Passed || tt.want == evidence.Failed) {
				t.Errorf("%s: %s %v, without corrections %s; want %s %v", tt.name, c.Effective(), c.EffectiveScore(), c.Uncorrected(), tt.want, tt.score)
			}
		}
	}
}

func TestACaseListInTheEvidence(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 4, 2)
	cases := r.Plan.Cases
	data, err := canon.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	d := digest.ContentOf(data)
	r.Plan.Cases, r.Plan.CasesDigest = nil, &d
	b.Run(r, 1, 0)
	a := read(b, Options{CaseList: func(got digest.Content) ([]byte, error) {
		if got != d {
			t.Errorf("asked for %s", got)
		}
		return data, nil
	}}).Attempt(r.Attempt)
	if a.Tasks() != 8 || !a.Listed || a.Unlisted() != 0 {
		t.Errorf("%d tasks, listed %v, problems %q", a.Tasks(), a.Listed, a.Problems)
	}
	wantOutcome(t, a, "case-01/2", NotRun)

	for name, find := range map[string]func(digest.Content) ([]byte, error){
		"no list":        nil,
		"missing":        func(digest.Content) ([]byte, error) { return nil, errors.New("not there") },
		"cut to an easy": func(digest.Content) ([]byte, error) { return historytest.Marshal(t, cases[:1]), nil },
		"cut off":        func(digest.Content) ([]byte, error) { return data[:len(data)-1], nil },
		"a case twice": func(digest.Content) ([]byte, error) {
			return historytest.Marshal(t, []evidence.PlannedCase{cases[0], cases[0], cases[1], cases[2]}), nil
		},
		"not canonical": func(digest.Content) ([]byte, error) { return append(data, '\n'), nil },
	} {
		a := read(b, Options{CaseList: find}).Attempt(r.Attempt)
		if a.Tasks() != 8 || a.Listed || a.Unlisted() != 6 || a.Faults()["case list"] != 1 {
			t.Errorf("%s: %d tasks, %d unlisted, problems %q", name, a.Tasks(), a.Unlisted(), a.Problems)
		}
	}
}

func TestReadReturnsNothingOfALedgerThatDoesNotVerify(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1), 1)
	broken := errors.New("chain broken")
	h, err := NewReader(Options{}).Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		if _, err := b.Verify(visit); err != nil {
			t.Fatal(err)
		}
		return nil, broken
	})
	if h != nil || !errors.Is(err, broken) {
		t.Errorf("%v, %v", h, err)
	}
	// Nor of entries that are not those that were verified.
	if _, err := NewReader(Options{}).Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return b.Verify(func(r ledger.Record) error {
			if r.Envelope.Kind == evidence.CaseScoredKind {
				return nil
			}
			return visit(r)
		})
	}); err == nil || !strings.Contains(err.Error(), "not those of the verified ledger") {
		t.Errorf("a walk that left entries out: %v", err)
	}
}

func TestLevels(t *testing.T) {
	var original *Attempt // as it was when it had finished
	results := historytest.ContentOf("results")
	reproduction := func(t *testing.T, n byte, edit func(*evidence.AttemptReproduced)) *evidence.AttemptReproduced {
		x := &evidence.AttemptReproduced{Attempt: "repo-fix.agent.2", Original: original.ID, Origin: historytest.Origin, Agrees: true, Operator: digest.IDOf([]byte{n}),
			Registered: &original.Head, Finished: &original.Finished.Head, Results: &results}
		if edit != nil {
			edit(x)
		}
		message, err := canon.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := seal.SignWith(historytest.Key(t, n).Signer(), seal.NamespaceAttempt, message)
		if err != nil {
			t.Fatal(err)
		}
		x.Signature = string(sig)
		return x
	}
	disagrees := func(x *evidence.AttemptReproduced) { x.Agrees, x.Divergence = false, "case-01: turn 2" }
	for _, tt := range []struct {
		name     string
		register func(t *testing.T, r *evidence.AttemptRegistered)
		cosigned []int64 // sizes, relative to the registration's index
		after    func(t *testing.T, b *historytest.Book)
		want     Level
	}{
		{"signed by the operator", nil, nil, nil, Signed},
		{"scratch says so itself", func(t *testing.T, r *evidence.AttemptRegistered) { r.Scratch = true; r.Signature = "none" }, nil, nil, Scratch},
		{"signed by a curator", func(t *testing.T, r *evidence.AttemptRegistered) { historytest.Sign(t, r, historytest.Alice) }, nil, nil, Scratch},
		{"signed by a stranger", func(t *testing.T, r *evidence.AttemptRegistered) { historytest.Sign(t, r, 9) }, nil, nil, Scratch},
		{"changed after it was signed", func(t *testing.T, r *evidence.AttemptRegistered) {
			historytest.Sign(t, r, historytest.Olga)
			r.Plan.Filtered = true
		}, nil, nil, Scratch},
		{"registered for another ledger", func(t *testing.T, r *evidence.AttemptRegistered) {
			r.Origin = "example.com/other"
			historytest.Sign(t, r, historytest.Olga)
		}, []int64{1}, nil, Scratch},
		{"cosigned after the registration", nil, []int64{1}, nil, Witnessed},
		{"cosigned before the registration", nil, []int64{0}, nil, Signed},
		{"cosigned after the first case", nil, []int64{2, 3}, nil, Signed},
		{"an entry claims a cosignature", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AnchorPublishedKind, &evidence.AnchorPublished{Date: "2026-05-11", Size: 2, Root: "x", Witnesses: []string{"w.example"}})
		}, Signed},
		{"reproduced by another operator", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, nil))
		}, Reproduced},
		{"reproduced by the same key", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Olga, nil))
		}, Signed},
		{"reproduced by an unknown key", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, 9, nil))
		}, Signed},
		{"reproduced by a curator", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Alice, nil))
		}, Signed},
		{"an agreement appended by hand", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.ByHand(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, nil))
		}, Signed},
		{"a disagreement rewritten", nil, nil, func(t *testing.T, b *historytest.Book) {
			x := reproduction(t, historytest.Rita, disagrees)
			x.Agrees, x.Divergence = true, ""
			b.Add(evidence.AttemptReproducedKind, x)
		}, Signed},
		{"agreed, then disagreed", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, nil))
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, disagrees))
		}, Signed},
		{"disagreed, then agreed", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, disagrees))
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, nil))
		}, Signed},
		{"reproduced for another ledger", nil, nil, func(t *testing.T, b *historytest.Book) {
			b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, func(x *evidence.AttemptReproduced) { x.Origin = "example.com/other" }))
		}, Signed},
		{"reproduced and scratch", func(t *testing.T, r *evidence.AttemptRegistered) { r.Scratch = true; r.Signature = "none" }, []int64{1},
			func(t *testing.T, b *historytest.Book) {
				b.Add(evidence.AttemptReproducedKind, reproduction(t, historytest.Rita, nil))
			}, Scratch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := historytest.New(t)
			r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
			if tt.register != nil {
				tt.register(t, r)
			}
			index := b.Register(r)
			b.Case(r, historytest.Score(r, 0, 1, 1))
			b.Finish(r)
			original = read(b, Options{}).Attempt(r.Attempt)
			if tt.after != nil {
				tt.after(t, b)
			}
			var cosigned []Cosigned
			for _, size := range tt.cosigned {
				cosigned = append(cosigned, Cosigned{Size: index + size, Witnesses: []string{"w.example"}})
			}
			o := Options{Cosigned: func(*ledger.Verified) ([]Cosigned, error) { return cosigned, nil }}
			if a := read(b, o).Attempt(r.Attempt); a.Level != tt.want {
				t.Errorf("level %s, want %s; problems %q", a.Level, tt.want, a.Problems)
			}
		})
	}
}

func TestRecordsOfNoAttemptAreOrphans(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 1, 1)
	b.Case(r, historytest.Score(r, 0, 1, 1)) // before it is registered
	b.Finish(r)
	b.Run(r, 0)
	b.Register(r) // and once more
	h := read(b, Options{})
	if h.Orphans != 4 || len(h.Attempts) != 1 {
		t.Errorf("%d orphans, %d attempts", h.Orphans, len(h.Attempts))
	}
	wantOutcome(t, h.Attempt(r.Attempt), "case-01/1", evidence.Failed)
	if h.Attempt(r.Attempt).Faults()["registered twice"] != 1 {
		t.Errorf("problems %q", h.Attempt(r.Attempt).Problems)
	}
}

// Deleting a verdict to roll again shows in the number of the next draw, and a
// number that hides it is noticed.
func TestDrawsOfAJudgeAreCountedAcrossAttempts(t *testing.T) {
	b := historytest.New(t)
	one, two := historytest.Registration("repo-fix.default.1", "default", 1, 2, 1), historytest.Registration("repo-fix.default.2", "default", 2, 2, 1)
	draw := func(r *evidence.AttemptRegistered, caseID, key string, n int) {
		b.Add(evidence.JudgeDrawnKind, &evidence.JudgeDrawn{Attempt: r.Attempt, CaseID: caseID, Draw: n, Key: key, Verdict: historytest.ContentOf("%s %s %d", caseID, key, n)})
	}
	b.Register(one)
	draw(one, "case-01", "k", 1)
	draw(one, "case-02", "k", 1)
	b.ByHand(evidence.JudgeDrawnKind, &evidence.JudgeDrawn{Attempt: one.Attempt, CaseID: "case-01", Draw: 2, Key: "k", Verdict: historytest.ContentOf("by hand")})
	b.Finish(one)
	b.Register(two)
	draw(two, "case-01", "k", 2)
	draw(two, "case-01", "l", 1)
	draw(two, "case-02", "k", 1) // the second, and says that it is the first
	b.Finish(two)
	h := read(b, Options{})
	for id, want := range map[string][3]int{one.Attempt: {2, 0, 0}, two.Attempt: {3, 2, 1}} {
		a := h.Attempt(id)
		if got := [3]int{a.Draws, a.Redraws, a.Faults()["numbered wrongly"]}; got != want {
			t.Errorf("%s: draws, redraws, faults are %v, want %v", id, got, want)
		}
	}
}
