package grade

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/extract"
)

// An Outcome is how one check ended.
type Outcome string

// The outcomes. Mismatch and unusable both fail. They are apart because the
// grader not turns a mismatch into a pass, and nothing else: a value that is
// not there, or is not a number where one is compared, passes nothing.
const (
	Passed   Outcome = "passed"
	Mismatch Outcome = "mismatch"
	Unusable Outcome = "unusable"
	Unscored Outcome = "unscored"
)

// The codes of built-in graders, as failure modes have them. They are reserved
// and warn: an agent that answers wrongly is what a bench is for.
const (
	CodeMismatch       = "grade.mismatch"
	CodeNothingFound   = "grade.nothing_found"
	CodeNotComparable  = "grade.not_comparable"
	CodeTooLarge       = "grade.too_large"
	CodeConditionFails = "grade.condition_failed"
	CodeBelowThreshold = "grade.below_threshold"

	// CodeFolderUnreadable is that of a case whose working folder cannot be
	// compared with its start.
	CodeFolderUnreadable = "grade.folder_unreadable"
)

// gradePrefix begins the codes above.
const gradePrefix = "grade."

func gradeCodes() []string {
	return []string{CodeMismatch, CodeNothingFound, CodeNotComparable, CodeTooLarge, CodeConditionFails, CodeBelowThreshold, CodeFolderUnreadable}
}

// A verdict is what a grader says about one value.
type verdict struct {
	outcome Outcome
	score   float64
	code    string
	why     string
}

func passed(format string, args ...any) verdict {
	return verdict{Passed, 1, "", fmt.Sprintf(format, args...)}
}

func mismatch(format string, args ...any) verdict {
	return verdict{Mismatch, 0, CodeMismatch, fmt.Sprintf(format, args...)}
}

func unusable(code, format string, args ...any) verdict {
	return verdict{Unusable, 0, code, fmt.Sprintf(format, args...)}
}

func unscored(format string, args ...any) verdict {
	return verdict{outcome: Unscored, why: fmt.Sprintf(format, args...)}
}

// maxQuoted bounds a value in a reason. The details have more of it.
const maxQuoted = 160

// quote shows what an agent wrote in a reason. A value with a secret in it is
// not quoted: cutting it could leave half of one that no pattern finds.
func quote(v *extract.Value, s string) string {
	if v.Redacted {
		return "a value with secrets"
	}
	return quoted(s)
}

// quoted shows text of the case or the agent in one line.
func quoted(s string) string {
	short := s
	if len(short) > maxQuoted {
		n := maxQuoted
		for n > 0 && !utf8.RuneStart(short[n]) {
			n--
		}
		short = short[:n]
	}
	shown := `"` + strings.ReplaceAll(plain.Line(short), `"`, `\"`) + `"`
	if len(short) < len(s) {
		shown += fmt.Sprintf(" and %d bytes more", len(s)-len(short))
	}
	return shown
}
