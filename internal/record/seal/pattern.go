package seal

import "strings"

// matchList reports whether s matches a list of patterns in the way of
// PATTERNS in ssh_config(5): comma-separated, * for any run of characters, ?
// for exactly one, and a pattern after ! takes out what it matches, whatever
// else matches too.
func matchList(s, list string) bool {
	found := false
	for pattern := range strings.SplitSeq(list, ",") {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !match(s, pattern) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// match matches one pattern. On a mismatch it goes back to the last * only,
// which is enough and keeps hostile patterns from taking exponential time.
func match(s, pattern string) bool {
	i, p := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			i++
			p++
		case star >= 0:
			mark++
			i, p = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
