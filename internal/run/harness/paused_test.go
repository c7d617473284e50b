package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// A pausedCase is a case with a hidden test, driven by a worker that knows of none.
type pausedCase struct {
	w      *Worker
	driver *Driver
	driven *DriveResult
}

const testedLine = folderLine + `,"tests":{"check.py":"hidden"},"test":{"command":["python3","/tests/check.py"],"timeout_seconds":10}}`

func newPausedCase(t *testing.T, line string) *pausedCase {
	t.Helper()
	p := newPlace(t, line)
	cfg, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := prepare(cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := ready.worker
	w.rubrics = newRubrics(w.cfg, w.reg.Isolation)
	d, err := NewDriver(context.Background(), Config{Spec: Spec{Class: w.class, Version: "v0"}, Target: cfg.Target, Now: p.clock}, DriverClass{Registration: w.reg, Offered: w.offered})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	k := &pausedCase{w: w, driver: d}
	k.driven = k.drive(t, 1)
	return k
}

func (k *pausedCase) drive(t *testing.T, repeat int) *DriveResult {
	t.Helper()
	c, err := k.w.cases.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	c.Tests, c.Scenario.Test = nil, nil
	driven, err := k.driver.Drive(context.Background(), c, Job{Attempt: "sums.default.1", Case: c.ID, Repeat: repeat, Execution: 1}, true)
	if err != nil {
		t.Fatal(err)
	}
	return driven
}

// accept takes what was driven as the coordinator does.
func (k *pausedCase) accept(t *testing.T) (*run, error) {
	t.Helper()
	r, err := k.w.take(0, Job{Attempt: "sums.default.1", Case: "w", Repeat: 1, Execution: 1})
	if err != nil {
		t.Fatal(err)
	}
	remove, err := k.w.accept(t.Context(), r, k.driven)
	t.Cleanup(remove)
	return r, err
}

// changed gives the final folder for a forger.
func (k *pausedCase) changed() *[]evidence.ChangedFile { return &k.driven.Files.Folder.Changed }

func (k *pausedCase) put(text []byte) *digest.Content {
	d := digest.ContentOf(text)
	k.driven.Pieces[d] = text
	return &d
}

// TestPausedCaseGoesOnWhereItStopped: the folder is as the agent left it, and what is
// written next follows the trajectory of the worker.
func TestPausedCaseGoesOnWhereItStopped(t *testing.T) {
	k := newPausedCase(t, testedLine)
	r, err := k.accept(t)
	if err != nil {
		t.Fatal(err)
	}
	if data, ok, err := r.file("new/x.txt"); err != nil || !ok || string(data) != "three" {
		t.Errorf("new/x.txt is %q, %v, %v", data, ok, err)
	}
	if _, ok, _ := r.file("b.txt"); ok {
		t.Error("b.txt is there again")
	}
	before := r.result
	log, err := trajectory.Continue(before.Trajectory, trajectory.HeadIs(before.Head))
	if err != nil {
		t.Fatal(err)
	}
	if r.s, err = session.Continue(session.Config{Rules: k.w.rules, Limits: k.w.limits, Folder: r.folder}, log, before.Contents, before.Plan); err != nil {
		t.Fatal(err)
	}
	r.c.Scenario.Test = nil // it would need a sandbox
	r.conclude(context.Background(), r.driven.Answer, nil)
	whole, err := trajectory.Verify(r.result.Trajectory, trajectory.HeadIs(r.result.Head))
	if err != nil || !whole.Complete() || !bytes.HasPrefix(r.result.Trajectory, before.Trajectory) || whole.Len() != before.Verified.Len()+1 {
		t.Errorf("the trajectory has %d events after %d, %v", whole.Len(), before.Verified.Len(), err)
	}
	if r.result.Counts != before.Counts {
		t.Errorf("counted %+v, and before %+v", r.result.Counts, before.Counts)
	}
}

// TestForgedFoldersAreRefused: what a worker says that the agent left must be what its
// trajectory tells, and nothing of it is written elsewhere.
func TestForgedFoldersAreRefused(t *testing.T) {
	outside := t.TempDir()
	for _, tt := range []struct {
		name, want string
		forge      func(k *pausedCase)
	}{
		{"a file that the agent did not write", "of which the trajectory does not tell", func(k *pausedCase) {
			*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: "tests/check.py", Digest: k.put([]byte("print('passed')"))})
		}},
		{"another text of a file", "is not as the trajectory tells", func(k *pausedCase) { (*k.changed())[1].Digest = k.put([]byte("solved")) }},
		{"a file that may be started", "is not as the trajectory tells", func(k *pausedCase) { (*k.changed())[1].Mode = "0755" }},
		{"a change that is left out", "is not as the trajectory tells", func(k *pausedCase) { *k.changed() = (*k.changed())[:1] }},
		{"a link out of the folder", "of which the trajectory does not tell", func(k *pausedCase) {
			*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: "out", Link: outside})
		}},
		{"a file behind a link out of the folder", "", func(k *pausedCase) {
			*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: "out", Link: outside}, evidence.ChangedFile{Path: "out/f", Digest: k.put([]byte("x"))})
		}},
		{"a path out of the folder", "which no working folder can have", func(k *pausedCase) { (*k.changed())[1].Path = "../x.txt" }},
		{"a path that is named twice", "", func(k *pausedCase) {
			*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: "new/x.txt", Digest: k.put([]byte("solved"))})
		}},
		{"the folder of a case with other files", "begins with other files", func(k *pausedCase) { k.driven.Files.Folder.Start = digest.ContentOf([]byte("x")) }},
		{"no folder", "the final folder is missing", func(k *pausedCase) { k.driven.Files.Folder = nil }},
		{"many names of one large piece", "bytes, at most", func(k *pausedCase) {
			large := k.put(make([]byte, 8<<20))
			for i := range 25 {
				*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: fmt.Sprint("n", i), Digest: large})
			}
		}},
		{"more names than a folder holds", "changes, at most", func(k *pausedCase) {
			for i := range maxFolderList {
				*k.changed() = append(*k.changed(), evidence.ChangedFile{Path: fmt.Sprint("n", i), Folder: true})
			}
		}},
		{"an answer that the agent did not give", "is not that of the trajectory", func(k *pausedCase) { k.driven.Files.Answer = k.put([]byte("solved")) }},
		{"a log of the test", "only grading makes", func(k *pausedCase) { k.driven.Files.TestLog = k.put([]byte("passed")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newPausedCase(t, testedLine)
			tt.forge(k)
			_, err := k.accept(t)
			if err == nil || !refusal.Is(asForeign(err), refusal.ResultRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, expected %q", err, tt.want)
			}
			if left, _ := filepath.Glob(outside + "/*"); len(left) > 0 {
				t.Errorf("it wrote %v", left)
				os.RemoveAll(left[0])
			}
		})
	}
}

// TestTestsAreNotOfWorkers: a trajectory that a worker ended, or that tells of a test, is
// not one of a case that has a test.
func TestTestsAreNotOfWorkers(t *testing.T) {
	finish := func(t *testing.T, k *pausedCase, events ...trajectory.Payload) {
		log, err := trajectory.Continue(k.driven.Pieces[k.driven.Files.Trajectory.Digest], trajectory.HeadIs(k.driven.Files.Trajectory.Head))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if _, err := log.Append(1, e, log.At()); err != nil {
				t.Fatal(err)
			}
		}
		k.driven.Files.Trajectory = evidence.TrajectoryFile{Digest: *k.put(log.Bytes()), Head: log.Head()}
	}
	answer := trajectory.NewContent([]byte("done"), trajectory.ArgumentHead)
	output := trajectory.NewContent([]byte("ok"), trajectory.ResultHead)
	t.Run("ended", func(t *testing.T) {
		k := newPausedCase(t, testedLine)
		finish(t, k, &trajectory.RunCompleted{Status: "completed", Answer: &answer})
		if _, err := k.accept(t); err == nil || !strings.Contains(err.Error(), "ended without the case's test") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("tested", func(t *testing.T) {
		k := newPausedCase(t, testedLine)
		finish(t, k, &trajectory.TestRun{Command: []string{"python3"}, Passed: true, Output: output})
		if _, err := k.accept(t); err == nil || !strings.Contains(err.Error(), "which workers do not run") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("of another repetition", func(t *testing.T) {
		k := newPausedCase(t, testedLine)
		k.driven = k.drive(t, 2)
		if _, err := k.accept(t); err == nil || !strings.Contains(err.Error(), "repetition 2") {
			t.Errorf("got %v", err)
		}
	})
}

// TestTooMuchDoesNotTravel: the case ends with the reason in place of a result
// that no coordinator takes.
func TestTooMuchDoesNotTravel(t *testing.T) {
	for name, fill := range map[string]func(dir string) error{
		"a file of more than": func(dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "large"), nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(filepath.Join(dir, "large"), maxCarriedFile+1)
		},
		"bytes of names": func(dir string) error {
			deep := filepath.Join(dir, strings.Repeat("n", 200), strings.Repeat("n", 200), strings.Repeat("n", 200))
			err := os.MkdirAll(deep, 0o755)
			for i := 0; err == nil && i < maxCarriedNames/800; i++ {
				err = os.Symlink("x", filepath.Join(deep, strings.Repeat("n", 200)+fmt.Sprint(i)))
			}
			return err
		},
	} {
		folder, err := session.NewFolder(filepath.Join(t.TempDir(), "work"), nil)
		if err == nil {
			err = fill(folder.Dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := (&run{folder: folder}).fitsToTravel(); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
