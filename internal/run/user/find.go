package user

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/run/sight"
)

// anywhere is how many letters and digits a text must have to be found inside longer
// words too.
const anywhere = 8

// A finder looks for one text in messages, in whatever spelling.
type finder struct {
	core     string // folded letters and digits
	digits   bool   // nothing else but digits
	answer   sight.Answer
	backward string
}

func newFinder(text string) finder {
	f := finder{core: coreOf([]byte(sight.FoldString(text))), answer: sight.NewAnswer(text)}
	f.digits = f.core != "" && strings.Trim(f.core, "0123456789") == ""
	runes := []rune(f.core)
	for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
		runes[i], runes[j] = runes[j], runes[i]
	}
	f.backward = string(runes)
	return f
}

// in reports whether a message has the text.
func (f *finder) in(message string) (found bool) {
	if f.core == "" {
		return false
	}
	sight.Unwrap([]byte(message), func(plainer []byte) {
		found = found || f.inFolded(sight.Fold(nil, plainer))
	})
	return found
}

func (f *finder) inFolded(folded []byte) bool {
	if f.answer.Decidable() {
		if at, _ := f.answer.Index(folded, 0); at >= 0 {
			return true
		}
	}
	if f.stands(folded, f.core) {
		return true
	}
	spoken := digitsOfWords(folded)
	if f.stands(spoken, f.core) {
		return true
	}
	if f.digits && len(f.core) >= 4 && strings.Contains(onlyDigits(spoken), f.core) {
		return true // "4, then 7, and 1 1 at the end"
	}
	if len(f.core) >= 5 && (f.stands(folded, f.backward) || f.digits && strings.Contains(onlyDigits(spoken), f.backward)) {
		return true
	}
	return len(f.core) >= 5 && !f.digits && f.stands(lettersOfDigits(folded), string(lettersOfDigits([]byte(f.core))))
}

// stands reports whether letters and digits stand in a folded text in this order with
// nothing but other characters between them. Short ones must be whole words.
func (f *finder) stands(folded []byte, core string) bool {
	var run []byte
	var begins, ends []bool // whether a word begins, or ends, at each byte of run
	word := false
	for i := 0; i < len(folded); {
		r, size := utf8.DecodeRune(folded[i:])
		if !isWordRune(r) {
			if word && len(ends) > 0 {
				ends[len(ends)-1] = true
			}
			word, i = false, i+size
			continue
		}
		for k := range size {
			run = append(run, folded[i+k])
			begins, ends = append(begins, k == 0 && !word), append(ends, false)
		}
		word, i = true, i+size
	}
	if len(ends) > 0 {
		ends[len(ends)-1] = true
	}
	for from := 0; ; {
		i := bytes.Index(run[from:], []byte(core))
		if i < 0 {
			return false
		}
		at := from + i
		if len(core) >= anywhere || begins[at] && ends[at+len(core)-1] {
			return true
		}
		from = at + 1
	}
}

func coreOf(folded []byte) string {
	return strings.Map(func(r rune) rune {
		if isWordRune(r) {
			return r
		}
		return -1
	}, string(folded))
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

var digitWords = map[string]string{"zero": "0", "oh": "0", "nought": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"null": "0", "eins": "1", "zwei": "2", "drei": "3", "vier": "4", "funf": "5", "fuenf": "5", "sechs": "6", "sieben": "7", "acht": "8", "neun": "9"}

// digitsOfWords writes digits for the words that name them; "double 1" is 11.
func digitsOfWords(folded []byte) []byte {
	var out []byte
	times := 1
	for _, word := range bytes.FieldsFunc(folded, func(r rune) bool { return !isWordRune(r) }) {
		text := string(word)
		switch text {
		case "double":
			times = 2
			continue
		case "triple":
			times = 3
			continue
		}
		if digit, ok := digitWords[text]; ok {
			text = digit
		}
		for range times {
			out = append(append(out, text...), ' ')
		}
		times = 1
	}
	return out
}

func onlyDigits(text []byte) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, string(text))
}

// lettersOfDigits undoes the custom of writing digits and signs for letters.
func lettersOfDigits(folded []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch r {
		case '0':
			return 'o'
		case '1', '!', '|', 'l':
			return 'i'
		case '3':
			return 'e'
		case '4', '@':
			return 'a'
		case '5', '$':
			return 's'
		case '7', '+':
			return 't'
		}
		return r
	}, folded)
}

// says reports whether a folded text has a word, or one that begins with it, such as
// models for model.
func says(folded []byte, word string) bool {
	word = sight.FoldString(word)
	for from := 0; word != "" && from <= len(folded); {
		i := bytes.Index(folded[from:], []byte(word))
		if i < 0 {
			return false
		}
		at := from + i
		if before, _ := utf8.DecodeLastRune(folded[:at]); at == 0 || !isWordRune(before) {
			return true
		}
		from = at + 1
	}
	return false
}
