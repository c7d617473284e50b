package viewer

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"

	"tallystick/internal/archive"
	"tallystick/internal/evidence"
)

// An entry is one of the verified ledger, of which values are shown.
type entry struct {
	Index int64
	Raw   []byte
	evidence.Envelope

	body any
}

// entries reads entries again, and decodes them.
func (v *Viewer) entries(indexes ...int64) (map[int64]*entry, error) {
	raw, err := v.r.Entries(indexes...)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]*entry, len(raw))
	for i, e := range raw {
		if out[i], err = newEntry(i, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newEntry(index int64, e archive.Entry) (*entry, error) {
	env, err := evidence.SplitEntry(e.Raw)
	if err != nil {
		return nil, err
	}
	out := &entry{Index: index, Raw: e.Raw, Envelope: env}
	out.body, err = decode(env.Body)
	return out, err
}

// entry reads one entry again.
func (v *Viewer) entry(index int64) (*entry, error) {
	all, err := v.entries(index)
	return all[index], err
}

// decode reads JSON and keeps numbers as they are spelled.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// at follows a JSON pointer (RFC 6901); false if there is nothing.
func at(v any, pointer string) (any, bool) {
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

// Has reports whether the entry has a value.
func (e *entry) Has(pointer string) bool {
	if e == nil {
		return false
	}
	_, ok := at(e.body, pointer)
	return ok
}

// Val shows a value of the entry, with where it stands and how it became this
// text, so that the page can be checked.
func (e *entry) Val(pointer string, as Format) template.HTML {
	if e == nil {
		return `<span class="none">` + none + `</span>`
	}
	class := ""
	text, ok := shown(e.body, pointer, as)
	if value, _ := at(e.body, pointer); !ok {
		text, class = none, ` class="none"` // that there is none can be checked too
	} else if as == AsOutcome {
		class = ` class="state ` + stateClass(evidence.Outcome(value.(string))) + `"`
	}
	return template.HTML(`<span` + class + ` data-entry="` + strconv.FormatInt(e.Index, 10) + `" data-field="` + template.HTMLEscapeString(pointer) +
		`" data-as="` + string(as) + `">` + template.HTMLEscapeString(text) + `</span>`)
}

// shown is the text of a value that a JSON pointer finds.
func shown(v any, pointer string, as Format) (string, bool) {
	value, ok := at(v, pointer)
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
