// Package recipe makes images out of small recipes: another image or nothing, Debian
// packages, files, and commands that run in our sandbox, without root and without a
// network.
//
// Everything that goes into an image is named by its digest, so that the same recipe
// gives the same image. What a command writes cannot be known beforehand: unless told
// otherwise everything is made twice, and an image whose two makings differ is refused.
package recipe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/sandbox/image"
)

// A Recipe is one that was read and found right, with the files that it names.
type Recipe struct {
	Version int    `json:"version"`
	From    string `json:"from"` // an image of the cache by its digest, or scratch
	Steps   []Step `json:"steps"`
}

// A Step is one of packages, files and run.
type Step struct {
	Packages []Package         `json:"packages,omitempty"`
	Files    []File            `json:"files,omitempty"`
	Run      []string          `json:"run,omitempty"`
	Env      map[string]string `json:"env,omitempty"`     // of run
	Seconds  int               `json:"seconds,omitempty"` // that run may take
}

// A Package is a Debian package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// A File is one of from, text, link and folder, at an absolute path of the image.
type File struct {
	Path       string `json:"path"`
	From       string `json:"from,omitempty"` // beside the recipe
	Text       string `json:"text,omitempty"`
	Link       string `json:"link,omitempty"`
	Folder     bool   `json:"folder,omitempty"`
	Executable bool   `json:"executable,omitempty"`

	data []byte `json:"-"`
}

// Scratch is the image without files.
const Scratch = "scratch"

// Bounds on a recipe.
const (
	maxSteps       = 100
	maxPackages    = 2000
	maxFileBytes   = 64 << 20
	maxStepSeconds = 3600
	usualSeconds   = 600
)

// lazily compiles a pattern when it is first used: every start of the program pays for
// what is compiled before.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	packageName    = lazily(`^[a-z0-9][a-z0-9+.-]{1,99}$`)
	packageVersion = lazily(`^[0-9A-Za-z.+:~-]{1,120}$`)
	hexDigest      = lazily(`^[0-9a-f]{64}$`)
)

const hint = "docs/images.md has the format of a recipe"

// Read reads a recipe and the files beside it.
func Read(file string) (*Recipe, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the recipe: %w", err)
	}
	var r Recipe
	doc, err := strictyaml.Decode(file, text, strictyaml.Rules{PlainDigits: true, MaxBytes: 4 << 20, MaxLines: 100_000, Hint: hint}, &r)
	if err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	top, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading the recipe's files: %w", err)
	}
	defer top.Close()
	for i := range r.Steps {
		for j := range r.Steps[i].Files {
			f := &r.Steps[i].Files[j]
			if f.data = []byte(f.Text); f.From == "" {
				continue
			}
			if f.data, err = readFile(top, f.From); err != nil {
				return nil, doc.Refuse(strictyaml.At([]string{"steps", fmt.Sprint(i), "files", fmt.Sprint(j), "from"}, err))
			}
		}
	}
	return &r, nil
}

// readFile reads a file below the recipe's folder, and nothing outside it.
func readFile(top *os.Root, name string) ([]byte, error) {
	info, err := top.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: expected a file of at most %d bytes", name, maxFileBytes)
	}
	return top.ReadFile(name)
}

func (r *Recipe) validate() error {
	at := func(err error, place ...any) error {
		var path []string
		for _, p := range place {
			path = append(path, fmt.Sprint(p))
		}
		return strictyaml.At(path, err)
	}
	if r.Version != 1 {
		return at(fmt.Errorf("found %d, this program knows 1", r.Version), "version")
	}
	if _, err := digest.ParseContent(r.From); err != nil && r.From != Scratch {
		return at(fmt.Errorf("found %.120q, expected scratch, or an image's digest here, blake3: and 64 hex digits", r.From), "from")
	}
	if len(r.Steps) > maxSteps {
		return at(fmt.Errorf("%d steps, expected at most %d", len(r.Steps), maxSteps), "steps")
	}
	for i, s := range r.Steps {
		if err := s.validate(); err != nil {
			return at(err, "steps", i)
		}
	}
	return nil
}

func (s *Step) validate() error {
	kinds := 0
	for _, n := range []int{len(s.Packages), len(s.Files), len(s.Run)} {
		if n > 0 {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("expected one of packages, files and run in a step")
	case len(s.Run) == 0 && (len(s.Env) > 0 || s.Seconds != 0):
		return errors.New("env and seconds are of a step that runs something")
	case s.Seconds < 0 || s.Seconds > maxStepSeconds:
		return fmt.Errorf("%d seconds, expected 1 to %d", s.Seconds, maxStepSeconds)
	case len(s.Packages) > maxPackages:
		return fmt.Errorf("%d packages, expected at most %d", len(s.Packages), maxPackages)
	}
	for i, p := range s.Packages {
		switch {
		case !packageName().MatchString(p.Name):
			return fmt.Errorf("package %d: the name %.100q is not one of Debian's", i, p.Name)
		case !packageVersion().MatchString(p.Version):
			return fmt.Errorf("package %s: the version %.100q is not one of Debian's", p.Name, p.Version)
		case !hexDigest().MatchString(p.SHA256):
			return fmt.Errorf("package %s: sha256 is %.80q, expected 64 hex digits", p.Name, p.SHA256)
		}
	}
	for i, f := range s.Files {
		if err := f.validate(); err != nil {
			return fmt.Errorf("file %d: %w", i, err)
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%.80q is not the name of a variable", name)
		}
	}
	return nil
}

func (f *File) validate() error {
	given := 0
	for _, is := range []bool{f.From != "", f.Text != "", f.Link != "", f.Folder} {
		if is {
			given++
		}
	}
	switch {
	case !strings.HasPrefix(f.Path, "/") || filepath.Clean(f.Path) != f.Path || f.Path == "/":
		return fmt.Errorf("the path %.200q: expected an absolute one, as in /etc/redis.conf", f.Path)
	case slices.Contains(image.MountPoints, strings.Split(f.Path, "/")[1]):
		return fmt.Errorf("the path %s lies in a folder that the sandbox fills itself", f.Path)
	case given != 1:
		return fmt.Errorf("%s: expected one of from, text, link and folder", f.Path)
	case f.Executable && (f.Link != "" || f.Folder):
		return fmt.Errorf("%s: only a file is executable", f.Path)
	}
	return nil
}

// digestOf names the recipe with everything that it takes from elsewhere.
func (r *Recipe) digestOf() (string, error) { return chain("recipe", r.From, r.inputs(len(r.Steps))) }

// inputs are the first n steps, with the digests of their files in the place of their
// names on this machine.
func (r *Recipe) inputs(n int) []Step {
	steps := slices.Clone(r.Steps[:n])
	for i := range steps {
		steps[i].Files = slices.Clone(steps[i].Files)
		for j := range steps[i].Files {
			f := &steps[i].Files[j]
			if f.Link == "" && !f.Folder {
				f.From, f.Text = digest.ContentOf(f.data).String(), ""
			}
		}
	}
	return steps
}

// chain is a digest of what is given.
func chain(parts ...any) (string, error) {
	b, err := canon.Marshal(parts)
	if err != nil {
		return "", err
	}
	return digest.ContentOf(b).String(), nil
}

func (s *Step) timeout() time.Duration {
	if s.Seconds == 0 {
		return usualSeconds * time.Second
	}
	return time.Duration(s.Seconds) * time.Second
}
