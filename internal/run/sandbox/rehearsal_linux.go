package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
)

// rehearsalPatience bounds the run of a rehearsal, and then the imports.
const rehearsalPatience = 20 * time.Second

// namesFile is where a rehearsal leaves the names of modules, in its working
// folder.
const namesFile = ".tally-modules"

// maxNamesBytes and maxNames bound what a rehearsal can say. A message to the
// preloader holds it.
const (
	maxNamesBytes = 64 << 10
	maxNames      = 2000
	maxNameBytes  = 200
)

// A rehearsalError means that what a rehearsal found made the preloader unfit.
type rehearsalError struct{ reason string }

func (e *rehearsalError) Error() string { return e.reason }

// rehearse runs the agent once without a case, and has the preloader import
// what it imported. That it cannot be done leaves the sandbox as it was; a
// rehearsalError means that the sandbox must be made again without.
func (b *warmBox) rehearse(ctx context.Context) error {
	names, err := b.rehearsed(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil || len(names) == 0 {
		if b.preload.Unrehearsed = "it imports nothing more"; err != nil {
			b.preload.Unrehearsed = err.Error()
		}
		if errors.As(err, new(*rehearsalError)) {
			return err
		}
		return nil
	}
	return b.importMore(ctx, names)
}

// rehearsed runs the agent in a room of its own and returns the names of the
// modules that it imported. What it tried is in no record: it was not a case.
func (b *warmBox) rehearsed(ctx context.Context) (names []string, err error) {
	r := b.options.Rehearsal
	dir, err := os.MkdirTemp(b.options.Folders, "rehearsal-")
	if err != nil {
		return nil, err
	}
	defer runfolder.RemoveTree(dir)
	o := b.options.Agent
	o.Env, o.Stdin, o.Gateway, o.WorkFolder = r.Env, strings.NewReader(r.Stdin), r.Gateway, dir
	o.OnStdout, o.Limits.Timeout = nil, min(o.Limits.Timeout, rehearsalPatience)
	owner, err := lendFolder(dir)
	if err != nil {
		return nil, err
	}
	p, err := b.makeRoom()
	if err != nil {
		return nil, err
	}
	t := firstprocess.Task{Work: filepath.Base(dir), Names: workDir + "/" + namesFile}
	out, emptied, err := b.run(ctx, p, o, t, calls.AgentLog(nil, nil))
	if !emptied {
		return nil, &rehearsalError{fmt.Sprintf("the rehearsal does not end: %v", err)}
	}
	if err == nil {
		err = owner.takeBack(&discards{})
	}
	if err != nil {
		return nil, err
	}
	if out.verdict != "" {
		return nil, fmt.Errorf("the rehearsal was ended: %s", out.verdict)
	}
	return readNames(dir)
}

// readNames reads what a rehearsal said. The agent can write there what it likes:
// what has not the form of a module's name is left out.
func readNames(dir string) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(namesFile)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("the rehearsal left no names of modules: %w", err)
	}
	f, err := root.Open(namesFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNamesBytes+1))
	if err != nil || len(text) > maxNamesBytes {
		return nil, fmt.Errorf("the rehearsal left more than %d bytes of names, or they cannot be read: %v", maxNamesBytes, err)
	}
	for name := range strings.Lines(string(text)) {
		if name = strings.TrimSuffix(name, "\n"); isModuleName(name) && len(names) < maxNames {
			names = append(names, name)
		}
	}
	return names, nil
}

// isModuleName reports whether a name is that of a Python module: words between
// dots, and no other characters.
func isModuleName(name string) bool {
	if len(name) > maxNameBytes {
		return false
	}
	for word := range strings.SplitSeq(name, ".") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

// importMore has the preloader import modules. If that starts a thread, acts,
// ends the preloader or takes too long, the sandbox is of no use any more.
func (b *warmBox) importMore(ctx context.Context, names []string) error {
	seen := calls.AgentLog(b.options.Agent.hiddenNames(), b.shown, b.options.Agent.Asked...)
	b.share(b.home, seen)
	patience := min(b.options.Patience, rehearsalPatience)
	answer := b.expect(firstprocess.OfImports)
	if err := b.order(firstprocess.Order{Import: names}); err != nil {
		return &rehearsalError{"importing what a rehearsal found: " + err.Error()}
	}
	var said struct{ Preload }
	unfit := ""
	select {
	case r := <-answer:
		switch err := json.Unmarshal(r.Preloaded, &said); {
		case r.Failed != "" || err != nil:
			unfit = fmt.Sprintf("it says %q, %v", r.Failed, err)
		case r.Threads > 1:
			unfit = "that starts a thread"
		case said.Modules < b.preload.Modules || said.Digest == "" || said.Milliseconds < 0:
			unfit = "the preloader's report makes no sense"
		}
	case <-b.lost:
		unfit = "that ends the preloader"
	case <-time.After(patience):
		unfit = fmt.Sprintf("that takes more than %v", patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.settleTrace()
	b.share(b.home, nil)
	if unfit == "" && len(seen.Attempts()) > 0 {
		unfit = fmt.Sprintf("that attempts %v", seen.Attempts()[0])
	}
	if unfit != "" {
		return &rehearsalError{"importing what a rehearsal found: " + unfit}
	}
	if b.preload.Rehearsed = said.Modules - b.preload.Modules; b.preload.Rehearsed == 0 {
		b.preload.Unrehearsed = "it imports nothing more that is installed"
	}
	b.preload.Modules, b.preload.Digest = said.Modules, said.Digest
	b.preload.Milliseconds += said.Milliseconds
	return nil
}
