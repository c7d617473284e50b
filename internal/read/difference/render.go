package difference

import (
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/plain"
)

// The marks of what went and what came, where there is nothing but text.
var (
	RemovedMark = [2]string{"[-", "-]"}
	AddedMark   = [2]string{"{+", "+}"}
)

// around is how many words stand before and after a change in [Brief].
const around = 4

// Brief is how one text becomes another, word by word, in one line that is safe to print:
// words that went in [-these-], words that came in {+these+}, with a few around them. White
// space counts only where nothing else differs. Comparisons that are kept have this text:
// it does not change.
func Brief(was, now string) string {
	a, b := strings.Fields(was), strings.Fields(now)
	runs := Runs(a, b)
	if len(a) == len(b) && len(runs) < 2 && (len(runs) == 0 || runs[0].Equal) {
		return "only white space differs"
	}
	var words []string
	for i, r := range runs {
		if !r.Equal {
			words = append(words, enclosed(RemovedMark, a[r.A.From:r.A.To])...)
			words = append(words, enclosed(AddedMark, b[r.B.From:r.B.To])...)
			continue
		}
		head, tail := around, around
		if i == 0 {
			head = 0
		}
		if i == len(runs)-1 {
			tail = 0
		}
		same := a[r.A.From:r.A.To]
		if len(same) <= head+tail {
			words = append(words, same...)
			continue
		}
		words = append(append(words, same[:head]...), "…")
		words = append(words, same[len(same)-tail:]...)
	}
	return plain.Line(strings.Join(words, " "))
}

func enclosed(mark [2]string, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	return []string{mark[0] + strings.Join(words, " ") + mark[1]}
}

// Terminal is a difference by words as a block of text that is safe to print, with what is
// far from a change left out. Paint colours what a kind of text is shown as, marks
// included; nil leaves it as it is. Marks stay with colours: not every reader sees them.
func (d Difference) Terminal(paint func(Kind, string) string) string {
	if paint == nil {
		paint = func(_ Kind, text string) string { return text }
	}
	var b strings.Builder
	for i, s := range d.Segments {
		switch s.Kind {
		case Removed:
			b.WriteString(markedBlock(RemovedMark, s, paint))
		case Added:
			b.WriteString(markedBlock(AddedMark, s, paint))
		default:
			b.WriteString(plain.Block(folded(s.Text, i > 0, i < len(d.Segments)-1)))
		}
	}
	return b.String()
}

// markedBlock puts a segment into marks, which end before the feed of its last line; a
// line feed alone is spelled.
func markedBlock(mark [2]string, s Segment, paint func(Kind, string) string) string {
	text, ends := strings.CutSuffix(s.Text, "\n")
	if text == "" {
		return paint(s.Kind, mark[0]+plain.Line(s.Text)+mark[1])
	}
	out := paint(s.Kind, mark[0]+plain.Block(text)+mark[1])
	if ends {
		out += "\n"
	}
	return out
}

// maxEqual is how many characters of an equal stretch stand beside a change where not all
// of it is shown.
const maxEqual = 160

// folded leaves out the middle of a long text between two changes, or the end that is far
// from one.
func folded(text string, before, after bool) string {
	if utf8.RuneCountInString(text) <= 2*maxEqual {
		return text
	}
	head, tail := "", ""
	if before {
		head = cutAfter(text, maxEqual)
	}
	if after {
		runes := []rune(text[max(0, len(text)-utf8.UTFMax*maxEqual):])
		tail = string(runes[max(0, len(runes)-maxEqual):])
	}
	return head + "…" + tail
}

func cutAfter(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i]
		}
		n++
	}
	return text
}

// TerminalLines is a difference by lines: one text line for each, with its sign, and a
// count for those that are folded.
func (d Difference) TerminalLines(context int, paint func(Kind, string) string) string {
	if paint == nil {
		paint = func(_ Kind, text string) string { return text }
	}
	var b strings.Builder
	for _, r := range d.Rows(context) {
		if r.Folded > 0 {
			fmt.Fprintf(&b, "  … %s\n", plain.Plural(r.Folded, "equal line"))
			continue
		}
		b.WriteString(paint(r.Kind, signs[r.Kind]+plain.Block(lineText(r.Text))) + "\n")
		if !r.Ends() {
			b.WriteString(noEnd + "\n")
		}
	}
	return b.String()
}

var signs = [...]string{Equal: "  ", Removed: "- ", Added: "+ "}

// noEnd is said below a line that no line feed ends.
const noEnd = `\ no line feed at the end`

// lineText is a line without the feed that ends it; a carriage return before it stays, and
// is made visible.
func lineText(line string) string { return strings.TrimSuffix(line, "\n") }

// HTML is a difference by words: what went in <del>, what came in <ins>. Visible makes a
// text visible; what it gives is escaped.
func (d Difference) HTML(visible func(string) string) template.HTML {
	return segmentsHTML(d.Segments, -1, visible)
}

// HTMLOf is one of the two texts, the first or the second, with what only it has marked:
// without the marks it is that text.
func (d Difference) HTMLOf(own Kind, visible func(string) string) template.HTML {
	other := Added
	if own == Added {
		other = Removed
	}
	return segmentsHTML(d.Segments, other, visible)
}

// segmentsHTML leaves out the segments of one kind.
func segmentsHTML(all []Segment, without Kind, visible func(string) string) template.HTML {
	var b strings.Builder
	for _, s := range all {
		if s.Kind == without {
			continue
		}
		text := template.HTMLEscapeString(visible(s.Text))
		switch s.Kind {
		case Removed:
			text = "<del>" + text + "</del>"
		case Added:
			text = "<ins>" + text + "</ins>"
		}
		b.WriteString(text)
	}
	return template.HTML(b.String())
}

// HTMLLines is a difference by lines: a <div> for each, of the class minus, plus, fold or
// none, with the words that differ in <del> and <ins>. At most so many lines are given.
func (d Difference) HTMLLines(context, most int, visible func(string) string) template.HTML {
	var b strings.Builder
	rows := d.Rows(context)
	for i, r := range rows {
		if i == most {
			fmt.Fprintf(&b, `<div class="fold">… %s</div>`, plain.Plural(len(rows)-i, "more line"))
			break
		}
		if r.Folded > 0 {
			fmt.Fprintf(&b, `<div class="fold">… %s</div>`, plain.Plural(r.Folded, "equal line"))
			continue
		}
		text := template.HTML(template.HTMLEscapeString(visible(lineText(r.Text))))
		if r.Words != nil {
			other := Added
			if r.Kind == Added {
				other = Removed
			}
			text = segmentsHTML(r.Words, other, func(s string) string { return visible(lineText(s)) })
		}
		class := [...]string{"", ` class="minus"`, ` class="plus"`}[r.Kind]
		fmt.Fprintf(&b, "<div%s>%s%s</div>", class, signs[r.Kind], text)
		if !r.Ends() {
			b.WriteString(`<div class="fold">` + noEnd + `</div>`)
		}
	}
	return template.HTML(b.String())
}

// Markdown is a difference by words where neither Markdown nor HTML of the texts is read:
// <del> and <ins>, which readers of Markdown know, around entities.
func (d Difference) Markdown() string {
	var b strings.Builder
	for i, s := range d.Segments {
		text := plain.Entities(plain.Block(folded(s.Text, s.Kind != Equal || i > 0, s.Kind != Equal || i < len(d.Segments)-1)))
		switch s.Kind {
		case Removed:
			text = "<del>" + text + "</del>"
		case Added:
			text = "<ins>" + text + "</ins>"
		}
		b.WriteString(text)
	}
	return b.String()
}

// MarkdownLines is a difference by lines as a fenced block, whose fence is longer than any
// in the texts.
func (d Difference) MarkdownLines(context int) string {
	text := d.TerminalLines(context, nil)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "diff\n" + text + fence + "\n"
}
