package ledger

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// PositionOf is where an entry lies whose predecessor has the head prev: after
// a verification, an entry that is read again is the verified one if the head
// comes out as it did then.
func PositionOf(origin string, index int64, prev digest.ID, entry []byte) Position {
	content := digest.ContentOf(entry)
	return Position{Index: index, Content: content, Prev: prev, Head: nextHead(prev, content),
		Leaf: tlog.RecordHash(AppendLeaf(nil, origin, index, prev, content))}
}

// A Finder reads entries again, and remembers where some of them begin: a reader that
// asks for a few of them at a time does not pass over the whole ledger each time. It is
// for one state of the segments and what they grow to. Several goroutines may ask. The
// zero value is ready.
type Finder struct {
	mu    sync.Mutex
	marks map[string][]mark // by the name of the segment, in order
	every int64             // entries from one mark to the next; 0 is markEvery
}

// A mark is where an entry begins, or the seal before it.
type mark struct{ index, offset int64 }

const markEvery = 256

// UnverifiedEntries reads the bytes of some entries, as far as they are there.
// It verifies nothing: see [PositionOf].
func (f *Finder) UnverifiedEntries(segments []Segment, indexes []int64) (map[int64][]byte, error) {
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
		here := wanted
		if i+1 < len(segments) {
			n, _ := slices.BinarySearch(wanted, segments[i+1].First)
			here = wanted[:n]
		}
		for len(here) > 0 {
			var err error
			if here, err = f.scan(s, here, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// scan reads from the last mark before the first wanted entry on, until the next one that
// is wanted is nearer to another mark, and returns what is still wanted.
func (f *Finder) scan(s Segment, wanted []int64, found map[int64][]byte) ([]int64, error) {
	at := f.before(s, wanted[0])
	r, err := s.Open(at.offset)
	if err != nil {
		return nil, unreadable(s, err)
	}
	defer r.Close()
	lines := bufio.NewReaderSize(r, blockBytes)
	for len(wanted) > 0 {
		line, n, err := readLine(lines, at.index == wanted[0])
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, unreadable(s, err)
		}
		at.offset += n
		if len(line) <= checkLen+1 || isSeal(line[checkLen+1:]) {
			continue
		}
		took := at.index == wanted[0]
		for len(wanted) > 0 && at.index == wanted[0] {
			found[at.index] = line[checkLen+1:]
			wanted = wanted[1:]
		}
		at.index++
		f.note(s, at)
		if took && len(wanted) > 0 && f.before(s, wanted[0]).index > at.index {
			return wanted, nil
		}
	}
	return nil, nil
}

// before is the last mark that is not after an entry.
func (f *Finder) before(s Segment, index int64) mark {
	f.mu.Lock()
	defer f.mu.Unlock()
	marks := f.marks[s.Name]
	i, exact := slices.BinarySearchFunc(marks, index, func(m mark, index int64) int { return cmp.Compare(m.index, index) })
	switch {
	case exact:
		return marks[i]
	case i > 0:
		return marks[i-1]
	}
	return mark{index: s.First}
}

// note remembers where an entry begins, if it is far enough from those that are known.
func (f *Finder) note(s Segment, at mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := mark{index: s.First}
	if marks := f.marks[s.Name]; len(marks) > 0 {
		last = marks[len(marks)-1]
	}
	if at.index < last.index+cmp.Or(f.every, markEvery) {
		return
	}
	if f.marks == nil {
		f.marks = make(map[string][]mark)
	}
	f.marks[s.Name] = append(f.marks[s.Name], at)
}

// readLine reads a line and says how many bytes it has with its end: a copy of all of it
// if it is wanted, and else, until the next is read, so much of it as shows whether it is
// a seal. A line that does not end does not count.
func readLine(r *bufio.Reader, whole bool) (line []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		switch {
		case whole:
			line = append(line, part...)
		case line == nil && err == bufio.ErrBufferFull:
			line = slices.Clone(part[:checkLen+2]) // what comes next takes its place
		case line == nil:
			line = part
		}
		switch {
		case err == bufio.ErrBufferFull && n < maxLineBytes:
			continue
		case err == bufio.ErrBufferFull:
			return nil, n, refusal.Newf(refusal.TooLarge, "a line of %d bytes or more", maxLineBytes)
		case err != nil:
			return nil, n, err
		}
		return bytes.TrimSuffix(line, []byte{'\n'}), n, nil
	}
}
