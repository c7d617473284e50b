package dossier

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"tallystick/internal/record/plain"
)

// gitTimeout bounds how long git is asked: a repository that takes longer is told
// as one that was not asked.
const gitTimeout = 20 * time.Second

// A Repository is a folder that git is asked about: what it remembers of a workspace
// stays, even if an old ledger is put back.
type Repository struct {
	Dir  string
	Path string // where programs are looked for

	gitDir string // if it has no working tree: that of a submodule
}

// maxGitOutput bounds what is taken from git.
const maxGitOutput = 256 << 20

// Run runs a plumbing command of git in the folder, in an environment of its own:
// what GIT_DIR and its like say in ours leads nowhere, grafts and replaced objects
// hide nothing. The error has what git said first.
//
// The repository is untrusted until proved otherwise: only plumbing that
// runs nothing the repository's settings name, no hooks, no pager, no filter, no
// transport.
func (r Repository) Run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return r.run(ctx, stdin, append([]string{"--literal-pathspecs"}, args...)...)
}

// run is Run with patterns for paths.
func (r Repository) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	safe := []string{"--no-optional-locks", "--no-pager", "--no-replace-objects", "-C", r.Dir,
		"-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "-c", "core.commitGraph=false"}
	if r.gitDir != "" {
		safe = append(safe, "--git-dir="+r.gitDir)
	}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Env = []string{"PATH=" + r.Path, "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_GRAFT_FILE=/dev/null"}
	cmd.Stdin = bytes.NewReader(stdin)
	said := &firstLine{}
	cmd.Stderr = said
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
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("git did not answer in time: %w", ctx.Err())
	case err != nil && len(said.text) > 0:
		err = fmt.Errorf("%w: %s", err, plain.Line(string(said.text)))
	}
	return data, err
}

// A firstLine keeps the beginning of what a program says, and drops the rest.
type firstLine struct {
	text []byte
	over bool
}

func (f *firstLine) Write(p []byte) (int, error) {
	line, _, ended := bytes.Cut(p, []byte("\n"))
	if !f.over {
		f.text = append(f.text, line[:min(len(line), 300-len(f.text))]...)
		f.over = ended || len(f.text) == 300
	}
	return len(p), nil
}
