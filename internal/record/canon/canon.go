// Package canon is the one encoder and the one strict decoder of every JSON
// document that Tallystick hashes or signs.
//
// The encoder writes RFC 8785 canonical JSON, in which a value has exactly one
// spelling. The decoder refuses whatever two readers could understand
// differently: duplicate and unknown names, invalid UTF-8, lone surrogates,
// numbers that a double cannot hold, nesting beyond [MaxDepth], bytes before
// or after the value. docs/formats/canonical-json.md states the rules.
//
// What passes is well spelled, and no more than that: whether a document is
// complete, and whether its values make sense, is for the package that owns
// the document. Unicode is not normalised, so two names that look alike may
// be different names.
//
// Every function works in time and memory proportional to the input, apart
// from sorting the names of an object. The caller bounds the input.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"tallystick/internal/record/refusal"
)

// MaxDepth is how many arrays and objects may be open inside each other. No
// document of ours comes near it; without a bound, readers with a smaller
// stack would fail on a text that this package accepted.
const MaxDepth = 64

// A RawMessage holds one JSON value of any shape as a field of a document.
// Decoding keeps its text; encoding writes it in canonical spelling. A nil
// RawMessage encodes as null, unless the field says omitempty.
type RawMessage = jsontext.Value

// encoding makes omitempty mean what it means in encoding/json: false, 0, "",
// nil and empty are left out. The library alone would keep false and 0.
var encoding = json.JoinOptions(
	json.Deterministic(true),
	jsonv1.OmitEmptyWithLegacySemantics(true),
)

// Marshal returns the canonical bytes of v. Field names come from json struct
// tags; omitempty, omitzero and TextMarshaler are honoured; a nil slice is []
// and a nil map is {}. NaN, infinities, integers beyond 2^53-1 and invalid
// UTF-8 are refused.
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v, encoding)
	if err != nil {
		return nil, refuseLibraryError("encoding", err)
	}
	return canonicalize(data)
}

// Append is [Marshal] that appends to dst, for who writes many values into one
// text. After an error the bytes of dst are as they were.
func Append(dst []byte, v any) ([]byte, error) {
	w := appender{dst}
	if err := json.MarshalWrite(&w, v, encoding); err != nil {
		return nil, refuseLibraryError("encoding", err)
	}
	s := scanner{data: w.data[len(dst):]}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if s.isCanonical() {
		return w.data, nil
	}
	value, err := canonicalize(slices.Clone(s.data))
	if err != nil {
		return nil, err
	}
	return append(dst, value...), nil
}

// An appender is a writer into memory.
type appender struct{ data []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.data = append(a.data, p...)
	return len(p), nil
}

// Canonicalize returns the canonical bytes of the one JSON value in data,
// however it is spelled. The result never shares memory with data.
func Canonicalize(data []byte) ([]byte, error) {
	return canonicalize(slices.Clone(data))
}

// canonicalize is [Canonicalize] for bytes that it may overwrite and keep.
func canonicalize(data []byte) ([]byte, error) {
	s := scanner{data: data}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if s.isCanonical() {
		return data, nil
	}
	value := jsontext.Value(data)
	if err := value.Canonicalize(); err != nil {
		return nil, refuseLibraryError("reading JSON", err)
	}
	return value, nil
}

// Validate returns nil only if data is exactly the canonical spelling of one
// JSON value.
func Validate(data []byte) error {
	s := scanner{data: data}
	if err := s.scan(); err != nil {
		return err
	}
	return s.refuseSpelling()
}

// Unmarshal decodes the one JSON value in data into v, however it is spelled.
// Names must match the fields of v exactly, unknown ones are refused, and null
// is refused unless the Go type is a pointer, an interface, a [RawMessage] or
// decodes itself.
//
// After an error v may hold part of the document and must not be used.
func Unmarshal(data []byte, v any) error {
	s := scanner{data: data}
	if err := s.scan(); err != nil {
		return err
	}
	return decode(&s, v)
}

// UnmarshalCanonical is [Unmarshal] for stored documents: data must be exactly
// what [Marshal] writes for the v that was decoded. So besides every spelling
// that is not canonical it refuses what canonical spelling leaves open: an
// optional member that is there but empty, a member that is missing though its
// field is not optional, a time written in two ways.
func UnmarshalCanonical(data []byte, v any) error {
	s := scanner{data: data}
	if err := s.scan(); err != nil {
		return err
	}
	if err := s.refuseSpelling(); err != nil {
		return err
	}
	if err := decode(&s, v); err != nil {
		return err
	}
	return compareEncoding(data, v)
}

// compareEncoding refuses canonical data that is not the encoding of v.
func compareEncoding(data []byte, v any) error {
	// Most documents declare their fields in the order of their names, and
	// then the text needs no sorting and no memory. Looking for duplicate
	// names here would find none: data has none.
	rest := sameBytes{want: data}
	if err := json.MarshalWrite(&rest, v, encoding, jsontext.AllowDuplicateNames(true)); err == nil && len(rest.want) == 0 {
		return nil
	}
	again, err := Marshal(v)
	if err != nil {
		return err
	}
	if bytes.Equal(again, data) {
		return nil
	}
	at := 0
	for at < min(len(again), len(data)) && again[at] == data[at] {
		at++
	}
	return refusal.Newf(refusal.Malformed, "decoding JSON: at byte %d: found %s, expected %s, which is how a document with these values is written",
		at, excerptAt(data, at), excerptAt(again, at)).
		WithHint("a stored document has every required member and leaves out empty optional ones; restore the bytes as they were written")
}

// A sameBytes is a writer that accepts only the bytes it wants.
type sameBytes struct{ want []byte }

var errDiffers = errors.New("differs")

func (w *sameBytes) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(w.want, p) {
		return 0, errDiffers
	}
	w.want = w.want[len(p):]
	return len(p), nil
}

// excerptAt quotes a little of data for a message.
func excerptAt(data []byte, at int) string {
	if at >= len(data) {
		return "the end of the text"
	}
	return fmt.Sprintf("%q", data[at:min(len(data), at+24)])
}

var (
	decoding         = json.JoinOptions(json.RejectUnknownMembers(true))
	decodingWithNull = json.JoinOptions(decoding, json.WithUnmarshalers(json.UnmarshalFromFunc(refuseNull)))
)

func decode(s *scanner, v any) error {
	options := decoding
	// Looking at every value through reflection doubles the work, and few
	// documents have a null.
	if s.hasNull {
		options = decodingWithNull
	}
	if err := json.Unmarshal(s.data, v, options); err != nil {
		return refuseLibraryError("decoding JSON", err)
	}
	return nil
}

var errNull = errors.New("found null, expected a value")

// refuseNull is called with a pointer to every value about to be decoded. The
// library would turn null into the zero value, so a missing score would read
// as the score 0.
func refuseNull(dec *jsontext.Decoder, target any) error {
	if dec.PeekKind() == 'n' && !takesNull(reflect.TypeOf(target)) {
		return errNull
	}
	return errors.ErrUnsupported
}

func takesNull(pointer reflect.Type) bool {
	switch pointer.Elem().Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	}
	// A time has the method but is decoded by the library, which would make
	// null the year 1.
	if pointer == reflect.TypeFor[*time.Time]() {
		return false
	}
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[json.UnmarshalerFrom]())
}

// refuseLibraryError names an error of the JSON library and says where in the
// text, or in the Go value, it arose.
func refuseLibraryError(doing string, err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		r := refusal.Newf(refusal.Malformed, "%s: %w", doing, &placed{e.ByteOffset, within(e.JSONPointer), e.Err})
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return r.WithHint("keep one of the members with this name; two readers would not agree on which one counts")
		}
		return r.WithHint("correct the document at that place")
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		r := refusal.Newf(refusal.Malformed, "%s: %w", doing, &placed{e.ByteOffset, within(e.JSONPointer), cause(e)})
		if errors.Is(err, json.ErrUnknownName) {
			return r.WithHint("remove the member or correct its name; %snames are case-sensitive", namesOf(e.GoType))
		}
		return r.WithHint("correct the document at that place")
	}
	return refusal.Newf(refusal.Malformed, "%s: %w", doing, err)
}

// IsUnknownName reports whether a document was refused for a member that it may
// not have.
func IsUnknownName(err error) bool { return errors.Is(err, json.ErrUnknownName) }

// namesOf lists the members that an object may have, for a hint.
func namesOf(t reflect.Type) string {
	if t == nil || t.Kind() != reflect.Struct {
		return ""
	}
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return "expected one of " + strings.Join(names, ", ") + "; "
}

func within(p jsontext.Pointer) string {
	if p == "" {
		return ""
	}
	return fmt.Sprintf(", member %.100q", string(p))
}

// cause says what was found and what was expected, as far as the library
// tells.
func cause(e *json.SemanticError) error {
	if errors.Is(e.Err, json.ErrUnknownName) {
		return e.Err
	}
	found := ""
	switch e.JSONKind {
	case 'n', 't', 'f':
		found = e.JSONKind.String()
	case '"':
		found = "a string"
	case '0':
		found = "a number"
	case '{':
		found = "an object"
	case '[':
		found = "an array"
	}
	switch {
	case e.Err != nil && (found == "" || e.GoType == nil):
		return e.Err
	case e.Err != nil:
		return fmt.Errorf("%s for %s: %w", found, jsonWord(e.GoType), e.Err)
	case found != "" && e.GoType != nil:
		return fmt.Errorf("found %s, expected %s", found, jsonWord(e.GoType))
	}
	return e
}

type textUnmarshaler interface{ UnmarshalText([]byte) error }

// jsonWord says in JSON's words what decodes into a type: the reader of the
// message wrote JSON, not Go.
func jsonWord(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[textUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "another value"
}
