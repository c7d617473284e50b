package grade

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
	"tallystick/internal/extract"
	"tallystick/internal/refusal"
	"tallystick/internal/strictyaml"
)

// hint is what a person with a mistake in a spec should do.
const hint = "docs/formats/grading.md has the format"

// A Parsed is a spec and where it was read, so that a mistake found later still
// names its place.
type Parsed struct {
	Spec   Spec
	locate func(path []string, err error) error
}

// ParseYAML reads grading.yaml. Refusals name file, line and column.
func ParseYAML(name string, data []byte) (*Parsed, error) {
	p := &Parsed{}
	doc, err := strictyaml.Decode(name, data, strictyaml.Rules{PlainDigits: true, Hint: hint}, &p.Spec)
	if err != nil {
		return nil, err
	}
	p.locate = func(path []string, err error) error { return doc.Refuse(strictyaml.At(path, err)) }
	if err := p.Spec.validate(); err != nil {
		return nil, p.refuse(err)
	}
	return p, nil
}

// Parse reads the same document as JSON, however it is spelled. Refusals name
// the member.
func Parse(doc canon.RawMessage) (*Parsed, error) {
	p := &Parsed{locate: func(path []string, err error) error {
		return refusal.Newf(refusal.Malformed, "grading: %w", &placed{path, err}).WithHint(hint)
	}}
	if err := p.read(doc); err != nil {
		return nil, err
	}
	return p, nil
}

// read decodes strictly: nothing unknown, nothing empty that could be left out.
func (p *Parsed) read(doc canon.RawMessage) error {
	data, err := canon.Canonicalize(doc)
	if err == nil {
		err = canon.Unmarshal(data, &p.Spec)
	}
	if err != nil {
		return p.refuse(atMember(err))
	}
	if err := p.Spec.validate(); err != nil {
		return p.refuse(err)
	}
	var again Spec
	if err := canon.UnmarshalCanonical(data, &again); err != nil {
		return p.refuse(atMember(err))
	}
	return nil
}

// atMember takes the member out of a message of canon, whose byte is one of the
// canonical form and not of what the author wrote.
func atMember(err error) error {
	const mark = ", member "
	var cause error = err
	if r := refusal.Of(err); r.Err != nil {
		cause = r.Err
	}
	_, rest, ok := strings.Cut(cause.Error(), mark)
	if !ok {
		return &placed{nil, cause}
	}
	quoted, prefixErr := strconv.QuotedPrefix(rest)
	pointer, unquoteErr := strconv.Unquote(quoted)
	path, pointerErr := extract.ParsePointer(pointer)
	if errors.Join(prefixErr, unquoteErr, pointerErr) != nil {
		return &placed{nil, cause}
	}
	return &placed{path, errors.New(strings.TrimPrefix(rest[len(quoted):], ": "))}
}

// datasetKeys are the members of a dataset line that say how it is graded.
var datasetKeys = []string{"extract", "grade", "checks", "expect"}

// ParseDatasetGrading reads the members of a dataset line that say how it is
// graded; the others are not looked at. A line without any is graded by the
// class's rubric. Refusals name the byte of the line, from 0, and the member;
// the caller knows the file and the line.
func ParseDatasetGrading(line canon.RawMessage) (*Parsed, error) {
	var object map[string]canon.RawMessage
	if err := canon.Unmarshal(line, &object); err != nil {
		return nil, err
	}
	parts := map[string]canon.RawMessage{}
	for _, key := range datasetKeys {
		if raw, ok := object[key]; ok {
			parts[key] = raw
		}
	}
	p := &Parsed{locate: func(path []string, err error) error {
		return refusal.Newf(refusal.Malformed, "at byte %d, %w", offsetOf(line, path), &placed{path, err}).WithHint(hint)
	}}
	if len(parts) == 0 {
		p.Spec.Grade = &Rule{Kind: ByRubric}
		return p, nil
	}
	doc, err := canon.Marshal(parts)
	if err != nil {
		return nil, err
	}
	if err := p.read(doc); err != nil {
		return nil, err
	}
	return p, nil
}

// refuse adds the place to a mistake.
func (p *Parsed) refuse(err error) error {
	var at *placed
	if err == nil || !errors.As(err, &at) || p.locate == nil {
		return err
	}
	return p.locate(at.path, at.err)
}

// Compile is [Compile] with refusals that name the place where the spec was
// read.
func (p *Parsed) Compile(m Materials) (*Grader, error) {
	g, err := compile(&p.Spec, m)
	if err != nil {
		return nil, p.refuse(err)
	}
	return g, nil
}

// offsetOf is the byte at which the deepest part of a path that exists begins.
func offsetOf(doc []byte, path []string) int64 {
	var want jsontext.Pointer
	for _, name := range path {
		want = want.AppendToken(name)
	}
	d := jsontext.NewDecoder(bytes.NewReader(doc))
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
			rest := doc[start:d.InputOffset()]
			best, deepest = start+int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))), depth
		}
	}
}
