package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// TestNullAnswers: each class is passed by one answer that takes no work, and by no other
// as often; and a class that asks for work is passed by none.
func TestNullAnswers(t *testing.T) {
	many := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s\n", line(i))
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		lines string
		want  evidence.Floor
		weak  bool
	}{
		"letters that are looked for": {many(4, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"%c","grade":{"kind":"contains"}}`, i, 'A'+i)
		}), evidence.Floor{Answer: evidence.NullConstant, Cases: 4, Passed: 4}, true},
		"nothing said": {many(4, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","grade":{"kind":"absent"}}`, i)
		}), evidence.Floor{Answer: evidence.NullEmpty, Cases: 4, Passed: 4}, true},
		"the question says it": {many(4, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Say word%d.","expected":"word%d","grade":{"kind":"contains","words":true}}`, i, i, i)
		}), evidence.Floor{Answer: evidence.NullQuestion, Cases: 4, Passed: 4}, true},
		"always A": {many(4, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"A","metadata":{"choices":["x%d","y"]},"extract":{"kind":"answer","pattern":"ANSWER: ([A-Z])$"},"grade":{"kind":"exact"}}`, i, i)
		}), evidence.Floor{Answer: evidence.NullFirst, Cases: 4, Passed: 4}, true},
		"mostly the same": {many(10, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"%d","grade":{"kind":"exact"}}`, i, max(i, 8))
		}), evidence.Floor{Answer: evidence.NullFrequent, Cases: 10, Passed: 9}, true},
		"less than nine of ten": {many(10, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"%d","grade":{"kind":"exact"}}`, i, max(i, 7))
		}), evidence.Floor{Answer: evidence.NullFrequent, Cases: 10, Passed: 8}, false},
		"work": {many(3, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"w%d","grade":{"kind":"exact"}}`, i, i)
		}), evidence.Floor{Answer: evidence.NullEmpty, Cases: 3}, false},
		"one case": {`{"id":"c","input":"Say it.","expected":"it","grade":{"kind":"contains"}}` + "\n", evidence.Floor{Answer: evidence.NullConstant, Cases: 1, Passed: 1}, false},
		"a hundred": {many(100, func(i int) string {
			return fmt.Sprintf(`{"id":"c%d","input":"Which?","expected":"%d","grade":{"kind":"exact"}}`, i, i/90)
		}), evidence.Floor{Answer: evidence.NullFrequent, Cases: 50, Passed: 45}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := NullAnswers(context.Background(), datasetBench(t, tt.lines))
			if err != nil {
				t.Fatal(err)
			}
			if b.Floor == nil || *b.Floor != tt.want || b.Floor.Weak() != tt.weak || b.NotTried != "" {
				t.Errorf("%+v, %q, want %+v", b.Floor, b.NotTried, tt.want)
			}
		})
	}
}

// TestNullAnswersThatAreNotTriedAreSaid: a judge and a test are not asked.
func TestNullAnswersThatAreNotTriedAreSaid(t *testing.T) {
	const judged = `{"id":"a","input":"q","expected":"x","grade":{"kind":"judge","criteria":"Is it right?"}}` + "\n"
	b, err := NullAnswers(context.Background(), datasetBench(t, judged))
	if err != nil || b.Floor != nil || !strings.Contains(b.NotTried, "1 of 1 cases: a model grades them") {
		t.Errorf("%+v, %v", b, err)
	}
	b, err = NullAnswers(context.Background(), datasetBench(t, judged+`{"id":"b","input":"q","expected":"x","grade":{"kind":"exact"}}`+"\n"+`{"id":"c","input":"q","grade":{"kind":"ungraded"}}`+"\n"))
	if err != nil || b.Floor == nil || b.Floor.Cases != 1 || !strings.Contains(b.NotTried, "2 of 3 cases") {
		t.Errorf("%+v, %v", b, err)
	}
}

func datasetBench(t *testing.T, lines string) *bench.Verified {
	t.Helper()
	s, err := newPlace(t, strings.Split(strings.TrimSuffix(lines, "\n"), "\n")...).config()
	if err != nil {
		t.Fatal(err)
	}
	return s.Bench
}

// TestTheFloorOfTheRegistrationIsPlanned: it stands in the plan of every attempt, and so
// beside every number.
func TestTheFloorOfTheRegistrationIsPlanned(t *testing.T) {
	p := newPlace(t, sums(2)...)
	p.write("bench/sums/registration.yaml", registration+"floor: {answer: first_choice, cases: 50, passed: 13}\n")
	if _, err := p.run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range p.records(evidence.AttemptRegisteredKind) {
		if f := r.Body.(*evidence.AttemptRegistered).Plan.Floor; f == nil || *f != (evidence.Floor{Answer: evidence.NullFirst, Cases: 50, Passed: 13}) {
			t.Errorf("%+v", f)
		}
	}
}
