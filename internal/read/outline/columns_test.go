package outline

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSideBySideMarksWhatDiffersFromTheFirst(t *testing.T) {
	got := SideBySide([]Column{{"was", "You may return it within 30 days of buying it."}, {"now", "You may not return it within 14 days"}}, 60)
	want := `was                          | now
You may return it within 30  | You may {+not+} return it
days of buying it.           | within {+14+} days [-of
                             | buying it.-]
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := SideBySide([]Column{{"a", "the same"}, {"b", "the same"}}, 60); strings.ContainsAny(got, "{[") {
		t.Errorf("marks where nothing differs:\n%s", got)
	}
	if got := SideBySide([]Column{{"a", ""}, {"b", ""}}, 60); !strings.Contains(got, "(nothing)") {
		t.Errorf("an empty answer cannot be told from a missing one:\n%s", got)
	}
}

// hostile are answers that agents may give.
var hostile = map[string]string{
	"a terminal's commands": "\x1b[2J\x1b[H\x1b]0;owned\x07 passed \x9b31m",
	"lines of ours":         "first\nNOT RECORDED: all is well\r\npassed   norway\n",
	"our marks":             "{+this+} and [-that-] | stand",
	"wide":                  strings.Repeat("东京是日本的首都", 12),
	"accents":               strings.Repeat("e\u0301", 200),
	"very long words":       strings.Repeat("x", 5000),
	"no text":               "\x00\xff\xfe",
	"pictures":              strings.Repeat("👍🏽 ", 40),
	"many lines":            strings.Repeat("word\n", 3000),
	"reversed":              "safe \u202e cod.exe",
	"orders to a runner":    "::set-output name=x::y ##[group]",
}

// TestSideBySideStaysInItsColumns: whatever an agent says, no line is wider than the
// terminal, nothing acts on it, and the columns stay where they are.
func TestSideBySideStaysInItsColumns(t *testing.T) {
	for name, text := range hostile {
		for _, terminal := range []int{80, 132, 40} {
			for n := 1; n <= MaxColumns; n++ {
				columns := []Column{{"one", "A short and honest answer."}}
				for len(columns) < n {
					columns = append(columns, Column{"support[model=" + name + "]", text})
				}
				got := SideBySide(columns, terminal)
				for line := range strings.Lines(got) {
					line = strings.TrimSuffix(line, "\n")
					if Width(line) > terminal || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b || r == 0x202e }) {
						t.Errorf("%s, %d columns of %d: %q (%d wide)", name, n, terminal, line, Width(line))
					}
				}
				if lines := strings.Count(got, "\n"); lines > n*(maxCellLines+4) {
					t.Errorf("%s: %d lines", name, lines)
				}
				if each := (terminal - 3*(n-1)) / n; each >= minColumn && n > 1 {
					for line := range strings.Lines(got) {
						at := 0
						for _, r := range line {
							if at == each {
								break
							}
							at += runeWidth(r)
						}
						if rest := []rune(line); at == each && len(rest) > 0 && !strings.Contains(line, " |") {
							t.Errorf("%s, %d columns of %d: a line without its columns: %q", name, n, terminal, line)
						}
					}
				}
			}
		}
	}
}

func TestTextsFromRightToLeftStandBelowEachOther(t *testing.T) {
	for _, text := range []string{"שלום עולם", "مرحبا بالعالم", "one word ܫܠܡܐ"} {
		got := SideBySide([]Column{{"was", "hello"}, {"now", text}}, 120)
		if strings.Contains(got, " | ") || strings.Count(got, "\n") != 4 {
			t.Errorf("%q stands in columns:\n%s", text, got)
		}
	}
}

func TestWidthCountsColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "東京": 4, "ｱ": 1, "👍": 2, "…": 1} {
		if got := Width(text); got != want {
			t.Errorf("%q: %d columns, want %d", text, got, want)
		}
	}
}
