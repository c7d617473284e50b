package trajectory

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/vantage"
)

// A Pin says which head a trajectory must have. The zero Pin fits none.
type Pin struct {
	head     digest.ID
	anything bool
}

// HeadIs asks for this head, which the ledger or another trusted record holds.
func HeadIs(head digest.ID) Pin { return Pin{head: head} }

// UnsafeAnyHead accepts every head. The lines then hang together, and that is
// all: the last one may have been changed, lines may have been cut off the
// end, and its author may have written all of it anew. It is for
// files from elsewhere that nothing vouches for, and for what a crash left.
func UnsafeAnyHead() Pin { return Pin{anything: true} }

// A Verified is a trajectory whose every line has been checked. Only [Verify],
// and the [Log] that wrote it, make one, so a function that takes a *Verified
// cannot be handed an unchecked file. Its payloads must not be changed.
type Verified struct {
	events []Event
	Summary
}

// A Summary is what is known about a trajectory after all of it was read.
type Summary struct {
	head     digest.ID
	turns    int
	count    int
	complete bool
	pinned   bool
}

// Head is the SHA-256 of the last line without its newline.
func (s Summary) Head() digest.ID { return s.head }

// Turns is how many turns started.
func (s Summary) Turns() int { return s.turns }

// Len is the number of events.
func (s Summary) Len() int { return s.count }

// Complete reports whether the run has an end. What a crash left has none.
func (s Summary) Complete() bool { return s.complete }

// Pinned reports whether the head was asked for and found, so that no line was
// changed and none is missing.
func (s Summary) Pinned() bool { return s.pinned }

// Vantage is where the harness stood while the agent worked.
func (v *Verified) Vantage() vantage.Vantage {
	for i := range v.events {
		if p, ok := v.events[i].Payload.(*RunStarted); ok {
			return vantage.Of(string(p.Vantage))
		}
	}
	return vantage.Imported
}

// Events gives the events in order.
func (v *Verified) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, e := range v.events {
			if !yield(e) {
				return
			}
		}
	}
}

// A Problem is where and why a trajectory does not verify.
type Problem struct {
	Line int // from 1
	Err  error
}

func (p *Problem) Error() string { return fmt.Sprintf("line %d: %v", p.Line, p.Err) }

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Verify checks every line of a trajectory and its head. The events keep parts
// of data, which must not be changed afterwards.
func Verify(data []byte, pin Pin) (*Verified, error) {
	if len(data) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "trajectory: %d bytes, at most %d are accepted", len(data), MaxBytes)
	}
	v := &Verified{events: make([]Event, 0, bytes.Count(data, []byte("\n")))}
	var err error
	v.Summary, err = scan(func() (line []byte, err error) {
		line, data, err = cutLine(data)
		return line, err
	}, pin, func(e Event) error {
		v.events = append(v.events, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// newerLine returns [refusal.NewerFormat] if a line begins a trajectory of another
// version, else nil.
func newerLine(text []byte) error {
	var l struct {
		Payload json.RawMessage `json:"payload"`
		Type    Type            `json:"type"`
	}
	if json.Unmarshal(text, &l) != nil || l.Type != RunStartedType {
		return nil
	}
	return format.Newer("the trajectory", l.Payload, "format", Format)
}

// scan checks the lines that next gives until io.EOF.
func scan(next func() ([]byte, error), pin Pin, visit func(Event) error) (Summary, error) {
	if pin == (Pin{}) {
		return Summary{}, errors.New("verifying a trajectory: no head was given")
	}
	var o order
	var head digest.ID
	for {
		text, err := next()
		if err == io.EOF {
			break
		}
		at := o.seq + 1
		switch {
		case errors.Is(err, errTorn):
			return Summary{}, refusal.Newf(refusal.TornTail, "trajectory: %w", &Problem{at, err}).
				WithHint("a crash can leave such a line; what stands before it can be looked at as an incomplete run")
		case errors.Is(err, errLong):
			return Summary{}, invalid(at, err)
		case err != nil:
			return Summary{}, err
		}
		e, err := decode(text)
		if err != nil {
			return Summary{}, cmp.Or(newerLine(text), invalid(at, err))
		}
		if e.Prev != head {
			// follow would often say the same, but without the hashes.
			return Summary{}, tampered(at, fmt.Errorf("event %d names %s as the line before, expected %s: that line was changed, or one was dropped, added or moved", e.Seq, e.Prev, head))
		}
		if err := o.follow(&e); err != nil {
			return Summary{}, invalid(at, err)
		}
		head = digest.IDOf(text)
		if err := visit(e); err != nil {
			return Summary{}, err
		}
	}
	if o.seq == 0 {
		return Summary{}, invalid(1, errors.New("found nothing, expected run_started"))
	}
	if !pin.anything && head != pin.head {
		return Summary{}, tampered(o.seq, fmt.Errorf("the head is %s, expected %s: the last line was changed, or lines were cut off or added at the end", head, pin.head))
	}
	return Summary{head, o.turn, o.seq, o.ended, !pin.anything}, nil
}

var (
	errTorn = errors.New("the last line has no newline")
	errLong = fmt.Errorf("the line has more than %d bytes", MaxLineBytes)
)

// cutLine returns the first line of data without its newline, or io.EOF, and
// what follows it.
func cutLine(data []byte) (line, rest []byte, err error) {
	line, rest, whole := bytes.Cut(data, []byte{'\n'})
	switch {
	case len(line) > MaxLineBytes:
		return nil, nil, errLong
	case whole:
		return line[:len(line):len(line)], rest, nil
	case len(line) == 0:
		return nil, nil, io.EOF
	}
	return nil, nil, errTorn
}

// readLine returns the next line without its newline, or io.EOF. The bytes are
// the caller's: events keep parts of them.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > MaxLineBytes+1 {
			return nil, errLong
		}
		switch {
		case err == nil:
			return text[:len(text)-1], nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(text) == 0:
			return nil, io.EOF
		case err == io.EOF:
			return nil, errTorn
		default:
			return nil, fmt.Errorf("reading trajectory: %w", err)
		}
	}
}

func tampered(line int, err error) error {
	return refusal.Newf(refusal.ChainTamperDetected, "trajectory: %w", &Problem{line, err}).
		WithHint("nothing in this trajectory can be trusted; get it again from the evidence")
}

func invalid(line int, err error) error {
	return refusal.Newf(refusal.EntryInvalid, "trajectory: %w", &Problem{line, err}).
		WithHint("the format is described in docs/formats/trajectory.md; nothing in this trajectory can be trusted")
}
