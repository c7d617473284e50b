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
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
	Choices  string   `json:"choices,omitempty"` // a column that holds all of them
	Grade    string   `json:"grade,omitempty"`   // kind of grader, or [Words]
	Metadata []string `json:"metadata,omitempty"`

	// ChoiceColumns hold one choice each. WrongColumns hold one wrong answer each, and
	// the expected one is a choice beside them. Labels are the answers that there are,
	// if the table has only a few that repeat.
	ChoiceColumns []string `json:"choice_columns,omitempty"`
	WrongColumns  []string `json:"wrong_columns,omitempty"`
	Labels        []string `json:"labels,omitempty"`
	AnswerIs      string   `json:"answer_is,omitempty"` // how the expected answer names a choice: [AnswerKinds]
}

// Words is the grade of a short answer: it stands in the agent's as whole words.
const Words = "words"

// hasChoices reports whether the cases of the table are multiple choices.
func (m *Mapping) hasChoices() bool {
	return m.Choices != "" || len(m.ChoiceColumns) > 0 || len(m.WrongColumns) > 0 || len(m.Labels) > 0
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
	inputNames = []string{"input", "question", "prompt", "query", "problem", "instruction", "text", "user", "user_input",
		"question_stem", "stem", "ctx", "sentence", "goal", "premise"}
	expectedNames = []string{"target", "expected", "expected_output", "answer", "answers", "final_answer", "final answer", "correct_answer", "correct answer", "answerkey", "answer_key",
		"correct_option", "correct option", "correct_choice", "right_answer", "correct", "ideal", "gold", "reference", "answer_idx", "answer_index", "answer_id", "answer_letter",
		"correct_idx", "correct_index", "label", "gold_label", "cop", "output", "completion", "__expected"}
	idNames     = []string{"id", "sample_id", "task_id", "case_id", "name", "key", "question_id"}
	choiceNames = []string{"choices", "options", "answer_choices", "endings", "candidates", "alternatives", "possible_answers"}
)

// Guess fills in what a person left open, from the names of the columns.
func (t *Table) Guess(m Mapping) (Mapping, error) {
	if err := t.given(&m); err != nil {
		return m, err
	}
	named := m.Choices != ""
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
			WithHint("name it with --input-column: one of %s", strings.Join(t.Columns, ", "))
	}
	if !named && !t.listsChoices(&m) {
		m.Choices = "" // a column of that name, and something else in it
	}
	if len(m.ChoiceColumns) == 0 {
		t.guessChoices(&m)
	}
	if err := t.answerKind(&m); err != nil {
		return m, err
	}
	// Columns called A and B may be anything; choices, if the answers are among them.
	if len(m.ChoiceColumns) > 0 && m.AnswerIs == "" && len(m.ChoiceColumns[0]) == 1 {
		m.ChoiceColumns = nil
	}
	if m.Grade == "" && m.Expected != "" && !m.hasChoices() {
		if t.guessLabels(&m); len(m.Labels) > 0 {
			m.AnswerIs = byText
		}
	}
	used := slices.Concat([]string{m.Input, m.Expected, m.ID, m.Choices}, m.ChoiceColumns, m.WrongColumns)
	for _, c := range t.Columns {
		if !slices.Contains(used, c) {
			m.Metadata = append(m.Metadata, c)
		}
	}
	if m.Grade == "" && m.Expected != "" {
		m.Grade = t.guessGrade(m)
	}
	return m, nil
}

// given reads what a person says of the choices: one column with all of them, or one for
// each, with commas between; and how the answers name them.
func (t *Table) given(m *Mapping) error {
	if m.AnswerIs != "" && !slices.Contains(AnswerKinds(), m.AnswerIs) {
		return refusal.Newf(refusal.Usage, "--answer-is %s: expected %s", m.AnswerIs, strings.Join(AnswerKinds(), ", "))
	}
	if slices.Contains(t.Columns, m.Choices) || !strings.Contains(m.Choices, ",") {
		return nil
	}
	for name := range strings.SplitSeq(m.Choices, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(t.Columns, name) {
			return refusal.Newf(refusal.UnknownName, "%s has no column %q for a choice", t.Source, name).WithHint("it has %s", strings.Join(t.Columns, ", "))
		}
		m.ChoiceColumns = append(m.ChoiceColumns, name)
	}
	m.Choices = ""
	return nil
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
	free := false // a row without choices
	for i := range t.Rows {
		r := &t.Rows[i]
		if list, err := r.options(&m); err != nil || len(list) > 0 {
			continue
		}
		free = true
		if v := r.expected(&m); v != nil && v != "" && !isNumber(v) {
			return Words
		}
	}
	if !free {
		return choiceGrade
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
	input, err := promptOf(r.Values[m.Input])
	if err != nil {
		return Line{}, err
	}
	c := Line{ID: id, Input: input}
	if strings.TrimSpace(c.Input) == "" {
		return c, fmt.Errorf("the column %q is empty", m.Input)
	}
	meta := m.Metadata
	if m.ID != "" && textOf(r.Values[m.ID]) != id {
		meta = append(slices.Clone(meta), m.ID)
	}
	c.Metadata = r.metadata(meta)
	expected := r.expected(&m)
	if m.Expected == "" || expected == nil || textOf(expected) == "" {
		return c, fmt.Errorf("nothing says what a right answer is")
	}
	// Choices are choices, whatever else grades the rows that have none.
	switch list, err := r.options(&m); {
	case err != nil:
		return c, err
	case len(list) > 0:
		return c, c.choose(list, m.AnswerIs, expected)
	}
	c.grade(m, expected)
	return c, nil
}

// expected is the expected answer, or the list of those that are right: a list of one is
// that one, and of an object, as SQuAD and TriviaQA have it, the texts are meant.
func (r *Row) expected(m *Mapping) any {
	v := r.Values[m.Expected]
	if object, ok := v.(map[string]any); ok {
		switch {
		case object["text"] != nil:
			v = object["text"]
		case object["value"] != nil:
			aliases, _ := object["aliases"].([]any)
			v = append([]any{object["value"]}, aliases...)
		}
	}
	if list, ok := v.([]any); ok && len(list) == 1 {
		v = list[0]
	} else if ok && len(list) == 0 {
		v = nil
	}
	return v
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
func (c *Line) grade(m Mapping, expected any) {
	c.Expected = expected
	switch m.Grade {
	case "number":
		c.Expected, c.Grade = json.Number(strings.TrimSpace(textOf(expected))), map[string]any{"kind": "number", "find": "last"}
	case Words, "contains":
		c.find(m.Grade == Words, expected)
	case "judge":
		c.Grade = map[string]any{"kind": "judge", "criteria": "The answer says the same as the expected one."}
	default:
		c.Grade = map[string]any{"kind": m.Grade}
		if m.Grade == "exact" || m.Grade == "normalised" {
			c.Expected = textOf(expected)
		}
	}
}

// find looks for the expected answer, or for one of several, in that of the agent. One
// letter is in nearly every sentence, be it as a word, so it is asked for and compared.
func (c *Line) find(words bool, expected any) {
	rule := func(more map[string]any) map[string]any {
		out := map[string]any{"kind": "contains", "normalised": true}
		if words {
			out["words"] = true
		}
		maps.Copy(out, more)
		return out
	}
	// A list of targets is a list of right answers.
	if list, ok := expected.([]any); ok {
		var targets []Check
		for i, v := range list {
			grade := rule(map[string]any{"expected": textOf(v)})
			if letter := one(textOf(v)); words && letter != "" {
				grade = map[string]any{"kind": "normalised", "expected": letter}
			}
			targets = append(targets, Check{fmt.Sprintf("target-%d", i+1), grade})
		}
		c.Grade = map[string]any{"kind": "any", "checks": targets}
		return
	}
	text := textOf(expected)
	c.Expected, c.Grade = text, rule(nil)
	if letter := one(text); words && letter != "" {
		c.Expected, c.Grade = letter, map[string]any{"kind": "normalised"}
		c.ask("your answer, which is one character", `\S`)
	}
}

// one is a text that is one character but for blanks, brackets and stops around it, which
// are left out when texts are compared; "" if it has more.
func one(text string) string {
	if core := strings.Trim(text, " \t\r\n()[]{}<>.,;:!?*_\"'`"); utf8.RuneCountInString(core) == 1 {
		return core
	}
	if text = strings.TrimSpace(text); utf8.RuneCountInString(text) == 1 {
		return text
	}
	return ""
}

// choiceGrade is what a mapping says of a table whose rows are all multiple choices.
const choiceGrade = "choice"

// choose makes a multiple choice of a question: the choices get letters, the agent is
// asked for one, and that letter is compared.
func (c *Line) choose(list []option, kind string, expected any) error {
	if len(list) < 2 || len(list) > len(letters) {
		return fmt.Errorf("it has %d choices, expected 2 to %d", len(list), len(letters))
	}
	right := place(cmp.Or(kind, byText), list, expected)
	if right < 0 {
		return fmt.Errorf("the expected answer %.60q is not one of the choices, or is more than one of them", textOf(expected))
	}
	var b strings.Builder
	var texts []any
	fmt.Fprintf(&b, "%s\n\n", c.Input)
	for i, o := range list {
		fmt.Fprintf(&b, "%c) %s\n", letters[i], o.text)
		texts = append(texts, o.text)
	}
	c.Input, c.Expected = strings.TrimSuffix(b.String(), "\n"), letters[right:right+1]
	c.Grade = map[string]any{"kind": "normalised"}
	c.ask("the letter of your choice", "[A-"+letters[len(list)-1:len(list)]+"]")
	if c.Metadata == nil {
		c.Metadata = map[string]any{}
	}
	c.Metadata["choices"] = texts
	return nil
}

// ask has the agent end with what is compared. An answer that is nothing else is as good.
func (c *Line) ask(what, pattern string) {
	c.Input += "\n\nEnd with a line \"ANSWER: \" and " + what + "."
	c.Extract = map[string]any{"kind": "answer", "pattern": `(?i)(?:\A|ANSWER:)[\s*_(]*(` + pattern + `)[\s*_).]*\z`}
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
func promptOf(v any) (string, error) {
	list, ok := v.([]any)
	if !ok {
		return textOf(v), nil
	}
	var texts []string
	for _, m := range list {
		message, ok := m.(map[string]any)
		if !ok {
			return textOf(v), nil
		}
		text, err := contentOf(message["content"])
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n\n"), nil
}

// contentOf is the text of a message: itself, or its parts. An image in it is a part of
// the question; without it the rest is another one.
func contentOf(v any) (string, error) {
	parts, ok := v.([]any)
	if !ok {
		return textOf(v), nil
	}
	var texts []string
	for _, p := range parts {
		part, ok := p.(map[string]any)
		text, isText := part["text"].(string)
		if !ok || !isText {
			return "", fmt.Errorf("a message has a part that is not a text, such as an image, and only texts are imported")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), nil
}
