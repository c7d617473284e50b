package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/step"
	"tallystick/internal/record/refusal"
)

// maxSource bounds a source file, which is read whole.
const maxSource = 16 << 20

// readSources reads the programs that decide a score: AUD-8 and AUD-9.
func (a *auditor) readSources(ctx context.Context) error {
	if !a.in.HasSources && len(a.in.Sources) == 0 {
		return nil
	}
	files := slices.Clone(a.in.Sources)
	slices.SortFunc(files, func(x, y SourceFile) int { return strings.Compare(x.Path, y.Path) })
	all := sha256.New()
	for _, s := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := readSource(s)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		got := hex.EncodeToString(sum[:])
		if s.SHA256 != "" && hexOf(s.SHA256) != got {
			return refusal.Newf(refusal.DigestMismatch, "source %s: its SHA-256 is %s, the receipts say %s", s.Path, got, hexOf(s.SHA256))
		}
		fmt.Fprintf(all, "%s  %s\n", got, s.Path)
		a.readSource(s.Path, data)
	}
	a.inputs.Sources = hex.EncodeToString(all.Sum(nil))
	return nil
}

func readSource(s SourceFile) ([]byte, error) {
	f, err := s.Open()
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "source %s: %w", s.Path, refusal.WithoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "source %s: %w", s.Path, err)
	}
	if len(data) > maxSource {
		return nil, refusal.Newf(refusal.TooLarge, "source %s: more than %d bytes, expected a program", s.Path, maxSource).WithHint("name the folder with the programs, not one with data")
	}
	return data, nil
}

func (a *auditor) readSource(name string, data []byte) {
	l := languageOf(name, data)
	if l == nil {
		if isOtherProgram(name, data) {
			a.unread = append(a.unread, name)
		}
		return
	}
	a.found[aud8].auditable++
	a.found[aud9].auditable++
	for _, m := range keyPaths(data, nil) {
		a.found[aud8].fails = append(a.found[aud8].fails, fmt.Sprintf("%s:%d: reads an answer key: %s", name, m.line, quoted(m.path)))
	}
	for _, m := range l.dynamic(data) {
		a.found[aud9].fails = append(a.found[aud9].fails, fmt.Sprintf("%s:%d: %s: %s", name, m.line, m.id, quoted(m.text)))
	}
}

func (a *auditor) sourceGaps() {
	for _, i := range []int{aud8, aud9} {
		f := &a.found[i]
		// Receipts say what decided the score of a run of ours. If no program is
		// among it, there is nothing to read, and nothing is missing.
		if f.auditable == 0 && a.in.HasSources && a.in.Vouched != nil && !a.unreadSource() && len(a.in.SourceGaps) == 0 {
			f.auditable++
			f.notes = append(f.notes, "receipts name everything that decides the score, and no program but the harness is among it")
		}
		if len(a.in.SourceGaps) > 0 {
			f.gap = someOf(a.in.SourceGaps)
		}
		if unread := a.unreadPrograms(); len(unread) > 0 && f.gap == "" {
			f.gap = fmt.Sprintf("programs in languages that are not read here: %s", someOf(unread))
		}
		if f.auditable == 0 && f.gap == "" {
			f.gap = "no sources supplied"
			if a.in.HasSources {
				f.gap = "the sources hold no program in Python, JavaScript, Go or shell"
			}
		}
	}
}

// someOf is a list for a person: its first members.
func someOf(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], "; ") + fmt.Sprintf("; and %d more", len(list)-5)
	}
	return strings.Join(list, "; ")
}

// otherPrograms are extensions of programs that the audit cannot read.
var otherPrograms = []string{".c", ".cc", ".class", ".cpp", ".cs", ".dll", ".dylib", ".ex", ".exe", ".exs", ".hs", ".ipynb", ".jar", ".java", ".jl", ".kt", ".lua", ".php", ".pl", ".pyc", ".r", ".rb", ".rs", ".scala", ".so", ".swift", ".wasm"}

// binaries are how programs begin that a compiler made: ELF, Mach-O, PE.
var binaries = []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ"}

// isOtherProgram reports whether a source is a program that the audit cannot read.
func isOtherProgram(name string, data []byte) bool {
	return slices.Contains(otherPrograms, strings.ToLower(path.Ext(name))) || bytes.HasPrefix(data, []byte("#!")) ||
		slices.ContainsFunc(binaries, func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) })
}

// MayBeProgram reports whether a file of this name may be a program.
func MayBeProgram(name string) bool {
	return !slices.Contains(dataFiles, strings.ToLower(path.Ext(name)))
}

// unreadPrograms are the sources that are such programs, if receipts say that the
// sources are everything: of other files it is unknown what decides a score.
func (a *auditor) unreadPrograms() []string {
	if a.in.Vouched == nil {
		return nil
	}
	return a.unread
}

// dataFiles are extensions of files that are not programs.
var dataFiles = []string{".json", ".jsonl", ".yaml", ".yml", ".toml", ".txt", ".md", ".csv", ".lock"}

// unreadSource reports whether a source may be a program in a language that
// the audit cannot read.
func (a *auditor) unreadSource() bool {
	return slices.ContainsFunc(a.in.Sources, func(s SourceFile) bool { return MayBeProgram(s.Path) })
}

// Paths of answer keys, as the original has them.
const (
	pathShaped = "(?:^|[\\s\"'`=(])((?:~|\\.{1,2})?[\\w~.-]*[/\\\\][\\w/\\\\ .~-]*\\.(?:json|jsonl|csv|txt|yaml|yml|parquet))"
	answerKey  = `(?i)(?:^|[/\\_.-])(answer(?:s|[_-]?key)?|gold(?:en)?[_-]?(?:answers?|labels?|set)?|solutions?|ground[_-]?truth|labels)(?:[/\\_.-]|\.(?:json|jsonl|csv|txt|yaml|yml)\b|$)`
)

// sanctioned are the folders where a harness keeps its data set.
var sanctioned = []string{".cache/huggingface/", ".cache/ruflo/gaia/dataset/"}

var pathPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pathShaped) })
var keyPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(answerKey) })

// writes are marks of a line that writes the file that it names.
var writes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)["'][wax]b?\+?["']|>>?\s*["']?[\w~./\\-]*$|write_?file|\.write_text|\.to_(?:csv|json)|os\.create|createwritestream|\btee\s|json\.dump\(|mode\s*=\s*["']w`)
})

type keyPath struct {
	line int
	path string
}

// keyPaths finds paths of answer keys that a text reads. What it writes itself is
// its own; written collects that.
func keyPaths(text []byte, written map[string]bool) []keyPath {
	var list []keyPath
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if !bytes.ContainsAny(line, `/\`) {
			continue
		}
		for _, m := range pathPattern().FindAllSubmatchIndex(line, -1) {
			p := string(line[m[2]:m[3]])
			if !keyPattern().MatchString(p) || isSanctioned(p) {
				continue
			}
			clean := path.Clean(strings.ReplaceAll(p, `\`, "/"))
			before, after := line[:m[2]], line[m[3]:]
			if writes().Match(before) || writes().Match(after[:min(len(after), 40)]) {
				if written != nil {
					written[clean] = true
				}
				continue
			}
			if written[clean] {
				continue
			}
			list = append(list, keyPath{n, p})
		}
	}
	return list
}

// isSanctioned reports whether a path lies in the data set, once .. is resolved.
func isSanctioned(p string) bool {
	clean := path.Clean(strings.ReplaceAll(p, `\`, "/"))
	for _, dir := range sanctioned {
		if strings.Contains(clean, dir) {
			return true
		}
	}
	return false
}

// keyReads is AUD-8 on what tools were called with.
func (w *worker) keyReads(o *outcome) {
	f := &o.found[aud8]
	written := map[string]bool{}
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		if s.Kind != step.Call {
			continue
		}
		if s.Name == "file_write" || s.Name == "write_file" {
			for _, m := range keyPaths(s.Said.Text, nil) {
				written[path.Clean(strings.ReplaceAll(m.path, `\`, "/"))] = true
			}
			continue
		}
		for _, m := range keyPaths(s.Said.Text, written) {
			f.fails = append(f.fails, fmt.Sprintf("task %s: step %d: tool_call %s reads an answer key: %s", o.r.id, i, quoted(s.Name), quoted(m.path)))
		}
	}
}
