package markup

import (
	"strings"
)

// maxIndent bounds how deep elements stand in each other; what is deeper stays in one
// line.
const maxIndent = 24

// inlineBytes is how long a list or an object may be that stays in one line.
const inlineBytes = 64

// looksLikeJSON reports whether a text is an object or a list, or the beginning of one.
func looksLikeJSON(text string) bool {
	t := strings.TrimLeft(text, " \n\t")
	if len(t) > 2 && t[0] == '"' && stringEnd(t, '"') == len(strings.TrimRight(t, " \n\t")) {
		return strings.Contains(t, `\n`)
	}
	if len(t) < 2 || t[0] != '{' && t[0] != '[' {
		return false
	}
	next := strings.TrimLeft(t[1:], " \n\t")
	if next == "" {
		return false
	}
	if t[0] == '{' {
		return next[0] == '"' && strings.Contains(next, `":`) || next[0] == '}'
	}
	return strings.IndexByte(`{["]-0123456789tfn`, next[0]) >= 0 && (next[0] != 't' || strings.HasPrefix(next, "true")) &&
		(next[0] != 'f' || strings.HasPrefix(next, "false")) && (next[0] != 'n' || strings.HasPrefix(next, "null"))
}

// JSON shows a JSON text with a member in each line. It reads any text: what is not JSON
// stays what it is.
func JSON(text string) string {
	w := &jsonWriter{rest: text}
	w.open("code", "block")
	for w.rest != "" {
		w.step()
	}
	w.end(0)
	w.close("code")
	return w.String()
}

type jsonWriter struct {
	writer
	rest  string
	stack []level // the lists and objects around this place
}

// A level is a list or an object that has begun.
type level struct {
	inLines bool // its members have lines of their own
	member  bool // one has begun
}

func (w *jsonWriter) take(n int) string {
	s := w.rest[:n]
	w.rest = w.rest[n:]
	return s
}

// step writes the next token.
func (w *jsonWriter) step() {
	switch c := w.rest[0]; {
	case c == '{' || c == '[':
		w.member()
		w.stack = append(w.stack, level{inLines: len(w.stack) < maxIndent && !isShort(w.rest)})
		w.text(w.take(1))
	case c == '}' || c == ']':
		if n := len(w.stack); n > 0 {
			w.end(n - 1)
		}
		w.text(w.take(1))
	case c == ',':
		if n := len(w.stack); n > 0 && w.stack[n-1].inLines {
			w.text(w.take(1))
			w.endMember()
		} else {
			w.in("span", "jc", w.take(1))
		}
	case c == ':':
		w.in("span", "jc", w.take(1))
	case strings.IndexByte(" \n\t", c) >= 0:
		w.space(w.take(len(w.rest) - len(strings.TrimLeft(w.rest, " \n\t"))))
	case c == '"':
		w.member()
		s := w.take(stringEnd(w.rest, '"'))
		class := "ts"
		if strings.HasPrefix(strings.TrimLeft(w.rest, " \n\t"), ":") {
			class = "tk"
		}
		w.str(class, s)
	default:
		w.member()
		n := strings.IndexAny(w.rest, "{}[],: \n\t\"")
		if n < 0 {
			n = len(w.rest)
		}
		class := "tl"
		if c == '-' || '0' <= c && c <= '9' {
			class = "tn"
		}
		w.in("span", class, w.take(n))
	}
}

// str writes a string. The line feeds in it are spelled out; people see lines.
func (w *jsonWriter) str(class, s string) {
	w.open("span", class)
	for plain := 0; ; {
		i := lineFeed(s[plain:])
		if i < 0 {
			w.text(s[plain:])
			break
		}
		w.text(s[plain : plain+i])
		w.in("span", "nl", `\n`)
		plain += i + 2
	}
	w.close("span")
}

// lineFeed is where the escape of a line feed stands; -1 if there is none.
func lineFeed(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if s[i+1] == 'n' {
			return i
		}
		i++
	}
	return -1
}

// space writes white space between tokens. Elements give the lines here.
func (w *jsonWriter) space(s string) {
	if len(w.stack) > 0 {
		w.mark(s)
	} else {
		w.text(s)
	}
}

// member begins a line where a member begins.
func (w *jsonWriter) member() {
	if n := len(w.stack); n > 0 && w.stack[n-1].inLines && !w.stack[n-1].member {
		w.stack[n-1].member = true
		w.open("span", "ji")
	}
}

func (w *jsonWriter) endMember() {
	if n := len(w.stack); n > 0 && w.stack[n-1].member {
		w.stack[n-1].member = false
		w.close("span")
	}
}

// end closes what is open down to a level.
func (w *jsonWriter) end(to int) {
	for len(w.stack) > to {
		w.endMember()
		w.stack = w.stack[:len(w.stack)-1]
	}
}

// isShort reports whether a list or object has few simple members and needs no lines.
func isShort(s string) bool {
	end := strings.IndexByte(s, map[byte]byte{'{': '}', '[': ']'}[s[0]])
	return end > 0 && end < inlineBytes && !strings.ContainsAny(s[1:end], "{[\n")
}

// stringEnd is where a string ends that begins with a quotation mark: after the one that
// closes it, at the end of the text if none does.
func stringEnd(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		}
	}
	return len(s)
}
