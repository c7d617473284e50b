package viewer

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// An aligned is a case in both attempts: their transcripts beside each other from the
// beginning to the end, what is alike folded.
type aligned struct {
	Case    string
	A, B    alignedSide
	Changes int
	Same    bool
	Cut     string // what is not shown
	Note    string // why nothing is
}

// An alignedSide is one of the two, with where the whole transcript is, so that a browser
// can follow its chain. Both have as many rows.
type alignedSide struct {
	Rows           []alignedRow
	Address, Index string
	Entry          int64
	Head           string
	Len            int
}

// HasEvents reports whether an event of it is shown, so that a browser has something to
// compare.
func (s alignedSide) HasEvents() bool {
	return slices.ContainsFunc(s.Rows, func(r alignedRow) bool { return r.Event != nil })
}

// An alignedRow is an event, a place where only the other side has one, or a stretch that
// both have alike.
type alignedRow struct {
	Event  *alignedEvent
	Folded []alignedEvent
	First  bool // of a change
}

// An alignedEvent is an event with what differs from the other side's.
type alignedEvent struct {
	Seq, Turn      int
	Title, Subject string
	Bad            bool
	Members        []alignedMember
}

// An alignedMember is a value of an event; what differs in it is marked.
type alignedMember struct {
	Name  string
	Value template.HTML
	Block bool
}

// Bounds of what is aligned for a page.
const (
	maxAligned   = 4000 // events of each
	maxUnequal   = 300  // events of each that are shown
	maxInFold    = 200  // events that a fold lists
	maxMemberLen = 16 << 10
)

func newAlignedSide(a *history.Attempt, c *history.Case, t *dossier.Transcript) alignedSide {
	base := address("attempt", a.ID, "case", c.ID)
	repeat := with(url.Values{}, "repeat", strconv.Itoa(int(c.Repeat)))
	return alignedSide{Address: base + "/events" + repeat, Index: base + "/piece/" + c.Evidence[0].String() + repeat, Entry: c.Index, Head: t.File.Head.String(), Len: t.Len()}
}

// side aligns the transcripts of a case.
func (v *Viewer) side(a, b *history.Attempt, id string) (*aligned, error) {
	ca, cb := recordOf(a, id), recordOf(b, id)
	if ca == nil || cb == nil {
		return nil, refusal.Newf(refusal.UnknownName, "case %q is not in both attempts", id)
	}
	s := &aligned{Case: id}
	ta, err := v.script(v.r.Dossier(a).Case(ca))
	var tb *dossier.Transcript
	if err == nil {
		tb, err = v.script(v.r.Dossier(b).Case(cb))
	}
	if err != nil {
		if refusal.ExitCode(err) == refusal.ExitUnverified {
			return nil, err
		}
		s.Note = err.Error()
		return s, nil
	}
	s.A, s.B = newAlignedSide(a, ca, ta), newAlignedSide(b, cb, tb)
	return s, s.fill(ta, tb)
}

// fill aligns the events by what they say.
func (s *aligned) fill(ta, tb *dossier.Transcript) error {
	la, err := ta.Lines(1, maxAligned)
	if err != nil {
		return err
	}
	lb, err := tb.Lines(1, maxAligned)
	if err != nil {
		return err
	}
	if ta.Len() > len(la) || tb.Len() > len(lb) {
		s.Cut = fmt.Sprintf("The first %d events of each are compared.", maxAligned)
	}
	a, b := readings(la, ta), readings(lb, tb)
	shown := 0
	for _, r := range difference.Runs(gists(a), gists(b)) {
		if r.Equal {
			if err := s.fold(a[r.A.From:r.A.To], b[r.B.From:r.B.To]); err != nil {
				return err
			}
			continue
		}
		s.Changes++
		if shown += r.A.Len() + r.B.Len(); shown > maxUnequal {
			s.Cut = fmt.Sprintf("After %d events that differ the rest is left out; the pages of the two cases have all of it.", maxUnequal)
			break
		}
		if err := s.change(a[r.A.From:r.A.To], b[r.B.From:r.B.To]); err != nil {
			return err
		}
	}
	s.Same = s.Changes == 0
	return nil
}

// A reading is an event's line with what the outline says of it.
type reading struct {
	seq  int
	line []byte
	o    outlineOf
}

func readings(lines [][]byte, t *dossier.Transcript) []reading {
	out := make([]reading, len(lines))
	for i, line := range lines {
		out[i] = reading{i + 1, line, t.Outline.At(i)}
	}
	return out
}

// noise are members of a payload that differ from run to run by themselves.
var noise = map[string]bool{"latency_ms": true, "attempt": true, "execution": true, "repeat": true, "call": true, "id": true, "request": true, "target": true, "policy": true, "policy_short": true,
	"tokens_in": true, "tokens_out": true, "cost_microdollars": true}

func gists(all []reading) []string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = gist(r.line)
	}
	return out
}

// gist is what of an event does not differ from run to run by itself.
func gist(line []byte) string {
	var e struct {
		Type    trajectory.Type `json:"type"`
		Turn    int             `json:"turn"`
		Payload map[string]any  `json:"payload"`
	}
	if json.Unmarshal(line, &e) != nil {
		return string(line)
	}
	maps.DeleteFunc(e.Payload, func(name string, _ any) bool { return noise[name] })
	text, _ := json.Marshal(e)
	return string(text)
}

// fold adds a stretch that both have alike. One event alone takes no more room as it is.
func (s *aligned) fold(a, b []reading) error {
	for _, half := range []struct {
		side *alignedSide
		all  []reading
	}{{&s.A, a}, {&s.B, b}} {
		row := alignedRow{}
		for _, r := range half.all[:min(len(half.all), maxInFold)] {
			e, err := newAlignedEvent(r, nil, 0)
			if err != nil {
				return err
			}
			e.Members = nil
			row.Folded = append(row.Folded, *e)
		}
		half.side.Rows = append(half.side.Rows, row)
	}
	return nil
}

// change adds a stretch that differs. Events of one type and subject, in their order, stand
// beside each other.
func (s *aligned) change(a, b []reading) error {
	about := func(all []reading) []string {
		out := make([]string, len(all))
		for i, r := range all {
			out[i] = string(r.o.Type) + " " + r.o.Subject
		}
		return out
	}
	first := true
	add := func(x, y *reading) error {
		var left, right alignedRow
		var err error
		if x != nil {
			if left.Event, err = newAlignedEvent(*x, y, difference.Removed); err != nil {
				return err
			}
		}
		if y != nil {
			if right.Event, err = newAlignedEvent(*y, x, difference.Added); err != nil {
				return err
			}
		}
		left.First, right.First, first = first, first, false
		s.A.Rows, s.B.Rows = append(s.A.Rows, left), append(s.B.Rows, right)
		return nil
	}
	for _, r := range difference.Runs(about(a), about(b)) {
		n := max(r.A.Len(), r.B.Len())
		for i := range n {
			var x, y *reading
			if i < r.A.Len() {
				x = &a[r.A.From+i]
			}
			if i < r.B.Len() {
				y = &b[r.B.From+i]
			}
			if x != nil && y != nil && !r.Equal && x.o.Type != y.o.Type { // neither is the other's
				if err := add(x, nil); err != nil {
					return err
				}
				x = nil
			}
			if err := add(x, y); err != nil {
				return err
			}
		}
	}
	return nil
}

// newAlignedEvent shows an event beside another one: of the values that both have, those
// that differ.
func newAlignedEvent(r reading, other *reading, own difference.Kind) (*alignedEvent, error) {
	doc, err := decode(r.line)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", r.seq, err)
	}
	e := &alignedEvent{Seq: r.seq, Turn: int(r.o.Turn), Title: titles[r.o.Type], Subject: r.o.Subject, Bad: r.o.Denied || r.o.Failed}
	if e.Title == "" {
		e.Title = string(r.o.Type)
	}
	var there any
	if other != nil {
		if there, err = decode(other.line); err != nil {
			return nil, fmt.Errorf("event %d: %w", other.seq, err)
		}
	}
	for _, pointer := range leafPointers(doc, "/payload", nil) {
		if m, ok := newAlignedMember(doc, there, pointer, own); ok {
			e.Members = append(e.Members, m)
		}
	}
	return e, nil
}

// leafPointers are where the values of a document stand that are no objects and no lists.
func leafPointers(doc any, pointer string, into []string) []string {
	v, _ := at(doc, pointer)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if pointer == "/payload" && noise[name] {
				continue
			}
			into = leafPointers(doc, pointer+"/"+escapePointer(name), into)
		}
		return into
	case []any:
		for i := range v {
			into = leafPointers(doc, fmt.Sprintf("%s/%d", pointer, i), into)
		}
		return into
	}
	return append(into, pointer)
}

// newAlignedMember shows a value, unless the other side has the same.
func newAlignedMember(doc, there any, pointer string, own difference.Kind) (alignedMember, bool) {
	value, _ := at(doc, pointer)
	as := Format(AsText)
	if _, isBool := value.(bool); isBool {
		as = "bool"
	}
	text, ok := shown(doc, pointer, as)
	if !ok {
		return alignedMember{}, false
	}
	m := alignedMember{Name: memberName(pointer), Block: len(text) > 60}
	html := template.HTML(template.HTMLEscapeString(text))
	if there != nil {
		was, has := shown(there, pointer, as)
		if has && was == text || m.Name == "" {
			return alignedMember{}, false
		}
		if has && len(was) <= maxMemberLen && len(text) <= maxMemberLen {
			html = between(text, was, own)
		}
	} else if m.Name == "" {
		return alignedMember{}, false
	}
	m.Value = template.HTML(`<span data-field="` + template.HTMLEscapeString(pointer) + `" data-as="` + string(as) + `">` + string(html) + `</span>`)
	return m, true
}

// between marks what of a text the other one does not have. Both were made visible.
func between(text, other string, own difference.Kind) template.HTML {
	as := func(s string) string { return s }
	if own == difference.Removed {
		return difference.Words(text, other).HTMLOf(own, as)
	}
	return difference.Words(other, text).HTMLOf(own, as)
}

// memberName is what a value is called; "" of what few people look at.
func memberName(pointer string) string {
	parts := slices.DeleteFunc(splitPointer(pointer), func(s string) bool {
		return s == "payload" || s == "head" || s == "values" || s == "args"
	})
	if len(parts) == 0 {
		return "text"
	}
	switch last := parts[len(parts)-1]; last {
	case "digest", "bytes", "lossy", "truncated", "redacted":
		return ""
	}
	name := ""
	for _, p := range parts {
		if name != "" {
			name += " "
		}
		name += words(p)
	}
	return name
}

func splitPointer(pointer string) []string {
	var parts []string
	for p := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		parts = append(parts, strings.NewReplacer("~1", "/", "~0", "~").Replace(p))
	}
	return parts
}
