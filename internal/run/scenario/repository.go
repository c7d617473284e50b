package scenario

import (
	"bytes"
	"cmp"
	"crypto/sha1" // git names its objects by it
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Repository says which commit of which repository a coding case is made of, and
// proves it: the two git objects hash to the ids of the commits, the trees to what
// the objects name. What it cannot prove is that the repository is one that people
// work on; its name and the ids let a reader look it up.
type Repository struct {
	Name string `json:"name"`

	// Commit and Parent are git objects, as "git cat-file commit" prints them: of
	// the recorded change, and of its only parent, whose tree the agent gets.
	Commit string `json:"commit"`
	Parent string `json:"parent"`

	// After is the commit's own tree, in the class's trees file.
	After digest.Content `json:"after"`

	// LeftOut are the links and submodules of both trees, which a working folder
	// does not have.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// A LeftOut is an entry of a git tree.
type LeftOut struct {
	ID   string `json:"id"`
	Mode string `json:"mode"`
	Path string `json:"path"`
}

// The modes of git.
const (
	gitFile       = "100644"
	gitExecutable = "100755"
	gitLink       = "120000"
	gitSubmodule  = "160000"
	gitFolder     = "40000"
)

// An Issue is a coding case that is an issue of a repository, when that is proved.
type Issue struct {
	Name           string
	Commit, Parent string // ids
	Runner         *Runner

	// Change names what the recorded change does to code that is not a test, and
	// Tests what it does to tests, both without names, literals and comments: a
	// task that was copied and renamed has those of the original.
	Change, Tests digest.Content
}

// After is the tree of the recorded change; nil if the case does not have it.
func (c *Task) After() []digest.File { return c.after }

// Trees are the trees that the case names in the class's trees file.
func (s *Scenario) Trees() []digest.Content {
	var out []digest.Content
	if s.Tree != nil {
		out = append(out, *s.Tree)
	}
	if s.Repository != nil {
		out = append(out, s.Repository.After)
	}
	if s.World != nil && s.World.Tree != nil {
		out = append(out, *s.World.Tree)
	}
	return out
}

// Issue proves what the case says of its repository; nil if it says nothing. A case
// that says what is not so is refused.
func (c *Task) Issue() (*Issue, error) {
	if c.Scenario.Repository == nil {
		return nil, nil
	}
	issue, err := c.Scenario.Repository.prove(c)
	if err != nil {
		return nil, refusal.Newf(refusal.BenchRepositoryUnproved, "case %s: repository: %w", c.ID, err).
			WithHint("make the case with \"tally bench mine\"; a case that is not an issue of a repository has no member repository")
	}
	return issue, nil
}

func (r *Repository) prove(c *Task) (*Issue, error) {
	commit, err := parseCommit(r.Commit)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	parent, err := parseCommit(r.Parent)
	if err != nil {
		return nil, fmt.Errorf("parent: %w", err)
	}
	if len(commit.parents) != 1 || commit.parents[0] != parent.id {
		return nil, fmt.Errorf("the commit %s has the parents %v, and the object of the parent is that of %s", commit.id, commit.parents, parent.id)
	}
	if c.named != "" && c.named != commit.id {
		return nil, fmt.Errorf("the provenance of the case names the commit %s, and the object is that of %s", c.named, commit.id)
	}
	for _, side := range []struct {
		what  string
		of    *gitCommit
		files []digest.File
	}{{"the working folder", parent, c.Files}, {"the tree after the change", commit, c.after}} {
		tree, err := gitTree(side.files, r.LeftOut, len(side.of.tree))
		if err != nil {
			return nil, err
		}
		if tree != side.of.tree {
			return nil, fmt.Errorf("%s is the git tree %s, and the commit %s has the tree %s", side.what, tree, side.of.id, side.of.tree)
		}
	}
	return r.testsOf(c, &Issue{Name: r.Name, Commit: commit.id, Parent: parent.id})
}

// testsOf proves that the tests of the case are those of the commit, run by a
// program of ours.
func (r *Repository) testsOf(c *Task, issue *Issue) (*Issue, error) {
	t := c.Scenario.Test
	if t == nil || !t.Overlay || len(t.MustPass) == 0 || len(t.Editable) > 0 || t.Output != "" {
		return nil, fmt.Errorf("expected a test with overlay and must_pass, and without editable and output")
	}
	if issue.Runner = c.runner(); issue.Runner == nil {
		return nil, fmt.Errorf("the test is not run by one of the runners of this program")
	}
	after := map[string][]byte{}
	for _, f := range c.after {
		after[f.Path] = f.Data
	}
	for _, f := range c.Tests {
		if data, ok := after[f.Path]; f.Path != issue.Runner.File.Path && (!ok || !bytes.Equal(data, f.Data) || !SteersTests(f.Path)) {
			return nil, fmt.Errorf("tests/%s is not a test of the commit", f.Path)
		}
	}
	var err error
	issue.Change, issue.Tests, err = issue.Runner.Shapes(c.Files, c.after)
	return issue, err
}

// A gitCommit is what a commit object says, and its id.
type gitCommit struct {
	id, tree string
	parents  []string
}

func parseCommit(object string) (*gitCommit, error) {
	header, _, ok := strings.Cut(object, "\n\n")
	if !ok {
		return nil, fmt.Errorf("expected a git commit object, with an empty line before its message")
	}
	c := &gitCommit{}
	for line := range strings.SplitSeq(header, "\n") {
		switch name, value, _ := strings.Cut(line, " "); {
		case name == "tree" && c.tree == "" && isGitID(value):
			c.tree = value
		case name == "parent" && isGitID(value):
			c.parents = append(c.parents, value)
		}
	}
	if c.tree == "" {
		return nil, fmt.Errorf("expected a git commit object, with the id of a tree")
	}
	c.id = gitID("commit", []byte(object), len(c.tree))
	return c, nil
}

func isGitID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 2*sha1.Size || len(s) == 2*sha256.Size) && s == strings.ToLower(s)
}

// gitID is the id of an object in a repository whose ids have so many digits.
func gitID(kind string, data []byte, digits int) string {
	var h hash.Hash = sha1.New()
	if digits == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// gitTree is the id that git gives a folder with these files.
func gitTree(files []digest.File, leftOut []LeftOut, digits int) (string, error) {
	root := &gitDir{}
	for _, f := range files {
		mode := gitFile
		if f.Executable {
			mode = gitExecutable
		}
		root.put(f.Path, mode, gitID("blob", f.Data, digits))
	}
	for _, l := range leftOut {
		if l.Mode != gitLink && l.Mode != gitSubmodule || len(l.ID) != digits || !isGitID(l.ID) || l.Path != path.Clean(l.Path) {
			return "", fmt.Errorf("left_out: %.200q: expected the mode %s or %s, the id of an object and a path", l.Path, gitLink, gitSubmodule)
		}
		root.put(l.Path, l.Mode, l.ID)
	}
	return root.id(digits), nil
}

// A gitDir is a folder of a git tree.
type gitDir struct {
	entries []gitEntry
	folders map[string]*gitDir
}

type gitEntry struct{ name, mode, id string }

func (d *gitDir) put(name, mode, id string) {
	first, rest, below := strings.Cut(name, "/")
	if !below {
		d.entries = append(d.entries, gitEntry{name, mode, id})
		return
	}
	if d.folders == nil {
		d.folders = map[string]*gitDir{}
	}
	if d.folders[first] == nil {
		d.folders[first] = &gitDir{}
	}
	d.folders[first].put(rest, mode, id)
}

func (d *gitDir) id(digits int) string {
	all := slices.Clone(d.entries)
	for name, folder := range d.folders {
		all = append(all, gitEntry{name, gitFolder, folder.id(digits)})
	}
	// Git sorts folders as if their names ended in a slash.
	key := func(e gitEntry) string {
		if e.mode == gitFolder {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(all, func(a, b gitEntry) int { return cmp.Compare(key(a), key(b)) })
	var object bytes.Buffer
	for _, e := range all {
		raw, _ := hex.DecodeString(e.id)
		fmt.Fprintf(&object, "%s %s\x00%s", e.mode, e.name, raw)
	}
	return gitID("tree", object.Bytes(), digits)
}
