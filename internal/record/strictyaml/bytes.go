package strictyaml

import (
	"bytes"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
)

// checkBytes refuses what must not reach the parser.
func (f file) checkBytes(data []byte) error {
	if len(data) > f.rules.MaxBytes {
		return f.refuseSize(len(data), "bytes", f.rules.MaxBytes)
	}
	if n := bytes.Count(data, []byte("\n")); n > f.rules.MaxLines {
		return f.refuseSize(n, "lines", f.rules.MaxLines)
	}
	var open nesting
	line, column := 1, 0
	for i, r := range string(data) {
		column++
		switch {
		case r == '\r':
			return f.refuse(line, column, "found a carriage return, expected lines that end in a bare newline")
		case r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")):
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: found the byte 0x%02x, which is not valid UTF-8", f.name, line, column, data[i]).WithHint("save the file as UTF-8")
		case !visible(r):
			return f.refuse(line, column, "found the character %U, which cannot be seen; write it as an escape in double quotes", r)
		}
		open.add(r)
		switch {
		case open.brackets > maxBrackets:
			return f.refuse(line, column, "more than %d brackets are open", maxBrackets)
		case open.inline > f.rules.MaxInline:
			return f.refuse(line, column, "more than %d lists begin in one line", f.rules.MaxInline)
		case open.marks > f.rules.MaxMarks:
			return f.refuse(line, column, "more than %d marks such as - ? : < stand in a row", f.rules.MaxMarks)
		}
		if r == '\n' {
			line, column = line+1, 0
		}
	}
	return nil
}

func (f file) refuseSize(found int, unit string, most int) error {
	return refusal.Newf(refusal.TooLarge, "%s: %d %s, at most %d are accepted", f.name, found, unit, most).WithHint("%s", f.rules.TooLargeHint)
}

// visible leaves out control characters, the byte order mark and the line ends
// that only some readers know.
func visible(r rune) bool {
	return r == '\n' || r == '\t' || r >= 0x20 && r < 0x7f || r >= 0xa0 && r != 0xfeff && r != 0x2028 && r != 0x2029
}

// A nesting counts what can make the parser recurse.
type nesting struct {
	brackets int  // that are open
	marks    int  // - ? : < in a row, with blanks between them or not
	inline   int  // marks in a row, with a blank after each
	after    bool // the last character was a mark
}

func (n *nesting) add(r rune) {
	switch r {
	case '[', '{':
		n.brackets++
	case ']', '}':
		n.brackets = max(0, n.brackets-1)
	}
	switch r {
	case '<': // the first reader's time grows with the square of a row of them
		n.marks++
	case '-', '?', ':':
		n.marks++
		if n.after {
			n.inline = 0
		}
		n.after = true
	case ' ', '\t':
		if n.after {
			n.inline++
		}
		n.after = false
	default:
		n.marks, n.inline, n.after = 0, 0, false
	}
}
