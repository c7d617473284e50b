package trajectory

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
)

// An Index is a trajectory that was verified and of which windows are read: it
// keeps where events lie, and not the events. A trajectory may be larger than
// memory.
type Index struct {
	Summary
	Bytes   int64
	Outline Outline

	chunks []chunk
}

// A chunk is a run of events and the hash of its bytes, so that a window that is
// read later is known to be what was verified.
type chunk struct {
	offset, size int64
	sum          [sha256.Size]byte
}

// chunkEvents is how many events a chunk has.
const chunkEvents = 100

// IndexOf verifies that a trajectory has that name and that head, to which the
// runner committed, and that its lines hang together: no byte of it was
// changed. Unlike [Verify] it does not look whether every payload is as its
// type asks: that takes most of the time, and a reader of an event sees what it
// says.
func IndexOf(r *io.SectionReader, name digest.Content, pin Pin) (*Index, error) {
	x := &Index{Bytes: r.Size(), Outline: newOutline()}
	if x.Bytes > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "trajectory: %d bytes, at most %d are accepted", x.Bytes, int64(MaxBytes))
	}
	whole, marks := digest.NewContent(), &chunker{x: x}
	lines := bufio.NewReaderSize(io.TeeReader(io.TeeReader(r, whole), marks), 64<<10)
	var head digest.ID
	for at := 1; ; at++ {
		text, err := readLine(lines)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, invalid(at, err)
		}
		e, err := decodeFrame(text)
		if err != nil {
			return nil, invalid(at, err)
		}
		if e.Prev != head || e.Seq != at {
			return nil, tampered(at, fmt.Errorf("event %d names %s as the line before, expected %s: that line was changed, or one was dropped, added or moved", e.Seq, e.Prev, head))
		}
		o, err := outlined(e)
		if err != nil {
			return nil, invalid(at, err)
		}
		head = digest.IDOf(text)
		x.Outline.add(o)
		x.Summary = Summary{head, e.Turn, at, e.Type == RunCompletedType || e.Type == RunFailedType, !pin.anything}
	}
	if got := whole.Sum(); got != name {
		return nil, refusal.Newf(refusal.DigestMismatch, "trajectory: holds %s, its name says %s", got, name).
			WithHint("restore the file from a copy; nothing that names it can be checked without it")
	}
	if !pin.anything && head != pin.head {
		return nil, tampered(x.Len(), fmt.Errorf("the head is %s, expected %s: the last line was changed, or lines were cut off or added at the end", head, pin.head))
	}
	marks.close()
	x.Outline.places = nil
	return x, nil
}

// outlined is an event in the outline. Only what the outline tells is decoded.
func outlined(e Event) (Outlined, error) {
	// The type as the program spells it: that of the line would keep all of the line.
	o := Outlined{Type: e.Payload.Type(), Turn: int32(e.Turn), AtMS: e.At.Milliseconds()}
	switch e.Payload.(type) {
	case *PolicyDecision, *ToolExecuted, *ToolObserved:
		if err := canon.UnmarshalCanonical(e.payload, e.Payload); err != nil {
			return o, fmt.Errorf("%s: payload: %w", o.Type, err)
		}
	default:
		return o, nil
	}
	if name, ok := e.Payload.Subject(); ok {
		if o.Subject = name; len(name) > maxOutlinedSubject {
			o.Subject = strings.ToValidUTF8(name[:maxOutlinedSubject], "") + "…"
		}
	}
	switch p := e.Payload.(type) {
	case *PolicyDecision:
		o.Denied = p.Verdict == policy.Deny
	case *ToolExecuted:
		o.Failed = p.Error != ""
	}
	return o, nil
}

// A chunker cuts what passes into chunks of lines.
type chunker struct {
	x     *Index
	lines int
	at    int64
	open  []byte
}

func (k *chunker) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		if i == 0 {
			i = len(p)
		} else {
			k.lines++
		}
		k.open = append(k.open, p[:i]...)
		if k.lines == chunkEvents {
			k.close()
		}
		p = p[i:]
	}
	return n, nil
}

func (k *chunker) close() {
	if len(k.open) == 0 {
		return
	}
	k.x.chunks = append(k.x.chunks, chunk{k.at, int64(len(k.open)), sha256.Sum256(k.open)})
	k.at += int64(len(k.open))
	k.open, k.lines = k.open[:0], 0
}

// Lines are the lines of events as they were hashed, without line feeds: n of them
// from the event with the number seq on, which count from 1. They are read again,
// and refused if they are not what was verified.
func (x *Index) Lines(r io.ReaderAt, seq, n int) ([][]byte, error) {
	from := max(seq-1, 0)
	to := min(from+n, x.Len())
	var out [][]byte
	for k := from / chunkEvents; from < to && k <= (to-1)/chunkEvents; k++ {
		data := make([]byte, x.chunks[k].size)
		if _, err := r.ReadAt(data, x.chunks[k].offset); err != nil {
			return nil, refusal.Newf(refusal.Unreadable, "reading a trajectory: %w", err)
		}
		if sha256.Sum256(data) != x.chunks[k].sum {
			return nil, refusal.Newf(refusal.DigestMismatch, "the trajectory is not the one that was verified a moment ago").
				WithHint("another process writes to the evidence; restore it from a copy")
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, MaxLineBytes+1)
		for i := k * chunkEvents; lines.Scan(); i++ {
			if i >= from && i < to {
				out = append(out, bytes.Clone(lines.Bytes()))
			}
		}
	}
	return out, nil
}
