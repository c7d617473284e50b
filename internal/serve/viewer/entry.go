package viewer

import (
	"html/template"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/serve/viewer/layout"
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

func newEntry(index int64, e dossier.Entry) (*entry, error) {
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

func decode(data []byte) (any, error) { return layout.Decode(data) }

func at(v any, pointer string) (any, bool) { return layout.At(v, pointer) }

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
		text, class = none, "none" // that there is none can be checked too
	} else if as == AsOutcome {
		class = "state " + stateClass(evidence.Outcome(value.(string)))
	}
	return layout.Cell{Entry: e.Index, Field: pointer, As: as, Class: class}.HTML(text)
}

// Same shows a text that the page computed. If the entry gives the same text, it names
// the entry, so that the browser can compute it too; if it does not, as after a
// correction, the text stands for itself.
func (e *entry) Same(pointer string, as Format, text string) template.HTML {
	if e != nil {
		if own, ok := shown(e.body, pointer, as); ok && own == text {
			return e.Val(pointer, as)
		}
	}
	return template.HTML(template.HTMLEscapeString(text))
}

func shown(v any, pointer string, as Format) (string, bool) { return layout.Shown(v, pointer, as) }
