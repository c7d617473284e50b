package refusal

import "strings"

// Closest returns the candidate that a person most likely meant by name: the
// one with the fewest edits, as long as at least half of the name is right.
func Closest(name string, candidates []string) (string, bool) {
	best, bestEdits := "", len(name)/2+1
	for _, c := range candidates {
		if edits := distance(name, c); edits < bestEdits {
			best, bestEdits = c, edits
		}
	}
	if best == "" && len(name) >= 2 {
		for _, c := range candidates {
			if strings.HasPrefix(c, name) {
				return c, true
			}
		}
	}
	return best, best != ""
}

// distance counts the bytes to insert, delete or replace to turn a into b
// (Levenshtein), one row of the table at a time.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
