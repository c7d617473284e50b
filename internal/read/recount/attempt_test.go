package recount

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/testing/historytest"
)

// pieces is evidence in memory.
type pieces map[digest.Content][]byte

func (p pieces) put(data []byte) digest.Content {
	d := digest.ContentOf(data)
	p[d] = data
	return d
}

func (p pieces) read(d digest.Content) ([]byte, error) {
	if data, ok := p[d]; ok {
		return data, nil
	}
	return nil, refusal.Newf(refusal.NotFound, "no evidence %s", d)
}

// witness makes the evidence of a record: a trajectory of one turn with one
// model call that says what the record says, and its index.
func (p pieces) witness(t *testing.T, s *evidence.CaseScored) {
	t.Helper()
	log := trajectory.NewLog()
	say := func(turn int, e trajectory.Payload) {
		t.Helper()
		if _, err := log.Append(turn, e, time.Duration(log.Len())*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	output := trajectory.NewContent([]byte("done"), trajectory.ResultHead)
	say(0, &trajectory.RunStarted{Attempt: s.Attempt, Case: s.CaseID, Class: s.Class, Target: "agent", Repeat: s.Repeat, Execution: s.Execution,
		Format: trajectory.Format, Governance: 1})
	for turn := 1; turn <= s.Turns; turn++ {
		say(turn, &trajectory.TurnStarted{Agent: "main"})
	}
	say(s.Turns, &trajectory.ModelCallStarted{Call: "c1", Messages: 1, Model: "m", Provider: "p", Prompt: output})
	say(s.Turns, &trajectory.ModelCallCompleted{Call: "c1", CostMicroUSD: s.CostMicroUSD, FinishReason: "stop", Output: output, Source: "cassette",
		TokensIn: s.Tokens - 1, TokensOut: 1})
	for range s.Policy.Violations {
		say(s.Turns, &trajectory.PolicyViolation{Call: "c1", Rule: "r", Text: "no"})
	}
	say(s.Turns, &trajectory.RunCompleted{Status: "completed"})
	grading := p.put(historytest.Marshal(t, map[string]any{"v": format.Version, "passed": s.Score.Passed, "score": s.Score.Score, "failure_modes": s.Score.FailureModes, "breakdown": map[string]any{}, "checks": []any{}}))
	files := &evidence.CaseFiles{Version: format.Version, Trajectory: evidence.TrajectoryFile{Digest: p.put(log.Bytes()), Head: log.Head()}, Grading: &grading}
	s.EvidenceDigests = []digest.Content{p.put(historytest.Marshal(t, files))}
}

// honest writes an attempt as the harness does, with edits of its end and of
// its second record, and returns it.
func honest(t *testing.T, p pieces, finish func(*evidence.AttemptFinished), record func(*evidence.CaseScored)) (*historytest.Book, *evidence.AttemptRegistered) {
	t.Helper()
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1)
	tape, rubric := historytest.ContentOf("tape"), historytest.ContentOf("rubric")
	r.Plan.Cases[0].Cassette = &tape
	b.Register(r)
	for i, v := range []float64{1, 0.25} {
		s := historytest.Score(r, i, 1, v)
		s.RubricDigest = &rubric
		if i == 0 {
			s.CassetteDigest = &tape
		} else {
			s.Policy.Violations = 1
		}
		p.witness(t, s)
		if i == 1 && record != nil {
			record(s)
		}
		b.Case(r, s)
	}
	mean := 0.625
	f := &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{evidence.Passed: 1, evidence.Failed: 1},
		CaseDigests: listDigest(t, historytest.ContentOf("case %d", 0), historytest.ContentOf("case %d", 1), historytest.ContentOf("case %d", 2)), RubricDigests: []digest.Content{rubric},
		CassetteDigests: listDigest(t, tape), ImageDigests: []digest.Content{}, MeanScore: &mean, FailureModes: []string{"tests.failed"}, CostMicroUSD: 600, RuntimeMS: 5}
	if finish != nil {
		finish(f)
	}
	b.Add(evidence.AttemptFinishedKind, f)
	return b, r
}

func listDigest(t *testing.T, ds ...digest.Content) digest.Content {
	t.Helper()
	return digest.ContentOf(historytest.Marshal(t, history.SetOf(ds)))
}

func TestRecomputeAgreesWithAnHonestAttempt(t *testing.T) {
	p := pieces{}
	b, r := honest(t, p, nil, nil)
	h := read(b, history.Options{})
	got, err := Attempt(h.Attempt(r.Attempt), p.read)
	if err != nil || got.Err() != nil {
		t.Fatalf("%v, %v", err, got.Err())
	}
	// The plan, 9 numbers of the end, 15 of each record.
	if got.Checked != 1+9+2*15 || len(got.Unchecked) != 0 {
		t.Errorf("%d numbers, unchecked %q", got.Checked, got.Unchecked)
	}
}

// A record that names another case or cassette than was planned is found by who
// counts again, whatever the end of the attempt says: its sets are those of the
// plan.
func TestRecomputeFindsRecordsThatAreNotOfThePlan(t *testing.T) {
	other := historytest.ContentOf("another")
	for name, forge := range map[string]func(*evidence.CaseScored){
		"a cassette where none was planned": func(s *evidence.CaseScored) { s.CassetteDigest = &other },
		"another case":                      func(s *evidence.CaseScored) { s.CaseDigest = other },
	} {
		p := pieces{}
		b, r := honest(t, p, nil, forge)
		got, err := Attempt(read(b, history.Options{}).Attempt(r.Attempt), p.read)
		if err != nil || got.Err() == nil || !strings.Contains(got.Differences[0].String(), "not as planned") {
			t.Errorf("%s: %v, %v", name, err, got.Err())
		}
	}
	p := pieces{}
	b, r := honest(t, p, func(f *evidence.AttemptFinished) { f.CassetteDigests = listDigest(t, other) }, nil)
	got, err := Attempt(read(b, history.Options{}).Attempt(r.Attempt), p.read)
	if err != nil || got.Err() == nil || got.Differences[0].Field != "cassette_digests" {
		t.Errorf("another set of cassettes: %v, %v", err, got.Err())
	}
}

// Each row is one forged total, by an operator who can seal entries. The records
// stand, so counting again finds it.
func TestRecomputeFindsForgedTotals(t *testing.T) {
	high := 0.99
	for _, tt := range []struct {
		field string
		edit  func(*evidence.AttemptFinished)
	}{
		{"outcomes", func(f *evidence.AttemptFinished) { f.Outcomes = map[evidence.Outcome]int{evidence.Passed: 2} }},
		{"outcomes", func(f *evidence.AttemptFinished) { f.Outcomes[evidence.Passed] = 3 }},
		{"mean_score", func(f *evidence.AttemptFinished) { f.MeanScore = &high }},
		{"mean_score", func(f *evidence.AttemptFinished) { f.MeanScore = nil }},
		{"failure_modes", func(f *evidence.AttemptFinished) { f.FailureModes = []string{} }},
		{"cost_microdollars", func(f *evidence.AttemptFinished) { f.CostMicroUSD = 1 }},
		{"case_digests", func(f *evidence.AttemptFinished) { f.CaseDigests = historytest.ContentOf("fewer") }},
		{"rubric_digests", func(f *evidence.AttemptFinished) { f.RubricDigests = []digest.Content{historytest.ContentOf("kinder")} }},
		{"image_digests", func(f *evidence.AttemptFinished) { f.ImageDigests = []digest.Content{historytest.ContentOf("image")} }},
		{"cassette_digests", func(f *evidence.AttemptFinished) { f.CassetteDigests = historytest.ContentOf("other") }},
	} {
		t.Run(tt.field, func(t *testing.T) {
			p := pieces{}
			b, r := honest(t, p, tt.edit, nil)
			h := read(b, history.Options{})
			got, err := Attempt(h.Attempt(r.Attempt), p.read)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Differences) != 1 || got.Differences[0].Field != tt.field || !refusal.Is(got.Err(), refusal.RecomputeMismatch) || !strings.Contains(got.Err().Error(), "attempt.finished of repo-fix.agent.1") {
				t.Errorf("differences %v, want one of %s", got.Differences, tt.field)
			}
		})
	}
}

// A list of cases that is gone takes the number of what was planned with it.
func TestRecomputeNeedsTheCaseList(t *testing.T) {
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 2, 1)
	list := historytest.Marshal(t, r.Plan.Cases)
	d := digest.ContentOf(list)
	r.Plan.Cases, r.Plan.CasesDigest = nil, &d
	b.Register(r)
	b.Add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{},
		CaseDigests: listDigest(t, historytest.ContentOf("case %d", 0), historytest.ContentOf("case %d", 1)), RubricDigests: []digest.Content{}, CassetteDigests: listDigest(t), ImageDigests: []digest.Content{}, FailureModes: []string{}})
	for _, there := range []bool{true, false} {
		h := read(b, history.Options{CaseList: func(digest.Content) ([]byte, error) {
			if !there {
				return nil, refusal.Newf(refusal.NotFound, "gone")
			}
			return list, nil
		}})
		got, err := Attempt(h.Attempt(r.Attempt), pieces{}.read)
		if err != nil || (got.Err() == nil) != there {
			t.Errorf("there %v: %v, %v", there, err, got.Differences)
		}
	}
}

// Each row is a record that claims something else than its evidence shows.
func TestRecomputeFindsRecordsThatTheirEvidenceContradicts(t *testing.T) {
	for _, tt := range []struct {
		field string
		edit  func(p pieces, s *evidence.CaseScored)
	}{
		{"turns", func(_ pieces, s *evidence.CaseScored) { s.Turns = 1 }},
		{"tokens", func(_ pieces, s *evidence.CaseScored) { s.Tokens = 3 }},
		{"policy.violations", func(_ pieces, s *evidence.CaseScored) { s.Policy.Violations = 0 }},
		{"policy.rollbacks", func(_ pieces, s *evidence.CaseScored) { s.Policy.Rollbacks = 1 }},
		{"retries", func(_ pieces, s *evidence.CaseScored) { s.Retries = 1 }},
		{"score", func(_ pieces, s *evidence.CaseScored) { s.Score.Score = 0.5 }},
		{"failure_modes", func(_ pieces, s *evidence.CaseScored) { s.Score.FailureModes = []string{"harmless"} }},
		{"judged_by_model", func(_ pieces, s *evidence.CaseScored) { s.JudgedByModel = true }},
		{"score", func(p pieces, s *evidence.CaseScored) { // nothing says how it was graded
			var files evidence.CaseFiles
			if err := json.Unmarshal(p[s.EvidenceDigests[0]], &files); err != nil {
				panic(err)
			}
			files.Grading = nil
			s.EvidenceDigests[0] = p.put(historytest.Marshal(t, &files))
		}},
		{"evidence", func(p pieces, s *evidence.CaseScored) { delete(p, s.EvidenceDigests[0]) }},
		{"evidence", func(_ pieces, s *evidence.CaseScored) { s.EvidenceDigests = []digest.Content{} }},
		{"evidence", func(p pieces, s *evidence.CaseScored) { s.EvidenceDigests[0] = p.put([]byte(`{"v":9}`)) }},
		{"evidence", func(p pieces, s *evidence.CaseScored) { // a trajectory whose end was cut off
			for d, data := range p {
				if strings.Contains(string(data), `"case":"case-02"`) && strings.Contains(string(data), "run_started") {
					lines := strings.SplitAfter(string(data), "\n")
					p[d] = []byte(strings.Join(lines[:len(lines)-2], ""))
				}
			}
		}},
	} {
		t.Run(tt.field, func(t *testing.T) {
			p := pieces{}
			b, r := honest(t, p, nil, func(s *evidence.CaseScored) { tt.edit(p, s) })
			h := read(b, history.Options{})
			got, err := Attempt(h.Attempt(r.Attempt), p.read)
			if err != nil {
				t.Fatal(err)
			}
			var of []string // the record that was bent; the totals then differ too
			for _, d := range got.Differences {
				if strings.Contains(d.Where, "case-02") {
					of = append(of, d.Field)
				}
			}
			if strings.Join(of, " ") != tt.field {
				t.Errorf("differences %v, want one of %s", got.Differences, tt.field)
			}
		})
	}
	t.Run("another case's evidence", func(t *testing.T) {
		p := pieces{}
		var other []digest.Content
		b, r := honest(t, p, nil, func(s *evidence.CaseScored) {
			first := historytest.Score(historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1), 0, 1, 0.25)
			first.Policy = s.Policy
			p.witness(t, first)
			other = first.EvidenceDigests
			s.EvidenceDigests = other
		})
		h := read(b, history.Options{})
		got, err := Attempt(h.Attempt(r.Attempt), p.read)
		if err != nil || len(got.Differences) != 1 || got.Differences[0].Field != "trajectory" {
			t.Errorf("%v, differences %v", err, got.Differences)
		}
	})
	t.Run("what cannot be read is not a difference", func(t *testing.T) {
		b, r := honest(t, pieces{}, nil, nil)
		h := read(b, history.Options{})
		_, err := Attempt(h.Attempt(r.Attempt), func(digest.Content) ([]byte, error) { return nil, refusal.Newf(refusal.Unreadable, "no permission") })
		if !refusal.Is(err, refusal.Unreadable) {
			t.Errorf("got %v, want Unreadable", err)
		}
	})
}
