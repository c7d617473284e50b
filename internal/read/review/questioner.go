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
	lines chan string
}

// NewQuestioner asks on out and reads from in, until ctx ends.
func NewQuestioner(ctx context.Context, in io.Reader, out io.Writer) *Questioner {
	q := &Questioner{ctx, out, make(chan string)}
	go func() {
		defer close(q.lines)
		s := bufio.NewScanner(in)
		for s.Scan() {
			q.lines <- strings.TrimSpace(s.Text())
		}
	}()
	return q
}

// ask returns the answer, and false if the person has left.
func (q *Questioner) ask(prompt string) (string, bool) {
	io.WriteString(q.out, prompt)
	select {
	case line, ok := <-q.lines:
		return line, ok
	case <-q.ctx.Done():
		return "", false
	}
}

// settle is how long nothing may have been typed before a question is asked.
const settle = 100 * time.Millisecond

// Sure asks a question that only a yes answers with yes, until ctx ends. What was typed
// before the question was asked is no answer to it.
func (q *Questioner) Sure(ctx context.Context, prompt string) (yes bool, err error) {
	for typed := true; typed; {
		select {
		case _, typed = <-q.lines:
		case <-time.After(settle):
			typed = false
		}
	}
	io.WriteString(q.out, prompt)
	select {
	case line := <-q.lines:
		return strings.EqualFold(line, "y") || strings.EqualFold(line, "yes"), nil
	case <-q.ctx.Done():
		return false, q.ctx.Err()
	case <-ctx.Done():
		return false, ctx.Err()
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
