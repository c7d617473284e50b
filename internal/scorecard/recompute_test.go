package scorecard

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/trajectory"
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
	grading := p.put(mustMarshal(t, map[string]any{"v": 1, "passed": s.Score.Passed, "score": s.Score.Score, "failure_modes": s.Score.FailureModes, "breakdown": map[string]any{}, "checks": []any{}}))
	files := &evidence.CaseFiles{Version: 1, Trajectory: evidence.TrajectoryFile{Digest: p.put(log.Bytes()), Head: log.Head()}, Grading: &grading}
	s.EvidenceDigests = []digest.Content{p.put(mustMarshal(t, files))}
}

// honest writes an attempt as the harness does, with edits of its end and of
// its second record, and returns it.
func honest(t *testing.T, p pieces, finish func(*evidence.AttemptFinished), record func(*evidence.CaseScored)) (*book, *evidence.AttemptRegistered) {
	t.Helper()
	b := newBook(t)
	r := registration("repo-fix.agent.1", "agent", 1, 3, 1)
	tape, rubric := contentOf("tape"), contentOf("rubric")
	r.Plan.Cases[0].Cassette = &tape
	b.register(r)
	for i, v := range []float64{1, 0.25} {
		s := score(r, i, 1, v)
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
		b.case_(r, s)
	}
	mean := 0.625
	f := &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{evidence.Passed: 1, evidence.Failed: 1},
		CaseDigests: listDigest(t, contentOf("case %d", 0), contentOf("case %d", 1), contentOf("case %d", 2)), RubricDigests: []digest.Content{rubric},
		CassetteDigests: listDigest(t, tape), ImageDigests: []digest.Content{}, MeanScore: &mean, FailureModes: []string{"tests.failed"}, CostMicroUSD: 600, RuntimeMS: 5}
	if finish != nil {
		finish(f)
	}
	b.add(evidence.AttemptFinishedKind, f)
	return b, r
}

func listDigest(t *testing.T, ds ...digest.Content) digest.Content {
	t.Helper()
	return digest.ContentOf(mustMarshal(t, sorted(ds)))
}

func TestRecomputeAgreesWithAnHonestAttempt(t *testing.T) {
	p := pieces{}
	b, r := honest(t, p, nil, nil)
	h := b.read(Options{})
	got, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: p.read})
	if err != nil || got.Err() != nil {
		t.Fatalf("%v, %v", err, got.Err())
	}
	// 8 numbers of the end, 12 of each record.
	if got.Checked != 8+2*12 || len(got.Unchecked) != 0 {
		t.Errorf("%d numbers, unchecked %q", got.Checked, got.Unchecked)
	}
}

// Each row is one forged total, by somebody who can seal entries. The records
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
		{"case_digests", func(f *evidence.AttemptFinished) { f.CaseDigests = contentOf("fewer") }},
		{"rubric_digests", func(f *evidence.AttemptFinished) { f.RubricDigests = []digest.Content{contentOf("kinder")} }},
		{"image_digests", func(f *evidence.AttemptFinished) { f.ImageDigests = []digest.Content{contentOf("image")} }},
		{"cassette_digests", func(f *evidence.AttemptFinished) { f.CassetteDigests = contentOf("other") }},
	} {
		t.Run(tt.field, func(t *testing.T) {
			p := pieces{}
			b, r := honest(t, p, tt.edit, nil)
			h := b.read(Options{})
			got, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: p.read})
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
	b := newBook(t)
	r := registration("repo-fix.agent.1", "agent", 1, 2, 1)
	list := mustMarshal(t, r.Plan.Cases)
	d := digest.ContentOf(list)
	r.Plan.Cases, r.Plan.CasesDigest = nil, &d
	b.register(r)
	b.add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{},
		CaseDigests: listDigest(t, contentOf("case %d", 0), contentOf("case %d", 1)), RubricDigests: []digest.Content{}, CassetteDigests: listDigest(t), ImageDigests: []digest.Content{}, FailureModes: []string{}})
	for _, there := range []bool{true, false} {
		h := b.read(Options{CaseList: func(digest.Content) ([]byte, error) {
			if !there {
				return nil, refusal.Newf(refusal.NotFound, "gone")
			}
			return list, nil
		}})
		got, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: pieces{}.read})
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
			s.EvidenceDigests[0] = p.put(mustMarshal(t, &files))
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
			h := b.read(Options{})
			got, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: p.read})
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
			first := score(registration("repo-fix.agent.1", "agent", 1, 3, 1), 0, 1, 0.25)
			first.Policy = s.Policy
			p.witness(t, first)
			other = first.EvidenceDigests
			s.EvidenceDigests = other
		})
		h := b.read(Options{})
		got, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: p.read})
		if err != nil || len(got.Differences) != 1 || got.Differences[0].Field != "trajectory" {
			t.Errorf("%v, differences %v", err, got.Differences)
		}
	})
	t.Run("what cannot be read is no difference", func(t *testing.T) {
		b, r := honest(t, pieces{}, nil, nil)
		h := b.read(Options{})
		_, err := Recompute(h.Attempt(r.Attempt), RecomputeOptions{Read: func(digest.Content) ([]byte, error) { return nil, refusal.Newf(refusal.Unreadable, "no permission") }})
		if !refusal.Is(err, refusal.Unreadable) {
			t.Errorf("got %v, want Unreadable", err)
		}
	})
}

// saved is the answer of "tally run" as it is kept.
func saved(t *testing.T, h *History, a *Attempt, edit func(map[string]any)) []byte {
	t.Helper()
	card := cardOf(t, h, View{Attempts: []*Attempt{a}, Evidence: allThere})
	var generic any
	if err := json.Unmarshal(mustMarshal(t, card), &generic); err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{"attempt": map[string]any{"id": a.ID, "number": 1, "level": "signed"}, "class": "repo-fix", "target": "agent",
		"total": 3, "passed": 1, "failed": 1, "skipped": 0, "unscored": 0, "truncated": 0, "errors": 0, "mean_score": 0.625, "failure_modes": []string{"tests.failed"},
		"cost_usd": 0.0006, "isolation_class": "gvisor", "head": "sha256:x", "finished": true, "scorecard": generic}
	edit(doc)
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRecomputeComparesTheSavedAnswer(t *testing.T) {
	p := pieces{}
	b, r := honest(t, p, nil, nil)
	h := b.read(Options{})
	a := h.Attempt(r.Attempt)
	card := func(doc map[string]any) map[string]any { return doc["scorecard"].(map[string]any) }
	for _, tt := range []struct {
		field string
		edit  func(map[string]any)
	}{
		{"", func(map[string]any) {}},
		{"", func(d map[string]any) { d["scorecard"] = nil }},
		{"passed", func(d map[string]any) { d["passed"] = 2 }},
		{"total", func(d map[string]any) { d["total"] = 2 }},
		{"failed", func(d map[string]any) { delete(d, "failed") }},
		{"mean_score", func(d map[string]any) { d["mean_score"] = 0.9 }},
		{"failure_modes", func(d map[string]any) { d["failure_modes"] = []string{} }},
		{"cost_usd", func(d map[string]any) { d["cost_usd"] = 0.0005 }},
		{"isolation_class", func(d map[string]any) { d["isolation_class"] = "microvm" }},
		{"attempt.level", func(d map[string]any) { d["attempt"].(map[string]any)["level"] = "reproduced" }},
		{"attempt.number", func(d map[string]any) { d["attempt"].(map[string]any)["number"] = 7 }},
		{"solved", func(d map[string]any) { card(d)["solved"] = 3 }},
		{"solve_rate_ci95", func(d map[string]any) { card(d)["solve_rate_ci95"] = []float64{0.9, 1} }},
		{"evidence_coverage", func(d map[string]any) { card(d)["evidence_coverage"] = 0.5 }},
		{"by", func(d map[string]any) {
			card(d)["by"].(map[string]any)["class"].([]any)[0].(map[string]any)["solved"] = 3
		}},
		{"acceptance", func(d map[string]any) { card(d)["acceptance"].(map[string]any)["met"] = true }},
	} {
		got, err := RecomputeRun(h, "run.json", saved(t, h, a, tt.edit), RecomputeOptions{Evidence: allThere})
		if err != nil {
			t.Fatal(err)
		}
		if tt.field == "" {
			if len(got.Differences) != 0 {
				t.Errorf("an honest answer differs: %v", got.Differences)
			}
			continue
		}
		if len(got.Differences) != 1 || got.Differences[0].Field != tt.field || !strings.HasPrefix(got.Differences[0].Where, "run.json") {
			t.Errorf("%s: differences %v", tt.field, got.Differences)
		}
	}
	// What was written too early cannot be compared.
	got, err := RecomputeRun(h, "run.json", saved(t, h, a, func(d map[string]any) { d["finished"], d["passed"] = false, 0 }), RecomputeOptions{})
	if err != nil || len(got.Differences) != 0 || len(got.Unchecked) == 0 {
		t.Errorf("%v, %+v", err, got)
	}
	// What was written before an amendment is counted with the history of then.
	early, entries := saved(t, h, a, func(map[string]any) {}), h.Entries
	b.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: firstRecord(a), Author: "alice", Reason: "x",
		Score: evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{}}})
	h = b.read(Options{})
	if !AmendedSince(h, entries, a.ID) || AmendedSince(h, h.Entries, a.ID) {
		t.Error("the amendment is not noticed")
	}
	got, err = RecomputeRun(h, "run.json", early, RecomputeOptions{Evidence: allThere})
	if err != nil || got.Err() == nil {
		t.Errorf("with the history of now: %v, %+v", err, got)
	}
	then := b.read(Options{Until: entries})
	if then.Entries != entries || AmendedSince(then, 0, a.ID) {
		t.Errorf("the history of then has %d entries", then.Entries)
	}
	got, err = RecomputeRun(then, "run.json", early, RecomputeOptions{Evidence: allThere})
	if err != nil || got.Err() != nil || got.Checked < 20 {
		t.Errorf("with the history of then: %v, %+v", err, got)
	}
}

// What this package knows nothing of is counted by the caller, or named.
func TestRecomputeAsksForWhatItCannotCount(t *testing.T) {
	b, r := honest(t, pieces{}, nil, nil)
	h := b.read(Options{})
	data := saved(t, h, h.Attempt(r.Attempt), func(d map[string]any) { d["gate"] = map[string]any{"met": true} })
	ask := func(computed any, known bool) *Recomputed {
		t.Helper()
		got, err := RecomputeRun(h, "run.json", data, RecomputeOptions{Evidence: allThere, Other: func(field string, _ canon.RawMessage) (any, bool, string, error) {
			if field != "gate" {
				return nil, false, "", nil
			}
			return computed, known, "the bench is another", nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(map[string]any{"met": true}, true); got.Err() != nil {
		t.Error(got.Err())
	}
	if got := ask(map[string]any{"met": false}, true); len(got.Differences) != 1 || got.Differences[0].Field != "gate" {
		t.Errorf("%+v", got)
	}
	if got := ask(nil, false); got.Err() != nil || !strings.Contains(strings.Join(got.Unchecked, "\n"), "run.json: gate: the bench is another") {
		t.Errorf("%+v", got)
	}
}

func firstRecord(a *Attempt) int64 {
	for c := range a.Cases() {
		if c.Index >= 0 {
			return c.Index
		}
	}
	return -1
}

func TestRecomputeOfKeptCardsAndComparisons(t *testing.T) {
	b := newBook(t)
	b.run(registration("repo-fix.agent.1", "agent", 1, 6, 1), 1, 1, 1, 0, 0, 1)
	b.run(registration("repo-fix.agent.2", "agent", 2, 6, 1), 1, 1, 0, 1, 1, 1)
	h := b.read(Options{})
	card := mustMarshal(t, cardOf(t, h, View{Evidence: allThere}))
	comparison := mustMarshal(t, compared(t, h, "repo-fix.agent.1", "repo-fix.agent.2", CompareOptions{MaxDivergences: 9, Divergence: func(a, b *Case) (string, error) { return "here", nil }}))
	check := func(name string, want int, got *Recomputed, err error) {
		t.Helper()
		if err != nil || len(got.Differences) != want || got.Checked == 0 {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	o := RecomputeOptions{Evidence: allThere}
	got, err := RecomputeCard(h, "card.json", card, o)
	check("an honest card", 0, got, err)
	forged := strings.Replace(string(card), `"solve_rate":0.75,`, `"solve_rate":0.95,`, 1)
	got, err = RecomputeCard(h, "card.json", []byte(forged), o)
	check("a forged rate", 1, got, err)
	got, err = RecomputeCard(h, "card.json", []byte(strings.ReplaceAll(string(card), "repo-fix.agent.2", "repo-fix.agent.9")), o)
	check("an attempt that is not there", 1, got, err)
	got, err = RecomputeCard(h, "card.json", []byte(strings.Replace(string(card), `"not_run":0,`, "", 1)), o)
	check("a number left out", 1, got, err)
	got, err = RecomputeCard(h, "card.json", []byte(strings.Replace(string(card), `"orphan_records":0`, `"orphan_records":5`, 1)), o)
	check("orphans that are none", 1, got, err)
	for name, x := range map[string]struct {
		old, new string
		want     int
	}{
		"an honest comparison":      {"", "", 0},
		"a flip left out":           {`"lost":1`, `"lost":0`, 1},
		"a forged p":                {`"mcnemar_p":1`, `"mcnemar_p":0.01`, 1},
		"a case that was not lost":  {`"change":"lost"`, `"change":"changed"`, 1},
		"another score":             {`"score":0,`, `"score":0.5,`, 1},
		"another case":              {`"case_id":"case-03"`, `"case_id":"case-3"`, 2},
		"attempts that never were":  {`"id":"repo-fix.agent.2"`, `"id":"repo-fix.agent.7"`, 1},
		"an attempt beside itself":  {`"id":"repo-fix.agent.2"`, `"id":"repo-fix.agent.1"`, 1},
		"cost of somebody cheaper":  {`"cost_microdollars":{"a":1800`, `"cost_microdollars":{"a":1700`, 1},
		"another place of parting":  {`"divergence":"here"`, `"divergence":"there"`, 1},
		"a difference made smaller": {`"difference":0.166667`, `"difference":0.1`, 1},
		"the only one of its kind":  {`"number":1,"of":2`, `"number":1,"of":1`, 1},
		"a number left out":         {`"paired":6,`, ``, 1},
	} {
		forged := strings.Replace(string(comparison), x.old, x.new, 1)
		if x.old != "" && forged == string(comparison) {
			t.Fatalf("%s: %s is not in %s", name, x.old, comparison)
		}
		got, err := RecomputeComparison(h, "compare.json", []byte(forged), RecomputeOptions{Divergence: func(a, b *Case) (string, error) { return "here", nil }})
		check(name, x.want, got, err)
	}
}

// "The best of seven" must not become "the only one" in a kept card, and a card
// of before does not change when more is run.
func TestRecomputeOfWhichAttemptACardIsAbout(t *testing.T) {
	b := newBook(t)
	b.run(registration("repo-fix.agent.1", "agent", 1, 6, 1), 1, 0, 0, 0, 0, 1)
	b.run(registration("repo-fix.agent.2", "agent", 2, 6, 1), 1, 1, 1, 1, 1, 1)
	h := b.read(Options{})
	card, err := Of(h, View{Attempts: []*Attempt{h.Attempt("repo-fix.agent.2")}, Evidence: allThere})
	if err != nil {
		t.Fatal(err)
	}
	kept := string(mustMarshal(t, card))
	b.run(registration("repo-fix.agent.3", "agent", 3, 6, 1), 1, 1, 1, 1, 1, 1)
	h = b.read(Options{})
	for name, x := range map[string]struct{ old, new, field string }{
		"honest":                        {"", "", ""},
		"the first of one":              {`"number":2,"of":2`, `"number":1,"of":1`, "number of"},
		"the first with this plan":      {`"plan_number":2,"plan_of":2`, `"plan_number":1,"plan_of":1`, "plan_number plan_of"},
		"executions that were not":      {`"executions":6,"filtered"`, `"executions":5,"filtered"`, "executions"},
		"the other one solved as many":  {`"passed_records":2`, `"passed_records":6`, "passed_records"},
		"the other one was not made":    {`"id":"repo-fix.agent.1"`, `"id":"repo-fix.agent.9"`, "id other_attempts"},
		"the level of a reproduced one": {`"id":"repo-fix.agent.2","level":"signed"`, `"id":"repo-fix.agent.2","level":"reproduced"`, "level"},
		"called filtered":               {`"filtered":false`, `"filtered":true`, "filtered"},
	} {
		forged := strings.Replace(kept, x.old, x.new, 1)
		if x.old != "" && forged == kept {
			t.Fatalf("%s: %s is not in %s", name, x.old, kept)
		}
		got, err := RecomputeCard(h, "card.json", []byte(forged), RecomputeOptions{Evidence: allThere})
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, d := range got.Differences {
			fields = append(fields, d.Field)
		}
		if strings.Join(fields, " ") != x.field {
			t.Errorf("%s: differences %v, want %q", name, got.Differences, x.field)
		}
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(kept), &doc); err != nil {
		t.Fatal(err)
	}
	doc["other_attempts"] = []any{}
	got, err := RecomputeCard(h, "card.json", mustMarshal(t, doc), RecomputeOptions{Evidence: allThere})
	if err != nil || len(got.Differences) != 1 || got.Differences[0].Field != "other_attempts" {
		t.Errorf("the other one left out: %v, %v", err, got.Differences)
	}
}
