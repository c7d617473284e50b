package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
)

// warmPython is the one language of which imports can be shared.
const warmPython = "python"

// pythonName is what an interpreter is called.
var pythonName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^python(3(\.[0-9]+)?)?$`) })

// checkWarm refuses a command whose imports cannot be told.
func (c *Command) checkWarm() error {
	switch {
	case c.Warm == "":
		return nil
	case c.Warm != warmPython:
		return fmt.Errorf("warm: found %q, expected %s", c.Warm, warmPython)
	}
	args := c.Command[1:]
	file := len(args) > 0 && !strings.HasPrefix(args[0], "-")
	module := len(args) > 1 && args[0] == "-m" && !strings.HasPrefix(args[1], "-")
	if !pythonName().MatchString(path.Base(c.Command[0])) || !file && !module {
		return fmt.Errorf("warm: the command is %q, expected python FILE or python -m MODULE, and arguments", c.Command)
	}
	return nil
}

// A Warm is the sandbox of an attempt in which a command is preloaded. It is
// safe for concurrent use. Close it.
//
// Imports are made once, without network, token or case, and every case is a
// fork in a room of its own: see [sandbox.WarmOptions].
type Warm struct {
	// Folders is where the working folders of the cases must be.
	Folders string

	box    *sandbox.Warm
	model  *http.Server // of the rehearsal
	remove func() error
}

// IsWarm reports whether the target asks to be preloaded.
func (t *Target) IsWarm() bool { return t.Command != nil && t.Command.Warm != "" }

// OpenWarm prepares the sandbox for as many cases at once as jobs says.
func (t *Target) OpenWarm(ctx context.Context, o Options, jobs int) (*Warm, error) {
	dir, remove, err := store.TempDir("tally-warm-")
	if err != nil {
		return nil, err
	}
	w := &Warm{Folders: filepath.Join(dir, "work"), remove: remove}
	if err := store.Passage(w.Folders); err != nil {
		w.Close()
		return nil, err
	}
	r := &commandRun{c: t.Command, venv: t.venv, modules: t.modules, root: t.root, hosts: t.hosts, o: o, vars: t.variables()}
	removeFiles, err := r.plant(t)
	if err != nil {
		w.Close()
		return nil, err
	}
	w.remove = func() error { return errors.Join(removeFiles(), remove()) }
	rehearsal, err := r.rehearsal()
	if err != nil {
		w.Close()
		return nil, err
	}
	w.model = &http.Server{Handler: http.HandlerFunc(rehearseModel), ErrorLog: log.New(io.Discard, "", 0)}
	go w.model.Serve(rehearsal.Gateway)
	w.box, err = sandbox.OpenWarm(ctx, sandbox.WarmOptions{Agent: r.sandbox(nil), Folders: w.Folders, Jobs: jobs, Rehearsal: rehearsal})
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Preload imports now, so that no case waits for it. What the imports do wrong
// is the agent's failure in every case, and not said here.
func (w *Warm) Preload(ctx context.Context) error {
	_, _, err := w.box.Preload(ctx)
	var unfit *sandbox.PreloadError
	if errors.As(err, &unfit) {
		return nil
	}
	return err
}

// Close ends the sandbox and removes what it needed.
func (w *Warm) Close() error {
	if w == nil {
		return nil
	}
	var err error
	if w.box != nil {
		err = w.box.Close()
	}
	if w.model != nil {
		w.model.Close() // and its gateway
	}
	return errors.Join(err, w.remove())
}

// warmFailure is the agent's failure if its imports cannot be shared.
func warmFailure(err error) error {
	var unfit *sandbox.PreloadError
	if !errors.As(err, &unfit) {
		return err
	}
	if unfit.Stderr == "" {
		return refusal.Newf(refusal.AgentFailed, "%w", err)
	}
	return refusal.Newf(refusal.AgentFailed, "%w; its standard error begins: %s", err, clip(unfit.Stderr, 500))
}
