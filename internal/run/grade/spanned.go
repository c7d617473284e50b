package grade

import (
	"math"
	"strings"

	"tallystick/internal/run/extract"
)

// spanned grades tool calls, or their number, of which some were made and others
// only may have been.
//
// The check passes if it holds whatever was made: so "at most n" and "none"
// count what the model only asked for, "at least n" does not, and "n" wants
// both. If it holds for some readings and not for others it is unusable, which
// fails and is not turned into a pass by a not around it.
func (n *node) spanned(v *extract.Value) verdict {
	readings := v.Readings()
	passes, fails, shown := 0, verdict{}, verdict{}
	for i := range readings {
		shown = n.grade(&readings[i])
		switch shown.outcome {
		case Passed:
			passes++
		case Unscored:
			return shown
		default:
			fails = shown
		}
	}
	switch {
	case v.Span.Unseen != "":
		shown = n.unseen(v, passes == len(readings), passes == 0, shown)
	case passes > 0 && passes < len(readings):
		shown = fails
		shown.outcome = Unusable
	}
	if note := v.Span.Note(); note != "" && shown.outcome != Unscored {
		shown.why += " (" + note + ")"
	}
	return shown
}

// unseen grades where there may be more calls than were seen. Only what more
// calls cannot change is said: that there are too many already, or enough.
func (n *node) unseen(v *extract.Value, all, none bool, seen verdict) verdict {
	open := unscored("not all tool calls were seen: %s", v.Span.Unseen)
	if v.Kind == extract.CallsValue {
		return n.unseenCalls(v, all, seen, open)
	}
	// Numbers that the count may have beside what was seen: one more, so many
	// that no bound holds, and the very one that is expected.
	probes := []int64{int64(v.Span.Most()) + 1, math.MaxInt32}
	if expected, ok := parseDecimal(strings.TrimLeft(shownText(n.expected), "<>=! ")); ok && expected.IsInt() && expected.Num().IsInt64() {
		probes = append(probes, max(expected.Num().Int64(), int64(v.Span.Most())))
	}
	more, most := 0, n.grade(v)
	for _, probe := range probes {
		reading := extract.CountOf(probe)
		if n.grade(&reading).outcome == Passed {
			more++
		}
	}
	switch {
	case all && more == len(probes):
		return seen
	case none && more == 0:
		return seen
	case most.outcome != Passed && more == 0:
		most.outcome = Unusable
		return most
	}
	return open
}

// unseenCalls: a list that holds all expected calls still does with more, and
// one with a call that nothing expects still has it.
func (n *node) unseenCalls(v *extract.Value, all bool, seen, open verdict) verdict {
	switch {
	case n.calls != nil && n.calls.mode == "superset" && all:
		return seen
	case n.calls != nil && n.calls.mode != "superset":
		within := *n.calls
		within.mode = "subset"
		if extra := within.grade(v); extra.outcome == Mismatch {
			return extra
		}
	}
	return open
}

// named grades like spanned, and looks at the names of tools in the check. A
// misspelled one must not look like a tool that was not called: what would pass
// is unscored. What fails stays failed, or an agent could leave out a tool that
// it should have called, and be unscored.
func (n *node) named(s *extract.Source, v *extract.Value) verdict {
	graded := n.spanned(v)
	err := n.unknownName(s)
	switch {
	case err == nil || graded.outcome == Unscored:
		return graded
	case graded.outcome == Passed:
		return unscored("%s", reasonOf(err))
	}
	graded.outcome, graded.why = Unusable, graded.why+"; "+reasonOf(err)
	return graded
}

// unknownName refuses the name of an unknown tool.
func (n *node) unknownName(s *extract.Source) error {
	view := s.Calls()
	if s.Tools == nil || view.Unseen != "" {
		return nil
	}
	names := []string{n.extractor.Spec().Name}
	if n.calls != nil {
		for i := range n.calls.want {
			names = append(names, n.calls.want[i].Name)
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if err := extract.UnknownTool(s.Tools, view, name); err != nil {
			return err
		}
	}
	return nil
}
