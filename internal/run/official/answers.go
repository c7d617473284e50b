package official

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// invalid is what lm-eval takes an output for in which it finds no answer.
const invalid = "[invalid]"

// pythonSpace is \s of Python's re, and what str.strip takes off.
const pythonSpace = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

// lazily compiles a pattern when it is first used: every start of the program pays for
// what is compiled before.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func pythonStrip(s string) string { return strings.TrimFunc(s, isPythonSpace) }

// textOf reads an expected text.
func textOf(expected []byte) (string, error) {
	var text string
	if err := json.Unmarshal(expected, &text); err != nil {
		return "", errors.New("expected a text")
	}
	return text, nil
}

func compileGSM8K(score func(output, gold string) (took string, same bool)) func([]byte) (func(string) Verdict, error) {
	return func(expected []byte) (func(string) Verdict, error) {
		gold, err := textOf(expected)
		if err != nil {
			return nil, err
		}
		if !gsm8kMark().MatchString(gold) {
			return nil, fmt.Errorf("%.80q has no \"#### \" with a number behind it", gold)
		}
		return func(output string) Verdict {
			took, same := score(output, gold)
			return verdict(took, same)
		}, nil
	}
}

// gsm8kGold is the number of an answer of the data set.
func gsm8kGold(expected []byte) string {
	text, err := textOf(expected)
	if m := gsm8kMark().FindStringSubmatch(text); err == nil && m != nil {
		return strings.TrimSuffix(strings.ReplaceAll(m[1], ",", ""), ".")
	}
	return ""
}

func verdict(took string, same bool) Verdict {
	if same {
		return Verdict{true, took, "it took " + quote(took) + ", which is right"}
	}
	return Verdict{false, took, "it took " + quote(took) + ", which is wrong"}
}

func quote(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}

var (
	gsm8kMark   = lazily(`#### (-?[0-9.,]+)`)
	gsm8kNumber = lazily(`(-?[$0-9.,]{2,})|(-?[0-9]+)`)
	gsm8kPhrase = lazily(`The answer is (-?[0-9.,]+).`)
)

// gsm8kOfficial compares the texts of the numbers behind the first "#### ".
func gsm8kOfficial(output, gold string) (string, bool) {
	number := func(text string) string {
		m := gsm8kMark().FindStringSubmatch(text)
		if m == nil {
			return invalid
		}
		return strings.ReplaceAll(m[1], ",", "")
	}
	took := number(output)
	return took, took != invalid && took == number(gold)
}

func gsm8kStrict(output, gold string) (string, bool) {
	return gsm8kCompare(firstGroup(gsm8kMark(), output), gold)
}

// gsm8kCoT is the pattern of the tasks with a chain of thought. It wants one character
// more behind the number, and takes the last digit for it if there is no other.
func gsm8kCoT(output, gold string) (string, bool) {
	parts := strings.Split(gold, "####")
	return gsm8kCompare(firstGroup(gsm8kPhrase(), output), pythonStrip(parts[len(parts)-1]))
}

// gsm8kFlexible takes the last of what could be a number.
func gsm8kFlexible(output, gold string) (string, bool) {
	took := invalid
	if all := gsm8kNumber().FindAllString(output, -1); len(all) > 0 {
		took = all[len(all)-1]
	}
	return gsm8kCompare(took, gold)
}

func firstGroup(pattern *regexp.Regexp, text string) string {
	if m := pattern.FindStringSubmatch(text); m != nil {
		return pythonStrip(m[1])
	}
	return invalid
}

// gsm8kCompare is lm-eval's exact_match with what the tasks leave out of both texts.
func gsm8kCompare(took, gold string) (string, bool) {
	clean := func(s string) string {
		s = strings.NewReplacer(",", "", "$", "").Replace(s)
		if i := strings.LastIndex(s, "#### "); i >= 0 {
			s = s[i+len("#### "):]
		}
		switch { // Python's $ stands before a last line feed too
		case strings.HasSuffix(s, "."):
			s = s[:len(s)-1]
		case strings.HasSuffix(s, ".\n"):
			s = s[:len(s)-2] + "\n"
		}
		// Arrays of numpy drop zeros at the end of a text.
		return strings.TrimRight(pythonLower(s), "\x00")
	}
	return took, clean(took) == clean(gold)
}

func pythonLower(s string) string { return strings.ToLower(s) }

func compileMMLUPro(take func(output string) string) func([]byte) (func(string) Verdict, error) {
	return func(expected []byte) (func(string) Verdict, error) {
		gold, err := textOf(expected)
		if err != nil {
			return nil, err
		}
		if len(gold) != 1 || gold[0] < 'A' || gold[0] > 'J' {
			return nil, fmt.Errorf("is %.40q", gold)
		}
		return func(output string) Verdict {
			took := take(output)
			return verdict(took, took == gold)
		}, nil
	}
}

var (
	mmluProPhrase = lazily(`answer is \(?([A-J])\)?`)
	mmluProLabel  = lazily(`.*[aA]nswer:` + pythonSpace + `*([A-J])`)
)

func mmluProLMEval(output string) string {
	return firstGroup(mmluProPhrase(), output)
}

// mmluProOfficial takes a letter behind "answer is", else behind "answer:", else the
// last that stands alone. Where there is none, the official script guesses by chance;
// here the output is wrong.
func mmluProOfficial(output string) string {
	output = strings.ReplaceAll(output, "**", "")
	for _, pattern := range []*regexp.Regexp{mmluProPhrase(), mmluProLabel()} {
		if took := firstGroup(pattern, output); took != invalid {
			return took
		}
	}
	took := invalid
	before := ' '
	runes := []rune(output)
	for i, r := range runes {
		if r >= 'A' && r <= 'J' && !isWord(before) && (i+1 == len(runes) || !isWord(runes[i+1])) {
			took = string(r)
		}
		before = r
	}
	return took
}

// isWord is \w of Python.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
