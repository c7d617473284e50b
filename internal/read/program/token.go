package program

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

type kind uint8

const (
	word   kind = iota // a name or a keyword
	text               // a string; its text is resolved
	number             //
	sign               // anything else
	ending             // the end of a line that ends a statement, in Python and Go
)

// A token is the smallest piece of a program that means something. Comments are
// not tokens.
type token struct {
	kind kind
	// made says that the token does not stand in the program: a string with code
	// inside is read as strings and code added to each other.
	made  bool
	first bool // it stands first on its line
	line  int
	at    int    // its place
	col   int    // its column, of the first on a line
	text  string // a name as it is compared, a string as it is resolved, a sign
	// Of brackets, the place of the other one in the list; 0 if there is none.
	match int
	// outer is the place of the bracket around it, -1 if there is none.
	outer int
}

// A scanner makes tokens.
type scanner struct {
	l    *Language
	data []byte
	i    int
	line int
	from int // where the line begins
	// The line where the present token begins, and where that begins.
	tokenLine, tokenFrom int
	fresh                bool
	depth                int // of brackets
	nest                 int // of strings with code inside
	list                 []token
	// embedded are the files that a program of Go has inside.
	embedded []Text
}

func scan(l *Language, data []byte, line int) ([]token, []Text) {
	s := &scanner{l: l, data: data, line: line + 1, fresh: true}
	s.until(0)
	s.end()
	link(s.list)
	return s.list, s.embedded
}

// link finds the brackets that belong together.
func link(list []token) {
	var open []int
	for i := range list {
		t := &list[i]
		t.outer = -1
		if len(open) > 0 {
			t.outer = open[len(open)-1]
		}
		if t.kind != sign || len(t.text) != 1 {
			continue
		}
		switch t.text[0] {
		case '(', '[', '{':
			open = append(open, i)
		case ')', ']', '}':
			if len(open) == 0 {
				continue
			}
			o := open[len(open)-1]
			open = open[:len(open)-1]
			list[o].match, t.match = i, o
			t.outer = list[o].outer
		}
	}
}

func (s *scanner) put(k kind, at int, txt string) {
	line, from := s.line, s.from
	if at < from { // a string over several lines
		line, from = s.tokenLine, s.tokenFrom
	}
	s.list = append(s.list, token{kind: k, line: line, at: at, first: s.fresh, col: at - from, text: txt})
	s.fresh = false
}

func (s *scanner) madeSign(at int, txt string) {
	s.put(sign, at, txt)
	s.list[len(s.list)-1].made = true
}

// end ends a statement where the language has it so.
func (s *scanner) end() {
	n := len(s.list)
	if n == 0 || s.depth > 0 || s.l == javascript || s.list[n-1].kind == ending {
		return
	}
	// In Go a line goes on behind an operator.
	if last := s.list[n-1]; s.l == python || last.kind != sign || last.text == ")" || last.text == "]" || last.text == "}" {
		s.put(ending, s.i, "\n")
	}
}

// until reads up to a closing brace of a string's code, or to the end.
func (s *scanner) until(stop byte) {
	depth := 0
	for s.i < len(s.data) {
		c := s.data[s.i]
		s.tokenLine, s.tokenFrom = s.line, s.from
		if stop != 0 && depth == 0 && s.stops(c) {
			return
		}
		switch {
		case c == '\n':
			s.end()
			s.i++
			s.newline()
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			s.i++
		case c == '\\' && s.l == python:
			s.continuation()
		case s.comment():
		case s.stringAt():
		case isDigit(c):
			s.number()
		case s.isNameAt():
			s.name()
		default:
			switch c {
			case '(', '[', '{':
				depth++
				s.depth++
			case ')', ']', '}':
				depth--
				s.depth = max(0, s.depth-1)
			}
			s.sign()
		}
	}
}

// stops tells the end of the code in a string: } in a template, and in Python
// also what comes before a format.
func (s *scanner) stops(c byte) bool {
	if c == '}' {
		return true
	}
	if s.l != python {
		return false
	}
	next := byte(0)
	if s.i+1 < len(s.data) {
		next = s.data[s.i+1]
	}
	return c == ':' && next != '=' || c == '!' && next != '='
}

func (s *scanner) newline() {
	s.line++
	s.from = s.i
	s.fresh = true
}

// continuation joins two lines: a backslash at the end of the first.
func (s *scanner) continuation() {
	j := s.i + 1
	if j < len(s.data) && s.data[j] == '\r' {
		j++
	}
	if j < len(s.data) && s.data[j] == '\n' {
		fresh := s.fresh
		s.i = j + 1
		s.newline()
		s.fresh = fresh
		return
	}
	s.i++
}

func (s *scanner) has(prefix string) bool {
	return bytes.HasPrefix(s.data[s.i:], []byte(prefix))
}

// skipTo goes behind the next end, over lines.
func (s *scanner) skipTo(end string) {
	n := bytes.Index(s.data[s.i:], []byte(end))
	to := len(s.data)
	if n >= 0 {
		to = s.i + n + len(end)
	}
	for s.i < to {
		if s.data[s.i] == '\n' {
			s.i++
			s.line++
			s.from = s.i
			continue
		}
		s.i++
	}
}

func (s *scanner) comment() bool {
	line := s.l == python && s.data[s.i] == '#' || s.l != python && s.has("//") || s.i == 0 && s.has("#!")
	if line {
		if s.l == golang && s.has("//go:embed ") {
			s.embedded = append(s.embedded, Text{Line: s.line, Text: strings.TrimSpace(lineAt(s.data, s.i)[len("//go:embed "):])})
		}
		if n := bytes.IndexByte(s.data[s.i:], '\n'); n >= 0 {
			s.i += n
		} else {
			s.i = len(s.data)
		}
		return true
	}
	if s.l != python && s.has("/*") {
		s.i += 2
		s.skipTo("*/")
		return true
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) number() {
	at := s.i
	for s.i < len(s.data) && (isDigit(s.data[s.i]) || isNameByte(s.data[s.i]) || s.data[s.i] == '.') {
		s.i++
	}
	s.put(number, at, string(s.data[at:s.i]))
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || isDigit(c)
}

// isNameAt reports whether a name begins here. In JavaScript it may begin with an
// escape.
func (s *scanner) isNameAt() bool {
	c := s.data[s.i]
	if isNameByte(c) || s.l == javascript && (c == '$' || c == '\\' && s.has(`\u`)) {
		return true
	}
	if c < utf8.RuneSelf {
		return false
	}
	r, _ := utf8.DecodeRune(s.data[s.i:])
	return unicode.IsLetter(r)
}

func (s *scanner) name() {
	at := s.i
	plain := true
	var b strings.Builder
	for s.i < len(s.data) {
		c := s.data[s.i]
		switch {
		case isNameByte(c) || s.l == javascript && c == '$':
			b.WriteByte(c)
			s.i++
		case s.l == javascript && s.has(`\u`):
			r, n := jsUnicode(s.data[s.i+2:])
			if n == 0 {
				s.i++
				s.finishName(at, b.String(), plain)
				return
			}
			b.WriteRune(r)
			s.i += 2 + n
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(s.data[s.i:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) && r != 0x200c && r != 0x200d {
				s.finishName(at, b.String(), plain)
				return
			}
			plain = false
			b.WriteRune(r)
			s.i += size
		default:
			s.finishName(at, b.String(), plain)
			return
		}
	}
	s.finishName(at, b.String(), plain)
}

// finishName puts a name. Python compares names in NFKC: full-width letters and
// those of mathematics are the ASCII letters.
func (s *scanner) finishName(at int, name string, plain bool) {
	if name == "" {
		return
	}
	if !plain && s.l == python {
		name = norm.NFKC.String(name)
	}
	s.put(word, at, name)
}

// jsUnicode reads 0065 or {65} behind \u.
func jsUnicode(b []byte) (rune, int) {
	if len(b) > 0 && b[0] == '{' {
		end := bytes.IndexByte(b[:min(len(b), 12)], '}')
		if end < 0 {
			return 0, 0
		}
		n, err := strconv.ParseUint(string(b[1:end]), 16, 32)
		if err != nil {
			return 0, 0
		}
		return rune(n), end + 1
	}
	return hexRune(b, 4)
}

func hexRune(b []byte, digits int) (rune, int) {
	if len(b) < digits {
		return 0, 0
	}
	n, err := strconv.ParseUint(string(b[:digits]), 16, 32)
	if err != nil {
		return 0, 0
	}
	return rune(n), digits
}

// signs of more than one character that are read as one.
var signs = []string{"===", "!==", "...", "**=", "//=", ">>=", "<<=", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", ":=", "->", "<-", "?.", "&&", "||", "??", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "**", "//", "++", "--", "::"}

func (s *scanner) sign() {
	at := s.i
	for _, m := range signs {
		if s.has(m) && !(m == "//" && s.l != python) {
			s.i += len(m)
			s.put(sign, at, m)
			return
		}
	}
	_, size := utf8.DecodeRune(s.data[s.i:])
	s.i += size
	s.put(sign, at, string(s.data[at:s.i]))
}

// stringAt reads a string if one begins here.
func (s *scanner) stringAt() bool {
	switch s.l {
	case python:
		return s.pythonString()
	case javascript:
		return s.javascriptString()
	}
	return s.goString()
}

func (s *scanner) pythonString() bool {
	j := s.i
	raw, code := false, false
	for j < len(s.data) && j-s.i < 3 {
		switch s.data[j] | 0x20 {
		case 'r':
			raw = true
		case 'f', 't':
			code = true
		case 'b', 'u':
		default:
			goto quote
		}
		j++
	}
quote:
	if j >= len(s.data) || s.data[j] != '"' && s.data[j] != '\'' {
		return false
	}
	if j > s.i && s.i > 0 && isNameByte(s.data[s.i-1]) {
		return false
	}
	at := s.i
	q := string(s.data[j])
	if bytes.HasPrefix(s.data[j:], []byte(q+q+q)) {
		q = q + q + q
	}
	s.i = j + len(q)
	if code && s.nest < 4 {
		s.madeSign(at, "(")
		s.depth++
		s.pieces(q, raw, "{")
		s.depth--
		s.madeSign(s.i, ")")
		return true
	}
	s.put(text, at, s.plainString(q, raw))
	return true
}

// plainString reads to the end of a string, and resolves its escapes. A string of
// one line ends with it.
func (s *scanner) plainString(q string, raw bool) string {
	var b strings.Builder
	for s.i < len(s.data) {
		if s.has(q) {
			s.i += len(q)
			break
		}
		if s.data[s.i] == '\n' && len(q) == 1 && q != "`" {
			break
		}
		s.character(&b, raw)
	}
	return b.String()
}

// pieces reads a string with code inside as an addition.
func (s *scanner) pieces(q string, raw bool, open string) {
	s.nest++
	defer func() { s.nest-- }()
	var b strings.Builder
	at := s.i
	flush := func() {
		s.put(text, at, b.String())
		b.Reset()
	}
	for s.i < len(s.data) {
		if s.has(q) {
			s.i += len(q)
			break
		}
		if s.data[s.i] == '\n' && len(q) == 1 && q != "`" {
			break
		}
		if open == "{" && (s.has("{{") || s.has("}}")) {
			b.WriteByte(s.data[s.i])
			s.i += 2
			continue
		}
		if !s.has(open) {
			s.character(&b, raw)
			continue
		}
		flush()
		s.i += len(open)
		s.madeSign(s.i, "+")
		s.madeSign(s.i, "(")
		s.depth++
		s.until('}')
		s.depth--
		s.format()
		s.madeSign(s.i, ")")
		s.madeSign(s.i, "+")
		at = s.i
	}
	flush()
}

// format goes over !r and :>10 behind the code in a string, to its brace.
func (s *scanner) format() {
	depth := 0
	for s.i < len(s.data) {
		c := s.data[s.i]
		s.i++
		switch {
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return
		case c == '}':
			depth--
		case c == '\n':
			s.newline()
		}
	}
}

// character reads one character of a string, or one escape.
func (s *scanner) character(b *strings.Builder, raw bool) {
	c := s.data[s.i]
	if c == '\n' {
		b.WriteByte(c)
		s.i++
		s.line++
		s.from = s.i
		return
	}
	if c == 0 { // a hole is made by us only
		s.i++
		return
	}
	if c != '\\' || raw && s.l != python || s.i+1 >= len(s.data) {
		b.WriteByte(c)
		s.i++
		return
	}
	s.i++
	e := s.data[s.i]
	if raw { // r"\"" does not end, and keeps both
		b.WriteByte('\\')
		if e != '\n' {
			b.WriteByte(e)
			s.i++
		}
		return
	}
	s.i++
	switch e {
	case '\n':
		s.line++
		s.from = s.i
	case '\r':
	case 'n', 'r', 't', 'v', 'f', 'b', 'a':
		b.WriteByte(map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'f': '\f', 'b': '\b', 'a': '\a'}[e])
	case 'x', 'u', 'U':
		var r rune
		n := 0
		if e == 'u' && s.l == javascript {
			r, n = jsUnicode(s.data[s.i:])
		} else {
			r, n = hexRune(s.data[s.i:], map[byte]int{'x': 2, 'u': 4, 'U': 8}[e])
		}
		if n > 0 && r != 0 {
			b.WriteRune(r)
		}
		s.i += n
	case 'N':
		if s.l == python && s.i < len(s.data) && s.data[s.i] == '{' {
			b.WriteByte(Hole)
			if n := bytes.IndexByte(s.data[s.i:], '}'); n > 0 {
				s.i += n + 1
			}
			return
		}
		b.WriteByte(e)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n, digits := int(e-'0'), 1
		for digits < 3 && s.i < len(s.data) && '0' <= s.data[s.i] && s.data[s.i] <= '7' {
			n = n*8 + int(s.data[s.i]-'0')
			s.i++
			digits++
		}
		if n > 0 {
			b.WriteRune(rune(n))
		}
	default:
		b.WriteByte(e)
	}
}

func (s *scanner) javascriptString() bool {
	at := s.i
	switch c := s.data[s.i]; {
	case c == '"' || c == '\'':
		s.i++
		s.put(text, at, s.plainString(string(c), false))
		return true
	case c == '`' && s.nest < 8:
		s.i++
		s.madeSign(at, "(")
		s.depth++
		s.pieces("`", false, "${")
		s.depth--
		s.madeSign(s.i, ")")
		return true
	case c == '/' && s.regexpAt():
		s.regexp()
		return true
	}
	return false
}

// regexpAt tells a regular expression from a division, by what stands before.
func (s *scanner) regexpAt() bool {
	if len(s.list) == 0 {
		return true
	}
	t := s.list[len(s.list)-1]
	switch t.kind {
	case text, number:
		return false
	case word:
		switch t.text {
		case "return", "typeof", "case", "in", "of", "do", "else", "void", "delete", "instanceof", "new", "throw", "await", "yield":
			return true
		}
		return false
	}
	switch t.text {
	case ")":
		return s.afterCondition()
	case "]", "++", "--":
		return false
	case "}":
		return s.fresh || t.first
	}
	return true
}

// afterCondition reports whether the parenthesis that just closed is that of if
// or while.
func (s *scanner) afterCondition() bool {
	depth := 0
	for i := len(s.list) - 1; i >= 0 && i > len(s.list)-200; i-- {
		switch s.list[i].text {
		case ")":
			depth++
		case "(":
			if depth--; depth == 0 {
				return i > 0 && s.list[i-1].kind == word && (s.list[i-1].text == "if" || s.list[i-1].text == "while" || s.list[i-1].text == "for" || s.list[i-1].text == "with")
			}
		}
	}
	return false
}

func (s *scanner) regexp() {
	at := s.i
	class := false
	for s.i++; s.i < len(s.data) && s.data[s.i] != '\n'; s.i++ {
		switch c := s.data[s.i]; {
		case c == '\\':
			s.i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			s.i++
			for s.i < len(s.data) && isNameByte(s.data[s.i]) {
				s.i++
			}
			s.put(number, at, "/regexp/")
			return
		}
	}
	s.i = min(s.i, len(s.data))
	s.put(number, at, "/regexp/")
}

func (s *scanner) goString() bool {
	at := s.i
	switch c := s.data[s.i]; c {
	case '"', '\'':
		s.i++
		inside := s.plainString(string(c), false)
		if c == '\'' {
			r, _ := utf8.DecodeRuneInString(inside)
			s.put(number, at, strconv.Itoa(int(r)))
			return true
		}
		s.put(text, at, inside)
		return true
	case '`':
		s.i++
		s.put(text, at, s.plainString("`", true))
		return true
	}
	return false
}
