package sandbox

import (
	"context"
	"time"

	"tallystick/internal/record/refusal"
)

// WarmOptions describe a sandbox in which the Python agent of an attempt is
// preloaded once, and forked for each case.
//
// Nothing but what was imported is shared by the cases. Each is a process of its
// own in a room of its own: mount, pid, network and IPC namespaces inside the
// sandbox, with its own working folder, /tmp, loopback and gateway.
type WarmOptions struct {
	// Agent is as for [RunAgent]: what to run, what to show, the limits of one
	// case. Command is the interpreter and then a file with its arguments, or -m,
	// a module and its arguments. Env is what the imports see. Stdin, Gateway and
	// WorkFolder are given with each run.
	Agent AgentOptions
	// Folders is the host folder that holds the working folders of all runs.
	Folders string
	Jobs    int // how many runs at once; 0 means 2
	// Patience bounds the imports; 0 means DefaultPreloadPatience.
	Patience time.Duration
	// Rehearsal is how to run the agent once before the first case, to learn
	// what it imports only when it is used; nil for not at all.
	Rehearsal *Rehearsal
}

// A Rehearsal is a run of the agent without a case, in a room and a folder that
// are thrown away with all that it did. Only the names of the modules that it
// imported leave it; the preloader then imports those that are installed. No
// case exists yet, so it can know of none.
type Rehearsal struct {
	Env     []string
	Stdin   string
	Gateway *Gateway // answers what no model said
}

// DefaultPreloadPatience is how long imports may take.
const DefaultPreloadPatience = 2 * time.Minute

// A Preload is what a warm sandbox imported before the first case.
type Preload struct {
	Modules      int    `json:"modules"`
	Digest       string `json:"digest"` // SHA-256 of their sorted names, one to a line
	Milliseconds int    `json:"milliseconds"`
	StderrHead   string `json:"stderr,omitempty"` // of standard output and error, the first 4 KiB
	Left         int    `json:"left,omitempty"`   // processes that the imports started, and that were killed
	Rehearsed    int    `json:"-"`                // how many of the modules a rehearsal found
	Unrehearsed  string `json:"-"`                // why a rehearsal was of no use
}

// A PreloadError says why the imports cannot be shared. It is the agent's
// failure and no fault of the sandbox.
type PreloadError struct {
	Reason  string
	Network bool // an import reached for the network
	Stderr  string
}

// Error says what to do as well: its reader has nothing else.
func (e *PreloadError) Error() string {
	text := "preloading: " + e.Reason
	if e.Network {
		text += "; imports run once for all cases, without network and without a key"
	}
	return text + `; move the call into a function, or drop "warm: python"`
}

// Run is [RunAgent] in a warm sandbox: Command, Env, Dir, Stdin, WorkFolder,
// Gateway, Limits and OnStdout of o are used, the rest is the sandbox's.
func (w *Warm) Run(ctx context.Context, o AgentOptions) (AgentResult, error) {
	began := time.Now()
	o.Accept, o.ReadOnly, o.Hidden, o.Asked = w.options.Agent.Accept, w.options.Agent.ReadOnly, w.options.Agent.Hidden, w.options.Agent.Asked
	if err := o.settle(); err != nil {
		return AgentResult{}, err
	}
	if o.WorkFolder == "" {
		return AgentResult{}, refusal.Newf(refusal.Usage, "a warm agent needs a working folder")
	}
	r, err := w.run(ctx, o)
	r.Class, r.Wall = w.class, time.Since(began)
	return r, err
}
