package dossier

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

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// What is looked at in git is bounded: a day has one anchor, and a repository
// that holds more, or takes longer, is not one of ours.
const (
	gitTimeout  = 20 * time.Second
	maxGitBlobs = 5000
	anchorsPath = "audit/anchors"
)

// A Repository is a folder that git is asked about: what it remembers of a workspace
// stays, whoever puts an old ledger back.
type Repository struct {
	Dir  string
	Path string // where programs are looked for
}

// A gitAnchor is one that git holds, somewhere in the history of the branch or of what
// it follows. Nothing about it is verified yet.
type gitAnchor struct {
	ledger.Anchor
	Data []byte
	Blob string
}

// Anchors reads every anchor of an origin that git knows of: in the commits
// of the current branch and of its upstream, as of the last fetch. Whoever puts an
// old ledger back can delete files and memories; what was pushed stays in the
// history. Nil where there is no repository, or no git.
//
// The repository is somebody else's until proved otherwise: only plumbing that
// runs nothing the repository's settings name, no hooks, no pager, no filter, no
// transport, no replaced objects.
func (r Repository) Anchors(ctx context.Context, origin string) ([]gitAnchor, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	var tips []string
	for _, ref := range []string{"HEAD", "@{upstream}"} {
		if out, err := r.Run(ctx, nil, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err == nil {
			tips = append(tips, strings.TrimSpace(string(out)))
		}
	}
	if len(tips) == 0 {
		return nil, nil // no repository, or no commit yet
	}
	listed, err := r.Run(ctx, nil, append(append([]string{"rev-list", "--objects", "--full-history"}, tips...), "--", anchorsPath)...)
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
	data, err := r.Run(ctx, []byte(strings.Join(blobs, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading anchors from git: %w", err)
	}
	return parseAnchors(data, origin), nil
}

// parseAnchors reads what "git cat-file --batch" prints. What is not an anchor of
// the origin is somebody else's file.
func parseAnchors(data []byte, origin string) []gitAnchor {
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
		if a, err := ledger.ParseAnchor(blob[:size]); err == nil && a.Origin == origin {
			out = append(out, gitAnchor{*a, blob[:size], fields[0]})
		}
	}
}

// maxGitOutput bounds what is taken from git.
const maxGitOutput = 256 << 20

// Run runs a plumbing command of git in the folder, in an environment of its own.
func (r Repository) Run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	safe := []string{"--no-optional-locks", "--no-pager", "--no-replace-objects", "--literal-pathspecs", "-C", r.Dir,
		"-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "-c", "core.commitGraph=false"}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Env = []string{"PATH=" + r.Path, "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
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
