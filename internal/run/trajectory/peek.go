package trajectory

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"tallystick/internal/record/digest"
)

// A Peeked is a window of an unverified trajectory.
type Peeked struct {
	Lines   [][]byte
	Outline []Outlined // of these lines
	From    int        // number of the first
	Total   int        // events, by the number that the last line says
}

// Peek reads n events of a trajectory from the one with the number seq on, without
// verifying the trajectory, in a time that does not depend on its length: lines say
// their number, so that the first is found by halving. It refuses a window whose own
// lines do not hang together. Whether they are those that were recorded only [IndexOf]
// says, so a page that shows a window says that it is being checked.
func Peek(r *io.SectionReader, seq, n int) (*Peeked, error) {
	last, err := lastFrame(r)
	if err != nil {
		return nil, err
	}
	p := &Peeked{From: min(max(seq, 1), last.Seq), Total: last.Seq}
	at, err := seek(r, p.From)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(r, at, r.Size()-at), peekBytes)
	var head digest.ID
	for len(p.Lines) < n && p.From+len(p.Lines) <= p.Total {
		text, err := readLine(lines)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", p.From+len(p.Lines), err)
		}
		e, err := decodeFrame(text)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", p.From+len(p.Lines), err)
		}
		if len(p.Lines) == 0 && e.Seq < p.From {
			continue
		}
		if want := p.From + len(p.Lines); e.Seq != want || len(p.Lines) > 0 && e.Prev != head {
			return nil, tampered(want, fmt.Errorf("event %d stands where event %d was expected, or does not name the line before", e.Seq, want))
		}
		o, err := outlined(e)
		if err != nil {
			return nil, invalid(e.Seq, err)
		}
		head = digest.IDOf(text)
		p.Lines, p.Outline = append(p.Lines, text), append(p.Outline, o)
	}
	return p, nil
}

// peekBytes is what is read at a time; below it halving gains nothing.
const peekBytes = 64 << 10

// seek finds the offset of a line not after the event with that number, and near it.
func seek(r *io.SectionReader, seq int) (int64, error) {
	// The line of the event begins at or after low, and not after high.
	low, high := int64(0), r.Size()
	for high-low > peekBytes {
		middle := low + (high-low)/2
		lines := bufio.NewReaderSize(io.NewSectionReader(r, middle, r.Size()-middle), peekBytes)
		rest, err := readLine(lines)
		if err != nil {
			return 0, err
		}
		start := middle + int64(len(rest)) + 1
		if start > high || start == r.Size() {
			high = middle
			continue
		}
		text, err := readLine(lines)
		if err != nil {
			return 0, err
		}
		e, err := decodeFrame(text)
		if err != nil {
			return 0, err
		}
		if e.Seq <= seq {
			low = start
		} else {
			high = middle
		}
	}
	return low, nil
}

// lastFrame is the last line of a trajectory, without its payload.
func lastFrame(r *io.SectionReader) (Event, error) {
	for size := int64(peekBytes); ; size *= 4 {
		size = min(size, r.Size(), MaxLineBytes+2)
		tail := make([]byte, size)
		if _, err := r.ReadAt(tail, r.Size()-size); err != nil && err != io.EOF {
			return Event{}, fmt.Errorf("reading trajectory: %w", err)
		}
		text, ended := bytes.CutSuffix(tail, []byte("\n"))
		if !ended {
			return Event{}, errTorn
		}
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 || size == r.Size() {
			return decodeFrame(text[i+1:])
		}
		if size == MaxLineBytes+2 {
			return Event{}, errLong
		}
	}
}
