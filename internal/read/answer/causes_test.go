package answer

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/scorecard"
)

func lostRows(n int, moves func(i int) string) *scorecard.Comparison {
	c := &scorecard.Comparison{}
	for i := range n {
		c.Cases = append(c.Cases, scorecard.ChangeRow{CaseID: fmt.Sprint("case-", i), Change: scorecard.Lost, Moves: moves(i)})
	}
	return c
}

// TestOneEditOfAPromptIsOneCause: the words around it are each case's own.
func TestOneEditOfAPromptIsOneCause(t *testing.T) {
	c := lostRows(11, func(i int) string {
		return fmt.Sprintf("turn 1: changed_answer\n  - answer\nprompt of m: … answer from [-the policy-] {+the law+} \"customer %d\": …\n", i)
	})
	all := Causes(c, nil)
	if len(all) != 1 || len(all[0].Cases) != 11 || all[0].Title != promptChanged || !strings.Contains(all[0].Told, "{+the law+}") {
		t.Errorf("%+v", all)
	}
	c.Cases[3].Moves = "prompt of m: [-other-] {+words+}\n"
	if all := Causes(c, nil); len(all) != 2 || len(all[0].Cases) != 10 {
		t.Errorf("another edit is in the same group: %+v", all)
	}
	d := difference.Words("the policy", "the law")
	apart := []Part{{What: "prompt", Was: "v8", Now: "v9", Target: true, Diff: &d}, {What: "recordings", Note: "of 3 cases they differ"}}
	c = lostRows(11, func(int) string { return "prompt of m: [-a-] {+b+}\n" })
	if all := Causes(c, apart); len(all) != 1 || all[0].Title != "prompt v8 to v9" || all[0].Told != "" {
		t.Errorf("the prompt is not called by its parameter: %+v", all)
	}
	apart = append(apart, Part{What: "model", Was: "a", Now: "b", Target: true})
	if all := Causes(c, apart); all[0].Title != "prompt v8 to v9, model a to b" {
		t.Errorf("what changed besides is left out, as if the prompt alone did it: %+v", all)
	}
	for i := range 5 {
		apart = append(apart, Part{What: fmt.Sprint("setting ", i), Was: "true", Now: "false", Target: true})
	}
	if all := Causes(lostRows(9, func(i int) string { return fmt.Sprintf("prompt of m: [-a %d-] {+b+}\n", i) }), apart); len(all) != 1 || all[0].Title != "prompt v8 to v9, and 6 more changes of the target" {
		t.Errorf("another agent is not one cause: %+v", all)
	}
}

func TestCausesAreCalledByWhatComesFirst(t *testing.T) {
	for _, c := range []struct{ moves, note, want string }{
		{"prompt of a: is not asked any more\nprompt of b: is asked now, and was not\n", "", "model a to b"},
		{"turn 2: changed_arguments\n  - call \"search\" {\"q\":1}\n  + call \"search\" {\"q\":2}\n", "", `first changed arguments: call "search"`},
		{"turn 1: missing: the run dropped this step\n  - call \"pay\" {}\n", "", `first missing: call "pay"`},
		{"withheld sha256:00ff", "", "held out: what it did is withheld"},
		{"", "both did the same; only the score differs", "both did the same; only the score differs"},
		{"turn 1: new\n  + \x1b[2J\n", "", "first new: \\x1b[2J"},
	} {
		r := scorecard.ChangeRow{CaseID: "x", Change: scorecard.Lost, Moves: c.moves, DivergenceNote: c.note}
		all := Causes(&scorecard.Comparison{Cases: []scorecard.ChangeRow{r}}, nil)
		if len(all) != 1 || all[0].Title != c.want {
			t.Errorf("%q: %+v, expected %q", c.moves, all, c.want)
		}
	}
}

func TestWhatWasLostStandsFirst(t *testing.T) {
	c := &scorecard.Comparison{Cases: []scorecard.ChangeRow{{CaseID: "g", Change: scorecard.Gained}, {CaseID: "s", Change: scorecard.Same}, {CaseID: "c", Change: scorecard.Changed}, {CaseID: "l", Change: scorecard.Lost}}}
	var order []string
	for _, x := range Causes(c, nil) {
		order = append(order, x.Change)
	}
	if strings.Join(order, " ") != "lost changed gained" {
		t.Errorf("%v", order)
	}
}
