package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
)

// TryOptions say which program is tried on which cases.
type TryOptions struct {
	Spec    harness.Spec // without a class or a target, which are made of the others
	Command []string
	File    string   // YAML with cases; "" for none
	Cases   []string // INPUT=EXPECTED
	Mounts  []string // further folders that the program may read
}

// tryFile is the small YAML of a try.
type tryFile struct {
	Cases []tryEntry `json:"cases"`
}

type tryEntry struct {
	ID       string            `json:"id,omitempty"`
	Input    string            `json:"input"`
	Expect   string            `json:"expect,omitempty"`
	Contains string            `json:"contains,omitempty"`
	Matches  string            `json:"matches,omitempty"`
	Grade    canon.RawMessage  `json:"grade,omitempty"`
	Model    canon.RawMessage  `json:"model,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
}

// A Tried is what came of one case of a try, in a few words.
type Tried struct {
	Case     string  `json:"case"`
	Input    string  `json:"input"`
	Outcome  string  `json:"outcome"`
	Answer   string  `json:"answer"`
	Expected string  `json:"expected,omitempty"`
	Why      string  `json:"why,omitempty"`
	Seconds  float64 `json:"seconds"`
	Agent    string  `json:"agent_isolation"`
}

// Try runs a program on a few cases in a scratch bench that is gone afterwards.
// Nothing is signed or recorded, and no workspace is needed.
func Try(ctx context.Context, world dossier.World, o TryOptions, visit func(Tried) error) error {
	lines, err := o.lines()
	if err != nil {
		return err
	}
	target, view, err := o.target(world)
	if err != nil {
		return err
	}
	dir, remove, err := store.TempDir("tally-try-")
	if err != nil {
		return err
	}
	defer remove()
	if err := ceremony.WriteFiles(filepath.Join(dir, bench.Dir, "try"), bench.Passing("try", lines)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the temporary folder: %w", err)
	}
	defer root.Close()
	v, err := bench.Verify(root, "try", bench.Options{Now: world.Now()})
	if err != nil {
		return err
	}
	cfg := harness.Config{Spec: o.Spec, Bench: v, Target: target, Image: RubricImage, Hidden: view.hidden, Steps: StepsOfSpans, Now: world.Now}
	return harness.Rehearse(ctx, cfg, func(g *harness.Graded) error { return visit(triedOf(g)) })
}

// lines makes a dataset of what the options or the file say.
func (o *TryOptions) lines() ([]byte, error) {
	var f tryFile
	if o.File != "" {
		data, err := store.ReadFile(store.OS{}, o.File, 4<<20)
		if err != nil {
			return nil, err
		}
		if _, err := strictyaml.Decode(o.File, data, strictyaml.Rules{PlainDigits: true, Hint: `"tally help try" shows an example`}, &f); err != nil {
			return nil, err
		}
	}
	for _, c := range o.Cases {
		input, expect, ok := strings.Cut(c, "=")
		if !ok || input == "" || expect == "" {
			return nil, refusal.Newf(refusal.Usage, "--case %q: expected INPUT=EXPECTED", c)
		}
		f.Cases = append(f.Cases, tryEntry{Input: input, Expect: expect})
	}
	if len(f.Cases) == 0 {
		return nil, refusal.Newf(refusal.Usage, "there are no cases").
			WithHint(`give some: tally try --case 'ping=ping' -- cat, or -f FILE`)
	}
	var out []byte
	for i, c := range f.Cases {
		line, err := c.line(i)
		if err != nil {
			return nil, fmt.Errorf("case %d: %w", i+1, err)
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// line writes a case as a line of a dataset.
func (c *tryEntry) line(i int) ([]byte, error) {
	id := c.ID
	if id == "" {
		id = fmt.Sprintf("case-%d", i+1)
	}
	doc := map[string]any{"id": id, "input": c.Input}
	given := 0
	for _, g := range []struct {
		value string
		grade map[string]any
	}{
		{c.Expect, map[string]any{"kind": grade.Normalised, "expected": c.Expect}},
		{c.Contains, map[string]any{"kind": grade.Contains, "expected": []string{c.Contains}, "normalised": true}},
		{c.Matches, map[string]any{"kind": grade.Regex, "pattern": c.Matches, "match": "anywhere"}},
	} {
		if g.value != "" {
			doc["grade"] = g.grade
			given++
		}
	}
	if len(c.Grade) > 0 {
		doc["grade"] = c.Grade
		given++
	}
	if given != 1 {
		return nil, refusal.Newf(refusal.Malformed, "expected exactly one of expect, contains, matches and grade")
	}
	if len(c.Model) > 0 {
		doc["model"] = c.Model
	}
	if len(c.Files) > 0 {
		doc["files"] = c.Files
	}
	return canon.Marshal(doc)
}

// target makes a target of the command line. The program may read the current
// folder, where its files usually are, or the part of it that has no secrets,
// and what it is started from.
func (o *TryOptions) target(world dossier.World) (*agent.Target, *tryView, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, refusal.Newf(refusal.Unreadable, "finding the current folder: %w", err)
	}
	command := append([]string{}, o.Command...)
	var named []string
	for i, arg := range command {
		if path := filepath.Join(here, arg); !filepath.IsAbs(arg) && workspace.Exists(path) && (i > 0 || strings.Contains(arg, "/")) {
			command[i] = path
		}
		if filepath.IsAbs(command[i]) && holds(here, filepath.Clean(command[i])) {
			named = append(named, command[i])
		}
	}
	view := newTryView(here, world.Getenv)
	c := agent.Command{}
	if !o.Spec.Unsafe() {
		c.Mounts = view.mounts(here, named, world.Note)
	}
	for _, m := range o.Mounts {
		abs, err := filepath.Abs(m)
		if err != nil {
			return nil, nil, refusal.Newf(refusal.Usage, "--mount %s: %w", m, err)
		}
		c.Mounts = append(c.Mounts, agent.CommandMount{Host: abs})
	}
	command[0] = o.program(world.Note, command[0], c.Mounts)
	c.Command = command
	target, err := agent.OfCommand("try", c)
	return target, view, err
}

// program finds the program as a shell would. One that the sandbox does not
// show, such as the shim of a version manager in a home folder, is left to the
// sandbox's own search path if /usr has one of that name.
func (o *TryOptions) program(note func(format string, args ...any), name string, mounts []agent.CommandMount) string {
	found, err := exec.LookPath(name)
	if err != nil {
		return name
	}
	if found, err = filepath.Abs(found); err != nil {
		return name
	}
	shown := []string{"/usr", "/bin", "/sbin"}
	for _, m := range mounts {
		shown = append(shown, m.Host)
	}
	if o.Spec.Unsafe() || strings.Contains(name, "/") || slices.ContainsFunc(shown, func(dir string) bool { return strings.HasPrefix(found, dir+"/") }) {
		return found
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin"} {
		if inside := filepath.Join(dir, name); workspace.Exists(inside) {
			note("the program is %s: the sandbox does not show %s", inside, found)
			return inside
		}
	}
	return found
}

func triedOf(g *harness.Graded) Tried {
	c := Tried{Case: g.Case.ID, Input: g.Case.Scenario.Turns[0].Text, Outcome: string(g.Record.Outcome), Answer: g.Answer, Why: g.Record.Reason,
		Seconds: g.Record.FinishedAt.Go().Sub(g.Record.StartedAt.Go()).Seconds(), Agent: g.Record.AgentIsolation}
	if g.Files.Grading != nil {
		c.Why, c.Expected = whyOf(&g.Record, g.Piece(*g.Files.Grading))
	}
	return c
}
