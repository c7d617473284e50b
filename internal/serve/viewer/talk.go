package viewer

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/difference"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/browser/markup"
)

// A talk is a window of a transcript as a conversation. Every text and number of it names
// the event that has it: docs/viewer.md.
type talk struct {
	*conversation.Conversation
	d      *caseData
	t      *transcript
	docs   map[int]any    // the events' lines, decoded
	events map[int]*event // for notes
	diffs  map[string][]diffLine
}

// What a page reads of whole texts, so that requests can be taken apart.
const (
	maxWhole  = 1 << 20 // of one
	maxWholes = 8 << 20 // of all of a page
)

// newTalk tells the window that the transcript has. before is the first line of the
// trajectory, if the window begins later.
func (v *Viewer) newTalk(d *caseData, lines [][]byte, before []byte) (*talk, error) {
	s := &talk{d: d, t: d.Transcript, docs: map[int]any{}, events: map[int]*event{}, diffs: diffsByPath(d.diffText)}
	o := conversation.Options{Whole: v.wholes(d)}
	if before != nil {
		first, err := trajectory.ReadEvent(before)
		if err != nil {
			return nil, fmt.Errorf("event 1: %w", err)
		}
		o.Before = append(o.Before, first)
	}
	var events []trajectory.Event
	for i, line := range lines {
		e, err := trajectory.ReadEvent(line)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", d.Transcript.From+i, err)
		}
		events = append(events, e)
		if s.docs[e.Seq], err = decode(line); err != nil {
			return nil, err
		}
	}
	for i := range d.Transcript.Events {
		s.events[d.Transcript.Events[i].Seq] = &d.Transcript.Events[i]
	}
	s.Conversation = conversation.Of(slices.Values(events), o)
	return s, nil
}

// wholes gives the whole texts that the evidence of a case has, as much as a page reads.
func (v *Viewer) wholes(d *caseData) func(digest.Content) ([]byte, bool) {
	left, known := maxWholes, map[digest.Content][]byte{}
	return func(name digest.Content) ([]byte, bool) {
		if data, ok := known[name]; ok {
			return data, data != nil
		}
		if !d.kept[name.String()] || left <= 0 {
			return nil, false
		}
		data, err := v.r.Piece(name)
		if left -= len(data); err != nil || len(data) > maxWhole {
			data = nil
		}
		known[name] = data
		return data, data != nil
	}
}

// Val shows a short value of an event, and says where it stands.
func (s *talk) Val(seq int, pointer string, as Format) template.HTML {
	text, ok := shown(s.docs[seq], pointer, as)
	if !ok {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<span data-event="%d" data-field="%s" data-as="%s">%s</span>`, seq, template.HTMLEscapeString(pointer), as, template.HTMLEscapeString(text)))
}

// Has reports whether an event has a value.
func (s *talk) Has(seq int, pointer string) bool {
	_, ok := at(s.docs[seq], pointer)
	return ok
}

// place is where a text stands, as attributes; "" if that cannot be said.
func (s *talk) place(t *conversation.Text) string {
	if t.At == "" || s.docs[t.Event] == nil {
		return ""
	}
	attrs := fmt.Sprintf(` data-event="%d"`, t.Event)
	escaped := template.HTMLEscapeString
	switch {
	case t.In != "":
		attrs += ` data-whole="` + escaped(t.At) + `" data-field="` + escaped(t.In) + `"`
	case t.IsWhole:
		attrs += ` data-whole="` + escaped(t.At) + `"`
	case t.IsContent:
		attrs += ` data-field="` + escaped(t.At) + `/head"`
	default:
		attrs += ` data-field="` + escaped(t.At) + `"`
	}
	if (t.In != "" || t.IsWhole) && s.d.kept[t.Digest.String()] {
		attrs += ` data-piece="` + escaped(s.d.PieceURL(t.Digest.String())) + `"`
	}
	as := AsText
	if t.IsJSON && !t.IsContent {
		as = AsJSON
	}
	return attrs + ` data-as="` + string(as) + `"`
}

// Texts longer than this are folded.
const (
	maxOpenLines = 14
	maxOpenRunes = 1400
)

// show draws a text with a button that copies it, folded if it is long.
func (s *talk) show(t *conversation.Text, render func(string) string) template.HTML {
	if t == nil {
		return ""
	}
	text := Text(t.Head)
	if t.IsJSON && !t.IsContent {
		if own, ok := shown(s.docs[t.Event], t.At, AsJSON); ok {
			text = own
		}
	}
	var b strings.Builder
	b.WriteString(`<div class="copyable">`)
	if lines := strings.Count(text, "\n") + 1; lines > maxOpenLines || len(text) > maxOpenRunes {
		fmt.Fprintf(&b, `<details class="more"><summary>Show all of it: %s, %s</summary></details>`, plural(lines, "line"), byteCount(max(t.Bytes, int64(len(t.Head)))))
	}
	b.WriteString(`<div class="words"` + s.place(t) + `>` + render(text) + `</div>`)
	b.WriteString(`<button type="button" class="copy" aria-label="Copy this text">Copy</button></div>`)
	return template.HTML(b.String())
}

// Prose draws what somebody said, as Markdown.
func (s *talk) Prose(t *conversation.Text) template.HTML { return s.show(t, markup.Prose) }

// Output draws what a tool gave.
func (s *talk) Output(t *conversation.Text) template.HTML { return s.show(t, markup.Output) }

// Argument draws an argument of a tool. One of a few words stands in its line.
func (s *talk) Argument(tool string, a conversation.Arg) template.HTML {
	if len(a.Value.Head) < 80 && !strings.Contains(a.Value.Head, "\n") && !a.Value.Cut {
		text := Text(a.Value.Head)
		return template.HTML(`<span class="words short"` + s.place(&a.Value) + `>` + template.HTMLEscapeString(text) + `</span>`)
	}
	if a.Value.IsJSON {
		return s.show(&a.Value, markup.Output)
	}
	return s.show(&a.Value, func(text string) string { return markup.Argument(tool, a.Name, text) })
}

// CutOf says what of a text the page does not have; nil if it has all.
func (s *talk) CutOf(t *conversation.Text) *cutText {
	if t == nil || !t.Cut && !tooLong(t.Head) {
		return nil
	}
	if whole := s.d.Rest(t.Digest); whole != "" {
		return &cutText{t.Bytes, whole, "The whole text"}
	}
	if !t.IsContent {
		return &cutText{t.Bytes, s.t.LineURL(t.Event), "The event as it was recorded"}
	}
	return &cutText{Bytes: t.Bytes}
}

// Whole is where the whole of a request is read.
func (s *talk) Whole(t *conversation.Text) string {
	if whole := s.d.Rest(t.Digest); whole != "" {
		return whole
	}
	return s.t.LineURL(t.Event)
}

// Seqs are the events of an item, as its attribute has them.
func (s *talk) Seqs(i conversation.Item) string {
	var list []string
	for _, n := range i.Events {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, " ")
}

// Others are the events of an item but the first, which other pages may lead to.
func (s *talk) Others(i conversation.Item) []int { return i.Events[1:] }

// Note is the event of a note, as the list of events shows it.
func (s *talk) Note(i *conversation.Item) *event { return s.events[i.Seq()] }

// Kind is the class of an item in the stylesheet.
func (s *talk) Kind(i conversation.Item) string {
	switch {
	case i.Speech != nil:
		return "say " + i.Speech.Role
	case i.Exchange != nil:
		return "say assistant"
	case i.Call != nil:
		return "card call"
	case i.Memory != nil:
		return "card memory"
	case i.Files != nil:
		return "card files"
	case i.Note.Minor:
		return "minor"
	}
	return "card note"
}

// RoleClass is that of a speaker whose name somebody else chose.
func (s *talk) RoleClass(role string) string {
	switch role {
	case conversation.User, conversation.Assistant, conversation.System, conversation.Tool, conversation.Plan:
		return role
	}
	return "other"
}

// Change is what a write to memory changed, word by word.
func (s *talk) Change(m *conversation.Memory) template.HTML {
	if m.Before == nil || m.Before.Cut || m.After.Cut || len(m.Before.Head)+len(m.After.Head) > 2*maxTextRunes {
		return ""
	}
	return difference.Words(m.Before.Head, m.After.Head).HTML(visibleAll)
}

// DiffOf is the part of the folder's diff about a file, where it was last written.
func (s *talk) DiffOf(c conversation.FileChange) []diffLine {
	lines := s.diffs[c.Path]
	delete(s.diffs, c.Path) // once: it is of the end
	return lines
}

// ImageOf is where an image is that the agent left under a path; "" if there is none.
func (s *talk) ImageOf(c conversation.FileChange) string {
	for _, f := range s.d.Changed {
		if f.Path == c.Path && f.Image {
			return f.URL
		}
	}
	return ""
}

// diffsByPath cuts a diff into the parts about single files.
func diffsByPath(text string) map[string][]diffLine {
	out := map[string][]diffLine{}
	if text == "" {
		return out
	}
	for _, part := range strings.Split("\n"+text, "\ndiff ")[1:] {
		for line := range strings.Lines(part) {
			name, found := strings.CutPrefix(line, "+++ ")
			if !found {
				continue
			}
			name, _, _ = strings.Cut(strings.TrimSuffix(name, "\n"), "\t")
			lines, _ := diffLines("diff " + part)
			out[strings.TrimPrefix(name, "b/")] = lines
			break
		}
	}
	return out
}

// outlineItems lists what a turn in the window has, for the outline.
func (s *talk) outlineItems(n int) (list []link) {
	for _, t := range s.Turns {
		if t.N != n {
			continue
		}
		for i := range t.Items {
			item := &t.Items[i]
			text := ""
			switch {
			case item.Speech != nil && item.Speech.Role == conversation.User:
				text = "User"
			case item.Exchange != nil && item.Exchange.Reply != nil:
				text = "Model"
			case item.Exchange != nil:
				text = "Model, no answer"
			case item.Call != nil:
				text = item.Call.Name
			case item.Memory != nil:
				text = "memory " + item.Memory.Key
			case item.Files != nil:
				text = plural(len(item.Files.Changed), "file")
			case item.Note != nil && item.Bad:
				text = titles[item.Note.Type]
			}
			if text != "" && len(list) < maxItemsOfTurn {
				list = append(list, link{Text: text, URL: "#e" + strconv.Itoa(item.Seq())})
			}
		}
	}
	return list
}

// maxItemsOfTurn bounds how much of a turn the outline lists.
const maxItemsOfTurn = 40

// answerAt is the event in this window that says what a check looked at; 0 if none does.
func (s *talk) answerAt(d digest.Content) (seq int) {
	for _, t := range s.Turns {
		for i := range t.Items {
			for _, text := range textsOf(&t.Items[i]) {
				if text != nil && (text.Digest == d || digest.ContentOf([]byte(text.Head)) == d) {
					seq = t.Items[i].Seq() // the last one
				}
			}
		}
	}
	return seq
}

func textsOf(i *conversation.Item) []*conversation.Text {
	switch {
	case i.Speech != nil:
		return []*conversation.Text{i.Speech.Text}
	case i.Exchange != nil:
		return []*conversation.Text{i.Exchange.Reply}
	case i.Note != nil && len(i.Note.Texts) > 0:
		return []*conversation.Text{&i.Note.Texts[0]}
	}
	return nil
}

// failure is where a run went wrong, as a link: at the answer that was compared, or at the
// first event that failed or was denied, or at its end.
func (d *caseData) failure() *link {
	t := d.Transcript
	if t == nil || t.Checking || t.Len == 0 || d.Why == nil || d.Case.Outcome() == evidence.Passed {
		return nil
	}
	seq, what := 0, ""
	if d.Decisive != nil && d.Decisive.Extracted != nil && d.Talk != nil {
		seq, what = d.Talk.answerAt(d.Decisive.Extracted.Digest), "the answer that was compared"
	}
	if seq == 0 && t.Trouble > 0 {
		seq, what = t.Trouble, "the first thing that failed or was denied"
	}
	if seq == 0 {
		seq, what = t.Len, "the end of the run"
	}
	u := "#e" + strconv.Itoa(seq)
	if seq < t.From || seq > t.To {
		u = t.here(seq) + u
	}
	return &link{Text: what + ", event " + strconv.Itoa(seq), URL: u}
}

// caseTabs are the pages of a case.
var caseTabs = []struct{ name, path string }{{"Conversation", ""}, {"Events", "/log"}, {"Evidence", "/evidence"}, {"History", "/history"}}

// A caseTab is one of them.
type caseTab struct {
	Text, URL string
	Current   bool
}

func tabsOf(base, current string, q url.Values) (tabs []caseTab) {
	for _, t := range caseTabs {
		tabs = append(tabs, caseTab{t.name, base + t.path + strings.TrimSuffix(with(url.Values{}, "repeat", q.Get("repeat")), "?"), t.name == current})
	}
	return tabs
}

// What parts of the template are given.
type (
	talkItem struct {
		Talk *talk
		Item *conversation.Item
	}
	talkChips struct {
		Talk      *talk
		Decisions []conversation.Decision
		Approvals []conversation.Approval
	}
	talkTrouble struct {
		Talk       *talk
		Violations []conversation.Violation
		Problems   []conversation.Problem
		Undone     *conversation.Undone
	}
	shownCheck struct {
		Data   *caseData
		Index  int
		Detail *grade.Detail
	}
)

// With is an item with what draws its texts.
func (s *talk) With(i conversation.Item) talkItem { return talkItem{s, &i} }

// Chips are what the policy and people said.
func (s *talk) Chips(d []conversation.Decision, a []conversation.Approval) talkChips {
	return talkChips{s, d, a}
}

// Trouble is what went wrong with a call.
func (s *talk) Trouble(v []conversation.Violation, p []conversation.Problem, u *conversation.Undone) talkTrouble {
	return talkTrouble{s, v, p, u}
}

// Clock is when an item began.
func (i talkItem) Clock() string { return took(i.Item.At.Milliseconds()) }

// Data is the case.
func (s *talk) Data() *caseData { return s.d }

// Transcript is the window.
func (s *talk) Transcript() *transcript { return s.t }

// RoleName is a speaker in the words of the page.
func (s *talk) RoleName(role string) string {
	if role == conversation.Tool {
		return "Tool result"
	}
	return upperFirst(Line(role))
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// CheckAt is one of the checks.
func (d *caseData) CheckAt(i int) shownCheck { return shownCheck{d, i, &d.Why.Checks[i]} }

// Failing are the checks that did not pass, without those that only add up others that
// did not.
func (d *caseData) Failing() []int {
	return d.checksThat(func(i int) bool { return d.Why.Checks[i].Outcome != grade.Passed && !d.combines(i) })
}

// Passing are the checks that passed.
func (d *caseData) Passing() []int {
	return d.checksThat(func(i int) bool { return d.Why.Checks[i].Outcome == grade.Passed })
}

// Combining are the checks that did not pass because others did not.
func (d *caseData) Combining() []int {
	return d.checksThat(func(i int) bool { return d.Why.Checks[i].Outcome != grade.Passed && d.combines(i) })
}

// combines reports whether a check adds up others of which one did not pass, so that what
// it says is said there.
func (d *caseData) combines(i int) bool {
	x := &d.Why.Checks[i]
	inside := x.Check + "/"
	if x.Check == "" {
		inside = "" // the whole
	}
	return slices.ContainsFunc(d.Why.Checks[i+1:], func(y grade.Detail) bool {
		return grade.Combines(x.Grader) && strings.HasPrefix(y.Check, inside) && y.Outcome != grade.Passed
	})
}

func (d *caseData) checksThat(fit func(int) bool) (list []int) {
	for i := range d.Why.Checks {
		if fit(i) {
			list = append(list, i)
		}
	}
	return list
}

// CopyURL is where the conversation is as Markdown.
func (d *caseData) CopyURL() string {
	u := address("attempt", d.Case.Dossier().ID, "case", d.Case.ID, "conversation.md")
	if d.Case.Repeat > 1 {
		u += "?repeat=" + strconv.Itoa(int(d.Case.Repeat))
	}
	return u
}
