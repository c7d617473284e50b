package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/record/seal"
)

// The folders of testdata/golden are workspaces that earlier programs wrote and
// sealed, and what those programs said about them. They are promises: never
// regenerated once their format is closed, only added to; that of a draft is made
// again when the format changes. testdata/golden/README.md says how.
const goldenDir = "testdata/golden"

var (
	goldenPrograms = flag.String("golden-programs", "", "`folder` with the tally and tally-verify that make a new golden workspace")
	goldenOut      = flag.String("golden-out", "", "new `folder` for that workspace; relative to cmd/tally")
)

// TestGoldenWorkspaces requires of what an earlier program wrote that this one
// gives the same exit code and the same values.
func TestGoldenWorkspaces(t *testing.T) {
	for _, made := range goldenFolders(t) {
		t.Run(filepath.Base(made), func(t *testing.T) {
			t.Parallel()
			w, meant := openGolden(t, made, ""), deliberateChanges(t, made)
			for _, c := range goldenCommands(t, made) {
				t.Run(c.name, func(t *testing.T) { checkGolden(t, w, made, c, meant) })
			}
			for change := range meant {
				if strings.HasPrefix(change, "kept/") {
					continue // of a report: see TestGoldenReports
				}
				t.Errorf("deliberate-changes: %s is not lost: remove the line", change)
			}
		})
	}
}

func checkGolden(t *testing.T, w *goldenCopy, made string, c goldenCommand, meant map[string]bool) {
	want, err := os.ReadFile(filepath.Join(made, "expected", c.name))
	if err != nil {
		t.Fatal(err)
	}
	got, stderr, code := w.run(t, c)
	lost := lostValues("", parseJSON(t, want), parseJSON(t, got))
	if code != c.exit {
		lost = append(lost, fmt.Sprintf("exit: was %d, is %d\n%s", c.exit, code, stderr))
	}
	for _, lost := range lost {
		path, _, _ := strings.Cut(lost, ": ")
		if change := c.name + " " + path; meant[change] {
			delete(meant, change)
			continue
		}
		t.Error(lost)
	}
}

// deliberateChanges reads which values are other ones on purpose, such as those
// that were wrong: lines of NAME PATH REASON. The path of an exit code is "exit".
func deliberateChanges(t *testing.T, made string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(made, "deliberate-changes"))
	if err != nil {
		t.Fatal(err)
	}
	meant := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			t.Fatalf("%s/deliberate-changes: %q: want NAME PATH REASON", made, line)
		}
		meant[fields[0]+" "+fields[1]] = true
	}
	return meant
}

// goldenDigests pins every file of each golden folder but deliberate-changes, so
// that making one again is not taken for a change of some JSON. A new folder adds
// a row; no row changes but that of a draft.
var goldenDigests = map[string]string{
	"1-draft": "d993c8b5b37ae2b5dfacae457794c8c336fd969bdce3b408e6ba4429a17fc2a2",
}

func TestGoldenWorkspacesAreNeverMadeAgain(t *testing.T) {
	for _, made := range goldenFolders(t) {
		sum := sha256.New()
		err := filepath.WalkDir(made, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "deliberate-changes" {
				return err
			}
			data, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(path))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != goldenDigests[filepath.Base(made)] {
			t.Errorf("%s: its files have the digest %s, pinned is %q: these files are promises; restore them from git", made, got, goldenDigests[filepath.Base(made)])
		}
	}
}

// TestGoldenLedgerContinues opens an earlier program's ledger for writing, which
// verifies all of it, and appends to it under a key that its signers know.
func TestGoldenLedgerContinues(t *testing.T) {
	t.Parallel()
	for _, made := range goldenFolders(t) {
		w := openGolden(t, made, "")
		key := filepath.Join(t.TempDir(), "rita")
		if err := writeSeedKey(key, ritaSeed); err != nil {
			t.Fatal(err)
		}
		w.env = append(w.env, "TALLY_OPERATOR_KEY="+key)
		w.stdin = `{"n":1}`
		w.must(t, "tally", "ledger", "append", "--kind", "note")
		// A day with entries wants an anchor, and the ledger's own are of the day on
		// which it was made. Its witness is gone, which the command says with 1.
		if _, stderr, code := w.run(t, goldenCommand{program: "tally", args: []string{"ledger", "anchor", "publish"}}); code != 1 || !strings.Contains(string(stderr), "the anchor stands") {
			t.Fatalf("anchor publish: exit %d\n%s", code, stderr)
		}
		for _, command := range []string{"ledger verify", "ledger verify --strict --since 12", "verify --recompute"} {
			w.must(t, "tally", strings.Fields(command)...)
		}
	}
}

// TestGoldenReports writes the reports of a gate again: every line is still there,
// in its order. TAP says 13 now, of which Perl's prove does not complain.
func TestGoldenReports(t *testing.T) {
	t.Parallel()
	for _, made := range goldenFolders(t) {
		w, meant := openGolden(t, made, ""), deliberateChanges(t, made)
		w.must(t, "tally", "gate", "sums.default.3", "--junit", "again.xml", "--tap", "again.tap")
		for was, is := range map[string]string{"kept/gate.xml": "again.xml", "kept/gate.tap": "again.tap"} {
			rest := string(w.read(t, is))
			for line := range strings.Lines(string(w.read(t, was))) {
				if line == "TAP version 14\n" {
					line = "TAP version 13\n"
				}
				_, after, found := strings.Cut(rest, line)
				if !found {
					if !changedOnPurpose(meant, was, line) {
						t.Errorf("%s: this line is gone, or moved: %s", was, line)
					}
					continue
				}
				rest = after
			}
		}
	}
}

// changedOnPurpose reports whether a line of a report is one that is other now:
// the path of such a change is a part of the line.
func changedOnPurpose(meant map[string]bool, report, line string) bool {
	for change := range meant {
		if part, ok := strings.CutPrefix(change, report+" "); ok && strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// TestGoldenForgeries changes what an earlier program wrote, one place at a time.
func TestGoldenForgeries(t *testing.T) {
	t.Parallel()
	segment := filepath.Join(".tally", "ledger", "segments", "0000000000000000.log")
	for _, made := range goldenFolders(t) {
		for name, forged := range map[string]struct {
			change func(*testing.T, *goldenCopy)
			verify string
		}{
			"first entry":      {flipped(segment, 0.001), "ledger verify"},
			"entry in between": {flipped(segment, 0.5), "ledger verify"},
			"last seal":        {flipped(segment, 0.9999), "ledger verify"},
			"last batch cut":   {cutLastBatch(segment), "ledger verify"},
			"anchor":           {flipped("audit/anchors/*.json", 0.5), "ledger verify"},
			"evidence":         {flipped(".tally/evidence/packs/notes.default.1.pack", 0.5), "verify --recompute"},
			"bundle":           {flipped("kept/bundles/right.rvf", 0.2), "verify kept/bundles/right.rvf"},
			"receipt":          {flipped("kept/entry-12.receipt", 0.80), "verify kept/entry-12.receipt"},
		} {
			t.Run(filepath.Base(made)+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := openGolden(t, made, "")
				w.must(t, "tally", strings.Fields(forged.verify)...)
				forged.change(t, w)
				if _, stderr, code := w.run(t, goldenCommand{program: "tally", args: strings.Fields(forged.verify)}); code != 3 {
					t.Errorf("exit %d, want 3\n%s", code, stderr)
				}
			})
		}
	}
}

// flipped changes one bit, at a part of the file's length.
func flipped(name string, part float64) func(*testing.T, *goldenCopy) {
	return func(t *testing.T, w *goldenCopy) {
		t.Helper()
		if found, _ := filepath.Glob(filepath.Join(w.dir, name)); len(found) == 1 {
			name, _ = filepath.Rel(w.dir, found[0])
		}
		data := w.read(t, name)
		data[int(part*float64(len(data)))] ^= 1
		w.write(t, name, data)
	}
}

// cutLastBatch removes what came after the last seal but one. No anchor covers
// it: only the memory knows.
func cutLastBatch(segment string) func(*testing.T, *goldenCopy) {
	return func(t *testing.T, w *goldenCopy) {
		t.Helper()
		lines := bytes.SplitAfter(w.read(t, segment), []byte("\n"))
		for n := len(lines) - 2; n > 0; n-- { // the last line is a seal, then comes nothing
			if _, rest, _ := bytes.Cut(lines[n-1], []byte(" ")); bytes.HasPrefix(rest, []byte("~")) {
				w.write(t, segment, bytes.Join(lines[:n], nil))
				return
			}
		}
		t.Fatalf("%s has one seal", segment)
	}
}

func goldenFolders(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(goldenDir, "*", "commands"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("%s has no workspaces; they were deleted, and with them the promise that old evidence verifies", goldenDir)
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// A goldenCommand is one line of a golden folder's file "commands".
type goldenCommand struct {
	name    string
	exit    int
	program string
	args    []string
}

func goldenCommands(t *testing.T, made string) []goldenCommand {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(made, "commands"))
	if err != nil {
		t.Fatal(err)
	}
	var list []goldenCommand
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 4 {
			t.Fatalf("%s/commands: %q: want NAME EXIT PROGRAM ARGUMENTS", made, line)
		}
		exit, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatalf("%s/commands: %q: %v", made, line, err)
		}
		list = append(list, goldenCommand{fields[0], exit, fields[2], fields[3:]})
	}
	return list
}

// A goldenCopy is a copy of a golden workspace, with the memory of the machine
// that sealed it: the memory is part of what must be understood.
type goldenCopy struct {
	dir      string
	programs string // folder that has them; what TestMain put on the PATH if ""
	env      []string
	stdin    string
}

// openGolden copies a golden folder. Git keeps no permissions, so folders get
// 0700 and files 0600.
func openGolden(t *testing.T, made, programs string) *goldenCopy {
	t.Helper()
	root := t.TempDir()
	for _, part := range []string{"workspace", "state"} {
		if err := copyPrivately(filepath.Join(made, part), filepath.Join(root, part)); err != nil {
			t.Fatal(err)
		}
	}
	return &goldenCopy{
		dir:      filepath.Join(root, "workspace"),
		programs: programs,
		env:      append(os.Environ(), "HOME="+root, "XDG_STATE_HOME="+filepath.Join(root, "state")),
	}
}

func copyPrivately(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

func (w *goldenCopy) run(t *testing.T, c goldenCommand) (stdout, stderr []byte, code int) {
	t.Helper()
	program := c.program
	if w.programs != "" {
		program = filepath.Join(w.programs, program)
	}
	cmd := exec.Command(program, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, w.env, strings.NewReader(w.stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatalf("%s %v: %v", c.program, c.args, err)
	}
	// Answers name files by where the copy lies.
	stdout = bytes.ReplaceAll(out.Bytes(), []byte(w.dir), []byte("WORKSPACE"))
	return stdout, errs.Bytes(), cmd.ProcessState.ExitCode()
}

func (w *goldenCopy) must(t *testing.T, program string, args ...string) {
	t.Helper()
	if _, stderr, code := w.run(t, goldenCommand{program: program, args: args}); code != 0 {
		t.Fatalf("%s %v: exit %d\n%s", program, args, code, stderr)
	}
}

func (w *goldenCopy) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (w *goldenCopy) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func parseJSON(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var doc any
	if err := decoder.Decode(&doc); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, data)
	}
	return doc
}

// prose are members whose words are free. What looks like a digest, an id or a
// time in them must still be there.
var prose = map[string]bool{"detail": true, "reason": true, "why": true, "hint": true, "text": true}

// free are members that say how the program checked, not what it found: how many
// values it compared, and which it could not.
var free = map[string]bool{"checked": true, "unchecked": true, "notes": true}

var longToken = regexp.MustCompile(`[0-9A-Za-z:.+/-]*[0-9][0-9A-Za-z:.+/-]{9,}`)

// lostValues lists what was there before and is not there now, or is another
// value. Members that are new are no loss.
func lostValues(at string, was, is any) []string {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: was an object, is %v", at, is)}
		}
		var lost []string
		for _, name := range slices.Sorted(maps.Keys(was)) {
			lost = append(lost, lostMember(at+"."+name, name, was[name], now)...)
		}
		return lost
	case []any:
		now, ok := is.([]any)
		if !ok || len(now) != len(was) {
			return []string{fmt.Sprintf("%s: was a list of %d, is %v", at, len(was), is)}
		}
		var lost []string
		for i := range was {
			lost = append(lost, lostValues(fmt.Sprintf("%s[%d]", at, i), was[i], now[i])...)
		}
		return lost
	}
	if was != is {
		return []string{fmt.Sprintf("%s: was %v, is %v", at, was, is)}
	}
	return nil
}

func lostMember(at, name string, was any, all map[string]any) []string {
	is, ok := all[name]
	if !ok {
		return []string{fmt.Sprintf("%s: was %v, is gone", at, was)}
	}
	if free[name] {
		return nil
	}
	text, isText := was.(string)
	if !prose[name] || !isText {
		return lostValues(at, was, is)
	}
	for _, token := range longToken.FindAllString(text, -1) {
		if now, _ := is.(string); !strings.Contains(now, token) {
			return []string{fmt.Sprintf("%s: was %q, is %q: %s is gone", at, text, is, token)}
		}
	}
	return nil
}

func TestLostValues(t *testing.T) {
	for _, tt := range []struct {
		name, was, is string
		lost          int
	}{
		{"the same", `{"a":[1,"x",null]}`, `{"a":[1,"x",null]}`, 0},
		{"a new member", `{"a":{"b":1}}`, `{"a":{"b":1,"c":2},"d":3}`, 0},
		{"a member less", `{"a":1,"b":null}`, `{"a":1}`, 1},
		{"another value, deep", `{"a":[{"b":1},{"b":2}]}`, `{"a":[{"b":1},{"b":3}]}`, 1},
		{"another spelling of a number", `{"a":1}`, `{"a":1.0}`, 1},
		{"another kind", `{"a":{"b":1}}`, `{"a":"b"}`, 1},
		{"other words", `{"detail":"2 entries, head sha256:014eb2aa"}`, `{"detail":"head sha256:014eb2aa of 2"}`, 0},
		{"another digest among words", `{"detail":"head sha256:014eb2aa"}`, `{"detail":"head sha256:014eb2ab"}`, 1},
		{"how it was checked", `{"checked":7}`, `{"checked":8}`, 0},
		{"a longer list", `{"a":[1]}`, `{"a":[1,2]}`, 1},
	} {
		if lost := lostValues("", parseJSON(t, []byte(tt.was)), parseJSON(t, []byte(tt.is))); len(lost) != tt.lost {
			t.Errorf("%s: %q, want %d", tt.name, lost, tt.lost)
		}
	}
}

// ritaSeed makes the key of the second operator of a golden workspace. Every reader
// can make it again, so its private half is not in the repository.
const ritaSeed = 1

// writeSeedKey writes the Ed25519 key whose seed is 32 times the same byte, and
// its public half beside it.
func writeSeedKey(path string, seed byte) error {
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		return err
	}
	private, err := key.MarshalPEM("example")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".pub", []byte(key.Public().String()+"\n"), 0o600)
}

// TestMakeGolden makes a new golden folder with other programs than this one.
func TestMakeGolden(t *testing.T) {
	if *goldenPrograms == "" || *goldenOut == "" {
		t.Skip("makes a golden workspace only when asked to: -golden-programs FOLDER -golden-out NEW-FOLDER")
	}
	programs, err := filepath.Abs(*goldenPrograms)
	if err != nil {
		t.Fatal(err)
	}
	out, err := filepath.Abs(*goldenOut)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatalf("%s exists: a golden workspace is never made again", out)
	}
	commands := scriptCommands(t)
	commands["seedkey"] = func(ts *testscript.TestScript, _ bool, args []string) {
		seed, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Check(writeSeedKey(ts.MkAbs(args[0]), byte(seed)))
	}
	if !t.Run("workspace", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Files:               []string{filepath.Join(goldenDir, "make.txtar")},
			RequireExplicitExec: true,
			Setup: func(env *testscript.Env) error {
				env.Setenv("GOLDEN", out)
				env.Setenv("TMPDIR", os.TempDir()) // the sandboxes' own user must reach it
				env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
				return isolate(env)
			},
			Cmds: commands,
		})
	}) {
		return
	}
	writeExpected(t, programs, out)
}

// writeExpected keeps what the programs say about the workspace.
func writeExpected(t *testing.T, programs, made string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(made, "expected"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := openGolden(t, made, programs)
	const none = "# NAME PATH REASON: values of expected/NAME that later programs give otherwise on purpose.\n"
	if err := os.WriteFile(filepath.Join(made, "deliberate-changes"), []byte(none), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range goldenCommands(t, made) {
		stdout, stderr, code := w.run(t, c)
		if code != c.exit {
			t.Errorf("%s: exit %d, commands say %d\n%s", c.name, code, c.exit, stderr)
		}
		if err := os.WriteFile(filepath.Join(made, "expected", c.name), stdout, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
