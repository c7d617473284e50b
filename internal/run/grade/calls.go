package grade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
)

// Bounds of tool-call graders. Comparing without an order is a matching, whose
// cost is about the product of the two.
const (
	maxExpectedCalls = 256
	maxMatchedCalls  = 2000
)

// An expectedCall is one call of a spec. Without args any will do.
type expectedCall struct {
	Name string            `json:"name"`
	Args *canon.RawMessage `json:"args,omitempty"`
}

func (c *expectedCall) String() string {
	if c.Args == nil {
		return c.Name
	}
	return c.Name + " " + string(*c.Args)
}

type callsRule struct {
	want       []expectedCall
	wantArgs   []map[string]any // decoded; nil where any will do
	mode, args string
}

func callsGrader(expected canon.RawMessage, r *Rule) (grader, error) {
	calls, err := newCallsRule(expected, r.Mode, r.Args)
	if err != nil {
		return nil, err
	}
	return calls.grade, nil
}

func newCallsRule(raw canon.RawMessage, mode, args string) (*callsRule, error) {
	r := &callsRule{mode: mode, args: args}
	if r.mode == "" {
		r.mode = "strict"
	}
	if r.args == "" {
		r.args = "exact"
	}
	if raw.Kind() != '[' {
		return nil, fmt.Errorf("expected is %s, where a list of calls is needed, such as [{\"name\": \"transfer\"}]", describe(raw))
	}
	if err := canon.Unmarshal(raw, &r.want); err != nil {
		return nil, err
	}
	if len(r.want) > maxExpectedCalls {
		return nil, fmt.Errorf("has %d calls, expected at most %d", len(r.want), maxExpectedCalls)
	}
	var err error
	for i, c := range r.want {
		if c.Name == "" {
			return nil, fmt.Errorf("call %d has no name", i+1)
		}
		if c.Args != nil && c.Args.Kind() != '{' {
			return nil, fmt.Errorf("call %d: args is %s, expected an object", i+1, describe(*c.Args))
		}
		var args map[string]any
		if c.Args != nil && r.args != "ignore" {
			if *c.Args, err = canon.Canonicalize(*c.Args); err != nil {
				return nil, err
			}
			if err := canon.Unmarshal(*c.Args, &args); err != nil {
				return nil, err
			}
		}
		r.wantArgs = append(r.wantArgs, args)
	}
	if len(r.want) == 0 && r.mode == "superset" {
		return nil, fmt.Errorf("every run makes a superset of no calls, so this could not fail")
	}
	return r, nil
}

func (r *callsRule) grade(v *extract.Value) verdict {
	if v.Kind != extract.CallsValue {
		return unusable(CodeNotComparable, "the value is a %s, expected tool calls (extract with kind tools)", v.Kind)
	}
	if r.mode == "superset" {
		return r.gradeList(v)
	}
	// What was asked for with other arguments is not one call more.
	var graded verdict
	for _, calls := range v.Asked() {
		list := *v
		list.Calls = calls
		if graded = r.gradeList(&list); graded.outcome != Passed {
			break
		}
	}
	return graded
}

func (r *callsRule) gradeList(v *extract.Value) verdict {
	if r.mode != "strict" && len(v.Calls) > maxMatchedCalls {
		return unusable(CodeTooLarge, "the run made %d calls, more than the %d that are matched", len(v.Calls), maxMatchedCalls)
	}
	args, err := r.decode(v.Calls)
	if err != nil {
		return unscored("%v", err)
	}
	if r.mode == "strict" {
		return r.strict(v, args)
	}
	return r.matched(v, args)
}

// decode reads the arguments that are looked at: those of calls whose name is
// expected with some. Where the evidence lacks them, nothing can be said.
func (r *callsRule) decode(calls []extract.Call) ([]map[string]any, error) {
	needed := map[string]bool{}
	for i, want := range r.wantArgs {
		if want != nil {
			needed[r.want[i].Name] = true
		}
	}
	all := make([]map[string]any, len(calls))
	for j, c := range calls {
		if !isNeeded(needed, c.Name) {
			continue
		}
		if c.Problem != nil {
			return nil, c.Problem
		}
		// Nothing stands for arguments that are not a JSON object, as an agent
		// may write them; they fit no expectation. Equal ones have the same
		// canonical bytes and need no decoding.
		if c.Args != nil && r.args != "exact" && json.Unmarshal(c.Args, &all[j]) != nil {
			all[j] = nil
		}
	}
	return all, nil
}

func isNeeded(needed map[string]bool, name string) bool {
	for expected := range needed {
		if trajectory.SameTool(name, expected) {
			return true
		}
	}
	return false
}

func (r *callsRule) strict(v *extract.Value, args []map[string]any) verdict {
	for i := range min(len(r.want), len(v.Calls)) {
		if !r.fits(i, &v.Calls[i], args[i]) {
			return mismatch("call %d is %s, expected %s", i+1, r.show(v, i), quoted(r.want[i].String()))
		}
	}
	switch {
	case len(v.Calls) > len(r.want):
		return mismatch("%d calls, expected %d; the first one more is %s", len(v.Calls), len(r.want), r.show(v, len(r.want)))
	case len(v.Calls) < len(r.want):
		return mismatch("%d calls, expected %d; the first one missing is %s", len(v.Calls), len(r.want), quoted(r.want[len(v.Calls)].String()))
	}
	return passed("the %d calls are as expected", len(v.Calls))
}

// matched pairs calls with expected ones. A pairing as large as possible is
// needed: pairing the first that fits could use up a call that another
// expectation needs.
func (r *callsRule) matched(v *extract.Value, args []map[string]any) verdict {
	fits := make([][]int, len(r.want)) // expectation to the calls that fit it
	for i := range r.want {
		for j := range v.Calls {
			if r.fits(i, &v.Calls[j], args[j]) {
				fits[i] = append(fits[i], j)
			}
		}
	}
	pairOf := make([]int, len(v.Calls)) // call to expectation, -1 for none
	for j := range pairOf {
		pairOf[j] = -1
	}
	missing := -1
	for i := range r.want {
		if !augment(i, fits, pairOf, make([]bool, len(v.Calls))) && missing < 0 {
			missing = i
		}
	}
	extra := -1
	for j, i := range pairOf {
		if i < 0 {
			extra = j
			break
		}
	}
	switch {
	case missing >= 0 && r.mode != "subset":
		return mismatch("no call is left for %s", quoted(r.want[missing].String()))
	case extra >= 0 && r.mode != "superset":
		return mismatch("nothing expects call %d, %s", extra+1, r.show(v, extra))
	}
	return passed("the %d calls are as expected (%s)", len(v.Calls), r.mode)
}

// augment finds a call for an expectation, moving others to another of theirs
// if that helps (Kuhn's algorithm).
func augment(i int, fits [][]int, pairOf []int, tried []bool) bool {
	for _, j := range fits[i] {
		if tried[j] {
			continue
		}
		tried[j] = true
		if pairOf[j] < 0 || augment(pairOf[j], fits, pairOf, tried) {
			pairOf[j] = i
			return true
		}
	}
	return false
}

// fits compares one call. Modes are about the call: a subset of the expected
// arguments, a superset of them.
func (r *callsRule) fits(i int, call *extract.Call, got map[string]any) bool {
	want := r.wantArgs[i]
	switch {
	case !trajectory.SameTool(call.Name, r.want[i].Name):
		return false
	case want == nil:
		return true
	case r.args == "exact":
		return bytes.Equal(call.Args, *r.want[i].Args)
	case got == nil:
		return false
	case r.args == "subset":
		return holds(want, got)
	}
	return holds(got, want)
}

// holds reports whether all members of part are in whole with the same value.
func holds(whole, part map[string]any) bool {
	for name, value := range part {
		other, ok := whole[name]
		if !ok {
			return false
		}
		if difference(value, other) != nil {
			return false
		}
	}
	return true
}

func (r *callsRule) show(v *extract.Value, i int) string {
	c := &v.Calls[i]
	if r.args == "ignore" || v.Redacted {
		return quoted(c.Name)
	}
	return quoted(strings.TrimSpace(c.Name + " " + string(c.Args) + c.Raw))
}
