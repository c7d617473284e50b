package trajectory

import (
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/digest"
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

// Validate checks the shape.
func (p *CheckpointSaved) Validate() error { return texts("checkpoint", p.Checkpoint) }

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
// digest of what is there now; identical says that it is the checkpoint's.
type Rollback struct {
	Call       string         `json:"call"`
	Checkpoint string         `json:"checkpoint"`
	Identical  bool           `json:"identical"`
	Reason     string         `json:"reason" schema:"may be empty; long"`
	Restored   digest.Content `json:"restored"`
}

// Type is rollback.
func (*Rollback) Type() Type { return RollbackType }

// Validate checks the shape.
func (p *Rollback) Validate() error {
	return first(texts("call", p.Call, "checkpoint", p.Checkpoint), long("reason", p.Reason))
}

// Summary tells it in a line.
func (p *Rollback) Summary() string {
	if !p.Identical {
		return fmt.Sprintf("back to checkpoint %s, and it is not what was saved: %s", p.Checkpoint, p.Reason)
	}
	return fmt.Sprintf("back to checkpoint %s: %s", p.Checkpoint, p.Reason)
}

// Subject reports that there is none.
func (*Rollback) Subject() (string, bool) { return "", false }

func (*Rollback) golden() golden {
	return golden{line: []string{"checkpoint", "identical"}, without: []string{"restored"}}
}

// FileWrittenType is the type of [FileWritten].
const FileWrittenType Type = "file_written"

// FileWritten is a file of the working folder that is new or changed.
type FileWritten struct {
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
	Path   string         `json:"path" schema:"long"`
}

// Type is file_written.
func (*FileWritten) Type() Type { return FileWrittenType }

// Validate checks the shape.
func (p *FileWritten) Validate() error {
	return first(filled("path", p.Path), counts("bytes", p.Bytes))
}

// Summary tells it in a line.
func (p *FileWritten) Summary() string { return fmt.Sprintf("%s, %d bytes", p.Path, p.Bytes) }

// Subject is the path.
func (p *FileWritten) Subject() (string, bool) { return p.Path, true }

func (*FileWritten) golden() golden {
	return golden{line: []string{"path"}}
}

// TestRunType is the type of [TestRun].
const TestRunType Type = "test_run"

// TestRun is the test command of a coding case, run by the harness.
type TestRun struct {
	Command   []string `json:"command" schema:"not empty"`
	Exit      int      `json:"exit" schema:"any number"` // -1 if it was killed
	LatencyMS int64    `json:"latency_ms"`
	Output    Content  `json:"output"`
	Passed    bool     `json:"passed"`
}

// Type is test_run.
func (*TestRun) Type() Type { return TestRunType }

// Validate checks the shape.
func (p *TestRun) Validate() error {
	if len(p.Command) == 0 {
		return errors.New("command is empty")
	}
	if p.Passed != (p.Exit == 0) {
		return fmt.Errorf("passed is %v and the command ended with %d", p.Passed, p.Exit)
	}
	return first(ids("command", p.Command), counts("latency_ms", p.LatencyMS), p.Output.validate("output"))
}

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
