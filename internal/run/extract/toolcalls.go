package extract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// A Span says how sure the tool calls of a value are. The value itself has all
// calls that may have been made; a check passes only if it holds for these and
// for those that certainly were.
type Span struct {
	Sure    int // of the calls, or of the count, those that were made here or as the agent says
	Made    trajectory.CallCount
	Unnamed int    // of the calls, those without a name that may be the ones asked for
	Stopped int    // more that were proposed and did not happen
	Other   int    // of the calls, those that were asked for in the place of one with other arguments
	Unseen  string // why there may be more that were not seen; "" if everything was seen
	sure    []Call
}

// Most is how many calls there may have been of those that were seen.
func (s *Span) Most() int { return s.Made.All() + s.Unnamed }

// Note tells where calls come from, for a reason; "" if all were executed here.
func (s *Span) Note() string {
	var parts []string
	if s.Made.Reported+s.Made.Proposed > 0 {
		parts = append(parts, s.Made.String())
	}
	if s.Unnamed > 0 {
		parts = append(parts, fmt.Sprintf("%d reported without the name of the tool", s.Unnamed))
	}
	if s.Other > 0 {
		parts = append(parts, fmt.Sprintf("%d asked for with other arguments", s.Other))
	}
	if s.Stopped > 0 {
		parts = append(parts, fmt.Sprintf("%d more proposed and stopped", s.Stopped))
	}
	return strings.Join(parts, "; ")
}

func isToolEvent(t trajectory.Type) bool {
	return t == trajectory.ToolExecutedType || t == trajectory.ToolProposedType
}

// countCalls counts the calls that the spec asks for.
func (e *Extractor) countCalls(s *Source) (Value, error) {
	calls, span := e.pickCalls(s)
	v := countValue(int64(len(calls)))
	v.Span = span
	return v, nil
}

// pickCalls lists the calls that may have been made and says which of them
// certainly were.
func (e *Extractor) pickCalls(s *Source) ([]*trajectory.ToolCall, *Span) {
	view := s.Calls()
	span := &Span{Unseen: view.Unseen}
	var calls []*trajectory.ToolCall
	for i := range view.Calls {
		c := &view.Calls[i]
		unnamed := e.spec.Name != "" && c.Name == "" // it may be of any tool
		if e.spec.Turn != nil && c.Turn != *e.spec.Turn || e.spec.Name != "" && !c.Is(e.spec.Name) && !unnamed {
			continue
		}
		if !e.wants(c) {
			if c.Stopped {
				span.Stopped++
			}
			continue
		}
		calls = append(calls, c)
		if unnamed {
			span.Unnamed++
			continue
		}
		span.Made.Add(c.Vantage)
		if c.Vantage != trajectory.Proposed || e.isChosen() {
			span.Sure++
		}
	}
	return calls, span
}

// pickAsked is pickCalls for who looks at arguments: what was asked for with
// others than a call was made with is there too, as a call that may have been made.
func (e *Extractor) pickAsked(s *Source) ([]*trajectory.ToolCall, *Span) {
	calls, span := e.pickCalls(s)
	view := s.Calls()
	for i := range view.Calls {
		c := &view.Calls[i]
		if e.spec.Turn != nil && c.Turn != *e.spec.Turn || e.spec.Name != "" && !c.Is(e.spec.Name) {
			continue
		}
		for _, asked := range c.Otherwise() {
			if !e.wants(&asked) {
				continue
			}
			calls = append(calls, &asked)
			span.Other++
			if e.isChosen() {
				span.Sure++
			}
		}
	}
	slices.SortStableFunc(calls, func(a, b *trajectory.ToolCall) int { return cmp.Compare(a.Seq, b.Seq) })
	return calls, span
}

// isChosen reports whether the spec itself says which calls count.
func (e *Extractor) isChosen() bool {
	return e.spec.Vantage != "" || e.spec.Event == trajectory.ToolProposedType
}

// wants reports whether a call counts, for the spec's vantage.
func (e *Extractor) wants(c *trajectory.ToolCall) bool {
	switch {
	case e.spec.Vantage == string(trajectory.Executed):
		return c.Vantage == trajectory.Executed
	case e.spec.Vantage == string(trajectory.Reported):
		return c.Vantage != trajectory.Proposed
	case e.spec.Event == trajectory.ToolProposedType:
		return c.Asked
	case e.isChosen():
		return true
	}
	return !c.Stopped
}

// UnknownTool refuses the name of a tool that neither a case, its class nor a
// run knows. The view may be nil.
func UnknownTool(tools []string, view *trajectory.CallView, name string) error {
	known := append([]string{}, tools...)
	if view != nil {
		if view.Knows(name) {
			return nil
		}
		for offered := range view.Known {
			known = append(known, offered)
		}
	}
	for _, tool := range known {
		if tool == name {
			return nil
		}
	}
	refused := refusal.Newf(refusal.NotFound, "there is no tool called %q: the case has none, and none was offered to a model", plain.Line(name))
	if near := nearest(name, known); near != "" {
		return refused.WithHint("did you mean %s?", plain.Line(near))
	}
	return refused.WithHint("write the name as the case or the agent has it, or list the tools of the agent itself under agent_tools in the scenario or the registration")
}

// nearest is the known name that is at most two changes away, "" if none is.
func nearest(name string, known []string) string {
	best, found := 3, ""
	for _, k := range known {
		if d := distance(name, k); d < best || d == best && found != "" && k < found {
			best, found = d, k
		}
	}
	return found
}

// distance is how many letters must be added, dropped or changed; names longer
// than any that people write are far from everything.
func distance(a, b string) int {
	if len(a) > 128 || len(b) > 128 {
		return 128
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, above, row[j])
			}
			row[j+1], before = cost, above
		}
	}
	return row[len(b)]
}

// Readings are the values that a check must hold for: of a count every number
// from those calls that certainly were made to all that may have been, of calls
// both lists. A value without a span is its own only reading.
func (v *Value) Readings() []Value {
	if v.Span == nil {
		return []Value{*v}
	}
	if v.Kind == CallsValue {
		sure := *v
		sure.Calls = v.Span.sure
		return []Value{sure, *v}
	}
	most := v.Span.Most()
	var list []Value
	for n := max(v.Span.Sure, most-maxReadings); n < most; n++ {
		reading := countValue(int64(n))
		list = append(list, reading)
	}
	return append(list, *v)
}

// maxReadings bounds how many numbers are tried.
const maxReadings = 1000

// CountOf is the value of a count.
func CountOf(n int64) Value { return countValue(n) }

// callsOf makes the value of calls.
func (s *Source) callsOf(picked []*trajectory.ToolCall, span *Span, showVantage bool) Value {
	v := Value{Found: true, Kind: CallsValue, Calls: []Call{}, Span: span}
	span.sure = []Call{}
	before := -1
	for _, p := range picked {
		c := Call{Turn: p.Turn, Name: p.Name, InPlace: p.Vantage == trajectory.Proposed && p.Seq == before}
		before = p.Seq
		if p.Vantage != trajectory.Executed && showVantage {
			c.Vantage = p.Vantage
		}
		var raw reading
		c.Args, raw, c.Problem = s.args(p.Name, p.Seq, &p.Args)
		c.Raw, c.Redacted = raw.text, raw.redacted
		v.Redacted = v.Redacted || raw.redacted
		v.Calls = append(v.Calls, c)
		if (p.Vantage != trajectory.Proposed && p.Name != "") || span.Sure == len(picked) {
			span.sure = append(span.sure, c)
		}
	}
	return v
}

// Asked gives the calls of a value as lists in which each call is there once: as
// they were made, and with the arguments that they were asked for with.
func (v *Value) Asked() [][]Call {
	made, depth, most := []Call{}, 0, 0
	for _, c := range v.Calls {
		if depth++; !c.InPlace {
			made, depth = append(made, c), 0
		}
		most = max(most, depth)
	}
	lists := [][]Call{made}
	for n := 1; n <= most; n++ {
		list, at := slices.Clone(made), -1
		for _, c := range v.Calls {
			if depth++; !c.InPlace {
				at, depth = at+1, 0
			}
			if depth == n {
				list[at] = c
			}
		}
		lists = append(lists, list)
	}
	return lists
}
