package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/read/conversation"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/trajectory"
)

// Bounds of a text that is not folded.
const (
	foldLines   = 12
	foldLetters = 900
)

// A talk prints a conversation for people: who said what, with the number of the event
// that has it, so that it can be found with --events and proved.
type talk struct {
	out     io.Writer
	full    bool
	columns int // of the terminal; 0 in a pipe, where nothing is broken
	folded  int // texts that were
	agents  map[string]bool
	turn    int // whose heading is still to be printed; -1 if none is
}

// talkMargin is where what was said begins.
const talkMargin = 18

func (t *talk) print(c *conversation.Conversation) {
	t.agents = map[string]bool{}
	for _, turn := range c.Turns {
		for i := range turn.Items {
			if x := turn.Items[i].Speech; x != nil && x.Agent != "" {
				t.agents[x.Agent] = true
			}
		}
	}
	for _, turn := range c.Turns {
		t.turn = turn.N
		for i := range turn.Items {
			t.item(&turn.Items[i])
		}
	}
	if c.Unseen != "" {
		fmt.Fprintf(t.out, "\nunseen   %s\n", plain.Line(c.Unseen))
	}
}

func (t *talk) item(i *conversation.Item) {
	switch {
	case i.Speech != nil:
		t.speech(i)
	case i.Exchange != nil:
		t.exchange(i)
	case i.Call != nil:
		t.call(i)
	case i.Memory != nil:
		t.memory(i)
	case i.Files != nil:
		t.files(i)
	case i.Note != nil && (t.full || !i.Note.Minor):
		t.note(i)
	}
}

// line begins an item: the event, who speaks, and what.
func (t *talk) line(event int, who, text string) {
	if t.turn >= 0 {
		fmt.Fprintf(t.out, "\n%s\n", heading.of(fmt.Sprintf("turn %d", t.turn)))
		t.turn = -1
	}
	fmt.Fprintf(t.out, "%5d  %-11s%s\n", event, who, t.wrapped(text))
}

// more goes on with an item.
func (t *talk) more(text string) {
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat(" ", talkMargin), t.wrapped(text))
}

// wrapped breaks lines between words where a terminal would break them anywhere, as in the
// middle of a number. Its text is safe to print.
func (t *talk) wrapped(text string) string {
	room := t.columns - talkMargin
	if room < 20 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for utf8.RuneCountInString(line) > room {
			head := string([]rune(line)[:room+1])
			at := strings.LastIndexByte(head, ' ')
			if at <= len(head)-len(strings.TrimLeft(head, " ")) { // a word that fills the line
				break
			}
			lines, line = append(lines, line[:at]), strings.Repeat(" ", talkMargin)+line[at+1:]
			room = t.columns
		}
		lines, room = append(lines, line), t.columns
	}
	return strings.Join(lines, "\n")
}

// text is what was said, made safe, and folded where it is long.
func (t *talk) text(x *conversation.Text) string {
	if x.IsEmpty() {
		return "(nothing)"
	}
	s, more := x.Head, ""
	if x.Redacted {
		more = " (redacted)"
	}
	if x.Cut {
		more += " … (" + plain.Plural(int(x.Bytes), "byte") + " in all)"
	}
	if lines := strings.Split(s, "\n"); !t.full && (len(lines) > foldLines || utf8.RuneCountInString(s) > foldLetters) {
		kept := strings.Join(lines[:min(len(lines), foldLines)], "\n")
		if r := []rune(kept); len(r) > foldLetters {
			kept = string(r[:foldLetters])
		}
		t.folded++
		more = fmt.Sprintf(" … (%s of %d shown)", plain.Plural(utf8.RuneCountInString(kept), "letter"), utf8.RuneCountInString(s)) + more
		s = kept
	}
	return plain.Lines(s, strings.Repeat(" ", talkMargin)) + more
}

func (t *talk) speech(i *conversation.Item) {
	x := i.Speech
	who := plain.Line(x.Role)
	switch {
	case x.Text != nil && x.Ends:
		t.line(i.Seq(), "answer", t.text(x.Text))
	case x.Text != nil:
		t.line(i.Seq(), who, t.text(x.Text))
	case x.Same != 0 && x.Ends:
		t.line(i.Seq(), "answer", fmt.Sprintf("as said in event %d", x.Same))
	case x.Same != 0:
		t.line(i.Seq(), who, fmt.Sprintf("as in event %d", x.Same))
	}
	if x.Agent != "" && len(t.agents) > 1 {
		t.more("to the agent " + plain.Line(x.Agent))
	}
	if x.By != "" {
		t.more("simulated by a " + plain.Line(string(x.By)))
	}
	for _, s := range x.Scores {
		t.more("its own process scored it " + plain.Line(reportedScore(s)))
	}
}

// exchange tells what a model was told anew, what it replied, and what that took.
func (t *talk) exchange(i *conversation.Item) {
	x := i.Exchange
	for _, m := range x.Request.New {
		t.line(m.Text.Event, roleOf(m.Role), t.text(&m.Text))
	}
	var took []string
	for _, s := range []string{x.Model, plural(x.TokensIn, "token in", "tokens in"), plural(x.TokensOut, "token out", "tokens out"), costOf(x), tookText(x.Latency), x.Source, x.Finish} {
		if s != "" {
			took = append(took, plain.Line(s))
		}
	}
	at := x.Replied
	if at == 0 {
		at = i.Seq()
	}
	switch {
	case !x.Reply.IsEmpty():
		t.line(at, "assistant", t.text(x.Reply))
	case len(x.Calls)+len(x.Untold) > 0:
		t.line(at, "assistant", "calls "+plain.Line(strings.Join(slices.Concat(x.Calls, argNames(x.Untold)), ", ")))
	default:
		t.line(at, "assistant", "(no words)")
	}
	t.more("· " + strings.Join(took, " · "))
	if x.Error != "" {
		t.more(bad.of("error ") + plain.Line(x.Error))
	}
	t.problems(x.Problems)
}

func roleOf(role string) string {
	if len(role) > 9 {
		role = role[:9]
	}
	return plain.Line(role)
}

func argNames(args []conversation.Arg) (names []string) {
	for _, a := range args {
		names = append(names, a.Name)
	}
	return names
}

func plural(n int64, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

func costOf(x *conversation.Exchange) string {
	if x.Cost.Dollars() == nil || *x.Cost.Dollars() == 0 {
		return ""
	}
	return x.Cost.String()
}

func tookText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// call tells everything about one call of a tool in one block.
func (t *talk) call(i *conversation.Item) {
	x := i.Call
	name := x.Name
	if name == "" {
		name = "a tool without a name"
	}
	t.line(i.Seq(), "tool", heading.of(plain.Line(name))+"  "+plain.Line(string(x.Vantage)))
	for _, a := range x.Args {
		t.more(plain.Line(a.Name) + ": " + t.text(&a.Value))
	}
	t.decisions(x.Decisions, x.Approvals, x.Violations)
	t.problems(x.Problems)
	switch {
	case x.Stopped, x.Denied:
		t.more(bad.of("not made"))
	case x.Error != "":
		t.more(bad.of("failed ") + plain.Line(x.Error))
	}
	if !x.Result.IsEmpty() {
		t.more("gave " + t.text(x.Result))
	}
	if !x.Reported.IsEmpty() {
		t.more("told its model: " + t.text(x.Reported))
	}
	if x.Undone != nil {
		t.more("undone: " + plain.Line(x.Undone.Reason))
	}
}

func (t *talk) decisions(decisions []conversation.Decision, approvals []conversation.Approval, violations []conversation.Violation) {
	for _, d := range decisions {
		t.more("policy " + plain.Line(strings.TrimSpace(string(d.Verdict)+" "+d.Rule+" "+d.Reason)))
	}
	for _, a := range approvals {
		word := "no answer"
		if a.Answer != 0 {
			word = map[bool]string{true: "approved", false: "refused"}[a.Approved] + " by " + a.By
		}
		t.more("asked " + plain.Line(a.Reason+": "+word+" "+a.Note))
	}
	for _, v := range violations {
		t.more(bad.of("violation ") + plain.Line(v.Rule+" "+v.Text))
	}
}

func (t *talk) problems(problems []conversation.Problem) {
	for _, p := range problems {
		t.more(bad.of("problem ") + plain.Line(p.Name+" "+p.Detail))
	}
}

func (t *talk) memory(i *conversation.Item) {
	x := i.Memory
	word := "wants to remember"
	if x.Written {
		word = "remembers"
	}
	t.line(i.Seq(), "memory", word+" "+plain.Line(string(x.Tier)+" "+x.Key)+": "+t.text(&x.After))
	if !x.Before.IsEmpty() {
		t.more("before: " + t.text(x.Before))
	}
	t.decisions(x.Decisions, x.Approvals, x.Violations)
	t.problems(x.Problems)
}

func (t *talk) files(i *conversation.Item) {
	for _, f := range i.Files.Changed {
		word := "changed"
		switch {
		case f.Deleted:
			word = "deleted"
		case f.New:
			word = "new"
		}
		t.line(f.Event, "file", word+" "+plain.Line(f.Path)+", "+plain.Plural(int(f.Bytes), "byte"))
	}
}

func (t *talk) note(i *conversation.Item) {
	t.line(i.Seq(), "·", plain.Line(string(i.Note.Type)+" "+i.Note.Summary))
	for k := range i.Note.Texts {
		t.more(t.text(&i.Note.Texts[k]))
	}
	t.decisions(i.Note.Decisions, i.Note.Approvals, nil)
}

// reportedScore is a score that the agent's own process gave.
func reportedScore(s trajectory.ReportedScore) string {
	said := "nothing"
	switch {
	case s.Skipped:
		said = "skipped"
	case s.Score != nil:
		said = plain.Number(*s.Score)
	}
	return strings.TrimSpace(s.Name + " " + said + " " + s.Reason)
}
