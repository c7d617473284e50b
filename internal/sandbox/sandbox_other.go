//go:build !linux

package sandbox

import (
	"context"

	"tallystick/internal/refusal"
)

// Reexec does nothing: sandboxes exist on Linux only.
func Reexec() {}

type runBase struct{}

func openRunBase(string) (*runBase, error) { return &runBase{}, nil }

func (*runBase) sweep() {}

func resolveExecutable(path string) (string, error) { return path, nil }

func openBackend(Class, Options, *runBase) (backend, error) {
	return nil, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}

// An ending is how a program ended; no program is run here.
type ending struct {
	verdict Verdict
	exit    int
	stdout  []byte
	stderr  string
	maxRSS  int64
}

type mount struct{}

func (*AgentOptions) checkMounts(*runBase) ([]mount, error) { return nil, nil }

func runAgent(context.Context, Class, AgentOptions, []mount, *runBase) (AgentResult, error) {
	return AgentResult{}, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}
