package archive

import (
	"strings"

	"tallystick/internal/trajectory"
)

// GoldenDir is the folder of golden traces, meant for git and for review.
const GoldenDir = "golden"

// MaxGolden bounds a golden file.
const MaxGolden = 64 << 20

// GoldenTrace says what a golden trace keeps: costs too, as those of a recording
// do not change.
var GoldenTrace = trajectory.Options{KeepCost: true}

// GoldenFile is where the golden trace of a case lies.
func (p *Place) GoldenFile(class, caseID string) string {
	return p.Path(GoldenDir, strings.ReplaceAll(class, ":", "-"), caseID+".golden")
}
