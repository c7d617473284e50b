package mine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
)

// ReportFile is where the report of a class lies in a workspace.
func ReportFile(class string) string { return filepath.Join("audit", "mined", class+".json") }

// write writes the class, the agents, the mounts of tests and the report.
func (r *Report) write(c *dossier.Corpus, o *Options, m *machine, kept []keptTask) error {
	files, err := r.classFiles(c, o, m, kept)
	if err != nil {
		return err
	}
	if err := addMounts(c, m.mounts); err != nil {
		return err
	}
	if err := ceremony.WriteClass(c, o.Class, r.Trust, files); err != nil {
		return err
	}
	if err := writeAgents(c, kept); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := c.Path(ReportFile(o.Class))
	if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, file, append(data, '\n'), 0o644)
}

// classFiles are the files of the class, by path.
func (r *Report) classFiles(c *dossier.Corpus, o *Options, m *machine, kept []keptTask) (map[string][]byte, error) {
	var added, reviewed *bench.Person
	if r.Trust == bench.Signed {
		var err error
		if added, reviewed, err = bench.People(o.AddedBy, o.ReviewedBy, c.Options); err != nil {
			return nil, err
		}
	}
	files := bench.MinedClass(r.Class, title("Real changes of "+r.names()+", from their history"), r.Trust, r.Sandbox)
	files["README.md"] = r.readme()
	trees := &treePack{}
	for _, t := range kept {
		before, err := trees.add(t.before)
		if err != nil {
			return nil, err
		}
		after, err := trees.add(t.after)
		if err != nil {
			return nil, err
		}
		about := bench.NewCase(t.caseID(), title(t.subject()), added, reviewed, c.Now())
		about.RefType, about.Ref, about.Expected = "commit", t.id, ""
		about.Difficulty, about.Tags = t.difficulty(), []string{scorecard.RepositoryIssue, string(t.language), "about-" + t.slug()}
		if err := about.Check(); err != nil {
			return nil, err
		}
		metadata, err := canon.Marshal(map[string]any{"parent": t.parent, "fail_to_pass": t.checked.FailToPass})
		if err != nil {
			return nil, err
		}
		scenario, err := t.scenario(before, after, m, o.Seconds)
		if err != nil {
			return nil, err
		}
		dir := "cases/" + t.caseID() + "/"
		files[dir+bench.CaseFile] = fmt.Appendf(about.YAML(), "# The tests that the recorded change makes pass; scenario.yaml has all that must.\nmetadata: %s\n", metadata)
		files[dir+bench.ScenarioFile] = scenario
		files[dir+"expected/fix.diff"] = t.patch
		for _, f := range t.tests {
			files[dir+"tests/"+f.Path] = f.Data
		}
	}
	packed, err := trees.pack()
	files[bench.TreesFile] = packed
	r.TreesBytes, r.TreeBytes = len(packed), trees.total
	return files, err
}

// title is a commit's subject as a case can have it.
func title(subject string) string {
	visible := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(subject, "?"))
	for len(visible) > 290 {
		visible = strings.ToValidUTF8(visible[:len(visible)-1], "")
	}
	return strings.TrimSpace(visible)
}

// difficulty goes by the size of the recorded change: no agent has tried yet.
func (t *task) difficulty() bench.Difficulty {
	lines := 0
	for line := range bytes.Lines(t.patch) {
		if line[0] == '+' || line[0] == '-' {
			lines++
		}
	}
	switch {
	case lines <= 20:
		return bench.Easy
	case lines <= 150:
		return bench.Medium
	}
	return bench.Hard
}

// slack is how much longer than in its check a test may take when it grades: the
// agent must not fail because the machine is busy.
const slack = 4

// scenario is scenario.yaml of a task.
func (t *keptTask) scenario(before, after digest.Content, m *machine, seconds int) ([]byte, error) {
	command, err := t.command(m)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nturns:\n  - text: %s\n", strictyaml.Quote(t.issue))
	fmt.Fprintf(&b, "# The parent's tree, in %s of the class.\ntree: %s\ntools:\n", bench.TreesFile, strictyaml.Quote(before.String()))
	for _, tool := range slices.Concat([][2]string{{"fs_list", "Lists the files of the repository."}}, folderTools[1:]) {
		fmt.Fprintf(&b, "  - {name: %s, description: %s, source: folder}\n", tool[0], tool[1])
	}
	fmt.Fprintf(&b, "test:\n  command: [%s]\n  timeout_seconds: %d\n  overlay: true\n", quoted(command, ", "), slack*seconds)
	if m.image != "" {
		fmt.Fprintf(&b, "  image: %s\n", strictyaml.Quote(m.image))
	}
	b.WriteString("  must_pass:\n")
	names := slices.Sorted(slices.Values(slices.Concat(t.checked.FailToPass, t.checked.PassToPass)))
	fmt.Fprintf(&b, "    - %s\n", quoted(names, "\n    - "))
	fmt.Fprintf(&b, "# What proves the commit: its object and that of its parent, as git hashes them, and its tree.\nrepository:\n  name: %s\n  commit: %s\n  parent: %s\n  after: %s\n",
		strictyaml.Quote(t.repo), strictyaml.Quote(t.object), strictyaml.Quote(t.parentObject), strictyaml.Quote(after.String()))
	for i, l := range t.leftOut {
		if i == 0 {
			b.WriteString("  left_out:\n")
		}
		fmt.Fprintf(&b, "    - {id: %s, mode: %s, path: %s}\n", strictyaml.Quote(l.ID), strictyaml.Quote(l.Mode), strictyaml.Quote(l.Path))
	}
	return []byte(b.String()), nil
}

func quoted(words []string, between string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strictyaml.Quote(w)
	}
	return strings.Join(out, between)
}

// names are those of the repositories.
func (r *Report) names() string {
	var out []string
	for _, from := range r.Repositories {
		out = append(out, from.Name)
	}
	return strings.Join(out, ", ")
}

func (r *Report) readme() []byte {
	var from strings.Builder
	for _, f := range r.Repositories {
		fmt.Fprintf(&from, "- %s up to %s: %d tasks\n", f.Name, f.Head, f.Kept)
	}
	return fmt.Appendf(nil, `# %s

Made by "tally bench mine": %d tasks, each checked in a %s sandbox (%s) to fail on the parent and to pass with the commit, twice each way.

%s
The issue is the commit's message, and the tests are those of the commit: a message may say too little, or how it was done, and tests may want names that only the commit has. The signer of a case has read it. If the repository is public, a model may have seen the commit.
`, r.Class, r.Kept, r.Sandbox, r.Toolchain, from.String())
}

// A treePack gathers the files of trees, each once.
type treePack struct {
	files map[string]map[digest.Content][]byte // by path, so that versions of a file stand together
	lists [][]byte
	total int64
}

func (p *treePack) add(files []digest.File) (digest.Content, error) {
	if p.files == nil {
		p.files = map[string]map[digest.Content][]byte{}
	}
	tree := bench.Tree{Version: 1, Files: []bench.TreeFile{}}
	for _, f := range files {
		d := digest.ContentOf(f.Data)
		if p.files[f.Path] == nil {
			p.files[f.Path] = map[digest.Content][]byte{}
		}
		p.files[f.Path][d] = f.Data
		p.total += int64(len(f.Data))
		tree.Files = append(tree.Files, bench.TreeFile{Path: f.Path, Digest: d, Executable: f.Executable})
	}
	data, err := tree.Marshal()
	p.lists = append(p.lists, data)
	return digest.ContentOf(data), err
}

func (p *treePack) pack() ([]byte, error) {
	all := slices.Clone(p.lists)
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		versions := p.files[name]
		for _, d := range slices.SortedFunc(maps.Keys(versions), func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) }) {
			all = append(all, versions[d])
		}
	}
	return bench.PackTrees(all)
}

// addMounts puts what tests need of this machine into tally.yaml. What it says
// already stays.
func addMounts(c *dossier.Corpus, mounts []workspace.TestMount) error {
	var lines strings.Builder
	for _, m := range mounts {
		if !slices.ContainsFunc(c.Settings.TestMounts, func(k workspace.TestMount) bool { return k.Inside == m.Inside }) {
			fmt.Fprintf(&lines, "  - {host: %s, inside: %s}\n", strictyaml.Quote(m.Host), strictyaml.Quote(m.Inside))
		}
	}
	if lines.Len() == 0 {
		return nil
	}
	if len(c.Settings.TestMounts) > 0 {
		return refusal.Newf(refusal.Usage, "%s has test_mounts without some that these tests need", workspace.SettingsFile).
			WithHint("add to test_mounts, then run the command again; nothing is checked twice:\n%s", lines.String())
	}
	file := c.Path(workspace.SettingsFile)
	data, err := store.ReadFile(store.OS{}, file, 1<<20)
	if err != nil {
		return err
	}
	text := fmt.Appendf(bytes.TrimRight(data, "\n"), "\n# Folders of this machine that the tests of coding cases find, read-only.\ntest_mounts:\n%s", lines.String())
	if err := store.WriteFile(store.OS{}, file, text, 0o644); err != nil {
		return err
	}
	if _, err := workspace.Load(c.Dir); err != nil {
		return errors.Join(fmt.Errorf("%w, after test_mounts was added; it is as it was", err), store.WriteFile(store.OS{}, file, data, 0o644))
	}
	return nil
}

// The agents that show what a class of this kind can tell apart.
const (
	referenceTarget = `# Makes the recorded change of a mined task, which it finds by the words of the
# task. It shows that the tasks can be solved, and nothing about any model.
version: 1
kind: command
command:
  command: [sh, /agent/apply.sh]
  files: reference
`
	referenceScript = `# Finds the recorded change by the SHA-256 of what the user says, and applies it.
key=$(sha256sum | cut -c1-64)
if [ ! -f "/agent/fixes/$key.diff" ]; then echo "no recorded change for this task"; exit 0; fi
git apply --whitespace=nowarn "/agent/fixes/$key.diff" && echo "made the recorded change"
`
	nothingTarget = `# Does nothing: what it solves needs no solving.
version: 1
kind: command
command:
  command: ["true"]
`
)

// writeAgents writes the two reference agents. The recorded changes of several
// classes lie together.
func writeAgents(c *dossier.Corpus, kept []keptTask) error {
	files := map[string][]byte{"reference.yaml": []byte(referenceTarget), "reference/apply.sh": []byte(referenceScript), "nothing.yaml": []byte(nothingTarget)}
	for _, t := range kept {
		files[fmt.Sprintf("reference/fixes/%x.diff", sha256.Sum256([]byte(t.issue)))] = t.patch
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := c.Path("targets", filepath.FromSlash(name))
		if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := store.WriteFile(store.OS{}, file, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
