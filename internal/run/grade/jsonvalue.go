package grade

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/schema"
	"tallystick/internal/run/extract"
)

// jsonOf gives the JSON that JSON graders look at, decoded: the value, or the
// JSON that a text holds.
func jsonOf(v *extract.Value) (any, *verdict) {
	if v.Kind != extract.TextValue {
		data, err := v.Canonical()
		if err == nil {
			var doc any
			if doc, err = decoded(data); err == nil {
				return doc, nil
			}
		}
		bad := unusable(CodeNotComparable, "%v", err)
		return nil, &bad
	}
	text, bad := textOf(v)
	if bad != nil {
		return nil, bad
	}
	var doc any
	if err := canon.Unmarshal([]byte(text), &doc); err != nil {
		bad := unusable(CodeNotComparable, "%s is no JSON", quote(v, text))
		return nil, &bad
	}
	return doc, nil
}

func schemaGrader(doc []byte) (grader, error) {
	s, err := schema.Compile(doc)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		doc, bad := jsonOf(v)
		if bad != nil {
			return *bad
		}
		problems := s.CheckValue(doc)
		if len(problems) == 0 {
			return passed("it fits the schema")
		}
		if v.Redacted {
			return mismatch("it does not fit the schema in %d places", len(problems))
		}
		return mismatch("it does not fit the schema: %s", quoted(problems[0].String()))
	}, nil
}

// exactGrader wants the same text, number or bool.
func exactGrader(want canon.RawMessage, _ *Rule) (grader, error) {
	expected, err := scalar(want)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		if v.Kind != expected.Kind {
			return unusable(CodeNotComparable, "the value is a %s, expected a %s", v.Kind, expected.Kind)
		}
		same := v.Text == expected.Text && v.Bool == expected.Bool
		if v.Kind == extract.NumberValue {
			got, ok1 := parseDecimal(string(v.Number))
			want, ok2 := parseDecimal(string(expected.Number))
			same = ok1 && ok2 && got.Cmp(want) == 0
		}
		if same {
			return passed("it is the same")
		}
		return mismatch("it is %s, expected %s", quote(v, v.Shown()), quoted(expected.Shown()))
	}, nil
}

// scalar reads a text, number or bool of a spec.
func scalar(raw canon.RawMessage) (extract.Value, error) {
	v := extract.Value{Found: true}
	switch raw.Kind() {
	case '"':
		v.Kind = extract.TextValue
		if err := canon.Unmarshal(raw, &v.Text); err != nil {
			return v, err
		}
		if strings.TrimSpace(v.Text) == "" {
			return v, fmt.Errorf("expected is an empty text, which nothing that is found can be (a grader of kind absent looks for nothing)")
		}
	case '0':
		v.Kind, v.Number = extract.NumberValue, raw
	case 't', 'f':
		v.Kind, v.Bool = extract.BoolValue, raw.Kind() == 't'
	default:
		return v, fmt.Errorf("expected is %s, where text, a number or a bool is needed (json_equal compares objects and lists)", describe(raw))
	}
	return v, nil
}

func describe(raw canon.RawMessage) string {
	switch raw.Kind() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 'n':
		return "null"
	case '"':
		return "text"
	case '0':
		return "a number"
	}
	return "a bool"
}

func jsonEqualGrader(want canon.RawMessage, r *Rule) (grader, error) {
	ignore, err := parseIgnore(r.Ignore)
	if err != nil {
		return nil, err
	}
	expected, err := decoded(want)
	if err != nil {
		return nil, err
	}
	expected = without(expected, ignore)
	return func(v *extract.Value) verdict {
		got, bad := jsonOf(v)
		if bad != nil {
			return *bad
		}
		d := difference(expected, without(got, ignore))
		switch {
		case d == nil:
			return passed("it is the same")
		case v.Redacted: // a name in the path may hold a secret, too
			return mismatch("it is not the same")
		}
		return mismatch("at %s it is %s, expected %s", quoted(d.at), d.found, d.wanted)
	}, nil
}

// decoded gives what canonical JSON stands for. Canon has refused what
// encoding/json would read in its own way, and encoding/json is faster.
func decoded(canonical canon.RawMessage) (any, error) {
	var v any
	err := json.Unmarshal(canonical, &v)
	return v, err
}

// parseIgnore reads the paths that a comparison leaves out.
func parseIgnore(pointers []string) ([][]string, error) {
	var paths [][]string
	for i, p := range pointers {
		names, err := extract.ParsePointer(p)
		if err != nil {
			return nil, &placed{place{"ignore", strconv.Itoa(i)}, err}
		}
		if len(names) == 0 {
			return nil, place{"ignore", strconv.Itoa(i)}.bad("is the whole document, and then nothing is compared")
		}
		paths = append(paths, names)
	}
	return paths, nil
}

// without takes the values at some paths out of a document. List entries are
// replaced by null, so that the others keep their places.
func without(doc any, paths [][]string) any {
	for _, path := range paths {
		remove(doc, path)
	}
	return doc
}

func remove(doc any, path []string) {
	name, last := path[0], len(path) == 1
	switch d := doc.(type) {
	case map[string]any:
		for key, value := range d {
			if name != "*" && name != key {
				continue
			}
			if last {
				delete(d, key)
			} else {
				remove(value, path[1:])
			}
		}
	case []any:
		for i, value := range d {
			if name != "*" && name != strconv.Itoa(i) {
				continue
			}
			if last {
				d[i] = nil
			} else {
				remove(value, path[1:])
			}
		}
	}
}

// A parting is the first place, in the order of keys, where two documents
// differ: the pointer to it, what is there and what was expected.
type parting struct{ at, found, wanted string }

// difference compares two documents; nil means that they are the same.
func difference(want, got any) *parting {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return objectDifference(w, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return listDifference(w, g)
		}
	default:
		// Scalars of decoded JSON can be compared. A list or object here is
		// of another type and so differs.
		switch got.(type) {
		case map[string]any, []any:
		default:
			if want == got {
				return nil
			}
		}
	}
	return &parting{"", shownJSON(got), shownJSON(want)}
}

func objectDifference(want, got map[string]any) *parting {
	keys := make([]string, 0, len(want)+len(got))
	for key := range want {
		keys = append(keys, key)
	}
	for key := range got {
		if _, both := want[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		w, inWant := want[key]
		g, inGot := got[key]
		var d *parting
		switch {
		case !inWant:
			d = &parting{"", shownJSON(g), "nothing"}
		case !inGot:
			d = &parting{"", "nothing", shownJSON(w)}
		default:
			d = difference(w, g)
		}
		if d != nil {
			d.at = "/" + escapePointer(key) + d.at
			return d
		}
	}
	return nil
}

func listDifference(want, got []any) *parting {
	for i := range min(len(want), len(got)) {
		if d := difference(want[i], got[i]); d != nil {
			d.at = "/" + strconv.Itoa(i) + d.at
			return d
		}
	}
	if len(want) != len(got) {
		return &parting{"", fmt.Sprintf("a list of %d", len(got)), fmt.Sprintf("one of %d", len(want))}
	}
	return nil
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func shownJSON(v any) string {
	data, err := canon.Marshal(v)
	if err != nil {
		return "something"
	}
	return quoted(string(data))
}

func validateSchema(at place, r *Rule) error {
	if (r.Schema != nil) == (r.SchemaFile != "") {
		return at.bad("a grader of kind json_schema needs schema or schema_file, and not both")
	}
	return nil
}

func (c *compiler) schema(at place, n *node, r *Rule) error {
	doc, key := []byte(nil), "schema"
	if r.Schema != nil {
		doc = *r.Schema
	} else {
		key = "schema_file"
		var err error
		if doc, err = c.file(at.in(key), r.SchemaFile); err != nil {
			return err
		}
	}
	var err error
	if n.expected, err = canon.Canonicalize(doc); err != nil {
		return &placed{at.in(key), err}
	}
	if n.grade, err = schemaGrader(n.expected); err != nil {
		return &placed{at.in(key), err}
	}
	return nil
}
