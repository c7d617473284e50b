package recount

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/testing/historytest"
)

// sourceOf is a source without a bench: gates cannot be made again.
func sourceOf(b *historytest.Book) *Source {
	h := read(b, history.Options{Marks: true})
	return &Source{
		History: h,
		At: func(entries int64) (*history.History, error) {
			if then, ok := h.At(entries); ok {
				return then, nil
			}
			return read(b, history.Options{Marks: true, Until: entries}), nil
		},
		Whole: func(a *history.Attempt) (*dossier.Whole, error) {
			return dossier.WholeForTest((&dossier.Reading{History: h}).Dossier(a), func(c *history.Case) error {
				if c.ID == "case-02" {
					return refusal.Newf(refusal.NotFound, "no evidence in some folder")
				}
				return nil
			}), nil
		},
		Parting: func(a, b *history.Attempt) (divergence, moves dossier.Parting) {
			return func(a, b *history.Case) (string, error) { return "here", nil }, nil
		},
		Bench: func(string) (*bench.Verified, error) { return nil, errors.New("there is no bench") },
	}
}

// keptAnswers are one of each kind that needs no bench, made from what the book
// has now.
func keptAnswers(t *testing.T, s *Source) map[string][]byte {
	t.Helper()
	h := s.History
	one, two, open := h.Attempt("repo-fix.agent.1"), h.Attempt("repo-fix.agent.2"), h.Attempt("repo-fix.agent.3")
	must := func(v any, err error) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	cards := scorecard.View{Attempts: []*history.Attempt{one}, Evidence: map[*history.Attempt]scorecard.Evidence{one: must(s.Whole(one)).(*dossier.Whole)}, Unread: func(*history.Attempt) bool { return true }}
	card := must(scorecard.Of(h, cards)).(*scorecard.Card)
	whole := must(scorecard.Of(h, scorecard.View{Attempts: h.Attempts})).(*scorecard.Card)
	line := h.Line()
	divergence, _ := s.Parting(one, two)
	flips := must(scorecard.Compare(one, two, scorecard.CompareOptions{MaxDivergences: 1, Divergence: divergence, AllCases: true})).(*scorecard.Comparison)
	flips.Ledger = &line
	inRun := must(scorecard.Compare(one, two, scorecard.CompareOptions{})).(*scorecard.Comparison)
	run := must(s.summary(h, open, &Run{Rules: scorecard.Rules, Head: h.Head, JudgeCostUSD: 0.25})).(*Run)
	run.Scorecard, run.Comparison = must(scorecard.Of(h, scorecard.View{Attempts: []*history.Attempt{open}})).(*scorecard.Card), inRun
	answers := make(map[string][]byte)
	for name, v := range map[string]any{"card": card, "failed": scorecard.Answer{Card: whole, FailedCases: scorecard.FailedCases(h.Attempts)}, "comparison": flips, "run": run} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		answers[name] = data
	}
	return answers
}

// keptBook has two filtered attempts, of which the second has records that do not
// count, and one that did not come to its end, about which nothing is decided.
func keptBook(t *testing.T) *historytest.Book {
	b := historytest.New(t)
	for n, scores := range [][]float64{{1, 1, 1, 0, 0, 1}, {1, 1, 0, 1, 1, 1}} {
		r := historytest.Registration(fmt.Sprintf("repo-fix.agent.%d", n+1), "agent", n+1, 6, 1)
		r.Plan.Filtered = true
		b.Run(r, scores...)
		if n == 1 {
			b.Case(r, historytest.Score(r, 0, 1, 1)) // late
		}
	}
	r := historytest.Registration("repo-fix.agent.3", "agent", 3, 6, 1)
	b.Register(r)
	b.Case(r, historytest.Score(r, 0, 1, 1))
	b.ByHand(evidence.NoteKind, &evidence.Note{})
	return b
}

func TestAnswersAreMadeAgain(t *testing.T) {
	b := keptBook(t)
	s := sourceOf(b)
	answers := keptAnswers(t, s)
	check := func(s *Source, when string) {
		t.Helper()
		for name, data := range answers {
			got, err := s.Answer(KindOf(data), name, data)
			if err != nil || got.Err() != nil || got.NotRecounted() != nil || got.Checked < 50 {
				t.Errorf("%s %s: %v, %v, %v, %d numbers", name, when, err, got.Err(), got.NotRecounted(), got.Checked)
			}
		}
	}
	check(s, "as it is")

	// What comes later makes no answer of before wrong: an amendment, another
	// attempt, an entry by hand.
	h := s.History
	for c := range h.Attempt("repo-fix.agent.1").Cases() {
		b.Add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: c.Index, Author: "alice", Reason: "x", Score: evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{}}})
	}
	b.Run(historytest.Registration("repo-fix.agent.4", "agent", 4, 6, 1), 1, 1, 1)
	b.ByHand(evidence.NoteKind, &evidence.Note{})
	check(sourceOf(b), "later")
}

// A member is one place in a document: where it is, and how to change it.
type member struct {
	path   string
	object map[string]any
	name   string
}

func membersIn(path string, v any, found []member) []member {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, member{path + "." + name, v, name})
			found = membersIn(path+"."+name, v[name], found)
		}
	case []any:
		for i, x := range v {
			found = membersIn(fmt.Sprintf("%s[%d]", path, i), x, found)
		}
	}
	return found
}

// No single member of an answer may be left out, added, or be another: each of
// them is tried.
func TestNoChangedMemberGoesUnnoticed(t *testing.T) {
	s := sourceOf(keptBook(t))
	for name, data := range keptAnswers(t, s) {
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		members := membersIn("", doc, nil)
		if len(members) < 50 {
			t.Fatalf("%s has %d members", name, len(members))
		}
		noticed := func(what string) bool {
			forged, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			kind := KindOf(forged)
			if kind == "" {
				return true // it is not an answer any more
			}
			got, err := s.Answer(kind, name, forged)
			return err != nil || got.Err() != nil || got.NotRecounted() != nil
		}
		for i, m := range members {
			if testing.Short() && i%29 != 0 {
				continue // under the race detector a few show as much as all
			}
			was := m.object[m.name]
			delete(m.object, m.name)
			if !noticed(m.path) && !takenForWhatWasAsked(m.path) {
				t.Errorf("%s without %s passes", name, m.path)
			}
			m.object[m.name+"_too"] = was
			m.object[m.name] = was
			if !noticed(m.path) {
				t.Errorf("%s with one member more beside %s passes", name, m.path)
			}
			delete(m.object, m.name+"_too")
			if other, ok := another(was); ok {
				m.object[m.name] = other
				if !noticed(m.path) && !noRecordTells(m.path) {
					t.Errorf("%s passes with %s = %v, it was %v", name, m.path, other, was)
				}
			}
			m.object[m.name] = was
		}
	}
}

// takenForWhatWasAsked are the members that are there if the caller asked for them:
// an answer without is what another question gives.
func takenForWhatWasAsked(path string) bool {
	switch path {
	case ".failed_cases", ".comparison", ".judge_cost_usd":
		return true
	}
	return false
}

// noRecordTells are the members whose value nothing tells, and those that may
// say less than is known.
func noRecordTells(path string) bool {
	return path == ".judge_cost_usd" || strings.HasSuffix(path, ".reason") && strings.Contains(path, ".evidence_missing[") ||
		strings.HasSuffix(path, "level") // "scratch" claims nothing
}

// another is a value of the same type.
func another(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return !v, true
	case float64:
		return v + 1, true
	case string:
		if v == "signed" {
			return "scratch", true
		}
		return v + "x", true
	}
	return nil, false
}

func TestAnAnswerNeverClaimsMoreThanTheRecords(t *testing.T) {
	s := sourceOf(keptBook(t))
	for name, data := range keptAnswers(t, s) {
		forged := strings.Replace(string(data), `"level":"signed"`, `"level":"witnessed"`, 1)
		if forged == string(data) {
			t.Fatalf("%s has no level", name)
		}
		if got, err := s.Answer(KindOf(data), name, []byte(forged)); err != nil || got.Err() == nil {
			t.Errorf("%s with a level that it has not: %v, %+v", name, err, got)
		}
	}
}

func TestAnswersOfOtherRulesAreNotRecounted(t *testing.T) {
	s := sourceOf(keptBook(t))
	for name, data := range keptAnswers(t, s) {
		newer := strings.Replace(string(data), `{"rules":3,`, `{"rules":4,`, 1)
		got, err := s.Answer(KindOf(data), name, []byte(newer))
		if err != nil || got.Err() != nil || !refusal.Is(got.NotRecounted(), refusal.NotFound) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

func TestARunWithoutItsBenchIsNotRecounted(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.2", "agent", 1, 1, 1), 1)
	s := sourceOf(b)
	a := s.History.Attempt("repo-fix.agent.2")
	run, err := s.summary(s.History, a, &Run{Head: s.History.Head, Rules: scorecard.Rules})
	if err == nil {
		run.Scorecard, err = scorecard.Of(s.History, scorecard.View{Attempts: []*history.Attempt{a}})
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Answer(RunKind, "run.json", data)
	if err != nil || got.Err() != nil || got.NotRecounted() == nil || !strings.Contains(got.Unchecked[0], "run.json: decision, gate: the bench does not verify: there is no bench") {
		t.Errorf("%v, %+v", err, got)
	}
}
