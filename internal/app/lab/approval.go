package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/harness"
)

// The most that is shown of the arguments of a call. What is left out is said:
// a person must not approve unseen text without knowing that.
const (
	maxShownArgs     = 20
	maxShownArgBytes = 400
)

// ApprovalText is what a person is asked: who wants to do what, with which
// arguments, and which rule wants an answer. Everything in it may come from the
// agent, so each text stays on its line.
func ApprovalText(caseID string, q harness.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\ncase %s: %s %s needs an approval: %s\n", plain.Line(caseID), q.Action, plain.Line(q.Name), plain.Line(q.Reason))
	fmt.Fprintf(&b, "  asked by  target %s, in turn %d\n", plain.Line(q.Target), q.Turn)
	if q.Class != "" {
		fmt.Fprintf(&b, "  effect    %s\n", plain.Line(string(q.Class)))
	}
	fmt.Fprintf(&b, "  rule      %s\n", plain.Line(q.Rule))
	for _, line := range argumentLines(q.Args) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("approve? [y/n] ")
	return b.String()
}

// argumentLines shows the arguments of a call, one a line, by name.
func argumentLines(args string) []string {
	if args == "" {
		return []string{"arguments none"}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &members) != nil {
		return []string{"arguments " + shownArg(args)}
	}
	if len(members) == 0 {
		return []string{"arguments none"}
	}
	var lines []string
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i == maxShownArgs {
			return append(lines, fmt.Sprintf("argument  %d MORE ARE NOT SHOWN", len(members)-i))
		}
		lines = append(lines, fmt.Sprintf("argument  %s = %s", shownArg(name), shownArg(string(members[name]))))
	}
	return lines
}

func shownArg(text string) string {
	if len(text) <= maxShownArgBytes {
		return plain.Line(text)
	}
	return fmt.Sprintf("%s … (%d BYTES MORE ARE NOT SHOWN)", plain.Line(strings.ToValidUTF8(text[:maxShownArgBytes], "")), len(text)-maxShownArgBytes)
}
