package trajectory

import (
	"fmt"
	"strings"

	"tallystick/internal/record/digest"
)

// CheckpointSavedType is the type of [CheckpointSaved].
const CheckpointSavedType Type = "checkpoint_saved"

// CheckpointSaved is a state of the working folder that can be restored.
type CheckpointSaved struct {
	Checkpoint string         `json:"checkpoint"`
	Digest     digest.Content `json:"digest"`
}

// Type is checkpoint_saved.
func (*CheckpointSaved) Type() Type { return CheckpointSavedType }

// Summary tells it in a line.
func (p *CheckpointSaved) Summary() string { return "saves checkpoint " + p.Checkpoint }

// Subject reports that there is none.
func (*CheckpointSaved) Subject() (string, bool) { return "", false }

func (*CheckpointSaved) golden() golden {
	return golden{line: []string{"checkpoint"}, without: []string{"digest"}}
}

// RollbackType is the type of [Rollback].
const RollbackType Type = "rollback"

// Rollback is a return to a checkpoint after a violation. Restored is the
// digest of what the working folder holds now. Identical says that everything
// since the checkpoint is undone; otherwise standing names what is not: the
// folder, or calls with an effect that cannot be taken back here.
type Rollback struct {
	Call       string         `json:"call"`
	Checkpoint string         `json:"checkpoint"`
	Identical  bool           `json:"identical"`
	Reason     string         `json:"reason"`
	Restored   digest.Content `json:"restored"`
	Standing   []string       `json:"standing,omitempty"` // not in v1
}

// Type is rollback.
func (*Rollback) Type() Type { return RollbackType }

// Summary tells it in a line.
func (p *Rollback) Summary() string {
	switch {
	case len(p.Standing) > 0:
		return fmt.Sprintf("not undone: %s; back to checkpoint %s: %s", strings.Join(p.Standing, ", "), p.Checkpoint, p.Reason)
	case !p.Identical:
		return fmt.Sprintf("back to checkpoint %s, and it is not what was saved: %s", p.Checkpoint, p.Reason)
	}
	return fmt.Sprintf("back to checkpoint %s: %s", p.Checkpoint, p.Reason)
}

// Subject reports that there is none.
func (*Rollback) Subject() (string, bool) { return "", false }

func (*Rollback) golden() golden {
	return golden{line: []string{"checkpoint", "identical", "standing"}, without: []string{"restored"}}
}

// FileWrittenType is the type of [FileWritten].
const FileWrittenType Type = "file_written"

// FileWritten is a file of the working folder that is new or not as it was: its
// bytes, its mode, or where it points. Events of the kind are written after a
// tool that writes files, at the end of each turn and at the agent's end, for
// what differs from the last look.
//
// The path and the link are escaped: a byte that is not printable text is \xNN,
// a backslash two. Of a link, bytes and digest are those of its target's name.
type FileWritten struct {
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
	Link   string         `json:"link,omitempty"` // where a symbolic link points; not in v1
	Mode   string         `json:"mode,omitempty"` // four octal digits, if they are not 0644; not in v1
	Path   string         `json:"path"`
}

// Type is file_written.
func (*FileWritten) Type() Type { return FileWrittenType }

// Summary tells it in a line.
func (p *FileWritten) Summary() string {
	switch {
	case p.Link != "":
		return fmt.Sprintf("%s, a link to %s", p.Path, p.Link)
	case p.Mode != "":
		return fmt.Sprintf("%s, %d bytes, mode %s", p.Path, p.Bytes, p.Mode)
	}
	return fmt.Sprintf("%s, %d bytes", p.Path, p.Bytes)
}

// Subject is the path.
func (p *FileWritten) Subject() (string, bool) { return p.Path, true }

func (*FileWritten) golden() golden {
	return golden{line: []string{"path"}}
}

// FileDeletedType is the type of [FileDeleted].
const FileDeletedType Type = "file_deleted"

// FileDeleted is a file or link of the working folder that is gone. The path is
// escaped as in [FileWritten].
type FileDeleted struct {
	Path string `json:"path"`
}

// Type is file_deleted.
func (*FileDeleted) Type() Type { return FileDeletedType }

// Summary tells it in a line.
func (p *FileDeleted) Summary() string { return p.Path }

// Subject is the path.
func (p *FileDeleted) Subject() (string, bool) { return p.Path, true }

func (*FileDeleted) golden() golden {
	return golden{line: []string{"path"}}
}

// TestRunType is the type of [TestRun].
const TestRunType Type = "test_run"

// TestRun is the test command of a coding case, run by the harness.
type TestRun struct {
	Command []string `json:"command"`
	Exit    int      `json:"exit"` // -1 if it was killed, or if its output is not that of a test that passes
	// Ignored are the agent's changes that the test did not get, because they
	// are of files that decide what a test is; escaped paths. Not in v1.
	Ignored   []string `json:"ignored,omitempty"`
	LatencyMS int64    `json:"latency_ms"`
	Output    Content  `json:"output"`
	Passed    bool     `json:"passed"`
}

// Type is test_run.
func (*TestRun) Type() Type { return TestRunType }

// Summary tells it in a line.
func (p *TestRun) Summary() string {
	if p.Passed {
		return "passed: " + strings.Join(p.Command, " ")
	}
	return fmt.Sprintf("failed with %d: %s", p.Exit, strings.Join(p.Command, " "))
}

// Subject reports that there is none.
func (*TestRun) Subject() (string, bool) { return "", false }

func (*TestRun) golden() golden {
	return golden{line: []string{"passed"}, without: []string{"output"}}
}
