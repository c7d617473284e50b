package ledger

import (
	"bufio"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
)

// PositionOf is where an entry lies whose predecessor has the head prev: after
// a verification, an entry that is read again is the verified one if the head
// comes out as it did then.
func PositionOf(origin string, index int64, prev digest.ID, entry []byte) Position {
	content := digest.ContentOf(entry)
	return Position{Index: index, Content: content, Prev: prev, Head: nextHead(prev, content),
		Leaf: tlog.RecordHash(AppendLeaf(nil, origin, index, prev, content))}
}

// UnverifiedEntries reads the bytes of some entries, as far as they are there.
// It verifies nothing: see [PositionOf].
func UnverifiedEntries(segments []Segment, indexes []int64) (map[int64][]byte, error) {
	wanted := slices.Sorted(slices.Values(indexes))
	found := make(map[int64][]byte, len(wanted))
	for i, s := range segments {
		for len(wanted) > 0 && wanted[0] < s.First {
			wanted = wanted[1:]
		}
		if len(wanted) == 0 {
			break
		}
		if i+1 < len(segments) && wanted[0] >= segments[i+1].First {
			continue
		}
		if err := entriesOf(s, wanted, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func entriesOf(s Segment, wanted []int64, found map[int64][]byte) error {
	r, err := s.Open(0)
	if err != nil {
		return unreadable(s, err)
	}
	defer r.Close()
	lines := bufio.NewReaderSize(r, blockBytes)
	for index := s.First; len(wanted) > 0; {
		line, err := readLine(lines, index == wanted[0])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(s, err)
		}
		if len(line) <= checkLen+1 || isSeal(line[checkLen+1:]) {
			continue
		}
		for len(wanted) > 0 && index == wanted[0] {
			found[index] = line[checkLen+1:]
			wanted = wanted[1:]
		}
		index++
	}
	return nil
}

// readLine reads a line: whole if it is wanted, and else so much of it as shows
// whether it is a seal. A line that does not end is none.
func readLine(r *bufio.Reader, whole bool) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if whole || len(line) <= checkLen+1 {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull && len(line) < maxLineBytes:
			continue
		case err == bufio.ErrBufferFull:
			return nil, refusal.Newf(refusal.TooLarge, "a line of %d bytes or more", maxLineBytes)
		case err != nil:
			return nil, err
		}
		if whole || len(line) <= len(part) {
			line = line[:len(line)-1]
		}
		return line, nil
	}
}
