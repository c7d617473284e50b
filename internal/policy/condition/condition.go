// Package condition compiles conditions written in CEL, the Common Expression
// Language, so that they end, and end the same way everywhere.
//
// An expression has a bounded length and a bounded cost at run time. It sees
// only declared variables; one that names another is refused when it is
// compiled. There are no dates, no time zones and no clock in it, and maps are
// walked in the order of their keys, so the answer follows from the variables
// alone.
//
// A value that is not there (a missing key) is an error and not false. What an
// error means is for the caller to say; policy denies. As CEL has it, the
// operators || and && answer without the side that failed when the other side
// decides, and has(args.key) asks whether a key is there.
//
// The package is apart from policy because CEL brings a parser generator's
// run time and protocol buffers with it, some ten megabytes of program that
// verifiers can do without.
package condition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"tallystick/internal/policy"
)

const (
	// maxExpression is the length of an expression in code points. Ours have
	// a hundred; a machine that writes longer ones should write code.
	maxExpression = 4096

	// maxNesting bounds the parser's recursion and comprehensions inside each
	// other, whose costs multiply.
	maxNesting       = 64
	maxComprehension = 2

	// maxCost is in CEL's units, roughly one per operation: about a
	// millisecond.
	maxCost = 100_000
)

// ForPolicy is the [policy.Compiler] for CEL.
func ForPolicy(expression string) (policy.Condition, error) {
	e, err := policyEnv()
	if err != nil {
		return nil, err
	}
	p, err := compile(e, expression)
	if err != nil {
		return nil, err
	}
	return p.Holds, nil
}

var policyEnv = sync.OnceValues(func() (*cel.Env, error) { return newEnv(policy.Variables()) })

// A Program is a compiled condition. It may be used by several goroutines.
type Program struct{ program cel.Program }

// Compile compiles an expression over the given variables. Its type must be
// bool.
func Compile(expression string, variables []policy.Variable) (*Program, error) {
	e, err := newEnv(variables)
	if err != nil {
		return nil, err
	}
	return compile(e, expression)
}

// Holds evaluates the condition. vars has a value for every declared variable;
// objects are as JSON decodes into any.
func (p *Program) Holds(vars map[string]any) (bool, error) {
	out, _, err := p.program.Eval(vars)
	if err != nil {
		return false, err
	}
	// An expression of dynamic type, such as args.flag, may turn out not to
	// be a bool only now.
	answer, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the condition gave a %s, expected a bool", out.Type().TypeName())
	}
	return answer, nil
}

func compile(e *cel.Env, expression string) (*Program, error) {
	if strings.TrimSpace(expression) == "" {
		return nil, errors.New("the condition is empty")
	}
	ast, issues := e.Compile(expression)
	if issues.Err() != nil {
		return nil, firstIssue(issues)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the condition is of type %s, expected bool", t)
	}
	p, err := e.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// firstIssue gives the first problem in one line; CEL draws a picture.
func firstIssue(issues *cel.Issues) error {
	first := issues.Errors()[0]
	return fmt.Errorf("%d:%d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
}

// withoutTime are the functions of CEL that are left out: a time zone is read
// from the machine, and times would tempt people to compare with a clock.
var withoutTime = []string{
	"timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDate", "getDayOfMonth", "getDayOfWeek",
	"getHours", "getMinutes", "getSeconds", "getMilliseconds",
}

func newEnv(variables []policy.Variable) (*cel.Env, error) {
	subset := &env.LibrarySubset{}
	for _, name := range withoutTime {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, env.NewFunction(name))
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxNesting),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(maxComprehension)),
		cel.CustomTypeAdapter(inOrder{types.DefaultTypeAdapter}),
	}
	for _, v := range variables {
		t := map[string]*cel.Type{"text": cel.StringType, "number": cel.DoubleType, "object": cel.MapType(cel.StringType, cel.DynType)}[v.Kind]
		if t == nil {
			return nil, fmt.Errorf("variable %s is of kind %q, expected text, number or object", v.Name, v.Kind)
		}
		options = append(options, cel.Variable(v.Name, t))
	}
	return cel.NewCustomEnv(options...)
}

// inOrder adapts JSON objects so that they are walked in the order of their
// keys. CEL would walk a Go map in Go's order, which is random, and an
// expression could give two answers for one call.
type inOrder struct{ types.Adapter }

func (a inOrder) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return object{types.NewStringInterfaceMap(a, v), slices.Sorted(maps.Keys(v))}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(value)
}

type object struct {
	traits.Mapper
	keys []string
}

func (o object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.keys).Iterator()
}
