// Package expression compiles and evaluates expressions: the conditions of a
// policy, and what extractors and graders ask of a run. They are CEL, the
// Common Expression Language, so they end, and end the same way everywhere.
//
// A [Language] says which variables an expression sees and what evaluating it
// may cost; an expression that names another variable is refused when it is
// compiled. There are no dates, no time zones and no clock in it, and maps are
// walked in the order of their keys, so what it gives follows from the
// variables alone.
//
// A value that is not there (a missing key) is an error and neither false nor
// null; has(args.key) asks whether it is there. As CEL has it, the operators ||
// and && answer without the side that failed when the other side decides. What
// an error means is for the caller to say: a policy denies, a grader fails the
// case.
//
// CEL brings a parser generator's run time and protocol buffers with it, some
// ten megabytes of program. The stranger's verifier does without, and a test in
// internal/testing/structure keeps it so.
package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// maxSource is the length of an expression in code points. Ours have a
	// hundred; a machine that writes longer ones should write code.
	maxSource = 4096

	// maxNesting bounds the parser's recursion and comprehensions inside each
	// other, whose costs multiply. Two let an expression look for a pair of
	// events; the cost limit is what really bounds them.
	maxNesting       = 64
	maxComprehension = 2
)

// A Kind is what a variable holds. All numbers are doubles, as JSON has them.
type Kind int

// The kinds of variables. Objects are as JSON decodes into any.
const (
	Text Kind = iota
	Number
	Object
	ListOfObjects
)

// A Variable is something that an expression can ask for.
type Variable struct {
	Name string
	Kind Kind
}

// A Language is what the expressions of one purpose may say. It may be used by
// several goroutines.
type Language struct {
	variables   []Variable
	maxCost     uint64
	environment func() (*cel.Env, error)
}

// NewLanguage returns the language of expressions over some variables. Their
// cost is in units, roughly one per operation: a hundred thousand are about ten
// milliseconds. meter.go says what costs how much.
//
// It does nothing yet that takes time, so a package may keep one in a variable:
// CEL is set up when the first expression is compiled.
func NewLanguage(maxCost uint64, variables ...Variable) *Language {
	return &Language{variables, maxCost, sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(variables) })}
}

func newEnvironment(variables []Variable) (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(withoutTime())),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(maxNesting),
		cel.ASTValidators(cel.ValidateRegexLiterals()),
		cel.CustomTypeAdapter(inOrder{types.DefaultTypeAdapter}),
	}
	for _, v := range variables {
		t := map[Kind]*cel.Type{Text: cel.StringType, Number: cel.DoubleType, Object: object, ListOfObjects: cel.ListType(object)}[v.Kind]
		if t == nil {
			return nil, fmt.Errorf("variable %s is of kind %d, which no expression can hold", v.Name, v.Kind)
		}
		options = append(options, cel.Variable(v.Name, t))
	}
	return cel.NewCustomEnv(options...)
}

// withoutTime are the functions of CEL that are left out: a time zone is read
// from the machine, and times would tempt people to compare with a clock.
func withoutTime() *env.LibrarySubset {
	subset := &env.LibrarySubset{}
	for _, name := range []string{
		"timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDate", "getDayOfMonth", "getDayOfWeek",
		"getHours", "getMinutes", "getSeconds", "getMilliseconds",
	} {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, env.NewFunction(name))
	}
	return subset
}

// Compile compiles an expression that may give any value.
func (l *Language) Compile(source string) (*Program, error) { return l.compile(source, false) }

// CompileCondition compiles an expression whose type must be bool, as far as
// that can be told before it is evaluated.
func (l *Language) CompileCondition(source string) (*Program, error) { return l.compile(source, true) }

func (l *Language) compile(source string, condition bool) (*Program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the expression is empty")
	}
	e, err := l.environment()
	if err != nil {
		return nil, err
	}
	ast, issues := e.Parse(source)
	if issues.Err() == nil {
		// Before types are looked for: that takes seconds for deep ones.
		if n := nesting(ast.NativeRep().Expr()); n > maxComprehension {
			return nil, fmt.Errorf("the expression has %d loops inside each other, expected at most %d: all, exists, map and filter nest, and so do those that follow one another", n, maxComprehension)
		}
		ast, issues = e.Check(ast)
	}
	if issues.Err() != nil {
		first := issues.Errors()[0] // in one line; CEL draws a picture
		return nil, fmt.Errorf("%d:%d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	if t := ast.OutputType(); condition && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the condition is of type %s, expected bool", t)
	}
	program, err := e.Program(ast, cel.CustomDecoratorV2(metered(ast.NativeRep())))
	if err != nil {
		return nil, err
	}
	tracker, err := newTracker()
	if err != nil {
		return nil, err
	}
	return &Program{l, program, tracker, source}, nil
}

// A Program is a compiled expression. It may be used by several goroutines.
type Program struct {
	language *Language
	program  cel.Program
	tracker  *cost.Tracker // copied for each evaluation
	source   string
}

// Holds evaluates a condition. Vars has a value for every variable of the
// language.
func (p *Program) Holds(vars map[string]any) (bool, error) {
	out, spent, err := p.evaluate(vars, p.language.maxCost)
	if isSpent(err) {
		return false, &SpentError{p.source, spent, p.language.maxCost}
	}
	if err != nil {
		return false, err
	}
	if u, ok := out.(*types.Unknown); ok {
		return false, unknown(u)
	}
	// An expression of dynamic type, such as args.flag, may turn out not to
	// be a bool only now.
	answer, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the condition gave a %s, expected a bool", out.Type().TypeName())
	}
	return answer, nil
}

// evaluate evaluates here, and says what that cost.
func (p *Program) evaluate(vars map[string]any, limit uint64) (out ref.Val, spent uint64, err error) {
	frame, err := interpreter.NewExecutionFrame(vars)
	if err != nil {
		return nil, 0, err
	}
	defer frame.Close()
	tracker, err := p.tracker.Clone()
	if err != nil {
		return nil, 0, err
	}
	tracker.Limit = &limit
	frame.SetCostTracker(tracker)
	out, _, err = p.program.Eval(frame)
	return out, tracker.ActualCost(), err
}

// An UnknownError says that what an expression gives depends on an [Unknown].
type UnknownError struct{ What string } // of the first

func (e *UnknownError) Error() string { return e.What }

// Unknown stands for a value that cannot be known, with a sentence that says so. An
// expression whose result depends on it has none: [Program.Value] gives an
// [UnknownError]. One that comes to the same whatever the value is, such as
// false && unknown, has its result.
func Unknown(what string) any { return types.NewUnknown(1, types.NewAttributeTrail(what)) }

func unknown(u *types.Unknown) error {
	for _, id := range u.IDs() {
		if trails, ok := u.GetAttributeTrails(id); ok && len(trails) > 0 {
			return &UnknownError{trails[0].Variable()}
		}
	}
	return &UnknownError{"it depends on something that cannot be seen"}
}

// Source is the text of the expression.
func (p *Program) Source() string { return p.source }

// A Budget is what the evaluations of one check may cost together.
type Budget struct{ allowed, spent uint64 }

// Budget is one of which nothing is spent yet.
func (l *Language) Budget() *Budget { return &Budget{allowed: l.maxCost} }

// Value evaluates an expression. It gives nil, a bool, an int64, a uint64, a
// float64, a string, a []any or a map[string]any. A [SpentError] says that the budget
// does not suffice.
//
// What costs more than a little is evaluated in a process of its own, under its limits,
// if this program can start one.
func (p *Program) Value(ctx context.Context, vars map[string]any, b *Budget) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	whole := b.allowed - b.spent
	value, spent, err := p.valueHere(vars, min(whole, maxHere))
	if isSpent(err) && whole > maxHere {
		value, spent, err = p.valueElsewhere(ctx, vars, whole)
	}
	if isSpent(err) {
		err = &SpentError{p.source, b.spent + spent, b.allowed}
	}
	b.spent += min(spent, whole)
	return value, err
}

// maxHere is what an evaluation may cost in the process that others wait for, some
// hundredths of a second.
const maxHere = 200_000

func (p *Program) valueHere(vars map[string]any, limit uint64) (any, uint64, error) {
	out, spent, err := p.evaluate(vars, limit)
	if err != nil {
		return nil, spent, err
	}
	if u, ok := out.(*types.Unknown); ok {
		return nil, spent, unknown(u)
	}
	value, err := (&result{left: maxResult}).native(out, maxDepth)
	return value, spent, err
}
