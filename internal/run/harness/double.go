package harness

import (
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/trajectory"
)

// differs says how two runs of one case differ in what counts; "" if they do not. Calls
// are compared without their order: an agent may make several at once.
func (g *Graded) differs(other *Graded) (string, error) {
	if a, b := g.Record.Outcome, other.Record.Outcome; a != b {
		return fmt.Sprintf("the outcome is %s and %s", a, b), nil
	}
	if a, b := g.scoreText(), other.scoreText(); a != b {
		return fmt.Sprintf("the score is %s and %s", a, b), nil
	}
	if g.Answer != other.Answer {
		return "the answers differ", nil
	}
	for _, list := range []struct {
		what string
		of   func(*Graded) []string
	}{{"model calls", (*Graded).modelCalls}, {"tool calls", (*Graded).toolCalls}, {"violations", (*Graded).violations}} {
		a, b := list.of(g), list.of(other)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			return fmt.Sprintf("the %s differ: %d and %d of them, %s", list.what, len(a), len(b), firstOnly(a, b)), nil
		}
	}
	if a, b := g.Record.Cost(), other.Record.Cost(); a != b {
		return fmt.Sprintf("the cost is %s and %s", a, b), nil
	}
	if a, b := g.Record.Tokens, other.Record.Tokens; a != b {
		return fmt.Sprintf("the tokens are %d and %d", a, b), nil
	}
	a, err := g.filesText()
	if err != nil {
		return "", err
	}
	b, err := other.filesText()
	if err != nil {
		return "", err
	}
	if a != b {
		return "the files that the agent left differ", nil
	}
	return "", nil
}

// firstOnly names the first of two sorted lists that the other has not.
func firstOnly(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("only the second has %.200s", b[i])
		case i >= len(b) || a[i] < b[i]:
			return fmt.Sprintf("only the first has %.200s", a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("only the second has %.200s", b[i])
		}
	}
	return ""
}

func (g *Graded) scoreText() string {
	if s := g.Record.Score; s != nil {
		return fmt.Sprint(s.Score)
	}
	return "none"
}

// modelCalls lists what models were asked and said.
func (g *Graded) modelCalls() (list []string) {
	requests := map[string]digest.Content{}
	for e := range g.Verified.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.ModelCallStarted:
			requests[p.Call] = p.Request
		case *trajectory.ModelCallCompleted:
			list = append(list, fmt.Sprintf("the request %s with the reply %s (%s%s)", requests[p.Call], p.Output.Digest, p.FinishReason, p.Error))
		}
	}
	return list
}

// toolCalls lists the tools that were called, as far as was seen, with arguments,
// results and what the policy said.
func (g *Graded) toolCalls() (list []string) {
	calls := trajectory.CallsOf(g.Verified).Calls
	for i := range calls {
		c, result := &calls[i], ""
		switch {
		case c.Made != nil:
			result = c.Made.Result.Digest.String()
		case c.Report != nil && c.Report.Result != nil:
			result = c.Report.Result.Digest.String()
		}
		list = append(list, fmt.Sprintf("%s %s in turn %d with the arguments %s, check %d, result %s", c.Vantage, c.Name, c.Turn, c.Args.Digest, c.Check, result))
	}
	return list
}

func (g *Graded) violations() (list []string) {
	for e := range g.Verified.Events() {
		if p, ok := e.Payload.(*trajectory.PolicyViolation); ok {
			list = append(list, p.Rule+": "+p.Text)
		}
	}
	return list
}

// filesText is what the agent left in its folder, as the evidence names it.
func (g *Graded) filesText() (string, error) {
	text, err := canon.Marshal(map[string]any{"folder": g.Files.Folder, "diff": g.Files.Diff})
	return string(text), err
}
