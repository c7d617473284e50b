package similarity

import (
	"strings"
	"unicode"
)

// ROUGEL is the F measure of the longest common subsequence of words, as
// rouge-score's rougeL gives it without stemming. Words are runs of letters,
// marks and digits in lower case; rouge-score knows only a to z and 0 to 9, so
// that two different Greek texts are both empty to it. On English texts the two
// are the same.
func ROUGEL(answer string, right []string) float64 {
	got, best := words(answer), 0.0
	for _, r := range right {
		want := words(r)
		if len(got) == 0 || len(want) == 0 {
			continue
		}
		common := float64(commonLength(got, want))
		best = max(best, harmonic(common/float64(len(got)), common/float64(len(want))))
	}
	return best
}

func words(s string) []string {
	return strings.FieldsFunc(lower(s), func(r rune) bool { return !isWordROUGE(r) })
}

func isWordROUGE(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

// isWord is \w of Python's regular expressions.
func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

// ROUGEWords are the words of a text that [ROUGEL] compares.
func ROUGEWords(s string) string { return strings.Join(words(s), " ") }
