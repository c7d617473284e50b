package agent

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
)

// A Draft is a target for an agent that is already there, before a person has
// looked at it.
type Draft struct {
	Name  string
	Kind  Kind
	YAML  []byte
	Notes []string // what the person should know or do
	// Installed are folders of the workspace that git should not have: each
	// user who clones it makes them again.
	Installed []string
}

// DraftOptions say what to make a target of.
type DraftOptions struct {
	Agent  string              // python:PATH, typescript:PATH, http:URL or command:PROGRAM ARGUMENT…
	Root   string              // of the workspace, which need not exist
	Here   string              // that paths are relative to
	Getenv func(string) string // of the person's shell
}

// drafting is a Draft while it is made.
type drafting struct {
	DraftOptions
	top     string // of the repository, or the root of the workspace
	command []string
	source  string
	venv    string
	modules string
	env     string
	notes   []string
}

// NewDraft makes a target. It reads the person's files and writes nothing.
func NewDraft(o DraftOptions) (*Draft, error) {
	kind, rest, ok := strings.Cut(o.Agent, ":")
	if rest = strings.TrimSpace(rest); !ok || rest == "" {
		return nil, badAgent(o.Agent)
	}
	if strings.HasPrefix(rest, "//") {
		kind, rest = "http", o.Agent
	}
	d := &drafting{DraftOptions: o, top: repositoryOf(o.Root)}
	var name string
	var err error
	switch kind {
	case "http", "https":
		return draftHTTP(rest)
	case "python", "py":
		name, err = d.python(rest)
	case "typescript", "ts", "javascript", "js", "node":
		name, err = d.node(rest)
	case "command":
		name, err = d.program(rest)
	default:
		return nil, badAgent(o.Agent)
	}
	if err != nil {
		return nil, err
	}
	return d.draft(name)
}

func badAgent(found string) error {
	return refusal.Newf(refusal.Usage, "--agent %s: expected python:PATH, typescript:PATH, http:URL or command:PROGRAM", found).
		WithHint("as in --agent python:agent.py, --agent typescript:src/agent.ts, --agent http://127.0.0.1:8080/turn, --agent \"command:ruby agent.rb\"")
}

func draftHTTP(address string) (*Draft, error) {
	h := &HTTP{URL: address}
	if err := h.validate(); err != nil {
		return nil, refusal.Newf(refusal.Usage, "--agent: %w", err).WithHint("docs/agents.md says what the URL is sent and what it answers")
	}
	u, _ := url.Parse(address)
	d := &Draft{Name: "agent", Kind: KindHTTP, YAML: []byte("# The agent under test: for each turn the URL is sent JSON, and answers\n# {\"answer\": \"…\"}; docs/agents.md has the rest.\nversion: 1\nkind: http\nhttp: {url: " + strictyaml.Quote(address) + "}\n")}
	if !h.Local() {
		d.Name = nameOf(u.Hostname())
		d.Notes = append(d.Notes, "the agent is not on this machine: run it with --live and a --max-cost")
	}
	return d, nil
}

// draft writes the target, and reads it again as a run will.
func (d *drafting) draft(name string) (*Draft, error) {
	if bench.CheckID(name) != nil {
		return nil, refusal.Newf(refusal.Usage, "no target can be named after %q", name).WithHint("name it with --name")
	}
	var b strings.Builder
	b.WriteString("# The agent under test, and how it is started; docs/agents.md has what else there is.\nversion: 1\nkind: command\ncommand:\n  command: [")
	for i, word := range d.command {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(word))
	}
	b.WriteString("]\n")
	for _, m := range []struct{ key, value string }{{"source", d.source}, {"venv", d.venv}, {"node_modules", d.modules}} {
		if m.value != "" {
			fmt.Fprintf(&b, "  %s: %s\n", m.key, quoted(m.value))
		}
	}
	if d.env != "" {
		fmt.Fprintf(&b, "  env: {%s}\n", d.env)
	}
	t := &Draft{Name: name, Kind: KindCommand, YAML: []byte(b.String()), Notes: d.notes}
	for _, dir := range []string{d.venv, d.modules} {
		if found, err := findAbove(d.Root, dir); dir != "" && err == nil && found == filepath.Join(d.Root, filepath.FromSlash(dir)) {
			t.Installed = append(t.Installed, dir)
		}
	}
	if _, err := Parse(name, path.Join(TargetsDir, name+".yaml"), t.YAML); err != nil {
		return nil, err
	}
	return t, nil
}

// quoted puts text in quotes unless everybody reads it as text without them.
func quoted(text string) string {
	plain := strings.Trim(text, "/") != "" && (text[0] == '/' || text[0] == '.' && len(text) > 1 || 'a' <= text[0] && text[0] <= 'z') &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz/._-0123456789") == ""
	if doc, err := strictyaml.Parse("", []byte("a: "+text+"\n"), targetRules); plain && err == nil && doc.Top.Members[0].Value.Kind == strictyaml.Text {
		return text
	}
	return strictyaml.Quote(text)
}

func (d *drafting) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// repositoryOf is the nearest folder above with a .git, the folder itself if
// there is none.
func repositoryOf(root string) string {
	for dir := root; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return root
		}
	}
}

// find finds a file or folder that the person named, and how a target names it:
// relative to the workspace or a folder above it in the same repository.
func (d *drafting) find(name string) (abs, short string, err error) {
	if abs = name; !filepath.IsAbs(abs) {
		abs = filepath.Join(d.Here, filepath.FromSlash(name))
	}
	if !exists(abs) {
		return "", "", refusal.Newf(refusal.NotFound, "--agent: there is no file %s", abs).WithHint("name the file that starts the agent, as you would after python or node")
	}
	short, err = d.short(abs)
	return abs, short, err
}

func (d *drafting) short(abs string) (string, error) {
	for dir := d.Root; ; dir = filepath.Dir(dir) {
		if within(dir, abs) {
			name, err := filepath.Rel(dir, abs)
			if found, ferr := findAbove(d.Root, filepath.ToSlash(name)); err == nil && ferr == nil && found == abs {
				return filepath.ToSlash(name), nil
			}
		}
		if dir == d.top || dir == filepath.Dir(dir) {
			return "", refusal.Newf(refusal.Usage, "--agent: %s is not in %s, so a target there cannot name it", abs, d.top).
				WithHint("make the workspace in the repository of the agent: tally init %s", filepath.Join(filepath.Dir(abs), "evals"))
		}
	}
}

// python is an agent in Python: a file, a module of a package, or a folder.
func (d *drafting) python(name string) (string, error) {
	file, err := d.entry(name, "__main__.py", "main.py", "agent.py", "app.py")
	if err != nil {
		return "", err
	}
	program := "python"
	if d.venv, err = d.findVenv(filepath.Dir(file)); err != nil {
		return "", err
	}
	if d.venv == "" {
		program = "python3"
	}
	top := filepath.Dir(file)
	for exists(filepath.Join(top, "__init__.py")) && top != d.top {
		top = filepath.Dir(top)
	}
	inside, err := filepath.Rel(top, file)
	if err != nil {
		return "", err
	}
	if inside = filepath.ToSlash(inside); strings.Contains(inside, "/") {
		// A module of a package is found by its dotted name, as its imports are.
		d.command = []string{program, "-m", strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(inside, ".py"), "/__main__"), "/", ".")}
		d.env = "PYTHONPATH: " + filesInside
		d.source, err = d.short(top)
		return stemOf(file, top), err
	}
	d.command = []string{program, path.Join(filesInside, inside)}
	if text, err := store.ReadFile(store.OS{}, file, maxSourceBytes); err == nil && bytes.Contains(text, []byte("tallystick")) && decorated().Match(text) {
		d.command = []string{program, "-m", "tallystick", path.Join(filesInside, inside)}
	}
	d.source, err = d.sourceOf(file, top, pythonImports(), func(module string) bool {
		return exists(filepath.Join(top, module+".py")) || exists(filepath.Join(top, module, "__init__.py"))
	})
	return stemOf(file, top), err
}

// entry is the file that starts an agent: the one that was named, or the first
// of these in the folder that was named.
func (d *drafting) entry(name string, usual ...string) (string, error) {
	abs, _, err := d.find(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err != nil || !info.IsDir() {
		return abs, err
	}
	for _, file := range usual {
		if exists(filepath.Join(abs, file)) {
			return filepath.Join(abs, file), nil
		}
	}
	return "", refusal.Newf(refusal.NotFound, "--agent: the folder %s has none of %s", abs, strings.Join(usual, ", ")).
		WithHint("name the file that starts the agent")
}

// decorated finds a function that the package tallystick makes the agent.
var decorated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^@(tallystick\.)?agent\s*$`) })

// Each finds the modules that a file imports by name, and "." for those beside
// it.
var (
	pythonImports = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*(?:from|import)[ \t]+(\.?)(\w*)`)
	})
	nodeImports = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:from|import|require)[ \t(]*["'](\.)([^"']*)["']`)
	})
)

// sourceOf is the file alone if it imports nothing that lies beside it, else its
// folder.
func (d *drafting) sourceOf(file, top string, imports *regexp.Regexp, beside func(string) bool) (string, error) {
	text, err := store.ReadFile(store.OS{}, file, maxSourceBytes)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "--agent: %w", err)
	}
	for _, m := range imports.FindAllSubmatch(text, -1) {
		if len(m[1]) > 0 || beside(string(m[2])) {
			return d.folder(top)
		}
	}
	return d.short(file)
}

// folder is the name of a folder, "." for that of the workspace itself.
func (d *drafting) folder(top string) (string, error) {
	short, err := d.short(top)
	if err == nil && top == d.top {
		d.note("source is the whole repository, since the agent imports what lies beside it: every change in it changes the target's digest. A folder of its own would be better")
	}
	return short, err
}

// stemOf names a target after the file, or after its folder where files of that
// name are common.
func stemOf(file, top string) string {
	stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if slices.Contains([]string{"__main__", "main", "index", "app"}, stem) {
		if stem = filepath.Base(filepath.Dir(file)); stem == "src" {
			stem = filepath.Base(filepath.Dir(top))
		}
	}
	return nameOf(stem)
}

func nameOf(text string) string {
	name := bench.Spell(text)
	if name == "" {
		return "agent"
	}
	return name
}

// program is any command. The first word that names a file of the repository is
// its source.
func (d *drafting) program(line string) (string, error) {
	words := strings.Fields(line)
	name := ""
	for i, word := range words {
		abs := filepath.Join(d.Here, filepath.FromSlash(word))
		info, err := os.Stat(abs)
		if err != nil || filepath.IsAbs(word) || d.source != "" || strings.HasPrefix(word, "-") {
			continue
		}
		if d.source, err = d.short(abs); err != nil {
			return "", err
		}
		name, words[i] = stemOf(abs, filepath.Dir(abs)), path.Join(filesInside, filepath.Base(abs))
		if info.IsDir() {
			name, words[i] = nameOf(filepath.Base(abs)), filesInside
		}
	}
	if d.command = words; name == "" {
		name = nameOf(strings.TrimSuffix(filepath.Base(words[0]), filepath.Ext(words[0])))
		d.note("no word of the command names a file here: the sandbox has the programs of /usr, and nothing of yours")
	}
	return name, nil
}
