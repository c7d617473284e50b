package mine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
)

// An instance is a task of SWE-bench and of the data sets that took its form.
type instance struct {
	ID         string    `json:"instance_id"`
	Repo       string    `json:"repo"` // owner/name
	Base       string    `json:"base_commit"`
	Patch      string    `json:"patch"`
	TestPatch  string    `json:"test_patch"`
	Problem    string    `json:"problem_statement"`
	FailToPass testNames `json:"FAIL_TO_PASS"`
	PassToPass testNames `json:"PASS_TO_PASS"`
	Version    string    `json:"version"`
	Image      string    `json:"image"`
	ImageName  string    `json:"image_name"`
}

// testNames are a list, or the JSON text of one, as the data set's tables have it.
type testNames []string

// UnmarshalJSON reads either.
func (n *testNames) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		b = []byte(text)
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("expected a list of names: %w", err)
	}
	*n = list
	return nil
}

const (
	maxInstances     = 64 << 20
	usualTestSeconds = 1800
)

var (
	commitID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}$`) })
	repoName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`) })
)

// readInstances reads a file of instances: JSON lines, or one list.
func readInstances(ctx context.Context, c *dossier.Corpus, o *ImportOptions) (tasks []*foreign, leftOut []string, err error) {
	data, err := dossier.ReadInput(o.Path, maxInstances)
	if err != nil {
		return nil, nil, err
	}
	var all []instance
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		err = json.Unmarshal(data, &all)
	} else {
		for n, line := range bytes.Split(data, []byte("\n")) {
			var one instance
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			if err = json.Unmarshal(line, &one); err != nil {
				err = fmt.Errorf("line %d: %w", n+1, err)
				break
			}
			all = append(all, one)
		}
	}
	if err != nil {
		return nil, nil, refusal.Newf(refusal.Malformed, "%s: %w", o.Path, err).WithHint("expected instances as SWE-bench has them: JSON lines, or a list")
	}
	if o.Repos == "" {
		return nil, nil, refusal.Newf(refusal.Usage, "expected --repos, the folder with clones of the repositories: nothing is downloaded")
	}
	repos := map[string]*repository{}
	for _, i := range all {
		t, why, err := i.task(ctx, c, o, repos)
		if err != nil {
			return nil, nil, fmt.Errorf("instance %.100s: %w", i.ID, err)
		}
		if why != "" {
			leftOut = append(leftOut, i.ID+": "+why)
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, leftOut, nil
}

// cloneOf finds the clone of a repository: owner__name, owner/name or name.
func cloneOf(repos, name string) string {
	owner, base, _ := strings.Cut(name, "/")
	for _, dir := range []string{owner + "__" + base, filepath.Join(owner, base), base} {
		at := filepath.Join(repos, dir)
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			return at
		}
	}
	return ""
}

func (i *instance) task(ctx context.Context, c *dossier.Corpus, o *ImportOptions, repos map[string]*repository) (*foreign, string, error) {
	id, err := caseName(i.ID)
	switch {
	case err != nil:
		return nil, "its name cannot be a case's: " + err.Error(), nil
	case !repoName().MatchString(i.Repo) || strings.Contains(i.Repo, ".."):
		return nil, fmt.Sprintf("the repository %.100q: expected owner/name", i.Repo), nil
	case !commitID().MatchString(i.Base):
		return nil, fmt.Sprintf("base_commit is %.80q, expected 40 hex digits", i.Base), nil
	case strings.TrimSpace(i.Problem) == "" || i.Patch == "" || i.TestPatch == "":
		return nil, "it lacks problem_statement, patch or test_patch", nil
	case len(i.FailToPass) == 0:
		return nil, "FAIL_TO_PASS is empty: nothing would show that it is solved", nil
	}
	if repos[i.Repo] == nil {
		dir := cloneOf(o.Repos, i.Repo)
		if dir == "" {
			return nil, fmt.Sprintf("no clone of %s in %s", i.Repo, o.Repos), nil
		}
		repos[i.Repo] = openRepository(dir, c.Getenv("PATH"))
	}
	base, left, why, err := repos[i.Repo].files(ctx, i.Base)
	if err != nil || why != "" {
		return nil, why, err
	}
	solved, _, err := applied(ctx, c, base, i.Patch)
	if err != nil {
		return nil, "its patch: " + err.Error(), nil
	}
	_, tests, err := applied(ctx, c, base, i.TestPatch)
	if err != nil {
		return nil, "its test_patch: " + err.Error(), nil
	}
	t := &foreign{id: id, title: i.ID, issue: i.Problem, ref: i.ID, files: base, solved: solved, inTree: true,
		tests: append(tests, scenario.RunnerOf(string(Python)).File), tags: []string{"repo-issue", "swe-bench", "python"},
		solution: []digest.File{{Path: "fix.diff", Data: []byte(i.Patch)}},
		apply:    "git apply --whitespace=nowarn \"$S/fix.diff\" && echo \"made the author's change\"\n",
		metadata: map[string]any{"instance_id": i.ID, "repo": i.Repo, "base_commit": i.Base, "fail_to_pass": []string(i.FailToPass)},
	}
	if len(left) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d links and submodules of its tree are left out", len(left)))
	}
	if i.Image+i.ImageName != "" && len(o.Images) == 0 {
		t.notes = append(t.notes, fmt.Sprintf("it names the image %s, which --image did not give; its test ran on this machine's own programs", strings.TrimSpace(i.Image+" "+i.ImageName)))
	}
	files := namedFiles(slices.Concat(i.FailToPass, i.PassToPass))
	if len(files) == 0 {
		return nil, "its tests are not named as pytest names them (file.py::test)", nil
	}
	t.test = scenario.Test{Command: append([]string{"python3", "-I", "/tests/" + scenario.RunnerOf(string(Python)).File.Path, "pytest"}, files...),
		TimeoutSeconds: max(o.Seconds, usualTestSeconds), Overlay: true}
	for _, n := range slices.Concat(i.FailToPass, i.PassToPass) {
		t.test.MustPass = append(t.test.MustPass, "python "+n)
	}
	slices.Sort(t.test.MustPass)
	t.test.MustPass = slices.Compact(t.test.MustPass)
	wanted := []string{}
	for _, n := range i.FailToPass {
		wanted = append(wanted, "python "+n)
	}
	t.before = func(r *harness.TestResult) string {
		if len(failing(r, wanted)) != len(wanted) {
			return "some of FAIL_TO_PASS pass without the patch"
		}
		return ""
	}
	t.after = func(r *harness.TestResult) string {
		if bad := failing(r, t.test.MustPass); len(bad) > 0 {
			return fmt.Sprintf("with its patch %d of %d tests do not pass, such as %.120s: %s", len(bad), len(t.test.MustPass), bad[0], tail(r.Log))
		}
		return ""
	}
	return t, "", nil
}

// namedFiles are the files of tests that pytest names.
func namedFiles(names []string) []string {
	var files []string
	for _, n := range names {
		file, _, ok := strings.Cut(n, "::")
		if !ok || !strings.HasSuffix(file, ".py") || strings.HasPrefix(file, "-") {
			return nil
		}
		files = append(files, file)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// applied applies a patch to files, in a folder of its own that is no repository, so that
// nothing of the repository's settings has a say. It gives all files, and those that the
// patch changed or added.
func applied(ctx context.Context, c *dossier.Corpus, files []digest.File, patch string) (all, changed []digest.File, err error) {
	dir, remove, err := store.TempDir("tally-apply-")
	if err != nil {
		return nil, nil, err
	}
	defer remove()
	top := filepath.Join(dir, "tree")
	if err := store.PlantTree(top, files); err != nil {
		return nil, nil, err
	}
	git := dossier.Repository{Dir: top, Path: c.Getenv("PATH")}
	if _, err := git.Run(ctx, []byte(patch), "apply", "--whitespace=nowarn", "-"); err != nil {
		return nil, nil, fmt.Errorf("it does not apply to base_commit: %w", err)
	}
	was := map[string]digest.File{}
	for _, f := range files {
		was[f.Path] = f
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	err = filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("it makes %s, which is not a file", rel)
		}
		b, err := root.ReadFile(rel)
		if err != nil {
			return err
		}
		now := digest.File{Path: filepath.ToSlash(rel), Data: b, Executable: info.Mode()&0o111 != 0}
		all = append(all, now)
		if old, ok := was[now.Path]; !ok || !bytes.Equal(old.Data, b) {
			changed = append(changed, now)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b digest.File) int { return strings.Compare(a.Path, b.Path) })
	return all, changed, err
}
