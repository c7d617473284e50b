package similarity

import (
	"math"
	"strings"
	"unicode/utf8"
)

// maxOrder is the length of the longest runs of words that BLEU counts.
const maxOrder = 4

// BLEU is the BLEU score of one sentence, from 0 to 1, as sacrebleu's
// sentence_bleu gives it from 0 to 100: tokens of mteval-v13a, exponential
// smoothing, the effective order, the closest length of a reference.
func BLEU(answer string, right []string) float64 {
	if len(right) == 0 {
		return 0
	}
	got := tokens13a(answer)
	var matched, total [maxOrder]int
	references := make([]map[string]int, len(right))
	length := -1
	for i, r := range right {
		want := tokens13a(r)
		references[i] = grams(want)
		if d, least := distance(len(want), len(got)), distance(length, len(got)); length < 0 || d < least || d == least && len(want) < length {
			length = len(want)
		}
	}
	for gram, n := range grams(got) {
		order := strings.Count(gram, " ")
		most := 0
		for _, r := range references {
			most = max(most, r[gram])
		}
		matched[order] += min(n, most)
	}
	for n := range total {
		total[n] = max(0, len(got)-n)
	}
	return bleu(matched, total, len(got), length)
}

func distance(a, b int) int { return max(a-b, b-a) }

// bleu is the geometric mean of the precisions, times the penalty for an answer
// that is shorter than the reference.
func bleu(matched, total [maxOrder]int, length, reference int) float64 {
	if matched == [maxOrder]int{} {
		return 0
	}
	sum, order, smooth := 0.0, 0, 1.0
	for n := range maxOrder {
		if total[n] == 0 {
			break
		}
		order++
		if matched[n] == 0 {
			smooth *= 2
			sum += math.Log(1 / (smooth * float64(total[n])))
		} else {
			sum += math.Log(float64(matched[n]) / float64(total[n]))
		}
	}
	penalty := 1.0
	if length < reference {
		penalty = math.Exp(1 - float64(reference)/float64(length))
	}
	return min(1, penalty*math.Exp(sum/float64(order)))
}

// grams counts the runs of one to four words. Words have no blanks in them, so
// a run joined by blanks is one run only.
func grams(words []string) map[string]int {
	counts := make(map[string]int, maxOrder*len(words))
	text := strings.Join(words, " ")
	starts := make([]int, len(words)+1)
	for i, w := range words {
		starts[i+1] = starts[i] + len(w) + 1
	}
	for i := range words {
		for n := 1; n <= maxOrder && i+n <= len(words); n++ {
			counts[text[starts[i]:starts[i+n]-1]]++
		}
	}
	return counts
}

// tokens13a are the tokens of mteval-v13a: signs stand by themselves, full stops
// and commas unless digits are on both sides, hyphens after a digit.
func tokens13a(s string) []string {
	s = strings.ReplaceAll(s, "<skipped>", "")
	s = strings.ReplaceAll(s, "-\n", "")
	s = strings.ReplaceAll(s, "\n", " ")
	if strings.Contains(s, "&") {
		for _, e := range [...][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} {
			s = strings.ReplaceAll(s, e[0], e[1])
		}
	}
	s = apart(" "+s+" ", func(r rune) bool { return r < utf8.RuneSelf && standsAlone(byte(r)) })
	s = stopAfter(s)
	s = stopBefore(s)
	s = hyphenAfterDigit(s)
	return strings.FieldsFunc(s, isSpace)
}

// standsAlone has the signs that are tokens wherever they are: ASCII without
// letters, digits, apostrophe, comma, hyphen and full stop.
func standsAlone(c byte) bool {
	return c >= '{' && c <= '~' || c >= '[' && c <= '`' || c >= ' ' && c <= '&' || c >= '(' && c <= '+' || c >= ':' && c <= '@' || c == '/'
}

func apart(s string, alone func(rune) bool) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for _, r := range s {
		if alone(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// stopAfter is re.sub(r"([^0-9])([.,])", r"\1 \2 ", s). Matches do not overlap:
// in "..." the first two are one match, and the third has none before it.
func stopAfter(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(s[i : i+n])
		if !isDigit(s[i]) && i+n < len(s) && isStop(s[i+n]) {
			b.WriteByte(' ')
			b.WriteByte(s[i+n])
			b.WriteByte(' ')
			n++
		}
		i += n
	}
	return b.String()
}

// stopBefore is re.sub(r"([.,])([^0-9])", r" \1 \2", s).
func stopBefore(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	for i := 0; i < len(s); {
		if isStop(s[i]) && i+1 < len(s) && !isDigit(s[i+1]) {
			_, n := utf8.DecodeRuneInString(s[i+1:])
			b.WriteByte(' ')
			b.WriteByte(s[i])
			b.WriteByte(' ')
			b.WriteString(s[i+1 : i+1+n])
			i += 1 + n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// hyphenAfterDigit is re.sub(r"([0-9])(-)", r"\1 \2 ", s).
func hyphenAfterDigit(s string) string {
	if !strings.Contains(s, "-") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		if isDigit(s[i]) && i+1 < len(s) && s[i+1] == '-' {
			b.WriteString(" - ")
			i++
		}
	}
	return b.String()
}

func isStop(c byte) bool  { return c == '.' || c == ',' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
