package mine

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/bench"
)

// Fate is what became of the commit, in a word.
func (m *Commit) Fate() string {
	if m.Dropped == "" {
		return "kept"
	}
	return "dropped"
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "made bench/%s (%s): %s of %s, checked in a %s sandbox with %s\n", plain.Line(r.Class), r.Trust, plain.Plural(r.Kept, "case"), plain.Plural(len(r.Commits), "commit"), r.Sandbox, plain.Line(r.Toolchain))
	fmt.Fprintf(out, "trees     %d bytes in %s, for %d bytes of files\n", r.TreesBytes, bench.TreesFile, r.TreeBytes)
	r.PrintTable(out)
	fmt.Fprintf(out, "report    %s\n", plain.Line(ReportFile(r.Class)))
	fmt.Fprintf(out, "Try it: tally run %s --target reference, and --target nothing\n", plain.Line(r.Class))
	if r.Trust == bench.Signed {
		fmt.Fprintf(out, "Read the cases, then two people: tally bench sign %s --key KEY\n", plain.Line(r.Class))
	}
}

// PrintTable counts the commits by what became of them.
func (r *Report) PrintTable(out io.Writer) {
	counts := map[string]int{}
	for _, m := range r.Commits {
		reason, _, _ := strings.Cut(m.Dropped, ": ")
		counts[cmp.Or(reason, "kept")]++
	}
	var reasons []string
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for _, reason := range reasons {
		fmt.Fprintf(out, "%6d    %s\n", counts[reason], plain.Line(reason))
	}
}
