package audit

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"sync"

	"tallystick/internal/run/sight"
)

// A language is one whose programs AUD-9 reads.
type language struct {
	name     string
	exts     []string
	shebang  []string
	line     string // begins a comment to the end of the line
	block    bool   // has /* */
	triple   bool   // has """ and '''
	backtick bool
	patterns []dynamicPattern
}

// A dynamicPattern is a call that runs a text as a program. It ends where the
// text begins; argument says what of the text makes it a finding.
type dynamicPattern struct {
	id       string
	pattern  string
	argument argument
}

// An argument says which first arguments of a call are a finding.
type argument int

const (
	anyArgument argument = iota
	// notLiteral: anything but a plain literal.
	notLiteral
)

// execFamily are the calls of Node.js that start a process.
const execFamily = `(?:execSync|execFileSync|execFile|exec|spawnSync|spawn)`

var languages = []language{
	{name: "python", exts: []string{".py", ".pyw", ".star"}, shebang: []string{"python"}, line: "#", triple: true, patterns: []dynamicPattern{
		{"eval", `(?:^|[^.\w])eval\s*\(`, anyArgument},
		{"exec", `(?:^|[^.\w])exec\s*\(`, anyArgument},
		{"builtins-eval", `\b(?:builtins|__builtins__)(?:\.|\[["'])\s*(?:eval|exec)`, anyArgument},
		{"compile", `(?:^|[^.\w])compile\s*\(`, anyArgument},
		{"dynamic-import", `\b(?:__import__|importlib\.import_module)\s*\(`, notLiteral},
		{"exec-nonliteral", `\bos\.(?:system|popen)\s*\(`, notLiteral},
		{"exec-nonliteral", `\bsubprocess\.(?:getoutput|getstatusoutput)\s*\(`, notLiteral},
		{"exec-shell", `\bsubprocess\.(?:run|call|check_call|check_output|Popen)\s*\(\s*f["'][^\n]*shell\s*=\s*True|\bsubprocess\.(?:run|call|check_call|check_output|Popen)\s*\(\s*[A-Za-z_][^\n]*shell\s*=\s*True`, anyArgument},
	}},
	{name: "javascript", exts: []string{".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"}, shebang: []string{"node", "deno", "bun"}, line: "//", block: true, backtick: true, patterns: []dynamicPattern{
		{"eval", `(?:^|[^.\w])(?:(?:globalThis|window|global)\.)?eval\s*\(`, anyArgument},
		{"new-function", `\bnew\s+Function\s*\(|(?:^|[^.\w])Function\s*\(`, anyArgument},
		{"vm-run", `\bvm\.(?:runInThisContext|runInNewContext|runInContext|compileFunction)\s*\(|\bnew\s+vm\.Script\s*\(`, anyArgument},
		{"exec-nonliteral", `(?:^|[^.\w]|child_process\.|child_process["']\)\.|\bcp\.)` + execFamily + `\s*\(`, notLiteral},
	}},
	{name: "go", exts: []string{".go"}, line: "//", block: true, backtick: true, patterns: []dynamicPattern{
		{"exec-nonliteral", `\bexec\.Command\s*\(`, notLiteral},
		{"exec-nonliteral", `\bexec\.CommandContext\s*\(\s*[\w.()]+\s*,`, notLiteral},
		{"exec-shell", `\bexec\.Command(?:Context)?\s*\((?:[\w.()]+\s*,\s*)?"(?:/bin/)?(?:ba|z)?sh"\s*,\s*"-c"\s*,`, notLiteral},
		{"plugin", `\bplugin\.Open\s*\(`, notLiteral},
		{"interpreter", `\binterp\.New\s*\(|\.EvalPath\s*\(`, anyArgument},
	}},
	{name: "shell", exts: []string{".sh", ".bash", ".zsh", ".ksh"}, shebang: []string{"sh", "bash", "zsh", "ksh", "dash"}, line: "#", patterns: []dynamicPattern{
		{"eval", `(?:^|[;&|({]|\bthen|\bdo|\belse)\s*eval\s`, notLiteral},
		{"exec-nonliteral", `\b(?:ba|z|k|da)?sh\s+(?:-\w+\s+)*-\w*c\s`, notLiteral},
		{"exec-nonliteral", `\b(?:python3?|node|perl|ruby)\s+-(?:c|e)\s`, notLiteral},
		{"source-stream", `(?:^|[;&|])\s*(?:source|\.)\s+(?:<\(|/dev/stdin)`, anyArgument},
		{"pipe-to-shell", `\|\s*(?:sudo\s+)?(?:ba|z|k|da)?sh\b(?:\s*$|\s+-s|\s*[;&|])|\|\s*(?:sudo\s+)?(?:python3?|node|perl)\s*(?:-\s*)?(?:$|[;&|])`, anyArgument},
	}},
}

var dynamicRegexps = sync.OnceValue(func() map[string]*regexp.Regexp {
	m := map[string]*regexp.Regexp{}
	for _, l := range languages {
		for _, p := range l.patterns {
			m[p.pattern] = regexp.MustCompile(`(?m)` + p.pattern)
		}
	}
	return m
})

// languageOf recognises a program by its name or its first line; nil for
// anything else.
func languageOf(name string, data []byte) *language {
	ext := strings.ToLower(path.Ext(name))
	for i := range languages {
		for _, e := range languages[i].exts {
			if e == ext {
				return &languages[i]
			}
		}
	}
	first, _, _ := bytes.Cut(data[:min(len(data), 256)], []byte("\n"))
	if !bytes.HasPrefix(first, []byte("#!")) {
		return nil
	}
	for _, word := range strings.Fields(string(first[2:])) {
		program := strings.TrimRight(path.Base(word), "0123456789.")
		for i := range languages {
			for _, s := range languages[i].shebang {
				if program == s {
					return &languages[i]
				}
			}
		}
	}
	return nil
}

type dynamicMatch struct {
	line int
	id   string
	text string
}

// dynamic finds the calls in a program.
func (l *language) dynamic(data []byte) []dynamicMatch {
	code := l.mask(data)
	var list []dynamicMatch
	for _, p := range l.patterns {
		for _, m := range dynamicRegexps()[p.pattern].FindAllIndex(l.matched(p, code, data), -1) {
			id := p.id
			if p.argument == notLiteral {
				kind := literal(argumentAt(data, m[1]), l)
				if kind == plainLiteral {
					continue
				}
				if kind == interpolated {
					id = "exec-interpolated-template"
				}
			}
			at := m[0]
			for at < m[1] && (data[at] == '\n' || data[at] == ' ') {
				at++
			}
			list = append(list, dynamicMatch{1 + bytes.Count(data[:at], []byte("\n")), id, lineAt(data, at)})
		}
	}
	return list
}

// matched is the text that a pattern is looked for in: the program without its
// strings and comments, or for a pattern that names a string the program without
// comments only.
func (l *language) matched(p dynamicPattern, code, data []byte) []byte {
	if strings.ContainsAny(p.pattern, `"'`) {
		return l.maskComments(data)
	}
	return code
}

func lineAt(data []byte, at int) string {
	from := bytes.LastIndexByte(data[:at], '\n') + 1
	to := len(data)
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		to = at + i
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data[from:to]), "\uFFFD"))
}

// argumentAt is the text from where an argument begins, over at most three more
// lines.
func argumentAt(data []byte, at int) []byte {
	rest := data[at:]
	end := 0
	for n := 0; n < 4 && end < len(rest); n++ {
		i := bytes.IndexByte(rest[end:], '\n')
		if i < 0 {
			return rest
		}
		end += i + 1
	}
	return rest[:end]
}

type literalKind int

const (
	otherArgument literalKind = iota
	plainLiteral
	interpolated
)

// literal says whether an argument is one plain literal. A literal that another
// is added to is not.
func literal(arg []byte, l *language) literalKind {
	arg = bytes.TrimLeft(arg, " \t\r\n[")
	if len(arg) == 0 {
		return otherArgument
	}
	q := arg[0]
	if q != '"' && q != '\'' && q != '`' {
		return otherArgument
	}
	end := stringEnd(arg, 1, q)
	inside := arg[1:max(1, min(end, len(arg))-1)]
	if q == '`' && l.name == "javascript" && bytes.Contains(inside, []byte("${")) {
		return interpolated
	}
	if l.name == "shell" && q == '"' && bytes.ContainsAny(inside, "$`") {
		return interpolated
	}
	rest := bytes.TrimLeft(arg[min(end, len(arg)):], " \t\r\n")
	if l.name == "shell" {
		if len(rest) > 0 && (rest[0] == '$' || rest[0] == '"' || rest[0] == '\'') && len(arg) > end && arg[end] != ' ' {
			return otherArgument
		}
		return plainLiteral
	}
	if len(rest) == 0 || rest[0] == ',' || rest[0] == ')' || rest[0] == ']' {
		return plainLiteral
	}
	return otherArgument
}

// stringEnd is where a string that began before at ends, behind its quotation
// mark.
func stringEnd(text []byte, at int, quote byte) int {
	for i := at; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			return i + 1
		case text[i] == '\n' && quote != '`':
			return i
		}
	}
	return len(text)
}

// mask gives the program with spaces in place of comments and of what stands in
// strings, at the same places. Strings that run code inside are left.
func (l *language) mask(data []byte) []byte { return l.blank(data, true) }

func (l *language) maskComments(data []byte) []byte { return l.blank(data, false) }

func (l *language) blank(data []byte, texts bool) []byte {
	out := bytes.Clone(data)
	for i := 0; i < len(data); {
		end, blank := l.piece(data, i)
		if end == i {
			i++
			continue
		}
		if blank == comment || texts && blank == text {
			for j := i; j < end; j++ {
				if out[j] != '\n' {
					out[j] = ' '
				}
			}
		}
		i = end
	}
	return out
}

type pieceKind int

const (
	program pieceKind = iota
	comment
	text
)

// piece finds the comment or string that begins at a place; end is the place
// itself if none does.
func (l *language) piece(data []byte, i int) (end int, kind pieceKind) {
	rest := data[i:]
	switch {
	case bytes.HasPrefix(rest, []byte(l.line)) && (l.name != "shell" || i == 0 || sight.IsSpace(data[i-1]) || data[i-1] == ';'):
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			return i + n, comment
		}
		return len(data), comment
	case l.block && bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + n + 4, comment
		}
		return len(data), comment
	case l.triple && (bytes.HasPrefix(rest, []byte(`"""`)) || bytes.HasPrefix(rest, []byte(`'''`))):
		end := len(data)
		if n := bytes.Index(rest[3:], rest[:3]); n >= 0 {
			end = i + n + 6
		}
		return end, l.textKind(data, i, end)
	case rest[0] == '"', rest[0] == '\'', l.backtick && rest[0] == '`':
		end := stringEnd(data, i+1, rest[0])
		return end, l.textKind(data, i, end)
	}
	return i, program
}

// textKind tells strings that hold code: f"{…}" and `${…}`, and "$(…)".
func (l *language) textKind(data []byte, from, end int) pieceKind {
	inside := data[from:end]
	switch l.name {
	case "python":
		if from > 0 && (data[from-1]|0x20 == 'f' || from > 1 && data[from-1]|0x20 == 'r' && data[from-2]|0x20 == 'f') && bytes.IndexByte(inside, '{') >= 0 {
			return program
		}
	case "javascript":
		if inside[0] == '`' && bytes.Contains(inside, []byte("${")) {
			return program
		}
	case "shell":
		if inside[0] == '"' && (bytes.Contains(inside, []byte("$(")) || bytes.IndexByte(inside, '`') >= 0) {
			return program
		}
	}
	return text
}

// IsProgram reports whether AUD-8 and AUD-9 read a file, by its name or the
// beginning of its text.
func IsProgram(name string, head []byte) bool { return languageOf(name, head) != nil }
