package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"tallystick/internal/read/program"
	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// sanctioned are the folders where a harness keeps its data set. Its own programs
// may read there; an agent may not.
var sanctioned = []string{".cache/huggingface/", ".cache/ruflo/gaia/dataset/"}

// isSanctioned reports whether a path lies in the data set, once .. is resolved.
func isSanctioned(p string) bool {
	clean := path.Clean(strings.ReplaceAll(p, `\`, "/"))
	return slices.ContainsFunc(sanctioned, func(dir string) bool { return strings.Contains(clean, dir) })
}

// A keyRead is a path of an answer key that a text reads.
type keyRead struct {
	line int
	path string
}

// keysIn finds the answer keys among the texts of a program. What it writes
// itself, where it may, is its own.
func keysIn(texts []program.Text) []keyRead {
	written := map[string]bool{}
	away := map[int]bool{} // lines that name a folder outside
	for _, t := range texts {
		if t.Writes {
			written[cleanPath(t.Text)] = true
		}
		if strings.ContainsAny(t.Text, `/\.`) && !strings.ContainsAny(t.Text, " \n") && leadsTo(t.Text+"/x") == outside || t.Text == "/" {
			away[t.Line] = true
		}
	}
	var list []keyRead
	for _, line := range datasetReads(texts) {
		list = append(list, keyRead{line, "the answers of the data set"})
	}
	for _, t := range texts {
		if t.Env {
			if keyVariable().MatchString(t.Text) {
				list = append(list, keyRead{t.Line, "$" + t.Text})
			}
			continue
		}
		if t.Writes {
			continue
		}
		for _, p := range candidates(t.Text) {
			sure, found := keyPath(p, away[t.Line])
			if !found || written[cleanPath(p)] && leadsTo(p) != outside {
				continue
			}
			// In a sentence a name is a mention, unless it leads somewhere.
			if strings.ContainsAny(t.Text, " \n") && !strings.Contains(p, "/") && sure < surelyKey {
				continue
			}
			if strings.Contains(t.Text, "\n") && leadsTo(p) != outside {
				continue
			}
			list = append(list, keyRead{t.Line, p})
		}
	}
	return list
}

// datasetReads are the lines of a program that name the data set of a benchmark
// and the member with its answers.
func datasetReads(texts []program.Text) (lines []int) {
	set := map[int]bool{}
	for _, t := range texts {
		if lower := strings.ToLower(t.Text); len(t.Text) < 256 && strings.Contains(lower, "gaia-benchmark/") {
			set[t.Line] = true
		}
	}
	for _, t := range texts {
		if lower := strings.ToLower(strings.TrimSpace(t.Text)); set[t.Line] && (lower == "final answer" || lower == "final_answer" || lower == "answer" || lower == "ground_truth") && !slices.Contains(lines, t.Line) {
			lines = append(lines, t.Line)
		}
	}
	return lines
}

func cleanPath(p string) string { return path.Clean(strings.ReplaceAll(p, `\`, "/")) }

// candidates are the paths that a constant text may mean: itself, its words, and
// what they are encodings of. Addresses on other machines are not paths.
func candidates(text string) []string {
	var list []string
	take := func(p string) {
		if p != "" && len(p) < 1024 && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	words := []string{text}
	if strings.ContainsAny(text, " \t\n\"'`=,;()<>|") {
		words = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`=,;()<>|", r) })
		if len(text) < 256 && !strings.ContainsAny(text, "\n\"'`=;()<>|") && strings.ContainsAny(text, `/\.`) {
			take(text) // a path may have spaces
		}
	}
	for _, w := range words {
		if strings.Contains(w, "://") && !strings.HasPrefix(w, "file://") {
			if u := localURL().FindString(w); u == "" {
				continue
			}
		}
		take(w)
		for _, plainer := range decodings(w) {
			take(plainer)
		}
	}
	return list
}

// decodings are the texts that a word encodes, if they are of printable
// characters: base64, hexadecimal, percent-encoding, backwards, rotated by 13.
func decodings(w string) []string {
	var list []string
	take := func(b []byte, err error) {
		if err == nil && len(b) >= 6 && printable(b) {
			list = append(list, string(b))
		}
	}
	if strings.IndexByte(w, '%') >= 0 {
		s, err := url.PathUnescape(w)
		take([]byte(s), err)
	}
	if len(w) >= 12 {
		bare := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(w, "="))
		take(base64.RawStdEncoding.DecodeString(bare))
		take(hex.DecodeString(strings.TrimPrefix(w, "0x")))
	}
	if len(w) >= 8 && strings.IndexByte(w, '.') > 0 {
		r := []rune(w)
		slices.Reverse(r)
		list = append(list, string(r), program.Rot13(w))
	}
	return list
}

func printable(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f || r > 0x7f }) < 0
}

// callTexts reads what a tool was called with: as a command, as a program, and as
// it is.
func callTexts(tool string, text []byte) []program.Text {
	texts := program.Read(shellLanguage, text).Texts
	if bytes.ContainsAny(text, "\"'`+(") {
		texts = append(texts, program.Read(pythonLanguage, text).Texts...)
		if bytes.ContainsAny(text, "`;{") {
			texts = append(texts, program.Read(javascriptLanguage, text).Texts...)
		}
	}
	for _, m := range pathPattern().FindAllSubmatchIndex(text, -1) {
		texts = append(texts, program.Text{Line: -1, Text: string(text[m[2]:m[3]])})
	}
	if isWriter(tool) {
		// The file that it writes is the first text that looks like one.
		for i := range texts {
			if !texts[i].Env && strings.ContainsAny(texts[i].Text, "./") && !strings.ContainsAny(texts[i].Text, " \n") {
				name := texts[i].Text
				for k := range texts {
					texts[k].Writes = texts[k].Writes || texts[k].Text == name
				}
				break
			}
		}
	}
	return texts
}

var (
	shellLanguage      = program.LanguageOf("x.sh", nil)
	pythonLanguage     = program.LanguageOf("x.py", nil)
	javascriptLanguage = program.LanguageOf("x.js", nil)
)

// isWriter reports whether a tool writes the file that it is told.
func isWriter(tool string) bool {
	t := strings.ToLower(tool)
	return strings.Contains(t, "write") || strings.Contains(t, "create_file") || strings.Contains(t, "save")
}

// pathShaped is a path in any text.
const pathShaped = "(?:^|[\\s\"'`=(,])((?:~|\\.{1,2})?[\\w~.-]*[/\\\\][\\w/\\\\.~-]*\\.(?:json|jsonl|csv|tsv|txt|yaml|yml|parquet|xlsx|db|sqlite))"

var pathPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pathShaped) })

// mayNameFile reports whether a call could name a file at all: most do not, and
// are not read as programs.
func mayNameFile(text []byte) bool {
	if bytes.ContainsAny(text, "/\\$%\"`*_=(") {
		return true
	}
	run, mixed := 0, false // a word that may be an encoding
	for i, c := range text {
		switch {
		case c <= ' ':
			run, mixed = 0, false
			continue
		case c == '.' && i+1 < len(text) && text[i+1] > ' ', c >= utf8.RuneSelf:
			return true
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z' && run > 0:
			mixed = true
		}
		if run++; run >= 12 && mixed {
			return true
		}
	}
	return false
}

// keyReads is AUD-8 on what tools were called with. A file that the task names is
// its own, and so is one that the agent made.
func (w *worker) keyReads(o *outcome, texts [][]program.Text, told func() []byte) {
	f := &o.found[aud8]
	var all []program.Text
	for i, list := range texts {
		for k := range list {
			list[k].Line = i
		}
		if k := slices.IndexFunc(list, isCaseFile); k >= 0 {
			f.fails = append(f.fails, fmt.Sprintf("task %s: step %d: tool_call %s reads a file of the harness: %s", o.r.id, i, quoted(o.t.Steps[i].Name), quoted(visible(list[k].Text))))
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return
	}
	seen := map[keyRead]bool{}
	for _, m := range keysIn(all) {
		if seen[m] || isTold(told(), m.path) {
			continue
		}
		seen[m] = true
		f.fails = append(f.fails, fmt.Sprintf("task %s: step %d: tool_call %s reads an answer key: %s", o.r.id, m.line, quoted(o.t.Steps[m.line].Name), quoted(visible(m.path))))
	}
}

// visible shows where a text is not constant.
func visible(s string) string { return strings.ReplaceAll(s, string(program.Hole), "…") }

func isCaseFile(t program.Text) bool {
	if t.Env || t.Writes || strings.Contains(t.Text, "://") && !strings.HasPrefix(t.Text, "file:") || strings.Contains(t.Text, "\n") {
		return false
	}
	return caseFiles().MatchString(cleanPath(t.Text))
}

// toldIn is what the harness told the agent: the question and the first prompt.
func toldIn(o *outcome) []byte {
	told := sight.Fold([]byte{' '}, []byte(o.r.question))
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		if s.Kind == step.Call || s.Kind == step.Result {
			break // what comes later may repeat what the agent found
		}
		if s.Kind == step.Prompt {
			told = sight.Fold(append(told, ' '), s.Shown.Text)
		}
	}
	return told
}

// isTold reports whether the task itself names a file. A path where a harness
// keeps its files must be named whole.
func isTold(told []byte, p string) bool {
	name := path.Base(cleanPath(p))
	if leadsTo(p) == outside {
		name = cleanPath(p)
	}
	return len(name) > 4 && bytes.Contains(told, sight.Fold(nil, []byte(name)))
}
