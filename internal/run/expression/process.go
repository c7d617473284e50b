package expression

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bounded"
)

// work is what the process that evaluates is asked for.
const work = "expression"

func init() { bounded.Register(work, answerHere) }

// A job is one evaluation. Values are as [wire] makes them.
type job struct {
	Source    string
	Variables []Variable
	Limit     uint64
	Vars      map[string]any
}

// An answer is what came of it.
type answer struct {
	Value   any
	Spent   uint64
	Over    bool   // the limit did not suffice
	Unknown string // the expression depends on it
	Error   string
}

// answerHere evaluates in the process that was started for it.
func answerHere(input []byte, ready func()) []byte {
	a, err := evaluateJob(input, ready)
	var u *UnknownError
	switch {
	case isSpent(err):
		a.Over = true
	case errors.As(err, &u):
		a.Unknown = u.What
	case err != nil:
		a.Error = bounded.Short(err.Error())
	}
	text, err := json.Marshal(a)
	if err != nil {
		text, _ = json.Marshal(answer{Error: err.Error()})
	}
	return text
}

func evaluateJob(input []byte, ready func()) (a answer, err error) {
	var j job
	if err := json.Unmarshal(input, &j); err != nil {
		return a, err
	}
	vars := make(map[string]any, len(j.Vars))
	for name, v := range j.Vars {
		if vars[name], err = unwire(v); err != nil {
			return a, err
		}
	}
	p, err := NewLanguage(j.Limit, j.Variables...).Compile(j.Source)
	if err != nil {
		return a, err
	}
	ready()
	value, spent, err := p.valueHere(vars, j.Limit)
	a.Spent = spent
	if err == nil {
		a.Value, err = wire(value)
	}
	return a, err
}

// valueElsewhere evaluates in a process of its own; here, if there cannot be one.
func (p *Program) valueElsewhere(ctx context.Context, vars map[string]any, limit uint64) (any, uint64, error) {
	if !bounded.Available() {
		return p.valueHere(vars, limit)
	}
	j := job{Source: p.source, Variables: p.language.variables, Limit: limit, Vars: make(map[string]any, len(vars))}
	for name, v := range vars {
		var err error
		if j.Vars[name], err = wire(v); err != nil {
			return nil, 0, err
		}
	}
	input, err := json.Marshal(j)
	if err != nil {
		return nil, 0, err
	}
	text, err := bounded.Do(ctx, work, input)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, err
		}
		// The budget says what an expression may cost. That this machine had less is not
		// an answer to what the expression asks.
		return nil, 0, refusal.Newf(refusal.NotFound, "the process that evaluates the expression %s ended without an answer: %v", shown(p.source), err).
			WithHint("grade again on a machine with more free memory, or make the expression look at less")
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, 0, err
	}
	switch {
	case a.Over:
		return nil, a.Spent, interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded}
	case a.Unknown != "":
		return nil, a.Spent, &UnknownError{a.Unknown}
	case a.Error != "":
		return nil, a.Spent, errors.New(a.Error)
	}
	value, err := unwire(a.Value)
	return value, a.Spent, err
}

// wire makes JSON of a value from which the same value can be made again: an object with
// one member says what it is, and so do whole numbers and what is unknown.
func wire(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return map[string]any{"bytes": []byte(v)}, nil
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return map[string]any{"double": strconv.FormatFloat(v, 'g', -1, 64)}, nil
		}
		return v, nil
	case int64:
		return map[string]any{"int": strconv.FormatInt(v, 10)}, nil
	case uint64:
		return map[string]any{"uint": strconv.FormatUint(v, 10)}, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = wire(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, value := range v {
			var err error
			if object[name], err = wire(value); err != nil {
				return nil, err
			}
		}
		return map[string]any{"object": object}, nil
	case *types.Unknown:
		var u *UnknownError
		errors.As(unknown(v), &u)
		return map[string]any{"unknown": u.What}, nil
	}
	return nil, fmt.Errorf("a variable holds a %T, which no expression sees", v)
}

func unwire(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			var err error
			if v[i], err = unwire(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for what, inner := range v { // one
			return unwireOne(what, inner)
		}
	}
	return v, nil
}

func unwireOne(what string, v any) (any, error) {
	if object, ok := v.(map[string]any); ok && what == "object" {
		for name := range object {
			var err error
			if object[name], err = unwire(object[name]); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	text, _ := v.(string)
	switch what {
	case "double":
		return strconv.ParseFloat(text, 64)
	case "int":
		return strconv.ParseInt(text, 10, 64)
	case "uint":
		return strconv.ParseUint(text, 10, 64)
	case "bytes":
		text, err := base64.StdEncoding.DecodeString(text)
		return string(text), err
	case "unknown":
		return Unknown(text), nil
	}
	return nil, fmt.Errorf("a value of the kind %q", what)
}
