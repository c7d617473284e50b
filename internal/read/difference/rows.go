package difference

import "strings"

// A Row is a line of a difference by lines, or a stretch of equal lines that is folded.
type Row struct {
	Kind     Kind
	Was, Now int // numbers of the line, from 1; 0 in a text that does not have it
	Text     string
	// Words are how the line differs from the one in whose place it stands, where a line
	// stands for a line; nil otherwise.
	Words  []Segment
	Folded int // equal lines that are left out here, if it is not a line
}

// maxWordsOfLine bounds the lines that are compared word by word.
const maxWordsOfLine = 4 << 10

// Rows are the lines of a difference, with so many equal ones around each change; the
// others are folded. A negative number folds nothing.
func (d Difference) Rows(around int) []Row {
	var out []Row
	was, now := 0, 0
	for i, s := range d.Segments {
		lines, _ := byLine.tokens(s.Text, len(s.Text))
		if s.Kind == Equal {
			out = appendEqual(out, lines, was, now, around, i > 0, i < len(d.Segments)-1)
			was, now = was+len(lines), now+len(lines)
			continue
		}
		pairs := d.inPlaceOf(i)
		for k, line := range lines {
			row := Row{Kind: s.Kind, Text: line}
			if pairs != nil && len(line) <= maxWordsOfLine && len(pairs[k]) <= maxWordsOfLine {
				row.Words = Words(line, pairs[k]).Segments
				if s.Kind == Added {
					row.Words = Words(pairs[k], line).Segments
				}
			}
			if s.Kind == Removed {
				was++
				row.Was = was
			} else {
				now++
				row.Now = now
			}
			out = append(out, row)
		}
	}
	return out
}

// inPlaceOf are the lines in whose place those of a segment stand; nil unless there are as
// many of them.
func (d Difference) inPlaceOf(i int) []string {
	other := i + 1
	if d.Segments[i].Kind == Added {
		other = i - 1
	}
	if other < 0 || other >= len(d.Segments) || d.Segments[other].Kind == Equal {
		return nil
	}
	if strings.Count(d.Segments[other].Text, "\n") != strings.Count(d.Segments[i].Text, "\n") {
		return nil
	}
	own, _ := byLine.tokens(d.Segments[i].Text, len(d.Segments[i].Text))
	lines, _ := byLine.tokens(d.Segments[other].Text, len(d.Segments[other].Text))
	if len(lines) != len(own) {
		return nil
	}
	return lines
}

// appendEqual adds equal lines, those far from a change folded.
func appendEqual(out []Row, lines []string, was, now, around int, before, after bool) []Row {
	head, tail := len(lines), 0
	if around >= 0 {
		head, tail = 0, 0
		if before {
			head = min(around, len(lines))
		}
		if after {
			tail = min(around, len(lines)-head)
		}
		if len(lines)-head-tail <= 1 { // a fold takes as much room
			head = len(lines) - tail
		}
	}
	for k, line := range lines[:head] {
		out = append(out, Row{Was: was + k + 1, Now: now + k + 1, Text: line})
	}
	if folded := len(lines) - head - tail; folded > 0 {
		out = append(out, Row{Folded: folded})
	}
	for k := len(lines) - tail; k < len(lines); k++ {
		out = append(out, Row{Was: was + k + 1, Now: now + k + 1, Text: lines[k]})
	}
	return out
}

// Ends reports whether the line has no end: it is the last of a text without one.
func (r Row) Ends() bool { return r.Folded == 0 && strings.HasSuffix(r.Text, "\n") }
