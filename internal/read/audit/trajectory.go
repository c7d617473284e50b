package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The types of a step.
const (
	stepPrompt = "prompt"
	stepModel  = "llm_call"
	stepCall   = "tool_call"
	stepResult = "tool_result"
)

// A step is one thing that an agent saw or did. The shape is that of both
// originals: whole texts under content, input, output, or digests with heads.
type step struct {
	kind, name string
	// text is what a prompt said, what a tool was called with or gave.
	text []byte
	// said is what the model answered, of an llm_call.
	said []byte
	url  []byte
	// failed says that a tool gave an error.
	failed bool

	sha256 string // of the whole text, "" if unknown
	salted bool   // the digest is of the text with a salt: the body cannot be shown
	cut    bool   // text is only the beginning
	bytes  int64  // of the whole, -1 if unknown
	// scanned says that the recorder looked for the answer in the whole text, and
	// hits where it found it.
	scanned bool
	hits    []int64
	// saidHits are those in what the model answered; hits of an llm_call are in
	// what it was sent.
	saidHits []int64
}

// A trajectory is what an agent did in one task.
type trajectory struct {
	place     string
	line      int
	id, model string
	answer    *string
	turns     *float64
	in, out   *float64
	tools     []string
	steps     []step
	hasSteps  bool
}

// An arena holds the texts of one trajectory, so that reading a line takes few
// allocations.
type arena struct{ buf []byte }

func (a *arena) reset() { a.buf = a.buf[:0] }

// add copies what write appends.
func (a *arena) add(size int, write func(dst []byte) []byte) []byte {
	if cap(a.buf)-len(a.buf) < size {
		a.buf = make([]byte, 0, max(size, readBuffer))
	}
	from := len(a.buf)
	out := write(a.buf)
	if len(out) > cap(a.buf) {
		return out // it grew: the copy stands alone
	}
	a.buf = out
	return a.buf[from:len(out):len(out)]
}

// parseTrajectory reads one line. Members that no check reads are passed over;
// their grammar is checked all the same.
func parseTrajectory(place string, line int, data []byte, keep *arena) (*trajectory, error) {
	t := &trajectory{place: place, line: line}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	err := walk(dec, func(name string) error {
		if name == "steps" {
			t.hasSteps = true
			return t.readSteps(dec, keep)
		}
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return t.take(name, v)
	})
	if err == nil {
		if _, end := dec.ReadToken(); end != io.EOF {
			err = cmpErr(end, func() error { return errors.New("text after the end of the record") })
		}
	}
	if err == nil && t.id == "" {
		err = errors.New("has no task_id")
	}
	if err != nil {
		return nil, refuseJSON(place, data, err)
	}
	return t, nil
}

// walk reads an object; visit reads each value.
func walk(dec *jsontext.Decoder, visit func(name string) error) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("found %s at byte %d, expected an object", tok.Kind(), dec.InputOffset())
	}
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			return nil
		}
		if err := visit(tok.String()); err != nil {
			return err
		}
	}
}

func (t *trajectory) take(name string, v jsontext.Value) error {
	switch name {
	case "task_id":
		return textInto(&t.id, name, v, 1<<10)
	case "model":
		if v.Kind() == 'n' {
			return nil
		}
		return textInto(&t.model, name, v, 1<<10)
	case "final_answer":
		if s, ok := textValue(v); ok {
			s = clip(s, maxKeptAnswer)
			t.answer = &s
		}
	case "turns":
		return numberInto(&t.turns, name, v)
	case "inputTokens", "tokens_in":
		return numberInto(&t.in, name, v)
	case "outputTokens", "tokens_out":
		return numberInto(&t.out, name, v)
	case "tools_used":
		return t.takeTools(v)
	}
	return nil
}

func (t *trajectory) takeTools(v jsontext.Value) error {
	if v.Kind() != '[' {
		return nil
	}
	return elements(v, func(_ int, v jsontext.Value) error {
		name, _ := textValue(v)
		t.tools = append(t.tools, clip(name, 256))
		return nil
	})
}

func (t *trajectory) readSteps(dec *jsontext.Decoder, keep *arena) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() == 'n' {
		t.hasSteps = false
		return nil
	}
	if tok.Kind() != '[' {
		return fmt.Errorf("steps is %s, expected a list", tok.Kind())
	}
	for dec.PeekKind() != ']' {
		s, err := readStep(dec, keep)
		if err != nil {
			return fmt.Errorf("steps[%d]: %w", len(t.steps), err)
		}
		t.steps = append(t.steps, s)
	}
	_, err = dec.ReadToken()
	return err
}

// parts are the texts of a step by member, while it is read.
type parts struct {
	content, input, output, text, head, args []byte
}

func readStep(dec *jsontext.Decoder, keep *arena) (step, error) {
	s := stepReader{step: step{bytes: -1}}
	var p parts
	err := walk(dec, func(name string) error {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		switch name {
		case "type":
			return textInto(&s.kind, name, v, 256)
		case "name":
			s.name, _ = textValue(v)
			s.name = clip(s.name, 256)
		case "content":
			p.content = keepText(keep, v)
		case "input":
			p.input = keepText(keep, v)
		case "output":
			p.output = keepText(keep, v)
		case "text":
			p.text = keepText(keep, v)
		case "head":
			p.head = keepText(keep, v)
		case "args":
			p.args = keepText(keep, v)
		case "url":
			s.url = keepText(keep, v)
		default:
			return s.take(name, v)
		}
		return nil
	})
	s.join(p, keep)
	return s.step, err
}

// A stepReader is a step while it is read: which text gold_hits is about depends
// on its type, which may come last.
type stepReader struct {
	step
	goldHits, inputHits hitList
}

// take takes the members that say something about the text.
func (s *stepReader) take(name string, v jsontext.Value) error {
	switch name {
	case "content_sha256", "output_sha256", "input_sha256":
		if v.Kind() != 'n' && s.sha256 == "" {
			return textInto(&s.sha256, name, v, 128)
		}
	case "salted":
		s.salted = string(v) == "true"
	case "truncated", "head_truncated":
		s.cut = s.cut || string(v) == "true"
	case "is_error":
		s.failed = string(v) == "true"
	case "bytes":
		n, err := strconv.ParseInt(string(v), 10, 64)
		if v.Kind() != 'n' && (err != nil || n < 0) {
			return fmt.Errorf("bytes is %s, expected a whole number from 0", clip(string(v), 40))
		}
		s.bytes = n
	case "gold_hits":
		return takeHits(v, &s.goldHits)
	case "input_gold_hits":
		return takeHits(v, &s.inputHits)
	}
	return nil
}

// A hitList is gold_hits, or input_gold_hits of an llm_call.
type hitList struct {
	scanned bool
	offsets []int64
}

func takeHits(v jsontext.Value, s *hitList) error {
	if v.Kind() == 'n' {
		return nil
	}
	return members(v, func(name string, v jsontext.Value) error {
		switch name {
		case "scanned":
			s.scanned = string(v) == "true"
		case "offsets":
			if v.Kind() != '[' {
				return errors.New("gold_hits: offsets is not a list")
			}
			return elements(v, func(i int, v jsontext.Value) error {
				n, err := strconv.ParseInt(string(v), 10, 64)
				if err != nil || n < 0 {
					return fmt.Errorf("gold_hits: offsets[%d] is %s, expected a whole number from 0", i, clip(string(v), 40))
				}
				s.offsets = append(s.offsets, n)
				return nil
			})
		}
		return nil
	})
}

// join puts the texts of a step together. A head beside a whole text is the
// same text again.
func (s *stepReader) join(p parts, keep *arena) {
	s.scanned, s.hits = s.goldHits.scanned, s.goldHits.offsets
	if s.kind == stepModel {
		s.scanned, s.hits, s.saidHits = s.inputHits.scanned, s.inputHits.offsets, s.goldHits.offsets
		s.said = joinTexts(keep, p.output, orEmpty(p.output, p.head))
		s.text = joinTexts(keep, p.input, p.content, p.args)
		return
	}
	if len(p.head) > 0 && s.bytes > int64(len(p.head)) && len(p.output)+len(p.content) <= len(p.head) {
		s.cut = true
	}
	for _, t := range [][]byte{p.output, p.content, p.head} {
		if bytes.Contains(tailOf(t, 64), []byte("…[truncated ")) {
			s.cut = true
		}
	}
	head := p.head
	if bytes.HasPrefix(p.output, head) || bytes.HasPrefix(p.content, head) {
		head = nil
	}
	args := p.args
	if bytes.Equal(args, p.input) {
		args = nil
	}
	s.text = joinTexts(keep, p.output, p.content, p.input, s.url, p.text, head, args)
}

func orEmpty(whole, head []byte) []byte {
	if len(whole) > 0 {
		return nil
	}
	return head
}

func tailOf(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func joinTexts(keep *arena, texts ...[]byte) []byte {
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
func keepText(keep *arena, v jsontext.Value) []byte {
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

func flatten(dst []byte, v jsontext.Value) []byte {
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
