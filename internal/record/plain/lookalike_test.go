package plain

import "testing"

func TestFoldTakesLookAlikesForOne(t *testing.T) {
	for _, pair := range [][2]string{{"Case", "case"}, {"b0b", "bob"}, {"b0b", "bOb"}, {"a1", "al"}, {"a1", "aI"}, {"aI", "al"}, {"barn", "bam"}, {"vvide", "wide"}, {"a-b", "a_b"}, {"VVIDE", "wlde"}} {
		if Fold(pair[0]) != Fold(pair[1]) {
			t.Errorf("%q and %q are told apart", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"a", "b"}, {"case-2", "case-3"}, {"a.b", "a-b"}, {"nm", "nn"}} {
		if Fold(pair[0]) == Fold(pair[1]) {
			t.Errorf("%q and %q are taken for one", pair[0], pair[1])
		}
	}
}

func TestInvisible(t *testing.T) {
	for _, r := range []rune{0xad, 0x200b, 0x200d, 0x200e, 0x2028, 0x202e, 0x2060, 0x2066, 0xfe0f, 0xfeff, 0xe0001, 0xe0041, 0xe007f, 0xe0100, 0xe01ef} {
		if !Invisible(r) {
			t.Errorf("%U counts as visible", r)
		}
	}
	for _, r := range "aZ 0\n\t-é試م🙂\u0301\ufffd" {
		if Invisible(r) {
			t.Errorf("%U counts as invisible", r)
		}
	}
}
