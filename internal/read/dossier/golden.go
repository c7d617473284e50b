package dossier

import (
	"strings"

	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/trajectory"
)

// GoldenDir is the folder of golden traces, meant for git and for review.
const GoldenDir = "golden"

// MaxGolden bounds a golden file.
const MaxGolden = 64 << 20

// GoldenTrace says what a golden trace keeps: costs too, as those of a recording
// do not change.
var GoldenTrace = trajectory.Options{KeepCost: true}

// GoldenFile is where the golden trace that a target has of a case lies. The
// folder's name is one that every system takes and that no other class has: names
// have no "+", so builtin:adversarial does not meet a class builtin-adversarial.
func (p *Place) GoldenFile(class, target, caseID string) string {
	return p.Path(GoldenDir, strings.ReplaceAll(class, ":", "+"), bench.TargetFolder(target), caseID+".golden")
}

// ReadGolden reads the golden trace that a target has of a case.
func (p *Place) ReadGolden(class, target, caseID string) ([]byte, error) {
	return store.ReadFile(store.OS{}, p.GoldenFile(class, target, caseID), MaxGolden)
}
