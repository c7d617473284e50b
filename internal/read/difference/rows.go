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

// Rows are the lines of a difference, with so many equal ones around each change; the
// others are folded. A negative number folds nothing.
func (d Difference) Rows(around int) []Row {
	var out []Row
	was, now := 0, 0
	var places map[sideLine][]Segment // of the change that the rows are in
	for i, s := range d.Segments {
		lines, _ := byLine.tokens(s.Text, len(s.Text))
		if s.Kind == Equal {
			out = appendEqual(out, lines, was, now, around, i > 0, i < len(d.Segments)-1)
			was, now, places = was+len(lines), now+len(lines), nil
			continue
		}
		if s.Kind == Removed {
			places = d.inPlaceOf(i)
		}
		for k, line := range lines {
			row := Row{Kind: s.Kind, Text: line, Words: places[sideLine{s.Kind, k}]}
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

// A sideLine is a line of one side of a change.
type sideLine struct {
	kind Kind
	at   int
}

// Bounds of the lines that are compared word by word: each may be compared with each.
const (
	maxPairedLines = 24
	maxWordsOfLine = 4 << 10
)

// inPlaceOf tells of the lines of a removed segment and of the added one after it which
// stands for which, and how their words differ: in their order, those that have at least
// [minAlike] in common.
func (d Difference) inPlaceOf(i int) map[sideLine][]Segment {
	if i+1 == len(d.Segments) || d.Segments[i+1].Kind != Added {
		return nil
	}
	was, fits := byLine.tokens(d.Segments[i].Text, maxPairedLines)
	now, alsoFit := byLine.tokens(d.Segments[i+1].Text, maxPairedLines)
	if !fits || !alsoFit {
		return nil
	}
	places := map[sideLine][]Segment{}
	next := 0
	for j, a := range was {
		for k := next; k < len(now); k++ {
			if words := alike(a, now[k]); words != nil {
				places[sideLine{Removed, j}], places[sideLine{Added, k}] = words, words
				next = k + 1
				break
			}
		}
	}
	return places
}

// minAlike is how much of the longer of two lines both must have, or marks in them would
// say less than the lines.
const minAlike = 0.4

func alike(a, b string) []Segment {
	if len(a) > maxWordsOfLine || len(b) > maxWordsOfLine {
		return nil
	}
	words := Words(a, b).Segments
	same := 0
	for _, s := range words {
		if s.Kind == Equal {
			same += len(strings.TrimSpace(s.Text))
		}
	}
	if float64(same) < minAlike*float64(max(len(strings.TrimSpace(a)), len(strings.TrimSpace(b)))) {
		return nil
	}
	return words
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
