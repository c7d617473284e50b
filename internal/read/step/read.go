package step

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/jsonvalue"
)

type value = jsontext.Value

// A Text is what is known of one text of a step.
type Text struct {
	Text   []byte // of it, what was recorded
	SHA256 string // of the whole, "" if unknown
	Salted bool   // the digest is of the text with a salt: the body cannot be shown
	Cut    bool   // Text is only the beginning
	Bytes  int64  // of the whole, -1 if unknown
	// Scanned says that the recorder looked for the answer in the whole text, and
	// Hits where it found it.
	Scanned bool
	Hits    []int64
	// Question says whether a text in which the recorder found it holds the question
	// too, as far as the recorder looked.
	Question *bool
	// Given says that the line has the text, or its beginning, even if it is empty.
	Given bool
	// Body says that Text is the whole, read elsewhere and compared with its digest.
	Body bool
}

// Has reports whether the text, or its beginning, is there.
func (t *Text) Has() bool { return t.Given || t.Body }

// Whole reports whether all of the text is there.
func (t *Text) Whole() bool { return t.Body || t.Given && !t.Cut }

// Seen reports whether the answer can be found wherever in the text it is: in the
// text itself, or because the recorder looked.
func (t *Text) Seen() bool { return t.Whole() || t.Given && t.Scanned }

// A View is a step as checks read it.
type View struct {
	Kind, Name, Vantage string
	URL                 []byte
	// Failed says that a tool gave an error, or that a model gave no reply.
	Failed    bool
	TokensOut *float64 // of a reply
	// Shown is what the agent or its model read: a prompt, what a model was sent,
	// what a tool gave.
	Shown Text
	// Said is what they wrote: what a model answered, what a tool was called with.
	Said Text
}

// A Trajectory is what an agent did in one execution of a task.
type Trajectory struct {
	ID, Model string
	Repeat    int64 // 0 if the line does not say
	Submitted bool  // so also of a line that does not say
	Correct   *bool
	Answer    *string
	Turns     *float64
	In, Out   *float64
	Tools     []string
	Steps     []View
	HasSteps  bool
}

// An Arena holds the texts of one trajectory, so that reading a line takes few
// allocations.
type Arena struct{ buf []byte }

// arenaBytes is how much is taken at once.
const arenaBytes = 1 << 20

// Reset forgets the texts.
func (a *Arena) Reset() { a.buf = a.buf[:0] }

// add copies what write appends.
func (a *Arena) add(size int, write func(dst []byte) []byte) []byte {
	if cap(a.buf)-len(a.buf) < size {
		a.buf = make([]byte, 0, max(size, arenaBytes))
	}
	from := len(a.buf)
	out := write(a.buf)
	if len(out) > cap(a.buf) {
		return out // it grew: the copy stands alone
	}
	a.buf = out
	return a.buf[from:len(out):len(out)]
}

// maxAnswer bounds what is kept of an answer.
const maxAnswer = 4 << 10

// Read reads one line. Members that no check reads are passed over; their grammar
// is checked all the same. The texts are in the arena.
func Read(data []byte, keep *Arena) (*Trajectory, error) {
	t := &Trajectory{Submitted: true}
	submitted := false
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	err := jsonvalue.Walk(dec, func(name string) error {
		if name == "steps" {
			t.HasSteps = true
			return t.readSteps(dec, keep)
		}
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if name == "submitted" {
			submitted = string(v) == "true"
			return nil
		}
		return t.take(name, v)
	})
	if err == nil {
		err = jsonvalue.End(dec)
	}
	if err == nil && t.ID == "" {
		err = errors.New("has no task_id")
	}
	if t.Repeat > 0 {
		t.Submitted = submitted
	}
	return t, err
}

func (t *Trajectory) take(name string, v value) error {
	switch name {
	case "task_id":
		return jsonvalue.TextInto(&t.ID, name, v, 1<<10)
	case "model":
		if v.Kind() == 'n' {
			return nil
		}
		return jsonvalue.TextInto(&t.Model, name, v, 1<<10)
	case "repeat":
		return jsonvalue.CountInto(&t.Repeat, name, v)
	case "correct":
		if v.Kind() == 't' || v.Kind() == 'f' {
			correct := v.Kind() == 't'
			t.Correct = &correct
		}
	case "final_answer":
		if s, ok := jsonvalue.Text(v); ok {
			s = jsonvalue.Clip(s, maxAnswer)
			t.Answer = &s
		}
	case "turns":
		return jsonvalue.NumberInto(&t.Turns, name, v)
	case "inputTokens", "tokens_in":
		return jsonvalue.NumberInto(&t.In, name, v)
	case "outputTokens", "tokens_out":
		return jsonvalue.NumberInto(&t.Out, name, v)
	case "tools_used":
		return t.takeTools(v)
	}
	return nil
}

func (t *Trajectory) takeTools(v value) error {
	if v.Kind() != '[' {
		return nil
	}
	return jsonvalue.Elements(v, func(_ int, v value) error {
		name, _ := jsonvalue.Text(v)
		t.Tools = append(t.Tools, jsonvalue.Clip(name, 256))
		return nil
	})
}

func (t *Trajectory) readSteps(dec *jsontext.Decoder, keep *Arena) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() == 'n' {
		t.HasSteps = false
		return nil
	}
	if tok.Kind() != '[' {
		return fmt.Errorf("steps is %s, expected a list", tok.Kind())
	}
	for dec.PeekKind() != ']' {
		s, err := readStep(dec, keep)
		if err != nil {
			return fmt.Errorf("steps[%d]: %w", len(t.Steps), err)
		}
		t.Steps = append(t.Steps, s)
	}
	_, err = dec.ReadToken()
	return err
}

// A reader is a step while it is read: which text a member is about depends on its
// type, which may come last.
type reader struct {
	keep  *Arena
	view  View
	parts struct{ content, input, output, text, head, args []byte }
	main  Text // what head is of
	input Text
	// marked says that the step states of its input whether it is cut.
	marked bool
	// structured says that the input is an object or a list.
	structured bool
}

// takers are what reads each member.
var takers = sync.OnceValue(func() map[string]func(*reader, value) error {
	t := map[string]func(*reader, value) error{}
	for _, m := range Members() {
		t[m.Name] = m.take
	}
	return t
})

func readStep(dec *jsontext.Decoder, keep *Arena) (View, error) {
	r := reader{keep: keep, main: Text{Bytes: -1}, input: Text{Bytes: -1}}
	take := takers()
	err := jsonvalue.Walk(dec, func(name string) error {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if f := take[name]; f != nil {
			if err := f(&r, v); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	r.join()
	return r.view, err
}

func (r *reader) kind(v value) error { return jsonvalue.TextInto(&r.view.Kind, "it", v, 256) }

func (r *reader) name(v value) error { return clipped(&r.view.Name, v) }

func (r *reader) vantage(v value) error { return clipped(&r.view.Vantage, v) }

func clipped(to *string, v value) error {
	s, _ := jsonvalue.Text(v)
	*to = jsonvalue.Clip(s, 256)
	return nil
}

// text keeps the text of a member.
func text(of func(r *reader) *[]byte) func(*reader, value) error {
	return func(r *reader, v value) error {
		*of(r) = keepText(r.keep, v)
		return nil
	}
}

// takeInput keeps what a model was sent as it is written, so that it shows who said
// what in it, and the texts of what a tool was called with.
func (r *reader) takeInput(v value) error {
	r.structured = v.Kind() == '{' || v.Kind() == '['
	if r.structured {
		r.parts.input = r.keep.add(len(v), func(dst []byte) []byte { return append(dst, v...) })
		return nil
	}
	r.parts.input = keepText(r.keep, v)
	return nil
}

// marks takes a mark that stays once it is set.
func marks(to *bool, v value) error {
	*to = *to || string(v) == "true"
	return nil
}

func (t *Text) count(v value) error { return jsonvalue.CountInto(&t.Bytes, "it", v) }

func (t *Text) sum(v value) error {
	if v.Kind() == 'n' || t.SHA256 != "" {
		return nil
	}
	return jsonvalue.TextInto(&t.SHA256, "it", v, 128)
}

func (t *Text) found(v value) error {
	if v.Kind() == 'n' {
		return nil
	}
	scanned, listed := false, false
	err := jsonvalue.Members(v, func(name string, v value) error {
		switch name {
		case "scanned":
			scanned = string(v) == "true"
		case "question":
			asked := string(v) == "true"
			if t.Question = nil; asked || string(v) == "false" {
				t.Question = &asked
			}
		case "offsets":
			if listed = true; v.Kind() != '[' {
				return errors.New("offsets is not a list")
			}
			return jsonvalue.Elements(v, func(i int, v value) error {
				var n int64
				err := jsonvalue.CountInto(&n, fmt.Sprintf("offsets[%d]", i), v)
				t.Hits = append(t.Hits, n)
				return err
			})
		}
		return nil
	})
	// A recorder that does not list what it found has not said that there is nothing.
	t.Scanned = scanned && listed
	return err
}

// join puts the texts of a step together. A head beside a whole text is the
// same text again.
func (r *reader) join() {
	s, p := &r.view, &r.parts
	if r.structured && s.Kind != Model {
		p.input = keepText(r.keep, value(p.input))
	}
	input := joinTexts(r.keep, p.input, unlessEqual(p.args, p.input))
	switch s.Kind {
	case Model:
		s.Shown, s.Said = r.input, r.main
		s.Said.Text, s.Said.Given = firstOf(p.output, p.head), given(p.output, p.head)
		s.Shown.Text, s.Shown.Given = joinTexts(r.keep, input, p.content), given(p.input, p.args, p.content)
		// A recorder that has one mark for both texts may have cut either.
		s.Shown.Cut = s.Shown.Cut || !r.marked && s.Said.Cut
		s.Said.cutBy(p.head, p.output)
		s.Shown.cutBy(nil, input, p.content)
	case Call:
		s.Said = r.input
		if s.Said.SHA256 == "" {
			s.Said.SHA256 = r.main.SHA256
		}
		s.Said.Text = joinTexts(r.keep, input, p.content, p.output, s.URL, p.text, p.head)
		s.Said.Given = given(p.input, p.args, p.content, p.output, p.text, p.head)
		s.Said.Cut = s.Said.Cut || r.main.Cut
		s.Said.Salted = s.Said.Salted || r.main.Salted
		s.Said.Scanned, s.Said.Hits = s.Said.Scanned || r.main.Scanned, append(s.Said.Hits, r.main.Hits...)
		s.Said.Cut = s.Said.Cut || bytes.Contains(input, []byte(truncatedMark)) // any argument
	default:
		s.Shown = r.main
		head := p.head
		if bytes.HasPrefix(p.output, head) || bytes.HasPrefix(p.content, head) {
			head = nil
		}
		s.Shown.Text = joinTexts(r.keep, p.output, p.content, input, s.URL, p.text, head)
		s.Shown.Given = given(p.output, p.content, p.input, p.args, p.text, p.head)
		s.Shown.cutBy(p.head, p.output, p.content)
	}
}

// truncatedMark is how recorders end a text that they cut.
const truncatedMark = "…[truncated "

// cutBy marks a text as cut if it is shorter than what is said of the whole, or if
// a recorder wrote so at its end. A head alone, of which nobody says how long the
// whole was, is cut unless it has the digest of the whole.
func (t *Text) cutBy(head []byte, beside ...[]byte) {
	there := 0
	for _, part := range beside {
		there += len(part)
		t.Cut = t.Cut || endsCut(part)
	}
	t.Cut = t.Cut || endsCut(head) || t.Given && t.Bytes > int64(max(there, len(head)))
	if head != nil && there == 0 && t.Bytes < 0 {
		sum := sha256.Sum256(head)
		t.Cut = t.Cut || strings.TrimPrefix(t.SHA256, "sha256:") != hex.EncodeToString(sum[:])
	}
}

// given reports whether one of the texts is there, even if it is empty.
func given(texts ...[]byte) bool {
	return slices.ContainsFunc(texts, func(t []byte) bool { return t != nil })
}

func endsCut(text []byte) bool { return bytes.Contains(tailOf(text, 64), []byte(truncatedMark)) }

func tailOf(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func firstOf(whole, head []byte) []byte {
	if len(whole) > 0 {
		return whole
	}
	return head
}

func unlessEqual(b, other []byte) []byte {
	if bytes.Equal(b, other) {
		return nil
	}
	return b
}

func joinTexts(keep *Arena, texts ...[]byte) []byte {
	var only []byte
	n, size := 0, 0
	for _, t := range texts {
		if len(t) > 0 {
			only, n, size = t, n+1, size+len(t)+1
		}
	}
	if n <= 1 {
		return only
	}
	return keep.add(size, func(dst []byte) []byte {
		for _, t := range texts {
			if len(t) > 0 {
				dst = append(append(dst, t...), '\n')
			}
		}
		return dst
	})
}

// keepText copies the text of a value: a string's own, and of anything else all
// names, strings and numbers in it, a line for each.
func keepText(keep *Arena, v value) []byte {
	switch v.Kind() {
	case 'n':
		return nil
	case '"':
		return keep.add(len(v)+8, func(dst []byte) []byte {
			out, err := jsontext.AppendUnquote(dst, v)
			if err != nil {
				return dst // the decoder has checked it
			}
			return out
		})
	case '{', '[':
		return keep.add(2*len(v)+8, func(dst []byte) []byte { return flatten(dst, v) })
	}
	return keep.add(len(v), func(dst []byte) []byte { return append(dst, v...) })
}

func flatten(dst []byte, v value) []byte {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return dst
		}
		switch tok.Kind() {
		case '"', '0', 't', 'f':
			dst = append(append(dst, tok.String()...), '\n')
		}
	}
}
