package desk

import (
	"context"
	"fmt"
	"io"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/history"
	"tallystick/internal/read/review"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/plain"
)

// An Act is what a person is asked to sign, as it was read from the disk.
type Act struct {
	Kind    string
	Person  string
	Request string // the same in the browser and where the person is asked
	Attempt string
	Case    string
	Repeat  int

	Blind       bool
	Item        *review.Item
	Before      *scorecard.GivenLabel // what the person said before
	Label, Note string
	Correction  ceremony.CorrectOptions

	Draft *Draft
}

// Short says in a few words what is to be signed.
func (a *Act) Short() string {
	switch a.Kind {
	case Label:
		return fmt.Sprintf("the label %s for %s%s of %s", a.Label, a.Case, history.RepeatMark(a.Repeat), a.Attempt)
	case Correct:
		return fmt.Sprintf("the score %v for %s%s of %s", a.Correction.Score, a.Case, history.RepeatMark(a.Repeat), a.Attempt)
	case Sign:
		return fmt.Sprintf("draft %s of class %s", a.Case, a.Draft.Class)
	}
	return fmt.Sprintf("that draft %s of class %s becomes a case", a.Case, a.Draft.Class)
}

// Bounds of a text where the person is asked: what is signed stands below it, and must
// not be pushed off the screen. The browser shows the whole.
const (
	maxAskedLines = 14
	maxAskedLine  = 600
)

const margin = "         "

// Print shows an act where the person is asked. Everything in it that came from an agent,
// a case or a file is made safe; none of it can begin a line.
func (a *Act) Print(out io.Writer) {
	fmt.Fprintf(out, "\n--- request %s, from the browser; this is what the disk has\n", a.Request)
	if a.Draft != nil {
		a.printDraft(out)
	} else {
		a.printCase(out)
	}
	switch a.Kind {
	case Label:
		fmt.Fprintf(out, "label    %s   (%s)\n", plain.Line(a.Label), plain.Line(a.Item.Question))
		if a.Note != "" {
			fmt.Fprintf(out, "note     %s\n", shortened(a.Note))
		}
		if a.Before != nil {
			fmt.Fprintf(out, "before   you said %s; it stays in the ledger and no longer counts\n", plain.Line(a.Before.Label))
		}
		if a.Blind {
			fmt.Fprintf(out, "blind    you did not see what others think of it\n")
		}
	case Correct:
		c := a.Correction
		fmt.Fprintf(out, "score    %s → %s %s\n", wasScored(a.Item.Machine), plain.Number(c.Score), plain.Line(c.Outcome))
		fmt.Fprintf(out, "reason   %s\n", shortened(c.Reason))
	case Accept:
		fmt.Fprintf(out, "accept   it becomes a case; the ledger records its two signatures\n")
	}
	fmt.Fprintf(out, "signs    %s: %s\n", plain.Line(a.Person), plain.Line(a.Short()))
}

func wasScored(m *review.Machine) string {
	if m == nil {
		return "?"
	}
	if m.Score == nil {
		return plain.Line(m.Outcome)
	}
	return plain.Number(*m.Score) + " " + plain.Line(m.Outcome)
}

func (a *Act) printCase(out io.Writer) {
	fmt.Fprintf(out, "case     %s%s of %s\n", plain.Line(a.Case), history.RepeatMark(a.Repeat), plain.Line(a.Attempt))
	for _, asked := range a.Item.Asked[:min(len(a.Item.Asked), 3)] {
		fmt.Fprintf(out, "asked    %s\n", shortened(asked))
	}
	if more := len(a.Item.Asked) - 3; more > 0 {
		fmt.Fprintf(out, "         … and %s\n", plain.Plural(more, "further turn"))
	}
	fmt.Fprintf(out, "did      %s\n", plain.Plural(len(a.Item.Steps), "step"))
	fmt.Fprintf(out, "answer   %s\n", shortened(a.Item.Answer))
}

func (a *Act) printDraft(out io.Writer) {
	fmt.Fprintf(out, "draft    %s of class %s: %s\n", plain.Line(a.Case), plain.Line(a.Draft.Class), plain.Line(a.Draft.Title))
	fmt.Fprintf(out, "yaml     %s\n", shortened(a.Draft.YAML))
	for _, f := range a.Draft.Files {
		fmt.Fprintf(out, "file     %s, %s\n", plain.Line(f.Path), plain.Plural(f.Bytes, "byte"))
	}
	fmt.Fprintf(out, "digest   %s\n", a.Draft.Digest)
}

// shortened is a text with its middle left out where it is long, safe to print.
func shortened(text string) string {
	lines := strings.Split(plain.Shorter(text, maxAskedLines), "\n")
	if len(lines) > maxAskedLines+2 {
		lines = lines[:maxAskedLines+2]
	}
	for i, line := range lines {
		if cut := []rune(line); len(cut) > maxAskedLine {
			lines[i] = string(cut[:maxAskedLine]) + fmt.Sprintf(" … (%d letters left out)", len(cut)-maxAskedLine)
		}
	}
	return plain.Lines(strings.Join(lines, "\n"), margin)
}

// do does what the person said yes to.
func (a *Act) do(ctx context.Context, d *Desk) (string, error) {
	switch a.Kind {
	case Label:
		return a.label(ctx, d)
	case Correct:
		return a.correct(ctx, d)
	case Sign:
		return a.sign(d)
	}
	done, err := ceremony.Accept(ctx, d.corpus, ceremony.AcceptOptions{Class: a.Draft.Class, CaseID: a.Case, Covers: a.Draft.Covers})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("draft %s is a case of %s as of entry %d; next: tally bench digest %s, and two people sign the class", a.Case, a.Draft.Class, done.Position.Index, a.Draft.Class), nil
}
