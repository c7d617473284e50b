package official

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A pyCall is a call as the checker sees it.
type pyCall struct {
	name string
	args *pyDict
}

const bfclExpects = `{"category": "simple_python", "function": "the JSON of function", "ground_truth": "the JSON of ground_truth"}, both as texts, because 5 and 5.0 differ there`

// bfclCase is what a case expects: the two parts of the data set as they stand in it.
type bfclCase struct {
	Category    string `json:"category"`
	Function    string `json:"function"`
	GroundTruth string `json:"ground_truth,omitempty"`

	functions []*pyDict
	answers   []pyCall
	fc        bool
}

// compileBFCL scores the calls of an output. FC says that dots of names are underscores
// in what the model was shown.
func compileBFCL(decode func(string) ([]pyCall, error), fc bool) func([]byte) (func(string) Verdict, error) {
	return func(expected []byte) (func(string) Verdict, error) {
		c := bfclCase{fc: fc}
		d := json.NewDecoder(strings.NewReader(string(expected)))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("is not what is expected of a task: %w", err)
		}
		if err := c.read(); err != nil {
			return nil, err
		}
		return func(output string) Verdict { return c.score(decode(output)) }, nil
	}
}

func (c *bfclCase) read() error {
	if strings.Contains(c.Category, "java") || strings.Contains(c.Category, "multi_turn") || c.Category == "" || strings.Contains(c.Category, "memory") || strings.Contains(c.Category, "web_search") {
		return fmt.Errorf("category is %.40q, which only the official code scores", c.Category)
	}
	if c.isRelevance() {
		return nil
	}
	functions, err := parseJSON(c.Function)
	if err != nil {
		return fmt.Errorf("function: %w", err)
	}
	if one, ok := functions.(*pyDict); ok {
		functions = pyList{one}
	}
	items, ok := functions.(pyList)
	for _, item := range items {
		f, isDict := item.(*pyDict)
		if ok = ok && isDict; ok {
			c.functions = append(c.functions, f)
		}
	}
	if !ok || len(c.functions) == 0 {
		return errors.New("function is not a list of functions")
	}
	truth, err := parseJSON(c.GroundTruth)
	if err != nil {
		return fmt.Errorf("ground_truth: %w", err)
	}
	calls, ok := truth.(pyList)
	for _, item := range calls {
		call, isDict := item.(*pyDict)
		if !isDict || len(call.items) == 0 {
			ok = false
			break
		}
		args, isDict := call.items[0].value.(*pyDict)
		if !isDict {
			ok = false
			break
		}
		c.answers = append(c.answers, pyCall{call.items[0].key.(string), args})
	}
	if !ok || len(c.answers) == 0 {
		return errors.New("ground_truth is not a list of {function: {parameter: [values]}}")
	}
	return nil
}

func (c *bfclCase) isRelevance() bool { return strings.Contains(c.Category, "relevance") }

// decodePrompting reads the calls that a model wrote as Python.
func decodePrompting(output string) ([]pyCall, error) {
	text := strings.Trim(output, "`\n ")
	if !strings.HasPrefix(text, "[") {
		text = "[" + text
	}
	if !strings.HasSuffix(text, "]") {
		text += "]"
	}
	parsed, err := parseExpression(strings.Trim(pythonStrip(text), "'"))
	if err != nil {
		return nil, err
	}
	calls, ok := parsed.(list)
	if !ok {
		return nil, errors.New("is not a list of calls")
	}
	out := []pyCall{}
	for _, item := range calls.items {
		c, ok := item.(call)
		if !ok {
			return nil, errors.New("is a list of something else than calls")
		}
		resolved, err := resolveCall(c)
		if err != nil {
			return nil, err
		}
		out = append(out, resolved)
	}
	return out, nil
}

// resolveCall reads the name and the keywords. Positional arguments vanish.
func resolveCall(c call) (pyCall, error) {
	var parts []string
	function := c.function
	for {
		a, ok := function.(attribute)
		if !ok {
			break
		}
		parts = append(parts, a.name)
		function = a.of
	}
	if n, ok := function.(name); ok {
		parts = append(parts, n.id)
	}
	slices.Reverse(parts)
	out := pyCall{strings.Join(parts, "."), &pyDict{}}
	for _, k := range c.keywords {
		v, err := resolve(k.value)
		if err != nil {
			return out, err
		}
		if k.name == "" {
			out.args.set(nil, v)
		} else {
			out.args.set(k.name, v)
		}
	}
	return out, nil
}

// resolve gives the value that the official decoder sees in an argument.
func resolve(e expr) (any, error) {
	switch e := e.(type) {
	case constant:
		if _, ok := e.value.(ellipsis); ok {
			return "...", nil
		}
		return e.value, nil
	case unary: // every operator is taken for a minus
		c, ok := e.operand.(constant)
		if !ok {
			return nil, errDecode
		}
		return negate(c.value)
	case list:
		items, err := resolveAll(e.items)
		return pyList(items), err
	case tuple:
		items, err := resolveAll(e.items)
		return pyTuple(items), err
	case dict:
		out := &pyDict{}
		for i, k := range e.keys {
			if k == nil {
				return nil, errDecode
			}
			key, err := resolve(k)
			if err != nil {
				return nil, err
			}
			if !hashable(key) {
				return nil, errDecode
			}
			v, err := resolve(e.values[i])
			if err != nil {
				return nil, err
			}
			out.set(key, v)
		}
		return out, nil
	case binary:
		return evaluate(e)
	case name:
		return e.id, nil
	case call:
		if len(e.keywords) == 0 {
			return unparse(e), nil
		}
		c, err := resolveCall(e)
		if err != nil {
			return nil, err
		}
		out := &pyDict{}
		out.set(c.name, c.args)
		return out, nil
	case subscript:
		return unparse(e.of) + "[" + unparseIndex(e.index) + "]", nil
	}
	return nil, errDecode
}

func resolveAll(items []expr) ([]any, error) {
	out := []any{}
	for _, item := range items {
		v, err := resolve(item)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func hashable(v any) bool {
	switch v := v.(type) {
	case pyList, *pyDict:
		return false
	case pyTuple:
		return !slices.ContainsFunc(v, func(item any) bool { return !hashable(item) })
	}
	return true
}

// decodeFC reads calls as bfcl-eval keeps them: a list of {name: arguments}, in which
// the arguments are a text of JSON.
func decodeFC(output string) ([]pyCall, error) {
	parsed, err := parseJSON(output)
	if err != nil {
		return nil, err
	}
	items, ok := parsed.(pyList)
	if !ok {
		return nil, errors.New("is not a list of calls")
	}
	out := []pyCall{}
	for _, item := range items {
		object, ok := item.(*pyDict)
		if !ok || len(object.items) == 0 {
			return nil, errors.New("is not a list of {name: arguments}")
		}
		text, ok := object.items[0].value.(string)
		if !ok {
			return nil, errors.New("has arguments that are not a text")
		}
		args, err := parseJSON(text)
		if err != nil {
			return nil, err
		}
		c := pyCall{name: object.items[0].key.(string)}
		c.args, _ = args.(*pyDict)
		out = append(out, c)
	}
	return out, nil
}

// score judges decoded calls.
func (c *bfclCase) score(calls []pyCall, failed error) Verdict {
	shown := describe(calls)
	formed := !slices.ContainsFunc(calls, func(p pyCall) bool { return p.args == nil })
	if c.isRelevance() {
		called := failed == nil && formed && len(calls) > 0
		if strings.Contains(c.Category, "irrelevance") {
			if called {
				return Verdict{false, shown, "it calls " + shown + ", expected no call"}
			}
			return Verdict{true, "", "it calls nothing"}
		}
		if called {
			return Verdict{true, shown, "it calls " + shown}
		}
		return Verdict{false, "", "it calls nothing, expected a call"}
	}
	switch {
	case failed != nil:
		return Verdict{false, "", "the output " + failed.Error()}
	case !formed:
		return Verdict{false, shown, "the arguments of a call are not an object"}
	}
	var wrong string
	switch {
	case strings.Contains(c.Category, "parallel"):
		wrong = c.parallel(calls)
	case len(calls) != len(c.answers) && strings.Contains(c.Category, "multiple"), len(calls) != 1 && !strings.Contains(c.Category, "multiple"):
		wrong = fmt.Sprintf("there are %d calls, expected %d", len(calls), len(c.answers))
	case strings.Contains(c.Category, "multiple"):
		wrong = c.one(c.find(c.answers[0].name), calls[0], c.answers[0])
	default:
		wrong = c.one(c.functions[0], calls[0], c.answers[0])
	}
	if wrong != "" {
		return Verdict{false, shown, wrong}
	}
	return Verdict{true, shown, "it calls " + shown}
}

func describe(calls []pyCall) string {
	var texts []string
	for _, c := range calls {
		var args []string
		if c.args != nil {
			for _, item := range c.args.items {
				args = append(args, fmt.Sprintf("%v=%s", item.key, repr(item.value)))
			}
		}
		texts = append(texts, c.name+"("+strings.Join(args, ", ")+")")
	}
	return cut(strings.Join(texts, ", "))
}

func cut(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// find gives the function of a name.
func (c *bfclCase) find(name string) *pyDict {
	for _, f := range c.functions {
		if n, _ := f.get("name"); equal(n, name) {
			return f
		}
	}
	return nil
}

// parallel gives each expected call the first call that is left and passes.
func (c *bfclCase) parallel(calls []pyCall) string {
	if len(calls) != len(c.answers) {
		return fmt.Sprintf("there are %d calls, expected %d", len(calls), len(c.answers))
	}
	used := make([]bool, len(calls))
next:
	for i, want := range c.answers {
		why := ""
		for j, got := range calls {
			if used[j] {
				continue
			}
			wrong := c.one(c.find(want.name), got, want)
			if wrong == "" {
				used[j] = true
				continue next
			}
			if why == "" {
				why = wrong
			}
		}
		return fmt.Sprintf("no call is the expected call %d: %s", i+1, why)
	}
	return ""
}

// pythonTypes are the types of the schema. A tuple is a list in JSON.
var pythonTypes = map[string]string{"string": "str", "integer": "int", "float": "float", "boolean": "bool", "array": "list", "tuple": "list", "dict": "dict", "any": "str"}

// one compares a call with an expected one and says what is wrong, "" if nothing is.
func (c *bfclCase) one(function *pyDict, got, want pyCall) string {
	if function == nil {
		return "the data set has no function " + want.name
	}
	n, _ := function.get("name")
	wanted, _ := n.(string)
	if c.fc {
		wanted = strings.ReplaceAll(wanted, ".", "_")
	}
	if got.name != wanted {
		return fmt.Sprintf("it calls %s, expected %s", quote(got.name), wanted)
	}
	parameters, _ := function.get("parameters")
	schema, _ := parameters.(*pyDict)
	if schema == nil {
		return "the function has no parameters"
	}
	p, _ := schema.get("properties")
	properties, _ := p.(*pyDict)
	required, _ := schema.get("required")
	names, _ := required.(pyList)
	for _, name := range names {
		if _, ok := got.args.get(name); !ok {
			return fmt.Sprintf("the required parameter %v is missing", name)
		}
	}
	for _, item := range got.args.items {
		var details any
		known := false
		if properties != nil {
			details, known = properties.get(item.key)
		}
		accepted, listed := want.args.get(item.key)
		detail, _ := details.(*pyDict)
		values, _ := accepted.(pyList)
		if !known || !listed || detail == nil {
			return fmt.Sprintf("the parameter %v is not expected", item.key)
		}
		if wrong := checkValue(fmt.Sprint(item.key), item.value, values, detail); wrong != "" {
			return wrong
		}
	}
	for _, item := range want.args.items {
		values, _ := item.value.(pyList)
		if _, ok := got.args.get(item.key); !ok && !contains(values, "") {
			return fmt.Sprintf("the parameter %v is missing and may not be", item.key)
		}
	}
	return ""
}

// checkValue compares one argument with the accepted values.
func checkValue(param string, value any, accepted pyList, detail *pyDict) string {
	declared := textMember(detail, "type")
	want, nested := pythonTypes[declared], ""
	if declared == "array" || declared == "tuple" {
		items, _ := detail.get("items")
		inner, _ := items.(*pyDict)
		if inner == nil {
			return "the data set does not say what the items of " + param + " are"
		}
		nested = pythonTypes[textMember(inner, "type")]
	}
	if t, ok := value.(pyTuple); ok && declared == "tuple" {
		value = pyList(t)
	}
	if n, ok := value.(*big.Int); ok && declared == "float" {
		value, _ = floatOf(n)
	}
	ok, variable := checkType(value, accepted, want, nested)
	if !ok {
		return fmt.Sprintf("%s is %s, a %s, expected a %s", param, cut(repr(value)), typeOf(value), declared)
	}
	same := false
	switch {
	case variable:
		same = contains(accepted, value)
	case want == "dict":
		same = sameDict(value, accepted)
	case want == "list" && nested == "dict":
		same = sameDicts(value, accepted)
	case want == "str":
		s, _ := value.(string)
		same = slices.ContainsFunc(accepted, func(a any) bool {
			text, ok := a.(string)
			return ok && standardize(text) == standardize(s)
		})
	case want == "list":
		items, _ := value.(pyList)
		got := standardizeAll(items)
		same = slices.ContainsFunc(accepted, func(a any) bool { return equalAll(got, standardizeAll(itemsOf(a))) })
	default:
		same = contains(accepted, value)
	}
	if !same {
		return fmt.Sprintf("%s is %s, expected one of %s", param, cut(repr(value)), cut(repr(accepted)))
	}
	return ""
}

func textMember(d *pyDict, name string) string {
	v, _ := d.get(name)
	s, _ := v.(string)
	return s
}

// itemsOf gives the items of a list. Those of a text are its characters, of which the
// empty one, that marks an optional parameter, has none.
func itemsOf(v any) []any {
	switch v := v.(type) {
	case pyList:
		return v
	case string:
		var out []any
		for _, r := range v {
			out = append(out, string(r))
		}
		return out
	}
	return nil
}

// checkType compares types exactly. A value whose type is that of the first accepted
// value, and not the declared one, is taken for a variable.
func checkType(value any, accepted pyList, want, nested string) (ok, variable bool) {
	first := ""
	for _, a := range accepted {
		if !equal(a, "") {
			first = typeOf(a)
			break
		}
	}
	variable = first != "" && first != want
	if typeOf(value) == want {
		if nested == "" {
			return true, variable
		}
		for _, a := range accepted {
			inner, isList := a.(pyList)
			if !isList || !slices.ContainsFunc(value.(pyList), func(item any) bool {
				ok, _ := checkType(item, inner, nested, "")
				return !ok
			}) {
				return true, variable
			}
		}
		return false, false
	}
	if first != "" && typeOf(value) == first {
		return true, true
	}
	return false, false
}

// standardize leaves out what people write in different ways.
func standardize(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" ,./-_*^", r) {
			return -1
		}
		return r
	}, s)
	return strings.ReplaceAll(pythonLower(s), "'", "\"")
}

func standardizeAll(items []any) []any {
	out := []any{}
	for _, item := range items {
		if s, ok := item.(string); ok {
			item = standardize(s)
		}
		out = append(out, item)
	}
	return out
}

// sameDict compares a dict with the accepted ones, each of which has a list of accepted
// values for a key.
func sameDict(value any, accepted []any) bool {
	got, _ := value.(*pyDict)
	return got != nil && slices.ContainsFunc(accepted, func(a any) bool {
		want, _ := a.(*pyDict)
		return want != nil && dictPasses(got, want)
	})
}

func dictPasses(got, want *pyDict) bool {
	for _, item := range got.items {
		values, ok := want.get(item.key)
		if !ok || !contains(standardizeAll(itemsOf(values)), standardizeAll([]any{item.value})[0]) {
			return false
		}
	}
	for _, item := range want.items {
		if _, ok := got.get(item.key); !ok && !contains(itemsOf(item.value), "") {
			return false
		}
	}
	return true
}

// sameDicts compares a list of dicts with the accepted lists, in order.
func sameDicts(value any, accepted []any) bool {
	got, _ := value.(pyList)
	return slices.ContainsFunc(accepted, func(a any) bool {
		want := itemsOf(a)
		if len(got) != len(want) {
			return false
		}
		for i := range got {
			if !sameDict(got[i], []any{want[i]}) {
				return false
			}
		}
		return true
	})
}
