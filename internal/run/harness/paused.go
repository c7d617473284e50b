package harness

import (
	"context"
	"fmt"
	"runtime"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// Bounds of a final folder that travels to the runner of the case's test. They
// are less than what one result of a fleet may have, with its other pieces.
const (
	maxCarriedFolder = 192 << 20 // bytes of what the agent changed
	maxCarriedFile   = 120 << 20
	maxCarriedFiles  = 15_000
	maxCarriedNames  = 1 << 20 // bytes of paths and links
)

// fitsToTravel refuses a folder that is too large for the journey.
func (r *run) fitsToTravel() error {
	changes, err := r.folder.Changes()
	if err != nil {
		return err
	}
	total, names := int64(0), 0
	for _, c := range changes {
		names += len(store.EscapePath(c.Path()))
		if e := c.After; e != nil {
			total, names = total+e.Size, names+len(store.EscapePath(e.Link))
			if e.Size > maxCarriedFile {
				return refusal.Newf(refusal.TooLarge, "%s has %d bytes; a file of more than %d does not travel to where the test runs", e.Name(), e.Size, maxCarriedFile).WithHint("run the case on one machine, without --fleet")
			}
		}
	}
	if total > maxCarriedFolder || len(changes) > maxCarriedFiles || names > maxCarriedNames {
		return refusal.Newf(refusal.TooLarge, "the agent left %d changed files with %d bytes; more than %d, or %d bytes, or %d bytes of names, do not travel to where the test runs", len(changes), total, maxCarriedFiles, maxCarriedFolder, maxCarriedNames).
			WithHint("run the case on one machine, without --fleet")
	}
	return nil
}

// gatherToTravel is gather, or, if another process runs the case's test, what
// that takes: all that the agent changed, however much is kept as evidence.
func (r *run) gatherToTravel(g *Graded) error {
	if !r.paused {
		return r.gather(g)
	}
	r.gatherTexts(g)
	changes, err := r.folder.Changes()
	if err != nil {
		return err
	}
	for i := range changes {
		if changes[i].After, err = r.whole(changes[i].After); err != nil {
			return err
		}
	}
	g.Files.Folder, err = r.keepFolder(g, changes, maxCarriedFolder)
	return err
}

// whole is an entry of the final folder with its bytes.
func (r *run) whole(e *store.Entry) (*store.Entry, error) {
	if e == nil || e.Kept() {
		return e, nil
	}
	data, err := e.Read(r.folder.Dir, maxCarriedFile)
	if err != nil {
		return nil, refusal.Newf(refusal.FolderUnreadable, "%s: %w", e.Name(), err)
	}
	kept, ok := store.NewEntry(e.Path, "", false, e.Mode, data)
	if !ok {
		return nil, refusal.Newf(refusal.FolderUnreadable, "%s is not a name that can travel", e.Name())
	}
	return &kept, nil
}

// boundFolder refuses a folder that no honest driver sends, before anything of it is on
// disk: many names of one large piece cost a worker nothing.
func (d *DriveResult) boundFolder() error {
	if d.Files.Folder == nil {
		return nil
	}
	if n := len(d.Files.Folder.Changed); n > maxFolderList {
		return foreign("the final folder has %d changes, at most %d are accepted", n, maxFolderList)
	}
	total := int64(0)
	for _, f := range d.Files.Folder.Changed {
		if f.Digest != nil {
			total += int64(len(d.Pieces[*f.Digest]))
		}
	}
	if total > maxCarriedFolder {
		return foreign("the final folder has %d bytes, at most %d are accepted", total, maxCarriedFolder)
	}
	return nil
}

// hasFolder refuses a result that leaves out what the agent left in its folder, though it
// is little enough to travel, or has a folder of a case that begins with other files.
func (r *run) hasFolder(v *trajectory.Verified) error {
	folder := r.remote.Files.Folder
	if !r.paused && !needsFolder(r.w.cfg.Target, &r.c.Scenario) {
		if folder != nil || r.remote.Files.Diff != nil {
			return foreign("it has a final folder, and the case has none")
		}
		return nil
	}
	if folder != nil {
		start, err := (&digest.Tree{Files: r.c.Files}).Digest()
		if err == nil && start != folder.Start {
			err = foreign("the final folder is of a case that begins with other files")
		}
		return err
	}
	if r.result.Folder != nil { // its contents are unknown, and the trajectory says so
		return nil
	}
	total := int64(0)
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.FileWritten:
			total += p.Bytes
		case *trajectory.RunFailed: // it may have ended before the folder was looked at
			return nil
		}
	}
	if total <= maxKeptFolder {
		return foreign("the final folder is missing, and the trajectory tells of %d bytes in it", total)
	}
	return nil
}

// maxFolderList is more than a working folder may hold.
const maxFolderList = 60_000

// sameFolder compares the final folder with what the trajectory tells of it, so that the
// folder of another run is not taken for that of this one. A trajectory that goes back
// to an earlier state does not tell the last one.
func (r *run) sameFolder(v *trajectory.Verified) error {
	if r.folder == nil {
		return nil
	}
	told := map[string]*trajectory.FileWritten{} // nil for what was deleted
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.Rollback:
			return nil
		case *trajectory.FileWritten:
			told[p.Path] = p
		case *trajectory.FileDeleted:
			told[p.Path] = nil
		}
	}
	now, err := r.folder.Now()
	if err != nil {
		return foreign("the final folder: %v", err)
	}
	changes, err := r.folder.Changes()
	if err != nil {
		return foreign("the final folder: %v", err)
	}
	for _, c := range changes {
		isFile := c.After != nil && c.After.Kind != store.FolderEntry
		if _, ok := told[store.EscapePath(c.Path())]; !ok && (isFile || c.Before != nil && c.Before.Kind != store.FolderEntry) {
			return foreign("the final folder has another %s, of which the trajectory does not tell", store.EscapePath(c.Path()))
		}
	}
	for name, p := range told {
		if !asTold(now, name, p) {
			return foreign("%.200s of the final folder is not as the trajectory tells", name)
		}
	}
	return nil
}

// asTold reports whether a path of the folder is what the last event about it says.
func asTold(now *store.Picture, name string, p *trajectory.FileWritten) bool {
	path, ok := store.UnescapePath(name)
	if !ok {
		return false
	}
	e := now.Find(path)
	if p == nil {
		return e == nil || e.Kind == store.FolderEntry
	}
	mode := ""
	if e != nil && e.Kind == store.FileEntry && e.Mode != store.FileMode {
		mode = fmt.Sprintf("%04o", e.Mode)
	}
	return e != nil && e.Kind != store.FolderEntry && e.Digest == p.Digest && store.EscapePath(e.Link) == p.Link && mode == p.Mode
}

// concludeWithin brings a paused case to its end here: its test is run on what the agent
// left elsewhere, as it would be on what an agent leaves here.
func (r *run) concludeWithin(ctx context.Context) error {
	w := r.w
	select {
	case w.testing <- struct{}{}:
		defer func() { <-w.testing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	log, err := trajectory.Continue(r.result.Trajectory, trajectory.HeadIs(r.result.Head))
	if err != nil {
		return asForeign(err)
	}
	cfg := session.Config{Rules: w.rules, Limits: w.limits, Folder: r.folder}
	if w.cfg.Live != nil {
		cfg.Redactor = w.cfg.Live.Redactor()
	}
	if r.s, err = session.Continue(cfg, log, r.result.Contents, r.result.Plan); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, w.limits.Wall, errWallClock)
	defer cancel()
	r.conclude(within, r.driven.Answer, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// tests is how many tests of cases run at once where only tests run: as many as --jobs
// says, or one for each core.
func (w *Worker) tests() chan struct{} {
	n := w.cfg.Spec.Jobs
	if n < 1 {
		n = runtime.NumCPU()
	}
	return make(chan struct{}, n)
}
