package refusal

import "strings"

// Suggest hints at the candidate that a person most likely meant by name, or
// gives the other hint if none is close. It returns e.
func (e *Error) Suggest(name string, candidates []string, format string, args ...any) *Error {
	if near, ok := Closest(name, candidates); ok && near != name {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint(format, args...)
}

// UnknownValue refuses a value that the flag does not know.
func UnknownValue[T ~string](flag string, value T, known ...T) *Error {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	expected := strings.Join(words, ", ")
	if last := len(words) - 1; last > 0 {
		expected = strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return Newf(Usage, "--%s %s: expected %s", flag, string(value), expected).
		Suggest(string(value), words, "give one of them, or leave the flag out")
}

// Closest returns the candidate that a person most likely meant by name: the
// one with the fewest edits, as long as at least half of the name is right. Two
// neighbours that changed places are one edit; a letter in the other case is not one.
// Without such a candidate it is the first that begins with the name, or has it in it.
func Closest(name string, candidates []string) (string, bool) {
	folded := strings.ToLower(name)
	best, bestEdits := "", len(name)/2+1
	for _, c := range candidates {
		if edits := distance(folded, strings.ToLower(c)); edits < bestEdits {
			best, bestEdits = c, edits
		}
	}
	for _, fits := range []func(string, string) bool{strings.HasPrefix, strings.Contains} {
		for _, c := range candidates {
			if best == "" && len(name) >= 2 && fits(strings.ToLower(c), folded) {
				best = c
			}
		}
	}
	return best, best != ""
}

// distance counts the bytes to insert, delete or replace, or to exchange with the
// one beside them, to turn a into b (optimal string alignment), three rows of the
// table at a time.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
