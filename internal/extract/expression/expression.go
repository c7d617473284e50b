// Package expression compiles the expressions of extractors and graders. They
// are CEL, the Common Expression Language, so they end, and end the same way
// everywhere.
//
// An expression has a bounded length and a bounded cost at run time, and sees
// only the variables of [extract.Variables]. There are no dates, no time zones
// and no clock in it, and maps are walked in the order of their keys, so what
// it gives follows from the trajectory alone.
//
// A value that is not there (a missing key) is an error and neither false nor
// null; has(memory.semantic.city) asks whether it is there. As CEL has it, the
// operators || and && answer without the side that failed when the other side
// decides. What an error means is for the caller to say; graders fail the case.
//
// The package is apart from extract because CEL brings a parser generator's
// run time and protocol buffers with it, which verifiers can do without.
package expression

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

	"tallystick/internal/extract"
)

const (
	// maxExpression is the length of an expression in code points.
	maxExpression = 4096

	// maxNesting bounds the parser's recursion and comprehensions inside each
	// other, whose costs multiply. Two let an expression look for a pair of
	// events; the cost limit is what really bounds them.
	maxNesting       = 64
	maxComprehension = 2

	// maxCost is in CEL's units, roughly one per operation. A look at each of
	// 50,000 events costs about a million; this is a tenth of a second.
	maxCost = 10_000_000

	// maxDepth and maxResult bound what an expression gives: lists and maps
	// inside each other, and bytes of text, where every value counts as one.
	maxDepth  = 32
	maxResult = 1 << 20
)

// Compile is the [extract.Compiler] for CEL.
func Compile(expression string, condition bool) (extract.Program, error) {
	if strings.TrimSpace(expression) == "" {
		return nil, errors.New("the expression is empty")
	}
	e, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := e.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0] // in one line; CEL draws a picture
		return nil, fmt.Errorf("%d:%d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	if t := ast.OutputType(); condition && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the condition is of type %s, expected bool", t)
	}
	program, err := e.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return func(vars map[string]any) (any, error) {
		out, _, err := program.Eval(vars)
		if err != nil {
			return nil, err
		}
		return (&result{left: maxResult}).native(out, maxDepth)
	}, nil
}

// A result is what an expression gave, on its way into what JSON has. CEL's
// cost limit does not bound it: a list of a thousand references to one long
// list is cheap to make.
type result struct{ left int } // bytes, roughly

func (r *result) take(n int) error {
	if r.left -= n; r.left < 0 {
		return fmt.Errorf("the expression gave more than %d bytes", maxResult)
	}
	return nil
}

func (r *result) native(v ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the expression gave lists and maps more than %d deep", maxDepth)
	}
	if err := r.take(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), r.take(len(v))
	case traits.Lister:
		return r.list(v, depth)
	case traits.Mapper:
		return r.object(v, depth)
	}
	return nil, fmt.Errorf("the expression gave a %s, which JSON does not have", v.Type().TypeName())
}

func (r *result) list(v traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := r.native(it.Next(), depth-1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (r *result) object(v traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the expression gave a map with a key of type %s, expected text", key.Type().TypeName())
		}
		if err := r.take(len(name)); err != nil {
			return nil, err
		}
		item, err := r.native(v.Get(key), depth-1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
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

var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(withoutTime())),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxNesting),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(maxComprehension)),
		cel.CustomTypeAdapter(inOrder{types.DefaultTypeAdapter}),
	}
	for _, name := range extract.Variables() {
		kind := cel.MapType(cel.StringType, cel.DynType)
		if name == "events" {
			kind = cel.ListType(kind)
		}
		options = append(options, cel.Variable(name, kind))
	}
	return cel.NewCustomEnv(options...)
})

// inOrder adapts JSON objects so that they are walked in the order of their
// keys. CEL would walk a Go map in Go's order, which is random, and an
// expression could give two answers for one run.
type inOrder struct{ types.Adapter }

func (a inOrder) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return object{types.NewStringInterfaceMap(a, v), v}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(value)
}

// An object sorts its keys when it is walked, and not for every event that an
// expression only looks into.
type object struct {
	traits.Mapper
	values map[string]any
}

func (o object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, slices.Sorted(maps.Keys(o.values))).Iterator()
}
