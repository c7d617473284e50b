package canon

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A placed error says at which byte of a text it arose.
type placed struct {
	at     int64
	member string // in words; may be empty
	err    error
}

func (e *placed) Error() string { return fmt.Sprintf("at byte %d%s: %v", e.at, e.member, e.err) }
func (e *placed) Unwrap() error { return e.err }

// Offset is the byte, from 0, at which a text was refused. An error that is not
// about one place has none.
func Offset(err error) (at int64, ok bool) {
	if e, ok := errors.AsType[*placed](err); ok {
		return e.at, true
	}
	return 0, false
}

// OffsetOf is the byte of a JSON text at which the member begins that a path of
// names, and of places in lists, leads to; if there is none, the deepest part
// of the path that exists.
func OffsetOf(text []byte, path []string) int64 {
	var want jsontext.Pointer
	for _, name := range path {
		want = want.AppendToken(name)
	}
	d := jsontext.NewDecoder(bytes.NewReader(text))
	var best int64
	deepest := -1
	for {
		// The value begins after what is left of white space, comma and colon.
		start := d.InputOffset()
		if _, err := d.ReadToken(); err != nil {
			return best
		}
		at := d.StackPointer()
		depth := strings.Count(string(at), "/")
		if depth > deepest && (at == want || at.Contains(want)) {
			rest := text[start:d.InputOffset()]
			best, deepest = start+int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))), depth
		}
	}
}
