package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/share/browser"
)

// Where the data stands in a page. encoding/json escapes what could end the element.
const (
	dataBegin = `<script type="application/json" id="report-data">`
	dataEnd   = `</script>`
)

// mostEvents bounds how many events of a case a page shows; its data has all.
const mostEvents = 300

// Render makes the page of some data.
func Render(d *Data) ([]byte, error) {
	p, err := d.take()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	verdict, err := d.verdict(p)
	if err != nil {
		return nil, err
	}
	w := &writer{}
	w.head(p)
	w.summary(p, d, verdict)
	w.gates(verdict)
	w.failing(p, d)
	w.beside(p)
	w.rows(p)
	for _, c := range d.Cases {
		if err := w.evidence(p, c); err != nil {
			return nil, err
		}
	}
	w.add("</main>\n")
	w.add("<footer>Written by tally export. It opens from disk and loads nothing; “tally verify” and verify.html check it from outside.</footer>\n")
	w.add(dataBegin, string(data), dataEnd, "\n<script>", browser.ReportScript(), "</script>\n</body>\n</html>\n")
	return w.out.Bytes(), w.err
}

// A writer puts a page together. Only text and cell take untrusted text, and
// both escape it.
type writer struct {
	out bytes.Buffer
	err error
}

// add writes HTML of ours.
func (w *writer) add(parts ...string) {
	for _, s := range parts {
		w.out.WriteString(s)
	}
}

// text writes untrusted text.
func (w *writer) text(s string) { w.add(html.EscapeString(browser.Text(s))) }

// cell writes the value of a member with what a script needs to compare it. In a
// document of its own, such as an event, index is below zero.
func (w *writer) cell(index int64, doc json.RawMessage, pointer string, as browser.Format) {
	w.value("span", "", index, doc, pointer, as)
}

func (w *writer) value(tag, class string, index int64, doc json.RawMessage, pointer string, as browser.Format) {
	shown := browser.None
	if value, ok := lookup(doc, pointer); ok {
		var err error
		if shown, err = as.Show(value); err != nil && w.err == nil {
			w.err = fmt.Errorf("entry %d, %s: %w", index, pointer, err)
		}
	}
	w.add("<", tag)
	if class != "" {
		w.add(` class="`, class, `"`)
	}
	if index >= 0 {
		w.add(` data-entry="`, strconv.FormatInt(index, 10), `"`)
	}
	w.add(` data-field="`, html.EscapeString(pointer), `" data-as="`, string(as), `">`, html.EscapeString(shown), "</", tag, ">")
}

// lookup is the value at a JSON pointer.
func lookup(doc json.RawMessage, pointer string) (json.RawMessage, bool) {
	for _, part := range strings.Split(pointer, "/")[1:] {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if i, err := strconv.Atoi(name); err == nil && len(doc) > 0 && doc[0] == '[' {
			var list []json.RawMessage
			if json.Unmarshal(doc, &list) != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			doc = list[i]
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(doc, &members) != nil {
			return nil, false
		}
		var ok bool
		if doc, ok = members[name]; !ok {
			return nil, false
		}
	}
	return doc, true
}

func (w *writer) head(p *parts) {
	r := p.registered.body.(*evidence.AttemptRegistered)
	style := browser.Style()
	w.add("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	w.add(`<meta http-equiv="Content-Security-Policy" content="`, html.EscapeString(browser.Policy(browser.ReportScript(), style, "")), "\">\n")
	w.add(`<meta name="viewport" content="width=device-width, initial-scale=1">`, "\n", `<meta name="color-scheme" content="light dark">`, "\n")
	w.add(`<meta name="referrer" content="no-referrer">`, "\n<title>")
	w.text(r.Attempt)
	w.add(" · Tallystick</title>\n<style>", style, "</style>\n</head>\n<body>\n")
	w.add(`<a class="skip" href="#content">Skip to the content</a>`, "\n")
	w.add(`<header class="top"><div><span class="brand">Tallystick <small>report of one attempt</small></span>`, "\n")
	w.add(`<div id="mark" role="status"><noscript>Not checked in this browser: JavaScript is off. “tally verify” checks this file.</noscript></div></div></header>`, "\n")
	w.add(`<main id="content">`, "\n<h1>")
	w.cell(p.registered.index, p.registered.raw, "/attempt", browser.AsText)
	w.add("</h1>\n")
}

// A pair is a label and where its value stands.
type pair struct {
	label, pointer string
	as             browser.Format
}

func (w *writer) figures(x *part, list []pair) {
	for _, f := range list {
		w.add("<div><dt>", f.label, "</dt><dd>")
		w.cell(x.index, x.raw, f.pointer, f.as)
		w.add("</dd></div>\n")
	}
}

func (w *writer) summary(p *parts, d *Data, v *Verdict) {
	r := p.registered
	w.add(`<p class="lead">Class `)
	w.cell(r.index, r.raw, "/class", browser.AsText)
	w.add(", target ")
	w.cell(r.index, r.raw, "/target", browser.AsText)
	w.add(", ")
	w.cell(r.index, r.raw, "/mode", browser.AsText)
	w.add(`; attempt number `)
	w.cell(r.index, r.raw, "/number", browser.AsText)
	w.add(" of at least ")
	w.cell(p.newest.index, p.newest.raw, "/number", browser.AsText)
	w.add(" of the class; ledger ")
	w.cell(r.index, r.raw, "/origin", browser.AsText)
	w.add(".</p>\n")
	switch {
	case !signed(r.body.(*evidence.AttemptRegistered), d.Key):
		w.add(`<p class="note">Scratch: no signer vouches for the bench of this attempt.</p>`, "\n")
	case d.Examples:
		w.add(`<p class="note">Signed by example signers: they come with “tally init”, and their keys lie in the workspace, so no person vouches for the bench of this attempt.</p>`, "\n")
	default:
		w.add("<p>The registration was signed by the ledger’s key. That people signed the bench is not in this file.</p>\n")
	}
	if r.body.(*evidence.AttemptRegistered).Plan.Floor != nil {
		w.add(`<p class="note">Floor of the class: without any work, the null answer “`)
		w.cell(r.index, r.raw, "/plan/floor/answer", browser.AsText)
		w.add("” passes ")
		w.cell(r.index, r.raw, "/plan/floor/passed", browser.AsText)
		w.add(" of ")
		w.cell(r.index, r.raw, "/plan/floor/cases", browser.AsText)
		w.add(" cases.</p>\n")
	}
	if p.finished == nil {
		w.add(`<p class="note">The attempt has not finished, so there are no totals.</p>`, "\n")
		return
	}
	w.add(`<dl class="figures">`, "\n<div><dt>Gate</dt><dd>")
	w.mark(v.State, sentence(v.Reason), v.Recorded == "")
	w.add("</dd></div>\n")
	var counts []pair
	for _, o := range slices.Backward(order) { // what passed first
		if _, ok := lookup(p.finished.raw, "/outcomes/"+o); ok {
			counts = append(counts, pair{browser.OutcomeName(evidence.Outcome(o)), "/outcomes/" + o, browser.AsText})
		}
	}
	counts = append(counts, pair{"Solve rate", "/outcomes", browser.AsSolved}, pair{"95 % interval", "/outcomes", browser.AsInterval})
	w.figures(p.finished, append(counts, pair{"Mean score", "/mean_score", browser.AsNumber}, pair{"Cost", "", browser.AsCost}, pair{"Runtime, ms", "/runtime_ms", browser.AsText}))
	w.add("</dl>\n")
}

// order is that of the rows: what failed first.
var order = []string{"failed", "errored", "truncated", "unscored", "skipped", "passed"}

func (w *writer) rows(p *parts) {
	r := p.registered.body.(*evidence.AttemptRegistered)
	planned := r.Plan.CaseCount * max(r.Plan.Repeat, 1)
	fmt.Fprintf(&w.out, "<h2>Cases</h2>\n<p>This report has %d of %d planned records", len(p.records), planned)
	if p.finished != nil {
		n := 0
		for _, k := range p.finished.body.(*evidence.AttemptFinished).Outcomes {
			n += k
		}
		fmt.Fprintf(&w.out, "; the attempt has %d", n)
	}
	w.add(".</p>\n")
	w.shares(p)
	w.add(`<div class="wide" tabindex="0" role="region" aria-label="Cases"><table>`, "\n<thead><tr>")
	for i, h := range []string{"Case", "Outcome", "Score", "Repetition", "Turns", "Tokens", "Cost", "Began", "Why"} {
		class := ""
		if 2 <= i && i <= 6 {
			class = ` class="num"`
		}
		w.add(`<th scope="col"`, class, ">", h, "</th>")
	}
	w.add("</tr></thead>\n<tbody>\n")
	for _, x := range inOrder(p.records) {
		fmt.Fprintf(&w.out, `<tr data-entry="%d"><th scope="row"><a href="#case-%d">`, x.index, x.index)
		w.cell(x.index, x.raw, "/case_id", browser.AsText)
		w.add("</a></th><td>")
		w.outcome(x)
		for _, f := range []pair{{"", "/score/score", browser.AsNumber}, {"", "/repeat", browser.AsText}, {"", "/turns", browser.AsText}, {"", "/tokens", browser.AsText}, {"", "", browser.AsCost}} {
			w.add(`</td><td class="num">`)
			w.cell(x.index, x.raw, f.pointer, f.as)
		}
		w.add(`</td><td class="nowrap">`)
		w.cell(x.index, x.raw, "/started_at", browser.AsTime)
		w.add(`</td><td class="why">`)
		w.why(x)
		w.add("</td></tr>\n")
	}
	w.add("</tbody></table></div>\n")
}

// why shows the failure modes, or the reason of a record without a score.
func (w *writer) why(x *part) {
	b := x.body.(*evidence.CaseScored)
	if b.Reason != "" {
		w.cell(x.index, x.raw, "/reason", browser.AsText)
	}
	if b.Score == nil {
		return
	}
	for i := range b.Score.FailureModes {
		if i > 0 {
			w.add(", ")
		}
		w.cell(x.index, x.raw, fmt.Sprintf("/score/failure_modes/%d", i), browser.AsText)
	}
}

func outcomeOf(x *part) string { return string(x.body.(*evidence.CaseScored).Outcome) }

// outcome is that of a record, in its colour.
func (w *writer) outcome(x *part) {
	w.value("span", "state "+outcomeOf(x), x.index, x.raw, "/outcome", browser.AsOutcome)
}

func inOrder(records []*part) []*part {
	sorted := slices.Clone(records)
	rank := func(x *part) int { return slices.Index(order, string(x.body.(*evidence.CaseScored).Outcome)) }
	slices.SortStableFunc(sorted, func(a, b *part) int { return rank(a) - rank(b) })
	return sorted
}
