package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/share/browser"
)

// The conversation of a case: what was said, one card for each call of a tool, and what
// went wrong. report_talk.js draws the same. Package conversation tells more of it, from
// a workspace; here a reader sees the gist, and all events beside it.

// notable are events that people look for, besides what is said and called.
var notable = []string{"policy_violation", "security_event", "limit_reached", "error", "run_failed", "handoff", "memory_written", "rollback"}

// amongCalls are the words of a reply of a model that calls tools, which have cards: it is
// a JSON object. One with other escapes than these is shown as it is, because two readers
// of JSON could read it in two ways.
func amongCalls(text string) (words string, among bool) {
	if strings.HasPrefix(text, `{"tool_calls":[`) {
		return "", true
	}
	found := wordsAmongCalls().FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	return strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(found[1]), true
}

var wordsAmongCalls = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\{"text":"((?:[^"\\]|\\[n"\\])*)","tool_calls":\[`)
})

// A talkItem is something of a conversation: what was said, a call, or a note.
type talkItem struct {
	seq       int
	role      string // user, assistant, tool or note
	doc       json.RawMessage
	pointer   string            // of what was said
	words     string            // what was said, where it stands among calls
	args      json.RawMessage   // event that tells the arguments of a call
	result    json.RawMessage   // event that tells its result
	decisions []json.RawMessage // of policy and people
}

// talkOf puts the events of a case together.
func talkOf(lines []string) []*talkItem {
	var all []*talkItem
	calls, last := map[string]*talkItem{}, ""
	for i, line := range lines {
		doc := json.RawMessage(strings.TrimSuffix(line, "\n"))
		add := func(item talkItem) *talkItem {
			item.seq, item.doc = i+1, doc
			all = append(all, &item)
			return &item
		}
		say := func(role, pointer string) {
			text := textAt(doc, pointer)
			words, among := amongCalls(text)
			if text == "" || among && words == "" || role != "user" && text == last {
				return
			}
			add(talkItem{role: role, pointer: pointer, words: words})
			last = text
		}
		call := func() *talkItem {
			keys := []string{"call " + textAt(doc, "/payload/call"), "id " + textAt(doc, "/payload/id")}
			if textAt(doc, "/type") == "tool_observed" {
				keys = keys[1:] // its call is that of the model
			}
			var item *talkItem
			for _, key := range keys {
				if item == nil && !strings.HasSuffix(key, " ") {
					item = calls[key]
				}
			}
			if item == nil {
				item = add(talkItem{role: "tool"})
			}
			for _, key := range keys {
				calls[key] = item
			}
			return item
		}
		switch kind := textAt(doc, "/type"); kind {
		case "turn_started":
			say("user", "/payload/input/head")
		case "model_call_completed":
			say("assistant", "/payload/output/head")
		case "turn_completed", "run_completed":
			say("assistant", "/payload/answer/head")
		case "tool_proposed":
			call().args = doc
		case "tool_executed":
			item := call()
			item.args, item.result = doc, doc
		case "tool_observed":
			item := call()
			if item.args == nil {
				item.args = doc
			}
			if _, ok := lookup(doc, "/payload/result"); ok && item.result == nil {
				item.result = doc
			}
		case "policy_decision", "approval_resolved":
			if item := calls["call "+textAt(doc, "/payload/call")]; item != nil {
				item.decisions = append(item.decisions, doc)
			}
		default:
			if slices.Contains(notable, kind) {
				add(talkItem{role: "note"})
			}
		}
	}
	return all
}

// textAt is a text of a document, "" if there is none.
func textAt(doc json.RawMessage, pointer string) string {
	value, _ := lookup(doc, pointer)
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

var speakers = map[string]string{"user": "User", "assistant": "Assistant"}

func (w *writer) conversation(lines []string) {
	w.add("<h3>Conversation</h3>\n<div class=\"talk\">\n")
	for _, item := range talkOf(lines) {
		w.add(`<section class="said `, item.role, `" data-seq="`, strconv.Itoa(item.seq), `"><h4>`)
		switch item.role {
		case "tool":
			w.call(item)
		case "note":
			w.cell(-1, item.doc, "/type", browser.AsText)
			w.add("</h4>\n")
			w.payload(item.doc)
		default:
			w.add(speakers[item.role], "</h4>\n")
			if item.words != "" {
				w.add("<pre>")
				w.text(item.words)
				w.add("</pre>")
			} else {
				w.value("pre", "", -1, item.doc, item.pointer, browser.AsText)
			}
		}
		w.add("</section>\n")
	}
	w.add("</div>\n")
}

// call is the card of a call: its name, its arguments, what policy and people said of it,
// and its result.
func (w *writer) call(item *talkItem) {
	w.add("Tool ")
	w.cell(-1, item.doc, "/payload/name", browser.AsText)
	w.add("</h4>\n")
	for _, part := range []string{"values", "raw", "cut"} {
		if args, ok := lookup(item.args, "/payload/args/"+part); ok {
			w.add(`<dl class="pairs">`, "\n")
			w.members(item.args, args, "/payload/args/"+part, "")
			w.add("</dl>\n")
		}
	}
	for _, doc := range item.decisions {
		if textAt(doc, "/type") == "policy_decision" {
			w.add(`<p class="small">Policy: `)
			w.cell(-1, doc, "/payload/verdict", browser.AsText)
			w.add(", ")
			w.cell(-1, doc, "/payload/reason", browser.AsText)
		} else {
			w.add(`<p class="small">Approved: `)
			w.cell(-1, doc, "/payload/approved", browser.AsBool)
			w.add(", by ")
			w.cell(-1, doc, "/payload/by", browser.AsText)
		}
		w.add("</p>\n")
	}
	if item.result == nil {
		w.add(`<p class="small">No result.</p>`, "\n")
		return
	}
	if textAt(item.result, "/payload/error") != "" {
		w.value("pre", "bad", -1, item.result, "/payload/error", browser.AsText)
	}
	if textAt(item.result, "/payload/result/head") != "" {
		w.value("pre", "", -1, item.result, "/payload/result/head", browser.AsText)
	}
}

// payload lists what the payload of an event says.
func (w *writer) payload(doc json.RawMessage) {
	if payload, ok := lookup(doc, "/payload"); ok {
		w.add(`<dl class="pairs">`, "\n")
		w.members(doc, payload, "/payload", "")
		w.add("</dl>\n")
	}
}

// mostFailing is how many cases that did not pass are told of first, and open.
const mostFailing = 3

func firstFailing(p *parts) []*part {
	var first []*part
	for _, x := range inOrder(p.records) {
		if outcomeOf(x) != "passed" && len(first) < mostFailing {
			first = append(first, x)
		}
	}
	return first
}

// failing tells of the first cases that did not pass: why, and what was got and wanted.
func (w *writer) failing(p *parts, d *Data) {
	first := firstFailing(p)
	if first == nil {
		return
	}
	w.add("<h2>First that did not pass</h2>\n<div class=\"cols\">\n")
	for _, x := range first {
		w.add(`<section class="box"><h3><a href="#case-`, strconv.FormatInt(x.index, 10), `">`)
		w.cell(x.index, x.raw, "/case_id", browser.AsText)
		w.add("</a> ")
		w.outcome(x)
		w.add("</h3>\n<p>")
		w.why(x)
		w.add("</p>\n")
		for _, c := range d.Cases {
			if c.Entry == x.index {
				w.decisive(c)
			}
		}
		w.add("</section>\n")
	}
	w.add("</div>\n")
}

var decisiveMembers = []string{"check", "why", "extracted", "expected", "missing"}

// decisive shows the first check that did not pass.
func (w *writer) decisive(c Evidence) {
	checks, _ := checksOf(c)
	for i, check := range checks {
		var outcome string
		if json.Unmarshal(check["outcome"], &outcome) != nil || outcome == "passed" {
			continue
		}
		w.add(`<div data-grading data-entry="`, strconv.FormatInt(c.Entry, 10), `">`, "\n")
		w.check(c, i, check, decisiveMembers)
		w.add("</div>\n")
		return
	}
}

// shares draws how many records have each outcome, as a bar.
func (w *writer) shares(p *parts) {
	counts := map[string]int{}
	for _, x := range p.records {
		counts[outcomeOf(x)]++
	}
	var said []string
	bars, at := "", 0
	for _, o := range slices.Backward(order) {
		n := counts[o]
		if n == 0 {
			continue
		}
		said = append(said, strconv.Itoa(n)+" "+o)
		bars += `<rect class="` + o + `" x="` + strconv.Itoa(at) + `" y="0" width="` + strconv.Itoa(n) + `" height="1"></rect>`
		at += n
	}
	if at > 0 {
		w.add(`<svg class="shares" role="img" aria-label="`, strings.Join(said, ", "), `" viewBox="0 0 `, strconv.Itoa(at), ` 1" preserveAspectRatio="none">`, bars, "</svg>\n")
	}
}
