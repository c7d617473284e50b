package jsonstream

import "strconv"

// Member is a member of a value that [Reader.Any] read, or of a member of it and so
// on; nil if it is not there.
func Member(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// TextOf is a text, number or bool as text, "" for everything else.
func TextOf(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case Number:
		return string(x)
	case bool:
		return strconv.FormatBool(x)
	}
	return ""
}

// ListOf is a list, nil for everything else.
func ListOf(v any) []any {
	l, _ := v.([]any)
	return l
}

// IntOf is a whole number from 0, if the value is one.
func IntOf(v any) (int64, bool) {
	n, ok := v.(Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int()
	return i, err == nil
}
