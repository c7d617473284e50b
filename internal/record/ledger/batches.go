package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A Batch is the lines of a segment from after one seal up to and including the
// next: what became durable together. It is cut out and not verified.
type Batch struct {
	First int64  // index of its first entry
	Size  int64  // of the ledger after it, which its seal states
	Start int64  // byte of the segment at which it begins
	Lines []byte // valid until the next batch is read
}

// MaxBatchBytes bounds a batch: more than a writer ever puts into one.
const MaxBatchBytes = 64 << 20

// Batches cuts a segment whose first entry has the index first into its batches.
// It returns where the last whole batch ends: bytes after that no seal covers.
func Batches(r io.Reader, first int64, visit func(Batch) error) (end int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	b := Batch{First: first, Size: first}
	for {
		line, err := in.ReadSlice('\n')
		b.Lines = append(b.Lines, line...)
		switch {
		case err == bufio.ErrBufferFull && len(b.Lines) <= MaxBatchBytes:
			continue // a long line: the rest of it follows
		case err == io.EOF:
			return b.Start, nil
		case err != nil && err != bufio.ErrBufferFull:
			return b.Start, err
		case len(b.Lines) > MaxBatchBytes:
			return b.Start, fmt.Errorf("no seal in %d bytes", len(b.Lines))
		}
		sealed, entries, err := sealAtEnd(b.Lines)
		if err != nil {
			return b.Start, err
		}
		if !sealed {
			b.Size += entries
			continue
		}
		if err := visit(b); err != nil {
			return b.Start, err
		}
		b = Batch{First: b.Size, Size: b.Size, Start: b.Start + int64(len(b.Lines)), Lines: b.Lines[:0]}
	}
}

// sealAtEnd looks at the last line of a batch: it is a seal or one more entry.
func sealAtEnd(lines []byte) (sealed bool, entries int64, err error) {
	start := bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
	_, text, err := splitLine(lines[start : len(lines)-1])
	if err != nil {
		return false, 0, err
	}
	if isSeal(text) {
		return true, 0, nil
	}
	return false, 1, nil
}

// ParseBatch looks at bytes that should be one batch of a ledger that has first
// entries. It counts lines and verifies nothing.
func ParseBatch(lines []byte, first int64) (Batch, error) {
	var found []Batch
	end, err := Batches(bytes.NewReader(lines), first, func(b Batch) error {
		b.Lines = lines
		found = append(found, b)
		return nil
	})
	switch {
	case err != nil:
		return Batch{}, err
	case len(found) != 1 || end != int64(len(lines)):
		return Batch{}, errors.New("expected entries that end in one seal")
	case found[0].Size == first:
		return Batch{}, errors.New("a seal without an entry")
	}
	return found[0], nil
}
