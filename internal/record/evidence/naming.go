package evidence

import (
	"strconv"
	"strings"
	"unicode"

	"tallystick/internal/record/refusal"
)

// MaxNameBytes bounds the name of an attempt, which stands in tables.
const MaxNameBytes = 80

// AttemptNamed gives an attempt a name, a note, or both. The newest of each is the one
// that is shown, beside the id and never in its place where something is decided.
type AttemptNamed struct {
	Attempt string `json:"attempt"`
	Name    string `json:"name,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Kind is attempt.named.
func (*AttemptNamed) Kind() Kind { return AttemptNamedKind }

// Latest is how people address the newest attempt; "latest~2" is two before it.
const Latest = "latest"

// CheckName refuses a name that could be taken for another way to address an attempt,
// or for another name.
func CheckName(name string) error {
	refuse := func(why string) error {
		return refusal.Newf(refusal.Usage, "%q is not a name for an attempt: %s", name, why).WithHint(`a name is words of one script, as in "prompt v9"`)
	}
	word := strings.ToLower(strings.TrimSpace(name))
	_, notNumber := strconv.ParseFloat(word, 64)
	if _, err := strconv.ParseInt(word, 0, 64); err == nil { // 0x1f, 0b1
		notNumber = nil
	}
	switch {
	case name == "" || word != strings.ToLower(name) || strings.Contains(name, "  "):
		return refuse("it is empty, or has blanks where they cannot be seen")
	case len(name) > MaxNameBytes:
		return refuse("it has " + strconv.Itoa(len(name)) + " bytes, at most " + strconv.Itoa(MaxNameBytes) + " are accepted")
	case notNumber == nil:
		return refuse("it is a number, and numbers count attempts")
	case strings.HasPrefix(word, Latest):
		return refuse("it begins as the word for the newest attempt")
	case LooksLikeID(word):
		return refuse("it looks like the id of an attempt")
	case strings.ContainsAny(name, ":~/\\"):
		return refuse("it has a character that separates the parts of an address")
	}
	scripts := 0
	for _, table := range letterScripts {
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(table, r) }) {
			scripts++
		}
	}
	if scripts > 1 {
		return refuse("it mixes scripts whose letters look alike")
	}
	for _, r := range name {
		if r != ' ' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+#()'", r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Lm, r) || !inOneScript(r) {
			return refuse("it has the character " + strconv.QuoteRuneToASCII(r))
		}
	}
	return nil
}

// letterScripts are the scripts that a name may be written in, one at a time. Full-width
// and mathematical letters are Latin or no script of these, and are refused.
var letterScripts = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee, unicode.Arabic, unicode.Hebrew,
	unicode.Devanagari, unicode.Thai, unicode.Georgian, unicode.Hangul, unicode.Han, unicode.Hiragana, unicode.Katakana}

// inOneScript reports whether a letter or digit is one that people type: of a script
// of the list, and not a presentation form of another letter.
func inOneScript(r rune) bool {
	if r < 0x80 {
		return true
	}
	if r >= 0xFB00 && r <= 0xFFEF || r >= 0x2100 && r <= 0x214F || r >= 0x1D400 {
		return r >= 0x20000 && unicode.Is(unicode.Han, r)
	}
	return unicode.In(r, letterScripts...)
}

// LooksLikeID reports whether a text has the form of an attempt's id, CLASS.TARGET.NUMBER.
func LooksLikeID(word string) bool {
	parts := strings.Split(word, ".")
	if len(parts) < 3 {
		return false
	}
	_, err := strconv.Atoi(parts[len(parts)-1])
	return err == nil
}
