// Package outline says what an agent did in a run, without how it was asked: the
// calls it made with their arguments, what came of them, what it remembered and
// wrote, and what it answered, turn by turn. Two outlines are compared as people
// compare two runs: a call is missing, is new, comes in another order, has other
// arguments or gave something else. Prompts stand beside it and are compared word by
// word, so that an edited prompt is told from a changed behaviour.
//
// Of and Compare are all there is; Check compares a run with a golden file, which
// holds an outline or, written at the level exact, every event.
//
// Where it stops: long texts stand for themselves by their beginning and digest. A
// prompt is compared in the part that its event carries (2 KiB); that it differs
// beyond is told, and not how.
package outline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/trajectory"
)

// A Level says how much of what was done is compared.
type Level string

// The levels, each with what the one before has.
const (
	Structure Level = "structure" // turns, calls and their arguments, hand-offs
	Behaviour Level = "behaviour" // and what came of them: results, verdicts, memory, files, answers, the end
	Exact     Level = "exact"     // and every event with every prompt
)

// Levels lists them.
func Levels() []Level { return []Level{Structure, Behaviour, Exact} }

// Tested is the kind of move that tells how the tests of a case ended, which is part
// of its score.
const Tested = "test"

// The kinds of moves.
const (
	call     = "call"
	handoff  = "handoff"
	approval = "approval"
	remember = "memory"
	wrote    = "file"
	rollback = "rollback"
	limit    = "limit"
	tested   = Tested
	answer   = "answer"
	end      = "end"
)

func kinds() []string {
	return []string{call, handoff, approval, remember, wrote, rollback, limit, tested, answer, end}
}

// A Move is one thing that the agent did, or that came of it.
type Move struct {
	Turn    int
	Kind    string
	What    string // the tool, agent, key or path
	Detail  string // arguments, in canonical JSON; "" if there are none
	Outcome string // what came of it; only behaviour has it
}

// A Prompt is what a model was asked first.
type Prompt struct {
	Model string
	Text  string // its beginning
	Rest  string // digest and length of the whole, if that is longer
}

// An Outline is what was done in a run.
type Outline struct {
	Prompts []Prompt // of each model, in the order in which they were first asked
	Moves   []Move
}

// Of gives the outline of a run.
func Of(v *trajectory.Verified) *Outline {
	b := builder{asked: map[string]bool{}}
	for _, c := range trajectory.CallsOf(v).Calls {
		b.call(&c)
	}
	for e := range v.Events() {
		b.event(&e)
	}
	// A call stands at the event that speaks for it.
	slices.SortStableFunc(b.moves, func(x, y placed) int { return cmp.Compare(x.seq, y.seq) })
	for _, m := range b.moves {
		b.outline.Moves = append(b.outline.Moves, m.Move)
	}
	return &b.outline
}

type placed struct {
	seq int
	Move
}

type builder struct {
	outline Outline
	moves   []placed
	asked   map[string]bool
	said    string // the last answer of a turn
}

func (b *builder) add(seq, turn int, kind, what, detail, outcome string) {
	b.moves = append(b.moves, placed{seq, Move{turn, kind, what, detail, outcome}})
}

func (b *builder) call(c *trajectory.ToolCall) {
	b.add(c.Seq, c.Turn, call, c.Name, arguments(&c.Args), resultOf(c))
}

func resultOf(c *trajectory.ToolCall) string {
	switch {
	case c.Denied:
		return "denied"
	case c.Made != nil && c.Made.Error != "":
		return "failed " + text(c.Made.Error)
	case c.Made != nil:
		return "gave " + content(&c.Made.Result)
	case c.Report != nil && c.Failed:
		return "failed " + content(c.Report.Result)
	case c.Report != nil:
		return "gave " + content(c.Report.Result)
	}
	return "not made"
}

func (b *builder) event(e *trajectory.Event) {
	add := func(kind, what, detail, outcome string) { b.add(e.Seq, e.Turn, kind, what, detail, outcome) }
	switch p := e.Payload.(type) {
	case *trajectory.ModelCallStarted:
		if !b.asked[p.Model] {
			b.asked[p.Model] = true
			b.outline.Prompts = append(b.outline.Prompts, promptOf(p))
		}
	case *trajectory.HandedOff:
		given := ""
		if p.Input != nil {
			given = content(p.Input)
		}
		add(handoff, p.From+" to "+p.To, given, "")
	case *trajectory.ApprovalResolved:
		verdict := "refused"
		if p.Approved {
			verdict = "approved"
		}
		add(approval, p.By, "", verdict)
	case *trajectory.MemoryWritten:
		add(remember, string(p.Tier)+"/"+p.Key, "", "is "+content(&p.Value))
	case *trajectory.FileWritten:
		add(wrote, p.Path, "", fmt.Sprintf("is %s, %d bytes", p.Digest, p.Bytes))
	case *trajectory.FileDeleted:
		add(wrote, p.Path, "", "is gone")
	case *trajectory.Rollback:
		add(rollback, p.Checkpoint, "", text(p.Reason))
	case *trajectory.LimitReached:
		add(limit, p.Limit, "", fmt.Sprint(p.Max))
	case *trajectory.TestRun:
		add(tested, "", "", fmt.Sprintf("passed %v", p.Passed))
	case *trajectory.TurnCompleted:
		if p.Answer != nil {
			b.said = content(p.Answer)
			add(answer, "", "", b.said)
		}
	case *trajectory.RunFailed:
		add(end, "failed", "", text(p.Name))
	case *trajectory.RunCompleted:
		outcome := ""
		if p.Answer != nil && content(p.Answer) != b.said { // mostly it is said already
			outcome = content(p.Answer)
		}
		add(end, p.Status, "", outcome)
	}
}

func promptOf(p *trajectory.ModelCallStarted) Prompt {
	prompt := Prompt{Model: p.Model, Text: p.Prompt.Head}
	if p.Prompt.Truncated && !p.Prompt.Redacted {
		prompt.Rest = fmt.Sprintf("%s, %d bytes", p.Prompt.Digest, p.Prompt.Bytes)
	}
	return prompt
}

// maxShown is how much of a text an outline has. A longer one has its digest.
const maxShown = 120

// content stands for a text: all of it, or its beginning with its digest. Of a text
// with secrets only what is left is compared, as its digest changes with them.
func content(c *trajectory.Content) string {
	if c.Redacted {
		return "redacted " + text(cut(c.Head))
	}
	if !c.Truncated && !c.Lossy && len(c.Head) <= maxShown+80 { // a digest would be no shorter
		return text(c.Head)
	}
	return fmt.Sprintf("%s… %s, %d bytes", text(cut(c.Head)), c.Digest, c.Bytes)
}

func cut(s string) string {
	for i := range s {
		if i > maxShown {
			return s[:i]
		}
	}
	return s
}

// text is a JSON string in which everything can be seen.
func text(s string) string {
	out, err := canon.Marshal(s)
	if err != nil {
		return strconv.QuoteToASCII(s) // it is not UTF-8, which events are
	}
	return string(plain.JSON(out))
}

// arguments are those of a call, in canonical JSON; long ones by their digest.
func arguments(a *trajectory.Args) string {
	if a.Raw != nil {
		return "raw " + content(a.Raw)
	}
	shown := make(map[string]any, len(a.Values)+len(a.Cut))
	for name, value := range a.Values {
		shown[name] = value
	}
	for name, c := range a.Cut {
		shown[name] = fmt.Sprintf("%s, %d bytes", c.Digest, c.Bytes)
	}
	out, err := canon.Marshal(shown)
	if err != nil || len(out) > 1000 {
		return fmt.Sprintf("%s, %d bytes", a.Digest, a.Bytes)
	}
	return string(plain.JSON(out))
}
