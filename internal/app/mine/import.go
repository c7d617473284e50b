package mine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
)

// ImportOptions say which coding tasks of other people become a class.
type ImportOptions struct {
	Suite   string   // swe-bench, harbor or terminal-bench
	Path    string   // a file of instances; the folder of a task, or of tasks
	Repos   string   // swe-bench: the folder with clones of the repositories
	Images  []string // DIGEST for every task, or TASK=DIGEST
	Class   string
	Sandbox sandbox.Class
	Seconds int // that a test may take where the task does not say

	Scratch             bool
	AddedBy, ReviewedBy string

	Note func(format string, args ...any) // what a person should know while it runs; may be nil
}

// Imported is what became of the tasks.
type Imported struct {
	Class   string      `json:"class"`
	Trust   bench.Trust `json:"trust"`
	Suite   string      `json:"suite"`
	Sandbox string      `json:"sandbox"`
	Tasks   int         `json:"tasks"`
	Images  []string    `json:"images"`
	Notes   []string    `json:"notes"`
	LeftOut []string    `json:"left_out"`
}

// CodingSuites are the shapes that are known.
var CodingSuites = []string{sweBench, harbor, terminalBench}

const (
	sweBench      = "swe-bench"
	harbor        = "harbor"
	terminalBench = "terminal-bench"
)

// A foreign task is one that other people wrote, on its way into a case.
type foreign struct {
	id, title, issue string
	ref              string        // what the case is made of
	files            []digest.File // what the agent gets
	inTree           bool          // they are many, and lie in the class's trees
	test             scenario.Test
	tests            []digest.File
	solution         []digest.File // of the task's author: expected/, and the reference agent's
	apply            string        // what the reference agent runs, with its solution in $S
	tags             []string
	metadata         map[string]any
	agentSeconds     int
	memory           int64
	notes            []string

	before, after func(*harness.TestResult) string // say what is wrong with a run of the test; nil for nothing to see
	solved        []digest.File                    // the files with the solution, where it is known without running it
}

// ImportTasks makes a class of coding tasks of other people, each checked: its test runs
// in the image on the task as the agent gets it, and, where the solution is a change, with
// that. A task whose test does not tell them apart is left out.
func ImportTasks(ctx context.Context, c *dossier.Corpus, o ImportOptions) (*Imported, error) {
	read := map[string]func(context.Context, *dossier.Corpus, *ImportOptions) ([]*foreign, []string, error){
		sweBench: readInstances, harbor: readTasks, terminalBench: readTasks}[o.Suite]
	if read == nil {
		return nil, refusal.UnknownValue("suite", o.Suite, CodingSuites...)
	}
	o.Class = cmp.Or(o.Class, o.Suite)
	if err := bench.CheckID(o.Class); err != nil {
		return nil, refusal.Newf(refusal.Usage, "class: %w", err)
	}
	out := &Imported{Class: o.Class, Trust: bench.Signed, Suite: o.Suite, Images: []string{}, Notes: []string{}, LeftOut: []string{}}
	if o.Scratch {
		out.Trust = bench.Scratch
	}
	class, err := chooseSandbox(ctx, o.Sandbox)
	if err != nil {
		return nil, err
	}
	out.Sandbox = string(class)
	images, err := parseImages(o.Images)
	if err != nil {
		return nil, err
	}
	tasks, leftOut, err := read(ctx, c, &o)
	if err != nil {
		return nil, err
	}
	out.LeftOut = append(out.LeftOut, leftOut...)
	k := &importer{c: c, o: &o, class: class, shown: map[string]*agent.Shown{}}
	var kept []*foreign
	for _, t := range tasks {
		t.test.Image = cmp.Or(images[t.id], images[""])
		why, err := k.check(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.id, err)
		}
		if why != "" {
			out.LeftOut = append(out.LeftOut, t.id+": "+why)
			continue
		}
		for _, n := range t.notes {
			out.Notes = append(out.Notes, t.id+": "+n)
		}
		if image := t.test.Image; image != "" && !slices.Contains(out.Images, image) {
			out.Images = append(out.Images, image)
		}
		kept = append(kept, t)
	}
	if len(kept) == 0 {
		return out, refusal.Newf(refusal.NotFound, "%s: none of %d tasks can be a case", o.Path, len(tasks)+len(leftOut)).WithHint("%s", strings.Join(out.LeftOut[:min(3, len(out.LeftOut))], "; "))
	}
	out.Tasks = len(kept)
	files, err := out.files(c, &o, kept)
	if err != nil {
		return nil, err
	}
	if err := ceremony.WriteClass(c, o.Class, out.Trust, files); err != nil {
		return nil, err
	}
	return out, out.writeReference(c, kept)
}

// parseImages reads which image is for which task; "" is every other one.
func parseImages(given []string) (map[string]string, error) {
	images := map[string]string{}
	for _, text := range given {
		task, image, ok := strings.Cut(text, "=")
		if !ok {
			task, image = "", text
		}
		if _, err := digest.ParseContent(image); err != nil {
			return nil, refusal.Newf(refusal.Usage, "--image %.200q: expected the digest of an image here, or TASK=DIGEST", text).
				WithHint(`"tally sandbox image pull" and "tally sandbox image build" print it`)
		}
		if images[task] != "" {
			return nil, refusal.Newf(refusal.Usage, "--image names two images for %s", cmp.Or(task, "every task"))
		}
		images[task] = image
	}
	return images, nil
}

// An importer checks tasks.
type importer struct {
	c     *dossier.Corpus
	o     *ImportOptions
	class sandbox.Class
	shown map[string]*agent.Shown
}

// check runs a task's test, and says why the task cannot be a case; "" if it can.
func (k *importer) check(ctx context.Context, t *foreign) (string, error) {
	if k.o.Suite != sweBench {
		if t.test.Image == "" {
			return "", refusal.Newf(refusal.Usage, "expected an image: its tests look for /app and /logs").WithHint("--image DIGEST, or --image %s=DIGEST; docs/images.md says how an image is made", t.id)
		}
		image, err := withLinks(ctx, t.test.Image, k.class)
		if err != nil {
			return "", err
		}
		t.test.Image = image
	}
	shown := k.shown[t.test.Image]
	if shown == nil {
		var err error
		mounts := []sandbox.Mount{}
		for _, m := range k.c.Settings.TestMounts {
			mounts = append(mounts, sandbox.Mount{Host: m.Host, Inside: m.Inside})
		}
		if shown, err = agent.ShowTests(cmp.Or(t.test.Image, k.c.Settings.TestImage), mounts); err != nil {
			return "", err
		}
		k.shown[t.test.Image] = shown
	}
	for _, way := range []struct {
		files []digest.File
		judge func(*harness.TestResult) string
	}{{t.files, t.before}, {t.solved, t.after}} {
		if way.judge == nil {
			continue
		}
		task := &scenario.Task{ID: t.id, Files: way.files, Tests: t.tests, Scenario: scenario.Scenario{Version: 1, Test: &t.test}}
		var r *harness.TestResult
		err := shown.While(func() (err error) {
			m := harness.TestMeans{Accept: []sandbox.Class{k.class}, Hidden: []string{k.c.Dir}, Shown: shown}
			for _, mount := range k.c.Settings.TestMounts {
				m.Mounts = append(m.Mounts, sandbox.Mount{Host: mount.Host, Inside: mount.Inside})
			}
			r, err = harness.RunTest(ctx, task, store.PictureOf(way.files), "", m)
			return err
		})
		if err != nil {
			return "", err
		}
		if why := way.judge(r); why != "" {
			return why, nil
		}
	}
	return "", nil
}

// files are those of the class.
func (out *Imported) files(c *dossier.Corpus, o *ImportOptions, tasks []*foreign) (map[string][]byte, error) {
	var added, reviewed *bench.Person
	if out.Trust == bench.Signed {
		var err error
		if added, reviewed, err = bench.People(o.AddedBy, o.ReviewedBy, c.Options); err != nil {
			return nil, err
		}
	}
	seconds, memory := 3600, int64(4<<30)
	for _, t := range tasks {
		seconds, memory = max(seconds, t.agentSeconds), max(memory, t.memory)
	}
	files := bench.CodingClass(out.Class, title(fmt.Sprintf("%s tasks: %s", out.Suite, filepath.Base(o.Path))), out.Trust, out.Sandbox, min(seconds, 86400), memory)
	trees := &treePack{}
	for _, t := range tasks {
		about := bench.NewCase(t.id, title(t.title), added, reviewed, c.Now())
		about.RefType, about.Ref, about.Expected = "synthetic", t.ref, ""
		about.Tags = t.tags
		if err := about.Check(); err != nil {
			return nil, err
		}
		metadata, err := canon.Marshal(t.metadata)
		if err != nil {
			return nil, err
		}
		dir := "cases/" + t.id + "/"
		files[dir+bench.CaseFile] = fmt.Appendf(about.YAML(), "metadata: %s\n", metadata)
		if files[dir+bench.ScenarioFile], err = t.scenario(trees); err != nil {
			return nil, err
		}
		if !t.inTree {
			for _, f := range t.files {
				files[dir+"input/"+f.Path] = f.Data
			}
		}
		for _, f := range t.tests {
			files[dir+"tests/"+f.Path] = f.Data
		}
		for _, f := range t.solution {
			files[dir+"expected/"+f.Path] = f.Data
		}
	}
	if len(trees.lists) > 0 {
		packed, err := trees.pack()
		if err != nil {
			return nil, err
		}
		files[bench.TreesFile] = packed
	}
	return files, nil
}

func (t *foreign) scenario(trees *treePack) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nturns:\n  - text: %s\n", strictyaml.Quote(t.issue))
	if t.inTree {
		tree, err := trees.add(t.files)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "tree: %s\n", strictyaml.Quote(tree.String()))
	}
	b.WriteString("tools:\n")
	for _, tool := range folderTools {
		fmt.Fprintf(&b, "  - {name: %s, description: %s, source: folder}\n", tool[0], tool[1])
	}
	fmt.Fprintf(&b, "test:\n  command: [%s]\n  timeout_seconds: %d\n", quoted(t.test.Command, ", "), t.test.TimeoutSeconds)
	if t.test.Overlay {
		b.WriteString("  overlay: true\n")
	}
	if t.test.Output != "" {
		fmt.Fprintf(&b, "  output: %s\n", strictyaml.Quote(t.test.Output))
	}
	if t.test.Image != "" {
		fmt.Fprintf(&b, "  image: %s\n", strictyaml.Quote(t.test.Image))
	}
	if len(t.test.MustPass) > 0 {
		fmt.Fprintf(&b, "  must_pass:\n    - %s\n", quoted(t.test.MustPass, "\n    - "))
	}
	return []byte(b.String()), nil
}

// writeReference writes the agent that does what the tasks' authors did.
func (out *Imported) writeReference(c *dossier.Corpus, tasks []*foreign) error {
	name := out.Class + "-reference"
	target := fmt.Sprintf("# Does what the author of a task did, which it finds by the words of the task. It shows\n# that the tasks can be solved, and nothing about any model.\nversion: 1\nkind: command\ncommand:\n  command: [sh, /agent/solve.sh]\n  files: %s\n", strictyaml.Quote(name))
	if len(out.Images) == 1 {
		target += fmt.Sprintf("  image: %s\n", strictyaml.Quote(out.Images[0]))
	}
	files := map[string][]byte{name + ".yaml": []byte(target)}
	script := "# Finds the author's solution by the SHA-256 of what the user says.\nkey=$(sha256sum | cut -c1-64)\nS=\"/agent/solutions/$key\"\nif [ ! -d \"$S\" ]; then echo \"no solution for this task\"; exit 0; fi\ncd /work && . \"$S/apply\"\n"
	files[name+"/solve.sh"] = []byte(script)
	for _, t := range tasks {
		dir := fmt.Sprintf("%s/solutions/%x/", name, sha256.Sum256([]byte(t.issue)))
		files[dir+"apply"] = []byte(t.apply)
		for _, f := range t.solution {
			files[dir+f.Path] = f.Data
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		at := c.Path("targets", filepath.FromSlash(file))
		if err := store.MakeDir(store.OS{}, filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := store.WriteFile(store.OS{}, at, files[file], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// caseName makes a case's name of a task's.
func caseName(task string) (string, error) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, task)
	name = strings.Trim(strings.ReplaceAll(name, ".", "-"), "-")
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	return name, bench.CheckID(name)
}

// failing lists the tests of names that a run does not report as passed.
func failing(r *harness.TestResult, names []string) []string {
	var out []string
	for _, n := range names {
		if r.Reports[n] != harness.TestPassed {
			out = append(out, n)
		}
	}
	return out
}

func tail(log []byte) string {
	log = bytes.TrimSpace(log)
	return string(log[max(0, len(log)-300):])
}
