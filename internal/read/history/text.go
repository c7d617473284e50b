package history

import "fmt"

// LevelText is the level and what else is known: each property adds something
// of its own, and the level names only one.
func LevelText(level string, properties []Property) string {
	text := level
	for _, p := range properties {
		if p != ExamplesProperty && string(p) != level {
			text += ", " + string(p)
		}
	}
	return text
}

// RepeatMark is which repetition of a case is meant; the first goes without saying.
func RepeatMark(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" #%d", n)
}

// Harness is the version of the program that ran the attempt, "" if it has no record.
func (a *Attempt) Harness() string {
	for c := range a.Cases() {
		if c.Context != nil {
			return c.Context.HarnessVersion
		}
	}
	return ""
}
