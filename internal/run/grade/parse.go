package grade

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/extract"
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

// Parse reads the same document as JSON, however it is spelled. Refuse names
// the place of a member in what its author wrote.
func Parse(doc canon.RawMessage, refuse func(member []string, err error) error) (*Parsed, error) {
	p := &Parsed{locate: refuse}
	if err := p.read(doc); err != nil {
		return nil, err
	}
	return p, nil
}

// Specs reads specs and remembers them: the cases of a class often have the same
// one, and reading it strictly takes longer than grading with it. The zero Specs
// is ready, for any number of goroutines.
type Specs struct {
	mu    sync.Mutex
	known map[string]Spec // by document; never changed through the pointer
}

// maxSpecs bounds what is remembered.
const maxSpecs = 1024

// Parse is [Parse].
func (s *Specs) Parse(doc canon.RawMessage, refuse func(member []string, err error) error) (*Parsed, error) {
	s.mu.Lock()
	spec, ok := s.known[string(doc)]
	s.mu.Unlock()
	if ok {
		return &Parsed{spec, refuse}, nil
	}
	p, err := Parse(doc, refuse)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSpecs {
		s.known = make(map[string]Spec)
	}
	s.known[string(doc)] = p.Spec
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
