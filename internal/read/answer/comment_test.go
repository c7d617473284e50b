package answer

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

func written(t *testing.T, c *comment, r gate.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// manyFlips are cases that were lost to one change of the prompt, and did different
// things after it.
func manyFlips(n int) (*comment, gate.Report) {
	r := gate.Report{Class: "many", Target: "default", Attempt: "many.default.2", Level: "scratch"}
	c := &comment{decision: &gate.Decision{Reason: "0 of 1 gates are met"}, cost: cost.Of(5, 3), compared: &scorecard.Comparison{Paired: n, Flips: scorecard.Flips{Lost: n}}}
	c.compared.A.ID, c.compared.B.ID = "many.default.1", "many.default.2"
	for i := range n {
		id := fmt.Sprintf("case-%03d", i)
		r.Cases = append(r.Cases, gate.Row{ID: id, Outcome: evidence.Failed, Check: "polite (contains)", Got: fmt.Sprintf("no %d", i), Want: "Good day!"})
		c.compared.Cases = append(c.compared.Cases, scorecard.ChangeRow{CaseID: id, Change: scorecard.Lost,
			Moves: fmt.Sprintf("turn 1: says %d\nprompt of fake-1: You help. [-Be kind.-]\n  Be brief.\n", i)})
	}
	return c, r
}

// TestACommentIsShortForAnyRun: hundreds of failures, causes, gates and notes leave it
// under 60 lines, and what is left out is counted.
func TestACommentIsShortForAnyRun(t *testing.T) {
	for _, n := range []int{0, 1, 200, 2000} {
		c, r := manyFlips(n)
		text := written(t, c, r)
		if lines := strings.Count(text, "\n"); lines >= 60 || n > 0 && strings.Count(text, "[-Be kind.-]") != 1 {
			t.Errorf("%d flips: %d lines, and the prompt stands there %d times:\n%s", n, lines, strings.Count(text, "[-Be kind.-]"), text)
		}
		if n == 200 && !strings.Contains(text, "<b>200 lost</b>: <code>the prompt changed</code>") || n == 200 && !strings.Contains(text, "and 190 more") {
			t.Errorf("the flips are not grouped:\n%s", text)
		}
	}
	c, r := manyFlips(200)
	for i := range r.Cases { // each fails for a reason of its own
		r.Cases[i].Check, c.compared.Cases[i].Moves = fmt.Sprintf("check-%d (exact)", i), ""
		c.compared.A.Qualifications = append(c.compared.A.Qualifications, history.Qualification{Name: "x", Text: strings.Repeat("long ", 100)})
		c.decision.Results = append(c.decision.Results, gate.Result{})
	}
	text := written(t, c, r)
	if lines := strings.Count(text, "\n"); lines >= 60 || !strings.Contains(text, "more causes of ") || !strings.Contains(text, "more gates") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
	for i, line := range strings.Split(text, "\n") {
		if len(line) > 2000 {
			t.Errorf("line %d has %d bytes", i+1, len(line))
		}
	}
}

// TestACommentSaysTheVerdictFirst: verdict, gate, cost that is not known, the check with
// what was found and wanted, and the command.
func TestACommentSaysTheVerdictFirst(t *testing.T) {
	c, r := manyFlips(3)
	c.compared = nil
	text := written(t, c, r)
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "<!-- tally-comment many default -->") || lines[1] != "### Gate not met: `many` by `default`" {
		t.Errorf("it begins with\n%s\n%s", lines[0], lines[1])
	}
	for _, want := range []string{"3 calls unpriced", "check polite (contains)", "found `no 0`, wanted `Good day!`: `tally why many.default.2:case-000`"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestNothingInACommentIsReadAsMarkup: a hostile agent stays in code, whatever it writes.
func TestNothingInACommentIsReadAsMarkup(t *testing.T) {
	for _, hostile := range []string{"<img src=x onerror=alert(1)>", "@octocat", "#1", "`</details>`<b>", "``` x", "a|b", "\x1b[31m", "-->", "[x](http://evil)", "line\n\n<script>", "` `` ```"} {
		c, r := manyFlips(2)
		c.compared = nil
		for i := range r.Cases {
			r.Cases[i].Got, r.Cases[i].Want, r.Cases[i].Check, r.Cases[i].ID = hostile, hostile, hostile, hostile
		}
		r.Class, r.Target, c.decision.Reason = hostile, hostile, hostile
		text := written(t, c, r)
		// What is left without code, and what keeps mentions from being ones, is ours.
		left := oursAlone.ReplaceAllString(strings.SplitN(text, "\n", 2)[1], "")
		if strings.ContainsAny(left, "<>@`\x1b") || strings.Count(strings.Split(text, "\n")[0], ">") != 1 {
			t.Errorf("%q: markup of others is left in\n%s\n%s", hostile, left, text)
		}
	}
}

var oursAlone = regexp.MustCompile("<code>([A-Za-z0-9 ,()…-]|&#[0-9]+;)*</code>|`[A-Za-z0-9 ,()._:/~!-]+`|</?details>|</?summary>|</?b>|\\\\[@#]<!-- -->|\\\\.")
