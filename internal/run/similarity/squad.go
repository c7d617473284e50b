package similarity

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// squadTokens are the words of an answer as SQuAD's script has them: lower case,
// without ASCII punctuation, without the articles a, an and the.
func squadTokens(s string) []string {
	s = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isPunctuation(byte(r)) {
			return -1
		}
		return r
	}, lower(s))
	return slices.DeleteFunc(strings.FieldsFunc(withoutArticles(s), isSpace), func(w string) bool { return w == "" })
}

// withoutArticles is re.sub(r"\b(a|an|the)\b", " ", s): an article is one also
// where a sign that is not part of a word stands beside it.
func withoutArticles(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !isWord(r) {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		end := i
		for end < len(s) {
			r, n := utf8.DecodeRuneInString(s[end:])
			if !isWord(r) {
				break
			}
			end += n
		}
		switch word := s[i:end]; word {
		case "a", "an", "the":
			b.WriteByte(' ')
		default:
			b.WriteString(word)
		}
		i = end
	}
	return b.String()
}

// ExactMatch is 1 if what was answered is one of the right answers, both as
// [squadTokens] has them, else 0.
func ExactMatch(answer string, right []string) float64 {
	got := squadTokens(answer)
	for _, r := range right {
		if slices.Equal(got, squadTokens(r)) {
			return 1
		}
	}
	return 0
}

// TokenF1 is the harmonic mean of precision and recall of the words, each counted
// as often as it stands in both. Two answers without words are the same; one
// without words is like none other.
func TokenF1(answer string, right []string) float64 {
	got, best := squadTokens(answer), 0.0
	counts := make(map[string]int, len(got))
	for _, r := range right {
		best = max(best, f1(got, squadTokens(r), counts))
	}
	return best
}

func f1(got, want []string, counts map[string]int) float64 {
	if len(got) == 0 || len(want) == 0 {
		if len(got) == len(want) {
			return 1
		}
		return 0
	}
	clear(counts)
	for _, w := range want {
		counts[w]++
	}
	same := 0
	for _, w := range got {
		if counts[w] > 0 {
			counts[w]--
			same++
		}
	}
	if same == 0 {
		return 0
	}
	return harmonic(float64(same)/float64(len(got)), float64(same)/float64(len(want)))
}

func harmonic(precision, recall float64) float64 {
	if precision+recall == 0 {
		return 0
	}
	return 2 * precision * recall / (precision + recall)
}

// isPunctuation is string.punctuation.
func isPunctuation(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}

// SQuADWords are the words of a text that [ExactMatch] and [TokenF1] compare. Of "a" or
// "the!" none is left.
func SQuADWords(s string) string { return strings.Join(squadTokens(s), " ") }
