package plain

import "testing"

func TestLinesAreShownBehindAMargin(t *testing.T) {
	for _, tt := range []struct{ in, lines, gist string }{
		{"", "", ""},
		{"one", "one", "one"},
		{"one\n", "one", "one"},
		{"died:\nTraceback:\n  File \"a.py\"\nValueError: no\n", "died:\n  | Traceback:\n  |   File \"a.py\"\n  | ValueError: no", "died: … ValueError: no"},
		{"a\n\tat b\r\nc", "a\n  |     at b\n  | c", "a … c"},
		// What a program writes cannot steer the terminal, a runner, or look like ours.
		{"a\n\x1b[31mred\n::set-output name=x::y\ntally: error: forged", "a\n  | \\x1b[31mred\n  | \\x3a:set-output name=x::y\n  | tally: error: forged", "a … tally: error: forged"},
		{"\x1b]0;title\a\nb", `\x1b]0;title\x07` + "\n  | b", `\x1b]0;title\x07` + " … b"},
	} {
		if got := Lines(tt.in, "  | "); got != tt.lines {
			t.Errorf("Lines(%q) = %q, want %q", tt.in, got, tt.lines)
		}
		if got := Gist(tt.in); got != tt.gist {
			t.Errorf("Gist(%q) = %q, want %q", tt.in, got, tt.gist)
		}
	}
}

func TestShorterKeepsBothEnds(t *testing.T) {
	for _, tt := range [][2]string{
		{"", ""}, {"a\nb\nc\n", "a\nb\nc\n"}, {"a\nb\nc\nd", "a\nb\nc\nd"}, {"a\nb\nc\nd\ne\n", "a\n… 2 lines left out …\nd\ne"},
	} {
		if got := Shorter(tt[0], 2); got != tt[1] {
			t.Errorf("Shorter(%q) = %q, want %q", tt[0], got, tt[1])
		}
	}
}
