package answer

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A comment is an attempt as a pull request shows it.
type comment struct {
	decision *gate.Decision
	cost     cost.Cost
	// compared is with the attempt of the base branch; nil without one.
	compared *scorecard.Comparison
}

// commentMark begins the first line of every comment, by which a job finds its former one.
const commentMark = "<!-- tally-comment"

// Bounds of a comment: colleagues read it beside others. What is left out is counted,
// and a command shows it.
const (
	maxCommentLines = 56
	maxGateLines    = 5
	maxNotes        = 3
	maxCauseLines   = 5
	maxCasesTold    = 3
	maxCasesNamed   = 10
	maxTold         = 160
)

// write writes the comment: what was decided, each gate, the numbers, then what
// flipped or failed, grouped by cause and folded. It stays under 60 lines for any attempt.
// Texts that are not ours stand in code, where neither Markdown nor HTML is read.
func (c *comment) write(w io.Writer, r gate.Report) error {
	lines := []string{fmt.Sprintf("%s %s %s -->", commentMark, commentName(r.Class), commentName(r.Target)),
		fmt.Sprintf("### Gate %s: %s by %s", c.decision.State(), code(r.Class), code(r.Target)), "", MarkdownLine(plain.Line(c.decision.Reason)), ""}
	if c.decision.Unanswered > 0 {
		lines = append(lines, "There is no score and no comparison before these cases are answered.", "", askedAnew(&r), "", c.next(r.Attempt))
		_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
		return err
	}
	lines = append(lines, c.gates(&r)...)
	lines = append(lines, c.numbers(&r)...)
	lines = append(lines, c.notes(&r)...)
	lines = append(lines, "")
	groups := c.causes(&r)
	for i, g := range groups {
		told := g.lines(r.Attempt)
		if len(lines)+len(told) > maxCommentLines-3 {
			left := 0
			for _, g := range groups[i:] {
				left += len(g.cases)
			}
			lines = append(lines, fmt.Sprintf("And %s of %s.", plain.Plural(len(groups)-i, "more cause"), plain.Plural(left, "case")), "")
			break
		}
		lines = append(lines, told...)
	}
	_, err := io.WriteString(w, strings.Join(append(lines, c.next(r.Attempt)), "\n")+"\n")
	return err
}

// askedAnew names the cases that ask something new, and the command that answers them.
func askedAnew(r *gate.Report) string {
	var names []string
	n := 0
	for i := range r.Cases {
		if x := &r.Cases[i]; x.Unanswered {
			if n++; n <= maxCasesNamed {
				names = append(names, code(x.ID))
			}
		}
	}
	if n > maxCasesNamed {
		names = append(names, fmt.Sprintf("and %d more", n-maxCasesNamed))
	}
	return fmt.Sprintf("New: %s. To answer them: %s", strings.Join(names, ", "), code("tally run "+plain.ShellWord(r.Class)+" --target "+plain.ShellWord(r.Target)+" --live"))
}

// next is the command that shows the rest.
func (c *comment) next(attempt string) string {
	if b := c.compared; b != nil && b.BaselineLedger == nil {
		return fmt.Sprintf("More: `tally compare %s %s`", b.A.ID, b.B.ID)
	}
	return fmt.Sprintf("More: `tally show %s`", attempt)
}

func (c *comment) gates(r *gate.Report) []string {
	var lines []string
	for i, g := range c.decision.Results {
		if i == maxGateLines {
			lines = append(lines, fmt.Sprintf("- and %s", plain.Plural(len(c.decision.Results)-i, "more gate")))
			break
		}
		lines = append(lines, fmt.Sprintf("- **%s**: %s", g.Word(), MarkdownLine(clipped(g.Text(), 2*maxTold))))
	}
	if r.LevelWanting != "" {
		lines = append(lines, "- **not met**: "+MarkdownLine(clipped(r.LevelWanting, 2*maxTold)))
	}
	return append(lines, "")
}

// numbers is a table with the baseline, and a line without one.
func (c *comment) numbers(r *gate.Report) []string {
	b := c.compared
	if b == nil {
		passed := 0
		for _, row := range r.Cases {
			if row.Outcome == evidence.Passed {
				passed++
			}
		}
		return []string{fmt.Sprintf("%d of %s passed, cost %s, attempt %s (%s).", passed, plain.Plural(len(r.Cases), "case"), c.cost, code(r.Attempt), r.Level)}
	}
	lines := []string{fmt.Sprintf("| | %s (%s) | %s (%s) | change |", code(b.A.ID), b.A.Level, code(b.B.ID), b.B.Level), "|---|---|---|---|"}
	if s := b.Scores; s != nil {
		lines = append(lines, fmt.Sprintf("| mean score | %s | %s | %+.4f [%+.4f, %+.4f] |", plain.Score(s.Mean.A, 4), plain.Score(s.Mean.B, 4), s.Mean.Change, s.ChangeCI95[0], s.ChangeCI95[1]))
	}
	before, after, change := b.TokensText()
	return append(lines,
		fmt.Sprintf("| solve rate | %s | %s | %+.4f [%+.4f, %+.4f] |", plain.Score(b.SolveRate.A, 4), plain.Score(b.SolveRate.B, 4), b.Difference, b.DifferenceCI95[0], b.DifferenceCI95[1]),
		fmt.Sprintf("| cost | %s | %s | %s |", b.Cost.A, b.Cost.B, b.Cost.Change),
		fmt.Sprintf("| tokens | %s | %s | %s |", before, after, change),
		fmt.Sprintf("| median latency | %d ms | %d ms | %+d ms |", b.Latency.A, b.Latency.B, b.Latency.Change), "", b.Headline())
}

// notes are what must be known beside the numbers: all of it, each text once.
func (c *comment) notes(r *gate.Report) []string {
	var texts []string
	of := map[string][]string{}
	add := func(id string, said []history.Qualification) {
		for _, q := range said {
			if q.Name == history.QualScratch { // the level says it
				continue
			}
			text := MarkdownLine(clipped(q.Text, 2*maxTold))
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], code(id))
		}
	}
	var notes []string
	if b := c.compared; b == nil {
		add(r.Attempt, r.Qualifications)
	} else {
		if l := b.BaselineLedger; l != nil {
			notes = append(notes, fmt.Sprintf("%s is of another ledger, %s, which verifies; this ledger does not vouch for it", code(b.A.ID), code(l.Origin)))
		}
		if b.ThresholdsChanged {
			notes = append(notes, MarkdownLine(scorecard.ThresholdsChanged))
		}
		for i, x := range b.Corrected {
			if i == maxNotes {
				notes = append(notes, plain.Plural(len(b.Corrected)-i, "more correction"))
				break
			}
			notes = append(notes, "corrected, and the table is as recorded: "+code(clipped(x.Text(), maxTold)))
		}
		add(b.A.ID, b.A.Qualifications)
		add(b.B.ID, b.B.Qualifications)
	}
	for _, text := range texts {
		notes = append(notes, strings.Join(slices.Compact(of[text]), ", ")+": "+text)
	}
	if len(notes) > 2*maxNotes {
		notes = append(notes[:2*maxNotes-1:2*maxNotes-1], strings.Join(notes[2*maxNotes-1:], "; "))
	}
	var lines []string
	for i, note := range notes {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "- "+note)
	}
	return lines
}

// A cause is what several cases have in common.
type cause struct {
	change string // lost, gained, changed, or failing as before
	title  string // of our own words, and code
	told   string // what changed, "" if the title says it
	cases  []causedCase
}

type causedCase struct {
	id  string
	row *gate.Row
}

// causes groups what flipped, and then what fails besides: by the words of the prompt that
// changed, else by the check that decided.
func (c *comment) causes(r *gate.Report) []*cause {
	rows := map[string]*gate.Row{}
	for i := range r.Cases {
		x := &r.Cases[i]
		if was := rows[x.ID]; was == nil || was.Outcome == evidence.Passed {
			rows[x.ID] = x
		}
	}
	var groups []*cause
	places := map[string]int{}
	put := func(change, title, told string, x causedCase) {
		key := groupKey(change, title, told)
		i, known := places[key]
		if !known {
			i, groups = len(groups), append(groups, &cause{change: change, title: title, told: told})
			places[key] = i
		}
		groups[i].cases = append(groups[i].cases, x)
	}
	flipped := map[string]bool{}
	if c.compared != nil {
		for _, x := range c.compared.Cases {
			if x.Change == scorecard.Same {
				continue
			}
			flipped[x.CaseID] = true
			title, told := causeOf(&x, rows[x.CaseID])
			put(x.Change, title, told, causedCase{x.CaseID, rows[x.CaseID]})
		}
	}
	for i := range r.Cases {
		x := &r.Cases[i]
		if x.Outcome == evidence.Passed || x.Outcome == evidence.Skipped || flipped[x.ID] {
			continue
		}
		change := "not passed"
		if c.compared != nil {
			change = "not passed, as before"
		}
		put(change, checkTitle(x), "", causedCase{x.ID, x})
	}
	slices.SortStableFunc(groups, func(a, b *cause) int {
		return cmp.Or(cmp.Compare(place(changesInOrder, a.change), place(changesInOrder, b.change)), cmp.Compare(len(b.cases), len(a.cases)))
	})
	return groups
}

func place(rank []string, s string) int {
	if i := slices.Index(rank, s); i >= 0 {
		return i
	}
	return len(rank)
}

func checkTitle(r *gate.Row) string {
	switch {
	case r.Check != "":
		return "check " + r.Check
	case r.Outcome == history.NotRun:
		return "never run"
	}
	return string(r.Outcome)
}

// lines tells one cause, folded.
func (g *cause) lines(attempt string) []string {
	names := make([]string, 0, maxCasesNamed)
	for i, x := range g.cases {
		if i == maxCasesNamed {
			names = append(names, fmt.Sprintf("and %d more", len(g.cases)-i))
			break
		}
		names = append(names, code(x.id))
	}
	lines := []string{fmt.Sprintf("<details><summary><b>%d %s</b>: %s</summary>", len(g.cases), html.EscapeString(g.change), htmlCode(g.title)), "", strings.Join(names, ", "), ""}
	if g.told != "" {
		told := strings.Split(strings.TrimRight(g.told, "\n"), "\n")
		for i, line := range told {
			if i == maxCauseLines {
				lines = append(lines, fmt.Sprintf("    … %s", plain.Plural(len(told)-i, "more line")))
				break
			}
			// Indented code: nothing in it is read as Markdown or HTML.
			lines = append(lines, "    "+clipped(plain.Line(line), 3*maxTold))
		}
		lines = append(lines, "")
	}
	for i, x := range g.cases {
		if i == maxCasesTold {
			break
		}
		lines = append(lines, x.line(attempt))
	}
	return append(lines, "", "</details>", "")
}

// line tells which check decided a case, what it found and wanted, and the command that shows more.
func (x causedCase) line(attempt string) string {
	text := "- "
	if r := x.row; r != nil && r.Outcome != evidence.Passed {
		if r.Check != "" {
			text += "check " + code(clipped(r.Check, maxTold)) + ": "
		}
		if r.Got != "" || r.Want != "" {
			text += fmt.Sprintf("found %s, wanted %s: ", code(clipped(r.Got, maxTold)), code(clipped(r.Want, maxTold)))
		} else if r.Reason != "" {
			text += code(clipped(plain.Gist(r.Reason), maxTold)) + ": "
		}
	}
	return text + code(gate.WhyCommand(attempt, x.id))
}

// clipped cuts a text to a number of characters, in one line.
func clipped(s string, most int) string {
	runes := []rune(plain.Line(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}

// code is a text as code, where neither Markdown nor HTML, a link or a mention is read:
// names and commands of ours in backticks, everything else with entities, which are text
// in both.
func code(s string) string {
	s = plain.Line(s)
	switch {
	case strings.TrimSpace(s) == "":
		return "(nothing)"
	case !strings.ContainsFunc(s, func(r rune) bool { return !isPlainRune(r) && !strings.ContainsRune("._:/~-!", r) }):
		return "`" + s + "`"
	}
	return htmlCode(s)
}

func isPlainRune(r rune) bool {
	return strings.ContainsRune(" ,()-", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// htmlCode is code also where a line is HTML and not Markdown.
func htmlCode(s string) string { return "<code>" + plain.Entities(plain.Line(s)) + "</code>" }

// commentName keeps a name from ending the comment in which it stands.
func commentName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r == '~' || r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '?'
	}, strings.ReplaceAll(s, "--", "-"))
}

// MarkdownLine makes a text of our own words safe in a line or a table of Markdown: names
// in it may be of others. An empty comment keeps mentions and numbers of issues from
// becoming links.
func MarkdownLine(s string) string {
	var b bytes.Buffer
	for _, c := range plain.Line(s) {
		switch {
		case c == '@' || c == '#':
			b.WriteString(`\` + string(c) + "<!-- -->")
			continue
		case strings.ContainsRune("\\`*{}[]<>()+!|~&:", c):
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
