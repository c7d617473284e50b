package expression

import (
	"errors"
	"fmt"
	"math/bits"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"tallystick/internal/record/pattern"
)

// What an expression spends is counted by CEL, one unit for each look at a value and
// each call, and ten and more for each list and map. That leaves out what a single call
// does to a long text or a deep list, and CEL counts a call only after it. So here
//
//   - a call costs besides the bytes of text that it reads and makes, and the elements
//     of lists that it joins;
//   - what is made costs for each element;
//   - what can take long by itself is paid before it is done: a pattern costs its
//     instructions times the bytes that it reads, a comparison everything that is
//     compared, walking an object the sorting of its keys.
//
// All of it follows from the expression and its variables, so that it ends in the same
// way on every machine.
const (
	bytesPerUnit = 32 // that a call reads or makes
	workPerUnit  = 16 // of patterns, as package pattern counts it
	elementUnits = 2  // of an element that is kept, in a list or a map
	sortUnits    = 1  // of a comparison of two keys

	// A pattern that is not written in the expression is compiled each time.
	patternByteUnits = 500
)

// payment is the call by which something is paid for in advance.
type payment struct{}

const paymentID = "tallystick_payment"

func (payment) Function() string   { return paymentID }
func (payment) OverloadID() string { return paymentID }

// pay spends units, and does not return if there are not so many left.
func pay(frame *interpreter.ExecutionFrame, id int64, units int) {
	if t := frame.CostTracker(); t != nil && units > 0 {
		t.EvalUnary(nil, id, payment{}, types.Uint(units), nil)
	}
}

// left is what there is to spend.
func left(frame *interpreter.ExecutionFrame) int {
	const plenty = 1 << 40
	t := frame.CostTracker()
	if t == nil || t.Limit == nil {
		return plenty
	}
	return int(min(plenty, *t.Limit-min(*t.Limit, t.ActualCost())))
}

// newTracker makes what counts; each evaluation has a copy with its own limit.
func newTracker() (*cost.Tracker, error) {
	return cost.NewTracker(calls{}, cost.OverloadTracker(paymentID, func(args []ref.Val, _ ref.Val) *uint64 {
		units := uint64(args[0].(types.Uint))
		return &units
	}))
}

// calls says what a call costs besides the one unit of every call.
type calls struct{}

func (calls) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	units := span(result)
	for _, arg := range args {
		units += span(arg)
	}
	if function == operators.Add && len(args) == 2 {
		units += joined(args[0], args[1])
	}
	if units == 0 {
		return nil // as CEL counts it
	}
	total := uint64(1 + units)
	return &total
}

// span is the cost of the bytes of a text.
func span(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v) / bytesPerUnit
	case types.Bytes:
		return len(v) / bytesPerUnit
	}
	return 0
}

// joined is the cost of the elements of two lists. A list that a macro is building is
// added to in place.
func joined(a, b ref.Val) int {
	units := 0
	if _, building := a.(traits.MutableLister); !building {
		units += size(a)
	}
	return units + size(b)
}

func size(v ref.Val) int {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		n, _ := v.(traits.Sizer).Size().(types.Int)
		return int(n)
	}
	return 0
}

// weigh is everything that is in a value, at every depth, as long as it is at most so
// much: a list of a list of a list that is referred to twice each time has no end that
// could be waited for.
func weigh(v ref.Val, most int) int {
	units := 1 + span(v)
	if units > most {
		return units
	}
	switch v := v.(type) {
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && units <= most; {
			units += 2 + weigh(it.Next(), most-units)
		}
	case traits.Mapper:
		if units += walking(v); units > most {
			return units
		}
		for it := v.Iterator(); it.HasNext() == types.True && units <= most; {
			key := it.Next()
			units += 2 + span(key)
			if value, ok := v.Find(key); ok && units <= most {
				units += weigh(value, most-units)
			}
		}
	}
	return units
}

// walking is the cost of sorting the keys of an object.
func walking(v ref.Val) int {
	n := size(v)
	return sortUnits * n * bits.Len(uint(n))
}

// nesting is how many loops are inside each other.
func nesting(e ast.Expr) int {
	deepest := 0
	for _, child := range ast.NavigateExpr(nil, e).Children() {
		deepest = max(deepest, nesting(child))
	}
	if e.Kind() == ast.ComprehensionKind {
		deepest++
	}
	return deepest
}

// metered is a program's nodes with the payments in them.
func metered(tree *ast.AST) interpreter.InterpretableDecoratorV2 {
	walked := map[int64]bool{} // what macros walk over
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			walked[e.AsComprehension().IterRange().ID()] = true
		}
	}))
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		var out interpreter.InterpretableV2 = i
		switch node := i.(type) {
		case interpreter.InterpretableCall:
			if prepare := payingCalls[node.Function()]; prepare != nil && len(node.Args()) == 2 {
				l, r := node.Args()[0], node.Args()[1]
				op, err := prepare(r)
				if err != nil {
					return nil, err
				}
				out = &payingCall{node, l, r, op}
			}
		case interpreter.InterpretableConstructor:
			if n := len(node.InitVals()); n > 0 {
				out = &payingConstructor{node, n * elementUnits}
			}
		}
		if walked[i.ID()] {
			out = &payingRange{out}
		}
		return out, nil
	}
}

// payingCalls are the calls that are paid before they are done, each with what makes the
// operation of one node of its right side.
var payingCalls = map[string]func(right interpreter.InterpretableV2) (operation, error){
	overloads.Matches:   matching,
	operators.Equals:    plainly(equals),
	operators.NotEquals: plainly(differs),
	operators.In:        plainly(within),
}

func plainly(op operation) func(interpreter.InterpretableV2) (operation, error) {
	return func(interpreter.InterpretableV2) (operation, error) { return op, nil }
}

type operation func(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) ref.Val

// A payingCall is a call of two arguments, both of which are needed.
type payingCall struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	op          operation
}

func (c *payingCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	l := c.left.Exec(frame)
	if types.IsError(l) {
		return l
	}
	r := c.right.Exec(frame)
	if types.IsError(r) {
		return r
	}
	pay(frame, c.ID(), 1)
	lu, lunknown := l.(*types.Unknown)
	ru, runknown := r.(*types.Unknown)
	switch {
	case lunknown && runknown:
		return types.MergeUnknowns(lu, ru)
	case lunknown:
		return l
	case runknown:
		return r
	}
	return c.op(frame, c.ID(), l, r)
}

func (c *payingCall) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

func equals(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) ref.Val {
	payComparison(frame, id, l, r)
	return types.Equal(l, r)
}

func differs(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) ref.Val {
	payComparison(frame, id, l, r)
	return types.Bool(types.Equal(l, r) != types.True)
}

// payComparison pays for what is in both values. Lists and objects of different sizes
// are known to differ without looking into them.
func payComparison(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) {
	ln, rn := size(l), size(r)
	switch {
	case ln == 0 && rn == 0:
		pay(frame, id, min(span(l), span(r)))
	case ln == rn:
		units := weigh(l, left(frame))
		pay(frame, id, units)
		pay(frame, id, weigh(r, units))
	}
}

// within is the operator in: everything in a list is compared, of a map one key.
func within(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) ref.Val {
	container, ok := r.(traits.Container)
	if !ok {
		return types.ValOrErr(r, "no such overload")
	}
	switch {
	case size(l) > 0:
		pay(frame, id, weigh(r, left(frame)))
	default:
		if _, list := r.(traits.Lister); list {
			pay(frame, id, size(r)*(2+span(l)))
		}
	}
	return container.Contains(l)
}

// matching is the function matches. A pattern that is written in the expression is
// compiled once and paid by the compiler of the program; any other each time.
func matching(right interpreter.InterpretableV2) (operation, error) {
	compile := func(frame *interpreter.ExecutionFrame, id int64, source string) (*pattern.Pattern, error) {
		pay(frame, id, len(source)*patternByteUnits)
		return pattern.Compile(source)
	}
	if written, ok := right.(interpreter.InterpretableConst); ok {
		if source, ok := written.Value().(types.String); ok {
			p, err := pattern.Compile(string(source))
			if err != nil {
				return nil, err
			}
			compile = func(*interpreter.ExecutionFrame, int64, string) (*pattern.Pattern, error) { return p, nil }
		}
	}
	return func(frame *interpreter.ExecutionFrame, id int64, l, r ref.Val) ref.Val {
		text, isText := l.(types.String)
		source, isSource := r.(types.String)
		if !isText || !isSource {
			return types.NewErrWithNodeID(id, "no such overload: %s", overloads.Matches)
		}
		p, err := compile(frame, id, string(source))
		if err != nil {
			return types.WrapErr(err)
		}
		pay(frame, id, p.Work(len(text))/workPerUnit)
		return types.Bool(p.Match(string(text)))
	}, nil
}

// A payingConstructor makes a list or a map.
type payingConstructor struct {
	interpreter.InterpretableConstructor
	units int
}

func (c *payingConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	pay(frame, c.ID(), c.units)
	return c.InterpretableConstructor.Exec(frame)
}

func (c *payingConstructor) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// A payingRange is what a macro walks over.
type payingRange struct{ interpreter.InterpretableV2 }

func (r *payingRange) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := r.InterpretableV2.Exec(frame)
	if _, object := v.(traits.Mapper); object {
		pay(frame, r.ID(), walking(v))
	}
	return v
}

func (r *payingRange) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, r.Exec)
}

// A SpentError says that an expression costs more than it may.
type SpentError struct {
	Source  string
	Spent   uint64 // with what it was about to do
	Allowed uint64
}

func (e *SpentError) Error() string {
	return fmt.Sprintf("the expression %s would have spent %d units, expected at most %d: it repeats too much, or what it looks at is too large", shown(e.Source), e.Spent, e.Allowed)
}

// isSpent recognises how CEL ends an evaluation that has spent its limit.
func isSpent(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

func shown(source string) string {
	const most = 120
	if r := []rune(source); len(r) > most {
		source = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", source)
}
