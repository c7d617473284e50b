// Package dataset makes cases of tables that other tools use: CSV, TSV, JSON,
// JSON lines and Parquet, folders of a Hugging Face data set, Inspect's data sets, and the
// tests of a promptfoo configuration.
//
// A table's columns are guessed and the guess is part of the answer, so that a
// person sees it and can say otherwise. Nothing is dropped silently: a column
// that means nothing to us becomes metadata, a test that cannot be converted is
// listed with the reason.
package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// Bounds of what is read: a data set of people, not a corpus.
const (
	maxFile    = 256 << 20
	maxRows    = 1_000_000
	maxColumns = 1000
)

// A Table is rows with named values, as read.
type Table struct {
	Format  string
	Source  string
	Columns []string
	Rows    []Row
}

// A Row is one row and where it stands. Values are as encoding/json decodes
// them, numbers as [json.Number].
type Row struct {
	Place  string
	Values map[string]any
}

// A Mapping says which column is what. Empty means none.
type Mapping struct {
	ID       string   `json:"id,omitempty"`
	Input    string   `json:"input"`
	Expected string   `json:"expected,omitempty"`
	Choices  string   `json:"choices,omitempty"`
	Grade    string   `json:"grade,omitempty"` // kind of grader
	Metadata []string `json:"metadata,omitempty"`
}

// A Line is one line of dataset.jsonl.
type Line struct {
	ID       string         `json:"id"`
	Title    string         `json:"title,omitempty"`
	Input    string         `json:"input,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	Expected any            `json:"expected,omitempty"`
	Extract  map[string]any `json:"extract,omitempty"`
	Grade    map[string]any `json:"grade,omitempty"`
	Checks   []Check        `json:"checks,omitempty"`
}

// A Check is one of several.
type Check struct {
	Name  string         `json:"name"`
	Grade map[string]any `json:"grade"`
}

// Imported is what became of a file.
type Imported struct {
	Format  string   `json:"format"`
	Mapping *Mapping `json:"mapping,omitempty"` // of a table
	Cases   []Line   `json:"-"`
	// LeftOut are what is not among the cases, each with its place and reason.
	LeftOut []string `json:"left_out"`
}

// JSONL writes the cases as dataset.jsonl.
func (i *Imported) JSONL() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, c := range i.Cases {
		if err := enc.Encode(c); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
	}
	return b.Bytes(), nil
}

// names that columns have in other tools' data sets, the likeliest first.
var (
	inputNames    = []string{"input", "question", "prompt", "query", "problem", "instruction", "text", "user", "user_input"}
	expectedNames = []string{"target", "expected", "expected_output", "answer", "final_answer", "final answer", "ideal", "gold", "reference", "label", "output", "completion", "__expected"}
	idNames       = []string{"id", "sample_id", "task_id", "case_id", "name", "key", "question_id"}
	choiceNames   = []string{"choices", "options"}
)

// Guess fills in what a person left open, from the names of the columns.
func (t *Table) Guess(m Mapping) (Mapping, error) {
	for _, g := range []struct {
		column *string
		what   string
		names  []string
	}{{&m.Input, "input", inputNames}, {&m.Expected, "expected", expectedNames}, {&m.ID, "id", idNames}, {&m.Choices, "choices", choiceNames}} {
		if *g.column == "" {
			*g.column = t.column(g.names)
		} else if !slices.Contains(t.Columns, *g.column) {
			return m, refusal.Newf(refusal.UnknownName, "%s has no column %q for the %s", t.Source, *g.column, g.what).
				WithHint("it has %s", strings.Join(t.Columns, ", "))
		}
	}
	if m.Input == "" {
		return m, refusal.Newf(refusal.Usage, "%s: no column looks like the input of a case", t.Source).
			WithHint("name it with --input: one of %s", strings.Join(t.Columns, ", "))
	}
	for _, c := range t.Columns {
		if c != m.Input && c != m.Expected && c != m.ID && c != m.Choices {
			m.Metadata = append(m.Metadata, c)
		}
	}
	if m.Grade == "" && m.Expected != "" {
		m.Grade = t.guessGrade(m)
	}
	return m, nil
}

func (t *Table) column(names []string) string {
	for _, name := range names {
		for _, c := range t.Columns {
			if strings.EqualFold(strings.TrimSpace(c), name) {
				return c
			}
		}
	}
	return ""
}

// guessGrade chooses the grader that fits every expected value.
func (t *Table) guessGrade(m Mapping) string {
	for _, r := range t.Rows {
		if list, ok := r.Values[m.Choices].([]any); ok && len(list) > 0 {
			continue // a letter is compared
		}
		if v := r.Values[m.Expected]; v != nil && v != "" && !isNumber(v) {
			return "contains"
		}
	}
	return "number"
}

func isNumber(v any) bool {
	if _, ok := v.(json.Number); ok {
		return true
	}
	s, ok := v.(string)
	if !ok {
		return false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// Cases makes the cases of a table.
func (t *Table) Cases(m Mapping) (*Imported, error) {
	out := &Imported{Format: t.Format, Mapping: &m, LeftOut: []string{}}
	ids := t.ids(m)
	for i, r := range t.Rows {
		c, err := r.makeCase(m, ids[i])
		if err != nil {
			out.LeftOut = append(out.LeftOut, fmt.Sprintf("%s: %v", r.Place, err))
			continue
		}
		out.Cases = append(out.Cases, c)
	}
	if len(out.Cases) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "%s: none of its %d rows is a case: %s", t.Source, len(t.Rows), strings.Join(out.LeftOut[:min(3, len(out.LeftOut))], "; "))
	}
	return out, nil
}

// ids are those of the id column if every row has one that is a name and no two
// look alike, else the number of the row. The column is then kept as metadata.
func (t *Table) ids(m Mapping) []string {
	ids := make([]string, len(t.Rows))
	seen := map[string]bool{}
	good := m.ID != ""
	for i, r := range t.Rows {
		id := textOf(r.Values[m.ID])
		folded := plain.Fold(id)
		good = good && bench.CheckID(id) == nil && !seen[folded]
		seen[folded] = true
		ids[i] = id
	}
	if !good {
		for i := range ids {
			ids[i] = fmt.Sprintf("row-%d", i+1)
		}
	}
	return ids
}

func (r *Row) makeCase(m Mapping, id string) (Line, error) {
	c := Line{ID: id, Input: promptOf(r.Values[m.Input])}
	if strings.TrimSpace(c.Input) == "" {
		return c, fmt.Errorf("the column %q is empty", m.Input)
	}
	meta := m.Metadata
	if m.ID != "" && textOf(r.Values[m.ID]) != id {
		meta = append(slices.Clone(meta), m.ID)
	}
	c.Metadata = r.metadata(meta)
	expected := r.Values[m.Expected]
	if m.Expected == "" || expected == nil || textOf(expected) == "" {
		return c, fmt.Errorf("nothing says what a right answer is")
	}
	return c, c.grade(m, r.Values[m.Choices], expected)
}

// metadata is what the other columns say, or nil. A column of that name is the
// metadata itself, as Inspect has it.
func (r *Row) metadata(columns []string) map[string]any {
	out := map[string]any{}
	for _, column := range columns {
		v := r.Values[column]
		if free, ok := v.(map[string]any); ok && column == "metadata" {
			maps.Copy(out, free)
		} else if v != nil && v != "" {
			out[column] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// grade says how an answer is compared with the expected one.
func (c *Line) grade(m Mapping, choices, expected any) error {
	if list, ok := choices.([]any); ok && len(list) > 0 {
		return c.choose(list, expected)
	}
	c.Expected = expected
	switch m.Grade {
	case "number":
		c.Expected, c.Grade = json.Number(strings.TrimSpace(textOf(expected))), map[string]any{"kind": "number", "find": "last"}
	case "contains":
		c.Grade = map[string]any{"kind": "contains", "normalised": true}
		// A list of targets is a list of right answers.
		if list, ok := expected.([]any); ok {
			var targets []Check
			for i, v := range list {
				targets = append(targets, Check{fmt.Sprintf("target-%d", i+1), map[string]any{"kind": "contains", "normalised": true, "expected": textOf(v)}})
			}
			c.Grade = map[string]any{"kind": "any", "checks": targets}
		} else {
			c.Expected = textOf(expected)
		}
	case "judge":
		c.Grade = map[string]any{"kind": "judge", "criteria": "The answer says the same as the expected one."}
	default:
		c.Grade = map[string]any{"kind": m.Grade}
		if m.Grade == "exact" || m.Grade == "normalised" {
			c.Expected = textOf(expected)
		}
	}
	return nil
}

// choose makes a multiple choice of a question: the options get letters, the
// agent is asked for one, and that letter is compared.
func (c *Line) choose(options []any, expected any) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if len(options) > len(letters) {
		return fmt.Errorf("%d choices, expected at most %d", len(options), len(letters))
	}
	want := -1
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.Input)
	for i, o := range options {
		fmt.Fprintf(&b, "%c) %s\n", letters[i], textOf(o))
		if textOf(expected) == textOf(o) || textOf(expected) == string(letters[i]) {
			want = i
		}
	}
	if n, err := strconv.Atoi(textOf(expected)); want < 0 && err == nil && n >= 0 && n < len(options) {
		want = n // the place in the list, from 0, as many data sets have it
	}
	if want < 0 {
		return fmt.Errorf("the expected answer %.60q is not one of the choices", textOf(expected))
	}
	b.WriteString("\nEnd with a line \"ANSWER: \" and the letter of your choice.")
	c.Input, c.Expected = b.String(), string(letters[want])
	c.Extract = map[string]any{"kind": "answer", "pattern": `(?i)ANSWER:\s*\(?([A-Za-z])\)?\s*$`}
	c.Grade = map[string]any{"kind": "normalised"}
	return nil
}

// textOf is a value as people write it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	data, _ := json.Marshal(v)
	return string(data)
}

// promptOf is the input of a case: a text, or the messages of a conversation
// whose last one is the user's.
func promptOf(v any) string {
	list, ok := v.([]any)
	if !ok {
		return textOf(v)
	}
	var texts []string
	for _, m := range list {
		message, ok := m.(map[string]any)
		if !ok {
			return textOf(v)
		}
		texts = append(texts, textOf(message["content"]))
	}
	return strings.Join(texts, "\n\n")
}
