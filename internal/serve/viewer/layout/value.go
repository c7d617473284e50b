package layout

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"

	"tallystick/internal/share/browser"
)

// A Cell says where a value comes from and how it becomes text, so that a script can
// make the text again: docs/viewer.md.
type Cell struct {
	Entry int64          // index in the ledger
	Blob  string         // JSON pointer into the entry to the digest of a blob that has the value; "" if the entry has it
	Field string         // JSON pointer to the value
	As    browser.Format // how it becomes text
	Class string         // in the stylesheet
}

// HTML is the element that shows a text.
func (c Cell) HTML(text string) template.HTML {
	var b strings.Builder
	b.WriteString("<span")
	attribute := func(name, value string) {
		b.WriteString(" " + name + `="` + template.HTMLEscapeString(value) + `"`)
	}
	if c.Class != "" {
		attribute("class", c.Class)
	}
	attribute("data-entry", strconv.FormatInt(c.Entry, 10))
	if c.Blob != "" {
		attribute("data-blob", c.Blob)
	}
	attribute("data-field", c.Field)
	attribute("data-as", string(c.As))
	b.WriteString(">" + template.HTMLEscapeString(text) + "</span>")
	return template.HTML(b.String())
}

// Decode reads JSON and keeps numbers as they are spelled.
func Decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// At follows a JSON pointer (RFC 6901); false if there is nothing.
func At(v any, pointer string) (any, bool) {
	for pointer != "" {
		name, rest, _ := strings.Cut(pointer[1:], "/")
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch x := v.(type) {
		case map[string]any:
			value, ok := x[name]
			if !ok {
				return nil, false
			}
			v = value
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
		if rest == "" {
			return v, v != nil
		}
		pointer = "/" + rest
	}
	return v, v != nil
}

// Shown is the text of a value that a JSON pointer finds.
func Shown(v any, pointer string, as browser.Format) (string, bool) {
	value, ok := At(v, pointer)
	if !ok {
		return "", false
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "", false
	}
	text, err := as.Show(raw)
	return text, err == nil
}
