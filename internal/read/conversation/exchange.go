package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ask adds a request to a model.
func (b *builder) ask(e *trajectory.Event, p *trajectory.ModelCallStarted) {
	x := &Exchange{Model: p.Model, Provider: p.Provider, Asked: e.Seq}
	x.Request = Request{Messages: p.Messages, Whole: contentOf(e.Seq, "/payload/prompt", &p.Prompt), Tools: p.Tools}
	x.Request.Whole.IsJSON = true
	for _, name := range slices.Sorted(maps.Keys(p.Definitions)) {
		d := p.Definitions[name]
		t := *contentOf(e.Seq, "/payload/definitions/"+escape(name), &d)
		t.IsJSON = true
		x.Request.Definitions = append(x.Request.Definitions, Arg{name, t})
	}
	b.look(&x.Request, p)
	b.byCall[p.Call] = b.begin(e, &Item{Exchange: x})
	b.last = b.byCall[p.Call]
}

// look finds what is new in a request.
func (b *builder) look(r *Request, p *trajectory.ModelCallStarted) {
	whole, ok := b.wholeOf(&p.Prompt)
	if !ok {
		r.Unread = "the whole request is not at hand"
		return
	}
	var doc any
	if json.Unmarshal(whole, &doc) != nil {
		b.lookAtText(r, p)
		return
	}
	api, err := wire.Recognise(p.Provider, whole)
	var request wire.Request
	if err == nil {
		request, err = wire.ReadRequest(api, whole)
	}
	if err != nil {
		r.Unread = "it is not in the form of an API that is known"
		return
	}
	before := b.partial && !b.asked // what the requests before this part said is not known
	b.asked = true
	places := leaves(doc)
	for _, x := range request.System {
		b.part(r, before, System, &x, places)
	}
	for _, m := range request.Messages {
		for _, x := range m.Parts {
			b.part(r, before, m.Role, &x, places)
		}
	}
}

// lookAtText is look for a prompt that is one text.
func (b *builder) lookAtText(r *Request, p *trajectory.ModelCallStarted) {
	r.Whole.IsJSON = false
	if key := (part{User, p.Prompt.Digest}); b.said[p.Prompt.Digest] > 0 || b.parts[key] {
		r.Repeated++
	} else {
		b.parts[key] = true
		r.New = append(r.New, Message{User, *r.Whole})
	}
}

// part adds a piece of a request if it was not said before.
func (b *builder) part(r *Request, before bool, role string, x *wire.Part, places map[string]string) {
	text := x.Text
	switch {
	case x.Call != nil:
		// Calls have items of their own, and the model's reply names them.
		r.Repeated++
		return
	case x.Result != nil:
		role, text = Tool, x.Result.Text
	}
	if text == "" {
		return
	}
	key := part{role, digest.ContentOf([]byte(text))}
	known := b.said[key.text] > 0 || b.parts[key] || x.Result != nil && b.said[digest.ContentOf([]byte(x.Result.Sent))] > 0
	b.parts[key] = true
	if known || before {
		r.Repeated++
		return
	}
	if role == "developer" {
		role = System
	}
	m := Message{role, Text{Event: r.Whole.Event, At: r.Whole.At, IsContent: true, IsWhole: true, In: places[text], Head: text, Bytes: int64(len(text)), Digest: r.Whole.Digest, Redacted: r.Whole.Redacted}}
	if m.Text.In == "" { // it is put together from several, or is a part of one
		m.Text.At = ""
	}
	r.New = append(r.New, m)
}

// leaves are the texts of a document, with the first place of each.
func leaves(doc any) map[string]string {
	out := map[string]string{}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch x := v.(type) {
		case string:
			if _, known := out[x]; !known {
				out[x] = at
			}
		case []any:
			for i := range x {
				walk(x[i], fmt.Sprintf("%s/%d", at, i))
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(x)) {
				walk(x[name], at+"/"+escape(name))
			}
		}
	}
	walk(doc, "")
	return out
}

// wholeOf is the whole text that a content stands for, if it is at hand.
func (b *builder) wholeOf(c *trajectory.Content) ([]byte, bool) {
	if !c.Truncated && !c.Lossy {
		return []byte(c.Head), true
	}
	return b.options.Whole(c.Digest)
}

// whole gives a text as much as the evidence has, up to what people read at once.
func (b *builder) whole(t *Text) {
	if !t.Cut || t.IsJSON {
		return
	}
	if whole, ok := b.options.Whole(t.Digest); ok && isText(whole) {
		t.Head, t.IsWhole, t.Cut = string(whole), true, false
	}
}

// reply adds what a model answered.
func (b *builder) reply(e *trajectory.Event, p *trajectory.ModelCallCompleted) {
	item := b.byCall[p.Call]
	if item == nil || item.Exchange == nil || item.Exchange.Replied > 0 {
		item = b.begin(e, &Item{Exchange: &Exchange{}})
		b.byCall[p.Call], b.last = item, item
	} else {
		b.join(e, item)
	}
	x := item.Exchange
	x.Replied, x.Finish, x.Source, x.Error = e.Seq, p.FinishReason, p.Source, p.Error
	x.TokensIn, x.TokensOut, x.Latency = p.TokensIn, p.TokensOut, milliseconds(p.LatencyMS)
	_, x.Cost = p.Spent()
	item.Bad = item.Bad || p.Error != ""
	b.words(x, e.Seq, &p.Output)
}

// words takes a reply apart: what it says, and which tools it asks for.
func (b *builder) words(x *Exchange, seq int, c *trajectory.Content) {
	whole, ok := b.wholeOf(c)
	said := trajectory.ParseSaid(string(whole))
	if !ok || len(said.Calls) == 0 {
		if x.Reply = contentOf(seq, "/payload/output", c); ok && c.Truncated {
			b.whole(x.Reply)
		}
		if x.Reply.IsEmpty() {
			x.Reply = nil
		}
		b.note(seq, c)
		return
	}
	if said.Text != "" {
		d := digest.ContentOf([]byte(said.Text))
		x.Reply = &Text{Event: seq, At: "/payload/output", In: "/text", IsContent: true, IsWhole: c.Truncated, Head: said.Text, Bytes: int64(len(said.Text)), Digest: c.Digest, Redacted: c.Redacted}
		if b.said[d] == 0 {
			b.said[d] = seq
		}
	}
	told := map[part]int{}
	for i := range b.next {
		if a := argsIn(b.next[i].Payload); a != nil {
			told[part{toolNamed(b.next[i].Payload), a.Digest}]++
		} else if _, ends := b.next[i].Payload.(*trajectory.ModelCallCompleted); ends {
			break
		}
	}
	for i, call := range said.Calls {
		key := part{call.Name, trajectory.NewArgs([]byte(call.Args)).Digest}
		if told[key] > 0 {
			told[key]--
			x.Calls = append(x.Calls, call.Name)
			continue
		}
		x.Untold = append(x.Untold, Arg{call.Name, Text{Event: seq, At: "/payload/output", In: fmt.Sprintf("/tool_calls/%d/args", i), IsContent: true, IsWhole: c.Truncated, Head: call.Args, Bytes: int64(len(call.Args)), Digest: c.Digest, Redacted: c.Redacted}})
	}
}

// toolNamed is the tool that an event proposes.
func toolNamed(p trajectory.Payload) string {
	switch p := p.(type) {
	case *trajectory.ToolProposed:
		return p.Name
	case *trajectory.ToolObserved:
		return p.Name
	}
	return ""
}

// isText reports whether a text can be shown as it is.
func isText(data []byte) bool { return utf8.Valid(data) }
