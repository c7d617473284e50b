package lab

import (
	"path/filepath"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/grade"
)

// maxExpected bounds what is compared with; answers are shorter.
const maxExpected = 16 << 20

// LoadGrader reads a grading.yaml, and a file with what is expected if that is not
// "", for grading a trajectory by hand. There is neither a rubric nor a judge
// then, and a grading that asks one is refused.
func LoadGrader(with, expected string) (*grade.Grader, error) {
	data, err := store.ReadFile(store.OS{}, with, 1<<20)
	if err != nil {
		return nil, err
	}
	parsed, err := grade.ParseYAML(with, data)
	if err != nil {
		return nil, err
	}
	m := grade.Materials{}
	m.Registration.FailureModes = map[string]evidence.Severity{}
	// No class lists failure modes here, so those that the file names are as
	// good as any: nothing is recorded.
	allowModes(m.Registration.FailureModes, parsed.Spec.Checks)
	if parsed.Spec.Grade != nil {
		allowModes(m.Registration.FailureModes, parsed.Spec.Grade.Checks)
	}
	if expected != "" {
		text, err := store.ReadFile(store.OS{}, expected, maxExpected)
		if err != nil {
			return nil, err
		}
		m.ExpectedFiles = map[string][]byte{filepath.Base(expected): text}
		if m.Expected, err = canon.Canonicalize(text); err != nil {
			if m.Expected, err = canon.Marshal(strings.TrimRight(string(text), "\r\n")); err != nil {
				return nil, refusal.Newf(refusal.Malformed, "%s: neither JSON nor a text: %w", expected, err)
			}
		}
	}
	g, err := parsed.Compile(m)
	if err != nil {
		return nil, err
	}
	if g.UsesRubric() || g.UsesJudge() {
		return nil, refusal.Newf(refusal.Usage, "%s asks a rubric or a judge, and neither is at hand here", with).
			WithHint(`grade with built-in graders, or make a bench of it and use "tally rescore"`)
	}
	return g, nil
}

func allowModes(modes map[string]evidence.Severity, checks []grade.Check) {
	for _, c := range checks {
		if c.FailureMode != "" {
			modes[c.FailureMode] = evidence.Warn
		}
		allowModes(modes, c.Grade.Checks)
	}
}
