package extract

import (
	"fmt"
	"math"
	"strconv"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/trajectory"
)

// A ValueKind is what sort of value was found.
type ValueKind string

// The kinds of values.
const (
	TextValue   ValueKind = "text"
	NumberValue ValueKind = "number"
	BoolValue   ValueKind = "bool"
	JSONValue   ValueKind = "json"  // an object or a list
	CallsValue  ValueKind = "calls" // tool calls
)

// A Value is what an extractor picked out, or why it picked nothing.
type Value struct {
	Found   bool
	Missing string // why nothing was found
	// There says that something is there all the same, which is not a value: a
	// link where a file is asked for.
	There bool

	// Redacted says that the agent wrote secrets, and that the value is what
	// it wrote without them.
	Redacted bool

	Kind   ValueKind
	Text   string
	Number canon.RawMessage // in canonical spelling
	Bool   bool
	JSON   canon.RawMessage // canonical
	Calls  []Call

	// Span is there for tool calls and their number.
	Span *Span
}

// A Call is one tool call.
type Call struct {
	Turn    int
	Name    string
	Vantage trajectory.Vantage // "" if it was executed here
	// Args is a JSON object, canonical; nothing if the agent wrote something
	// else, which Raw then holds.
	Args canon.RawMessage
	Raw  string
	// Redacted says that secrets were taken out of either.
	Redacted bool
	// Problem says why neither is known: the evidence does not have them.
	// Graders that look at arguments cannot go on, others can.
	Problem error
	// InPlace says that this was asked for in the place of the call before it,
	// which was made with other arguments.
	InPlace bool
}

func nothing(format string, args ...any) Value { return Value{Missing: fmt.Sprintf(format, args...)} }

func textValue(s string) Value { return Value{Found: true, Kind: TextValue, Text: s} }

func boolValue(b bool) Value { return Value{Found: true, Kind: BoolValue, Bool: b} }

func countValue(n int64) Value {
	return Value{Found: true, Kind: NumberValue, Number: strconv.AppendInt(nil, n, 10)}
}

// jsonValue makes the value that canonical JSON stands for.
func jsonValue(data canon.RawMessage) Value {
	switch data.Kind() {
	case '"':
		var s string
		if err := canon.Unmarshal(data, &s); err != nil {
			return nothing("%v", err)
		}
		if isBlank(s) {
			return nothing("the text is empty")
		}
		return textValue(s)
	case '0':
		return Value{Found: true, Kind: NumberValue, Number: data}
	case 't', 'f':
		return boolValue(data.Kind() == 't')
	case 'n':
		return nothing("the value is null")
	}
	return Value{Found: true, Kind: JSONValue, JSON: data}
}

// Canonical is the value in canonical JSON: null if nothing was found.
func (v Value) Canonical() (canon.RawMessage, error) {
	if !v.Found {
		return canon.RawMessage("null"), nil
	}
	switch v.Kind {
	case TextValue:
		return canon.Marshal(v.Text)
	case NumberValue:
		return v.Number, nil
	case BoolValue:
		return canon.Marshal(v.Bool)
	case CallsValue:
		return v.callsJSON()
	}
	return v.JSON, nil
}

// Shown is the value as a person would write it: text as it is, anything else
// as canonical JSON.
func (v Value) Shown() string {
	if v.Kind == TextValue {
		return v.Text
	}
	data, err := v.Canonical()
	if err != nil {
		return ""
	}
	return string(data)
}

func (v Value) callsJSON() (canon.RawMessage, error) {
	type shown struct {
		Args canon.RawMessage `json:"args,omitempty"`
		Name string           `json:"name"`
		Raw  string           `json:"raw,omitempty"`
		Turn int              `json:"turn"`

		Vantage trajectory.Vantage `json:"vantage,omitempty"`
	}
	list := make([]shown, len(v.Calls))
	for i, c := range v.Calls {
		list[i] = shown{c.Args, c.Name, c.Raw, c.Turn, c.Vantage}
	}
	return canon.Marshal(list)
}

// fromExpression makes a value of what a [Program] gave.
func fromExpression(result any) Value {
	switch r := result.(type) {
	case nil:
		return nothing("the expression gave null")
	case bool:
		return boolValue(r)
	case float64:
		if math.IsNaN(r) || math.IsInf(r, 0) {
			return nothing("the expression gave %v, which is no number", r)
		}
	case string:
		if isBlank(r) {
			return nothing("the expression gave an empty text")
		}
	}
	data, err := canon.Marshal(result)
	if err != nil {
		return nothing("the expression gave something that JSON has no form for: %v", err)
	}
	return jsonValue(data)
}
