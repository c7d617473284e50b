package audit

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// originOf looks for the answer in what the trajectory shows.
func (w *worker) originOf(o *outcome, task int) (from origin, why string) {
	if why := w.a.notShown(o); why != "" {
		return unshown, why
	}
	l := lookout{w: w, task: task, wanted: []parts{partsOf(sight.FoldString(o.r.answer)), partsOf(sight.FoldString(o.r.gold))}}
	steps := o.t.Steps
	for i := len(steps) - 1; i >= 0; i-- { // an honest answer is what the model said last
		if l.finds(&steps[i].Said, true) {
			return shown, ""
		}
	}
	for i := range steps {
		// The words of an answer do not count in what a model was sent: AUD-3 reads it,
		// and a long conversation has the words of every short answer.
		if l.finds(&steps[i].Shown, steps[i].Kind != step.Model) {
			return shown, ""
		}
	}
	if why := unfinished(steps); why != "" {
		return unshown, why
	}
	return nowhereAt, ""
}

// A lookout looks for one answer, as it is written and by its words and numbers.
type lookout struct {
	w      *worker
	task   int
	wanted []parts // of the answer that was given, and of the expected one
}

// finds looks through a text. Of one that is recorded only in part the recorder says
// whether the rest holds the answer.
func (l *lookout) finds(t *step.Text, byTerms bool) bool {
	return !t.Whole() && len(t.Hits) > 0 || l.in(t.Text, byTerms)
}

func (l *lookout) in(text []byte, byTerms bool) (found bool) {
	gold := &l.w.a.index.tasks[l.task].gold
	sight.Unwrap(text, func(plainer []byte) {
		if found {
			return
		}
		l.w.fold = sight.Fold(l.w.fold[:0], plainer)
		at, _ := gold.Index(l.w.fold, 0)
		found = at >= 0 || l.w.encodedOf(l.task).In(l.w.fold, plainer)
		for i := range l.wanted {
			found = found || byTerms && l.wanted[i].foundWith(l.w.fold)
		}
	})
	return found
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
		case s.Kind == step.Model && s.Said.Has() && !s.Said.Seen():
			return "what a model said is recorded only in part"
		case s.Kind == step.Result && !s.Shown.Seen():
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
	f.auditable, f.decided, f.undecidable = told, told, a.undecidable()
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
	case told == 0 && f.undecidable == 0:
		f.auditable++ // nothing is marked correct
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

// undecidable counts the correct answers that are too short.
func (a *auditor) undecidable() (n int) {
	for _, r := range a.results.list {
		if r.correct && r.gold != "" && !a.answersOnly(r) && !a.isDecidable(r) {
			n++
		}
	}
	return n
}

// isDecidable reports whether it can be told where the answer of a task comes
// from: it is correct, and does not stand in a text by chance.
func (a *auditor) isDecidable(r *result) bool {
	return r.correct && r.gold != "" && !a.answersOnly(r) && a.index.tasks[a.index.taskOf(r)].gold.Decidable()
}

// parts are the members of a list, or an answer by itself, that were not found yet.
// An agent may find them one by one and put them together.
type parts [][]term

func partsOf(folded string) (list parts) {
	for _, part := range listSigns().Split(folded, -1) {
		if terms := termsOf(part); len(terms) > 0 {
			list = append(list, terms)
		}
	}
	return list
}

// listSigns part the members of a list. A comma between digits is one of a number.
var listSigns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`,\s+|;|\||\sand\s`) })

// foundWith takes out the parts that a folded text has, and reports whether none is left.
func (p *parts) foundWith(folded []byte) bool {
	if len(*p) == 0 {
		return false
	}
	*p = slices.DeleteFunc(*p, func(terms []term) bool { return holdsTerms(folded, terms) })
	return len(*p) == 0
}

// A term is a word of an answer, or a number.
type term struct {
	text     string
	isNumber bool
	number   float64
	half     float64 // of the last place that is written
}

// numberWords are words that stand for numbers.
var numberWords = func() map[string]float64 {
	words := map[string]float64{"sept": 9}
	for i, w := range strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty") {
		words[w] = float64(i)
	}
	for i, w := range strings.Fields("january february march april may june july august september october november december") {
		words[w], words[w[:3]] = float64(i+1), float64(i+1)
	}
	return words
}()

// termsOf are the words and numbers of a folded answer as they are looked for: 1,234.50
// as 1234.5, March as 3, 12km as 12. So an answer that an agent's own program put into
// another form, sorted or joined is the same answer. Words of one or two letters are
// left out.
func termsOf(folded string) []term {
	var words, numbers []term
	for i := 0; i < len(folded); {
		if isDigits(folded[i : i+1]) {
			n, end := numberAt(folded, i)
			numbers = append(numbers, numberTerm(n))
			i = end
			continue
		}
		end := i
		for end < len(folded) && (folded[end] >= 'a' && folded[end] <= 'z' || folded[end] >= 0x80) {
			end++
		}
		word := strings.TrimFunc(folded[i:end], func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		if n, ok := numberWords[word]; ok {
			numbers = append(numbers, term{text: word, isNumber: true, number: n, half: 0.5})
		} else if len(word) >= 3 {
			words = append(words, term{text: word})
		}
		i = max(end, i+1)
	}
	return append(words, numbers...)
}

func numberTerm(written string) term {
	t := term{text: written, isNumber: true, half: 0.5}
	t.number, _ = strconv.ParseFloat(written, 64)
	if _, fraction, ok := strings.Cut(written, "."); ok {
		t.half *= math.Pow(10, -float64(len(fraction)))
	}
	return t
}

// numberAt reads a number with commas between thousands and a fraction, and where it
// ends.
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
	return n, end
}

func isDigits(s string) bool { return len(s) > 0 && digitsIn(s) == len(s) }

// holdsTerms reports whether a folded text has all terms of an answer.
func holdsTerms(folded []byte, terms []term) bool {
	for _, t := range terms {
		if !t.isNumber && sight.IndexWhole(folded, t.text, 0) < 0 || t.isNumber && !t.isNumberOf(folded) {
			return false
		}
	}
	return len(terms) > 0
}

// isNumberOf reports whether a text has the number: as a word, or as digits, rounded
// as far as the answer is written, or in another scale: a share as percent, metres as
// kilometres.
func (t *term) isNumberOf(folded []byte) bool {
	text := string(folded)
	for i := 0; i < len(text); {
		c := text[i]
		if c < '0' || c > '9' {
			i++
			continue
		}
		n, end := numberAt(text, i)
		i = end
		x, err := strconv.ParseFloat(n, 64)
		if err != nil {
			continue
		}
		for _, scale := range []float64{1, 100, 0.01, 1000, 0.001} {
			if math.Abs(x*scale-t.number) <= t.half*(1+1e-9) {
				return true
			}
		}
	}
	for word, n := range numberWords {
		if n == t.number && sight.IndexWhole(folded, word, 0) >= 0 {
			return true
		}
	}
	return false
}
