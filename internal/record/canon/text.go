package canon

import "unicode/utf8"

// AppendString appends s to dst as a canonical JSON string: what [Marshal]
// writes for it, without the detour, for code that spells out documents of
// which it makes many.
//
// JSON cannot hold bytes that are not UTF-8. Marshal refuses them; here U+FFFD
// stands for each, because a text from outside that is hashed as it is shown
// must be shown all the same.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // which puts U+FFFD for each
	}
	dst = append(dst, '"')
	done := 0 // how much of s is in dst
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			dst = appendEscape(append(dst, s[done:i]...), c)
			done = i + 1
		}
	}
	return append(append(dst, s[done:]...), '"')
}

// appendEscape spells a character that cannot stand in a string as it is:
// RFC 8785, section 3.2.2.2.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}
