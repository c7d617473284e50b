package attest

import "bytes"

// A member is one member of an object, as its canonical bytes have it.
type member struct {
	name       []byte // without quotes, escapes as they stand
	value      []byte
	start, end int // of the member, without the comma on either side
}

// A room is where members puts its list, on the stack of the caller. A body has
// some twenty members.
type room [24]member

// members lists the members of an object whose bytes are canonical. Cutting bytes
// costs a tenth of decoding and encoding again, and changes none of them.
func members(into *room, text []byte) []member {
	list := into[:0]
	for at := 1; at < len(text)-1; at++ { // from the brace or a comma on
		m := member{start: at}
		nameEnd := endOfString(text, at)
		m.name = text[at+1 : nameEnd-1]
		m.end = endOfValue(text, nameEnd+1)
		m.value = text[nameEnd+1 : m.end]
		list = append(list, m)
		at = m.end
	}
	return list
}

// endOfString gives the place after a string that begins at a place.
func endOfString(text []byte, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// endOfValue gives the place after a value that begins at a place.
func endOfValue(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = endOfString(text, at) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// find gives the value of a member, nil if it is not there.
func find(list []member, name string) []byte {
	for _, m := range list {
		if string(m.name) == name {
			return m.value
		}
	}
	return nil
}

// without gives the object without a member.
func without(text []byte, name string) []byte {
	var space room
	list := members(&space, text)
	for i, m := range list {
		if string(m.name) != name {
			continue
		}
		start, end := m.start, m.end
		switch {
		case i > 0:
			start-- // the comma before it
		case len(list) > 1:
			end++ // the comma after it
		}
		return append(bytes.Clone(text[:start]), text[end:]...)
	}
	return text
}

// with gives the object with one member more, at its place in the order. The name
// is of ASCII letters, and where other names have an escape, it has a lower-case
// one: below those sort all characters that are escaped in a string, and the
// backslash that escapes them too; above sort all that are not ASCII, in UTF-8 as
// in UTF-16. So comparing bytes gives the order of RFC 8785.
func with(text []byte, name string, value []byte) []byte {
	var space room
	list := members(&space, text)
	at, before, after := len(text)-1, ",", ""
	for _, m := range list {
		if string(m.name) > name {
			at, before, after = m.start, "", ","
			break
		}
	}
	if len(list) == 0 {
		before = ""
	}
	out := make([]byte, 0, len(text)+len(name)+len(value)+4)
	out = append(out, text[:at]...)
	out = append(out, before...)
	out = append(out, '"')
	out = append(out, name...)
	out = append(out, '"', ':')
	out = append(out, value...)
	out = append(out, after...)
	return append(out, text[at:]...)
}
