package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	// Unlike encoding/json it tells names by their case, so that no two are one member.
	strictjson "github.com/go-json-experiment/json"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
)

// A promptfooConfig is what of promptfooconfig.yaml says what is asked and what
// a right answer is. Providers are targets here, and not part of a bench.
type promptfooConfig struct {
	Prompts     []any         `json:"prompts"`
	Tests       any           `json:"tests"` // a list, or the name of a file
	DefaultTest promptfooTest `json:"defaultTest"`
}

type promptfooTest struct {
	Description string         `json:"description"`
	Vars        map[string]any `json:"vars"`
	Assert      []assertion    `json:"assert"`
	Metadata    map[string]any `json:"metadata"`
}

type assertion struct {
	Type      string   `json:"type"`
	Value     any      `json:"value"`
	Threshold *float64 `json:"threshold"`
}

var promptfooRules = strictyaml.Rules{PlainDigits: true, MaxBytes: 4 << 20, MaxLines: 100_000,
	Hint: "write it without anchors and merge keys, and with one meaning for every reader of YAML"}

// promptfoo makes cases of a configuration: each test with each prompt.
func promptfoo(path string, data []byte) (*Imported, error) {
	doc, err := strictyaml.Parse(path, data, promptfooRules)
	if err != nil {
		return nil, err
	}
	var config promptfooConfig
	if err := strictjson.Unmarshal(doc.JSON, &config); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", path, err).WithHint("expected prompts and tests, as in promptfooconfig.yaml")
	}
	tests, err := config.tests(path)
	if err != nil {
		return nil, err
	}
	if len(config.Prompts) == 0 || len(tests) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s has %d prompts and %d tests, expected at least one of each", path, len(config.Prompts), len(tests)).
			WithHint("a file of another kind is recognised by its content; YAML is taken to be a promptfoo configuration")
	}
	out := &Imported{Format: "promptfoo", LeftOut: []string{}}
	seen := map[string]bool{}
	for i, test := range tests {
		for j, prompt := range config.Prompts {
			id := fmt.Sprintf("test-%d", i+1)
			if name := slug(test.Description); name != "" && !seen[plain.Fold(name)] {
				id = name
			}
			if len(config.Prompts) > 1 {
				id += fmt.Sprintf(".prompt-%d", j+1)
			}
			seen[plain.Fold(id)] = true
			c, err := config.makeCase(path, id, prompt, test)
			if err != nil {
				out.LeftOut = append(out.LeftOut, fmt.Sprintf("test %d with prompt %d: %v", i+1, j+1, err))
				continue
			}
			out.Cases = append(out.Cases, c)
		}
	}
	if len(out.Cases) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: no test can be converted: %s", path, strings.Join(out.LeftOut[:min(3, len(out.LeftOut))], "; "))
	}
	return out, nil
}

// tests are those of the list, or of the CSV file that is named.
func (c *promptfooConfig) tests(path string) ([]promptfooTest, error) {
	if list, ok := c.Tests.([]any); ok {
		data, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		var tests []promptfooTest
		if err := strictjson.Unmarshal(data, &tests); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: tests: %w", path, err)
		}
		return tests, nil
	}
	name, ok := c.Tests.(string)
	if !ok {
		return nil, nil
	}
	data, err := store.ReadBeside(path, name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tests: %w", err)
	}
	t, err := readTable(name, data)
	if err != nil {
		return nil, err
	}
	var tests []promptfooTest
	for _, r := range t.Rows {
		test := promptfooTest{Vars: map[string]any{}}
		for name, v := range r.Values {
			if !strings.HasPrefix(name, "__") {
				test.Vars[name] = v
			}
		}
		if v := textOf(r.Values["__expected"]); v != "" {
			test.Assert = []assertion{shortAssertion(v)}
		}
		test.Description = textOf(r.Values["__description"])
		tests = append(tests, test)
	}
	return tests, nil
}

func isAssertion(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// shortAssertion reads __expected of a CSV: "contains: x", or a text to equal.
func shortAssertion(v string) assertion {
	if kind, value, ok := strings.Cut(v, ":"); ok && isAssertion(kind) {
		return assertion{Type: kind, Value: strings.TrimSpace(value)}
	}
	return assertion{Type: "equals", Value: v}
}

func (c *promptfooConfig) makeCase(path, id string, prompt any, test promptfooTest) (Line, error) {
	text, err := promptText(path, prompt)
	if err != nil {
		return Line{}, err
	}
	vars := maps.Clone(c.DefaultTest.Vars)
	if vars == nil {
		vars = map[string]any{}
	}
	maps.Copy(vars, test.Vars)
	for name, v := range vars {
		if vars[name], err = valueOf(path, v); err != nil {
			return Line{}, fmt.Errorf("the variable %s: %w", name, err)
		}
	}
	out := Line{ID: id, Title: title(test.Description), Metadata: test.Metadata}
	if out.Input, err = fill(text, vars); err != nil {
		return out, err
	}
	asserts := slices.Concat(c.DefaultTest.Assert, test.Assert)
	if len(asserts) == 0 {
		return out, fmt.Errorf("it asserts nothing")
	}
	for i, a := range asserts {
		grade, err := a.grade(path, vars)
		if err != nil {
			return out, err
		}
		out.Checks = append(out.Checks, Check{fmt.Sprintf("%s-%d", a.Type, i+1), grade})
	}
	if len(out.Checks) == 1 {
		out.Grade, out.Checks = out.Checks[0].Grade, nil
	}
	return out, nil
}

func title(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	return line[:min(len(line), 200)]
}

func promptText(path string, prompt any) (string, error) {
	if m, ok := prompt.(map[string]any); ok {
		prompt = m["raw"]
		if prompt == nil {
			prompt = m["id"]
		}
	}
	text, ok := prompt.(string)
	if !ok {
		return "", fmt.Errorf("a prompt is neither a text nor a file")
	}
	if promptPath().MatchString(text) {
		text = "file://" + text
	}
	return resolve(path, text)
}

// promptPath are prompts that are the name of a file without file:// before it: promptfoo
// reads them.
var promptPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[^\s:{}]+\.(?i:txt|md|json|jsonl|ya?ml|csv|j2|js|cjs|mjs|ts|py)$`)
})

// elsewhere are values that promptfoo does not take as they stand: a file, the address of a
// text, or what a program prints.
var elsewhere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*(?:file://.*|(?:exec|package|python|javascript):\S.*|[a-z][a-z0-9+.-]*://\S+)\s*$`)
})

// valueOf is a variable, or the value of an assertion, as promptfoo takes it. A list of
// values means a test for each of them.
func valueOf(path string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(v)), "file:") {
			return v, nil // an address in a variable is a text
		}
		return resolve(path, v)
	case []any:
		return nil, fmt.Errorf("it is a list, and a test for each of its values is meant: write them as tests")
	}
	return v, nil
}

// resolve is a text as it stands, or that of the text file that it names. What else a value
// can mean is refused: its name in the place of its words would be another question.
func resolve(path, text string) (string, error) {
	if !elsewhere().MatchString(text) {
		return text, nil
	}
	name, isFile := strings.CutPrefix(strings.TrimSpace(text), "file://")
	if !isFile {
		return "", fmt.Errorf("%.200q is not a text but names one, and only file:// with a text file in the folder is read", text)
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext != ".txt" && ext != ".md" {
		return "", fmt.Errorf("%s is a program, a table or a conversation, and only texts (.txt, .md) are read", text)
	}
	data, err := store.ReadBeside(path, name, 1<<20)
	return string(data), err
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*([\w.-]+)\s*\}\}`) })

// fill puts variables into a template. What a template can do beyond that is
// refused: half of it filled in would be another question.
func fill(template string, vars map[string]any) (string, error) {
	var missing error
	out := variable().ReplaceAllStringFunc(template, func(m string) string {
		name := variable().FindStringSubmatch(m)[1]
		v, ok := vars[name]
		if !ok {
			missing = fmt.Errorf("the prompt asks for %q, which the test does not have", name)
		}
		return textOf(v)
	})
	if missing != nil {
		return "", missing
	}
	if rest := variable().ReplaceAllString(template, ""); strings.Contains(rest, "{{") || strings.Contains(rest, "{%") {
		return "", fmt.Errorf("the prompt uses a filter or a block of its template language")
	}
	return out, nil
}

// grade converts one assertion, or says why that is not possible.
func (a assertion) grade(path string, vars map[string]any) (map[string]any, error) {
	kind, negated := strings.CutPrefix(a.Type, "not-")
	value, err := filledValue(path, a.Value, vars)
	if err != nil {
		return nil, fmt.Errorf("assertion %s: %w", a.Type, err)
	}
	grade := convert(kind, value, a.Threshold)
	if grade == nil {
		return nil, fmt.Errorf("the assertion %q has no counterpart here", a.Type)
	}
	if negated {
		grade = map[string]any{"kind": "not", "checks": []Check{{"it", grade}}}
	}
	return grade, nil
}

// filledValue is what an assertion compares with, or each of a list of them.
func filledValue(path string, value any, vars map[string]any) (any, error) {
	list, ok := value.([]any)
	if !ok {
		v, err := valueOf(path, value)
		if s, isText := v.(string); err == nil && isText {
			return fill(strings.TrimRight(s, "\n"), vars)
		}
		return v, err
	}
	out := make([]any, len(list))
	for i, v := range list {
		var err error
		if out[i], err = filledValue(path, v, vars); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func convert(kind string, value any, threshold *float64) map[string]any {
	text := textOf(value)
	switch kind {
	case "equals":
		return map[string]any{"kind": "exact", "expected": text}
	case "contains", "icontains":
		return containing(kind, text)
	case "contains-all", "icontains-all":
		return containing(kind, listOf(value))
	case "contains-any", "icontains-any":
		var checks []Check
		for i, v := range listOf(value) {
			checks = append(checks, Check{fmt.Sprintf("any-%d", i+1), containing(kind, v)})
		}
		return map[string]any{"kind": "any", "checks": checks}
	case "regex":
		return map[string]any{"kind": "regex", "pattern": text, "match": "anywhere"}
	case "starts-with":
		return map[string]any{"kind": "regex", "pattern": "^" + regexp.QuoteMeta(text), "match": "anywhere"}
	case "is-json":
		if schema, ok := value.(map[string]any); ok {
			return map[string]any{"kind": "json_schema", "schema": schema}
		}
		return map[string]any{"kind": "json_schema", "schema": true}
	case "llm-rubric", "model-graded-closedqa", "factuality":
		g := map[string]any{"kind": "judge", "criteria": text}
		if threshold != nil {
			g["threshold"] = *threshold
		}
		return g
	}
	return nil
}

// containing compares without case for the kinds that begin with i.
func containing(kind string, expected any) map[string]any {
	g := map[string]any{"kind": "contains", "expected": expected}
	if kind[0] == 'i' {
		g["normalised"] = true
	}
	return g
}

// listOf is a list, or a text with commas as promptfoo's CSV has it.
func listOf(v any) []string {
	var out []string
	if list, ok := v.([]any); ok {
		for _, x := range list {
			out = append(out, textOf(x))
		}
		return out
	}
	for part := range strings.SplitSeq(textOf(v), ",") {
		out = append(out, strings.TrimSpace(part))
	}
	return out
}

var notInNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// slug makes a name of a description, or "".
func slug(s string) string {
	s = strings.Trim(notInNames().ReplaceAllString(strings.ToLower(s), "-"), "-")
	if len(s) > 60 {
		s = strings.TrimRight(s[:60], "-")
	}
	if bench.CheckID(s) != nil {
		return ""
	}
	return s
}
