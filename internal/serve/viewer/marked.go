package viewer

import (
	"html/template"
	"regexp"
	"strings"
	"sync"
)

// marksInLine finds the marks of what went and what came in a comparison that was made for
// a terminal.
var marksInLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[-.*?-\]|\{\+.*?\+\}`) })

// marked shows a line of a comparison that was made for a terminal as the page shows
// differences. The marks stay: an agent may have said the same, and then nothing of what
// it said is left out.
func marked(line string) template.HTML {
	line = Text(line)
	var b strings.Builder
	end := 0
	for _, at := range marksInLine().FindAllStringIndex(line, -1) {
		element := "del"
		if line[at[0]] == '{' {
			element = "ins"
		}
		b.WriteString(template.HTMLEscapeString(line[end:at[0]]) + "<" + element + ">" + template.HTMLEscapeString(line[at[0]:at[1]]) + "</" + element + ">")
		end = at[1]
	}
	b.WriteString(template.HTMLEscapeString(line[end:]))
	return template.HTML(b.String())
}

// markedLines shows such a comparison line by line: what only one of the two did is of the
// class minus or plus.
func markedLines(text string) template.HTML {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i == maxDiffLines {
			b.WriteString(`<div class="fold">…</div>`)
			break
		}
		class := ""
		switch sign := strings.TrimLeft(line, " "); {
		case strings.HasPrefix(sign, "+ "):
			class = ` class="plus"`
		case strings.HasPrefix(sign, "- "):
			class = ` class="minus"`
		}
		b.WriteString("<div" + class + ">" + string(marked(line)) + "</div>")
	}
	return template.HTML(b.String())
}
