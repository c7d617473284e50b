package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// maxCIBytes bounds a CI file.
const maxCIBytes = 1 << 20

// A Fence is what was found about the file that runs "tally bench verify
// --all" in CI, and about the classes that it should guard.
type Fence struct {
	File    string
	Digest  digest.Content // of the CI file's bytes
	Pins    digest.ID      // of the signed pins
	Classes []string       // pinned, each with its folder, rubric and cases
}

// CheckFence looks after the control itself. It refuses when the CI file is
// not the one that two people pinned, when it is not the fence in its one shape
// (see [CheckCalls]), when a pinned class lacks its folder, rubric or cases, and
// when a signed class is not pinned.
//
// It does not verify the classes: that is [Verify], which the fence calls.
func CheckFence(root *os.Root, ciFile string, opt Options) (*Fence, error) {
	f := &Fence{File: ciFile}
	data, err := readPlain(root, ciFile, maxCIBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Newf(refusal.FenceMissing, "there is no CI file %s", ciFile).
			WithHint("restore it; without it nothing runs the fence")
	}
	if err != nil {
		return nil, err
	}
	f.Digest = digest.ContentOf(data)
	pins, err := VerifyPins(root, opt)
	if err != nil {
		return nil, err
	}
	f.Pins, f.Classes = pins.digest, slices.Clone(pins.pins.Classes)
	const hint = changedFenceHint
	ci := pins.pins.CI
	switch {
	case ci == nil:
		return nil, refusal.Newf(refusal.PinMismatch, "%s is %s, %s pins no CI file", ciFile, f.Digest, PinsFile).WithHint(hint)
	case ci.File != ciFile:
		return nil, refusal.Newf(refusal.PinMismatch, "the CI file is %s, %s pins %s", ciFile, PinsFile, ci.File).WithHint(hint)
	case ci.Digest != f.Digest:
		return nil, refusal.Newf(refusal.PinMismatch, "%s is %s, %s pins %s", ciFile, f.Digest, PinsFile, ci.Digest).WithHint(hint)
	}
	if err := CheckCalls(ciFile, data); err != nil {
		return nil, err
	}
	return f, checkClasses(root, pins.pins.Classes)
}

// CheckPinnedCI refuses when the CI file that two people pinned is not what they
// pinned, or is gone. Pins that name none are fine here: not every workspace has
// a CI system.
func CheckPinnedCI(root *os.Root, pins *Pins) error {
	if pins.CI == nil {
		return nil
	}
	data, err := readPlain(root, pins.CI.File, maxCIBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.FenceMissing, "there is no CI file %s, which %s pins", pins.CI.File, PinsFile).
			WithHint("restore it; without it nothing runs the fence")
	}
	if err != nil {
		return err
	}
	if found := digest.ContentOf(data); found != pins.CI.Digest {
		return refusal.Newf(refusal.PinMismatch, "%s is %s, %s pins %s", pins.CI.File, found, PinsFile, pins.CI.Digest).
			WithHint("%s", changedFenceHint)
	}
	return nil
}

const changedFenceHint = `if the change is meant, run "tally bench digest CLASS --ci FILE" and have two people sign the pins again; if not, find out who changed the fence`

// checkClasses compares the pinned list with the folders.
func checkClasses(root *os.Root, pinned []string) error {
	folders, err := Classes(root)
	if err != nil {
		return err
	}
	for _, class := range pinned {
		if !slices.Contains(folders, class) {
			return fmt.Errorf("class %s: %w", class, incomplete("%s lists it, there is no folder %s", PinsFile, path.Join(Dir, class)))
		}
		d, err := Load(root, class)
		if err != nil {
			return err
		}
		if len(d.Cases) == 0 && d.Dataset == nil {
			return fmt.Errorf("class %s: %w", class, incomplete("there are no cases and no %s", DatasetFile))
		}
		if d.Registration.Trust == Scratch {
			return refusal.Newf(refusal.PinMismatch, "class %s: %s lists it as signed, its registration says trust scratch", class, PinsFile).
				WithHint("a class does not stop being signed without two people changing the pins")
		}
	}
	for _, class := range folders {
		if slices.Contains(pinned, class) {
			continue
		}
		d, err := Load(root, class)
		if err != nil {
			return err
		}
		if d.Registration.Trust != Scratch {
			return refusal.Newf(refusal.PinMismatch, "class %s: it is a signed class and %s does not list it", class, PinsFile).
				WithHint(`"tally bench digest" adds it; two people sign the pins again`)
		}
	}
	return nil
}

// lazily compiles a pattern when it is first used: every start of the program,
// each sandbox's too, pays for what packages do at their start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// A Marker is what the fence's job leaves behind, so that another job can tell
// that it ran: for this commit, with this CI file, over these benches. It is
// bound to them and not signed: a program that can write files into a job's
// output could write one too. It shows that the job was not skipped, switched
// off or answered from an older run's leftovers.
type Marker struct {
	Version  int                  `json:"version"`
	Commit   string               `json:"commit"`
	CIFile   string               `json:"ci_file"`
	CIDigest digest.Content       `json:"ci_digest"`
	Pins     digest.ID            `json:"pins"`
	Benches  map[string]digest.ID `json:"benches"` // bench digest of each pinned class
}

// NewMarker is what the job writes after the fence held.
func NewMarker(f *Fence, commit string, benches map[string]digest.ID) *Marker {
	return &Marker{Version: 1, Commit: commit, CIFile: f.File, CIDigest: f.Digest, Pins: f.Pins, Benches: benches}
}

// Marshal returns the marker's bytes.
func (m *Marker) Marshal() ([]byte, error) { return canon.Marshal(m) }

// Check compares the bytes that a job left with the marker that it should have
// left.
func (m *Marker) Check(name string, data []byte) error {
	want, err := m.Marshal()
	if err != nil {
		return err
	}
	if bytes.Equal(data, want) {
		return nil
	}
	// They differ; say where.
	const hint = "the job that runs the fence was skipped, switched off, or this is another run's file; run it again for this commit"
	var got Marker
	if err := canon.Unmarshal(data, &got); err != nil {
		return refusal.Newf(refusal.FenceDidNotRun, "%s: not a marker of the fence: %w", name, err).WithHint(hint)
	}
	differs := func(field string, found, expected any) error {
		return refusal.Newf(refusal.FenceDidNotRun, "%s: %s is %v, expected %v", name, field, found, expected).WithHint(hint)
	}
	switch {
	case got.Version != m.Version:
		return differs("version", got.Version, m.Version)
	case got.Commit != m.Commit:
		return differs("commit", fmt.Sprintf("%q", got.Commit), fmt.Sprintf("%q", m.Commit))
	case got.CIFile != m.CIFile:
		return differs("ci_file", fmt.Sprintf("%q", got.CIFile), fmt.Sprintf("%q", m.CIFile))
	case got.CIDigest != m.CIDigest:
		return differs("ci_digest", got.CIDigest, m.CIDigest)
	case got.Pins != m.Pins:
		return differs("pins", got.Pins, m.Pins)
	}
	for _, class := range slices.Sorted(keysOf(m.Benches)) {
		if got.Benches[class] != m.Benches[class] {
			return differs("bench "+class, got.Benches[class], m.Benches[class])
		}
	}
	return differs("benches", len(got.Benches), len(m.Benches))
}
