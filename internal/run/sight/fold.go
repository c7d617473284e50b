package sight

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"tallystick/internal/record/plain"
)

// Fold appends to dst what text is compared as: Unicode's compatibility
// decomposition (full-width, superscript and styled letters become plain ones),
// accents dropped, lower case, look-alike letters of other alphabets as the ASCII
// letter that they look like, digits of all scripts as ASCII digits, invisible
// characters dropped, dashes and quotation marks as ASCII ones, white space as
// single spaces. Bytes that are not UTF-8 become U+FFFD.
//
// It is coarser than NFKC with case folding: what these take for equal, it does.
// A text folds to the same text however it is cut into pieces, apart from spaces
// at the seams.
func Fold(dst, text []byte) []byte {
	space := len(dst) == 0 || dst[len(dst)-1] == ' '
	for len(text) > 0 {
		var n int
		if dst, n = foldWords(dst, text, space); n > 0 {
			space = text[n-1] == ' '
			text = text[n:]
		}
		// What stopped it is within the next 8 bytes.
		for rest := max(0, len(text)-8); len(text) > rest; {
			c := text[0]
			if c >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(text)
				text = text[size:]
				if f := foldRune(r); f != " " {
					dst = append(dst, f...)
					space = space && f == ""
					continue
				}
				c = ' '
			} else {
				text = text[1:]
			}
			switch {
			case asciiSpace[c]:
				if !space {
					dst = append(dst, ' ')
				}
				space = true
			case c >= ' ' && c != 0x7f:
				dst = append(dst, lowerASCII[c])
				space = false
			}
		}
	}
	return dst
}

// FoldString folds a short text and trims it.
func FoldString(s string) string {
	return strings.TrimSuffix(string(Fold(nil, []byte(s))), " ")
}

const (
	every  = 0x0101010101010101
	highs  = 0x8080808080808080
	blanks = 0x2020202020202020
)

// foldWords appends the bytes at the beginning of text, in steps of 8, that are
// printable ASCII without two spaces in a row, in lower case, and says how many:
// nearly all text is, and the fold of it is no more.
func foldWords(dst, text []byte, space bool) ([]byte, int) {
	n, last := 0, uint64(0) // 0x80 if the byte before is a space
	if space {
		last = 0x80
	}
	dst = slices.Grow(dst, len(text))
	out := dst[len(dst) : len(dst)+len(text)]
	for n+8 <= len(text) && n+8 <= len(out) {
		x := binary.LittleEndian.Uint64(text[n : n+8])
		// A byte below 0x20 or from 0x7f on: x-0x20 borrows, x+1 carries.
		if (x|(x-blanks)|(x+every))&highs != 0 {
			break
		}
		y := x ^ blanks
		s := (y - every) &^ y & highs // 0x80 at each space; the byte after a space may be marked wrongly only if it is 0x21
		if s&(s<<8|last) != 0 {
			break
		}
		last = s >> 56
		// 0x80 where the byte is from 'A' to 'Z': all bytes are below 0x80.
		upper := (x + (0x80-'A')*every) & ^(x + (0x80-'Z'-1)*every) & highs
		binary.LittleEndian.PutUint64(out[n:n+8], x|upper>>2)
		n += 8
	}
	// The mark of the last byte may be wrong; the byte itself is not.
	return dst[:len(dst)+n], n
}

// IsSpace reports whether a byte is white space of ASCII.
func IsSpace(c byte) bool { return asciiSpace[c] }

var asciiSpace = [256]bool{' ': true, '\t': true, '\n': true, '\v': true, '\f': true, '\r': true}

var lowerASCII = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// foldRune folds one character that is not ASCII.
func foldRune(r rune) string {
	if r < 1<<16 {
		return foldTable()[r]
	}
	return foldSlowly(r)
}

// foldTable has the fold of the characters of the first plane, which are looked
// up for every letter of a text that is not English. It takes some milliseconds
// to make, so it is made when the first such letter comes.
var foldTable = sync.OnceValue(func() *[1 << 16]string {
	var t [1 << 16]string
	for r := rune(utf8.RuneSelf); r < 1<<16; r++ {
		t[r] = foldSlowly(r)
	}
	return &t
})

// foldSlowly folds a character by the rules.
func foldSlowly(r rune) string {
	if unicode.IsSpace(r) || unicode.Is(unicode.Z, r) {
		return " "
	}
	if plain.Invisible(r) {
		return ""
	}
	if a, ok := lookAlike()[r]; ok {
		return a
	}
	var b strings.Builder
	for _, d := range norm.NFKD.String(string(r)) {
		switch {
		case 0x300 <= d && d <= 0x36f: // accents
		case plain.Invisible(d):
		case unicode.IsSpace(d):
			b.WriteByte(' ')
		default:
			if a, ok := lookAlike()[d]; ok {
				b.WriteString(a)
				continue
			}
			if n, ok := digitOf(d); ok {
				b.WriteByte('0' + n)
				continue
			}
			lower := unicode.ToLower(d)
			if a, ok := lookAlike()[lower]; ok {
				b.WriteString(a)
				continue
			}
			b.WriteRune(lower)
		}
	}
	return b.String()
}

// digitOf gives the value of a decimal digit of any script. In Unicode they
// stand in tens that begin with zero.
func digitOf(r rune) (byte, bool) {
	if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
		return 0, false
	}
	zero := r
	for unicode.Is(unicode.Nd, zero-1) && r-zero < 9 {
		zero--
	}
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10), true
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return byte((r - rune(t.Lo)) % 10), true
		}
	}
	return byte(r-zero) % 10, true
}
