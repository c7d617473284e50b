package viewer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

type compareData struct {
	A, B     string
	Attempts []string // to choose from
	*scorecard.Comparison
	Apart bool   // they are of benches that differ
	Open  string // one of them was not answered, so nothing can be compared
	Rows  []compareRow
	Pager pager
	Side  *sideBySide // of the case that was chosen
}

type compareRow struct {
	scorecard.ChangeRow
	URL, AURL, BURL string
}

// sideBySide is a case in both attempts, where the two part.
type sideBySide struct {
	Case       string
	Divergence string
	At         int // the first event that differs, from 1; 0 if none does
	A, B       sideEvents
	Words      []change // of the first prompts that differ
	Note       string
}

// sideEvents are events of one of the two, with where the whole transcript is, so that a
// browser can follow its chain.
type sideEvents struct {
	Events         []event
	Address, Index string
	Entry          int64
	Head           string
	Len            int
}

func newSideEvents(a *history.Attempt, c *history.Case, t *dossier.Transcript) sideEvents {
	base := address("attempt", a.ID, "case", c.ID)
	repeat := with(url.Values{}, "repeat", strconv.Itoa(int(c.Repeat)))
	return sideEvents{Address: base + "/events" + repeat, Index: base + "/piece/" + c.Evidence[0].String() + repeat, Entry: c.Index, Head: t.File.Head.String(), Len: t.Len()}
}

// aroundDivergence is how many events before and after the place are shown.
const aroundDivergence = 3

func (v *Viewer) compare(req *http.Request) (*page, error) {
	q := req.URL.Query()
	data := &compareData{A: q.Get("a"), B: q.Get("b")}
	for i := len(v.r.History.Attempts) - 1; i >= 0 && len(data.Attempts) < 200; i-- {
		data.Attempts = append(data.Attempts, v.r.History.Attempts[i].ID)
	}
	p := &page{Title: "Compare", Template: "compare", Section: "Compare", Data: data}
	if data.A == "" || data.B == "" {
		p.Next = []command{{What: "In the terminal", Line: "tally compare A B"}}
		return p, nil
	}
	a, err := v.attemptNamed(data.A)
	if err != nil {
		return nil, err
	}
	b, err := v.attemptNamed(data.B)
	if err != nil {
		return nil, err
	}
	options := scorecard.CompareOptions{AcrossBenches: q.Get("across") == "1", Divergence: v.divergence(a, b), MaxDivergences: 20}
	p.Title = a.ID + " and " + b.ID
	data.Comparison, err = scorecard.Compare(a, b, options)
	if refusal.Is(err, refusal.NotComparable) && !options.AcrossBenches {
		data.Apart, p.Next = true, []command{{What: "Compare the cases that are the same", Line: shell("tally", "compare", a.ID, b.ID, "--across-benches")}}
		return p, nil
	}
	if refusal.Is(err, refusal.NotAnswered) {
		data.Open = err.Error()
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	data.Pager = newPager(q, len(data.Cases), rowsOnPage)
	for _, c := range data.Cases[data.Pager.from:data.Pager.to] {
		data.Rows = append(data.Rows, compareRow{c, with(q, "case", c.CaseID) + "#side", caseURL(a.ID, c.CaseID, 1), caseURL(b.ID, c.CaseID, 1)})
	}
	if id := q.Get("case"); id != "" {
		if data.Side, err = v.side(a, b, id); err != nil {
			return nil, err
		}
	}
	words := []string{"tally", "compare", a.ID, b.ID}
	if options.AcrossBenches {
		words = append(words, "--across-benches")
	}
	p.Next = []command{{What: "The same in the terminal", Line: shell(words...)}}
	return p, nil
}

// divergence tells where two runs of a case part, unless they are too long to be
// compared for a page.
func (v *Viewer) divergence(a, b *history.Attempt) dossier.Parting {
	divergence, _ := v.r.Dossier(b).PartingFrom(v.r.Dossier(a))
	return func(ca, cb *history.Case) (string, error) {
		for _, c := range []*dossier.Case{v.r.Dossier(a).Case(ca), v.r.Dossier(b).Case(cb)} {
			if t, err := v.script(c); err == nil && t.Bytes > maxCompared {
				return "", refusal.Newf(refusal.TooLarge, "the trajectory is too long to be compared for a page")
			}
		}
		return divergence(ca, cb)
	}
}

func (v *Viewer) side(a, b *history.Attempt, id string) (*sideBySide, error) {
	ca, cb := recordOf(a, id), recordOf(b, id)
	if ca == nil || cb == nil {
		return nil, refusal.Newf(refusal.UnknownName, "case %q is not in both attempts", id)
	}
	s := &sideBySide{Case: id}
	ta, err := v.script(v.r.Dossier(a).Case(ca))
	var tb *dossier.Transcript
	if err == nil {
		tb, err = v.script(v.r.Dossier(b).Case(cb))
	}
	if err != nil {
		s.Note = err.Error()
		return s, nil
	}
	if text, err := v.divergence(a, b)(ca, cb); err == nil {
		s.Divergence = text
	}
	s.A, s.B = newSideEvents(a, ca, ta), newSideEvents(b, cb, tb)
	return s, s.fill(ta, tb)
}

func recordOf(a *history.Attempt, id string) *history.Case {
	for c := range a.Cases() {
		if c.ID == id && c.Index >= 0 {
			return c
		}
	}
	return nil
}

// maxSideEvents bounds how far the two are followed.
const maxSideEvents = 2000

// fill finds the first event that says something else, and shows what is around it.
func (s *sideBySide) fill(a, b *dossier.Transcript) error {
	la, err := a.Lines(1, maxSideEvents)
	if err != nil {
		return err
	}
	lb, err := b.Lines(1, maxSideEvents)
	if err != nil {
		return err
	}
	for i := 0; i < max(len(la), len(lb)) && s.At == 0; i++ {
		if i >= len(la) || i >= len(lb) || gist(la[i]) != gist(lb[i]) {
			s.At = i + 1
		}
	}
	if s.At == 0 {
		return nil
	}
	if s.A.Events, err = around(a, la, s.At); err != nil {
		return err
	}
	if s.B.Events, err = around(b, lb, s.At); err != nil {
		return err
	}
	s.Words = firstPromptChange(la, lb)
	return nil
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
	for _, name := range []string{"latency_ms", "attempt", "execution", "repeat", "call", "id", "request", "target", "policy", "policy_short"} {
		delete(e.Payload, name)
	}
	text, _ := json.Marshal(e)
	return string(text)
}

func around(t *dossier.Transcript, lines [][]byte, at int) ([]event, error) {
	var out []event
	for seq := max(1, at-aroundDivergence); seq <= min(len(lines), at+aroundDivergence); seq++ {
		e, err := newEvent(seq, lines[seq-1], t.Outline.At(seq-1))
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// firstPromptChange compares the first prompts of the two that differ, word by word.
func firstPromptChange(a, b [][]byte) []change {
	pa, pb := prompts(a), prompts(b)
	for i := range min(len(pa), len(pb)) {
		if pa[i] != pb[i] {
			return wordDiff(pa[i], pb[i])
		}
	}
	return nil
}

func prompts(lines [][]byte) []string {
	var out []string
	for _, line := range lines {
		var e struct {
			Type    trajectory.Type `json:"type"`
			Payload struct {
				Prompt struct {
					Head string `json:"head"`
				} `json:"prompt"`
			} `json:"payload"`
		}
		if json.Unmarshal(line, &e) == nil && e.Type == trajectory.ModelCallStartedType {
			out = append(out, e.Payload.Prompt.Head)
		}
	}
	return out
}

// AcrossURL compares although the benches differ.
func (d *compareData) AcrossURL() string {
	return "/compare?" + url.Values{"a": {d.A}, "b": {d.B}, "across": {"1"}}.Encode()
}
