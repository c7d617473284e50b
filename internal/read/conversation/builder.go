package conversation

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/trajectory"
)

// Options say what is known besides the events.
type Options struct {
	// Before are earlier events, such as the first of the run where a part of it is
	// told. They are known and not told.
	Before []trajectory.Event
	// Whole gives a text of the evidence by its digest, verified; false if there is none,
	// or if it is too much. Nil gives none.
	Whole func(digest.Content) ([]byte, bool)
}

// Of tells a conversation. Events are in order and without gaps.
func Of(events iter.Seq[trajectory.Event], o Options) *Conversation {
	b := &builder{options: o, bySeq: map[int]*Item{}, byCall: map[string]*Item{}, said: map[digest.Content]int{}, parts: map[part]bool{}, entries: map[string]*Text{}, files: map[string]bool{}}
	if b.options.Whole == nil {
		b.options.Whole = func(digest.Content) ([]byte, bool) { return nil, false }
	}
	all := slices.Clone(o.Before)
	for e := range events {
		all = append(all, e)
	}
	told := all[len(o.Before):]
	if len(told) == 0 {
		return &Conversation{}
	}
	b.first, b.partial = told[0].Seq, told[0].Seq > 1
	b.calls(all)
	for i := range o.Before {
		b.remember(&o.Before[i])
	}
	for i := range told {
		b.next = told[i+1:]
		b.add(&told[i])
	}
	return b.conversation()
}

type builder struct {
	options Options
	first   int  // number of the first event that is told
	partial bool // it is not the first of the run
	next    []trajectory.Event
	unseen  string

	items  []*Item // in order
	turns  []int   // of the items
	bySeq  map[int]*Item
	byCall map[string]*Item // by what a later event names them with
	last   *Item            // exchange of this turn

	said    map[digest.Content]int // whole texts, and the event that has each
	parts   map[part]bool          // of requests
	asked   bool                   // a request was looked into
	entries map[string]*Text       // of memory
	files   map[string]bool        // paths that events told of
}

// A part is one piece of a request.
type part struct {
	role string
	text digest.Content
}

// calls makes an item of each tool call. It gets its place with its first event.
func (b *builder) calls(all []trajectory.Event) {
	bySeq := map[int]*trajectory.Event{}
	for i := range all {
		bySeq[all[i].Seq] = &all[i]
	}
	view := trajectory.CallsIn(slices.Values(all))
	b.unseen = view.Unseen
	for i := range view.Calls {
		c := &view.Calls[i]
		item := &Item{Bad: c.Failed || c.Denied, Call: callOf(c, bySeq)}
		for _, seq := range c.Events() {
			b.bySeq[seq] = item
			if p, ok := bySeq[seq].Payload.(*trajectory.ToolObserved); ok && p.Judged != "" {
				b.byCall[p.Judged] = item
			}
		}
		if c.Call != "" {
			b.byCall[c.Call] = item
		}
	}
}

func callOf(c *trajectory.ToolCall, events map[int]*trajectory.Event) *Call {
	out := &Call{Name: c.Name, ID: c.ID, Vantage: c.Vantage, Class: c.Class, Args: argsOf(c.Seq, &c.Args), Failed: c.Failed, Denied: c.Denied, Stopped: c.Stopped}
	for _, other := range c.Otherwise() {
		if seq := eventWith(c.Events(), events, &other.Args); seq > 0 {
			out.Wished = append(out.Wished, argsOf(seq, &other.Args))
		}
	}
	for _, seq := range c.Events() {
		if p, ok := events[seq].Payload.(*trajectory.ToolObserved); ok && p.Result != nil && (c.Made == nil || p.Result.Digest != c.Made.Result.Digest) {
			out.Reported = contentOf(seq, "/payload/result", p.Result)
		}
	}
	if p := c.Made; p != nil {
		out.Executed, out.Error, out.Source, out.Trust = c.Seq, p.Error, p.Source, p.Trust
		out.Result = contentOf(c.Seq, "/payload/result", &p.Result)
		out.Latency = milliseconds(p.LatencyMS)
		_, out.Cost = p.Spent()
	}
	return out
}

// eventWith is the number of the event that has these arguments.
func eventWith(list []int, events map[int]*trajectory.Event, args *trajectory.Args) int {
	for _, seq := range list {
		if a := argsIn(events[seq].Payload); a != nil && a.Digest == args.Digest {
			return seq
		}
	}
	return 0
}

func argsIn(p trajectory.Payload) *trajectory.Args {
	switch p := p.(type) {
	case *trajectory.ToolProposed:
		return &p.Args
	case *trajectory.ToolExecuted:
		return &p.Args
	case *trajectory.ToolObserved:
		return &p.Args
	}
	return nil
}

// argsOf lists the arguments that an event has.
func argsOf(seq int, a *trajectory.Args) []Arg {
	if a.Raw != nil {
		return []Arg{{"", *contentOf(seq, "/payload/args/raw", a.Raw)}}
	}
	var list []Arg
	for _, name := range slices.Sorted(maps.Keys(a.Values)) {
		list = append(list, Arg{name, valueOf(seq, "/payload/args/values/"+escape(name), a.Values[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Cut)) {
		cut := a.Cut[name]
		t := *contentOf(seq, "/payload/args/cut/"+escape(name), &cut)
		t.IsJSON = true
		list = append(list, Arg{name, t})
	}
	return list
}

// valueOf is a value in canonical JSON: of a string the text, of all else the JSON.
func valueOf(seq int, at string, raw []byte) Text {
	t := Text{Event: seq, At: at, Head: string(raw), IsJSON: true, Bytes: int64(len(raw))}
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		t.Head, t.IsJSON, t.Bytes = s, false, int64(len(s))
	}
	return t
}

// contentOf is a text for which an event has a content.
func contentOf(seq int, at string, c *trajectory.Content) *Text {
	return &Text{Event: seq, At: at, IsContent: true, Head: c.Head, Bytes: c.Bytes, Digest: c.Digest, Cut: c.Truncated, Redacted: c.Redacted}
}

// escape spells a name as a part of a JSON Pointer.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// begin makes an item that begins with an event.
func (b *builder) begin(e *trajectory.Event, item *Item) *Item {
	item.Events, item.At = []int{e.Seq}, e.At
	b.items, b.turns = append(b.items, item), append(b.turns, e.Turn)
	return item
}

// join makes an event a part of an item, which begins with it if it is the first.
func (b *builder) join(e *trajectory.Event, item *Item) *Item {
	if len(item.Events) == 0 {
		return b.begin(e, item)
	}
	item.Events = append(item.Events, e.Seq)
	return item
}

// remember takes note of an event that is not told.
func (b *builder) remember(e *trajectory.Event) {
	switch p := e.Payload.(type) {
	case *trajectory.TurnStarted:
		b.note(e.Seq, p.Input)
	case *trajectory.MemoryWritten:
		b.entries[p.Entry] = contentOf(e.Seq, "/payload/value", &p.Value)
	case *trajectory.FileWritten:
		b.files[p.Path] = true
	}
}

// note remembers a text that was said, and where.
func (b *builder) note(seq int, c *trajectory.Content) {
	if c != nil && b.said[c.Digest] == 0 {
		b.said[c.Digest] = seq
	}
}

func (b *builder) add(e *trajectory.Event) {
	if item := b.bySeq[e.Seq]; item != nil {
		b.join(e, item)
		b.tell(e)
		return
	}
	switch p := e.Payload.(type) {
	case *trajectory.TurnStarted:
		b.last = nil
		b.speak(e, &Speech{Role: User, By: p.By, Agent: p.Agent}, "/payload/input", p.Input)
	case *trajectory.TurnCompleted:
		b.answer(e, p.Answer, p.Scores)
	case *trajectory.Plan:
		b.speak(e, &Speech{Role: Plan}, "/payload/text", &p.Text)
	case *trajectory.ModelCallStarted:
		b.ask(e, p)
	case *trajectory.ModelCallCompleted:
		b.reply(e, p)
	case *trajectory.MemoryProposed:
		item := b.memory(e, p.Call)
		item.Memory = &Memory{Key: p.Key, Source: p.Source, Tier: p.Tier, Confidence: p.Confidence, Before: b.entries[p.Supersedes], After: *contentOf(e.Seq, "/payload/value", &p.Value)}
	case *trajectory.MemoryWritten:
		b.remembered(e, p)
	case *trajectory.FileWritten:
		b.file(e, FileChange{Path: p.Path, Link: p.Link, Mode: p.Mode, Bytes: p.Bytes, Digest: p.Digest, New: !b.files[p.Path]})
		b.files[p.Path] = true
	case *trajectory.FileDeleted:
		b.file(e, FileChange{Path: p.Path, Deleted: true})
		delete(b.files, p.Path)
	default:
		b.other(e)
	}
}

// tell remembers what an event of a tool call says.
func (b *builder) tell(e *trajectory.Event) {
	switch p := e.Payload.(type) {
	case *trajectory.ToolExecuted:
		b.note(e.Seq, &p.Result)
	case *trajectory.ToolObserved:
		b.note(e.Seq, p.Result)
	}
}

// speak adds what was said, once.
func (b *builder) speak(e *trajectory.Event, s *Speech, at string, c *trajectory.Content) *Item {
	if c != nil {
		if s.Same = b.said[c.Digest]; s.Same == 0 || s.Role == User {
			s.Same, s.Text = 0, contentOf(e.Seq, at, c)
			b.whole(s.Text)
		}
		b.note(e.Seq, c)
	}
	return b.begin(e, &Item{Speech: s})
}

// answer adds the end of a turn. It belongs to the last reply of the model if that says
// the same.
func (b *builder) answer(e *trajectory.Event, c *trajectory.Content, scores []trajectory.ReportedScore) {
	if b.last != nil && c != nil && len(scores) == 0 && b.said[c.Digest] == b.last.Exchange.Replied && b.last.Exchange.Replied > 0 {
		b.last.Exchange.Answers = true
		b.join(e, b.last)
		return
	}
	b.speak(e, &Speech{Role: Assistant, Ends: true, Scores: scores}, "/payload/answer", c)
}

func (b *builder) memory(e *trajectory.Event, call string) *Item {
	item := b.begin(e, &Item{})
	b.byCall[call] = item
	return item
}

func (b *builder) remembered(e *trajectory.Event, p *trajectory.MemoryWritten) {
	item := b.byCall[p.Call]
	if item == nil || item.Memory == nil {
		item = b.memory(e, p.Call)
		item.Memory = &Memory{Before: b.entries[p.Supersedes]}
	} else {
		b.join(e, item)
	}
	m := item.Memory
	m.Key, m.Source, m.Tier, m.Confidence, m.Written = p.Key, p.Source, p.Tier, p.Confidence, true
	m.After = *contentOf(e.Seq, "/payload/value", &p.Value)
	if m.Before == nil {
		m.Before = b.entries[p.Supersedes]
	}
	b.entries[p.Entry] = contentOf(e.Seq, "/payload/value", &p.Value)
}

// file adds a change to those before it, if nothing else happened in between.
func (b *builder) file(e *trajectory.Event, c FileChange) {
	c.Event = e.Seq
	if n := len(b.items); n > 0 && b.items[n-1].Files != nil && b.turns[n-1] == e.Turn && b.items[n-1].Events[len(b.items[n-1].Events)-1] == e.Seq-1 {
		b.join(e, b.items[n-1])
		b.items[n-1].Files.Changed = append(b.items[n-1].Files.Changed, c)
		return
	}
	b.begin(e, &Item{Files: &Files{Changed: []FileChange{c}}})
}

// other adds an event about an item that is there, or a note.
func (b *builder) other(e *trajectory.Event) {
	if item := b.byCall[callNamed(e.Payload)]; item != nil && b.attach(e, item) {
		b.join(e, item)
		return
	}
	n := &Note{Type: e.Type, Summary: e.Payload.Summary()}
	item := &Item{Note: n}
	switch p := e.Payload.(type) {
	case *trajectory.RunStarted:
		n.Minor = true
		if p.Input != nil && !b.isNext(p.Input) {
			n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/input", p.Input))
			b.note(e.Seq, p.Input)
		}
	case *trajectory.UserMoved:
		n.Minor = len(p.Tools) == 0 && !p.End && p.Say != nil && b.isNext(p.Say) // the turn tells it
	case *trajectory.RunCompleted:
		if p.Answer != nil && b.said[p.Answer.Digest] == 0 {
			n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/answer", p.Answer))
		}
	case *trajectory.ContextCompiled, *trajectory.TransportRequest, *trajectory.CheckpointSaved, *trajectory.MemoryRetrieved:
		n.Minor = true
		if r, ok := p.(*trajectory.MemoryRetrieved); ok && r.Query != nil {
			n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/query", r.Query))
		}
	case *trajectory.HandedOff:
		if p.Input != nil {
			n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/input", p.Input))
		}
	case *trajectory.TestRun:
		item.Bad = !p.Passed
		n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/output", &p.Output))
	case *trajectory.WorldStarted:
		n.Minor = true
		n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/tools", &p.Tools))
	case *trajectory.WorldState:
		n.Minor = p.Phase == trajectory.WorldBefore
		n.Texts = append(n.Texts, *contentOf(e.Seq, "/payload/state", &p.State))
	case *trajectory.PolicyDecision:
		n.Decisions = append(n.Decisions, Decision{e.Seq, p.Verdict, p.Rule, p.Reason})
	case *trajectory.RunFailed, *trajectory.PolicyViolation, *trajectory.LimitReached, *trajectory.Failure, *trajectory.UserBrokeRule:
		item.Bad = true
	case *trajectory.SecurityEvent:
		item.Bad = p.Severity != "info"
	}
	if r, ok := e.Payload.(*trajectory.TransportRequest); ok && (r.Error != "" || r.Status >= 400) {
		n.Minor, item.Bad = false, true
	}
	b.begin(e, item)
	if call := callNamed(e.Payload); call != "" && b.byCall[call] == nil {
		b.byCall[call] = item
	}
}

// isNext reports whether the first turn says a text, which need not be said twice.
func (b *builder) isNext(c *trajectory.Content) bool {
	for i := range b.next {
		if p, ok := b.next[i].Payload.(*trajectory.TurnStarted); ok {
			return p.Input != nil && p.Input.Digest == c.Digest
		}
	}
	return false
}

// callNamed is the proposal that an event is about; "" if it names none.
func callNamed(p trajectory.Payload) string {
	switch p := p.(type) {
	case *trajectory.PolicyDecision:
		return p.Call
	case *trajectory.PolicyViolation:
		return p.Call
	case *trajectory.ApprovalRequested:
		return p.Call
	case *trajectory.ApprovalResolved:
		return p.Call
	case *trajectory.Rollback:
		return p.Call
	case *trajectory.HandedOff:
		return p.Call
	case *trajectory.Failure:
		return p.Call
	}
	return ""
}

// attach makes what an event says a part of an item; false if the item has no place
// for it.
func (b *builder) attach(e *trajectory.Event, item *Item) bool {
	t := item.trail()
	switch p := e.Payload.(type) {
	case *trajectory.PolicyDecision:
		if t.decisions == nil {
			return false
		}
		*t.decisions = append(*t.decisions, Decision{e.Seq, p.Verdict, p.Rule, p.Reason})
	case *trajectory.ApprovalRequested:
		if t.approvals == nil {
			return false
		}
		*t.approvals = append(*t.approvals, Approval{Event: e.Seq, Reason: p.Reason})
	case *trajectory.ApprovalResolved:
		if t.approvals == nil {
			return false
		}
		if n := len(*t.approvals); n == 0 || (*t.approvals)[n-1].Answer > 0 {
			*t.approvals = append(*t.approvals, Approval{})
		}
		a := &(*t.approvals)[len(*t.approvals)-1]
		a.Answer, a.Approved, a.By, a.Note = e.Seq, p.Approved, p.By, p.Note
	case *trajectory.PolicyViolation:
		if t.violations == nil {
			return false
		}
		*t.violations = append(*t.violations, Violation{e.Seq, p.Rule, p.Text, p.Unprevented})
		item.Bad = true
	case *trajectory.Failure:
		if t.problems == nil {
			return false
		}
		*t.problems = append(*t.problems, Problem{e.Seq, p.Name, p.Detail})
		item.Bad = true
	case *trajectory.Rollback:
		if t.undone == nil || *t.undone != nil {
			return false
		}
		*t.undone = &Undone{e.Seq, p.Reason, p.Identical, p.Standing}
	default:
		return false
	}
	return true
}

// A trail is where an item keeps what other events say of it.
type trail struct {
	decisions  *[]Decision
	approvals  *[]Approval
	violations *[]Violation
	problems   *[]Problem
	undone     **Undone
}

func (i *Item) trail() trail {
	switch {
	case i.Call != nil:
		c := i.Call
		return trail{&c.Decisions, &c.Approvals, &c.Violations, &c.Problems, &c.Undone}
	case i.Memory != nil:
		m := i.Memory
		return trail{&m.Decisions, &m.Approvals, &m.Violations, &m.Problems, &m.Undone}
	case i.Exchange != nil:
		return trail{problems: &i.Exchange.Problems}
	case i.Note != nil:
		return trail{decisions: &i.Note.Decisions, approvals: &i.Note.Approvals}
	}
	return trail{}
}

// conversation puts the items into their turns.
func (b *builder) conversation() *Conversation {
	c := &Conversation{Unseen: b.unseen}
	for i, item := range b.items {
		if n := len(c.Turns); n == 0 || c.Turns[n-1].N != b.turns[i] {
			c.Turns = append(c.Turns, Turn{N: b.turns[i], Seq: item.Seq()})
		}
		t := &c.Turns[len(c.Turns)-1]
		t.Items = append(t.Items, *item)
	}
	return c
}

// Find is the first item that has an event; nil if none has.
func (c *Conversation) Find(seq int) *Item {
	for i := range c.Turns {
		for j := range c.Turns[i].Items {
			if item := &c.Turns[i].Items[j]; slices.Contains(item.Events, seq) {
				return item
			}
		}
	}
	return nil
}

// String names the events of an item, as in "3 to 5, 9".
func (i Item) String() string {
	var parts []string
	for k := 0; k < len(i.Events); k++ {
		from := i.Events[k]
		for k+1 < len(i.Events) && i.Events[k+1] == i.Events[k]+1 {
			k++
		}
		if to := i.Events[k]; to > from {
			parts = append(parts, fmt.Sprintf("%d to %d", from, to))
		} else {
			parts = append(parts, fmt.Sprint(from))
		}
	}
	return strings.Join(parts, ", ")
}
