package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/trajectory"
)

// A GoldenCheck says which cases equal their golden traces.
type GoldenCheck struct {
	Class    string          `json:"class"`
	Target   string          `json:"target"`
	Checked  int             `json:"checked"`
	Equal    int             `json:"equal"`
	Met      bool            `json:"met"`
	HeldOut  int             `json:"held_out,omitempty"` // cases that were left out
	Problems []GoldenProblem `json:"problems"`
	// Prompts are those that changed. They fail nothing: what counts is what the
	// agent did.
	Prompts []GoldenPrompt `json:"prompts,omitempty"`
}

// A GoldenPrompt is how the first prompt of a model changed, word by word.
type GoldenPrompt struct {
	Case  string `json:"case"`
	Model string `json:"model"`
	Words string `json:"words"`
}

// leavesOut reports whether a case is held out and has no golden trace: an author who
// reads it would know what the case asks.
func (s *Setup) leavesOut(g *harness.Graded) bool {
	return g.Case.HeldOut && !s.Spec.ShowHeldOut
}

// A GoldenProblem is a case that diverges, or a trace that does not fit any.
type GoldenProblem struct {
	Case   string `json:"case"`
	Change string `json:"change"` // missing_golden, stale_golden, or the class of the divergence
	Turn   int    `json:"turn,omitempty"`
	Step   int    `json:"step,omitempty"`
	Detail string `json:"detail"`
}

// CheckGolden drives every case again and compares it with its golden trace. A
// case without one fails. The level is that of the file if it is empty.
func (s *Setup) CheckGolden(ctx context.Context, level outline.Level) (*GoldenCheck, error) {
	check := &GoldenCheck{Class: s.Spec.Class, Target: s.Target.Name, Problems: []GoldenProblem{}}
	seen := map[string]bool{}
	err := s.Rehearse(ctx, func(g *harness.Graded) error {
		seen[g.Case.ID] = true
		if s.leavesOut(g) {
			check.HeldOut++
			return nil
		}
		check.Checked++
		problem, err := s.checkGolden(check, g, level)
		if err != nil {
			return fmt.Errorf("case %s: %w", g.Case.ID, err)
		}
		if problem == nil {
			check.Equal++
			return nil
		}
		check.Problems = append(check.Problems, *problem)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.Spec.IsAll() {
		if err := check.findStale(filepath.Dir(s.place.GoldenFile(s.Spec.Class, s.Target.Name, "x")), seen); err != nil {
			return nil, err
		}
	}
	check.Met = len(check.Problems) == 0
	return check, nil
}

// missingGolden is the problem of a case without a golden trace.
const missingGolden = "missing_golden"

// checkGolden compares a case, and notes how its prompts changed.
func (s *Setup) checkGolden(check *GoldenCheck, g *harness.Graded, level outline.Level) (*GoldenProblem, error) {
	golden, err := s.place.ReadGolden(s.Spec.Class, s.Target.Name, g.Case.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return &GoldenProblem{Case: g.Case.ID, Change: missingGolden, Detail: "there is no golden trace"}, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := outline.CheckGolden(golden, g.Verified, level, dossier.GoldenTrace)
	if err != nil {
		return nil, err
	}
	for _, p := range d.Prompts {
		check.Prompts = append(check.Prompts, GoldenPrompt{g.Case.ID, p.Model, p.Words})
	}
	if d.Equal() {
		return nil, nil
	}
	d.Prompts = nil // told beside the problems
	change, turn, step := d.First()
	return &GoldenProblem{Case: g.Case.ID, Change: string(change), Turn: turn, Step: step, Detail: d.Detail()}, nil
}

// findStale reports golden traces of cases that the class no longer has: a
// check that compares nothing must not look like one that passed.
func (c *GoldenCheck) findStale(dir string, seen map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "listing the golden traces: %w", err)
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".golden"); ok && !e.IsDir() && !seen[id] {
			c.Problems = append(c.Problems, GoldenProblem{Case: id, Change: "stale_golden", Detail: "there is a golden trace and no such case"})
		}
	}
	return nil
}

// A GoldenUpdate says which traces were written.
type GoldenUpdate struct {
	Class   string   `json:"class"`
	Target  string   `json:"target"`
	Written []string `json:"written"`
	Same    int      `json:"same"`
	HeldOut int      `json:"held_out,omitempty"` // cases that were left out
	// Refused are cases whose files were left as they were.
	Refused []GoldenProblem `json:"refused,omitempty"`
}

// notWhole is the problem of a case that did not run to its own end, or has no score.
const notWhole = "not_written"

// UpdateGolden drives every case and writes its golden file, for review: what the agent
// did, or at the level exact every event. A case that did not run to its own end with a
// score is not written: its file would call a failure of the run the right behaviour.
func (s *Setup) UpdateGolden(ctx context.Context, level outline.Level) (*GoldenUpdate, error) {
	u := &GoldenUpdate{Class: s.Spec.Class, Target: s.Target.Name, Written: []string{}}
	err := s.Rehearse(ctx, func(g *harness.Graded) error {
		if s.leavesOut(g) {
			u.HeldOut++
			return nil
		}
		if why := g.Incomplete(); why != "" {
			u.Refused = append(u.Refused, GoldenProblem{Case: g.Case.ID, Change: notWhole, Detail: why})
			return nil
		}
		wrote, err := s.writeGolden(g.Case.ID, g.Verified, level)
		if wrote {
			u.Written = append(u.Written, g.Case.ID)
		} else if err == nil {
			u.Same++
		}
		return err
	})
	return u, err
}

// writeGolden writes the golden file of a case, unless it is the same already.
func (s *Setup) writeGolden(caseID string, v *trajectory.Verified, level outline.Level) (wrote bool, err error) {
	text, err := goldenText(v, level)
	if err != nil {
		return false, err
	}
	file := s.place.GoldenFile(s.Spec.Class, s.Target.Name, caseID)
	if old, err := s.place.ReadGolden(s.Spec.Class, s.Target.Name, caseID); err == nil && string(old) == string(text) {
		return false, nil
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
		return false, err
	}
	return true, store.WriteFile(store.OS{}, file, text, 0o644)
}

func goldenText(v *trajectory.Verified, level outline.Level) ([]byte, error) {
	if level != outline.Exact {
		return outline.Of(v).Format(), nil
	}
	trace, err := trajectory.Canonical(v, dossier.GoldenTrace)
	if err != nil {
		return nil, err
	}
	return trace.Format(), nil
}
