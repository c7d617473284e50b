package audit

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/jsonvalue"
	"tallystick/internal/run/sight"
)

// Lists of choices. A text that offers the answer among others tells which it
// may be and not which it is: a few bits, too few to decide anything.
const (
	// choiceItem is a line that begins as one of a list: "(B) granite", "2. granite", "- granite".
	choiceItem = `^\s*(?:[-*•]|\(?([A-Za-z]|\d{1,2})[).:\]])\s+(\S.*?)\s*$`
	// choiceMark stands before each of several choices on one line.
	choiceMark = `(?:^|[\s("'\[,;])\(?([A-Ja-j]|\d)[).:]\s*`
	// choiceLead is what a sentence says before it lists choices.
	choiceLead = `(?i)\b(?:choices?|options?|candidates?|labels?|categor(?:y|ies)|class(?:es)?|possible (?:answers?|values?)|one of(?: the following)?|either|among|choose(?: from| between)?|select(?: from)?|pick(?: from)?|(?:answer|respond|reply) (?:only )?with(?: one of)?|classify(?: \w+){0,4} as)\b\s*(?:are|is)?\s*[:=]?\s*`
	// choiceParts is what stands between choices in a sentence.
	choiceParts = `\s*(?:[,;|/]|\bor\b|\band\b)\s*(?:(?:or|and)\b\s*)?`
	// maxChoice is the most that a choice has, in bytes, and minChoices the least
	// number of them.
	maxChoice  = 120
	minChoices = 2
	// leadChoices are needed behind words that also come before an answer itself.
	leadChoices = 3
)

var choices = sync.OnceValue(func() (c struct{ item, mark, lead, parts *regexp.Regexp }) {
	c.item, c.mark, c.lead, c.parts = regexp.MustCompile(choiceItem), regexp.MustCompile(choiceMark), regexp.MustCompile(choiceLead), regexp.MustCompile(choiceParts)
	return c
})

// offered reports whether a text, in whatever encoding, offers the answer of a task as
// one of several choices. A list of the answers of other tasks is not one: it is a key.
func (x *index) offered(text []byte, task int) (found bool) {
	sight.Unwrap(text, func(plainer []byte) {
		found = found || slices.ContainsFunc(choiceLists(plainer), func(list []string) bool { return x.offers(list, task) })
	})
	return found
}

// offers reports whether a list of choices has the answer of a task among others.
func (x *index) offers(list []string, task int) bool {
	own := x.tasks[task].gold.Folded
	found, others, answers, tasks := false, 0, 0, 0
	for _, c := range list {
		folded := sight.FoldString(strings.Trim(c, " \t\"'`[](){}.,;:*"))
		switch {
		case folded == own:
			found = true
		case folded != "":
			others++
			if n := x.answers[folded]; n > 0 {
				answers, tasks = answers+1, tasks+n
			}
		}
	}
	// A key has hardly anything else, and each answer for one task; labels that many
	// tasks are sorted into come again and again.
	isKey := answers >= 2 && 5*answers > 4*others && 2*tasks < 3*answers
	return found && others > 0 && !isKey
}

// choiceLists finds the lists of choices in a text. A list of lines with letters is
// one by itself; one with numbers or dashes, as notes have them, only behind a
// question or words that say so.
func choiceLists(text []byte) (lists [][]string) {
	// A request in JSON has its line breaks escaped.
	if bytes.Contains(text, []byte(`\n`)) {
		text = bytes.ReplaceAll(text, []byte(`\n`), []byte("\n"))
	}
	var items []string
	asked, lettered := false, false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		m := choices().item.FindSubmatch(line)
		if m != nil && len(m[2]) <= maxChoice {
			items = append(items, string(m[2]))
			lettered = lettered || len(m[1]) == 1 && !isNumeral(m[1][0])
		} else if len(line) > 0 {
			if len(items) >= minChoices && (asked || lettered) {
				lists = append(lists, items)
			}
			items, lettered = nil, false
			asked = bytes.HasSuffix(line, []byte("?")) || choices().lead.Match(line)
		}
		lists = append(lists, marked(line)...)
		lists = append(lists, led(line)...)
	}
	if len(items) >= minChoices && (asked || lettered) {
		lists = append(lists, items)
	}
	return lists
}

func isNumeral(c byte) bool { return '0' <= c && c <= '9' }

// marked are choices on one line, each behind its letter or number, in order.
func marked(line []byte) [][]string {
	marks := choices().mark.FindAllSubmatchIndex(line, -1)
	var lists [][]string
	for i := 0; i < len(marks); {
		list := []string{}
		k := i
		for ; k < len(marks) && (k == i || line[marks[k][2]] == line[marks[k-1][2]]+1); k++ {
			to := len(line)
			if k+1 < len(marks) {
				to = marks[k+1][0]
			}
			list = append(list, jsonvalue.Clip(string(line[marks[k][1]:max(to, marks[k][1])]), maxChoice))
		}
		if len(list) >= minChoices {
			lists = append(lists, list)
		}
		i = k
	}
	return lists
}

// led are choices that a sentence lists behind words that say so.
func led(line []byte) [][]string {
	var lists [][]string
	for _, m := range choices().lead.FindAllIndex(line, -1) {
		rest := line[m[1]:]
		if n := bytes.IndexAny(rest, ".!?\n"); n >= 0 {
			rest = rest[:n]
		}
		parts := choices().parts.Split(string(rest[:min(len(rest), 64*maxChoice)]), -1)
		least := leadChoices
		if lead := bytes.ToLower(line[m[0]:m[1]]); bytes.HasPrefix(lead, []byte("choice")) || bytes.HasPrefix(lead, []byte("option")) {
			least = minChoices
		}
		if len(parts) >= least {
			lists = append(lists, parts)
		}
	}
	return lists
}
