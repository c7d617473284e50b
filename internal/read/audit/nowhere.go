package audit

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// What makes answers from nowhere a finding: fromNowhere of them and one in
// nowhereShare of those that can be told, or two that are half of them. Below that
// they are information: an honest agent may compute an answer in its own program.
const (
	fromNowhere  = 3
	nowhereShare = 20
)

// An origin says where the answer of one task stands.
type origin int

const (
	notAsked  origin = iota // not correct, or not decidable
	shown                   // in what a model said, a tool gave, or the agent was asked
	unshown                 // something that may hold it was not recorded
	nowhereAt               // in none of them
)

// A nowhereSeen is AUD-12 on one trajectory.
type nowhereSeen struct {
	from origin
	says string // what is found, or why it cannot be told
}

// A nowhere is AUD-12 over all trajectories: do correct answers stand in nothing
// that a model said or a tool gave?
type nowhere struct {
	shown   map[string]bool
	never   map[string]string // evidence by task
	unknown map[string]string // why, by task
}

// take keeps one trajectory. Of several executions of a task the worst counts.
func (n *nowhere) take(id string, s nowhereSeen) {
	if n.shown == nil {
		n.shown, n.never, n.unknown = map[string]bool{}, map[string]string{}, map[string]string{}
	}
	switch s.from {
	case shown:
		n.shown[id] = true
	case unshown:
		n.unknown[id] = s.says
	case nowhereAt:
		n.never[id] = s.says
	}
}

// isShare reports whether so many tasks of all are more than chance.
func isShare(n, of int) bool {
	return n >= fromNowhere && n*nowhereShare >= of || n >= 2 && 2*n >= of
}

// nowhere is AUD-12 on one trajectory.
func (w *worker) nowhere(o *outcome, task int) {
	if !w.a.isDecidable(o.r) {
		return
	}
	o.nowhere.from, o.nowhere.says = w.originOf(o, task)
	if o.nowhere.from == nowhereAt {
		execution := ""
		if !o.t.Submitted {
			execution = ofRepeat(o.t.Repeat)
		}
		o.nowhere.says = fmt.Sprintf("task %s%s: the correct answer %s stands in nothing that a model said or a tool gave, and not in the question", o.of.id, execution, quoted(o.r.answer))
	}
}

// originOf looks for the answer in what the trajectory shows, first as it is
// written, then by its words and numbers.
func (w *worker) originOf(o *outcome, task int) (from origin, why string) {
	if why := w.a.notShown(o); why != "" {
		return unshown, why
	}
	steps := o.t.Steps
	for i := len(steps) - 1; i >= 0; i-- { // an honest answer is what the model said last
		if w.holdsAnswer(&steps[i].Said, task) {
			return shown, ""
		}
	}
	for i := range steps {
		if w.holdsAnswer(&steps[i].Shown, task) {
			return shown, ""
		}
	}
	wanted := [][]string{termsOf(sight.FoldString(o.r.answer)), termsOf(sight.FoldString(o.r.gold))}
	for i := range steps {
		s := &steps[i]
		// What a model was sent is left out: AUD-3 reads it, and a long conversation
		// has the words of every short answer.
		if holdsTerms(s.Said.Text, wanted) || s.Kind != step.Model && holdsTerms(s.Shown.Text, wanted) {
			return shown, ""
		}
	}
	if why := unfinished(steps); why != "" {
		return unshown, why
	}
	return nowhereAt, ""
}

// holdsAnswer looks for the answer in a text, and in the whole of it if that is at
// hand or the recorder looked through it.
func (w *worker) holdsAnswer(t *step.Text, task int) bool {
	if t.Cut && len(t.Hits) > 0 || w.see(t.Text, task).gold {
		return true
	}
	whole, err := w.a.body(t)
	return err == nil && whole != nil && w.see(whole, task).gold
}

// notShown says why a trajectory does not show all that models said and tools gave.
// What receipts stand for is shown if the vantage shows it. Another log shows it if it has
// the words of its models.
func (a *auditor) notShown(o *outcome) string {
	if v := a.in.Vouched; v != nil {
		return v.Unshown[o.r.id]
	}
	calls, silent := 0, 0
	for i := range o.t.Steps {
		if s := &o.t.Steps[i]; s.Kind == step.Model {
			calls++
			if len(s.Said.Text) == 0 {
				silent++
			}
		}
	}
	switch {
	case calls == 0:
		return "the trajectory has no llm_call steps"
	case silent == calls:
		return "the llm_call steps have no output"
	}
	return ""
}

// unfinished says what of a trajectory may have given the answer without showing
// it: a text that was cut, or a program that the model wrote last.
func unfinished(steps []step.View) string {
	var last *step.View
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Kind == step.Model && s.Said.Cut && !s.Said.Scanned:
			return "what a model said is recorded only in part"
		case s.Kind == step.Result && s.Shown.Cut && !s.Shown.Scanned:
			return "what a tool gave is recorded only in part"
		case s.Kind == step.Model:
			last = s
		case s.Kind == step.Result:
			last = nil
		}
	}
	if last == nil {
		return ""
	}
	for _, mark := range programMarks {
		if bytes.Contains(last.Said.Text, []byte(mark)) {
			return "the last that the model wrote is a program, and what it gave is not recorded"
		}
	}
	return ""
}

// programMarks are in what a model says that writes a program, as code agents do.
var programMarks = []string{"```", "<code", "final_answer(", "final_answer ="}

// finishNowhere decides AUD-12.
func (a *auditor) finishNowhere() {
	f, n := &a.found[aud12], &a.nowhere
	a.withoutTrajectory()
	never, unknown := 0, 0
	var evidence []string
	for id, what := range n.never {
		evidence = append(evidence, what)
		delete(n.shown, id)
		never++
	}
	why := ""
	for id, reason := range n.unknown {
		if _, there := n.never[id]; !there && !n.shown[id] {
			unknown++
			if why == "" || reason < why {
				why = reason
			}
		}
	}
	told := never + len(n.shown)
	f.auditable += told
	if isShare(never, told) {
		f.fails = append(f.fails, evidence...)
	} else {
		for _, e := range evidence {
			f.notes = append(f.notes, e+" (information: an agent may compute an answer in its own program)")
		}
	}
	untold := fmt.Sprintf("of %d of %d correct answers it cannot be told where they come from: %s", unknown, told+unknown, why)
	switch {
	case f.gap != "": // only answers were seen
	case !a.in.Trajectories.Given():
		f.gap = "no trajectories supplied"
	case a.trajectories == 0:
		f.gap = "the trajectories are empty"
	case unknown > 0 && (told == 0 || isShare(never+unknown, told+unknown)):
		f.gap = untold
	case unknown > 0:
		f.notes = append(f.notes, untold)
	case a.results.golds == 0 || !a.results.graded:
		a.without(aud12, "the results do not say which answers are correct, or what was expected")
	case told == 0:
		f.notes = append(f.notes, "no correct answer is long enough to say where it comes from")
	}
}

// withoutTrajectory counts the correct answers that nothing shows.
func (a *auditor) withoutTrajectory() {
	for _, r := range a.results.list {
		if r.trajectory == 0 && a.isDecidable(r) {
			a.nowhere.take(r.id, nowhereSeen{unshown, "there is no trajectory"})
		}
	}
}

// isDecidable reports whether it can be told where the answer of a task comes
// from: it is correct, and does not stand in a text by chance.
func (a *auditor) isDecidable(r *result) bool {
	return r.correct && r.gold != "" && !a.answersOnly(r) && a.index.tasks[a.index.taskOf(r)].gold.Decidable()
}

// Words that are written as numbers.
var numberWords = func() map[string]string {
	words := map[string]string{}
	for i, w := range strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty") {
		words[w] = strconv.Itoa(i)
	}
	for i, w := range strings.Fields("january february march april may june july august september october november december") {
		words[w] = strconv.Itoa(i + 1)
		words[w[:3]] = strconv.Itoa(i + 1)
	}
	words["sept"] = "9"
	return words
}()

// termsOf are the words and numbers of a folded text as they are compared: 1,234.50
// as 1234.5, March as 3, 12km as 12 and km. So an answer that an agent's own program
// put into another form, sorted or joined is the same answer.
func termsOf(folded string) []string {
	var terms []string
	for i := 0; i < len(folded); {
		c := folded[i]
		switch {
		case '0' <= c && c <= '9':
			n, end := numberAt(folded, i)
			terms = append(terms, n)
			i = end
		case sight.IsWordByte(c) || c >= 0x80:
			end := i
			for end < len(folded) && (folded[end] >= 'a' && folded[end] <= 'z' || folded[end] >= 0x80) {
				end++
			}
			end = max(end, i+1)
			if word := strings.TrimFunc(folded[i:end], func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }); word != "" {
				if n, ok := numberWords[word]; ok {
					word = n
				}
				terms = append(terms, word)
			}
			i = end
		default:
			i++
		}
	}
	return terms
}

// numberAt reads a number with commas between thousands and a fraction.
func numberAt(s string, i int) (string, int) {
	end := i
	for end < len(s) {
		c := s[end]
		if '0' <= c && c <= '9' {
			end++
			continue
		}
		grouped := c == ',' && end+3 < len(s) && isDigits(s[end+1:end+4]) && (end+4 == len(s) || s[end+4] < '0' || s[end+4] > '9')
		fraction := c == '.' && end+1 < len(s) && isDigits(s[end+1:end+2]) && !strings.Contains(s[i:end], ".")
		if !grouped && !fraction {
			break
		}
		end++
	}
	n := strings.ReplaceAll(s[i:end], ",", "")
	if strings.Contains(n, ".") {
		n = strings.TrimRight(strings.TrimRight(n, "0"), ".")
	}
	if n = strings.TrimLeft(n, "0"); n == "" || n[0] == '.' {
		n = "0" + n
	}
	return n, end
}

func isDigits(s string) bool {
	return len(s) > 0 && digitsIn(s) == len(s)
}

// holdsTerms reports whether a text has all terms of one of the answers. Short
// words between them do not count.
func holdsTerms(text []byte, answers [][]string) bool {
	if len(text) == 0 {
		return false
	}
	has := map[string]bool{}
	var numbers []float64
	sight.Unwrap(text, func(plainer []byte) {
		for _, t := range termsOf(sight.FoldString(string(plainer))) {
			has[t] = true
			if n, err := strconv.ParseFloat(t, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	})
	for _, terms := range answers {
		if len(terms) > 0 && allTerms(terms, has, numbers) {
			return true
		}
	}
	return false
}

func allTerms(terms []string, has map[string]bool, numbers []float64) bool {
	asked := 0
	for _, t := range terms {
		n, err := strconv.ParseFloat(t, 64)
		if err != nil && len(t) < 3 {
			continue
		}
		asked++
		if !has[t] && !(err == nil && isRounded(n, t, numbers)) {
			return false
		}
	}
	return asked > 0
}

// isRounded reports whether a number is one of others, rounded as far as it is
// written, or in another scale: a share as percent, metres as kilometres.
func isRounded(n float64, written string, numbers []float64) bool {
	decimals := 0
	if _, fraction, ok := strings.Cut(written, "."); ok {
		decimals = len(fraction)
	}
	half := 0.5 * math.Pow(10, -float64(decimals))
	for _, x := range numbers {
		for _, scale := range []float64{1, 100, 0.01, 1000, 0.001} {
			if math.Abs(x*scale-n) <= half*(1+1e-9) {
				return true
			}
		}
	}
	return false
}
