package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/share/browser"
)

// evidence writes the scoring and the transcript of a case.
func (w *writer) evidence(p *parts, c Evidence) error {
	var x *part
	for _, r := range p.records {
		if r.index == c.Entry {
			x = r
		}
	}
	if x == nil {
		return fmt.Errorf("evidence of entry %d, which is not a record here", c.Entry)
	}
	w.add(`<details class="case"`)
	if slices.Contains(firstFailing(p), x) {
		w.add(" open")
	}
	w.add("><summary><strong>")
	w.cell(x.index, x.raw, "/case_id", browser.AsText)
	w.add("</strong> ")
	w.outcome(x)
	w.add("</summary>\n", `<div id="case-`, strconv.FormatInt(x.index, 10), `">`, "\n")
	if c.Without != "" {
		w.add("<p>", withoutWords[c.Without], "</p>\n")
	} else {
		w.breakdown(x)
		w.grading(c)
		w.transcript(c)
	}
	w.add("</div></details>\n")
	return nil
}

// breakdown lists the parts of a score.
func (w *writer) breakdown(x *part) {
	score := x.body.(*evidence.CaseScored).Score
	if score == nil || len(score.Breakdown) == 0 {
		return
	}
	w.add("<h3>Score</h3>\n<dl class=\"pairs\">\n")
	for _, name := range sortedNames(score.Breakdown) {
		w.add("<dt>")
		w.text(name)
		w.add("</dt><dd>")
		w.cell(x.index, x.raw, "/score/breakdown/"+escapePointer(name), browser.AsNumber)
		w.add("</dd>\n")
	}
	w.add("</dl>\n")
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// grading lists what was compared with what, and why it passed or not.
func (w *writer) grading(c Evidence) {
	checks, ok := checksOf(c)
	if !ok {
		return
	}
	fmt.Fprintf(&w.out, "<h3>Scoring</h3>\n<div data-grading data-entry=\"%d\">\n", c.Entry)
	for i, check := range checks {
		w.check(c, i, check, nil)
	}
	w.add("</div>\n")
}

// checksOf are the checks of a case, if there is such a document.
func checksOf(c Evidence) ([]map[string]json.RawMessage, bool) {
	var doc struct {
		Checks []map[string]json.RawMessage `json:"checks"`
	}
	if c.Grading == "" || json.Unmarshal([]byte(c.Grading), &doc) != nil {
		return nil, false
	}
	return doc.Checks, true
}

// check is one of them, with some of its members, or all of them.
func (w *writer) check(c Evidence, i int, check map[string]json.RawMessage, only []string) {
	w.add(`<dl class="pairs box">`, "\n")
	for _, f := range []struct{ label, member, below string }{
		{"Check", "check", ""}, {"Grader", "grader", ""}, {"Outcome", "outcome", ""}, {"Why", "why", ""}, {"Got", "extracted", "/head"}, {"Wanted", "expected", "/head"}, {"Nothing found because", "missing", ""}, {"Failure mode", "failure_mode", ""},
	} {
		if _, ok := check[f.member]; !ok || only != nil && !slices.Contains(only, f.member) {
			continue
		}
		w.add("<dt>", f.label, "</dt><dd>")
		w.value("pre", "", -1, json.RawMessage(c.Grading), fmt.Sprintf("/checks/%d/%s%s", i, f.member, f.below), browser.AsText)
		w.add("</dd>\n")
	}
	w.add("</dl>\n")
}

// transcript lists the events: their type, and every text, number and truth in them.
func (w *writer) transcript(c Evidence) {
	lines := strings.SplitAfter(c.Trajectory, "\n")
	lines = lines[:len(lines)-1]
	w.conversation(lines[:min(len(lines), mostEvents)])
	fmt.Fprintf(&w.out, "<details class=\"raw\"><summary>All events</summary>\n<p class=\"small soft\">%d events", len(lines))
	if len(lines) > mostEvents {
		fmt.Fprintf(&w.out, ", of which the first %d are shown; the data of this file has all", mostEvents)
	}
	fmt.Fprintf(&w.out, ". Texts are as the record has them: the beginning of long ones.</p>\n<ol class=\"events\" data-trajectory data-entry=\"%d\">\n", c.Entry)
	for i, line := range lines[:min(len(lines), mostEvents)] {
		doc := json.RawMessage(strings.TrimSuffix(line, "\n"))
		fmt.Fprintf(&w.out, "<li data-seq=\"%d\"><header>", i+1)
		w.value("strong", "", -1, doc, "/type", browser.AsText)
		w.add(" <span class=\"soft\">turn ")
		w.cell(-1, doc, "/turn", browser.AsText)
		w.add(", ")
		w.cell(-1, doc, "/t", browser.AsText)
		w.add(" ms</span></header>\n")
		w.payload(doc)
		w.add("</li>\n")
	}
	w.add("</ol></details>\n")
}

// plumbing are members that tell a reader nothing: digests and lengths of what is there.
var plumbing = []string{"digest", "bytes", "request", "policy", "policy_short", "format", "attempt", "case", "class"}

// members writes what a payload says, in the order of its names, with the names before
// it as the label.
func (w *writer) members(doc, value json.RawMessage, pointer, label string) {
	switch {
	case len(value) == 0:
	case value[0] == '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return
		}
		for _, name := range sortedNames(members) {
			if !slices.Contains(plumbing, name) {
				w.members(doc, members[name], pointer+"/"+escapePointer(name), strings.TrimSpace(label+" "+name))
			}
		}
	case value[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(value, &list) != nil {
			return
		}
		for i, item := range list[:min(len(list), 20)] {
			w.members(doc, item, pointer+"/"+strconv.Itoa(i), label)
		}
	case value[0] != 'n':
		as := browser.AsText
		if value[0] == 't' || value[0] == 'f' {
			as = browser.AsBool
		}
		w.add("<dt>")
		w.text(label)
		w.add("</dt><dd>")
		w.value("pre", "", -1, doc, pointer, as)
		w.add("</dd>\n")
	}
}
