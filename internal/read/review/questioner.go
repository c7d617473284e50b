package review

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/plain"
)

// A Questioner reads the answers of one person. It reads in a goroutine of its own:
// a read cannot be interrupted, and Ctrl-C must end the command.
type Questioner struct {
	ctx   context.Context
	out   io.Writer
	lines chan typed
}

// A typed is a line, and when it was there.
type typed struct {
	line string
	at   time.Time
}

// typedAhead is how many lines a person may be ahead of the questions.
const typedAhead = 4096

// NewQuestioner asks on out and reads from in, until ctx ends.
func NewQuestioner(ctx context.Context, in io.Reader, out io.Writer) *Questioner {
	q := &Questioner{ctx, out, make(chan typed, typedAhead)}
	go func() {
		defer close(q.lines)
		s := bufio.NewScanner(in)
		for s.Scan() {
			q.lines <- typed{strings.TrimSpace(s.Text()), time.Now()}
		}
	}()
	return q
}

// ask returns the answer, and false if the person has left.
func (q *Questioner) ask(prompt string) (string, bool) {
	io.WriteString(q.out, prompt)
	select {
	case t, ok := <-q.lines:
		return t.line, ok
	case <-q.ctx.Done():
		return "", false
	}
}

// settle is how long is waited before a question, so that what was typed before it is
// there.
const settle = 100 * time.Millisecond

// Sure asks a question that only a yes answers with yes, until ctx ends. What was typed
// before the question was asked is no answer to it.
func (q *Questioner) Sure(ctx context.Context, prompt string) (yes bool, err error) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	asked := time.Now()
	io.WriteString(q.out, prompt)
	for {
		select {
		case t, ok := <-q.lines:
			if ok && t.at.Before(asked) {
				continue
			}
			return strings.EqualFold(t.line, "y") || strings.EqualFold(t.line, "yes"), nil
		case <-q.ctx.Done():
			return false, q.ctx.Err()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// Label asks until the answer is one of names; "" skips the case.
func (q *Questioner) Label(names []string) (label, note string, ok bool) {
	for {
		said, ok := q.ask(fmt.Sprintf("label [%s], Enter to skip, q to leave: ", plain.Line(strings.Join(names, "/"))))
		if !ok {
			return "", "", false
		}
		label = labelNamed(names, said)
		switch {
		case label != "":
			note, ok = q.ask("note, Enter for none: ")
			return label, note, ok
		case said == "":
			return "", "", true
		case said == "q":
			return "", "", false
		}
		fmt.Fprintf(q.out, "%q is not one of them\n", said)
	}
}

// labelNamed is the label that the reviewer means by its name, its number from 1, or the
// only beginning that fits.
func labelNamed(names []string, said string) string {
	if n, err := strconv.Atoi(said); err == nil && n >= 1 && n <= len(names) {
		return names[n-1]
	}
	found := ""
	for _, name := range names {
		switch {
		case name == said:
			return name
		case said == "" || !strings.HasPrefix(name, said):
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}
