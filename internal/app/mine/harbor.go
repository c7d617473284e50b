package mine

import (
	"bytes"
	"context"
	_ "embed" // what judges the tests of other people's tasks
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/recipe"
)

//go:embed verify.sh
var verifyScript []byte

// verifyFile is where the tests of a case have the program that runs and judges them.
const verifyFile = ".tally/verify.sh"

// The kinds of verdict that verify.sh reads.
const (
	byReward = "reward" // Harbor: a file with a number, or numbers
	byPytest = "pytest" // Terminal-Bench: the summary that pytest prints
)

// folderTools are what agents that have no programs of their own work with.
var folderTools = [][2]string{{"fs_list", "Lists the files of the working folder."}, {"fs_read", "Reads a file."}, {"fs_write", "Writes a file."},
	{"fs_replace", "Replaces a piece of a file that occurs once."}, {"fs_delete", "Deletes a file."}}

// Bounds on a task's folder.
const (
	maxTaskFiles = 5000
	maxTaskBytes = 64 << 20
)

// readTasks reads the folder of a task, or one with a folder for each.
func readTasks(_ context.Context, _ *dossier.Corpus, o *ImportOptions) (tasks []*foreign, leftOut []string, err error) {
	about := map[string]string{harbor: "task.toml", terminalBench: "task.yaml"}[o.Suite]
	dirs := []string{o.Path}
	if _, err := os.Stat(filepath.Join(o.Path, about)); err != nil {
		entries, err := os.ReadDir(o.Path)
		if err != nil {
			return nil, nil, refusal.Newf(refusal.Unreadable, "reading tasks: %w", err)
		}
		dirs = nil
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(o.Path, e.Name(), about)); err == nil && e.IsDir() {
				dirs = append(dirs, filepath.Join(o.Path, e.Name()))
			}
		}
	}
	if len(dirs) == 0 {
		return nil, nil, refusal.Newf(refusal.NotFound, "%s: no %s in it, nor in a folder of it", o.Path, about)
	}
	for _, dir := range dirs {
		t, why, err := readTask(dir, o)
		if err != nil {
			return nil, nil, fmt.Errorf("task %s: %w", filepath.Base(dir), err)
		}
		if why != "" {
			leftOut = append(leftOut, filepath.Base(dir)+": "+why)
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, leftOut, nil
}

func readTask(dir string, o *ImportOptions) (*foreign, string, error) {
	id, err := caseName(filepath.Base(dir))
	if err != nil {
		return nil, "its name cannot be a case's: " + err.Error(), nil
	}
	all, err := taskFiles(dir)
	if err != nil {
		return nil, "", err
	}
	t := &foreign{id: id, title: filepath.Base(dir), ref: filepath.Base(dir), tags: []string{o.Suite}}
	verdict := byReward
	if o.Suite == harbor {
		err = t.readHarbor(all)
	} else {
		verdict, err = byPytest, t.readTerminalBench(all)
	}
	if err != nil {
		return nil, err.Error(), nil
	}
	if strings.TrimSpace(t.issue) == "" {
		return nil, "it has no instruction", nil
	}
	if t.test.TimeoutSeconds == 0 {
		t.test.TimeoutSeconds = max(o.Seconds, defaultSeconds)
	}
	t.test.Command = []string{"sh", "/tests/" + verifyFile, verdict}
	t.test.Output = `(?m)^tally: passed$`
	t.tests = append(t.tests, digest.File{Path: verifyFile, Data: verifyScript})
	t.before = func(r *harness.TestResult) string {
		if r.Passed {
			return "its tests pass on the task as the agent gets it"
		}
		if bytes.Contains(r.Log, []byte("tally: no verdict")) {
			t.notes = append(t.notes, "its tests gave no verdict on the task as the agent gets it: "+strings.ReplaceAll(tail(r.Log), "\n", " "))
		}
		return ""
	}
	t.metadata = map[string]any{"task": filepath.Base(dir), "suite": o.Suite}
	return t, "", nil
}

// taskFiles reads a task's folder: files alone, no links.
func taskFiles(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading a task: %w", err)
	}
	defer root.Close()
	files, size := map[string][]byte{}, int64(0)
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: neither a file nor a folder", p)
		}
		if size += info.Size(); len(files) == maxTaskFiles || size > maxTaskBytes {
			return fmt.Errorf("over %d files or %d bytes", maxTaskFiles, maxTaskBytes)
		}
		files[p], err = root.ReadFile(p)
		return err
	})
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", dir, err)
	}
	return files, nil
}

// below gives the files in a folder, by their paths in it, in order.
func below(all map[string][]byte, dir string) []digest.File {
	var out []digest.File
	for name, data := range all {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			out = append(out, digest.File{Path: rest, Data: data})
		}
	}
	slices.SortFunc(out, func(a, b digest.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func (t *foreign) readHarbor(all map[string][]byte) error {
	about, err := readTOML(all["task.toml"])
	if err != nil {
		return fmt.Errorf("task.toml: %w", err)
	}
	t.issue = string(all["instruction.md"])
	if t.tests = below(all, "tests"); all["tests/test.sh"] == nil {
		return fmt.Errorf("it has no tests/test.sh")
	}
	if t.test.TimeoutSeconds, err = wholeSeconds(about["verifier.timeout_sec"]); err != nil {
		return fmt.Errorf("task.toml: verifier.timeout_sec: %w", err)
	}
	if t.agentSeconds, err = wholeSeconds(about["agent.timeout_sec"]); err != nil {
		return fmt.Errorf("task.toml: agent.timeout_sec: %w", err)
	}
	if text := about["environment.memory_mb"]; text != "" {
		mb, err := strconv.ParseInt(text, 10, 64)
		if err != nil || mb < 1 || mb > 1<<20 {
			return fmt.Errorf("task.toml: environment.memory_mb is %.40q", text)
		}
		t.memory = mb << 20
	}
	if image := about["environment.docker_image"]; image != "" {
		t.notes = append(t.notes, "it names the image "+image)
	}
	if t.solution = below(all, "solution"); all["solution/solve.sh"] != nil {
		t.apply = "sh \"$S/solve.sh\"\n"
	} else {
		t.apply = "echo \"no solution\"\n"
	}
	return t.environment(all["environment/Dockerfile"], below(all, "environment"))
}

func (t *foreign) readTerminalBench(all map[string][]byte) error {
	doc, err := strictyaml.Parse("task.yaml", all["task.yaml"], strictyaml.Rules{PlainDigits: true, MaxBytes: 1 << 20, MaxLines: 20_000})
	if err != nil {
		return err
	}
	about := func(key string) string { // what else there is decides nothing here
		if m := doc.Top.Member(key); m != nil && m.Value.Kind != strictyaml.Null {
			return m.Value.Text
		}
		return ""
	}
	if parser := about("parser_name"); parser != "" && parser != "pytest" {
		return fmt.Errorf("its results are read by the parser %.40q, and only pytest's are known here", parser)
	}
	t.issue = about("instruction")
	if t.agentSeconds, err = wholeSeconds(about("max_agent_timeout_sec")); err != nil {
		return fmt.Errorf("task.yaml: max_agent_timeout_sec: %w", err)
	}
	if t.test.TimeoutSeconds, err = wholeSeconds(about("max_test_timeout_sec")); err != nil {
		return fmt.Errorf("task.yaml: max_test_timeout_sec: %w", err)
	}
	t.tests = below(all, "tests")
	if all["run-tests.sh"] == nil {
		return fmt.Errorf("it has no run-tests.sh")
	}
	t.tests = append(t.tests, digest.File{Path: "run-tests.sh", Data: all["run-tests.sh"]})
	t.apply = "echo \"no solution\"\n"
	if solution := all["solution.sh"]; solution != nil {
		t.solution, t.apply = []digest.File{{Path: "solution.sh", Data: solution}}, "sh \"$S/solution.sh\"\n"
	}
	var context []digest.File
	for name, data := range all {
		if !strings.HasPrefix(name, "tests/") && !slices.Contains([]string{"task.yaml", "run-tests.sh", "solution.sh", "solution.yaml"}, name) {
			context = append(context, digest.File{Path: name, Data: data})
		}
	}
	return t.environment(all["Dockerfile"], context)
}

func wholeSeconds(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 1 && n <= 86400) {
		return 0, fmt.Errorf("found %.40q, expected 1 to 86400", text)
	}
	return int(n), nil
}

// environment takes from a Dockerfile what the agent's working folder has: files that are
// copied into the folder of WORKDIR. What commands of it make has to be in the image.
func (t *foreign) environment(dockerfile []byte, context []digest.File) error {
	workdir, runs := "/app", 0
	text := strings.ReplaceAll(string(dockerfile), "\\\n", " ")
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch strings.ToUpper(words[0]) {
		case "WORKDIR":
			if workdir = path.Join(workdir, words[1]); path.IsAbs(words[1]) {
				workdir = path.Clean(words[1])
			}
		case "RUN":
			runs++
		case "COPY", "ADD":
			if err := t.copied(words[1:], workdir, context); err != nil {
				return fmt.Errorf("its Dockerfile says %.100q: %w", strings.TrimSpace(line), err)
			}
		}
	}
	if workdir != "/app" {
		return fmt.Errorf("its working folder is %.100s, and only /app is known here", workdir)
	}
	if runs > 0 {
		t.notes = append(t.notes, fmt.Sprintf("its Dockerfile runs %d commands: what they make has to be in the image", runs))
	}
	return nil
}

// copied takes the files of one COPY. What goes elsewhere than into /app is of the image.
func (t *foreign) copied(words []string, workdir string, context []digest.File) error {
	if strings.HasPrefix(words[0], "--") {
		return fmt.Errorf("options of COPY are not known here")
	}
	if len(words) < 2 {
		return fmt.Errorf("expected a source and a destination")
	}
	to := words[len(words)-1]
	at := path.Join(workdir, to)
	if path.IsAbs(to) {
		at = path.Clean(to)
	}
	if at != "/app" && !strings.HasPrefix(at, "/app/") {
		t.notes = append(t.notes, "its Dockerfile copies into "+at+", which has to be in the image")
		return nil
	}
	in := strings.TrimPrefix(strings.TrimPrefix(at, "/app"), "/")
	for _, from := range words[:len(words)-1] {
		from = path.Clean(from)
		found := false
		for _, f := range context {
			name, ok := strings.CutPrefix(f.Path, from+"/")
			switch {
			case from == "." && f.Path != "Dockerfile":
				name, ok = f.Path, true
			case f.Path == from && (strings.HasSuffix(to, "/") || to == "." || at == "/app" || len(words) > 2):
				name, ok = path.Base(from), true
			case f.Path == from:
				name, ok = "", true
			}
			if !ok {
				continue
			}
			found = true
			t.files = append(t.files, digest.File{Path: path.Join(in, name), Data: f.Data})
		}
		if !found {
			return fmt.Errorf("%s is not in the task", from)
		}
	}
	slices.SortFunc(t.files, func(a, b digest.File) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// readTOML reads the members of task.toml that are numbers and texts, by their section and
// name. Others are skipped: only these decide something here.
func readTOML(text []byte) (map[string]string, error) {
	out, section := map[string]string{}, ""
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.Trim(line, "[] ") + "."
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		key, value = section+strings.TrimSpace(key), strings.TrimSpace(value)
		if strings.HasPrefix(value, `"`) {
			end := strings.Index(value[1:], `"`)
			if end < 0 || strings.HasPrefix(value, `"""`) {
				continue
			}
			value = value[1 : end+1]
		} else if value, _, _ = strings.Cut(value, "#"); true {
			value = strings.ReplaceAll(strings.TrimSpace(value), "_", "")
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", n+1, key)
		}
		out[key] = value
	}
	return out, nil
}

// withLinks gives an image in which /app is the working folder and /logs is in memory, as
// the tests of such tasks want.
func withLinks(ctx context.Context, from string, class sandbox.Class) (string, error) {
	cache, err := image.Cache()
	if err != nil {
		return "", err
	}
	r := &recipe.Recipe{Version: 1, From: from, Steps: []recipe.Step{{Files: []recipe.File{{Path: "/app", Link: "/work"}, {Path: "/logs", Link: "/tmp/logs"}}}}}
	made, err := recipe.Build(ctx, r, recipe.Options{Cache: cache, Accept: []sandbox.Class{class}})
	if err != nil {
		return "", err
	}
	return made.Image.Digest, nil
}
