package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"tallystick/internal/read/program"
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
	a.carrier = newCarrier(a)
	for _, s := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := readSource(s)
		if err != nil && refusal.Of(err).Name == refusal.TooLarge && !IsProgram(s.Path, nil) {
			a.carrier.gaps = append(a.carrier.gaps, fmt.Sprintf("%s has more than %d bytes and was not read", s.Path, maxSource))
			continue
		}
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
		if s.Agent {
			if err := a.carrier.read(ctx, s.Path, data); err != nil {
				return err
			}
		}
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
	l := program.LanguageOf(name, data)
	if l == nil {
		if isOtherProgram(name, data) {
			a.unread = append(a.unread, name)
		}
		return
	}
	a.found[aud8].auditable++
	a.found[aud9].auditable++
	p := program.Read(l, data)
	for _, m := range keysIn(p.Texts) {
		if !isSanctioned(m.path) {
			a.found[aud8].fails = append(a.found[aud8].fails, fmt.Sprintf("%s:%d: reads an answer key: %s", name, m.line, quoted(visible(m.path))))
		}
	}
	for _, r := range p.Runs {
		a.found[aud9].fails = append(a.found[aud9].fails, fmt.Sprintf("%s:%d: %s: %s", name, r.Line, r.ID, quoted(r.Text)))
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
		if len(a.unread) > 0 && f.gap == "" {
			f.gap = fmt.Sprintf("programs in languages that are not read here: %s", someOf(a.unread))
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

// otherPrograms are extensions of programs that the audit cannot read, besides
// scripts: a compiler made them, or makes something of them.
var otherPrograms = []string{".c", ".cc", ".class", ".cpp", ".cs", ".dll", ".dylib", ".exe", ".hs", ".jar", ".java", ".kt", ".pyc", ".rs", ".scala", ".so", ".swift", ".wasm"}

// binaries are how programs begin that a compiler made: ELF, Mach-O, PE.
var binaries = []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ"}

// isOtherProgram reports whether a source is a program that the audit cannot read.
func isOtherProgram(name string, data []byte) bool {
	ext := strings.ToLower(path.Ext(name))
	return slices.Contains(otherPrograms, ext) || slices.Contains(scripts, ext) || bytes.HasPrefix(data, []byte("#!")) ||
		slices.ContainsFunc(binaries, func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) })
}

// MayBeProgram reports whether a file of this name may be a program.
func MayBeProgram(name string) bool {
	return !slices.Contains(dataFiles, strings.ToLower(path.Ext(name)))
}

// dataFiles are extensions of files that are not programs.
var dataFiles = []string{".json", ".jsonl", ".yaml", ".yml", ".toml", ".txt", ".md", ".csv", ".lock"}

// unreadSource reports whether a source may be a program in a language that
// the audit cannot read.
func (a *auditor) unreadSource() bool {
	return slices.ContainsFunc(a.in.Sources, func(s SourceFile) bool { return MayBeProgram(s.Path) })
}
