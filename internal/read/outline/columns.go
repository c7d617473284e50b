package outline

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"

	"tallystick/internal/read/difference"
	"tallystick/internal/record/plain"
)

// MaxColumns is how many texts stand side by side; more are read as a table.
const MaxColumns = 4

// Bounds of what stands in columns: an answer may be a book.
const (
	minColumn    = 12   // narrower ones cannot be read
	maxCellLines = 16   // of one text
	maxCellWords = 4000 // that are compared
)

// A Column is one text of several that are read beside each other.
type Column struct{ Title, Text string }

// SideBySide sets texts beside each other, for a terminal that is so many columns wide.
// What differs from the first text is marked in the others: words that it does not have
// stand in {+these+}, words that only it has in [-these-] where nothing else came in
// their place. Lines break between words; a word that is longer than its column is
// broken where the column ends.
//
// On a terminal that is too narrow, and for texts that are written from right to left,
// which a terminal may draw across columns, they stand below each other.
//
// Every text is made safe to print here.
func SideBySide(columns []Column, terminal int) string {
	if len(columns) == 0 {
		return ""
	}
	texts := make([][]string, len(columns))
	first := wordsBounded(columns[0].Text)
	for i, c := range columns {
		texts[i] = first
		if i > 0 {
			texts[i] = marked(first, wordsBounded(c.Text))
		}
		if len(texts[i]) == 0 {
			texts[i] = []string{"(nothing)"}
		}
	}
	const between = " | "
	each := (terminal - len(between)*(len(columns)-1)) / len(columns)
	if each < minColumn || rightToLeft(columns) {
		return stacked(columns, texts, max(terminal, 2*minColumn))
	}
	cells, head, high := make([][]string, len(columns)), 0, 0
	for i, c := range columns {
		cells[i] = titleLines(c.Title, each)
		head = max(head, len(cells[i]))
	}
	for i := range cells {
		for len(cells[i]) < head { // texts begin in the same line
			cells[i] = append(cells[i], "")
		}
		cells[i] = append(cells[i], bound(fill(texts[i], each))...)
		high = max(high, len(cells[i]))
	}
	var out strings.Builder
	for line := range high {
		var row strings.Builder
		for i := range cells {
			text := ""
			if line < len(cells[i]) {
				text = cells[i][line]
			}
			if i > 0 {
				row.WriteString(between)
			}
			row.WriteString(text + strings.Repeat(" ", max(0, each-Width(text))))
		}
		out.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return out.String()
}

// stacked sets texts below each other, each behind its title.
func stacked(columns []Column, texts [][]string, terminal int) string {
	var out strings.Builder
	for i, c := range columns {
		out.WriteString(strings.Join(titleLines(c.Title, terminal), "\n") + "\n")
		for _, line := range bound(fill(texts[i], terminal-2)) {
			out.WriteString("  " + line + "\n")
		}
	}
	return out.String()
}

// titleLines is a title in at most two lines; of a longer one the end is kept, where
// variants differ.
func titleLines(title string, columns int) []string {
	if title == "" {
		return nil
	}
	lines := fill([]string{plain.Line(title)}, columns)
	if len(lines) > 2 {
		lines = lines[len(lines)-2:]
	}
	return lines
}

// wordsBounded are the words of a text, made safe one by one: line breaks are gone, so
// that no line of a text can pose as one of ours.
func wordsBounded(text string) []string {
	words := strings.Fields(text)
	if more := len(words) - maxCellWords; more > 0 {
		words = append(words[:maxCellWords:maxCellWords], fmt.Sprintf("…%d more words", more))
	}
	for i, w := range words {
		words[i] = plain.Line(w)
	}
	return words
}

// marked are the words of a text with what differs from the first in marks.
func marked(first, words []string) []string {
	var out []string
	for _, r := range difference.Runs(first, words) {
		switch {
		case r.Equal:
			out = append(out, words[r.B.From:r.B.To]...)
		case r.B.Len() > 0:
			out = append(out, enclosed(difference.AddedMark, words[r.B.From:r.B.To])...)
		default:
			out = append(out, enclosed(difference.RemovedMark, first[r.A.From:r.A.To])...)
		}
	}
	return out
}

// enclosed puts words into marks; each stays a word of its own, so that lines break
// between them.
func enclosed(mark [2]string, words []string) []string {
	out := append([]string{}, words...)
	out[0] = mark[0] + out[0]
	out[len(out)-1] += mark[1]
	return out
}

// fill breaks words into lines of so many columns.
func fill(words []string, columns int) []string {
	var lines []string
	line, at := "", 0
	for _, w := range words {
		if at > 0 && at+1+Width(w) > columns {
			lines, line, at = append(lines, line), "", 0
		}
		if at > 0 {
			line, at = line+" ", at+1
		}
		for _, r := range w {
			if n := runeWidth(r); at+n > columns {
				lines, line, at = append(lines, line), "", 0
			}
			line += string(r)
			at += runeWidth(r)
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// bound leaves out the end of a long text, and says so.
func bound(lines []string) []string {
	if more := len(lines) - maxCellLines; more > 0 {
		return append(lines[:maxCellLines:maxCellLines], fmt.Sprintf("… +%d", more))
	}
	return lines
}

// rightToLeft reports whether a text has letters that are written from right to left.
func rightToLeft(columns []Column) bool {
	for _, c := range columns {
		for _, r := range c.Text + c.Title {
			if p, _ := bidi.LookupRune(r); p.Class() == bidi.R || p.Class() == bidi.AL {
				return true
			}
		}
	}
	return false
}

// Width is how many columns of a terminal a text takes: two for a character of Chinese,
// Japanese or Korean and for most pictures, none for an accent on the one before it.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300: // before the first accent that stands on another letter
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
