// Package plain makes untrusted text safe to print.
//
// An agent, a rubric or a file name may hold bytes that move a terminal's
// cursor, recolour it, reverse the reading order, or that a CI runner takes for
// a command of its own. Everything that did not come from this program's own
// source goes through [Line], [Block] or [JSON] before a person, a CI log or a
// report sees it.
//
// The escapes are for eyes, not for machines: a text that already contains the
// four characters \x1b prints the same as one that contains the ESC byte. In
// return, escaping twice changes nothing, so no layer has to know whether
// another has done it. [JSON] alone keeps the exact value.
//
// The package does not shorten anything and does not hide letters that look
// alike; [Fold] and [Invisible] find names and characters that mislead.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line of visible text. Line breaks and tabs are escaped
// like every other control character, so a value can never begin a line of its
// own and pose as one of ours.
func Line(s string) string {
	return escape(s, false)
}

// Block returns s with its line feeds and tabs kept and everything else made
// visible. Each line is safe at the left margin of a CI log.
func Block(s string) string {
	return escape(s, true)
}

func escape(s string, keepLines bool) string {
	var b strings.Builder
	b.Grow(len(s))
	margin := true // nothing but white space on this line so far
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		rest := s[i:]
		i += size

		switch {
		case keepLines && r == '\n':
			b.WriteByte('\n')
			margin = true
			continue
		case keepLines && r == '\t', r == ' ':
			// Runners trim white space before they look for a command.
			b.WriteRune(r)
			continue
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case margin && strings.HasPrefix(rest, "::"):
			// "::set-output ..." at the margin is an order to a GitHub runner.
			b.WriteString(`\x3a`)
		case opensBracketCommand(rest):
			b.WriteString(`\x23`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(visible(r))
		}
		margin = false
	}
	return b.String()
}

// opensBracketCommand reports whether s begins with "##[" or "##vso[", which
// GitHub and Azure runners obey anywhere in a line.
func opensBracketCommand(s string) bool {
	rest, ok := strings.CutPrefix(s, "##")
	if !ok {
		return false
	}
	const azure = "vso["
	return strings.HasPrefix(rest, "[") ||
		len(rest) >= len(azure) && strings.EqualFold(rest[:len(azure)], azure)
}

// visible spells a rune that is not printable: a control character, an
// invisible or bidirectional mark, an unassigned code point.
func visible(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}

// JSON rewrites an encoded JSON document so that it can be shown on a terminal
// and still decodes to exactly the same value: what [Line] would escape becomes
// a JSON escape. The document must be valid; only inside strings can such
// characters stand. White space between values is left as it is.
func JSON(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); {
		r, size := utf8.DecodeRune(doc[i:])
		switch {
		case r == '\n', r == '\t', r == '\r':
			out = append(out, doc[i])
		case r == utf8.RuneError && size == 1:
			// A decoder reads a stray byte as U+FFFD; say so in plain sight.
			out = append(out, `\ufffd`...)
		case r == '#' && opensBracketCommand(string(doc[i:min(len(doc), i+len("##vso["))])):
			out = append(out, `\u0023`...)
		case strconv.IsPrint(r):
			out = append(out, doc[i:i+size]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}
