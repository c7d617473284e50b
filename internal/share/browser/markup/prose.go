package markup

import (
	"regexp"
	"strings"
	"sync"
)

// Prose shows a text as Markdown: headings, lists, quotations, tables, code, emphasis,
// and links as words with their address. HTML in it is text.
func Prose(text string) string {
	w := &proseWriter{}
	for line := range strings.Lines(text) {
		w.lines = append(w.lines, line)
	}
	for w.at < len(w.lines) {
		w.block()
	}
	return w.String()
}

type proseWriter struct {
	writer
	lines []string
	at    int
}

// shapes are what lines look like.
type shapes struct{ fence, heading, rule, item, quote, delimiter *regexp.Regexp }

var shapesOf = sync.OnceValue(func() *shapes {
	return &shapes{
		fence:     regexp.MustCompile("^( {0,3}(?:`{3,}|~{3,})[ \t]*)([^`\n]*)(\n?)$"),
		heading:   regexp.MustCompile(`^( {0,3}#{1,6}[ \t]+)([^\n]*\n?)$`),
		rule:      regexp.MustCompile(`^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})\n?$`),
		item:      regexp.MustCompile(`^([ \t]*)(?:([-*+][ \t]+)|([0-9]{1,9}[.)][ \t]+))([^\n]*\n?)$`),
		quote:     regexp.MustCompile(`^( {0,3}> ?)([^\n]*\n?)$`),
		delimiter: regexp.MustCompile(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?$`),
	}
})

func (w *proseWriter) line() string { return w.lines[w.at] }

// block writes what begins at this line.
func (w *proseWriter) block() {
	s, line := shapesOf(), w.line()
	switch {
	case strings.TrimSpace(line) == "":
		w.text(line)
		w.at++
	case s.fence.MatchString(line):
		w.fence()
	case s.heading.MatchString(line):
		w.heading()
	case s.rule.MatchString(line):
		w.in("span", "rule", line)
		w.at++
	case s.item.MatchString(line):
		w.list()
	case s.quote.MatchString(line):
		w.quote()
	case w.isTable():
		w.table()
	default:
		w.paragraph()
	}
}

// fence writes code up to the fence that closes it.
func (w *proseWriter) fence() {
	m := shapesOf().fence.FindStringSubmatch(w.line())
	mark := strings.TrimSpace(m[1])
	w.at++
	from := w.at
	for w.at < len(w.lines) && !closes(w.line(), mark) {
		w.at++
	}
	w.open("div", "fence")
	w.mark(m[1])
	w.in("span", "lang", m[2])
	w.mark(m[3])
	name, _, _ := strings.Cut(strings.TrimSpace(m[2]), " ")
	w.WriteString(Code(strings.Join(w.lines[from:w.at], ""), name))
	if w.at < len(w.lines) {
		w.mark(w.line())
		w.at++
	}
	w.close("div")
}

// closes reports whether a line is a fence of at least that length.
func closes(line, mark string) bool {
	t := strings.TrimSpace(line)
	return len(t) >= len(mark) && strings.Trim(t, mark[:1]) == "" && !strings.HasPrefix(line, "    ")
}

func (w *proseWriter) heading() {
	m := shapesOf().heading.FindStringSubmatch(w.line())
	level := "h3"
	switch strings.Count(m[1], "#") {
	case 1:
		level = "h1"
	case 2:
		level = "h2"
	}
	w.open("strong", level)
	w.mark(m[1])
	w.inline(m[2], 0)
	w.close("strong")
	w.at++
}

// list writes items, the deeper ones by class, with the lines that continue each.
func (w *proseWriter) list() {
	s := shapesOf()
	w.open("ul", "")
	for w.at < len(w.lines) {
		m := s.item.FindStringSubmatch(w.line())
		if m == nil || s.rule.MatchString(w.line()) {
			break
		}
		depth := len(strings.ReplaceAll(m[1], "\t", "    ")) / 2
		w.open("li", []string{"", "level", "level2", "level3"}[min(depth, 3)])
		w.mark(m[1])
		w.in("span", "bullet", m[2])
		w.text(m[3])
		w.inline(m[4], 0)
		w.at++
		for w.at < len(w.lines) && strings.HasPrefix(w.line(), "  ") && strings.TrimSpace(w.line()) != "" && !s.item.MatchString(w.line()) && !s.fence.MatchString(w.line()) {
			rest := strings.TrimLeft(w.line(), " ")
			w.mark(w.line()[:len(w.line())-len(rest)])
			w.inline(rest, 0)
			w.at++
		}
		w.close("li")
	}
	w.close("ul")
}

func (w *proseWriter) quote() {
	w.open("blockquote", "")
	for w.at < len(w.lines) {
		m := shapesOf().quote.FindStringSubmatch(w.line())
		if m == nil {
			break
		}
		w.mark(m[1])
		w.inline(m[2], 0)
		w.at++
	}
	w.close("blockquote")
}

// isTable reports whether a table begins: a row, and below it the line that says so.
func (w *proseWriter) isTable() bool {
	return w.at+1 < len(w.lines) && strings.Contains(w.line(), "|") && strings.Contains(w.lines[w.at+1], "|") && shapesOf().delimiter.MatchString(w.lines[w.at+1])
}

func (w *proseWriter) table() {
	w.open("div", "sheet")
	w.open("table", "")
	w.open("thead", "")
	w.row("th", w.line(), w.lines[w.at+1])
	w.close("thead")
	w.at += 2
	if w.at < len(w.lines) && isRow(w.line()) {
		w.open("tbody", "")
		for w.at < len(w.lines) && isRow(w.line()) {
			w.row("td", w.line(), "")
			w.at++
		}
		w.close("tbody")
	}
	w.close("table")
	w.close("div")
}

func isRow(line string) bool { return strings.Contains(line, "|") && strings.TrimSpace(line) != "" }

// row writes a row. All of its text stands in cells, where a browser leaves it; below is
// written after it, and not shown.
func (w *proseWriter) row(tag, line, below string) {
	w.open("tr", "")
	cells := cellsOf(line)
	for i, c := range cells {
		as := tag
		if strings.Trim(c, " \t\n|") == "" { // a heading of nothing confuses those who hear it
			as = "td"
		}
		w.open(as, "")
		text := strings.TrimLeft(c, "| \t")
		w.mark(c[:len(c)-len(text)])
		words := strings.TrimRight(text, "| \t\n")
		w.inline(words, 0)
		w.mark(text[len(words):])
		if i == len(cells)-1 {
			w.mark(below)
		}
		w.close(as)
	}
	w.close("tr")
}

// cellsOf cuts a row before each bar but the last, outside of code.
func cellsOf(line string) []string {
	var cells []string
	body := strings.TrimRight(line, " \t\n")
	start, code := 0, false
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '`':
			code = !code
		case '|':
			if !code && i > start && strings.Trim(body[start:i], " \t") != "" && i < len(body)-1 {
				cells = append(cells, line[start:i])
				start = i
			}
		}
	}
	return append(cells, line[start:])
}

// paragraph writes lines up to an empty one or another block.
func (w *proseWriter) paragraph() {
	s, from := shapesOf(), w.at
	for w.at++; w.at < len(w.lines); w.at++ {
		line := w.line()
		if strings.TrimSpace(line) == "" || s.fence.MatchString(line) || s.heading.MatchString(line) || s.item.MatchString(line) || s.quote.MatchString(line) || s.rule.MatchString(line) || w.isTable() {
			break
		}
	}
	w.open("p", "")
	w.inline(strings.Join(w.lines[from:w.at], ""), 0)
	w.close("p")
}

// maxEmphasis bounds how deep emphasis stands in emphasis.
const maxEmphasis = 5

// inline writes a text with code, emphasis and links.
func (w *writer) inline(s string, depth int) {
	plain := 0
	flush := func(to int) {
		w.text(s[plain:to])
	}
	for i := 0; i < len(s); {
		end := 0
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte("*_`[]#|~", s[i+1]) >= 0:
			flush(i)
			w.mark(`\`)
			w.text(s[i+1 : i+2])
			end = i + 2
		case c == '`':
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
			if close := closingTicks(s[i+n:], n); close >= 0 {
				flush(i)
				w.mark(s[i : i+n])
				w.in("code", "", s[i+n:i+n+close])
				w.mark(s[i+n+close : i+n+close+n])
				end = i + n + close + n
			} else {
				i += n
				continue
			}
		case depth < maxEmphasis && (c == '*' || c == '_' || c == '~'):
			if mark, close := emphasis(s, i); mark != "" {
				flush(i)
				inner := i + len(mark)
				tag := map[string]string{"**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del"}[mark]
				w.mark(mark)
				w.open(tag, "")
				w.inline(s[inner:close], depth+1)
				w.close(tag)
				w.mark(mark)
				end = close + len(mark)
			}
		case depth < maxEmphasis && c == '[':
			if words, address := linkAt(s[i:]); words > 0 {
				flush(i)
				w.mark("[")
				w.open("span", "link")
				w.inline(s[i+1:i+1+words], maxEmphasis) // no link in a link
				w.close("span")
				w.mark("]")
				w.in("span", "url", s[i+words+2:i+words+2+address])
				end = i + words + 2 + address
			}
		}
		if end == 0 {
			i++
			continue
		}
		i, plain = end, end
	}
	flush(len(s))
}

// closingTicks is where a run of exactly n backticks begins; -1 if there is none.
func closingTicks(s string, n int) int {
	for i := 0; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i
		}
		i += run
	}
	return -1
}

// emphasis tells the mark that begins at a place, and where the one begins that closes
// it; "" if none does.
func emphasis(s string, i int) (mark string, close int) {
	c := s[i : i+1]
	if mark = c; strings.HasPrefix(s[i:], c+c) {
		mark = c + c
	}
	if mark == "~" {
		return "", 0
	}
	inner := i + len(mark)
	if inner >= len(s) || strings.IndexByte(" \t\n", s[inner]) >= 0 || s[inner] == c[0] || c == "_" && i > 0 && isWord(s[i-1]) {
		return "", 0
	}
	for k := inner + 1; k < len(s); k++ {
		if s[k] == '\n' && k+1 < len(s) && s[k+1] == '\n' || s[k] == '`' {
			return "", 0
		}
		if !strings.HasPrefix(s[k:], mark) || strings.IndexByte(" \t\n", s[k-1]) >= 0 {
			continue
		}
		after := k + len(mark)
		if len(mark) == 1 && (after < len(s) && s[after] == c[0] || s[k-1] == c[0]) || c == "_" && after < len(s) && isWord(s[after]) {
			continue
		}
		return mark, k
	}
	return "", 0
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// maxLink bounds the words and the address of a link.
const maxLink = 2000

// linkAt is how long the words and the address, with its brackets, of a link are that
// begins here; 0 if none does.
func linkAt(s string) (words, address int) {
	end := strings.Index(s[:min(len(s), maxLink)], "](")
	if end < 1 || strings.ContainsAny(s[1:end], "[\n") {
		return 0, 0
	}
	rest := s[end+1:]
	close := strings.IndexAny(rest[:min(len(rest), maxLink)], ")\n")
	if close < 0 || rest[close] != ')' {
		return 0, 0
	}
	return end - 1, close + 1
}
