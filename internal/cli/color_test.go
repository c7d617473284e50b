package cli

import (
	"strings"
	"testing"

	"tallystick/internal/record/plain"
)

func TestPaintColoursOurWordsAlone(t *testing.T) {
	for _, tt := range []struct{ name, text, color, without string }{
		{"nothing", "passed\n", "passed\n", "passed\n"},
		{"an outcome", outcomeText("passed") + " x\n", "\x1b[32mpassed\x1b[0m x\n", "passed x\n"},
		{"another", outcomeText("errored"), "\x1b[31merrored\x1b[0m", "errored"},
		{"one that is not known", outcomeText("odd"), "\x1b[33modd\x1b[0m", "odd"},
		// What an agent says is made safe before, whatever it writes.
		{"an agent's codes", plain.Line("\x01passed\x0e \x1b[32mok"), `\x01passed\x0e \x1b[32mok`, `\x01passed\x0e \x1b[32mok`},
		{"other alphabets", heading.of("試験 é"), "\x1b[1m試験 é\x1b[0m", "試験 é"},
	} {
		if got := string(paint([]byte(tt.text), true)); got != tt.color {
			t.Errorf("%s: %q", tt.name, got)
		}
		if got := string(paint([]byte(tt.text), false)); got != tt.without {
			t.Errorf("%s without colours: %q", tt.name, got)
		}
	}
}

func TestDivergencesAreDiffs(t *testing.T) {
	var out strings.Builder
	divergenceText(&out, "turn 1, step 2: changed\n  - a\x1b: 1\n  + a: 2\n", "> ")
	want := "> turn 1, step 2: changed\n> \x1b[31m  - a\\x1b: 1\x1b[0m\n> \x1b[32m  + a: 2\x1b[0m\n"
	if got := string(paint([]byte(out.String()), true)); got != want {
		t.Errorf("%q", got)
	}
}

func TestLinesAreCutWhereTheTerminalEnds(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abcd   ", 4, "abcd   "}, {"", 3, ""},
		{good.of("abcd"), 4, good.of("abcd")}, {good.of("abcd"), 3, good.of("ab…")}, {good.of("ab") + "cd", 3, good.of("ab") + "…"},
		{"éééé", 3, "éé…"},
	} {
		if got := shorten(tt.line, tt.columns); got != tt.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for _, tt := range []struct{ name, value string }{{"NO_COLOR", "1"}, {"TERM", "dumb"}, {"", ""}} {
		env := newEnv(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, func(name string) string {
			if name == tt.name {
				return tt.value
			}
			return ""
		})
		if env.Color(env.Stdout) {
			t.Errorf("%s=%s: colours in a pipe", tt.name, tt.value)
		}
	}
}
