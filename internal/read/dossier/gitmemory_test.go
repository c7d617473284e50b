package dossier

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/workspace"
)

// A repository that is too large to look at every object is asked through every ref,
// reflog and index that it has, and for every folder of anchors that it had.
func TestAnchorsOfALargeRepository(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	defer func(n int) { maxGitObjects = n }(maxGitObjects)
	maxGitObjects = 1
	for name, hide := range map[string]string{
		"another branch":       "git branch keep; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"a remote's branch":    "git update-ref refs/remotes/origin/main HEAD; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"a tag":                "git tag -a -m t keep; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"the stash":            "git update-ref refs/stash HEAD; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"a ref of its own":     "git update-ref refs/hidden/x HEAD; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"the reflog":           "git reset -q --hard HEAD~1",
		"staged":               "git reset -q --soft HEAD~1; rm -rf .git/logs",
		"packed":               "git branch keep; git reset -q --hard HEAD~1; git pack-refs --all; git repack -qad; rm -rf .git/logs",
		"a detached HEAD":      "git checkout -q --detach; git branch -q -f main HEAD~1; rm -rf .git/logs",
		"an orphan":            "git checkout -q --orphan fresh; git rm -rfq .; git commit -q --allow-empty -m x; rm -rf .git/logs",
		"a replaced commit":    "git replace HEAD HEAD~1; git checkout -q -f HEAD; rm -rf .git/logs",
		"a graft":              "git commit -q --allow-empty -m x; git rev-parse HEAD >.git/info/grafts; rm -rf .git/logs",
		"a working tree":       "git worktree add -q --detach ../linked; git reset -q --hard HEAD~1; rm -rf .git/logs",
		"a folder that moved":  "git mv ws elsewhere; git commit -q -m moved; git rm -rfq elsewhere; git commit -q -m gone",
		"a repository inside":  "git rm -rfq --cached ws; git commit -q -m gone; cd ws; git init -q .; git commit -q --allow-empty -m x",
		"merged and forgotten": "git checkout -q -b side HEAD~1; git merge -q -s ours main -m m; git branch -D main; rm -rf .git/logs",
	} {
		dir := t.TempDir()
		p := &Place{Workspace: &workspace.Workspace{Dir: filepath.Join(dir, "repo", "ws")}, World: World{Getenv: os.Getenv}}
		script(t, dir, "mkdir repo; cd repo; git init -q -b main .; git commit -q --allow-empty -m begin; mkdir -p ws/audit/anchors")
		a := &ledger.Anchor{Schema: ledger.AnchorSchema, Origin: "example.com/evals", Date: "2026-05-01", Size: 7, Head: digest.IDOf([]byte("x")), Root: "r", Checkpoint: strings.Repeat("c", 300), PublishedAt: evidence.Time{}}
		data := anchorLike(t, a)
		if err := os.WriteFile(filepath.Join(dir, "repo/ws/audit/anchors/2026-05-01.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		script(t, filepath.Join(dir, "repo"), "git add -A; git commit -q -m anchored")
		script(t, filepath.Join(dir, "repo"), hide)
		os.MkdirAll(p.Dir, 0o700)
		m := p.gitMemory(context.Background(), "example.com/evals")
		if len(m.anchors) != 1 || m.anchors[0].Size != 7 || len(m.unasked) > 0 {
			t.Errorf("%s: %d anchors, %q", name, len(m.anchors), m.unasked)
		}
	}
}

// anchorLike is an anchor whose signatures are not looked at here.
func anchorLike(t *testing.T, a *ledger.Anchor) []byte {
	t.Helper()
	at, err := evidence.ParseTime(a.Date + "T00:00:00.000Z")
	if err != nil {
		t.Fatal(err)
	}
	a.PublishedAt, a.Signature = at, "s"
	data, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.ParseAnchor(data); err != nil {
		t.Fatalf("the anchor of the test: %v", err)
	}
	return data
}

func script(t *testing.T, dir, text string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "set -e; "+text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s: %v: %s", text, err, out))
	}
}
