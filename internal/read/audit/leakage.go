package audit

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// answerWords are what a text calls an answer. A weak answer, and an answer right
// after the question that a search repeats, count only behind one of them.
var answerWords = []string{"answer", "solution", "expected", "gold", "truth", "correct", "label", "key", "resposta", "antwort", "réponse"}

const (
	// callsAnswer is how far before an answer the word may stand.
	callsAnswer = 48
	// recordBytes is how far behind its question the answer of a record stands.
	recordBytes = 400
	// denseGap is how far apart the answers of a list of answers are.
	denseGap = 200
	// pageBytes is the part of a text in which answers of other tasks count
	// together.
	pageBytes = 4000
)

// calledAnswer reports whether a text calls what is at a place an answer.
func calledAnswer(text []byte, at int) bool {
	return hasAnswerWord(text[max(0, at-callsAnswer):at])
}

func hasAnswerWord(before []byte) bool {
	for _, w := range answerWords {
		if bytes.Contains(before, []byte(w)) {
			return true
		}
	}
	return false
}

// A fetched is what one text that a tool gave holds, over all its decodings.
type fetched struct {
	own    uint64
	gold   bool
	record bool // the answer stands behind the question, and is called one
	beside bool // the recorder says that the text holds the question and the answer
	others []otherPieces
	list   answerList
	known  uint64
}

// An answerList is how many answers of other tasks stand together in a text.
type answerList struct {
	page  int // on one page, of those that no ordinary text has by chance
	dense int // one after the other, of any
}

func (l *answerList) add(o answerList) {
	l.page, l.dense = max(l.page, o.page), max(l.dense, o.dense)
}

// count is how many answers make it a list of answers, 0 if it is not one. own says
// that the task's own answer is in the text too: then fewer are enough.
func (l answerList) count(own bool, golds int) int {
	n := 0
	if l.page >= 6 || own && l.page >= 3 {
		n = l.page
	}
	if own && l.dense >= max(4, (golds+9)/10) { // a good part of all that there are
		n = max(n, l.dense)
	}
	return n
}

// see looks at a text and at all that it hides. Short answers of other tasks, which any
// text has, say something only beside the task's own, so they are looked for then.
func (w *worker) see(text []byte, task int) fetched {
	x := w.a.index
	short := x.short || x.tasks[task].short
	f := w.seeAll(text, task, short)
	if f.gold && !short {
		f = w.seeAll(text, task, true)
	}
	return f
}

func (w *worker) seeAll(text []byte, task int, short bool) fetched {
	var f fetched
	x := w.a.index
	own := &x.tasks[task]
	sight.Unwrap(text, func(plainer []byte) {
		w.fold = sight.Fold(w.fold[:0], plainer)
		s := &w.sight
		x.look(w.fold, task, short, s)
		s.base64 = !f.gold && s.encoded && w.encodedOf(task).In(w.fold, plainer)
		f.own |= s.own
		f.known |= s.known
		f.gold = f.gold || len(s.gold) > 0 || s.base64
		f.record = f.record || s.isRecord(w.fold, own)
		for _, o := range s.others {
			f.addOther(o)
		}
		f.list.add(x.listOf(w.fold, s.golds))
	})
	return f
}

func (f *fetched) addOther(o otherPieces) {
	for i := range f.others {
		if f.others[i].task == o.task {
			f.others[i].pieces |= o.pieces
			return
		}
	}
	if len(f.others) < maxOthers {
		f.others = append(f.others, o)
	}
}

// isRecord reports whether the answer stands right behind the question and is
// called an answer there.
func (s *sighting) isRecord(text []byte, own *taskInfo) bool {
	for _, q := range s.spans {
		for _, at := range s.gold {
			if at >= q.to && at <= q.to+recordBytes && hasAnswerWord(text[q.to:at]) {
				return true
			}
		}
	}
	return false
}

// listOf counts the answers of other tasks that stand together in a folded text.
func (x *index) listOf(text []byte, golds []goldHit) answerList {
	if len(golds) < 3 {
		return answerList{}
	}
	slices.SortFunc(golds, func(a, b goldHit) int { return a.at - b.at })
	golds = x.withoutRows(text, golds)
	return answerList{
		page:  x.together(golds, pageBytes, func(h goldHit) bool { return sight.IsDistinctive(x.matcher.Pattern(h.pattern)) }),
		dense: x.dense(golds),
	}
}

// together is the largest number of different answers within some bytes.
func (x *index) together(hits []goldHit, within int, wanted func(goldHit) bool) int {
	var kept []goldHit
	for _, h := range hits {
		if wanted(h) {
			kept = append(kept, h)
		}
	}
	best, from := 0, 0
	seen := map[int]int{}
	for _, h := range kept {
		seen[h.pattern]++
		for kept[from].at < h.at-within {
			if seen[kept[from].pattern]--; seen[kept[from].pattern] == 0 {
				delete(seen, kept[from].pattern)
			}
			from++
		}
		best = max(best, len(seen))
	}
	return best
}

// dense is the largest number of different answers in a stretch without a gap.
func (x *index) dense(hits []goldHit) int {
	best, last := 0, 0
	seen := map[int]bool{}
	for _, h := range hits {
		if h.at-last > denseGap {
			clear(seen)
		}
		seen[h.pattern] = true
		last = h.at
		best = max(best, len(seen))
	}
	return best
}

// leakage is AUD-1: did the agent fetch the answers of the benchmark?
func (w *worker) leakage(o *outcome, task int) {
	f := &o.found[aud1]
	own := &w.a.index.tasks[task]
	if !o.r.correct || len(o.t.Steps) == 0 {
		return
	}
	f.decides(own)
	l := leak{w: w, o: o, task: task, own: own}
	l.carried()
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		switch s.Kind {
		case step.Call:
			l.called(i, s)
		case step.Result:
			l.gave(i, s)
		}
	}
	l.seams()
	if len(l.fails) > 0 {
		f.fails = append(f.fails, l.fails[0])
	} else if len(l.notes) > 0 {
		f.notes = append(f.notes, l.notes[0])
	}
	f.fails = append(f.fails, l.lies...)
}

// A leak is AUD-1 on one task while it runs.
type leak struct {
	w    *worker
	o    *outcome
	task int
	own  *taskInfo

	echo  uint64 // pieces of the question that the agent itself wrote into calls
	asked uint64 // known sources that it asked for
	seam  []byte // ends and beginnings of what tools gave, one after the other
	seamN int
	whole fetched // what the texts that tools gave hold, each by itself

	fails, notes, lies []string
}

// called reads what a tool was called with.
func (l *leak) called(i int, s *step.View) {
	f := l.w.see(s.Said.Text, l.task)
	l.echo |= f.own
	l.asked = f.known
	if sure := surely(f.known); sure != "" && len(l.fails) == 0 && !l.refused(i, s) {
		l.fails = append(l.fails, fmt.Sprintf("task %s: step %d: tool_call %s asks a known answer database (%s)", l.own.id, i, quoted(s.Name), quoted(sure)))
	}
}

// refused reports whether a tool answered a call with an error.
func (l *leak) refused(i int, s *step.View) bool {
	for _, next := range l.o.t.Steps[i+1:] {
		if next.Kind == step.Result && next.Name == s.Name {
			return next.Failed
		}
	}
	return false
}

func surely(known uint64) string {
	for i, k := range knownSources {
		if k.sure && known&(1<<i) != 0 {
			return k.text
		}
	}
	return ""
}

// gave reads what a tool gave.
func (l *leak) gave(i int, s *step.View) {
	f := l.w.see(s.Shown.Text, l.task)
	l.addSeam(pageOf(s))
	if len(s.URL) > 0 {
		if u := l.w.see(s.URL, l.task); surely(u.known) != "" && !s.Failed {
			l.fails = append(l.fails, fmt.Sprintf("task %s: step %d: gold answer %s: fetched %s output is of a known answer database (%s)", l.own.id, i, quoted(l.own.gold.Folded), toolName(s), quoted(surely(u.known))))
		}
	}
	if s.Shown.Body {
		l.heldAgainst(i, &s.Shown, f.gold)
	}
	claimed := len(s.Shown.Hits) > 0 && !s.Shown.Body
	if claimed && !f.gold && l.own.decidable() {
		if s.Shown.Question == nil {
			l.o.lacks.is(lackAround, fmt.Sprintf("step %d of task %s", i, l.own.id))
		} else { // a search that repeats what it is asked holds the question too
			f.beside = *s.Shown.Question && l.echo == 0
		}
	}
	l.whole.own |= f.own
	l.whole.gold = l.whole.gold || f.gold
	l.whole.list.add(f.list)
	l.judge(fmt.Sprintf("step %d: ", i), toolName(s), &f, claimed)
	l.demand(i, &s.Shown, &f)
}

// carried reads what tools gave in the last request of an agent whose results are
// no steps: a request has the whole conversation.
func (l *leak) carried() {
	last := -1
	for i := range l.o.t.Steps {
		switch s := &l.o.t.Steps[i]; {
		case s.Kind == step.Result:
			return
		case s.Kind == step.Model && len(s.Shown.Text) > 0:
			last = i
		}
	}
	if last < 0 {
		return
	}
	if r, ok := requestOf(l.o.t.Steps[last].Shown.Text); ok && len(r.tools) > 0 {
		l.echo |= l.w.see(r.model, l.task).own
		f := l.w.see(r.tools, l.task)
		l.judge(fmt.Sprintf("step %d: ", last), "tool", &f, false)
	}
}

func toolName(s *step.View) string {
	if s.Name == "" {
		return "tool"
	}
	return s.Name
}

// judge decides what a text that holds these things is.
func (l *leak) judge(where, tool string, f *fetched, claimed bool) {
	x := l.w.a.index
	gold := (f.gold || claimed) && l.own.decidable()
	sign := ""
	others := 0
	for _, o := range f.others {
		if x.holdsQuestion(int(o.task), o.pieces) {
			others++
		}
	}
	echoed := bits.OnesCount64(f.own&^l.echo) < max(1, l.own.q.Enough()/2) && l.echo != 0
	switch {
	case gold && f.beside, gold && x.holdsQuestion(l.task, f.own) && (!echoed || f.record):
		sign = "ANSWER DATABASE: the text also holds the question itself"
	case others >= 2 || others == 1 && gold:
		sign = fmt.Sprintf("ANSWER DATABASE: the text holds the questions of %d other tasks", others)
	case f.list.count(gold, x.golds) > 0:
		sign = fmt.Sprintf("ANSWER DATABASE: the text holds the answers of %d other tasks", f.list.count(gold, x.golds))
	case gold && f.known|l.asked != 0:
		sign = fmt.Sprintf("ANSWER-DB SIGNATURE MATCHED (%s)", quoted(knownSources[bits.TrailingZeros64(f.known|l.asked)].text))
	}
	what := fmt.Sprintf("task %s: %sgold answer %s appears in fetched %s output", l.own.id, where, quoted(l.own.gold.Folded), tool)
	if !gold {
		what = fmt.Sprintf("task %s: %sfetched %s output", l.own.id, where, tool)
	}
	switch {
	case sign != "":
		l.fails = append(l.fails, what+" — "+sign)
	case claimed && !f.gold:
		l.notes = append(l.notes, what+" (information: the recorder says so, beyond what is recorded)")
	case gold:
		l.notes = append(l.notes, what+" (information: ordinary retrieval)")
	case f.gold:
		l.notes = append(l.notes, what+" calls "+quoted(l.own.gold.Folded)+" the answer (information: an answer that "+l.own.why()+" is not decidable)")
	case x.holdsQuestion(l.task, f.own) && !echoed:
		l.notes = append(l.notes, what+" holds the question and not the answer (information)")
	}
}

// pageOf is what a tool gave without the address that it is from, which does not
// stand between two parts of a page.
func pageOf(s *step.View) []byte {
	if len(s.URL) == 0 {
		return s.Shown.Text
	}
	page, _ := bytes.CutSuffix(s.Shown.Text, slices.Concat([]byte("\n"), s.URL, []byte("\n")))
	return page
}

// seamBytes is how much of the beginning and the end of a text is put together
// with those of its neighbours.
const seamBytes = 512

func (l *leak) addSeam(text []byte) {
	l.seamN++
	if before := len(l.seam); len(text) > 0 {
		if l.seam = messageEdges(l.seam, text); len(l.seam) > before {
			l.seamN, l.seam = l.seamN+1, append(l.seam, 0)
		}
	}
	if len(text) <= 2*seamBytes {
		l.seam = append(append(l.seam, text...), 0)
		return
	}
	l.seam = append(append(append(l.seam, text[:seamBytes]...), "\n|\n"...), text[len(text)-seamBytes:]...)
	l.seam = append(l.seam, 0)
}

// seams looks for what is divided over texts that tools gave one after the
// other, in the middle of a word and between words.
func (l *leak) seams() {
	if l.seamN < 2 || len(l.fails) > 0 {
		return
	}
	for _, between := range []string{"", " "} {
		f := l.w.see(bytes.ReplaceAll(l.seam, []byte{0}, []byte(between)), l.task)
		if !l.own.decidable() {
			f.gold = false // digits that meet by chance
		}
		if f.gold && !l.whole.gold { // divided: the rest of the page stands where it stands
			f.own |= l.whole.own
			f.list.add(l.whole.list)
		}
		l.judge("several steps together: ", "tool", &f, false)
	}
}
