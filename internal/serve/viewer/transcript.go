package viewer

import (
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

type outlineOf = trajectory.Outlined

// eventsInWindow is how many events a page has; maxEvents how many are sent as
// lines at once.
const (
	eventsInWindow = 200
	maxEvents      = 1000
)

// A transcript is a window of a case's trajectory and the outline of all of it.
type transcript struct {
	Address  string // of the events' lines
	Head     string
	Events   []event
	From, To int
	Len      int
	Bytes    int64
	Turns    []turn
	Skipped  int // turns that the outline leaves out
	Before   string
	After    string
	Timeline template.HTML
	Checking bool // it is not verified yet
	Trouble  int  // the first event that failed or was denied; 0 if none did
	Kinds    []stateTab
	Kind     string // of the events that are listed; "" for all

	here func(seq int) string // address of the window from an event on
}

// A turn is one line of the outline.
type turn struct {
	N, Seq    int
	URL       string
	Model     int
	Tools     []string // that were executed; else those that were only seen
	MoreTools int
	executed  bool
	Denied    int
	Failed    int
	InWindow  bool
	Items     []link // what is in it, where that is told
}

// newTranscript makes the window that begins at an event. page is the address of the tab,
// base that of the case.
func newTranscript(t *dossier.Transcript, page, base string, q url.Values) (*transcript, [][]byte, error) {
	from := min(fromOf(q), max(1, t.Len()))
	lines, err := t.Lines(from, eventsInWindow)
	if err != nil {
		return nil, nil, err
	}
	out := &transcript{Head: t.File.Head.String(), From: from, Len: t.Len(), Bytes: t.Bytes}
	if err := out.window(lines, func(i int) outlineOf { return t.Outline.At(from - 1 + i) }, page, base, q); err != nil {
		return nil, nil, err
	}
	out.outline(t.Outline.All(), 1)
	out.Timeline = timeline(&t.Outline, out.From, out.To)
	seq := 0
	for e := range t.Outline.All() {
		if seq++; (e.Denied || e.Failed) && out.Trouble == 0 {
			out.Trouble = seq
		}
	}
	return out, lines, nil
}

// beingChecked makes the same window of a transcript that is not verified yet. It has
// the outline of its own events only.
func beingChecked(o *dossier.OpenTranscript, page, base string, q url.Values) (*transcript, *trajectory.Peeked, error) {
	p, err := o.Peek(fromOf(q), eventsInWindow)
	if err != nil {
		return nil, nil, err
	}
	out := &transcript{Head: o.File.Head.String(), From: p.From, Len: p.Total, Bytes: o.Bytes, Checking: true}
	if err := out.window(p.Lines, func(i int) outlineOf { return p.Outline[i] }, page, base, q); err != nil {
		return nil, nil, err
	}
	out.outline(slices.Values(p.Outline), p.From)
	return out, p, nil
}

// fromOf is the event that an address asks for.
func fromOf(q url.Values) int {
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil || from < 1 {
		return 1
	}
	return from
}

// window adds the events of lines, and the addresses of the windows around them.
func (s *transcript) window(lines [][]byte, outline func(int) outlineOf, page, base string, q url.Values) error {
	s.Address = base + "/events" + with(url.Values{}, "repeat", q.Get("repeat"))
	for i, line := range lines {
		e, err := newEvent(s.From+i, line, outline(i))
		if err != nil {
			return err
		}
		s.Events = append(s.Events, e)
	}
	s.To = s.From + len(lines) - 1
	s.here = func(seq int) string { return page + with(q, "from", strconv.Itoa(max(seq, 1)), "kind", "") }
	if s.From > 1 {
		s.Before = s.here(s.From - eventsInWindow)
	}
	if s.To < s.Len {
		s.After = s.here(s.To + 1)
	}
	s.filter(page, q)
	return nil
}

// filter leaves the events of one kind, if the address asks for it, and says how many of
// each kind there are in this part.
func (s *transcript) filter(page string, q url.Values) {
	counts := map[string]int{}
	for i := range s.Events {
		counts[laneOf(s.Events[i].Type)]++
	}
	s.Kinds = []stateTab{{"All", page + with(q, "kind", ""), len(s.Events), true}}
	for _, name := range append(slices.Clone(laneNames), otherLane) {
		if counts[name] > 0 {
			current := q.Get("kind") == name
			s.Kinds = append(s.Kinds, stateTab{strings.ToUpper(name[:1]) + name[1:], page + with(q, "kind", name), counts[name], current})
			if current {
				s.Kind, s.Kinds[0].Current = name, false
			}
		}
	}
	if s.Kind != "" {
		s.Events = slices.DeleteFunc(s.Events, func(e event) bool { return laneOf(e.Type) != s.Kind })
	}
}

// maxTurns bounds the outline: those around the window are shown.
const maxTurns = 120

// outline lists the turns around the window, with what was done in each. seq is the
// number of the first event that is given.
func (s *transcript) outline(all iter.Seq[outlineOf], seq int) {
	var turns []turn
	first := 0 // of the turns that are listed, the one that the window begins in
	for e := range all {
		if len(turns) == 0 || int(e.Turn) != turns[len(turns)-1].N {
			turns = append(turns, turn{N: int(e.Turn), Seq: seq})
		}
		t := &turns[len(turns)-1]
		t.add(e)
		if seq >= s.From && seq <= s.To {
			t.InWindow = true
		}
		if seq == s.From {
			first = len(turns) - 1
		}
		seq++
	}
	from := max(0, min(first-maxTurns/2, len(turns)-maxTurns))
	to := min(len(turns), from+maxTurns)
	s.Skipped, s.Turns = len(turns)-(to-from), turns[from:to]
	for i := range s.Turns {
		t := &s.Turns[i]
		if t.URL = "#e" + strconv.Itoa(t.Seq); t.Seq < s.From || t.Seq > s.To {
			t.URL = s.here(t.Seq) + t.URL
		}
	}
}

const maxToolsOfTurn = 6

func (t *turn) add(e outlineOf) {
	switch {
	case e.Denied:
		t.Denied++
	case e.Failed:
		t.Failed++
	}
	switch e.Type {
	case trajectory.ModelCallCompletedType:
		t.Model++
	case trajectory.ToolExecutedType, trajectory.ToolObservedType:
		executed := e.Type == trajectory.ToolExecutedType
		if executed && !t.executed {
			t.Tools, t.MoreTools, t.executed = nil, 0, true
		}
		if t.executed && !executed {
			return
		}
		if len(t.Tools) < maxToolsOfTurn {
			t.Tools = append(t.Tools, e.Subject)
		} else {
			t.MoreTools++
		}
	}
}

// timeline draws when what happened: a row for each kind, with the window marked.
func timeline(all *trajectory.Outline, from, to int) template.HTML {
	const left, width, row, columnsOf = 56, 540, 14, 270
	if all.Len() == 0 {
		return ""
	}
	span := max(all.At(all.Len()-1).AtMS, 1)
	by := map[string]*[columnsOf]int{}
	for _, name := range laneNames {
		by[name] = new([columnsOf]int)
	}
	for e := range all.All() {
		if lane := lanes[e.Type]; lane != "" {
			mark := 1
			if e.Denied || e.Failed {
				mark = 2
			}
			cell := &by[lane][int(e.AtMS*(columnsOf-1)/span)]
			*cell = max(*cell, mark)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="timeline" viewBox="0 0 %d %d" role="img" aria-label="When what happened, over %s since the case began; the events have the times">`, left+width+4, row*len(laneNames)+18, took(span))
	x := func(ms int64) float64 { return left + float64(ms)*width/float64(span) }
	start := x(all.At(from - 1).AtMS)
	fmt.Fprintf(&b, `<rect class="window" x="%.1f" y="0" width="%.1f" height="%d"/>`, start, max(x(all.At(max(to, from)-1).AtMS)-start, 1), row*len(laneNames))
	for i, name := range laneNames {
		fmt.Fprintf(&b, `<text class="tick y" x="%d" y="%d">%s</text>`, left-8, i*row+11, name)
		for k, mark := range by[name] {
			if mark > 0 {
				fmt.Fprintf(&b, `<rect class="mark%d" x="%d" y="%d" width="2" height="%d"/>`, mark, left+k*2, i*row+2, row-4)
			}
		}
	}
	fmt.Fprintf(&b, `<text class="tick" x="%d" y="%d">0</text><text class="tick y" x="%d" y="%d">%s</text></svg>`, left, row*len(laneNames)+13, left+width, row*len(laneNames)+13, took(span))
	return template.HTML(b.String())
}

// events sends the lines of events as they were hashed.
func (v *Viewer) events(w http.ResponseWriter, req *http.Request) {
	lines, err := v.eventLines(req)
	if err != nil {
		p := failed(err)
		refuse(w, p.Status, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, line := range lines {
		w.Write(append(line, '\n'))
	}
}

// eventLines are what an address asks for. Only what was verified is given, so it waits
// for that; other pages are answered meanwhile.
func (v *Viewer) eventLines(req *http.Request) ([][]byte, error) {
	q := req.URL.Query()
	from, n := 1, eventsInWindow
	for name, at := range map[string]*int{"from": &from, "n": &n} {
		if s := q.Get(name); s != "" {
			var err error
			if *at, err = strconv.Atoi(s); err != nil || *at < 1 {
				return nil, refusal.Newf(refusal.Usage, "%s is %q, expected a number from 1", name, s)
			}
		}
	}
	s, err := v.beginFor(req)
	if err != nil {
		return nil, err
	}
	if err := waitFor(req.Context(), s); err != nil {
		return nil, err
	}
	leave, err := v.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	t, err := v.settle(s)
	if err != nil {
		return nil, err
	}
	return t.Lines(from, min(n, maxEvents))
}

// beginFor is begin for the case of an address.
func (v *Viewer) beginFor(req *http.Request) (*script, error) {
	leave, err := v.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	c, err := v.lookUpCase(req)
	if err != nil {
		return nil, err
	}
	return v.begin(c)
}

// A windowLinks leads to the parts of a transcript around the one that is shown. It stands
// above that and below it, and each place has a name of its own.
type windowLinks struct {
	*transcript
	Place string
}

// Above are the links that stand above the part, and Below those below it.
func (s *transcript) Above() windowLinks { return windowLinks{s, "above"} }

// Below are the links that stand below the part.
func (s *transcript) Below() windowLinks { return windowLinks{s, "below"} }
