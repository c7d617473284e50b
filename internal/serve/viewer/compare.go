package viewer

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
)

type compareData struct {
	A, B     string
	Attempts []string // to choose from
	Chosen   bool     // by default: the reader named none
	None     bool     // no two attempts can be compared
	*scorecard.Comparison
	Apart  bool   // they are of benches that differ
	Open   string // one of them was not answered, so nothing can be compared
	Causes []causeRow
	// MoreCauses are the groups that are folded.
	MoreCauses []causeRow
	Parts      []partRow
	Rows       []compareRow
	Pager      pager
	Case       string   // that was chosen: its transcripts are aligned
	Side       *aligned // of the case
}

// A causeRow is a group of changed cases.
type causeRow struct {
	answer.Cause
	Named []link
	More  int
}

// A partRow is something of the two attempts that differs.
type partRow struct {
	answer.Part
	Diff template.HTML
	Cut  bool
}

type compareRow struct {
	scorecard.ChangeRow
	ID              string // of the part of the page
	URL, AURL, BURL string
	Said            *answer.Said
	RecordA         *entry
	RecordB         *entry
}

// changesOnPage is how many changed cases a page shows: of each, both answers are read.
const changesOnPage = 25

// maxCausesShown is how many groups stand before what differs; others are folded.
const maxCausesShown = 5

// maxCausesNamed bounds the cases that a cause links to.
const maxCausesNamed = 12

func (v *Viewer) compare(req *http.Request) (*page, error) {
	q := req.URL.Query()
	data := &compareData{A: q.Get("a"), B: q.Get("b")}
	p := &page{Title: "Compare: what changed?", Template: "compare", Section: "Compare", Data: data}
	if data.A == "" && data.B == "" {
		data.Chosen = true
		data.A, data.B = defaultPair(v.r.History.Attempts)
	}
	data.attempts(v.r.History.Attempts)
	if data.A == "" || data.B == "" {
		data.None = data.Chosen
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
	return p, v.fillComparison(p, data, q, a, b)
}

// attempts lists the newest to choose from.
func (d *compareData) attempts(all []*history.Attempt) {
	for i := len(all) - 1; i >= 0 && len(d.Attempts) < 200; i-- {
		d.Attempts = append(d.Attempts, all[i].ID)
	}
	for _, id := range []string{d.B, d.A} { // or the form would name another one
		if id != "" && !slices.Contains(d.Attempts, id) {
			d.Attempts = append(d.Attempts, id)
		}
	}
}

// defaultPair are the attempts that a comparison opens with.
func defaultPair(all []*history.Attempt) (a, b string) {
	x, y := scorecard.LastComparablePair(all, "")
	if x == nil || y == nil {
		return "", ""
	}
	return x.ID, y.ID
}

// fillComparison adds what two attempts are compared to, or why they are not.
func (v *Viewer) fillComparison(p *page, data *compareData, q url.Values, a, b *history.Attempt) error {
	across := q.Get("across") == "1"
	data.A, data.B, p.Title = a.ID, b.ID, "What changed from "+a.ID+" to "+b.ID
	words := []string{"tally", "compare", a.ID, b.ID}
	c, err := v.compared(a, b, across)
	switch {
	case refusal.Is(err, refusal.NotComparable) && !across:
		data.Apart = true
		p.Next = []command{{What: "Compare the cases that are the same", Line: shell(append(words, "--across-benches")...)}}
		return nil
	case refusal.Is(err, refusal.NotAnswered):
		data.Open = err.Error()
		p.Next = []command{{What: "What is still to be answered", Line: shell("tally", "show", notAnswered(a, b))}}
		return nil
	case err != nil:
		return err
	}
	data.Comparison = c.Comparison
	data.parts(c.apart)
	data.Pager = newPager(q, len(data.Cases), changesOnPage)
	data.causes(answer.Causes(c.Comparison, c.apart), q)
	if err := v.compareRows(data, q, a, b); err != nil {
		return err
	}
	if data.Case = q.Get("case"); data.Case != "" {
		if data.Side, err = v.side(a, b, data.Case); err != nil {
			return err
		}
	}
	if across {
		words = append(words, "--across-benches")
	}
	p.Next = []command{{What: "The same in the terminal", Line: shell(words...)}}
	return nil
}

// notAnswered is the attempt that keeps the two from being compared.
func notAnswered(a, b *history.Attempt) string {
	if scorecard.RequireAnswered(a) != nil {
		return a.ID
	}
	return b.ID
}

// A comparedPair is what two attempts come to, and in what else they differ.
type comparedPair struct {
	*scorecard.Comparison
	apart []answer.Part
}

// compared compares two attempts, once for each state of the ledger.
func (v *Viewer) compared(a, b *history.Attempt, across bool) (*comparedPair, error) {
	key := "compared " + a.ID + " " + b.ID + " " + strconv.FormatBool(across)
	return remembered(v, key, func() (*comparedPair, error) {
		first, second := v.r.Dossier(a), v.r.Dossier(b)
		options := scorecard.CompareOptions{AcrossBenches: across, MaxDivergences: maxParted}
		options.Divergence, options.Moves = second.PartingFrom(first)
		options.Divergence, options.Moves = v.shortOnly(a, b, options.Divergence), v.shortOnly(a, b, options.Moves)
		c, err := scorecard.Compare(a, b, options)
		if err != nil {
			return nil, err
		}
		return &comparedPair{c, answer.Apart(first, second)}, nil
	})
}

// maxParted bounds the cases of which the two trajectories are compared.
const maxParted = 40

// shortOnly leaves alone trajectories that are too long to be compared for a page.
func (v *Viewer) shortOnly(a, b *history.Attempt, tell dossier.Parting) dossier.Parting {
	return func(ca, cb *history.Case) (string, error) {
		for _, c := range []*dossier.Case{v.r.Dossier(a).Case(ca), v.r.Dossier(b).Case(cb)} {
			opened, err := c.OpenTranscript()
			if err != nil {
				continue // what is missing or withheld is told by what reads it
			}
			long := opened.Bytes > maxCompared
			opened.Close()
			if long {
				return "", refusal.Newf(refusal.NotFound, "the trajectory is too long to be compared for a page")
			}
		}
		return tell(ca, cb)
	}
}

// causes adds the groups, with links to their cases.
func (d *compareData) causes(all []answer.Cause, q url.Values) {
	place := map[string]int{}
	for i, c := range d.Cases {
		place[c.CaseID] = i
	}
	for _, c := range all {
		row := causeRow{Cause: c}
		for i, id := range c.Cases {
			if i == maxCausesNamed {
				row.More = len(c.Cases) - i
				break
			}
			to := "#" + changeID(place[id])
			if n := place[id] / changesOnPage; n != d.Pager.from/changesOnPage {
				to = with(q, "page", pageNumber(n), "case", "") + to
			}
			row.Named = append(row.Named, link{Text: id, URL: to})
		}
		d.Causes = append(d.Causes, row)
	}
	if n := len(d.Causes); n > maxCausesShown+1 {
		d.Causes, d.MoreCauses = d.Causes[:maxCausesShown:maxCausesShown], d.Causes[maxCausesShown:]
	}
}

func pageNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n + 1)
}

func changeID(i int) string { return "change-" + strconv.Itoa(i+1) }

// maxPartLines bounds a file of the target on the page.
const maxPartLines = 400

// parts adds what differs of the two attempts.
func (d *compareData) parts(all []answer.Part) {
	for _, p := range all {
		row := partRow{Part: p}
		switch {
		case p.Diff == nil:
		case p.Lines:
			row.Diff = p.Diff.HTMLLines(3, maxPartLines, visibleAll)
		default:
			row.Diff = p.Diff.HTML(visibleAll)
		}
		d.Parts = append(d.Parts, row)
	}
}

// visibleAll makes a text visible without cutting it: what is compared is bounded.
func visibleAll(s string) string { return visible(s, len(s)) }

// compareRows adds the changed cases of this part of the list.
func (v *Viewer) compareRows(data *compareData, q url.Values, a, b *history.Attempt) error {
	var indexes []int64
	for i := data.Pager.from; i < data.Pager.to; i++ {
		c := data.Cases[i]
		row := compareRow{ChangeRow: c, ID: changeID(i), URL: with(q, "a", data.A, "b", data.B, "case", c.CaseID) + "#side", AURL: caseURL(a.ID, c.CaseID, 1), BURL: caseURL(b.ID, c.CaseID, 1)}
		if ca, cb := recordOf(a, c.CaseID), recordOf(b, c.CaseID); ca != nil && cb != nil {
			var err error
			if row.Said, err = answer.SaidIn(v.r.Dossier(a).Case(ca), v.r.Dossier(b).Case(cb), maxCompared); err != nil {
				return err
			}
		}
		if c.A.Tasks == 1 && c.B.Tasks == 1 && c.A.Entry >= 0 && c.B.Entry >= 0 {
			indexes = append(indexes, c.A.Entry, c.B.Entry)
		}
		data.Rows = append(data.Rows, row)
	}
	records, err := v.entries(indexes...)
	if err != nil {
		return err
	}
	for i := range data.Rows {
		r := &data.Rows[i]
		r.RecordA, r.RecordB = records[r.A.Entry], records[r.B.Entry]
	}
	return nil
}

func recordOf(a *history.Attempt, id string) *history.Case {
	for c := range a.Cases() {
		if c.ID == id && c.Index >= 0 {
			return c
		}
	}
	return nil
}

// AnswerA is the first answer, what the second does not have marked.
func (r compareRow) AnswerA() template.HTML { return r.answer(r.Said.A, difference.Removed) }

// AnswerB is the second answer, what the first did not have marked.
func (r compareRow) AnswerB() template.HTML { return r.answer(r.Said.B, difference.Added) }

func (r compareRow) answer(own answer.Answered, kind difference.Kind) template.HTML {
	if r.Said.A.Given && r.Said.B.Given {
		return r.Said.Answer.HTMLOf(kind, visibleAll)
	}
	return template.HTML(template.HTMLEscapeString(visibleAll(own.Text)))
}

// OutcomeOf is the outcome of a side, as its record has it where it is one record's.
func (r compareRow) OutcomeOf(e *entry, s scorecard.Side) template.HTML {
	if s.Tasks > 1 {
		return template.HTML(template.HTMLEscapeString(strconv.Itoa(s.Solved) + " of " + strconv.Itoa(s.Tasks) + " solved"))
	}
	return e.Same("/outcome", AsOutcome, OutcomeName(s.Outcome))
}

// ScoreOf is the score of a side.
func (r compareRow) ScoreOf(e *entry, s scorecard.Side) template.HTML {
	if s.Score == nil {
		return ""
	}
	return e.Same("/score/score", AsNumber, Number(*s.Score))
}

// Changed counts the cases that kept their side and did not stay the same.
func (d *compareData) Changed() int {
	return len(d.Cases) - d.Flips.Lost - d.Flips.Gained
}

// TargetValues are the settings of the agent under test that differ in a few words,
// TargetTexts its texts and files; Others is what differs besides.
func (d *compareData) TargetValues() []partRow {
	return d.partsOf(func(p answer.Part) bool { return p.Target && p.Diff == nil })
}

// TargetTexts are those that are shown as a diff.
func (d *compareData) TargetTexts() []partRow {
	return d.partsOf(func(p answer.Part) bool { return p.Target && p.Diff != nil })
}

// TargetDiffers reports whether anything of the agent does.
func (d *compareData) TargetDiffers() bool {
	return len(d.partsOf(func(p answer.Part) bool { return p.Target })) > 0
}

// Others are not of the agent.
func (d *compareData) Others() []partRow {
	return d.partsOf(func(p answer.Part) bool { return !p.Target })
}

func (d *compareData) partsOf(wanted func(answer.Part) bool) []partRow {
	var list []partRow
	for _, p := range d.Parts {
		if wanted(p.Part) {
			list = append(list, p)
		}
	}
	return list
}

// Title is the part in one line.
func (p partRow) Title() string { return p.Part.Title() }

// AcrossURL compares although the benches differ.
func (d *compareData) AcrossURL() string {
	return "/compare?" + url.Values{"a": {d.A}, "b": {d.B}, "across": {"1"}}.Encode()
}

// SwapURL compares the other way round.
func (d *compareData) SwapURL() string {
	return "/compare?" + url.Values{"a": {d.B}, "b": {d.A}}.Encode()
}

// Markdown is the comparison as people paste it into an issue. Nothing of what agents said
// is read as Markdown or HTML there.
func (d *compareData) Markdown() string {
	var b strings.Builder
	b.WriteString("### What changed from `" + Line(d.A) + "` to `" + Line(d.B) + "`\n\n" + d.Headline() + "\n\n")
	for _, c := range append(slices.Clone(d.Causes), d.MoreCauses...) {
		b.WriteString("- **" + strconv.Itoa(len(c.Cases)) + " " + c.Change + "**: " + answer.MarkdownLine(c.Title) + "\n")
	}
	for _, p := range d.Parts {
		b.WriteString("\n**" + answer.MarkdownLine(p.Title()) + "**\n\n")
		if p.Part.Diff != nil && p.Lines {
			b.WriteString(p.Part.Diff.MarkdownLines(3))
		} else if p.Part.Diff != nil {
			b.WriteString(p.Part.Diff.Markdown() + "\n")
		}
	}
	for _, r := range d.Rows {
		b.WriteString("\n**" + r.Change + "** " + answer.MarkdownLine(r.CaseID) + "\n\n")
		if s := r.Said; s != nil && s.A.Given && s.B.Given {
			b.WriteString(s.Answer.Markdown() + "\n")
		}
	}
	return b.String()
}
