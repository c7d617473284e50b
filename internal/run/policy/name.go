package policy

import (
	"slices"
	"strings"

	"tallystick/internal/record/plain"
)

// isListed reports whether a list that forbids or restricts names a tool. An agent
// chooses the names of its own tools, so a name is found however it is spelled: in
// other case, with other separators, with letters that look alike, or with
// what a client puts before it, as in mcp__shop__issue_refund.
func isListed(list []string, name string) bool {
	if strings.HasPrefix(name, HTTPPrefix) && slices.ContainsFunc(list, func(listed string) bool { return matchesHTTP(listed, name) }) {
		return true
	}
	called := spellings(name)
	return slices.ContainsFunc(list, func(listed string) bool { return slices.Contains(called, folded(listed)) })
}

// isAllowed reports whether a list that permits names a tool: as it is, or with what
// an MCP client puts before it. An agent chooses the path of a request, so that
// nothing stands before one.
func isAllowed(list []string, name string) bool {
	if strings.HasPrefix(name, HTTPPrefix) {
		return slices.ContainsFunc(list, func(listed string) bool { return matchesHTTP(listed, name) })
	}
	return slices.ContainsFunc(list, func(listed string) bool { return listed == name || strings.HasSuffix(name, "__"+listed) })
}

// spellings are the names that a tool may have without what a client put before it,
// folded.
func spellings(name string) []string {
	list := []string{folded(name)}
	for rest := name; ; {
		at := strings.IndexAny(rest, ".:/")
		if two := strings.Index(rest, "__"); two >= 0 && (at < 0 || two < at) {
			at = two + 1
		}
		if at < 0 || at+1 == len(rest) {
			return list
		}
		rest = rest[at+1:]
		if f := folded(rest); f != "" {
			list = append(list, f)
		}
	}
}

// folded is a name as it is compared: what a person could take for another is one,
// and nothing separates.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 0x80 {
			return r
		}
		return -1
	}, plain.Fold(name))
}

// isForeign reports whether a name has letters that may be taken for others.
func isForeign(name string) bool {
	return strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 })
}
