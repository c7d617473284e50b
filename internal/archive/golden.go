package archive

import (
	"path"
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

// GoldenFile is where the golden trace of a case lies. The folder's name is one
// that every system takes and that no other class has: names have no "+", so
// builtin:adversarial does not meet a class builtin-adversarial.
func (p *Place) GoldenFile(class, caseID string) string {
	return p.Path(GoldenDir, strings.ReplaceAll(class, ":", "+"), caseID+".golden")
}

// FormerGoldenDir is where earlier versions kept the golden traces of a class that
// comes with the program; "" of any other class. They are not read there: they may
// be those of a class of that name.
func FormerGoldenDir(class string) string {
	if !strings.Contains(class, ":") {
		return ""
	}
	return path.Join(GoldenDir, strings.ReplaceAll(class, ":", "-"))
}
