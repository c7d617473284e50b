//go:build !linux

package sandbox

import (
	"context"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/isolation"
	"tallystick/internal/run/sandbox/runfolder"
)

// worths lists what each class is worth, strongest first.
func worths() []isolation.Class { return isolation.Classes() }

// Reexec does nothing: sandboxes exist on Linux only.
func Reexec() {}

func resolveExecutable(path string) (string, error) { return path, nil }

func openBackend(Class, Options, *runfolder.Base) (backend, error) {
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

func (*AgentOptions) checkMounts(*runfolder.Base) ([]mount, error) { return nil, nil }

func runAgent(context.Context, Class, AgentOptions, []mount, *runfolder.Base) (AgentResult, error) {
	return AgentResult{}, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}

// A Warm is a sandbox in which an agent is preloaded.
type Warm struct {
	options WarmOptions
	class   Class
}

// OpenWarm refuses.
func OpenWarm(context.Context, WarmOptions) (*Warm, error) {
	return nil, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}

// Class is the isolation that was chosen.
func (w *Warm) Class() Class { return w.class }

// Close does nothing.
func (w *Warm) Close() error { return nil }

// Preload refuses.
func (w *Warm) Preload(context.Context) (Preload, []Attempt, error) {
	return Preload{}, nil, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}

func (w *Warm) run(context.Context, AgentOptions) (AgentResult, error) {
	return AgentResult{}, refusal.Newf(refusal.SandboxUnavailable, "only on Linux")
}
