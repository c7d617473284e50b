package conversation

import (
	"fmt"
	"strings"

	"tallystick/internal/record/plain"
)

// Markdown is the conversation as a text for people to keep. What others wrote stands in
// quotations, every line of it, so that no text can look like a heading of ours; what
// steers a terminal is spelled out.
func (c *Conversation) Markdown() string {
	w := &markdown{}
	for _, t := range c.Turns {
		if t.N == 0 {
			w.line("\n## Before the first turn\n")
		} else {
			w.line("\n## Turn %d\n", t.N)
		}
		for i := range t.Items {
			w.item(&t.Items[i])
		}
	}
	if c.Unseen != "" {
		w.line("\n%s", plain.Line(c.Unseen))
	}
	return w.String()
}

type markdown struct{ strings.Builder }

func (w *markdown) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// quote writes a text of somebody else.
func (w *markdown) quote(t *Text) {
	if t.IsEmpty() {
		return
	}
	w.line("")
	for line := range strings.Lines(t.Head) {
		w.line("%s", strings.TrimRight("> "+plain.Block(strings.TrimRight(line, "\r\n")), " "))
	}
	if t.Cut {
		w.line(">\n> … (cut: %s in all)", plain.Plural(int(t.Bytes), "byte"))
	}
	w.line("")
}

func (w *markdown) item(i *Item) {
	place := "(" + eventNames(i) + ")"
	switch {
	case i.Speech != nil:
		who := roleName(i.Speech.Role)
		if i.Speech.By != "" {
			who += " (" + plain.Line(string(i.Speech.By)) + ")"
		}
		w.line("**%s** %s", who, place)
		if i.Speech.Same > 0 {
			w.line("\nThe same as in event %d.\n", i.Speech.Same)
		}
		w.quote(i.Speech.Text)
	case i.Exchange != nil:
		w.exchange(i.Exchange, place)
	case i.Call != nil:
		w.call(i.Call, place)
	case i.Memory != nil:
		word := "wants to remember"
		if i.Memory.Written {
			word = "remembers"
		}
		w.line("**Memory** %s %s %s/%s", place, word, i.Memory.Tier, plain.Line(i.Memory.Key))
		if i.Memory.Before != nil {
			w.line("\nBefore:")
			w.quote(i.Memory.Before)
			w.line("Now:")
		}
		w.quote(&i.Memory.After)
		w.decisions(i.Memory.Decisions, i.Memory.Approvals, i.Memory.Violations)
	case i.Files != nil:
		w.line("**Files** %s\n", place)
		for _, f := range i.Files.Changed {
			how := fmt.Sprintf("%d bytes", f.Bytes)
			if f.Deleted {
				how = "deleted"
			}
			w.line("- %s, %s", plain.Line(f.Path), how)
		}
		w.line("")
	case i.Note != nil:
		w.line("*%s* %s %s", i.Note.Type, place, plain.Line(shortened(i.Note.Summary)))
		for k := range i.Note.Texts {
			w.quote(&i.Note.Texts[k])
		}
		w.decisions(i.Note.Decisions, i.Note.Approvals, nil)
		w.line("")
	}
}

func (w *markdown) exchange(x *Exchange, place string) {
	for k := range x.Request.New {
		m := &x.Request.New[k]
		w.line("**%s**, to the model (event %d)", roleName(m.Role), m.Text.Event)
		w.quote(&m.Text)
	}
	w.line("**%s** %s%s", roleName(Assistant), place, model(x.Model))
	w.quote(x.Reply)
	if len(x.Calls) > 0 {
		w.line("\nAsks for: %s\n", plain.Line(strings.Join(x.Calls, ", ")))
	}
	for k := range x.Untold {
		w.line("\nAsks for %s, of which no other event tells:", plain.Line(x.Untold[k].Name))
		w.quote(&x.Untold[k].Value)
	}
	if x.Error != "" {
		w.line("\nError: %s\n", plain.Line(x.Error))
	}
	w.problems(x.Problems)
}

func model(name string) string {
	if name == "" {
		return ""
	}
	return " " + plain.Line(name)
}

func (w *markdown) call(c *Call, place string) {
	name := c.Name
	if name == "" {
		name = "a tool without a name"
	}
	w.line("**Tool** %s %s, %s", place, plain.Line(name), c.Vantage)
	for k := range c.Args {
		if c.Args[k].Name != "" {
			w.line("\n%s:", plain.Line(c.Args[k].Name))
		}
		w.quote(&c.Args[k].Value)
	}
	w.decisions(c.Decisions, c.Approvals, c.Violations)
	if c.Stopped {
		w.line("\nNot made.\n")
	}
	if c.Error != "" {
		w.line("\nError: %s\n", plain.Line(c.Error))
	}
	w.problems(c.Problems)
	for _, result := range []struct {
		what string
		text *Text
	}{{"Result:", c.Result}, {"What the agent told its model:", c.Reported}} {
		if !result.text.IsEmpty() {
			w.line("\n%s", result.what)
			w.quote(result.text)
		}
	}
	if c.Undone != nil {
		w.line("\nUndone: %s\n", plain.Line(c.Undone.Reason))
	}
}

func (w *markdown) decisions(list []Decision, approvals []Approval, violations []Violation) {
	for _, d := range list {
		w.line("\nPolicy: %s by %s: %s", d.Verdict, plain.Line(d.Rule), plain.Line(d.Reason))
	}
	for _, a := range approvals {
		switch {
		case a.Answer == 0:
			w.line("\nApproval: asked for, not answered: %s", plain.Line(a.Reason))
		case a.Approved:
			w.line("\nApproval: given by %s", plain.Line(a.By))
		default:
			w.line("\nApproval: refused by %s", plain.Line(a.By))
		}
	}
	for _, v := range violations {
		w.line("\nViolation of %s: %s", plain.Line(v.Rule), plain.Line(v.Text))
	}
}

func (w *markdown) problems(list []Problem) {
	for _, p := range list {
		w.line("\nError %s: %s\n", plain.Line(p.Name), plain.Line(p.Detail))
	}
}

func roleName(role string) string {
	switch role {
	case User:
		return "User"
	case Assistant:
		return "Assistant"
	case System:
		return "System"
	case Tool:
		return "Tool result"
	case Plan:
		return "Plan"
	}
	return plain.Line(role)
}

func eventNames(i *Item) string {
	if len(i.Events) == 1 {
		return fmt.Sprintf("event %d", i.Events[0])
	}
	return "events " + i.String()
}

// shortened is the beginning of a summary, which is as long as what it tells.
func shortened(s string) string {
	const most = 300
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
