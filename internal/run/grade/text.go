package grade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
	"tallystick/internal/run/extract"
)

// maxText bounds the texts that are normalised, searched or read as JSON. A
// longer one fails: an agent must not make grading slow by writing much.
const maxText = 1 << 20

// textOf gives the text that text graders look at.
func textOf(v *extract.Value) (string, *verdict) {
	if v.Kind != extract.TextValue {
		bad := unusable(CodeNotComparable, "the value is a %s, expected text", v.Kind)
		return "", &bad
	}
	if len(v.Text) > maxText {
		bad := unusable(CodeTooLarge, "the text has %d bytes, more than the %d that are compared", len(v.Text), maxText)
		return "", &bad
	}
	return v.Text, nil
}

// normalised leaves out of a text what people do not mean when they say that
// two answers are the same:
//
//  1. Unicode normalisation form KC, so that composed and decomposed, full and
//     half width are one.
//  2. Case, rune by rune, by Unicode's simple folding: of the letters that it
//     takes for one, the lower case of the first. So a final sigma is a sigma.
//  3. Punctuation: brackets and quotation marks, and . , ; : ! ? become blanks.
//     They stay where they are part of a word or a number: an apostrophe
//     between letters, . , : between letters or digits, and . before a digit.
//     So 3.14 is not 314 and .5 is not 5. Nothing else goes: -5 is not 5, and
//     C# and C++ are not C.
//  4. White space: each run of it is one blank, none at the ends.
//
// Keep names the steps 2 to 4 that are not taken.
type normaliser struct{ keepCase, keepSpace, keepPunctuation bool }

func newNormaliser(keep []string) normaliser {
	return normaliser{slices.Contains(keep, "case"), slices.Contains(keep, "space"), slices.Contains(keep, "punctuation")}
}

func (n normaliser) text(s string) string {
	s = norm.NFKC.String(s)
	if !n.keepCase {
		s = strings.Map(folded, s)
	}
	if !n.keepPunctuation {
		s = withoutPunctuation(s)
	}
	if !n.keepSpace {
		s = strings.Join(strings.Fields(s), " ")
	}
	return s
}

// folded is the letter that stands for all that simple case folding takes for one.
func folded(r rune) rune {
	if r < unicode.MaxASCII {
		return unicode.ToLower(r)
	}
	least := r
	for x := unicode.SimpleFold(r); x != r; x = unicode.SimpleFold(x) {
		least = min(least, x)
	}
	return unicode.ToLower(least)
}

func withoutPunctuation(s string) string {
	runes := []rune(s)
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
	for i, r := range slices.Clone(runes) {
		before, after := at(i-1), at(i+1)
		switch {
		case r == '\'' || r == '’':
			if inWord(before) && inWord(after) {
				runes[i] = '\''
			} else {
				runes[i] = ' '
			}
		case strings.ContainsRune(".,:", r):
			if !(inWord(before) && inWord(after)) && !(r == '.' && unicode.IsDigit(after)) {
				runes[i] = ' '
			}
		case strings.ContainsRune(";!?\"`¡¿", r), unicode.In(r, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf):
			runes[i] = ' '
		}
	}
	return string(runes)
}

func normalisedGrader(want canon.RawMessage, r *Rule) (grader, error) {
	n := newNormaliser(r.Keep)
	texts, err := textList(want, false, n.text)
	if err != nil {
		return nil, err
	}
	expected := n.text(texts[0])
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		got := n.text(text)
		switch {
		case strings.TrimSpace(got) == "":
			return unusable(CodeNothingFound, "nothing is left of %s after normalising", quote(v, text))
		case got == expected:
			return passed("normalised, both are %s", quote(v, got))
		}
		return mismatch("normalised, it is %s, expected %s", quote(v, got), quoted(expected))
	}, nil
}

func containsGrader(expected canon.RawMessage, r *Rule) (grader, error) {
	want, prepare, err := searched(expected, r)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		text = prepare(text)
		for _, w := range want {
			if !strings.Contains(text, prepare(w)) {
				return mismatch("%s does not contain %s", quote(v, text), quoted(w))
			}
		}
		return passed("it contains %s", list3(want))
	}, nil
}

func oneOfGrader(expected canon.RawMessage, r *Rule) (grader, error) {
	want, prepare, err := searched(expected, r)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		text = prepare(text)
		for _, w := range want {
			if text == prepare(w) {
				return passed("it is %s", quoted(w))
			}
		}
		return mismatch("%s is none of %s", quote(v, text), list3(want))
	}, nil
}

// searched reads the texts that are looked for, and says how they and the value
// are prepared.
func searched(expected canon.RawMessage, r *Rule) (want []string, prepare func(string) string, err error) {
	if r.Normalised {
		want, err = textList(expected, true, normaliser{}.text)
		return want, normaliser{}.text, err
	}
	want, err = textList(expected, true, asItIs)
	return want, func(s string) string { return s }, err
}

// list3 names the first few of some texts.
func list3(texts []string) string {
	var shown []string
	for i, t := range texts {
		if i == 3 {
			shown = append(shown, "...")
			break
		}
		shown = append(shown, quoted(t))
	}
	return strings.Join(shown, ", ")
}

// A regexRule is a compiled pattern, and where it must be found.
type regexRule struct {
	pattern *pattern.Pattern
	where   string
}

func (c *compiler) regex(at place, n *node, r *Rule) error {
	rule, err := compileRegex(r.Pattern, r.Match)
	if err != nil {
		return &placed{at.in("pattern"), err}
	}
	n.expected, n.regex = mustJSON(r.Pattern), rule
	n.grade = func(v *extract.Value) verdict { return rule.grade(context.Background(), v) }
	return nil
}

func compileRegex(text, match string) (*regexRule, error) {
	// The pattern alone must be one too, or a bracket of ours would pair with
	// one of its own; and a mistake is told in its author's words.
	if _, err := pattern.Compile(text); err != nil {
		return nil, err
	}
	text = extract.UnicodePattern(text)
	where := "anywhere in it"
	if match != "anywhere" {
		text, where = `\A(?:`+text+`)\z`, "all of it"
	}
	p, err := pattern.Compile(text)
	return &regexRule{p, where}, err
}

// regex is the grader, under the context of the run: a search may take long.
func (r *run) regex(n *node, _ *Detail, v extract.Value, _ bool) tally {
	switch {
	case !v.Found:
		return notFound(v)
	case v.Span != nil:
		return single(n.named(r.in.Source, &v))
	}
	return single(n.regex.grade(r.in.Source.Lasting(), &v))
}

func (rule *regexRule) grade(ctx context.Context, v *extract.Value) verdict {
	text, bad := textOf(v)
	if bad != nil {
		return *bad
	}
	found, err := extract.Search(ctx, rule.pattern, text)
	var dear *extract.DearError
	switch {
	case errors.As(err, &dear):
		return unusable(CodeTooLarge, "%v", err)
	case err != nil:
		return unscored("%v", err)
	case found != nil:
		return passed("the pattern matches %s", rule.where)
	}
	return mismatch("the pattern does not match %s: %s", rule.where, quote(v, text))
}

// textList reads a text, or a list of some. One that nothing is left of after
// normalising would match every value of which nothing is left either.
func textList(raw canon.RawMessage, many bool, left func(string) string) ([]string, error) {
	var texts []string
	switch {
	case raw.Kind() == '"':
		texts = make([]string, 1)
		if err := canon.Unmarshal(raw, &texts[0]); err != nil {
			return nil, err
		}
	case raw.Kind() == '[' && many:
		if err := canon.Unmarshal(raw, &texts); err != nil {
			return nil, errors.New("expected is a list of something else than texts")
		}
	case many:
		return nil, fmt.Errorf("expected is %s, where text or a list of texts is needed", describe(raw))
	default:
		return nil, fmt.Errorf("expected is %s, where text is needed", describe(raw))
	}
	if len(texts) == 0 {
		return nil, errors.New("expected is an empty list")
	}
	for _, text := range texts {
		if len(text) > maxText {
			return nil, fmt.Errorf("a text of %d bytes, expected at most %d", len(text), maxText)
		}
		if strings.TrimSpace(left(text)) == "" {
			return nil, fmt.Errorf("%s is an empty text, which every value would match or none; the grader exact compares texts as they are", quoted(text))
		}
	}
	return texts, nil
}
