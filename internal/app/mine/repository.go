package mine

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
)

// maxBlob bounds a file of a tree. A commit with a larger one is not taken.
const maxBlob = 8 << 20

// A repository is asked for objects by plumbing that runs nothing which the
// repository names: no hook, filter, pager, difference program or transport.
type repository struct {
	git   dossier.Repository
	blobs map[string][]byte // by the id that git has for them
	large map[string]bool   // those that were too large to be kept
}

// A commit is one of the history, with what it changed of its first parent.
type commit struct {
	id, parent string
	message    string
	changes    []change

	// object and parentObject are the two commits as git hashes them.
	object, parentObject string
}

func (c *commit) subject() string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.message), "\n")
	return first
}

// A change is one path of a commit, by the modes and ids of before and after.
type change struct {
	path             string
	oldMode, newMode string
	oldID, newID     string
	kind             byte // A, M, D or T
}

// A treeEntry is one file of a commit's tree.
type treeEntry struct{ path, mode, id string }

// The modes of git.
const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

func openRepository(dir, searchPath string) *repository {
	return &repository{git: dossier.Repository{Dir: dir, Path: searchPath}, blobs: map[string][]byte{}, large: map[string]bool{}}
}

// history lists the commits of the first-parent line, newest first: no merges, and
// none without a parent.
func (r *repository) history(ctx context.Context, since string) ([]*commit, error) {
	tip := []string{"HEAD"}
	if since != "" {
		id, err := r.git.Run(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", since+"^{commit}")
		if err != nil {
			return nil, refusal.Newf(refusal.UnknownName, "%s: there is no commit %q", r.git.Dir, since).WithHint("name a commit, a tag or a branch of the repository")
		}
		tip = append(tip, "^"+strings.TrimSpace(string(id)))
	}
	listed, err := r.git.Run(ctx, nil, append([]string{"rev-list", "--parents", "--first-parent", "--no-merges"}, tip...)...)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: reading the history: %w", r.git.Dir, err).
			WithHint("expected the folder of a git repository with at least one commit; \"git -C %s log\" shows what there is", r.git.Dir)
	}
	var commits []*commit
	var ids bytes.Buffer
	for line := range strings.Lines(string(listed)) {
		if f := strings.Fields(line); len(f) == 2 {
			commits = append(commits, &commit{id: f[0], parent: f[1]})
			ids.WriteString(f[0] + "\n")
		}
	}
	if err := r.readChanges(ctx, commits, ids.Bytes()); err != nil {
		return nil, err
	}
	return commits, r.readCommits(ctx, commits)
}

// readChanges asks what each commit changed. Nothing is taken for a rename.
func (r *repository) readChanges(ctx context.Context, commits []*commit, ids []byte) error {
	out, err := r.git.Run(ctx, ids, "diff-tree", "--stdin", "--raw", "--no-abbrev", "--no-renames", "-r", "-z")
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: comparing commits: %w", r.git.Dir, err)
	}
	byID := map[string]*commit{}
	for _, c := range commits {
		byID[c.id] = c
	}
	var at *commit
	fields := strings.Split(string(out), "\x00")
	for i := 0; i < len(fields); i++ {
		raw, isChange := strings.CutPrefix(fields[i], ":")
		if !isChange {
			at = byID[strings.TrimSpace(fields[i])]
			continue
		}
		f := strings.Fields(raw)
		if i++; len(f) != 5 || i == len(fields) || at == nil {
			return refusal.Newf(refusal.Malformed, "%s: git diff-tree printed %.100q", r.git.Dir, raw)
		}
		at.changes = append(at.changes, change{path: fields[i], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3], kind: f[4][0]})
	}
	return nil
}

// readCommits reads the objects of the commits and of their parents.
func (r *repository) readCommits(ctx context.Context, commits []*commit) error {
	var ids bytes.Buffer
	for _, c := range commits {
		ids.WriteString(c.id + "\n" + c.parent + "\n")
	}
	i := 0
	return r.objects(ctx, ids.Bytes(), func(_ string, data []byte) error {
		if c := commits[i/2]; i%2 == 1 {
			c.parentObject = string(data)
		} else {
			_, message, _ := bytes.Cut(data, []byte("\n\n"))
			c.object, c.message = string(data), string(message)
		}
		i++
		return nil
	})
}

// objects prints objects, in the order in which they are asked for. One that is
// missing, as in a partial clone, is an error.
func (r *repository) objects(ctx context.Context, ids []byte, visit func(id string, data []byte) error) error {
	out, err := r.git.Run(ctx, ids, "cat-file", "--batch")
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: reading objects: %w", r.git.Dir, err)
	}
	for in := bufio.NewReader(bytes.NewReader(out)); ; {
		header, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		f := strings.Fields(header)
		if err != nil || len(f) != 3 {
			return refusal.Newf(refusal.Unreadable, "%s: git has no object %.60q", r.git.Dir, strings.TrimSpace(header)).
				WithHint("mining needs a full clone: \"git fetch --unshallow\", and no --filter")
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size < 0 || size > len(out) {
			return refusal.Newf(refusal.Malformed, "%s: git cat-file printed %.100q", r.git.Dir, header)
		}
		data := make([]byte, size+1) // and a newline
		if _, err := io.ReadFull(in, data); err != nil {
			return refusal.Newf(refusal.Unreadable, "%s: reading the object %s: %w", r.git.Dir, f[0], err)
		}
		if err := visit(f[0], data[:size:size]); err != nil {
			return err
		}
	}
}

// tree lists the files of a commit.
func (r *repository) tree(ctx context.Context, id string) ([]treeEntry, error) {
	out, err := r.git.Run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", id)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: listing the tree of %s: %w", r.git.Dir, id, err)
	}
	var entries []treeEntry
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(about)
		if !ok || len(f) != 3 {
			return nil, refusal.Newf(refusal.Malformed, "%s: git ls-tree printed %.100q", r.git.Dir, line)
		}
		entries = append(entries, treeEntry{path, f[0], f[2]})
	}
	return entries, nil
}

// read makes sure that blobs are at hand.
func (r *repository) read(ctx context.Context, ids []string) error {
	var missing bytes.Buffer
	asked := map[string]bool{}
	for _, id := range ids {
		if _, ok := r.blobs[id]; !ok && !asked[id] {
			asked[id] = true
			missing.WriteString(id + "\n")
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	return r.objects(ctx, missing.Bytes(), func(id string, data []byte) error {
		if len(data) > maxBlob {
			data = nil // too large to be looked at again
			r.large[id] = true
		}
		r.blobs[id] = data
		return nil
	})
}

// patch is the difference of some paths as "git apply" takes it.
func (r *repository) patch(ctx context.Context, c *commit, paths []string) ([]byte, error) {
	args := []string{"diff-tree", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "-r", c.parent, c.id, "--"}
	out, err := r.git.Run(ctx, nil, append(args, paths...)...)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: the change of %s: %w", r.git.Dir, c.id, err)
	}
	return out, nil
}

// trailers are lines at the end of a message that say who wrote it, not what is
// wanted.
var trailers = []string{"signed-off-by:", "co-authored-by:", "reviewed-by:", "acked-by:", "tested-by:", "reported-by:", "change-id:", "cc:"}

// issueText is what an agent is told: the message as it stands, without the
// lines that name people.
func issueText(message string) (string, bool) {
	if !utf8.ValidString(message) || strings.ContainsRune(message, 0) {
		return "", false
	}
	var kept []string
	for line := range strings.Lines(strings.ReplaceAll(message, "\r\n", "\n")) {
		line = strings.TrimRight(line, " \t\n")
		low := strings.ToLower(line)
		named := false
		for _, t := range trailers {
			named = named || strings.HasPrefix(low, t)
		}
		if !named {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n")), true
}
