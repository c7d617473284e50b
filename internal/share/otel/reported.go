package otel

import (
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/run/wire"
	"tallystick/internal/share/foreign"
)

// A Reported is a call of a tool, or a search in a store of documents, of which
// an agent's own spans tell. It is what the agent says of itself.
type Reported struct {
	Start  uint64 // nanoseconds, by the agent's clock
	Span   string // its id
	Result wire.Result
}

// maxReported bounds the calls of one batch.
const maxReported = 10_000

// ToolCalls lists the calls that the spans of a batch tell of, in the order of
// their start. A batch is a piece of a trace: parents may come later, or not at
// all, so nothing is concluded from what is missing.
func ToolCalls(b *foreign.Budget, in *Batch) ([]Reported, error) {
	stories, _ := storiesOf(in)
	var list []Reported
	for _, t := range stories {
		t.budget = b
		t.Recorder = foreign.Start(foreign.Source{Name: "spans"}, t.id, "")
		if err := t.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name(), err)
		}
		for _, n := range t.nodes {
			if n.role != toolSpan || n.skipped || n.notExecuted {
				continue
			}
			if len(list) == maxReported {
				return nil, fmt.Errorf("more than %d calls of tools in one batch", maxReported)
			}
			list = append(list, reportedBy(n))
		}
	}
	slices.SortStableFunc(list, func(a, b Reported) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Span, b.Span))
	})
	return list, nil
}

func reportedBy(n *node) Reported {
	r := Reported{Start: n.start, Span: spanID(n), Result: wire.Result{ID: n.text(factCallID), Name: toolName(n), Args: n.arguments(nil)}}
	if problem := n.problem(); problem != "" {
		r.Result.IsError, r.Result.Sent = true, problem
	}
	if found := n.documents(); found != "" {
		r.Result.Sent = found
	} else if result, ok := n.take(factResult); ok && result.string() != "" {
		r.Result.Sent = result.string()
	}
	r.Result.Text = r.Result.Sent
	return r
}
