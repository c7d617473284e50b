package grade

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// gaiaGrader compares as the scorer of the GAIA leaderboard does, which is
// written in Python; [gaiaEqual] has its rules. What it expects is one text or
// number.
func gaiaGrader(want canon.RawMessage, _ *Rule) (grader, error) {
	gold, err := gaiaGold(want)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		by, same := gaiaEqual(text, gold)
		if same {
			return passed("compared as %s, it is %s", by, quoted(gold))
		}
		return mismatch("compared as %s, %s is not %s", by, quote(v, text), quoted(gold))
	}, nil
}

// gaiaGold reads the expected answer. It refuses those that the official scorer
// would let pass for answers that say nothing: it takes every text that is not a
// number for infinity, and a text of which nothing is left for any other.
func gaiaGold(want canon.RawMessage) (string, error) {
	var gold string
	switch want.Kind() {
	case '0':
		gold = string(want)
	case '"':
		if err := canon.Unmarshal(want, &gold); err != nil {
			return "", err
		}
	default:
		return "", errors.New("expected a text or a number")
	}
	n, isNumber := pythonFloat(gold)
	switch {
	case isNumber && math.IsNaN(n):
		return "", errors.New("is not a number, which equals no answer")
	case isNumber && math.IsInf(n, 0):
		return "", errors.New("is infinite, and so is every answer that is not a number")
	case !isNumber && gaiaText(gold, true) == "":
		return "", errors.New("nothing is left of it without white space and punctuation, so an empty answer would pass")
	}
	return gold, nil
}

// gaiaEqual is the official rule: a number if the expected answer is one, a list
// if it has a comma or a semicolon, else a text. By says which.
func gaiaEqual(answer, gold string) (by string, same bool) {
	if n, ok := pythonFloat(gold); ok {
		return "a number", gaiaNumber(answer) == n
	}
	if !strings.ContainsAny(gold, ",;") {
		return "a text", gaiaText(answer, true) == gaiaText(gold, true)
	}
	isComma := func(r rune) bool { return r == ',' || r == ';' }
	want, got := splitAt(gold, isComma), splitAt(answer, isComma)
	if len(want) != len(got) {
		return "a list", false
	}
	for i := range want {
		if n, ok := pythonFloat(want[i]); ok {
			if gaiaNumber(got[i]) != n {
				return "a list", false
			}
		} else if gaiaText(got[i], false) != gaiaText(want[i], false) {
			return "a list", false
		}
	}
	return "a list", true
}

// splitAt cuts at every separator and keeps empty pieces, unlike
// [strings.FieldsFunc].
func splitAt(s string, is func(rune) bool) []string {
	var pieces []string
	for {
		i := strings.IndexFunc(s, is)
		if i < 0 {
			return append(pieces, s)
		}
		pieces, s = append(pieces, s[:i]), s[i+1:]
	}
}

// gaiaNumber is an answer as a number, infinity if it is not a number.
func gaiaNumber(answer string) float64 {
	n, ok := pythonFloat(strings.NewReplacer("$", "", "%", "", ",", "").Replace(answer))
	if !ok {
		return math.Inf(1)
	}
	return n
}

// gaiaText leaves out white space and, in texts that are not lists, ASCII
// punctuation, and lowers the rest.
func gaiaText(s string, punctuation bool) string {
	lowered := pythonLower(strings.Map(func(r rune) rune {
		if isPythonSpace(r) {
			return -1
		}
		return r
	}, s))
	if !punctuation {
		return lowered
	}
	return strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			return -1
		}
		return r
	}, lowered)
}

// isPythonSpace is what \s matches in Python: Unicode's white space and the four
// separators of ASCII.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// pythonLower is str.lower, which differs from [strings.ToLower] in two letters:
// a dotted capital I becomes two, and a capital sigma at the end of a word is a
// final one.
func pythonLower(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	runes := []rune(s)
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && endsWord(runes, i):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// endsWord is Unicode's condition Final_Sigma: a cased letter before, none
// after, whatever marks there are between.
func endsWord(runes []rune, i int) bool {
	before, after := i-1, i+1
	for before >= 0 && isCaseIgnorable(runes[before]) {
		before--
	}
	for after < len(runes) && isCaseIgnorable(runes[after]) {
		after++
	}
	return before >= 0 && isCased(runes[before]) && (after == len(runes) || !isCased(runes[after]))
}

func isCased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) || unicode.In(r, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isCaseIgnorable(r rune) bool {
	return strings.ContainsRune("'.:·‘’․﹒﹕＇．：", r) || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// pythonFloat is float: white space around, digits of any script, single
// underscores between digits, inf and nan. Hexadecimal, which Go reads, it is not.
func pythonFloat(s string) (float64, bool) {
	s = strings.TrimSpace(s) // and not the separators of ASCII, which \s matches
	if len(s) == 4 && (s[0] == '+' || s[0] == '-') && strings.EqualFold(s[1:], "nan") {
		s = "nan" // Go knows it without a sign only
	}
	ascii := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r < unicode.MaxASCII:
			ascii = append(ascii, byte(r))
		case unicode.Is(unicode.Nd, r):
			ascii = append(ascii, '0'+byte(digitValue(r)))
		default:
			return 0, false
		}
	}
	for i, c := range ascii {
		isDigit := func(i int) bool { return i >= 0 && i < len(ascii) && ascii[i] >= '0' && ascii[i] <= '9' }
		switch {
		case c == '_' && !(isDigit(i-1) && isDigit(i+1)), c == 'x', c == 'X', c == 'p', c == 'P':
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(string(ascii), "_", ""), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true
}

// digitValue is what a decimal digit stands for: Unicode has them in runs from
// zero to nine, some of which follow each other.
func digitValue(r rune) rune {
	first := r
	for unicode.Is(unicode.Nd, first-1) {
		first--
	}
	return (r - first) % 10
}
