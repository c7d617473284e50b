package extract

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

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
// lead to.
func Lookup(doc canon.RawMessage, names []string) (canon.RawMessage, bool) {
	for _, name := range names {
		next, ok := member(doc, name)
		if !ok {
			return nil, false
		}
		doc = next
	}
	return doc, true
}

func member(doc canon.RawMessage, name string) (canon.RawMessage, bool) {
	switch doc.Kind() {
	case '{':
		var object map[string]canon.RawMessage
		if canon.Unmarshal(doc, &object) != nil {
			return nil, false
		}
		value, ok := object[name]
		return value, ok
	case '[':
		var list []canon.RawMessage
		if canon.Unmarshal(doc, &list) != nil {
			return nil, false
		}
		i, err := strconv.Atoi(name)
		// RFC 6901: an index has one spelling, without a sign or leading zeros.
		if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != name {
			return nil, false
		}
		return list[i], true
	}
	return nil, false
}
