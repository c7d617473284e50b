package session

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// A rewinder is a tool box that remembers what its own tools did, and can take
// that back.
type rewinder interface {
	Snapshot() tools.Snapshot
	Restore(tools.Snapshot)
}

// A checkpoint is what there was before a call: the working folder, and what
// the tools remember.
type checkpoint struct {
	id     string
	folder *store.Picture
	known  *store.Picture // what events had told of it
	tools  *tools.Snapshot
	err    error // why the folder cannot be restored

	// standing are the effects of the call that cannot be taken back here.
	standing []string
}

// checkpoint takes a picture of the folder in autonomous mode, where a
// violation is answered by going back. It is written down when it is used.
func (s *Session) checkpoint(call string) *checkpoint {
	if s.cfg.Folder == nil || s.enforcer.Mode() != policy.Autonomous {
		return nil
	}
	c := &checkpoint{id: "before " + call, known: s.cfg.Folder.known}
	if box, ok := s.cfg.Tools.(rewinder); ok {
		at := box.Snapshot()
		c.tools = &at
	}
	c.folder, c.err = s.cfg.Folder.look(checkpointLimits)
	if c.err == nil {
		for i := range c.folder.Entries {
			if e := &c.folder.Entries[i]; !e.Kept() {
				c.err = refusal.Newf(refusal.FolderUnreadable, "the working folder is too large to be restored: %s has %d bytes", e.Name(), e.Size)
				break
			}
		}
	}
	return c
}

// effectOf notes what a call did that a rollback will not undo. Fixtures and
// folder tools act on what is here and is restored; whatever answered from
// elsewhere acted, or once acted, on a world of its own.
func (c *checkpoint) effectOf(call policy.Call, r tools.Result) {
	if c == nil || r.Source == tools.Fixture && c.tools != nil || call.Class == policy.Read {
		return
	}
	class := string(call.Class)
	if class == "" {
		class = "without a class"
	}
	c.standing = append(c.standing, fmt.Sprintf("the call of %s (%s)", cutText(call.Name, 200), class))
}

// rollBack takes back everything since the checkpoint, and records whether that
// is everything: what stands is named, and the rollback has failed then.
func (s *Session) rollBack(call, reason string, before *checkpoint) error {
	p := &trajectory.Rollback{Call: call, Checkpoint: before.id, Reason: cutText(s.safe(reason), maxDetail), Restored: digest.ContentOf(nil), Standing: before.standing}
	if before.err == nil {
		if err := s.event(&trajectory.CheckpointSaved{Checkpoint: before.id, Digest: before.folder.Digest()}); err != nil {
			return err
		}
	}
	if box, ok := s.cfg.Tools.(rewinder); ok && before.tools != nil {
		box.Restore(*before.tools)
	}
	if problem := s.restoreFolder(p, before); problem != "" {
		p.Standing = append(p.Standing, "the working folder: "+cutText(s.safe(problem), maxDetail))
	}
	p.Identical = len(p.Standing) == 0
	s.counts.Rollbacks++
	if p.Identical {
		s.counts.RollbacksIdentical++
	}
	return s.event(p)
}

// restoreFolder puts the folder back and says why it is not what it was, ""
// if it is.
func (s *Session) restoreFolder(p *trajectory.Rollback, before *checkpoint) string {
	if before.err != nil {
		return before.err.Error()
	}
	f := s.cfg.Folder
	problem := ""
	if err := before.folder.Restore(f.Dir, folderLimits); err != nil {
		problem = err.Error()
	}
	// What the call wrote is undone, and its events with it.
	f.known = before.known
	now, err := f.look(folderLimits)
	if err != nil {
		return err.Error()
	}
	p.Restored = now.Digest()
	if problem == "" && p.Restored != before.folder.Digest() {
		problem = "it is not what was saved"
		if left := store.Compare(before.folder, now); len(left) > 0 {
			problem = fmt.Sprintf("%s is not what was saved", store.EscapePath(left[0].Path()))
		}
	}
	return problem
}
