package trajectory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Change is a way in which a run can depart from its golden trace.
type Change string

// The changes. The first four are about which events there are, the others
// about what an event says.
const (
	New              Change = "new"               // an event that the golden trace does not have
	Missing          Change = "missing"           // an event that the run does not have
	Reordered        Change = "reordered"         // the same events in another order
	Replaced         Change = "replaced"          // another step in its place, of an outline
	Denied           Change = "denied"            // a step that was permitted is denied now, of an outline
	ChangedType      Change = "changed_type"      // another event in its place
	ChangedTool      Change = "changed_tool"      // another tool or agent in its place
	ChangedArguments Change = "changed_arguments" // of a tool call, hand-off or model call
	ChangedResult    Change = "changed_result"    // of a tool
	ChangedVerdict   Change = "changed_verdict"   // of the policy or a person
	ChangedMemory    Change = "changed_memory"    // what is proposed, written or retrieved
	ChangedContext   Change = "changed_context"   // what the context compiler did
	ChangedOutput    Change = "changed_output"    // of a model
	ChangedTools     Change = "changed_tools"     // what a model is told of a tool
	ChangedAnswer    Change = "changed_answer"    // of the agent
	ChangedUser      Change = "changed_user"      // what a simulated user says, does or ends
	ChangedFields    Change = "changed_fields"    // anything else
)

// A Divergence is the first place where a run departs from its golden trace.
type Divergence struct {
	Change Change
	Turn   int
	Step   int // within the turn, from 1
	// Golden and Got are the events at that place; nil where a trace has
	// ended, or where the other one has an event more.
	Golden, Got *Step
	// Fields are the values that differ, if the two are the same kind of
	// event.
	Fields []FieldChange
}

// A FieldChange is a value that differs; empty stands for "not there".
type FieldChange struct{ Path, Golden, Got string }

// String describes the divergence with both sides. It may have several lines
// and is safe to print.
func (d *Divergence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d, step %d: %s\n", d.Turn, d.Step, d.Change)
	if len(d.Fields) > 0 {
		fmt.Fprintf(&b, "  in %s\n", d.Got.headline())
		for _, f := range d.Fields {
			writeSide(&b, '-', f.Path, f.Golden)
			writeSide(&b, '+', f.Path, f.Got)
		}
		return b.String()
	}
	for _, side := range []struct {
		sign byte
		step *Step
	}{{'-', d.Golden}, {'+', d.Got}} {
		if side.step != nil {
			for l := range strings.Lines(string(side.step.format(nil))) {
				fmt.Fprintf(&b, "  %c %s", side.sign, l)
			}
		}
	}
	return b.String()
}

func writeSide(b *strings.Builder, sign byte, path, value string) {
	if value == "" {
		return
	}
	text := appendValue([]byte(path+":"), value)
	for l := range bytes.Lines(text) {
		fmt.Fprintf(b, "  %c %s", sign, l)
	}
}

// headline is the first line of the step in a golden file.
func (s *Step) headline() string {
	l, _, _ := strings.Cut(string(s.format(nil)), "\n")
	return l
}

func (s *Step) field(path string) string {
	for i := range s.Fields {
		if s.Fields[i].Path == path {
			return s.Fields[i].Value
		}
	}
	return ""
}

func (s *Step) equal(o *Step) bool {
	return s.Turn == o.Turn && s.Type == o.Type && slices.Equal(s.Fields, o.Fields)
}

// CheckGolden compares a run with the text of its golden file. Nil means equal.
func CheckGolden(golden []byte, v *Verified, opt Options) (*Divergence, error) {
	got, err := Canonical(v, opt)
	if err != nil {
		return nil, err
	}
	// Mostly nothing has changed, and then the file need not be parsed.
	if bytes.Equal(golden, got.Format()) {
		return nil, nil
	}
	want, err := ParseGolden(golden)
	if err != nil {
		return nil, err
	}
	return Compare(want, got), nil
}

// Compare returns the first divergence of a run from its golden trace, nil if
// there is none. It takes time in proportion to the length of the traces.
//
// After the first divergence a run often goes its own way altogether, so what
// happened there is judged by the events of the same turn: whether one is
// there more often, less often, or as often in another order.
func Compare(golden, got *Trace) *Divergence {
	i := 0
	for i < len(golden.Steps) && i < len(got.Steps) && golden.Steps[i].equal(&got.Steps[i]) {
		i++
	}
	switch {
	case i == len(golden.Steps) && i == len(got.Steps):
		return nil
	case i == len(golden.Steps):
		return newAt(&got.Steps[i])
	case i == len(got.Steps):
		return missingAt(&golden.Steps[i])
	}
	a, b := golden.Steps[i:], got.Steps[i:]
	g, h := &a[0], &b[0]
	if g.Turn == h.Turn {
		a, b = sameTurn(a, g.Turn), sameTurn(b, g.Turn)
	}
	exact := surplus(a, b, (*Step).content)
	if exact[g.content()] == 0 && exact[h.content()] == 0 && g.content() != h.content() {
		return diverge(Reordered, g, h)
	}
	kinds := surplus(a, b, (*Step).kind)
	more, less := kinds[h.kind()] > 0, kinds[g.kind()] < 0
	switch {
	case g.kind() == h.kind() && g.Turn == h.Turn:
		// One more or one less of a kind, and the other side's event is
		// still to come: not a change of this one.
		if more && exact[g.content()] >= 0 {
			return newAt(h)
		}
		if less && exact[h.content()] <= 0 {
			return missingAt(g)
		}
		return diverge(classify(g, h), g, h)
	case more && less && g.Type == h.Type:
		return diverge(ChangedTool, g, h)
	case more && less && g.Turn == h.Turn:
		return diverge(ChangedType, g, h)
	case more && (!less || h.Turn < g.Turn):
		return newAt(h)
	case less:
		return missingAt(g)
	}
	return diverge(Reordered, g, h)
}

func newAt(s *Step) *Divergence {
	return &Divergence{Change: New, Turn: s.Turn, Step: s.Number, Got: s}
}

func missingAt(s *Step) *Divergence {
	return &Divergence{Change: Missing, Turn: s.Turn, Step: s.Number, Golden: s}
}

func diverge(c Change, g, h *Step) *Divergence {
	d := &Divergence{Change: c, Turn: g.Turn, Step: g.Number, Golden: g, Got: h}
	if c == Reordered || g.Type != h.Type {
		return d
	}
	for _, f := range g.Fields {
		if other := h.field(f.Path); other != f.Value {
			d.Fields = append(d.Fields, FieldChange{f.Path, f.Value, other})
		}
	}
	for _, f := range h.Fields {
		if g.field(f.Path) == "" {
			d.Fields = append(d.Fields, FieldChange{f.Path, "", f.Value})
		}
	}
	return d
}

func sameTurn(steps []Step, turn int) []Step {
	n := 0
	for n < len(steps) && steps[n].Turn == turn {
		n++
	}
	return steps[:n]
}

// surplus counts how much more often each kind of step is in got than in
// golden.
func surplus(golden, got []Step, name func(*Step) string) map[string]int {
	n := map[string]int{}
	for i := range golden {
		n[name(&golden[i])]--
	}
	for i := range got {
		n[name(&got[i])]++
	}
	return n
}

// kind is what makes two steps the same event with other values: the type, and
// which tool or agent.
func (s *Step) kind() string {
	if of := rows[s.Type].golden.of; of != "" {
		return string(s.Type) + " " + s.field(of)
	}
	return string(s.Type)
}

// content is the whole step but for the numbers of calls and entries, which
// change when others before it do.
func (s *Step) content() string {
	var b strings.Builder
	b.WriteString(string(s.Type))
	for _, f := range s.Fields {
		if named[f.Path] == "" {
			b.WriteString("\n" + f.Path + ":" + f.Value)
		}
	}
	return b.String()
}

// classify names the change between two steps of one kind.
func classify(g, h *Step) Change {
	for _, c := range rows[g.Type].golden.changes {
		if len(c.members) == 0 || differ(g, h, c.members) || differ(h, g, c.members) {
			return c.name
		}
	}
	return ChangedFields
}

// differ reports whether one of the members, or something in it, is not the
// same in other.
func differ(of, other *Step, members []string) bool {
	return slices.ContainsFunc(of.Fields, func(f Field) bool {
		return other.field(f.Path) != f.Value &&
			slices.ContainsFunc(members, func(m string) bool { return f.Path == m || strings.HasPrefix(f.Path, m+".") })
	})
}
