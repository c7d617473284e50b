package scorecard

import (
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/read/results"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/historytest"
)

func importedRun(t *testing.T, scorer string, samples ...results.Sample) *ImportedRun {
	t.Helper()
	r := &ImportedRun{Scorer: scorer}
	for _, s := range samples {
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func sampleOf(id string, scores map[string]float64) results.Sample {
	s := results.Sample{ID: id, Scores: map[string]results.Score{}}
	for name, v := range scores {
		s.Scores[name] = results.Score{Value: &v}
	}
	return s
}

func TestImportedRunsArePairedBySample(t *testing.T) {
	one := func(id string, v float64) results.Sample { return sampleOf(id, map[string]float64{"acc": v}) }
	a := importedRun(t, "", one("1", 1), one("2", 0), one("3", 1), one("4", 0.5), one("only", 1))
	b := importedRun(t, "", one("1", 1), one("2", 1), one("3", 0), one("4", 0.75))
	c, err := CompareImported(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if c.Paired != 4 || c.OnlyA != 1 || c.OnlyB != 0 || c.Flips != (Flips{1, 1}) || c.Difference != 0 || c.McNemarP != 1 || c.MeanScore.Change != 0.0625 || !c.Imported {
		t.Errorf("got %+v", c)
	}
	if len(c.Cases) != 2 || c.Cases[0].Change != Lost || c.Cases[0].ID != "3" {
		t.Errorf("cases %+v", c.Cases)
	}
	// An error is not a failure of the sample's score, and not a solved sample.
	c, err = CompareImported(importedRun(t, "", one("1", 1), results.Sample{ID: "2", Error: "e"}), importedRun(t, "", one("1", 1), one("2", 1)))
	if err != nil || c.Flips.Gained != 1 || c.MeanScore.A != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestImportedRunsThatCannotBeCompared(t *testing.T) {
	both := func(id string) results.Sample { return sampleOf(id, map[string]float64{"acc": 1, "f1": 0.5}) }
	if _, err := CompareImported(importedRun(t, "", both("1")), importedRun(t, "", both("1"))); !refusal.Is(err, refusal.Usage) {
		t.Errorf("two scorers: %v", err)
	}
	if c, err := CompareImported(importedRun(t, "f1", both("1")), importedRun(t, "f1", both("1"))); err != nil || c.MeanScore.A != 0.5 {
		t.Errorf("a scorer that was named: %+v, %v", c, err)
	}
	if _, err := CompareImported(importedRun(t, "", sampleOf("1", map[string]float64{"acc": 1})), importedRun(t, "", sampleOf("1", map[string]float64{"f1": 1}))); !refusal.Is(err, refusal.NotComparable) {
		t.Errorf("other scorers: %v", err)
	}
	if _, err := CompareImported(importedRun(t, "", sampleOf("1", map[string]float64{"acc": 1})), importedRun(t, "", sampleOf("2", map[string]float64{"acc": 1}))); !refusal.Is(err, refusal.NotComparable) {
		t.Errorf("other samples: %v", err)
	}
}

// TestAnAttemptIsComparedWithAFile: by the scorer that the file has, as recorded, and it is
// said that one side is imported. An attempt that waits for answers is refused.
func TestAnAttemptIsComparedWithAFile(t *testing.T) {
	book := historytest.New(t)
	r := historytest.Registration("sums.agent.1", "agent", 1, 3, 1)
	book.Register(r)
	for i, v := range []float64{1, 0, 1} {
		book.Case(r, historytest.Score(r, i, 1, v))
	}
	book.Finish(r)
	a := read(book, history.Options{}).Attempt("sums.agent.1")
	var ids []string
	for c := range a.Cases() {
		ids = append(ids, c.ID)
	}
	one := func(id string, v float64) results.Sample { return sampleOf(id, map[string]float64{"acc": v}) }
	file := importedRun(t, "", one(ids[0], 0), one(ids[1], 1), one(ids[2], 1), one("other", 1))
	c, err := CompareImported(file, RunOfAttempt(a))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Imported || c.Scorer != "acc" || c.B.Attempt != a.ID || c.A.Attempt != "" || c.Paired != 3 || c.OnlyA != 1 || c.Flips != (Flips{1, 1}) {
		t.Errorf("%+v", c)
	}
	back, err := CompareImported(RunOfAttempt(a), file)
	if err != nil || back.OnlyB != 1 || back.A.Attempt != a.ID || back.Difference != -c.Difference {
		t.Errorf("%+v, %v", back, err)
	}
	two := importedRun(t, "", sampleOf(ids[0], map[string]float64{"acc": 1, "f1": 0}))
	if _, err := CompareImported(RunOfAttempt(a), two); !refusal.Is(err, refusal.Usage) {
		t.Errorf("which scorer of the file counts was not asked: %v", err)
	}
}
