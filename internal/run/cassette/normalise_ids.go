package cassette

import (
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/run/wire"
)

// idToken stands for an id whose number does not matter.
const idToken = "⟨id⟩"

// numberIDs numbers ids in the order in which they first appear, so that
// different ids stay different.
func numberIDs() func(id string) string {
	numbers := map[string]string{}
	return func(id string) string {
		token, known := numbers[id]
		if !known {
			token = "⟨id" + strconv.Itoa(len(numbers)+1) + "⟩"
			numbers[id] = token
		}
		return token
	}
}

// drawnPrefixes begin the ids of providers.
var drawnPrefixes = sync.OnceValue(wire.DrawnPrefixes)

// The least length of ids without separators, with their prefix if they have one.
const (
	minHexID      = 16
	minProviderID = 12
	ulidLength    = 26
	uuidLength    = 36
)

// withoutIDs replaces ids that the case does not give.
func (g *given) withoutIDs(s string, token func(string) string) string {
	var out strings.Builder
	kept := 0
	eachID(s, func(start, end int) {
		if g.ids[plainID(s[start:end])] {
			return
		}
		out.WriteString(s[kept:start])
		out.WriteString(token(s[start:end]))
		kept = end
	})
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

// blankIDs takes the ids out of the texts of a JSON value, without numbers.
func (g *given) blankIDs(json string) string {
	n := wire.ParseCanonical(json)
	var blank func(n *wire.Node)
	blank = func(n *wire.Node) {
		if n.Kind == '"' {
			n.Text = g.withoutIDs(n.Text, func(string) string { return idToken })
		}
		for i := range n.List {
			blank(&n.List[i])
		}
	}
	blank(&n)
	return string(n.AppendJSON(nil))
}

func (g *given) noteIDs(s string) {
	eachID(s, func(start, end int) { g.ids[plainID(s[start:end])] = true })
}

// plainID is an id however it is spelled.
func plainID(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

// eachID finds the ids in a text. It looks at words of letters, digits, "_" and
// "-", and at each of them a fixed number of times.
func eachID(s string, found func(start, end int)) {
	for i := 0; i < len(s); {
		if !isNameByte(s[i]) {
			i++
			continue
		}
		end := i
		for end < len(s) && isNameByte(s[end]) {
			end++
		}
		idsOfWord(s, i, end, found)
		i = end
	}
}

// idsOfWord finds the ids in one word: all of it, if a provider drew it; a UUID at
// its end; or parts of it between separators.
func idsOfWord(s string, start, end int, found func(start, end int)) {
	word := s[start:end]
	if isProviderID(word) {
		found(start, end)
		return
	}
	if n := len(word) - uuidLength; n >= 0 && isUUID(word[n:]) && (n == 0 || isSeparator(word[n-1])) {
		word = word[:n]
		defer found(start+n, end)
	}
	for from := 0; from <= len(word); {
		to := from
		for to < len(word) && !isSeparator(word[to]) {
			to++
		}
		if part := word[from:to]; isHexID(part) || isULID(part) {
			found(start+from, start+to)
		}
		from = to + 1
	}
}

func isProviderID(word string) bool {
	if len(word) < minProviderID {
		return false
	}
	for _, p := range drawnPrefixes() {
		rest, ok := strings.CutPrefix(word, p)
		if ok && (isUUID(rest) || hasLetterAndDigit(rest) && !strings.ContainsAny(rest, "_-")) {
			return true
		}
	}
	return false
}

func isUUID(s string) bool {
	if len(s) != uuidLength {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}

// isHexID accepts hexadecimal digits of one case with a letter among them: what
// is all decimal digits is a number, and a number means something.
func isHexID(s string) bool {
	if len(s) < minHexID || !hasLetterAndDigit(s) {
		return false
	}
	lower, upper := false, false
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
		lower, upper = lower || s[i] >= 'a', upper || 'A' <= s[i] && s[i] <= 'F'
	}
	return !lower || !upper
}

func isULID(s string) bool {
	if len(s) != ulidLength || s[0] > '7' || !hasLetterAndDigit(s) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && (c < 'A' || c > 'Z' || strings.IndexByte("ILOU", c) >= 0) {
			return false
		}
	}
	return true
}

func hasLetterAndDigit(s string) bool {
	letter, digit := false, false
	for i := range len(s) {
		letter, digit = letter || isLetter(s[i]), digit || isDigit(s[i])
	}
	return letter && digit
}

func isSeparator(c byte) bool { return c == '_' || c == '-' }
func isLetter(c byte) bool    { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isHex(c byte) bool       { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
