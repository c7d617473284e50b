package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
)

// An option is one of the choices of a question.
type option struct {
	label string // what the data calls it; "" if nothing
	text  string
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// choiceColumn takes apart the name of a column that holds one choice: choice_1,
// "Option A", opa, answerA, sol2, ending0, or a letter alone.
var choiceColumn = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(choice|option|opt|op|answer|ans|ending|sol|solution|alternative|alt|candidate|response)?s?[ _.\-/\[(]*([a-z]|[0-9]{1,2})[\])]?$`)
})

// wrongColumn is the name of a column that holds a wrong answer; the right one is in
// that of the expected answer.
var wrongColumn = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:distractor|(?:incorrect|wrong|false)(?:[ _]?(?:answer|option|choice))?)s?[ _]*(?:[a-z]|[0-9]{1,2})$`)
})

// flatten takes a question apart that has its own choices, as ARC and OpenBookQA were
// published: {"question": {"stem": ..., "choices": [...]}, "answerKey": ...}.
func (t *Table) flatten() {
	for i := range t.Rows {
		r := &t.Rows[i]
		question, ok := r.Values["question"].(map[string]any)
		if !ok || question["stem"] == nil || question["choices"] == nil || r.Values["choices"] != nil {
			continue
		}
		r.Values["question"], r.Values["choices"] = question["stem"], question["choices"]
		if !slices.Contains(t.Columns, "choices") {
			t.Columns = append(t.Columns, "choices")
		}
	}
}

// guessChoices finds the columns that hold the choices, one each, if no column holds all
// of them.
func (t *Table) guessChoices(m *Mapping) {
	if m.Choices != "" || m.Expected == "" {
		return
	}
	groups := map[string]map[string]string{} // prefix, then what tells the columns apart
	var order []string
	for _, c := range t.Columns {
		name := strings.ToLower(strings.TrimSpace(c))
		if c == m.Input || c == m.Expected || c == m.ID {
			continue
		}
		if wrongColumn().MatchString(name) {
			m.WrongColumns = append(m.WrongColumns, c)
			continue
		}
		part := choiceColumn().FindStringSubmatch(name)
		if part == nil || part[1] == "" && part[2][0] <= '9' {
			continue
		}
		if groups[part[1]] == nil {
			groups[part[1]] = map[string]string{}
			order = append(order, part[1])
		}
		groups[part[1]][part[2]] = c
	}
	for _, prefix := range order {
		if columns := consecutive(groups[prefix]); len(columns) > len(m.ChoiceColumns) {
			m.ChoiceColumns = columns
		}
	}
	if len(m.ChoiceColumns) > 0 {
		m.WrongColumns = nil
	}
}

// consecutive are the columns a, b, c and so on, or 0, 1, 2, or 1, 2, 3: at least two.
func consecutive(columns map[string]string) []string {
	for _, first := range []string{"a", "0", "1", "00", "01"} {
		var found []string
		for key := first; columns[key] != ""; key = after(key) {
			found = append(found, columns[key])
		}
		if len(found) > 1 {
			return found
		}
	}
	return nil
}

func after(key string) string {
	n, err := strconv.Atoi(key)
	if err != nil {
		return string(rune(key[0]) + 1)
	}
	return fmt.Sprintf("%0*d", len(key), n+1)
}

// listsChoices reports whether the column of the choices has two or more in a row.
func (t *Table) listsChoices(m *Mapping) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool {
		list, err := optionsOf(r.Values[m.Choices])
		return err == nil && len(list) > 1
	})
}

// options are the choices of a row, nil if it has none.
func (r *Row) options(m *Mapping) ([]option, error) {
	switch {
	case len(m.ChoiceColumns) > 0:
		var out []option
		for _, c := range m.ChoiceColumns {
			if text := strings.TrimSpace(textOf(r.Values[c])); text != "" {
				out = append(out, option{labelOf(c), text})
			}
		}
		return unlettered(out), nil
	case len(m.WrongColumns) > 0:
		return r.withWrong(m), nil
	case m.Choices != "":
		list, err := optionsOf(r.Values[m.Choices])
		return unlettered(list), err
	}
	var out []option
	for _, l := range m.Labels {
		out = append(out, option{l, l})
	}
	return out, nil
}

// labelOf is what the name of a column calls its choice.
func labelOf(column string) string {
	if part := choiceColumn().FindStringSubmatch(strings.ToLower(strings.TrimSpace(column))); part != nil {
		return part[2]
	}
	return ""
}

// withWrong are the right answer and the wrong ones, in an order that does not tell
// which is which and is the same whenever they are imported.
func (r *Row) withWrong(m *Mapping) []option {
	texts := []string{strings.TrimSpace(textOf(r.expected(m)))}
	for _, c := range m.WrongColumns {
		if text := strings.TrimSpace(textOf(r.Values[c])); text != "" {
			texts = append(texts, text)
		}
	}
	place := func(text string) string {
		sum := sha256.Sum256([]byte(textOf(r.Values[m.Input]) + "\x00" + text))
		return string(sum[:])
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	var out []option
	for _, text := range texts {
		out = append(out, option{"", text})
	}
	return out
}

// optionsOf reads the choices out of one value: a list of texts or of objects, an object
// with a list of texts and one of labels, an object of labels, or a text that spells one of
// these.
func optionsOf(v any) ([]option, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		var out []option
		for _, item := range v {
			o, ok := optionOf(item)
			if !ok {
				return nil, fmt.Errorf("a choice is %.60q, expected a text, or an object with a text and a label", textOf(item))
			}
			out = append(out, o)
		}
		return out, nil
	case map[string]any:
		return optionsOfObject(v)
	case string:
		return optionsOfText(v)
	}
	return nil, fmt.Errorf("the choices are %.60q, expected a list", textOf(v))
}

var (
	textMembers  = []string{"text", "texts", "choice", "choices", "option", "options", "value", "content"}
	labelMembers = []string{"label", "labels", "key", "keys", "letter", "id"}
)

func member(v map[string]any, names []string) any {
	for _, name := range names {
		if v[name] != nil {
			return v[name]
		}
	}
	return nil
}

func optionOf(v any) (option, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		_, isList := v.([]any)
		return option{"", strings.TrimSpace(textOf(v))}, v != nil && !isList
	}
	text := member(object, textMembers)
	_, isList := text.([]any)
	return option{textOf(member(object, labelMembers)), strings.TrimSpace(textOf(text))}, text != nil && !isList
}

func optionsOfObject(v map[string]any) ([]option, error) {
	if texts, ok := member(v, textMembers).([]any); ok {
		out, err := optionsOf(texts)
		if labels, ok := member(v, labelMembers).([]any); ok && len(labels) == len(out) && err == nil {
			for i := range out {
				out[i].label = textOf(labels[i])
			}
		}
		return out, err
	}
	var out []option
	for label, text := range v {
		if len(label) > 2 {
			return nil, fmt.Errorf("the choices have a member %.40q, expected letters, or lists of texts and labels", label)
		}
		if text != nil {
			out = append(out, option{label, strings.TrimSpace(textOf(text))})
		}
	}
	slices.SortFunc(out, func(a, b option) int {
		return cmp.Or(cmp.Compare(len(a.label), len(b.label)), cmp.Compare(a.label, b.label))
	})
	return out, nil
}

// optionsOfText reads choices that a cell of a table spells: JSON, a list as Python
// prints it, or texts between line breaks, bars, semicolons or commas.
func optionsOfText(s string) ([]option, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	if s[0] == '[' || s[0] == '{' {
		var v any
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		if err := dec.Decode(&v); err == nil && !dec.More() {
			return optionsOf(v)
		}
		list, ok := pythonList(s)
		if !ok {
			return nil, fmt.Errorf("the choices are %.60q, expected a list", s)
		}
		return optionsOf(list)
	}
	for _, separator := range []string{"\n", "|", ";", ","} {
		if strings.Contains(s, separator) {
			var out []option
			for part := range strings.SplitSeq(s, separator) {
				if part = strings.TrimSpace(part); part != "" {
					out = append(out, option{"", part})
				}
			}
			return out, nil
		}
	}
	return nil, fmt.Errorf("the choices are %.60q, expected a list, or texts between bars, semicolons, commas or line breaks", s)
}

// pythonList reads a list of texts and numbers as Python prints it.
func pythonList(s string) ([]any, bool) {
	s, ok := strings.CutPrefix(s, "[")
	if !ok {
		return nil, false
	}
	var out []any
	for {
		s = strings.TrimLeft(s, " \t\r\n,")
		switch {
		case s == "":
			return nil, false
		case s[0] == ']':
			return out, strings.TrimSpace(s[1:]) == ""
		case s[0] == '\'' || s[0] == '"':
			text, rest, ok := pythonText(s)
			if !ok {
				return nil, false
			}
			out, s = append(out, text), rest
		default:
			end := strings.IndexAny(s, ",]")
			if end < 0 {
				return nil, false
			}
			out, s = append(out, strings.TrimSpace(s[:end])), s[end:]
		}
	}
}

func pythonText(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteString(strings.NewReplacer("n", "\n", "t", "\t").Replace(s[i : i+1]))
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

var ownLetter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\(?([A-Za-z])[).:]\s*(.+)$`) })

// unlettered takes the letters away that the texts of the choices begin with, if each
// begins with its own.
func unlettered(list []option) []option {
	out := make([]option, len(list))
	for i, o := range list {
		part := ownLetter().FindStringSubmatch(o.text)
		if part == nil || i >= len(letters) || !strings.EqualFold(part[1], letters[i:i+1]) {
			return list
		}
		out[i] = option{part[1], part[2]}
	}
	return out
}

// The ways in which an expected answer names a choice.
const (
	byLabel  = "label"  // as the data calls the choice
	byLetter = "letter" // A is the first
	byText   = "text"   // the choice itself
	from0    = "index0" // its place, the first is 0
	from1    = "index1"
)

// AnswerKinds are the ways in which an expected answer may name a choice.
func AnswerKinds() []string { return []string{byLabel, byLetter, byText, from0, from1} }

// place finds the choice that an expected answer names in one of the ways; -1 if none or
// more than one.
func place(kind string, list []option, expected any) int {
	want := strings.TrimSpace(textOf(expected))
	switch kind {
	case byText:
		return only(list, func(_ int, o option) bool { return o.text == want },
			func(_ int, o option) bool { return fold(o.text) == fold(want) })
	case from0, from1:
		n, err := strconv.Atoi(want)
		if kind == from1 {
			n--
		}
		if err != nil || n < 0 || n >= len(list) {
			return -1
		}
		return n
	case byLabel:
		return only(list, func(_ int, o option) bool { return o.label != "" && named(want, o.label, o.text) })
	}
	return only(list, func(i int, o option) bool { return i < len(letters) && named(want, letters[i:i+1], o.text) })
}

// only is the place of the one choice that fits, by the first of the ways that any fits.
func only(list []option, ways ...func(int, option) bool) int {
	for _, fits := range ways {
		found := -1
		for i, o := range list {
			if !fits(i, o) {
				continue
			}
			if found >= 0 {
				return -1
			}
			found = i
		}
		if found >= 0 {
			return found
		}
	}
	return -1
}

func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

var aroundLabel = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:(?:option|choice|answer)[ _:]*)?[(\[]*([A-Za-z0-9]{1,2})[)\].:]*$`)
})

// named reports whether an expected answer is a label, alone, in brackets, after a word
// such as Option, or before the text of its choice.
func named(want, label, text string) bool {
	if strings.EqualFold(want, label) {
		return true
	}
	if part := aroundLabel().FindStringSubmatch(want); part != nil {
		return strings.EqualFold(part[1], label)
	}
	for _, between := range []string{") ", ". ", ": ", ")", "."} {
		if fold(want) == fold(label+between+text) || fold(want) == fold("("+label+between+text) {
			return true
		}
	}
	return false
}

// answerKind finds in which way the expected answers of the table name choices. It is one
// way for all rows: 3 may be the choice 3, the third and the fourth.
func (t *Table) answerKind(m *Mapping) error {
	if m.AnswerIs != "" || m.Expected == "" {
		return nil
	}
	places := map[string][]int{}
	rows, numbers := 0, true
	for i := range t.Rows {
		r := &t.Rows[i]
		expected := r.expected(m)
		list, err := r.options(m)
		if err != nil || len(list) == 0 || textOf(expected) == "" {
			continue
		}
		rows++
		if _, isNumber := expected.(json.Number); !isNumber {
			numbers = false
		}
		for _, kind := range AnswerKinds() {
			places[kind] = append(places[kind], place(kind, list, expected))
		}
	}
	if rows == 0 {
		return nil
	}
	fits, most := map[string]int{}, 0
	for kind, list := range places {
		for _, at := range list {
			if at >= 0 {
				fits[kind]++
			}
		}
		most = max(most, fits[kind])
	}
	order := []string{byLabel, byLetter, byText, from0, from1}
	if name := strings.ToLower(m.Expected); numbers || strings.Contains(name, "idx") || strings.Contains(name, "index") || name == "label" || name == "cop" {
		order = []string{byLabel, byLetter, from0, from1, byText}
	}
	kinds := slices.DeleteFunc(order, func(kind string) bool { return most == 0 || fits[kind] < most })
	if len(kinds) == 0 {
		return nil // each row says that its answer is not one of the choices
	}
	m.AnswerIs = kinds[0]
	if m.AnswerIs == byLabel || m.AnswerIs == byText {
		return nil // the data itself says so, word for word
	}
	for _, other := range kinds[1:] {
		if !slices.Equal(places[other], places[m.AnswerIs]) {
			return refusal.Newf(refusal.Usage, "%s: the column %q names choices by %s or by %s, and which is not clear: all rows fit both, and the right choices would be others", t.Source, m.Expected, answerWords[m.AnswerIs], answerWords[other]).
				WithHint("say it with --answer-is %s, or --answer-is %s", m.AnswerIs, other)
		}
	}
	return nil
}

var answerWords = map[string]string{byLetter: "their letter", byText: "their text", from0: "their place from 0", from1: "their place from 1"}

// Words that answer a question with two or three answers.
var fewAnswers = [][]string{{"no", "yes"}, {"false", "true"}, {"maybe", "no", "yes"}}

// labelNames are columns whose few values are classes.
var labelNames = []string{"label", "labels", "class", "category", "sentiment", "intent", "verdict"}

// guessLabels finds out whether the expected answers are a few that repeat, such as yes
// and no, or the classes of a classification. They are choices, although no column lists
// them: an answer that names all of them must not pass.
func (t *Table) guessLabels(m *Mapping) {
	seen, rows := map[string]string{}, 0
	for _, r := range t.Rows {
		v := r.expected(m)
		if v == nil || textOf(v) == "" {
			continue
		}
		// Letters are those of choices that the question has in it.
		letter := one(textOf(v)) != "" && !isNumber(v)
		if _, isList := v.([]any); isList || letter || len(textOf(v)) > 40 || len(seen) > len(letters) {
			return
		}
		rows++
		if key := fold(textOf(v)); seen[key] == "" {
			seen[key] = strings.TrimSpace(textOf(v))
		}
	}
	var keys, texts []string
	for key, text := range seen {
		keys, texts = append(keys, key), append(texts, text)
	}
	slices.Sort(keys)
	slices.Sort(texts)
	for _, few := range fewAnswers {
		if len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(few, k) }) {
			m.Labels = few
			return
		}
	}
	isLabel := slices.ContainsFunc(labelNames, func(name string) bool { return strings.EqualFold(m.Expected, name) })
	isNumbers := !slices.ContainsFunc(texts, func(s string) bool { return !isNumber(s) })
	repeat := rows >= 2*len(texts) && (isLabel || rows >= 10 && rows >= 4*len(texts) && !isNumbers)
	if len(texts) > 1 && len(texts) <= len(letters) && repeat {
		m.Labels = texts
	}
}
