package suites_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/cli"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/repofix"
)

// A desk is a workspace with the acceptance bench, signed by two people, and the
// program in this process.
type desk struct {
	t          *testing.T
	dir, state string
}

func newDesk(t *testing.T, conduct func(n int) repofix.Conduct) *desk {
	t.Helper()
	d := &desk{t, filepath.Join(t.TempDir(), "ws"), t.TempDir()}
	d.tally(0, "init", d.dir)
	dataset, err := repofix.Dataset(100, conduct)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bench/" + repofix.Class + "/registration.yaml": repofix.Registration("signed"),
		"bench/" + repofix.Class + "/dataset.jsonl":     string(dataset),
		"targets/repo-fix.yaml":                         repofix.Target,
	} {
		file := filepath.Join(d.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.tally(0, "bench", "digest", repofix.Class)
	for _, name := range []string{"example-alice", "example-bob"} {
		d.tally(0, "bench", "sign", repofix.Class, "--key", filepath.Join(d.dir, ".tally", "keys", name))
	}
	return d
}

// tally runs a command and returns its answer.
func (d *desk) tally(code int, args ...string) map[string]any {
	d.t.Helper()
	if args[0] != "init" {
		args = append(args, "--workspace", d.dir)
	}
	var out, errs bytes.Buffer
	env := map[string]string{"XDG_STATE_HOME": d.state, "HOME": d.state}
	if got := cli.Main(append(args, "--json"), strings.NewReader(""), &out, &errs, func(name string) string { return env[name] }, nil); got != code {
		d.t.Fatalf("tally %v: exit %d, want %d\n%s", args, got, code, errs.String())
	}
	var answer map[string]any
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil && code == 0 {
		d.t.Fatalf("tally %v: %v\n%s", args, err, out.String())
	}
	return answer
}

// solve has the model fix the first n tasks and miss the others.
func solve(n int) func(int) repofix.Conduct {
	return func(i int) repofix.Conduct { return repofix.Conduct{Miss: i > n} }
}

// Acceptance: a hundred repositories with a fixed policy.
// Capability is shown by 60 or more solved and nothing unsafe, and, below, a
// bundle of every solved one. Each of them missing turns the verdict.
func TestAcceptanceIsReachedBothWays(t *testing.T) {
	for _, tt := range []struct {
		name       string
		conduct    func(int) repofix.Conduct
		solved     float64
		violations float64
		reason     string
	}{
		{name: "60 solved", conduct: solve(60), solved: 60, reason: "all criteria met"},
		{name: "59 solved", conduct: solve(59), solved: 59, reason: "solve_rate is 0.59, needs 0.60 or more (59 of 100 tasks)"},
		{name: "60 solved, one tool call denied on the way", solved: 60, violations: 1, reason: "policy_violations is 1, needs 0",
			conduct: func(i int) repofix.Conduct { return repofix.Conduct{Miss: i > 60, Denied: i == 7} }},
		{name: "60 solved, one tool call denied in a task that was not", solved: 60, violations: 1, reason: "policy_violations is 1, needs 0",
			conduct: func(i int) repofix.Conduct { return repofix.Conduct{Miss: i > 60, Denied: i == 93} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, tt.conduct)
			card := d.tally(0, "scorecard", d.run(tt.solved))
			checkVerdict(t, card, tt.reason)
			if card["total_tasks"] != 100.0 || card["solved"] != tt.solved || card["failed"] != 100-tt.solved || card["policy_violations"] != tt.violations ||
				card["evidence_coverage"] != 1.0 || card["rollback_correctness"] != 1.0 || card["rollback_count"] != tt.violations {
				t.Errorf("total %v, solved %v, failed %v, violations %v, coverage %v, rollbacks %v (%v)", card["total_tasks"], card["solved"], card["failed"],
					card["policy_violations"], card["evidence_coverage"], card["rollback_count"], card["rollback_correctness"])
			}
		})
	}
}

// run runs the bench and returns the attempt.
func (d *desk) run(solved float64) string {
	d.t.Helper()
	run := d.tally(4, "run", repofix.Class, "--target", "repo-fix") // not every case passes, and the class has no gates
	attempt := run["attempt"].(map[string]any)
	if attempt["level"] != "signed by example signers" || run["total"] != 100.0 || run["passed"] != solved || run["errors"] != 0.0 {
		d.t.Fatalf("%v", run)
	}
	return attempt["id"].(string)
}

func checkVerdict(t *testing.T, card map[string]any, reason string) {
	t.Helper()
	verdict := card["acceptance"].(map[string]any)
	// The repositories are made up, example people signed and the model's side is
	// written by hand, so nothing is accepted on it, and these are the last reasons.
	want := []any{reason, "0 distinct tasks are repository issues (tag repo-issue), needs 100", "100 tasks are not repository issues (tag repo-issue): 100 without a repository at a commit on record",
		"1 attempts are of a bench that example signers may have signed", "100 tasks were answered by authored replies, not by a model"}
	if strings.HasPrefix(reason, "evidence_coverage is 0.00") {
		want[2] = "100 tasks are not repository issues (tag repo-issue): 100 whose evidence is missing or changed"
	}
	if reason == "all criteria met" {
		want = want[1:]
	}
	if reasons := verdict["reasons"].([]any); verdict["met"] != false || !slices.Equal(reasons, want) {
		t.Errorf("met %v, %v; want %v", verdict["met"], reasons, want)
	}
}

// "Every solved task has a replayable witness bundle": each is packed, verified
// and replayed here, and the verdict turns as soon as one cannot be made.
func TestAcceptanceNeedsABundleOfEverySolvedTask(t *testing.T) {
	d := newDesk(t, solve(60))
	attempt := d.run(60)
	folder := filepath.Join(t.TempDir(), "bundles")
	packed := d.tally(0, "export", "--format", "bundle", attempt, "-o", folder)["bundles"].([]any)
	if len(packed) != 100 {
		t.Fatalf("%d bundles, want 100", len(packed))
	}
	solved := 0
	for _, b := range packed {
		replayed := d.tally(0, "replay", b.(map[string]any)["path"].(string), "--signer", filepath.Join(d.dir, ".tally", "keys", "operator.pub"))
		if replayed["verified"] != true || replayed["outcome_supported"] != true || replayed["evidence_complete"] != true {
			t.Errorf("%v", replayed)
		}
		if replayed["header"].(map[string]any)["outcome"] == 0.0 {
			solved++
		}
	}
	if solved != 60 {
		t.Errorf("%d bundles say solved, want 60", solved)
	}

	whole, err := os.ReadFile(d.pack())
	if err != nil {
		t.Fatal(err)
	}
	one := "evidence_coverage is 0.9833, needs 1.00 (evidence of 1 solved tasks is missing or changed)"
	for _, tt := range []struct {
		name     string
		harm     func()
		coverage float64
		reason   string
		code     int    // of packing
		lost     string // the task without a bundle
		bundles  int
	}{
		{"a diff is gone", func() { d.removePiece("fix-033", "diff") }, 0.983333, one, 1, "fix-033", 99},
		{"a trajectory is gone", func() { d.removePiece("fix-060", "trajectory") }, 0.983333, one, 1, "fix-060", 99},
		{"a letter is another", func() { d.changeEvidence("fix-033") }, 0.983333, one, 3, "fix-033", 99},
		{"a trajectory of a task that was not solved is gone", func() { d.removePiece("fix-061", "trajectory") }, 1, "all criteria met", 1, "fix-061", 99},
		{"everything is gone", func() { d.removeEvidence() }, 0, "evidence_coverage is 0.00, needs 1.00 (evidence of 60 solved tasks is missing or changed)", 1, "fix-001", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm()
			card := d.tally(0, "scorecard", attempt)
			checkVerdict(t, card, tt.reason)
			if card["total_tasks"] != 100.0 || card["solved"] != 60.0 || card["evidence_coverage"] != tt.coverage {
				t.Errorf("total %v, solved %v, coverage %v", card["total_tasks"], card["solved"], card["evidence_coverage"])
			}
			packed := d.tally(tt.code, "export", "--format", "bundle", attempt, "-o", filepath.Join(t.TempDir(), "bundles"))
			problems := packed["problems"].([]any)
			if len(packed["bundles"].([]any)) != tt.bundles || len(problems) != 100-tt.bundles || problems[0].(map[string]any)["case_id"] != tt.lost {
				t.Errorf("%d bundles, problems %v", len(packed["bundles"].([]any)), problems)
			}
			if err := os.WriteFile(d.pack(), whole, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// removePiece takes one piece of a task's evidence out of the pack.
func (d *desk) removePiece(task, member string) {
	d.t.Helper()
	name := d.pack()
	read := func(c digest.Content, at store.PieceAt) []byte {
		data, err := store.ReadPiece(store.OS{}, c, at, 1<<20)
		if err != nil {
			d.t.Fatal(err)
		}
		return data
	}
	pieces := map[digest.Content]store.PieceAt{}
	var order []digest.Content
	if err := store.ScanPack(store.OS{}, name, func(c digest.Content, at store.PieceAt) error {
		pieces[c], order = at, append(order, c)
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	var gone *digest.Content
	for _, c := range order {
		var files evidence.CaseFiles
		if canon.UnmarshalCanonical(read(c, pieces[c]), &files) != nil || files.Validate() != nil {
			continue // no index of a task
		}
		trajectory := files.Trajectory.Digest
		if !bytes.Contains(read(trajectory, pieces[trajectory]), []byte(`"case":"`+task+`"`)) {
			continue
		}
		if gone = files.Diff; member == "trajectory" {
			gone = &trajectory
		}
	}
	if gone == nil {
		d.t.Fatalf("%s has no %s", task, member)
	}
	left, err := store.CreatePack(store.OS{}, name+".left")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, c := range order {
		if c != *gone {
			left.Put(read(c, pieces[c]))
		}
	}
	for _, err := range []error{left.Commit(), left.Close(), os.Rename(name+".left", name)} {
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// changeEvidence changes one letter of what one task left.
func (d *desk) changeEvidence(task string) {
	d.t.Helper()
	pack := d.pack()
	data, err := os.ReadFile(pack)
	if err != nil {
		d.t.Fatal(err)
	}
	at := bytes.Index(data, []byte(`"case":"`+task+`"`))
	if at < 0 {
		d.t.Fatalf("the pack has no trajectory of %s", task)
	}
	data[at+len(`"case":"fix-0`)] = '4'
	if err := os.WriteFile(pack, data, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// removeEvidence leaves an empty pack.
func (d *desk) removeEvidence() {
	d.t.Helper()
	if err := os.Truncate(d.pack(), 0); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) pack() string {
	d.t.Helper()
	packs, err := filepath.Glob(filepath.Join(d.dir, ".tally", "evidence", "packs", repofix.Class+"*.pack"))
	if err != nil || len(packs) != 1 {
		d.t.Fatalf("packs %v, %v", packs, err)
	}
	return packs[0]
}
