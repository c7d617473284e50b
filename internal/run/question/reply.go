package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
)

// MaxReplyBytes bounds what is read of a judge's reply, thoughts and all.
const MaxReplyBytes = 256 << 10

// Members are those of one JSON object in a reply, by their exact names.
type Members map[string]canon.RawMessage

// A Shape is what an object in a reply must have to be what a judge was asked for.
type Shape[T any] struct {
	// Wanted are the members that it needs. Others are ignored.
	Wanted []string
	// Read takes their values; its error says what is wrong with them.
	Read func(Members) (T, error)
	// Repeats reports whether an object stands in what the judge was shown, and so is
	// not the judge's own. Nil compares nothing.
	Repeats func(object string, m Members) bool
}

// ReadReply finds what a judge was asked for in its reply: the one JSON object that
// has the shape. Words, code fences and other objects around it are let pass, and so is
// the same object once more. Two that differ are no answer, and an object that repeats
// what the judge was shown is not the judge's.
//
// Only outermost objects count: what stands inside another object, or inside a string,
// is something that the judge speaks of. Where braces open that never close, nothing
// after them is read.
func ReadReply[T any](text string, shape Shape[T]) (found T, err error) {
	if len(text) > MaxReplyBytes {
		return found, fmt.Errorf("it has %d bytes, the most is %d", len(text), MaxReplyBytes)
	}
	var meaning []byte // of the object that was found
	var wrong error    // with the first object that is nearly one
	spans, open := objects(text)
	for _, span := range spans {
		m, v, err := readObject(span, shape)
		switch {
		case err != nil:
			wrong = firstOf(wrong, err)
			continue
		case shape.Repeats != nil && shape.Repeats(span, m):
			wrong = firstOf(wrong, errRepeats)
			continue
		}
		says, err := m.meaning(shape.Wanted)
		switch {
		case err != nil:
			wrong = firstOf(wrong, err)
			continue
		case meaning == nil:
			found, meaning = v, says
		case !slices.Equal(meaning, says):
			var none T
			return none, fmt.Errorf("it has two JSON objects with %s that differ, expected one", strings.Join(shape.Wanted, ", "))
		}
	}
	switch {
	case meaning != nil:
		return found, nil
	case wrong != nil:
		return found, wrong
	case open:
		return found, fmt.Errorf("it has no JSON object with %s: a brace opens and never closes", strings.Join(shape.Wanted, ", "))
	}
	return found, fmt.Errorf("it has no JSON object with %s", strings.Join(shape.Wanted, ", "))
}

var errRepeats = errors.New("it repeats a verdict that stands in the answer, or in what else the judge was shown")

// firstOf keeps the first error, but for one that only says that an object is
// something else.
func firstOf(was, is error) error {
	var other otherObject
	if was == nil || errors.As(was, &other) && !errors.As(is, &other) {
		return is
	}
	return was
}

// An otherObject is one that is not meant to be an answer.
type otherObject struct{ error }

// readObject reads a span as an object of the shape.
func readObject[T any](span string, shape Shape[T]) (m Members, v T, err error) {
	if err := canon.Unmarshal([]byte(span), &m); err != nil {
		return nil, v, otherObject{fmt.Errorf("it has an object that is not JSON: %w", err)}
	}
	for _, name := range shape.Wanted {
		if m[name] == nil {
			return nil, v, otherObject{fmt.Errorf("it has a JSON object that lacks %s: %.200q", name, span)}
		}
		for other := range m {
			if other != name && strings.EqualFold(other, name) {
				return nil, v, fmt.Errorf("its object has %s and %.40q, expected one of them", name, other)
			}
		}
	}
	v, err = shape.Read(m)
	return m, v, err
}

// meaning is the canonical JSON of the wanted members: equal objects mean the same,
// however they are spelled.
func (m Members) meaning(wanted []string) ([]byte, error) {
	only := map[string]canon.RawMessage{}
	for _, name := range wanted {
		only[name] = m[name]
	}
	return canon.Marshal(only)
}

// Take decodes one member.
func (m Members) Take(name string, into any) error {
	if err := canon.Unmarshal(m[name], into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// objects lists the outermost spans of a text that begin like a JSON object and whose
// braces close. Open says that braces opened which never close; nothing after them is
// looked at, since it would stand inside.
func objects(text string) (spans []string, open bool) {
	for at := 0; at < len(text); {
		next := strings.IndexByte(text[at:], '{')
		if next < 0 {
			break
		}
		at += next
		if !beginsObject(text[at:]) {
			at++ // a brace of prose or of code
			continue
		}
		end := closing(text[at:])
		if end < 0 {
			return spans, true
		}
		spans = append(spans, text[at:at+end])
		at += end
	}
	return spans, false
}

// beginsObject reports whether after the brace comes what may follow it in JSON.
func beginsObject(text string) bool {
	rest := strings.TrimLeft(text[1:], " \t\r\n")
	return rest != "" && (rest[0] == '"' || rest[0] == '}')
}

// closing is the length of what stands between the brace at the beginning and the one
// that closes it, both included; -1 if none does. Braces in strings do not count.
func closing(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// jsonDecoder reads tokens of JSON that may break off anywhere.
func jsonDecoder(text string) *json.Decoder {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d
}
