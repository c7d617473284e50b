package plain

import "strings"

// lookAlikes are the ASCII texts that are taken for each other in common
// fonts, each with the text that stands for its group. They are applied after
// lower-casing, in this order.
var lookAlikes = [...]struct{ from, to string }{
	{"rn", "m"},
	{"vv", "w"},
	{"0", "o"},
	{"1", "l"},
	{"i", "l"}, // upper-case I is lower-cased before
	{"_", "-"},
}

// Fold maps names that a person could take for each other to one text. It is
// for names that may hold only ASCII, which is what keeps letters of other
// alphabets out; then this short table is the whole of the confusable folding:
// Unicode's own table has nothing else within ASCII that is more than a
// similarity of single letters across case.
func Fold(name string) string {
	s := strings.ToLower(name)
	for _, l := range lookAlikes {
		s = strings.ReplaceAll(s, l.from, l.to)
	}
	return s
}

// Invisible reports whether r shows nothing by itself and so lets two
// different texts look the same, or hides one text in another. The list is
// fixed: a table that grows with Unicode would make old names refusable.
func Invisible(r rune) bool {
	switch {
	case r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xfeff, r == 0xffa0:
		return true
	case 0x180b <= r && r <= 0x180f, 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e,
		0x2060 <= r && r <= 0x206f, 0xfe00 <= r && r <= 0xfe0f, 0xfff0 <= r && r <= 0xfffb,
		0xe0000 <= r && r <= 0xe0fff:
		return true
	}
	return false
}
