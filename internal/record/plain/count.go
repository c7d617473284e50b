package plain

import (
	"fmt"
	"strings"
)

// Plural is a number of things.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// A Count is how many there are of what.
type Count struct {
	N    int
	What string
}

// OfWhich is " (2 not run)", or nothing.
func OfWhich(counts ...Count) string {
	var parts []string
	for _, c := range counts {
		if c.N > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.N, c.What))
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
