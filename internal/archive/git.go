package archive

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
)

// What is looked at in git is bounded: a day has one anchor, and a repository
// that holds more, or takes longer, is not one of ours.
const (
	gitTimeout  = 20 * time.Second
	maxGitBlobs = 5000
	anchorsPath = "audit/anchors"
)

// A gitAnchor is an anchor that git holds, somewhere in the history of the branch
// or of what it follows. Nothing about it is verified yet.
type gitAnchor struct {
	ledger.Anchor
	data []byte
	blob string
}

// gitAnchors reads every anchor of this origin that git knows of: in the commits
// of the current branch and of its upstream, as of the last fetch. Whoever puts an
// old ledger back can delete files and memories; what was pushed stays in the
// history. Nil where there is no repository, or no git.
//
// The repository is somebody else's until proved otherwise: only plumbing that
// runs nothing the repository's settings name, no hooks, no pager, no filter, no
// transport, no replaced objects.
func (p *Place) gitAnchors(ctx context.Context) ([]gitAnchor, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	var tips []string
	for _, ref := range []string{"HEAD", "@{upstream}"} {
		if out, err := p.git(ctx, nil, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err == nil {
			tips = append(tips, strings.TrimSpace(string(out)))
		}
	}
	if len(tips) == 0 {
		return nil, nil // no repository, or no commit yet
	}
	listed, err := p.git(ctx, nil, append(append([]string{"rev-list", "--objects", "--full-history"}, tips...), "--", anchorsPath)...)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking for anchors in git: %w", err).WithHint("\"git fsck\" tells what is wrong with the repository")
	}
	var blobs []string
	for line := range strings.Lines(string(listed)) {
		id, name, named := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if named && strings.HasSuffix(name, ".json") && strings.Contains("/"+name, "/"+anchorsPath+"/") {
			blobs = append(blobs, id)
		}
	}
	if len(blobs) > maxGitBlobs {
		blobs = blobs[:maxGitBlobs] // the newest come first
	}
	if len(blobs) == 0 {
		return nil, nil
	}
	data, err := p.git(ctx, []byte(strings.Join(blobs, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading anchors from git: %w", err)
	}
	return p.parseGitAnchors(data), nil
}

// parseGitAnchors reads what "git cat-file --batch" prints. What is not an anchor
// of this ledger is somebody else's file.
func (p *Place) parseGitAnchors(data []byte) []gitAnchor {
	var out []gitAnchor
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		header, err := r.ReadString('\n')
		if err != nil {
			return out
		}
		fields := strings.Fields(header)
		if len(fields) != 3 {
			continue // missing: nothing follows
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 {
			return out
		}
		blob := make([]byte, size+1) // and a newline
		if _, err := io.ReadFull(r, blob); err != nil {
			return out
		}
		if size > ledger.MaxAnchorBytes {
			continue
		}
		if a, err := ledger.ParseAnchor(blob[:size]); err == nil && a.Origin == p.Settings.Origin {
			out = append(out, gitAnchor{*a, blob[:size], fields[0]})
		}
	}
}

// maxGitOutput bounds what is taken from git.
const maxGitOutput = 256 << 20

// git runs a plumbing command of git in the workspace's folder, in an environment
// of its own.
func (p *Place) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	safe := []string{"--no-optional-locks", "--no-pager", "--no-replace-objects", "--literal-pathspecs", "-C", p.Dir,
		"-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "-c", "core.commitGraph=false"}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Env = []string{"PATH=" + p.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0"}
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(out, maxGitOutput))
	if len(data) == maxGitOutput {
		cmd.Process.Kill()
		err = fmt.Errorf("git printed more than %d bytes", maxGitOutput)
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return data, err
}

// A gitCheck compares a ledger with the anchors that git holds. A nil one compares
// nothing.
type gitCheck struct {
	place   *Place
	anchors []gitAnchor
	heads   map[int64]digest.ID // of the ledger, at their sizes, as it is verified
}

// newGitCheck reads the anchors. A checkout's own ledger has none in git.
func (p *Place) newGitCheck(ctx context.Context) (*gitCheck, error) {
	if p.Shared != nil {
		return nil, nil
	}
	anchors, err := p.gitAnchors(ctx)
	c := &gitCheck{p, anchors, make(map[int64]digest.ID)}
	for _, a := range anchors {
		c.heads[a.Size] = digest.ID{}
	}
	return c, err
}

func (c *gitCheck) visit(rec ledger.Record) {
	if c == nil {
		return
	}
	if _, wanted := c.heads[rec.Index+1]; wanted {
		c.heads[rec.Index+1] = rec.Head
	}
}

// verify compares the verified ledger with the anchors, given how many there are
// in the work tree. Only those that an operator of this ledger signed count:
// anybody can commit a file.
func (c *gitCheck) verify(v *ledger.Verified, there int) error {
	if c == nil {
		return nil
	}
	var gone error // that the files are gone is the least of it
	for _, a := range c.anchors {
		if _, err := ledger.VerifyAnchor(a.data, ledger.Policy{Logs: v.EveryKey()}); err != nil {
			c.place.Note("git object %s says that it is an anchor of %d entries on %s; no operator of this ledger signed it", a.blob, a.Size, a.Date)
			continue
		}
		switch {
		case a.Size > v.Size:
			return refusal.Newf(refusal.HistoryRolledBack, "git has an anchor of %d entries, published on %s (object %s); the ledger has %d", a.Size, a.Date, a.blob, v.Size).
				WithHint("an old ledger was put back; restore the newest copy. Nothing was published")
		case c.heads[a.Size] != a.Head:
			return refusal.Newf(refusal.HistoryForked, "git has an anchor of %d entries with the head %s, published on %s (object %s); here that entry has the head %s", a.Size, a.Head, a.Date, a.blob, c.heads[a.Size]).
				WithHint("two histories cannot both be true; keep both, and see \"tally help forks\". Nothing was published")
		case there == 0:
			gone = refusal.Newf(refusal.MissingAnchor, "git has an anchor of %d entries, published on %s, and there is no anchor in %s", a.Size, a.Date, c.place.AnchorsDir()).
				WithHint(`restore them with "git checkout -- audit/anchors"`)
		}
	}
	return gone
}
