package tools

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

const (
	// MaxResultBytes is what an agent gets of one result.
	MaxResultBytes = 256 << 10

	// maxErrorBytes is what an event holds of an error.
	maxErrorBytes = 4 << 10

	// maxTextInResult is what remains of a text in a result that is too large.
	maxTextInResult = MaxResultBytes / 4
)

// hidden counts invisible characters, by character.
type hidden map[rune]int

// strip returns s without its hidden characters: those that are invisible, and
// controls other than tab and line ends.
func (h *hidden) strip(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if !isHidden(r) {
			return r
		}
		if *h == nil {
			*h = hidden{}
		}
		(*h)[r]++
		return -1
	}, s)
}

func isHidden(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0:
		return true
	}
	return plain.Invisible(r)
}

// isPlain reports whether s is ASCII without controls, which most text is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// findings says what was removed, and from what. Joiners and variation
// selectors stand in ordinary text too: in emoji, and in Persian and Indian
// words. Everything else has no business there.
func (h hidden) findings(from string) []Finding {
	if len(h) == 0 {
		return nil
	}
	chars := make([]rune, 0, len(h))
	severity, total := evidence.Info, 0
	for r, n := range h {
		chars = append(chars, r)
		total += n
		if r != 0x200c && r != 0x200d && r != 0xfe0e && r != 0xfe0f {
			severity = evidence.Warn
		}
	}
	sort.Slice(chars, func(i, j int) bool {
		return h[chars[i]] > h[chars[j]] || h[chars[i]] == h[chars[j]] && chars[i] < chars[j]
	})
	var words []string
	for i, r := range chars {
		if i == 8 {
			words = append(words, fmt.Sprintf("%d others", len(chars)-i))
			break
		}
		words = append(words, fmt.Sprintf("%U %d times", r, h[r]))
	}
	return []Finding{{HiddenCharacters, fmt.Sprintf("removed %d hidden characters from %s: %s", total, from, strings.Join(words, ", ")), severity}}
}

// value cleans the texts of a value; the value given stays as it is. Two names
// of an object that become one are an error.
func (h *hidden) value(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return h.strip(v), nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = h.value(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, name := range sortedKeys(v) {
			clean := h.strip(name)
			if _, twice := object[clean]; twice {
				return nil, fmt.Errorf("two names differ only in characters that nobody sees: %.80q", clean)
			}
			var err error
			if object[clean], err = h.value(v[name]); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}

// checkVisibleNames refuses a schema in which a member has a name that cannot
// be seen: the model could not write it, and a person could not read it.
func checkVisibleNames(doc []byte) error {
	var v any
	if err := canon.Unmarshal(doc, &v); err != nil {
		return err
	}
	return visibleNames(v)
}

func visibleNames(v any) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := visibleNames(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if strings.ContainsFunc(name, isHidden) {
				return fmt.Errorf("the name %s has invisible characters", plain.Line(cut(name, 80)))
			}
			if err := visibleNames(v[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// show makes the definition that the model sees.
func (t *tool) show() {
	d := t.def
	d.Replies, d.Default, d.State = nil, nil, nil
	what := "the tool " + d.Name

	var h hidden
	d.Description = h.strip(strings.ToValidUTF8(d.Description, "\ufffd"))
	t.findings = append(t.findings, h.findings("the description of "+what)...)
	if n := len(d.Description); n > maxDescription {
		d.Description = cut(d.Description, maxDescription)
		t.findings = append(t.findings, Finding{OversizeDescription, fmt.Sprintf("cut the description of %s from %d to %d bytes", what, n, len(d.Description)), evidence.Warn})
	}
	if server := t.server(); server != "" {
		d.Description = strings.TrimSpace(fmt.Sprintf("[from untrusted MCP server: %s] %s", server, d.Description))
	}
	if t.schema != nil {
		d.Schema = t.showSchema(what)
	}
	t.shown = d
}

// showSchema cleans the texts of the schema, in which descriptions hide as
// well. Arguments are checked against the schema as it came.
func (t *tool) showSchema(what string) canon.RawMessage {
	var v any
	var h hidden
	// It was decoded before, and its names are visible.
	if err := canon.Unmarshal(t.def.Schema, &v); err != nil {
		panic("tools: a schema that was compiled does not decode: " + err.Error())
	}
	clean, err := h.value(v)
	if err != nil {
		panic("tools: a schema with visible names cannot be cleaned: " + err.Error())
	}
	if ignored := t.schema.Ignored(); ignored != nil {
		t.findings = append(t.findings, Finding{SchemaKeywordIgnored,
			plain.Line(cut(fmt.Sprintf("arguments of %s are not checked against: %s", what, strings.Join(ignored, ", ")), 1000)), evidence.Info})
	}
	if h == nil {
		return t.def.Schema
	}
	t.findings = append(t.findings, h.findings("the schema of "+what)...)
	text, err := canon.Marshal(clean)
	if err != nil {
		panic("tools: a cleaned schema does not encode: " + err.Error())
	}
	return text
}

// cut shortens s to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Label is the trust of the tool's description, as tool_proposed has it: pinned
// for what the bench wrote, untrusted for what came from outside, imported for
// what a recording holds, internal for what this program does itself.
func (d *Definition) Label() string {
	switch {
	case d.Trust == Outside || strings.HasPrefix(d.Source, MCPPrefix):
		return "untrusted"
	case d.Source == Cassette:
		return "imported"
	case d.Source == Folder:
		return "internal"
	}
	return "pinned"
}

// Admit makes a result of what a tool has answered: canonical, of a bounded
// size, and, if it comes from outside, without hidden characters. Value is JSON
// or nil, failure is the text of an error or "". It is exported for tools that
// answer live.
func (d *Definition) Admit(source string, value []byte, failure string) Result {
	var v any
	if value != nil {
		if err := canon.Unmarshal(value, &v); err != nil {
			failure = "the tool's answer is not JSON that can be read: " + err.Error()
			value = nil
		}
	}
	return d.admit(source, v, value != nil, failure)
}

func (d *Definition) admit(source string, v any, there bool, failure string) Result {
	r := Result{Source: source, Trust: d.Label()}
	what := "the result of the tool " + d.Name
	var h hidden
	failure = strings.ToValidUTF8(failure, "\ufffd")
	if r.Trust == "untrusted" {
		failure = h.strip(failure)
		clean, err := h.value(v)
		if err != nil {
			clean, there, failure = nil, false, "the tool's answer cannot be used: "+err.Error()
		}
		v = clean
		r.Findings = h.findings(what)
	}
	if n := len(failure); n > maxErrorBytes {
		failure = cut(failure, maxErrorBytes)
		r.Findings = append(r.Findings, oversize("the error of the tool "+d.Name, n, len(failure)))
	}
	r.Error = failure
	if !there {
		return r
	}
	text, err := canon.Marshal(v)
	if err != nil {
		r.Error = "the tool's answer cannot be written: " + err.Error()
		return r
	}
	if n := len(text); n > MaxResultBytes {
		text = shorten(v, text)
		r.Findings = append(r.Findings, oversize(what, n, len(text)))
	}
	r.JSON = text
	return r
}

func oversize(what string, from, to int) Finding {
	return Finding{OversizeResult, fmt.Sprintf("cut %s from %d to %d bytes", what, from, to), evidence.Warn}
}

// shorten makes a value small enough: by cutting its long texts, or, if that is
// not enough, by giving the beginning of its JSON as a text.
func shorten(v any, text []byte) []byte {
	short, err := canon.Marshal(cutTexts(v))
	if err == nil && len(short) <= MaxResultBytes {
		return short
	}
	// Escaping can make a text six times as long as it was.
	for n := MaxResultBytes / 2; ; n /= 2 {
		short, err = canon.Marshal(map[string]any{"bytes": float64(len(text)), "cut": true, "head": cut(string(text), n)})
		if err == nil && len(short) <= MaxResultBytes {
			return short
		}
	}
}

func cutTexts(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) <= maxTextInResult {
			return v
		}
		head := cut(v, maxTextInResult/2)
		return fmt.Sprintf("%s\n[cut: %d more bytes]", head, len(v)-len(head))
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = cutTexts(v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name := range v {
			object[name] = cutTexts(v[name])
		}
		return object
	}
	return v
}
