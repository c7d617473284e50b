package trajectory

import (
	"iter"
	"strings"
)

// An Outlined is what the outline of a trajectory has of an event.
type Outlined struct {
	Type    Type
	Subject string // of a call or a decision: the tool that it is about
	Turn    int32
	Denied  bool // a policy decision that denied something
	Failed  bool // a call that ended in an error
	AtMS    int64
}

// An Outline has every event of a trajectory in order, in 24 bytes each: there
// may be a million, and a program that shows transcripts keeps several. It
// grows without being copied.
type Outline struct {
	chunks [][]outlineRow
	n      int
	words  []string          // types and subjects, each once
	places map[string]uint32 // of words; nil when it is complete
}

type outlineRow struct {
	atMS    int64
	turn    int32
	subject uint32 // in words
	what    uint16 // the type, in words: types are noted first
	denied  bool
	failed  bool
}

const rowsInChunk = 4096

// maxOutlinedSubject bounds a subject: there may be a million different ones.
const maxOutlinedSubject = 48

// newOutline knows every type, so that their places are small, and no subject.
func newOutline() Outline {
	o := Outline{places: map[string]uint32{}}
	o.place("")
	for _, t := range Types() {
		o.place(string(t))
	}
	return o
}

func (o *Outline) place(word string) uint32 {
	at, known := o.places[word]
	if !known {
		at = uint32(len(o.words))
		word = strings.Clone(word) // it would keep all of its line
		o.words = append(o.words, word)
		o.places[word] = at
	}
	return at
}

func (o *Outline) add(e Outlined) {
	if o.n%rowsInChunk == 0 {
		o.chunks = append(o.chunks, make([]outlineRow, 0, rowsInChunk))
	}
	last := &o.chunks[len(o.chunks)-1]
	*last = append(*last, outlineRow{e.AtMS, e.Turn, o.place(e.Subject), uint16(o.place(string(e.Type))), e.Denied, e.Failed})
	o.n++
}

// Len is how many events there are.
func (o *Outline) Len() int { return o.n }

// At is the event with that place, from 0 on.
func (o *Outline) At(i int) Outlined {
	r := &o.chunks[i/rowsInChunk][i%rowsInChunk]
	return Outlined{Type(o.words[r.what]), o.words[r.subject], r.turn, r.denied, r.failed, r.atMS}
}

// All goes over the events.
func (o *Outline) All() iter.Seq[Outlined] {
	return func(yield func(Outlined) bool) {
		for i := range o.n {
			if !yield(o.At(i)) {
				return
			}
		}
	}
}
