// Package evidence defines every document that Tallystick hashes or signs.
//
// The types are plain data: they do no I/O, know no keys and make no
// decisions. Each has a strict form, checked by its Validate method after
// [canon] has refused everything that is not exactly JSON of that shape.
package evidence

import (
	"bytes"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

// MaxEntryBytes bounds one entry of the ledger. What is larger belongs into
// the evidence, with its digest in the entry.
const MaxEntryBytes = 1 << 20

// An Entry is one line of the ledger: a record in its envelope.
type Entry struct {
	Body canon.RawMessage `json:"body"`
	Kind Kind             `json:"kind"`
	// Manual marks what a person appended by hand with "tally ledger append".
	// Such records are kept and shown and never count as scores.
	Manual  bool   `json:"manual,omitempty"`
	Time    Time   `json:"time"`
	Version string `json:"v"` // [format.Version]
}

// AppendEntry appends the canonical bytes of an entry to dst. The body must be
// canonical already; the envelope around it is spelled out here because the
// sequencer does this for every record, and hashing needs exactly these bytes.
func AppendEntry(dst, body []byte, kind Kind, manual bool, at Time) []byte {
	dst = append(dst, entryPrefix...)
	dst = append(dst, body...)
	dst = append(dst, kindField...)
	dst = append(dst, kind...)
	if manual {
		dst = append(dst, manualField...)
	} else {
		dst = append(dst, timeField...)
	}
	dst = at.appendText(dst)
	return append(dst, entrySuffix...)
}

// An Envelope is what the walk over the chain needs of an entry, read off its
// fixed spelling without decoding the body.
type Envelope struct {
	Body   []byte
	Kind   Kind
	Manual bool
	Time   Time
}

const (
	entryPrefix  = `{"body":`
	versionField = `","v":"`
	entrySuffix  = versionField + format.Version + `"}`
	timeField    = `","time":"`
	manualField  = `","manual":true,"time":"`
	kindField    = `,"kind":"`
)

// SplitEntry reads the envelope of an entry's canonical bytes. It accepts only
// the spelling that [AppendEntry] writes; whether the body is canonical JSON is
// for [DecodeEntry].
func SplitEntry(line []byte) (Envelope, error) {
	rest, ok := bytes.CutPrefix(line, []byte(entryPrefix))
	if ok {
		rest, ok = bytes.CutSuffix(rest, []byte(entrySuffix))
	}
	if !ok {
		if newer := newerEntry(line); newer != nil {
			return Envelope{}, newer
		}
	}
	if !ok || len(rest) < timeTextLen+len(timeField) {
		return Envelope{}, fmt.Errorf("not an entry: expected %s … %s", entryPrefix, entrySuffix)
	}
	var env Envelope
	var err error
	if env.Time, err = ParseTime(string(rest[len(rest)-timeTextLen:])); err != nil {
		return Envelope{}, err
	}
	rest = rest[:len(rest)-timeTextLen]
	if rest, env.Manual = bytes.CutSuffix(rest, []byte(manualField)); !env.Manual {
		if rest, ok = bytes.CutSuffix(rest, []byte(timeField)); !ok {
			return Envelope{}, fmt.Errorf("not an entry: no time field before the end")
		}
	}
	i := bytes.LastIndex(rest, []byte(kindField))
	if i < 0 {
		return Envelope{}, fmt.Errorf("not an entry: no kind field")
	}
	env.Body, env.Kind = rest[:i], kindOf(rest[i+len(kindField):])
	if !env.Kind.wellFormed() {
		return Envelope{}, fmt.Errorf("not an entry: the kind %q is unknown", string(env.Kind))
	}
	return env, nil
}

// newerEntry returns [refusal.NewerFormat] if the end of a line that is not an entry
// of this version names another one.
func newerEntry(line []byte) error {
	i := bytes.LastIndex(line, []byte(versionField))
	if i < 0 || !bytes.HasPrefix(line, []byte(entryPrefix)) {
		return nil
	}
	version, ok := bytes.CutSuffix(line[i+len(versionField):], []byte(`"}`))
	if !ok {
		return nil
	}
	return format.NewerName("the entry", string(version), format.Version)
}

// byName finds a kind without making a string: every entry that is verified has
// one.
var byName = func() map[string]Kind {
	m := make(map[string]Kind)
	for _, k := range Kinds() {
		m[string(k)] = k
	}
	return m
}()

func kindOf(name []byte) Kind {
	if k, ok := byName[string(name)]; ok {
		return k
	}
	return Kind(name)
}

// DecodeEntry decodes and validates an entry and its body strictly. The bytes
// must be canonical. The envelope needs no second look: it has one spelling,
// and [SplitEntry] insists on it.
func DecodeEntry(line []byte) (Entry, Body, error) {
	env, err := SplitEntry(line)
	if err != nil {
		return Entry{}, nil, malformed("%w", err)
	}
	e := Entry{Body: env.Body, Kind: env.Kind, Manual: env.Manual, Time: env.Time, Version: format.Version}
	body, err := DecodeBody(e.Kind, e.Body)
	return e, body, err
}

// CheckDepth refuses a record that is nested so deep that its entry, which is
// one object more, would not be canonical JSON. The record has been found to be
// JSON.
func CheckDepth(k Kind, body []byte) error {
	// Most records do not even have so many brackets.
	if bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{'['}) < canon.MaxDepth || depth(body) < canon.MaxDepth {
		return nil
	}
	return refusal.Newf(refusal.Malformed, "%s: the record is nested deeper than %d, its entry deeper than %d", k, canon.MaxDepth-1, canon.MaxDepth).
		WithHint("put the deep part into a string, or into the evidence and its digest into the record")
}

// depth is how many arrays and objects are open inside each other, in JSON
// that has been found to be JSON.
func depth(body []byte) (deepest int) {
	open, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// malformed names an error, unless it says that the document is a newer program's.
func malformed(text string, err error) error {
	if refusal.Is(err, refusal.NewerFormat) {
		return fmt.Errorf(text, err)
	}
	return refusal.Newf(refusal.Malformed, text, err)
}

// wellFormed reports whether k could be a kind: dotted lower-case words.
func (k Kind) wellFormed() bool {
	if k == "" || len(k) > 64 || strings.HasPrefix(string(k), ".") || strings.HasSuffix(string(k), ".") {
		return false
	}
	for _, c := range []byte(k) {
		if (c < 'a' || c > 'z') && c != '.' && c != '_' {
			return false
		}
	}
	return true
}
