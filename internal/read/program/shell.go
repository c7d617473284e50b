package program

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// A script is a shell program while it is read: first it is cut into commands,
// then each is looked at.
type script struct {
	p      *Program
	data   []byte
	line   int
	nested int

	i        int
	depth    int
	cases    int  // case … esac around
	pattern  bool // a pattern of case is read
	ticks    int  // backticks around
	commands []command
	waiting  []*hereText // that begin behind the next line break
	vars     map[string][]shellWord
	aliases  map[string]shellWord
}

// A command is one with its words, between two signs that end one.
type command struct {
	at    int
	words []shellWord
	// piped says that it reads what the command before it wrote.
	piped bool
	// input is what it reads from <<< or <<; nil if it reads neither.
	input *shellWord
	// from is the file of <.
	from *shellWord
	to   []shellWord // files of >
}

// A shellWord is one word: parts that are put together.
type shellWord struct {
	parts  []part
	quoted bool
}

// A part is a text, a variable, or something that is known only when it runs.
type part struct {
	text    string
	name    string // of a variable
	def     string // its default: ${x:-text}
	command bool   // $(…) or `…`
	process bool   // <(…)
}

type hereText struct {
	end    string
	plain  bool
	tabs   bool
	target *shellWord
}

func newScript(p *Program, data []byte, line, nested int) *script {
	return &script{p: p, data: data, line: line, nested: nested, vars: map[string][]shellWord{}, aliases: map[string]shellWord{}}
}

func (s *script) read() {
	s.list(0)
	for i := range s.commands {
		s.collect(&s.commands[i])
	}
	for i := range s.commands {
		s.judge(i)
	}
}

// list reads commands up to the end, or to a closing sign.
func (s *script) list(stop byte) {
	if s.depth > maxDepth {
		s.i = len(s.data)
		return
	}
	s.depth++
	defer func() { s.depth-- }()
	c := command{at: s.i}
	piped := false
	flush := func(next bool) {
		if len(c.words) > 0 || c.input != nil || c.from != nil {
			c.piped = piped
			s.commands = append(s.commands, c)
		}
		piped = next
		c = command{at: s.i}
	}
	for s.i < len(s.data) {
		ch := s.data[s.i]
		if len(c.words) == 0 {
			c.at = s.i
		}
		switch {
		case ch == stop && stop != 0:
			flush(false)
			s.i++
			return
		case ch == '\n':
			s.i++
			if !(len(c.words) == 0 && piped) {
				flush(false)
			}
			s.hereTexts()
		case ch == ' ' || ch == '\t' || ch == '\r':
			s.i++
		case ch == '\\' && s.i+1 < len(s.data) && (s.data[s.i+1] == '\n' || s.data[s.i+1] == '\r'):
			s.i += 2
		case ch == '#':
			if n := bytes.IndexByte(s.data[s.i:], '\n'); n >= 0 {
				s.i += n
			} else {
				s.i = len(s.data)
			}
		case len(c.words) > 0 && c.words[0].literal() == "[[" && strings.IndexByte("|&<>()!", ch) >= 0:
			s.i++ // signs of a condition
			if c.words[len(c.words)-1].literal() == "]]" {
				s.i--
				flush(false)
			}
		case s.pattern && ch == ')':
			s.i++
			s.pattern = false
			c = command{at: s.i}
		case s.pattern && (ch == '|' || ch == '('):
			s.i++
		case ch == ';' || ch == '&' && !s.has("&>"):
			s.pattern = s.cases > 0 && (s.has(";;") || s.has(";&"))
			s.i++
			flush(false)
			if s.pattern && s.i < len(s.data) {
				s.i++
			}
		case ch == '|':
			s.i++
			next := true
			if s.i < len(s.data) && s.data[s.i] == '|' {
				next = false
				s.i++
			} else if s.i < len(s.data) && s.data[s.i] == '&' {
				s.i++
			}
			flush(next)
		case ch == '(' && s.has("((") && len(c.words) == 0:
			s.arithmetic()
		case ch == '(' || ch == ')':
			s.i++
			if ch == '(' && len(c.words) == 1 && s.has(")") { // f()
				s.i++
				c = command{at: s.i}
				continue
			}
			if ch == '(' && piped {
				flush(true) // a | ( b )
				continue
			}
			flush(false)
		case ch == '<' || ch == '>' || isDigit(ch) && s.redirects() || ch == '&' && s.has("&>"):
			s.redirect(&c)
		default:
			w := s.word()
			if len(c.words) == 0 && !w.quoted && reserved()[w.literal()] {
				s.reserved(w.literal())
				continue
			}
			c.words = append(c.words, w)
		}
	}
	flush(false)
}

// reserved goes over case WORD in, behind which patterns stand.
func (s *script) reserved(word string) {
	switch word {
	case "case":
		s.blank()
		s.word()
		s.cases++
		s.blank()
		if s.has("in") {
			s.i += 2
		}
		s.pattern = true
	case "esac":
		s.cases = max(0, s.cases-1)
		s.pattern = false
	}
}

var reserved = sync.OnceValue(func() map[string]bool {
	return setOf("then do else elif if while until ! { } fi done esac case time function coproc")
})

func (s *script) has(p string) bool { return bytes.HasPrefix(s.data[s.i:], []byte(p)) }

func (s *script) arithmetic() {
	if n := bytes.Index(s.data[s.i:], []byte("))")); n >= 0 {
		s.i += n + 2
		return
	}
	s.i = len(s.data)
}

// redirects tells 2> from a word that begins with a digit.
func (s *script) redirects() bool {
	j := s.i
	for j < len(s.data) && isDigit(s.data[j]) {
		j++
	}
	return j < len(s.data) && (s.data[j] == '<' || s.data[j] == '>') && (s.i == 0 || s.data[s.i-1] == ' ' || s.data[s.i-1] == '\t')
}

func (s *script) redirect(c *command) {
	for s.i < len(s.data) && (isDigit(s.data[s.i]) || s.data[s.i] == '&') {
		s.i++
	}
	switch {
	case s.has("<(") || s.has(">("):
		taken := s.data[s.i] == '>'
		s.i += 2
		before := len(s.commands)
		s.list(')')
		if taken && len(s.commands) > before {
			s.commands[before].piped = true
		}
		c.words = append(c.words, shellWord{parts: []part{{process: true}}})
	case s.has("<<<"):
		s.i += 3
		s.blank()
		w := s.word()
		c.input = &w
	case s.has("<<"):
		s.i += 2
		h := &hereText{}
		if s.has("-") {
			h.tabs = true
			s.i++
		}
		s.blank()
		w := s.word()
		h.end, h.plain = w.literal(), w.quoted
		h.target = &shellWord{}
		c.input = h.target
		s.waiting = append(s.waiting, h)
	case s.has("<"):
		s.i++
		if s.has("&") {
			s.i++
		}
		s.blank()
		if s.has("<(") {
			s.redirect(c)
			w := shellWord{parts: []part{{process: true}}}
			c.from = &w
			return
		}
		w := s.word()
		c.from = &w
	default:
		for s.has(">") || s.has("|") || s.has("&") {
			s.i++
		}
		s.blank()
		if s.has("(") { // > >(program)
			s.i++
			before := len(s.commands)
			s.list(')')
			if len(s.commands) > before {
				s.commands[before].piped = true
			}
			return
		}
		c.to = append(c.to, s.word())
	}
}

func (s *script) blank() {
	for s.i < len(s.data) && (s.data[s.i] == ' ' || s.data[s.i] == '\t') {
		s.i++
	}
}

// hereTexts reads the texts of << that begin on this line.
func (s *script) hereTexts() {
	waiting := s.waiting
	s.waiting = nil
	for _, h := range waiting {
		from := s.i
		end := len(s.data)
		for s.i < len(s.data) {
			line := s.data[s.i:]
			next := len(s.data)
			if n := bytes.IndexByte(line, '\n'); n >= 0 {
				line, next = line[:n], s.i+n+1
			}
			text := strings.TrimSuffix(string(line), "\r")
			if h.tabs {
				text = strings.TrimLeft(text, "\t")
			}
			if text == h.end {
				end = s.i
				s.i = next
				break
			}
			s.i = next
		}
		body := s.data[from:min(end, len(s.data))]
		if h.plain {
			h.target.parts = []part{{text: string(body)}}
			continue
		}
		*h.target = s.expanded(body, from)
	}
}

// expanded reads a text in which variables are replaced.
func (s *script) expanded(body []byte, at int) shellWord {
	inner := &script{p: s.p, data: body, vars: s.vars, aliases: s.aliases, depth: s.depth + 1}
	var w shellWord
	for inner.i < len(body) {
		inner.doubleQuoted(&w, 0)
	}
	for i := range inner.commands {
		inner.commands[i].at = min(at+inner.commands[i].at, len(s.data))
	}
	s.commands = append(s.commands, inner.commands...)
	return w
}

// endsWord are characters that end a word.
func endsWord(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ';', '&', '|', '(', ')', '<', '>':
		return true
	}
	return false
}

func (w *shellWord) add(text string) {
	text = strings.ReplaceAll(text, string(Hole), "")
	if n := len(w.parts); n > 0 && w.parts[n-1].isText() {
		w.parts[n-1].text += text
		return
	}
	w.parts = append(w.parts, part{text: text})
}

func (p part) isText() bool { return p.name == "" && !p.command && !p.process }

// literal is a word without variables; "" if it has some.
func (w shellWord) literal() string {
	if len(w.parts) == 1 && w.parts[0].isText() {
		return w.parts[0].text
	}
	return ""
}

func (s *script) word() shellWord {
	var w shellWord
	begin := s.i
	for s.i < len(s.data) {
		c := s.data[s.i]
		switch {
		case endsWord(c):
			if c == '(' && s.i > begin && s.data[s.i-1] == '=' { // a=( … )
				s.i++
				s.list(')')
				w.parts = append(w.parts, part{name: "\x00"})
				return w
			}
			if s.i == begin {
				s.i++ // never the same place twice
			}
			return w
		case c == '\\':
			s.i++
			if s.i < len(s.data) {
				if s.data[s.i] != '\n' {
					w.add(string(s.data[s.i]))
				}
				s.i++
			}
			w.quoted = true
		case c == '\'':
			s.i++
			n := bytes.IndexByte(s.data[s.i:], '\'')
			if n < 0 {
				n = len(s.data) - s.i
			}
			w.add(string(s.data[s.i : s.i+n]))
			w.quoted = true
			s.i = min(s.i+n+1, len(s.data))
		case c == '"':
			s.i++
			w.quoted = true
			if s.has(`"`) {
				w.add("")
			}
			for s.i < len(s.data) && s.data[s.i] != '"' && !(s.ticks > 0 && s.data[s.i] == '`') {
				s.doubleQuoted(&w, '"')
			}
			if s.has(`"`) {
				s.i++
			}
		case c == '$' && s.has("$'"):
			s.i += 2
			w.quoted = true
			w.add(s.ansiC())
		case c == '$' && s.has(`$"`):
			s.i++
		case c == '$':
			s.dollar(&w)
		case c == '`' && s.ticks > 0:
			return w // it ends what began with the other
		case c == '`':
			s.backtick(&w)
		default:
			from := s.i
			for s.i++; s.i < len(s.data) && !endsWord(s.data[s.i]) && strings.IndexByte("\\'\"$`", s.data[s.i]) < 0; {
				s.i++
			}
			w.add(string(s.data[from:s.i]))
		}
	}
	return w
}

// doubleQuoted reads one piece of a text in which variables are replaced.
func (s *script) doubleQuoted(w *shellWord, quote byte) {
	switch c := s.data[s.i]; {
	case c == '\\' && s.i+1 < len(s.data):
		n := s.data[s.i+1]
		s.i += 2
		switch n {
		case '$', '`', '"', '\\':
			w.add(string(n))
		case '\n':
		default:
			w.add("\\" + string(n))
		}
	case c == '$':
		s.dollar(w)
	case c == '`' && s.ticks == 0:
		s.backtick(w)
	default:
		from := s.i
		for s.i++; s.i < len(s.data) && s.data[s.i] != quote && strings.IndexByte("\\$`", s.data[s.i]) < 0; {
			s.i++
		}
		w.add(string(s.data[from:s.i]))
	}
}

// ansiC reads $'\x65val'.
func (s *script) ansiC() string {
	sc := &scanner{l: python, data: s.data, i: s.i}
	out := sc.plainString("'", false)
	s.i = sc.i
	return out
}

func (s *script) backtick(w *shellWord) {
	s.i++
	s.ticks++
	s.list('`')
	s.ticks--
	w.parts = append(w.parts, part{command: true})
}

// dollar reads $x, ${x}, $(…) and $((…)).
func (s *script) dollar(w *shellWord) {
	s.i++
	if s.i >= len(s.data) {
		w.add("$")
		return
	}
	switch c := s.data[s.i]; {
	case s.has("(("):
		s.arithmetic()
		w.parts = append(w.parts, part{name: "\x00"})
	case c == '(':
		s.i++
		s.list(')')
		w.parts = append(w.parts, part{command: true})
	case c == '{':
		s.i++
		s.braced(w)
	case isNameByte(c) && !isDigit(c):
		from := s.i
		for s.i < len(s.data) && isNameByte(s.data[s.i]) {
			s.i++
		}
		w.variable(string(s.data[from:s.i]), "")
	case isDigit(c) || strings.IndexByte("@*#?-$!", c) >= 0:
		s.i++
		w.parts = append(w.parts, part{name: string(c)})
	default:
		w.add("$")
	}
}

func (w *shellWord) variable(name, def string) {
	if name == "IFS" {
		w.add(" ")
		return
	}
	w.parts = append(w.parts, part{name: name, def: def})
}

// braced reads ${name}, and of ${name:-text} the text.
func (s *script) braced(w *shellWord) {
	from := s.i
	for s.i < len(s.data) && (isNameByte(s.data[s.i]) || s.data[s.i] == '@' || s.data[s.i] == '*') {
		s.i++
	}
	name := string(s.data[from:s.i])
	rest := s.i
	depth := 1
	for s.i < len(s.data) && depth > 0 {
		switch {
		case s.data[s.i] == '\\':
			s.i++
		case s.has("$("):
			s.i += 2
			s.list(')')
			continue
		case s.data[s.i] == '{':
			depth++
		case s.data[s.i] == '}':
			depth--
		}
		s.i++
	}
	s.i = min(s.i, len(s.data))
	inside := strings.TrimSuffix(string(s.data[rest:s.i]), "}")
	switch {
	case inside == "" && name != "":
		w.variable(name, "")
	case name != "" && (strings.HasPrefix(inside, ":-") || strings.HasPrefix(inside, "-")):
		w.variable(name, strings.Trim(strings.TrimLeft(inside, ":-"), `"'`))
	default:
		w.parts = append(w.parts, part{name: "\x00"})
	}
}

// collect keeps what variables are set to, and aliases.
func (s *script) collect(c *command) {
	for _, w := range c.words {
		name, rest, ok := assigned(w)
		if ok {
			if strings.HasSuffix(name, "+") {
				name = strings.TrimSuffix(name, "+")
				if n := len(s.vars[name]); n > 0 {
					last := s.vars[name][n-1]
					s.vars[name] = append(s.vars[name][:n-1:n-1], shellWord{parts: append(slices.Clone(last.parts), rest.parts...)})
					continue
				}
			}
			s.vars[name] = append(s.vars[name], rest)
			continue
		}
		switch w.literal() {
		case "export", "local", "declare", "readonly", "typeset", "-r", "-x", "-g", "-a":
			continue
		case "alias":
			for _, a := range c.words[1:] {
				if name, rest, ok := assigned(a); ok {
					s.aliases[name] = rest
				}
			}
		case "read", "mapfile", "readarray":
			for _, a := range c.words[1:] {
				if n := a.literal(); n != "" && n[0] != '-' {
					s.vars[n] = append(s.vars[n], shellWord{parts: []part{{command: true}}})
				}
			}
		case "for":
			if len(c.words) > 1 {
				s.vars[c.words[1].literal()] = append(s.vars[c.words[1].literal()], shellWord{parts: []part{{name: "\x00"}}})
			}
		}
		return
	}
}

// assigned takes name=value apart.
func assigned(w shellWord) (name string, rest shellWord, ok bool) {
	if len(w.parts) == 0 || !w.parts[0].isText() {
		return "", w, false
	}
	before, after, found := strings.Cut(w.parts[0].text, "=")
	plain := strings.TrimSuffix(before, "+")
	if !found || plain == "" || isDigit(plain[0]) || strings.IndexFunc(plain, func(r rune) bool { return r > 0x7f || !isNameByte(byte(r)) }) >= 0 {
		return "", w, false
	}
	rest.quoted = w.quoted
	if after != "" || len(w.parts) == 1 {
		rest.parts = append(rest.parts, part{text: after})
	}
	rest.parts = append(rest.parts, w.parts[1:]...)
	return before, rest, true
}

// value is a word with its variables replaced, as far as they are known.
func (s *script) value(w shellWord) string { return s.valueAt(w, 0) }

func (s *script) valueAt(w shellWord, depth int) string {
	var b strings.Builder
	for _, p := range w.parts {
		switch {
		case p.isText():
			b.WriteString(p.text)
		case p.name != "" && depth < 8 && len(s.vars[p.name]) == 1 && b.Len() < 1<<16:
			b.WriteString(s.valueAt(s.vars[p.name][0], depth+1))
		default:
			b.WriteByte(Hole)
		}
	}
	return b.String()
}

func (s *script) note(c *command, id string) { s.p.add(s.run(c, id)) }

func (s *script) run(c *command, id string) Run {
	at := min(c.at, len(s.data))
	for at < len(s.data) && (s.data[at] == '\n' || s.data[at] == ' ' || s.data[at] == '\t') {
		at++
	}
	return Run{Line: s.line + 1 + bytes.Count(s.data[:at], []byte("\n")), ID: id, Text: lineAt(s.data, at)}
}

func (s *script) text(c *command, t Text) {
	if strings.Trim(t.Text, string(Hole)) == "" || len(t.Text) > 1<<16 {
		return
	}
	t.Line = s.line + 1 + bytes.Count(s.data[:min(c.at, len(s.data))], []byte("\n"))
	s.p.Texts = append(s.p.Texts, t)
}

// judge decides whether a command runs a text.
func (s *script) judge(n int) {
	c := &s.commands[n]
	s.texts(c)
	words := make([]string, 0, len(c.words))
	raw := make([]shellWord, 0, len(c.words))
	for _, w := range c.words {
		if _, _, ok := assigned(w); ok && len(words) == 0 {
			continue
		}
		if len(words) == 0 { // a variable may hold several words
			v := s.value(w)
			if a, ok := s.aliases[v]; ok {
				v = s.value(a)
			}
			for i, f := range strings.Fields(v) {
				if i == 0 || !w.quoted {
					words, raw = append(words, f), append(raw, w)
				}
			}
			if strings.TrimSpace(v) == "" {
				words, raw = append(words, v), append(raw, w)
			}
			continue
		}
		words, raw = append(words, s.value(w)), append(raw, w)
	}
	if len(words) == 0 {
		return
	}
	words, raw = behindCarriers(words, raw)
	if len(words) == 0 {
		return
	}
	s.judgeName(c, words[0], raw[0])
	switch name := words[0][strings.LastIndexByte(words[0], '/')+1:]; name {
	case "eval":
		s.judgeCode(c, "eval", strings.Join(words[1:], " "), shell)
	case "source", ".":
		if len(words) > 1 {
			s.judgeSource(c, words[1], raw[1])
		}
	case "alias":
		for _, w := range c.words[1:] {
			if _, rest, ok := assigned(w); ok && len(rest.parts) > 0 && s.value(rest) == string(Hole) {
				s.note(c, "eval")
			}
		}
	case "trap", "watch":
		if len(words) > 1 && words[1] != "" && strings.Trim(words[1], string(Hole)) == "" {
			s.note(c, "eval")
		}
	case "echo", "printf", "which", "type", "command", "man", "apt-get", "apt", "pip", "brew", "yum", "apk":
	case "at", "batch", "parallel":
		if (c.piped || c.input != nil) && (name != "parallel" || len(words) == 1) {
			s.note(c, "pipe-to-shell")
		} else if len(words) > 1 && name == "parallel" {
			s.judgeEach(c, words[1:], ":::")
		}
	case "crontab":
		if c.piped && len(words) > 1 && words[1] == "-" {
			s.note(c, "pipe-to-shell")
		}
	case "su", "script", "flock":
		s.judgeProgram(c, words)
		for i := 1; i+1 < len(words); i++ {
			if words[i] == "-c" {
				s.judgeCode(c, "exec-nonliteral", words[i+1], shell)
			}
		}
	case "xargs":
		s.judgeXargs(c, words)
	case "find":
		s.judgeFind(c, words)
	case "awk", "gawk", "mawk":
		if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsRune(w, Hole) && strings.Contains(w, "system(") }) {
			s.note(c, "exec-interpolated-template")
		}
	default:
		s.judgeProgram(c, words)
		s.ran(c, words)
	}
}

// ran keeps the files that the script runs, itself or by an interpreter.
func (s *script) ran(c *command, words []string) {
	if file := fileRun(words); file != "" {
		s.p.ran = append(s.p.ran, ranFile{file, s.run(c, "run-written")})
	}
}

// judgeName looks at the name of the command itself.
func (s *script) judgeName(c *command, name string, w shellWord) {
	if len(w.parts) == 0 || hasFixedName(name) || strings.IndexByte(name, '=') >= 0 {
		return
	}
	// Of ./$x the last part is what it is called.
	switch p := w.parts[len(w.parts)-1]; {
	case p.command && !w.quoted:
		s.note(c, "exec-nonliteral") // $(cat x)
	case p.command:
		s.note(c, "exec-nonliteral")
	case p.process || p.name == "" || p.name == "\x00" || p.def != "":
	case p.name == "@" || p.name == "*":
		if !w.quoted {
			s.note(c, "exec-nonliteral")
		}
	case len(s.vars[p.name]) == 0 && p.name == strings.ToUpper(p.name) && !isDigit(p.name[0]):
		// A tool that the caller may name: $CC, $PYTHON.
	case s.isLookedUp(p.name), s.isOneOf(p.name):
	default:
		s.note(c, "exec-nonliteral")
	}
}

// isLookedUp reports whether a variable holds the path of a tool: $(command -v x).
func (s *script) isLookedUp(name string) bool {
	for _, w := range s.vars[name] {
		if !slices.ContainsFunc(w.parts, func(p part) bool { return p.def != "" }) {
			return s.lookedUpBy(name)
		}
	}
	return len(s.vars[name]) > 0
}

// isOneOf reports whether a variable is set to constants only, if to several.
func (s *script) isOneOf(name string) bool {
	for _, w := range s.vars[name] {
		if strings.ContainsRune(s.valueAt(w, 4), Hole) {
			return false
		}
	}
	return len(s.vars[name]) > 1
}

func (s *script) lookedUpBy(name string) bool {
	for _, by := range []string{"command -v", "which ", "type -p"} {
		for _, form := range []string{name + "=$(" + by, name + "=\"$(" + by, name + "=`" + by} {
			if bytes.Contains(s.data, []byte(form)) {
				return true
			}
		}
	}
	return false
}

// judgeCode is a text that a shell or an interpreter runs.
func (s *script) judgeCode(c *command, id, code string, l *Language) {
	if strings.ContainsRune(code, Hole) {
		if strings.Trim(code, string(Hole)+" ") != "" && id != "eval" {
			id = "exec-interpolated-template"
		}
		s.note(c, id)
		return
	}
	s.inside(c, code, l)
}

func (s *script) inside(c *command, code string, l *Language) {
	if l == nil || strings.TrimSpace(code) == "" {
		return
	}
	var p Program
	p.read(l, []byte(code), 0, s.nested+1)
	for _, r := range p.Runs {
		s.note(c, r.ID)
	}
	for _, t := range p.Texts {
		s.text(c, t)
	}
}

// runsAnywhere are folders that a run may write to: what lies there is not a part
// of the program.
var runsAnywhere = []string{"/tmp/", "/var/tmp/", "/dev/shm/", "/dev/stdin", "/dev/fd/", "/proc/self/fd/"}

func (s *script) judgeSource(c *command, file string, w shellWord) {
	switch {
	case slices.ContainsFunc(w.parts, func(p part) bool { return p.process }), c.input != nil:
		s.note(c, "source-stream")
	case slices.ContainsFunc(runsAnywhere, func(d string) bool { return strings.HasPrefix(file, d) }):
		s.note(c, "source-stream")
	case !hasFixedName(file) && slices.ContainsFunc(w.parts, func(p part) bool { return p.command }):
		s.note(c, "source-stream")
	case !hasFixedName(file):
		s.note(c, "exec-nonliteral")
	}
}

// behindCarriers leaves out programs that run another: sudo, env, timeout 5.
func behindCarriers(words []string, raw []shellWord) ([]string, []shellWord) {
	for len(words) > 1 {
		name := words[0][strings.LastIndexByte(words[0], '/')+1:]
		switch name {
		case "sudo", "doas", "env", "nohup", "time", "nice", "ionice", "timeout", "setsid", "stdbuf", "command", "builtin", "exec", "busybox", "strace":
		default:
			return words, raw
		}
		k := 1
		for k < len(words) && (strings.HasPrefix(words[k], "-") || strings.Contains(words[k], "=") && name == "env" || name == "timeout" && len(words[k]) > 0 && isDigit(words[k][0]) || k > 1 && words[k-1] == "-u" || k > 1 && words[k-1] == "-n") {
			if words[k] == "-v" && name == "command" {
				return nil, nil
			}
			k++
		}
		if k >= len(words) {
			return words, raw
		}
		words, raw = words[k:], raw[k:]
	}
	return words, raw
}

// judgeProgram is a program that may be an interpreter, or run one.
func (s *script) judgeProgram(c *command, words []string) {
	name := words[0][strings.LastIndexByte(words[0], '/')+1:]
	if in, ok := interpreters()[strings.TrimRight(name, "0123456789.")]; ok {
		s.judgeInterpreter(c, in, words)
		return
	}
	if !carriers()[name] {
		return
	}
	if id, code, l := interpreterRuns(words); id != "" {
		s.note(c, "exec-nonliteral")
	} else {
		s.inside(c, code, l)
	}
}

func (s *script) judgeInterpreter(c *command, in interpreter, words []string) {
	id, code, l := interpreterRuns(words)
	switch {
	case id != "":
		if last := words[len(words)-1]; strings.Trim(last, string(Hole)+" ") != "" && strings.ContainsRune(last, Hole) {
			s.note(c, "exec-interpolated-template")
			return
		}
		s.note(c, "exec-nonliteral")
		return
	case code != "":
		s.inside(c, code, l)
		return
	}
	file := ""
	for _, w := range words[1:] {
		if w == "-s" || w == "-" {
			break
		}
		if slices.Contains(in.modules, w) {
			return
		}
		if w != "" && w[0] != '-' {
			file = w
			break
		}
		if w == "--version" || w == "-V" || w == "-v" || w == "--help" || w == "-h" {
			return
		}
	}
	if c.input != nil && (file == "" || strings.HasPrefix(file, "/dev/")) {
		s.judgeCode(c, "exec-nonliteral", s.value(*c.input), in.language)
		return
	}
	switch {
	case file == "" && c.piped:
		s.note(c, "pipe-to-shell")
	case file == "" && c.from != nil:
		if f := s.value(*c.from); !hasFixedName(f) || slices.ContainsFunc(runsAnywhere, func(d string) bool { return strings.HasPrefix(f, d) }) {
			s.note(c, "source-stream")
		}
	case slices.ContainsFunc(runsAnywhere, func(d string) bool { return strings.HasPrefix(file, d) }):
		s.note(c, "pipe-to-shell")
	case slices.ContainsFunc(c.words, func(w shellWord) bool { return slices.ContainsFunc(w.parts, func(p part) bool { return p.process }) }):
		s.note(c, "source-stream")
	}
}

// judgeXargs: what xargs reads becomes arguments, so that a shell behind it runs
// a file of any name, or a text that names the argument.
func (s *script) judgeXargs(c *command, words []string) {
	mark := ""
	for k := 1; k < len(words); k++ {
		w := words[k]
		switch {
		case w == "-I" && k+1 < len(words):
			mark = words[k+1]
			k++
		case strings.HasPrefix(w, "-I") && len(w) > 2:
			mark = w[2:]
		case (w == "-n" || w == "-P" || w == "-L" || w == "-d" || w == "-s") && k+1 < len(words):
			k++
		case strings.HasPrefix(w, "-"):
		default:
			s.judgeEach(c, words[k:], mark)
			return
		}
	}
}

func (s *script) judgeEach(c *command, words []string, mark string) {
	if _, ok := interpreters()[strings.TrimRight(words[0][strings.LastIndexByte(words[0], '/')+1:], "0123456789.")]; !ok {
		s.judgeProgram(c, words)
		return
	}
	id, code, l := interpreterRuns(words)
	switch {
	case id != "", code == "" && !fixedFile(words, mark), mark != "" && strings.Contains(code, mark):
		s.note(c, "pipe-to-shell")
	default:
		s.inside(c, code, l)
	}
}

// fixedFile reports whether an interpreter is given a file of its own, and not
// one of those that come in.
func fixedFile(words []string, mark string) bool {
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") {
			return mark == "" || !strings.Contains(w, mark)
		}
		if w == "-m" {
			return true
		}
	}
	return false
}

func (s *script) judgeFind(c *command, words []string) {
	for k, w := range words {
		if (w == "-exec" || w == "-execdir" || w == "-ok") && k+1 < len(words) {
			s.judgeEach(c, words[k+1:], "{}")
		}
	}
}

// texts keeps the words of a command, and which files it writes.
func (s *script) texts(c *command) {
	writes := len(c.words) > 0 && (c.words[0].literal() == "tee" || c.words[0].literal() == "touch" || c.words[0].literal() == "mkdir")
	for i, w := range c.words {
		if _, rest, ok := assigned(w); ok {
			s.text(c, Text{Text: s.value(rest)})
		}
		s.text(c, Text{Text: s.value(w), Writes: writes && i > 0})
		s.envOf(c, w)
	}
	if len(c.words) > 1 && c.words[0].literal() == "printenv" {
		s.text(c, Text{Text: s.value(c.words[1]), Env: true})
	}
	for _, w := range c.to {
		s.text(c, Text{Text: s.value(w), Writes: true})
	}
	for _, w := range []*shellWord{c.from, c.input} {
		if w != nil {
			s.text(c, Text{Text: s.value(*w)})
			s.envOf(c, *w)
		}
	}
}

// envOf keeps the names of variables that the script does not set itself.
func (s *script) envOf(c *command, w shellWord) {
	for _, p := range w.parts {
		if p.name != "" && p.name != "\x00" && len(s.vars[p.name]) == 0 {
			s.text(c, Text{Text: p.name, Env: true})
		}
	}
}
