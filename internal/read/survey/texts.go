package survey

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// blockBytes is how much of the texts lies in one piece of memory; blocks are searched
// beside each other.
const blockBytes = 4 << 20

// between stands between two texts of a case: no question has it, so that none is found
// where one text ends and another begins.
const between = 0

// texts are those of many cases, folded, one after another.
type texts struct {
	blocks []block
	size   int64
}

// A block holds the texts of some cases, each whole.
type block struct {
	data  []byte
	spans []span // in the order of the data
}

type span struct{ place, from, to int32 }

// add keeps the folded texts of the case at a place.
func (t *texts) add(place int, folded []byte) {
	if len(folded) == 0 {
		return
	}
	last := len(t.blocks) - 1
	if last < 0 || len(t.blocks[last].data)+len(folded) > cap(t.blocks[last].data) {
		t.blocks = append(t.blocks, block{data: make([]byte, 0, max(blockBytes, len(folded)))})
		last++
	}
	b := &t.blocks[last]
	from := len(b.data)
	b.data = append(b.data, folded...)
	b.spans = append(b.spans, span{int32(place), int32(from), int32(len(b.data))})
	t.size += int64(len(folded))
}

// find marks the cases whose texts hold a folded question.
func (t *texts) find(question []byte, found []bool) {
	if len(question) == 0 {
		return
	}
	work := make(chan *block)
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(t.blocks)) {
		all.Go(func() {
			for b := range work {
				b.find(question, found) // a case is in one block, so no two mark the same
			}
		})
	}
	for i := range t.blocks {
		work <- &t.blocks[i]
	}
	close(work)
	all.Wait()
}

func (b *block) find(question []byte, found []bool) {
	for at := 0; at < len(b.data); {
		i := bytes.Index(b.data[at:], question)
		if i < 0 {
			return
		}
		at += i
		k, _ := slices.BinarySearchFunc(b.spans, at, func(s span, at int) int { return int(s.to) - 1 - at })
		s := b.spans[k]
		if at+len(question) <= int(s.to) { // and not over the end of a case
			found[s.place] = true
			at = int(s.to)
		} else {
			at++
		}
	}
}

// Fold is a text as it is looked for: in lower case, white space as one space.
func Fold(text string) string {
	return strings.TrimSpace(string(fold(nil, []byte(text), len(text)*utf8.UTFMax)))
}

// fold appends a folded text, at most so many bytes of it.
func fold(out, text []byte, most int) []byte {
	most += len(out)
	space := false
	for i := 0; i < len(text) && len(out) < most; {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c <= ' ' || c == 0x7f:
				if !space {
					out = append(out, ' ')
				}
				space = true
				continue
			case 'A' <= c && c <= 'Z':
				c += 'a' - 'A'
			}
			out, space = append(out, c), false
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if unicode.IsSpace(r) {
			if !space {
				out = append(out, ' ')
			}
			space = true
			continue
		}
		out, space = utf8.AppendRune(out, unicode.ToLower(r)), false
	}
	return out
}
