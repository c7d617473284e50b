package extract

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/canon"
)

// ParsePointer reads a JSON pointer (RFC 6901) into its names. The empty
// pointer has none and means the whole document.
func ParsePointer(p string) ([]string, error) {
	if p == "" {
		return nil, nil
	}
	if p[0] != '/' || len(p) > maxSpecText || !utf8.ValidString(p) {
		return nil, fmt.Errorf("is %.100q, expected a JSON pointer such as /total/amount", p)
	}
	names := strings.Split(p[1:], "/")
	for i, name := range names {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(name)
		if strings.Contains(plain, "~") {
			return nil, fmt.Errorf("is %.100q, in which ~ stands before something else than 0 or 1", p)
		}
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names, nil
}

// Lookup gives the part of a canonical JSON document that a pointer's names
// lead to. It reads the document once, however deep the pointer leads.
func Lookup(doc canon.RawMessage, names []string) (canon.RawMessage, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(doc))
	for _, name := range names {
		if !enter(dec, name) {
			return nil, false
		}
	}
	value, err := dec.ReadValue()
	return canon.RawMessage(bytes.Clone(value)), err == nil
}

// enter moves on to the member or item with a name, if the next value has one.
func enter(dec *jsontext.Decoder, name string) bool {
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		return false
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	if kind == '[' {
		return skipTo(dec, name)
	}
	for dec.PeekKind() == '"' {
		member, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if member.String() == name {
			return true
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

// skipTo moves on to an item of a list.
func skipTo(dec *jsontext.Decoder, name string) bool {
	index, err := strconv.Atoi(name)
	// RFC 6901: an index has one spelling, without a sign or leading zeros.
	if err != nil || index < 0 || strconv.Itoa(index) != name {
		return false
	}
	for ; index > 0 && dec.PeekKind() != ']'; index-- {
		if dec.SkipValue() != nil {
			return false
		}
	}
	kind := dec.PeekKind()
	return kind != ']' && kind != 0
}
