package ceremony

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/provider"
)

// ScaffoldOptions say for which agent a workspace is made.
type ScaffoldOptions struct {
	InitOptions
	Agent string // as [agent.DraftOptions] has it
	Name  string // of the target; "" for that of the file or folder
	Class string // of the cases; "" for the target's name
	Here  string // folder that the agent is named from
}

// A Scaffolded is a workspace, new or not, with a target and a first class.
type Scaffolded struct {
	*dossier.Place
	Target, Class string
	Made          bool     // the workspace was made now
	Wrote, Kept   []string // files; kept are those that were there
	Notes         []string
	Models        bool // the agent may call models, which a person has to record
}

// scaffoldPlan is what will be written, by path.
type scaffoldPlan struct {
	draft *agent.Draft
	class string
	files []plannedFile
}

type plannedFile struct {
	name string
	data []byte
}

// Scaffold makes a workspace for an agent that is already there: a target, and a
// class of five cases with a gate that wants them all. Files that are there are
// kept. What can be refused is refused before anything is written.
func Scaffold(ctx context.Context, o ScaffoldOptions, world dossier.World) (*Scaffolded, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "finding the folder: %w", err)
	}
	o.Dir = dir
	plan, err := o.plan(world)
	if err != nil {
		return nil, err
	}
	s := &Scaffolded{Target: plan.draft.Name, Class: plan.class, Notes: plan.draft.Notes, Models: plan.draft.Kind == agent.KindCommand}
	if workspace.Exists(filepath.Join(dir, workspace.SettingsFile)) {
		s.Place, err = dossier.Open(dir, world)
	} else {
		o.InitOptions.bare, s.Made = true, true
		s.Place, err = Init(ctx, o.InitOptions, world)
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range plan.draft.Installed {
		if _, err := addLines(s.Path(".gitignore"), "/"+dir+"/"); err != nil {
			return nil, err
		}
	}
	return s, s.write(plan.files)
}

// plan finds out what is to be written.
func (o *ScaffoldOptions) plan(world dossier.World) (*scaffoldPlan, error) {
	draft, err := agent.NewDraft(agent.DraftOptions{Agent: o.Agent, Root: o.Dir, Here: o.Here, Getenv: world.Getenv})
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		draft.Name = o.Name
	}
	p := &scaffoldPlan{draft: draft, class: o.Class}
	if p.class == "" {
		p.class = draft.Name
	}
	for _, id := range []struct{ flag, id string }{{"--name", draft.Name}, {"--class", p.class}} {
		if err := bench.CheckID(id.id); err != nil {
			return nil, refusal.Newf(refusal.Usage, "%s: %w", id.flag, err)
		}
	}
	if err := checkBenchFolder(o.Dir, o.Agent); err != nil {
		return nil, err
	}
	p.files = []plannedFile{{path.Join(agent.TargetsDir, draft.Name+".yaml"), draft.YAML}}
	if !workspace.Exists(filepath.Join(o.Dir, bench.Dir, p.class)) {
		first := bench.FirstCases(p.class)
		for _, name := range slices.Sorted(maps.Keys(first)) {
			p.files = append(p.files, plannedFile{path.Join(bench.Dir, p.class, name), first[name]})
		}
	}
	if draft.Kind == agent.KindCommand {
		p.files = append(p.files, plannedFile{provider.SettingsFile, provider.Example()})
	}
	return p, nil
}

// checkBenchFolder refuses a folder whose bench/ is about something else: every
// command would stumble over it.
func checkBenchFolder(dir, spec string) error {
	if !workspace.Exists(filepath.Join(dir, bench.Dir)) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%w", err)
	}
	defer root.Close()
	if _, err := bench.Classes(root); err != nil {
		return refusal.Newf(refusal.AlreadyExists, "%s/%s is there and is not a bench: %w", dir, bench.Dir, err).
			WithHint("make the workspace in a folder of its own: tally init evals --agent %s", spec)
	}
	return nil
}

// write writes what is not there yet.
func (s *Scaffolded) write(files []plannedFile) error {
	for _, f := range files {
		name := s.Path(filepath.FromSlash(f.name))
		if _, err := os.Lstat(name); err == nil {
			s.Kept = append(s.Kept, f.name)
			continue
		}
		if err := store.MakeDir(store.OS{}, filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := store.CreateFile(store.OS{}, name, f.data, 0o644); err != nil {
			return err
		}
		s.Wrote = append(s.Wrote, f.name)
	}
	return nil
}

// maxAddedTo bounds a file that lines are added to.
const maxAddedTo = 16 << 20

// addLines makes sure that a file of a person has these lines, and reports whether
// it had to add one. What is there stays.
func addLines(name string, lines ...string) (added bool, err error) {
	data, err := store.ReadFile(store.OS{}, name, maxAddedTo)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, refusal.Newf(refusal.Unreadable, "%w", err)
	}
	had := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		had[strings.TrimSpace(line)] = true
	}
	var more bytes.Buffer
	for _, line := range lines {
		if !had[line] {
			fmt.Fprintln(&more, line)
		}
	}
	if more.Len() == 0 {
		return false, nil
	}
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	return true, store.WriteFile(store.OS{}, name, append(data, more.Bytes()...), 0o644)
}
