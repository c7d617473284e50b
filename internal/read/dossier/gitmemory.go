package dossier

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"tallystick/internal/record/ledger"
)

// A gitMemory is what the git repositories around a workspace know of the anchors
// of its ledger. An attacker who puts an old ledger back can delete files and memories;
// what was committed stays in the objects of a repository until git collects it.
type gitMemory struct {
	anchors []gitAnchor
	// repositories are those that have the workspace's folder in them.
	repositories []Repository
	// unasked says of each that could not be asked, or not of all that it had, why.
	unasked []string
}

// A gitAnchor is one that git holds, anywhere. Nothing about it is verified yet.
type gitAnchor struct {
	ledger.Anchor
	Data []byte
	Blob string
}

// gitMemory asks every repository that the folder is in for anchors of the origin.
func (p *Place) gitMemory(ctx context.Context, origin string) *gitMemory {
	m := &gitMemory{repositories: p.repositories()}
	if len(m.repositories) == 0 {
		return m
	}
	if _, err := exec.LookPath("git"); err != nil {
		m.unasked = append(m.unasked, fmt.Sprintf("%s is in a git repository and there is no git program on the PATH", p.Dir))
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	seen := make(map[string]bool)
	for _, r := range m.repositories {
		found, why := r.anchors(ctx, origin)
		for _, w := range why {
			m.unasked = append(m.unasked, fmt.Sprintf("the repository %s: %s", r.name(), w))
		}
		for _, a := range found {
			if !seen[a.Blob] {
				seen[a.Blob] = true
				m.anchors = append(m.anchors, a)
			}
		}
	}
	return m
}

// repositories are all that a workspace lies in, and not only the innermost: "git
// init" in the workspace would hide the one around it. Those of submodules are
// kept in the one around them, also when the submodule is not checked out.
func (p *Place) repositories() []Repository {
	dir, err := filepath.Abs(p.Dir)
	if err == nil {
		if real, rerr := filepath.EvalSymlinks(dir); rerr == nil {
			dir = real
		}
	}
	var found []Repository
	for {
		mark := filepath.Join(dir, ".git")
		if info, err := os.Lstat(mark); err == nil {
			found = append(found, Repository{Dir: dir, Path: p.Getenv("PATH")})
			if info.IsDir() {
				found = append(found, p.modules(filepath.Join(mark, "modules"))...)
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return found
		}
		dir = up
	}
}

// InGit reports whether the workspace is in a git repository. A checkout's own ledger
// is kept out of it.
func (p *Place) InGit() bool { return p.Shared == nil && len(p.repositories()) > 0 }

// maxModules bounds how many submodules are looked at.
const maxModules = 100

// modules finds the repositories of submodules below a folder.
func (p *Place) modules(dir string) []Repository {
	var found []Repository
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		if _, err := os.Lstat(filepath.Join(path, "objects")); err != nil {
			return nil // a part of a submodule's name
		}
		if found = append(found, Repository{Dir: path, Path: p.Getenv("PATH"), gitDir: path}); len(found) == maxModules {
			return fs.SkipAll
		}
		return fs.SkipDir
	})
	return found
}

func (r Repository) name() string {
	if r.gitDir != "" {
		return r.gitDir
	}
	return filepath.Join(r.Dir, ".git")
}

// How much of a repository is looked at: every object of one that holds so many, of
// which those that may be anchors have so many bytes; of a larger one the files
// that any ref, reflog or index has in a folder of anchors.
const (
	maxGitBytes = 128 << 20
	maxGitBlobs = 50_000
)

// maxGitObjects is changed by tests only.
var maxGitObjects = 50_000

// anchorsPath is the folder of anchors in a workspace.
const anchorsPath = "audit/anchors"

// everywhere are the options of rev-list that begin at all that git remembers:
// every ref (branches, tags, notes, the stash, remotes), the HEAD of every working
// tree, every reflog.
var everywhere = []string{"--all", "--reflog"}

// anchors reads every anchor of an origin that the repository holds, whatever ref
// leads to it, and if the repository is not large, also where none does any more.
// Why says what could not be asked.
func (r Repository) anchors(ctx context.Context, origin string) (found []gitAnchor, why []string) {
	lacks, err := r.lacks(ctx)
	if err != nil {
		return nil, []string{"git could not be asked: " + err.Error()}
	}
	blobs, whole, err := r.smallBlobs(ctx)
	if err != nil {
		return nil, append(lacks, "its objects could not be listed: "+err.Error())
	}
	if whole {
		// Only the answer counts: that nothing is missing.
		_, err = r.run(ctx, nil, append([]string{"rev-list", "--objects", "--quiet", "--indexed-objects"}, everywhere...)...)
	} else {
		blobs, err = r.committed(ctx, everywhere...)
		if err == nil {
			var staged []string
			staged, err = r.staged(ctx)
			blobs = append(blobs, staged...)
		}
	}
	if err != nil {
		lacks = append(lacks, "objects are missing or cannot be read: "+err.Error())
	}
	if len(blobs) > maxGitBlobs {
		lacks = append(lacks, fmt.Sprintf("it holds %d files that may be anchors, of which %d were read", len(blobs), maxGitBlobs))
		blobs = blobs[:maxGitBlobs]
	}
	if len(blobs) == 0 {
		return nil, lacks
	}
	data, err := r.Run(ctx, []byte(strings.Join(blobs, "\n")+"\n"), "cat-file", "--batch", "--buffer")
	if err != nil {
		lacks = append(lacks, "reading anchors: "+err.Error())
	}
	found, gone := parseAnchors(data, origin)
	if gone > 0 {
		lacks = append(lacks, fmt.Sprintf("%d files that may be anchors are missing in it", gone))
	}
	return found, lacks
}

// anchorFiles are the files in folders of anchors, wherever in the repository they
// are or were: a workspace may have moved.
const anchorFiles = ":(top,glob)**/" + anchorsPath + "/*.json"

// committed are the files in folders of anchors that a commit brought, changed or
// took away, from the given beginnings on.
func (r Repository) committed(ctx context.Context, from ...string) ([]string, error) {
	commits, err := r.run(ctx, nil, append(append([]string{"rev-list", "--full-history"}, from...), "--", anchorFiles)...)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	changes, err := r.run(ctx, commits, "diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", "--no-renames", "--", anchorFiles)
	seen := make(map[string]bool)
	var blobs []string
	for line := range strings.Lines(string(changes)) {
		// :100644 100644 OLD NEW M, a tab, and the path
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		for _, id := range fields[2:4] {
			if strings.Trim(id, "0") != "" && !seen[id] {
				seen[id] = true
				blobs = append(blobs, id)
			}
		}
	}
	return blobs, err
}

// staged are the files in folders of anchors that the index has.
func (r Repository) staged(ctx context.Context) ([]string, error) {
	if r.gitDir != "" {
		return nil, nil
	}
	listed, err := r.run(ctx, nil, "ls-files", "--stage", "--", anchorFiles)
	var blobs []string
	for line := range strings.Lines(string(listed)) {
		if fields := strings.Fields(line); len(fields) > 3 {
			blobs = append(blobs, fields[1])
		}
	}
	return blobs, err
}

// reachable are the files in folders of anchors that the commits lead to.
func (r Repository) reachable(ctx context.Context, commits ...string) (map[string]bool, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	blobs, err := r.committed(ctx, commits...)
	found := make(map[string]bool)
	for _, id := range blobs {
		found[id] = true
	}
	return found, err
}

// lacks says what a repository does not have although its refs lead there: the past
// of a shallow clone, the files of a partial one.
func (r Repository) lacks(ctx context.Context) (why []string, err error) {
	shallow, err := r.Run(ctx, nil, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(shallow)) != "false" {
		why = append(why, `it is a shallow clone, so anchors of its past are not in it ("git fetch --unshallow" brings them)`)
	}
	// No such key is an answer too.
	partial, err := r.Run(ctx, nil, "config", "--get-regexp", `^(extensions\.partialclone|remote\..*\.promisor)$`)
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, err
	}
	if len(bytes.TrimSpace(partial)) > 0 {
		why = append(why, "it is a partial clone, so files of its past may not be in it")
	}
	return why, nil
}

// smallBlobs lists every file that the repository holds, reachable or not, and that
// is small enough for an anchor; whole is false if there are too many objects to
// read them all.
func (r Repository) smallBlobs(ctx context.Context) (blobs []string, whole bool, err error) {
	counted, err := r.Run(ctx, nil, "count-objects", "-v")
	if err != nil {
		return nil, false, err
	}
	objects := 0
	for line := range strings.Lines(string(counted)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil && (key == "count" || key == "in-pack") {
			objects += n
		}
	}
	if objects > maxGitObjects {
		return nil, false, nil
	}
	listed, err := r.Run(ctx, nil, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectsize) %(objectname)")
	if err != nil {
		return nil, false, err
	}
	total := 0
	for line := range strings.Lines(string(listed)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "blob" {
			continue
		}
		size, err := strconv.Atoi(fields[1])
		if err != nil || size > ledger.MaxAnchorBytes || size < minAnchorBytes {
			continue
		}
		if total += size; total > maxGitBytes {
			return nil, false, nil
		}
		blobs = append(blobs, fields[2])
	}
	return blobs, true, nil
}

// minAnchorBytes is less than two digests and two signatures have.
const minAnchorBytes = 300

// parseAnchors reads what "git cat-file --batch" prints, and counts what is
// missing. What is not an anchor of the origin is a file of another project.
func parseAnchors(data []byte, origin string) (out []gitAnchor, gone int) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		header, err := r.ReadString('\n')
		if err != nil {
			return out, gone
		}
		fields := strings.Fields(header)
		if len(fields) != 3 {
			gone++ // nothing follows
			continue
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 {
			return out, gone + 1
		}
		blob := make([]byte, size+1) // and a newline
		if _, err := io.ReadFull(r, blob); err != nil {
			return out, gone + 1
		}
		// Most files are not anchors, and a look at the origin is cheaper than a parser.
		if size > ledger.MaxAnchorBytes || !bytes.Contains(blob, []byte(origin)) {
			continue
		}
		if a, err := ledger.ParseAnchor(blob[:size]); err == nil && a.Origin == origin {
			out = append(out, gitAnchor{*a, blob[:size], fields[0]})
		}
	}
}
