package trajectory

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// How many bytes of a text an event carries. The whole text is in the
// evidence, under its digest.
const (
	PromptHead     = 2 << 10
	ResultHead     = 4 << 10
	ArgumentHead   = 8 << 10 // for each argument, memory value and answer
	DefinitionHead = 512     // of what a model is told of a tool; the whole is in the prompt
	maxHead        = ArgumentHead
)

// A Content stands for a text: its digest, its length and its beginning.
type Content struct {
	Bytes  int64          `json:"bytes"`  // of the whole
	Digest digest.Content `json:"digest"` // of the whole
	Head   string         `json:"head"`
	// Lossy says that the text is not UTF-8: in the head U+FFFD stands for
	// what is not.
	Lossy bool `json:"lossy,omitempty"`
	// Redacted says that secrets were taken out of the text. Bytes and digest
	// are those of what is left: a secret that has few possible values could
	// be guessed from a digest of the text with it. In v1 they are those of
	// the text with its secrets.
	Redacted  bool `json:"redacted,omitempty"`
	Truncated bool `json:"truncated,omitempty"`
}

// NewContent stands for text, with a head of at most limit bytes that ends
// between two characters.
func NewContent(text []byte, limit int) Content { return NewRedacted(text, text, limit) }

// NewRedacted is [NewContent] for a text with secrets; safe is text without
// them, and what stands for it. The head is cut from safe: cutting first could
// leave half a secret that no pattern finds.
func NewRedacted(text, safe []byte, limit int) Content {
	c := Content{
		Bytes:    int64(len(safe)),
		Digest:   digest.ContentOf(safe),
		Redacted: string(text) != string(safe),
	}
	limit = min(limit, maxHead)
	c.Lossy = !utf8.Valid(safe)
	clean := string(safe)
	if c.Lossy {
		clean = strings.ToValidUTF8(clean, "\uFFFD")
	}
	c.Head = cut(clean, limit)
	c.Truncated = len(c.Head) < len(clean)
	return c
}

// cut returns the beginning of s, at most limit bytes, between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// isExact reports whether the head is the whole text.
func (c *Content) isExact() bool { return !c.Lossy && !c.Redacted && !c.Truncated }

// wholeText is what can be checked without the whole: a head that claims to be
// everything must have the digest.
func (c *Content) wholeText() error {
	switch {
	case c.isExact() && (c.Bytes != int64(len(c.Head)) || digest.ContentOf([]byte(c.Head)) != c.Digest):
		return errors.New("the head claims to be the whole text and has another digest or length")
	case c.Truncated && !c.Lossy && !c.Redacted && c.Bytes <= int64(len(c.Head)):
		return fmt.Errorf("cut to %d bytes from %d", len(c.Head), c.Bytes)
	}
	return nil
}

// checkHeads bounds the texts of which a line carries less than [maxHead], by
// type and member. Format v1 did not ask for it, so what was sealed in it is not refused.
func checkHeads(p Payload) error {
	switch p := p.(type) {
	case *RunStarted:
		return headAtMost("input", p.Input, PromptHead)
	case *TurnStarted:
		return headAtMost("input", p.Input, PromptHead)
	case *ModelCallStarted:
		return headAtMost("prompt", &p.Prompt, PromptHead)
	case *ModelCallCompleted:
		return headAtMost("output", &p.Output, ResultHead)
	case *ToolExecuted:
		return headAtMost("result", &p.Result, ResultHead)
	case *ToolObserved:
		return headAtMost("result", p.Result, ResultHead)
	case *MemoryRetrieved:
		return headAtMost("query", p.Query, PromptHead)
	case *TestRun:
		return headAtMost("output", &p.Output, ResultHead)
	case *UserToolCalled:
		return headAtMost("result", &p.Result, ResultHead)
	case *UserMoved:
		return headAtMost("say", p.Say, PromptHead)
	case *WorldStarted:
		return headAtMost("tools", &p.Tools, ResultHead)
	case *WorldState:
		return headAtMost("state", &p.State, ResultHead)
	}
	return nil
}

func headAtMost(field string, c *Content, limit int) error {
	if c != nil && len(c.Head) > limit {
		return fmt.Errorf("%s: the head has %d bytes, expected at most %d", field, len(c.Head), limit)
	}
	return nil
}

// Args are the arguments of a call. A value whose canonical JSON is longer than
// [ArgumentHead] is in Cut and not in Values, and so is one that does not fit
// beside the others: no agent can write a line that is too long. Arguments that
// are not a JSON object, as a model may write them, or have too many names, are
// in Raw. Of redacted ones everything is that of what is left, as in a
// [Content].
type Args struct {
	Bytes    int64                       `json:"bytes"`         // of the whole, in canonical JSON
	Cut      map[string]Content          `json:"cut,omitempty"` // of their canonical JSON
	Digest   digest.Content              `json:"digest"`        // of the whole, in canonical JSON
	Raw      *Content                    `json:"raw,omitempty"`
	Redacted bool                        `json:"redacted,omitempty"`
	Values   map[string]canon.RawMessage `json:"values,omitempty"`
}

// isPartOf reports whether all that the arguments say is said by others too: their
// members are there, with the same values, or with objects that hold theirs.
func (a *Args) isPartOf(others *Args) bool {
	if a.Digest == others.Digest {
		return true
	}
	if a.Raw != nil || others.Raw != nil {
		return false
	}
	for name, cut := range a.Cut {
		if other, ok := others.Cut[name]; !ok || other.Digest != cut.Digest {
			return false
		}
	}
	for name, value := range a.Values {
		var part, whole any
		other, ok := others.Values[name]
		if !ok || canon.Unmarshal(value, &part) != nil || canon.Unmarshal(other, &whole) != nil || !isPart(part, whole) {
			return false
		}
	}
	return true
}

func isPart(part, whole any) bool {
	members, ok := part.(map[string]any)
	others, both := whole.(map[string]any)
	if !ok || !both {
		return reflect.DeepEqual(part, whole)
	}
	for name, value := range members {
		if other, there := others[name]; !there || !isPart(value, other) {
			return false
		}
	}
	return true
}

// NewArgs stands for the arguments in data, which may be nothing.
func NewArgs(data []byte) Args { return NewRedactedArgs(data, data) }

// NewRedactedArgs is [NewArgs] for arguments with secrets; safe is data
// without them, and what stands for it.
func NewRedactedArgs(data, safe []byte) Args {
	if len(data) == 0 {
		data, safe = []byte("{}"), []byte("{}")
	}
	a := Args{Redacted: string(data) != string(safe)}
	var values map[string]canon.RawMessage
	whole, err := canon.Canonicalize(safe)
	if err == nil {
		err = canon.Unmarshal(safe, &values)
	}
	names, fits := namesOf(values)
	if err != nil || !fits {
		if err != nil {
			whole = safe
		}
		raw := NewContent(whole, ArgumentHead)
		raw.Redacted = a.Redacted
		return Args{Bytes: raw.Bytes, Digest: raw.Digest, Raw: &raw, Redacted: a.Redacted}
	}
	a.Bytes, a.Digest = int64(len(whole)), digest.ContentOf(whole)
	room := maxArgs
	for _, name := range names {
		text, err := canon.Canonicalize(values[name])
		if err != nil {
			continue // canon has read it as a part of safe
		}
		room = a.add(name, text, room)
	}
	return a
}

// What the arguments of one call may take of a line of 1 MiB. All values and
// heads together have maxArgs; beyond that each has a head of a few bytes.
const (
	maxArgs     = 256 << 10
	maxArgNames = 1000
	maxArgName  = 64 << 10 // of all names together
	leastHead   = 32
)

// namesOf lists the names of arguments in order, and reports whether a line has
// room for them.
func namesOf(values map[string]canon.RawMessage) (names []string, fits bool) {
	size := 0
	for name := range values {
		names = append(names, name)
		size += len(canon.AppendString(nil, name))
	}
	slices.Sort(names)
	return names, len(names) <= maxArgNames && size <= maxArgName
}

// add puts a value where there is room for it, and returns what is left.
func (a *Args) add(name string, text []byte, room int) int {
	if len(text) <= ArgumentHead && len(text) <= room {
		if a.Values == nil {
			a.Values = map[string]canon.RawMessage{}
		}
		a.Values[name] = text
		return room - len(text)
	}
	head := ArgumentHead
	if 2*head > room { // as a text in JSON, a quotation mark is two bytes
		head = leastHead
	}
	if a.Cut == nil {
		a.Cut = map[string]Content{}
	}
	c := NewContent(text, head)
	a.Cut[name] = c
	return max(0, room-2*len(c.Head))
}

// wholeArguments is the same of arguments: nothing is said of a name twice, no
// value is too long, and what claims to be everything has the digest.
func (a *Args) wholeArguments() error {
	if a.Raw != nil {
		if len(a.Values)+len(a.Cut) > 0 || a.Raw.Digest != a.Digest || a.Raw.Bytes != a.Bytes {
			return errors.New("both raw and values, or another digest or length than raw")
		}
		return nil
	}
	for name, value := range a.Values {
		if _, both := a.Cut[name]; both {
			return fmt.Errorf("%q is in values and in cut", name)
		}
		if len(value) > ArgumentHead {
			return fmt.Errorf("%q has %d bytes, expected at most %d", name, len(value), ArgumentHead)
		}
	}
	if a.Redacted || len(a.Cut) > 0 {
		return nil
	}
	whole := []byte("{}")
	if len(a.Values) > 0 {
		var err error
		if whole, err = canon.Marshal(a.Values); err != nil {
			return err
		}
	}
	if digest.ContentOf(whole) != a.Digest || int64(len(whole)) != a.Bytes {
		return errors.New("the values claim to be everything and have another digest or length")
	}
	return nil
}

// Named gives the digests of the texts for which an event stands and of which it may have
// only the beginning, and of the files in a request: those, and no others, belong to a
// trajectory as whole texts.
func Named(p Payload) iter.Seq[digest.Content] {
	return func(yield func(digest.Content) bool) { contentsIn(reflect.ValueOf(p), yield) }
}

// contentsIn looks for contents, arguments and files in a payload and all its members.
func contentsIn(v reflect.Value, yield func(digest.Content) bool) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || contentsIn(v.Elem(), yield)
	case reflect.Struct:
		switch x := v.Interface().(type) {
		case Content:
			return yield(x.Digest)
		case Args:
			return yield(x.Digest)
		case ModelCallStarted:
			for _, f := range x.Files {
				if !yield(f.Digest) {
					return false
				}
			}
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !contentsIn(v.Field(i), yield) {
				return false
			}
		}
	}
	return true
}
