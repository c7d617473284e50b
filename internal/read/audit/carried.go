package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"tallystick/internal/run/sight"
)

// What makes answers in the files of an agent a finding. An answer alone may stand
// there by chance; its question beside it, or other answers around it, do not.
const (
	// besideBytes is how far an answer may stand from its question or the next
	// answer, counted in letters and digits.
	besideBytes = 400
	// tableAnswers different answers of tableBits together make a table.
	tableAnswers = 3
	tableBits    = 100
	// shareAnswers distinctive answers that are a tenth of all that can be looked
	// for are the data set, however far apart they stand; and so are tableAnswers
	// that are half of them.
	shareAnswers = 5
	// heldQuestions are the questions that make a file a copy of the data set even
	// if its answers are too short to be looked for.
	heldQuestions = 3
	// unboundedBits is from where on an answer counts inside a longer word: data
	// bases put columns together with nothing between them.
	unboundedBits = 40
	// idDigits make an id one that stands in no program by chance.
	idDigits = 8
	// keyWords of a question beside its answer are a program that asks for it.
	keyWords = 4
	// minPublished is the smallest file that is known by its digest: an empty file
	// is the same everywhere.
	minPublished = 16
)

// A carrier is AUD-11: does the agent carry the answers with it? It looks for the
// files, the questions and the answers of the data set in every file of the agent.
type carrier struct {
	published map[string]string // paths in the data set by SHA-256, in hex
	tasks     []carriedTask
	answers   []carriedAnswer
	marks     []mark // by pattern
	matcher   *sight.Matcher
	countable int // answers that are evidence

	room  int64 // what archives may still expand to
	seen  map[int]bool
	files int
	gaps  []string
	fails []string
	notes []string
}

// A carriedTask is a task as its question and its id are looked for.
type carriedTask struct {
	id       string
	question string // folded
	pieces   int
	idSure   bool // its id stands in no program by chance
}

// A carriedAnswer is an expected answer; several tasks may have the same.
type carriedAnswer struct {
	text        string
	bits        float64
	distinctive bool
	tasks       []int32
	// evidence says that it counts among others: it is the answer of one task, and
	// its question does not name it. What several tasks share is a label, and a
	// program that sorts things into labels has a list of them.
	evidence bool
}

// A mark is what a pattern stands for: an answer in some spelling, a piece of a
// question, an id.
type mark struct {
	answer   int // place in answers, -1 for none
	spelling string
	anywhere bool // it needs no end of a word around it
	pieces   []pieceRef
	ids      []int32
}

// newCarrier prepares the search for the tasks of the results.
func newCarrier(a *auditor) *carrier {
	c := &carrier{published: a.in.Published, room: maxExpanded, seen: map[int]bool{}}
	b := carrierBuilder{carrier: c, at: map[string]int{}, byAnswer: map[string]int{}}
	had := map[string]bool{}
	for _, r := range a.results.list {
		if !had[r.id] {
			had[r.id] = true
			b.task(r)
		}
	}
	b.answerPatterns()
	b.dropForms()
	c.matcher = sight.NewMatcher(b.patterns)
	return c
}

type carrierBuilder struct {
	*carrier
	patterns []string
	at       map[string]int
	byAnswer map[string]int
	raw      []string // answers as they are written
}

func (b *carrierBuilder) pattern(text string) *mark {
	i, ok := b.at[text]
	if !ok {
		i = len(b.patterns)
		b.at[text] = i
		b.patterns, b.marks = append(b.patterns, text), append(b.marks, mark{answer: -1})
	}
	return &b.marks[i]
}

func (b *carrierBuilder) task(r *result) {
	n := int32(len(b.tasks))
	q := sight.NewQuestion(r.question)
	t := carriedTask{id: r.id, question: q.Folded, pieces: len(q.Pieces)}
	for i, p := range q.Pieces {
		m := b.pattern(squeezed(p))
		m.pieces = append(m.pieces, pieceRef{n, uint8(i)})
	}
	if id := squeezed(sight.FoldString(r.id)); sight.Surprise(sight.FoldString(r.id)) >= sight.MinBits && len(id) >= sight.MinPattern {
		m := b.pattern(id)
		m.ids = append(m.ids, n)
		t.idSure = digitsIn(id) >= idDigits
	}
	b.tasks = append(b.tasks, t)
	b.answer(r.gold, n)
}

func (b *carrierBuilder) answer(raw string, task int32) {
	gold := sight.NewAnswer(raw)
	key := squeezed(gold.Folded)
	if !gold.Decidable() || len(key) < sight.MinPattern {
		return
	}
	i, ok := b.byAnswer[key]
	if !ok {
		i = len(b.answers)
		b.byAnswer[key] = i
		b.answers = append(b.answers, carriedAnswer{text: gold.Folded, bits: gold.Bits, distinctive: sight.IsDistinctive(gold.Folded), evidence: true})
		b.raw = append(b.raw, strings.TrimSpace(raw))
	}
	x := &b.answers[i]
	x.tasks = append(x.tasks, task)
	x.evidence = len(x.tasks) == 1 && x.evidence && !strings.Contains(squeezed(b.tasks[task].question), key)
}

func (b *carrierBuilder) answerPatterns() {
	for i := range b.answers {
		if b.answers[i].evidence {
			b.countable++
		}
		for _, s := range carriedSpellings {
			for _, raw := range []string{b.raw[i], strings.ToLower(b.raw[i]), strings.ToUpper(b.raw[i])} {
				text := squeezed(strings.ToLower(s.write(raw)))
				if len(text) < sight.MinPattern {
					continue
				}
				if m := b.pattern(text); m.answer < 0 {
					m.answer, m.spelling, m.anywhere = i, s.name, s.anywhere
				}
			}
		}
	}
}

// dropForms forgets pieces and ids that several tasks have in common.
func (b *carrierBuilder) dropForms() {
	for i := range b.marks {
		m := &b.marks[i]
		if len(m.pieces) > sharedBy {
			for _, ref := range m.pieces {
				b.tasks[ref.task].pieces--
			}
			m.pieces = nil
		}
		if len(m.ids) > 1 {
			m.ids = nil
		}
	}
}

// A carriedFile is what one file of the agent holds, over all that it contains.
type carriedFile struct {
	path      string
	published string            // the file of the data set that it is
	inside    string            // the member of an archive that is one
	beside    map[int32]int     // tasks whose answer stands beside their question, and the answer
	table     []int             // the answers of the largest table
	answers   map[int]string    // every answer, and how it is written
	questions map[int32]uint64  // pieces of questions
	ids       map[int32]bool    // of tasks, that are sure
	scratch   [2][]byte         // buffers
	offsets   []int32           // of the letters of a text
	hits      []carriedHit      // of a text
	unread    map[string]string // what could not be read in it, and why
}

// read looks through one file.
func (c *carrier) read(ctx context.Context, path string, data []byte) error {
	c.files++
	f := &carriedFile{path: path, beside: map[int32]int{}, answers: map[int]string{}, questions: map[int32]uint64{}, ids: map[int32]bool{}, unread: map[string]string{}}
	c.search(f, []byte(path), false)
	u := unpacker{ctx: ctx, c: c, f: f}
	u.open(path, data, layers{})
	c.decide(f)
	return ctx.Err()
}

// known holds bytes against the files of the data set.
func (c *carrier) known(f *carriedFile, name string, data []byte) {
	if len(data) < minPublished || len(c.published) == 0 {
		return
	}
	sum := sha256.Sum256(data)
	if p, ok := c.published[hex.EncodeToString(sum[:])]; ok && f.published == "" {
		f.published, f.inside = p, name
	}
}

// A carriedHit is a mark in a text, by its place among the letters and digits.
type carriedHit struct{ mark, from, to int }

// search looks through a text and all that it hides.
func (c *carrier) search(f *carriedFile, text []byte, isBinary bool) {
	sight.Unwrap(text, func(plainer []byte) { c.look(f, plainer, isBinary) })
}

// look finds the marks of one text. It compares letters and digits alone, so that
// "north" + "west", n.o.r.t.h and a column in two bytes a letter are the same; that
// a match begins and ends where a word does is asked of the text itself.
func (c *carrier) look(f *carriedFile, text []byte, isBinary bool) {
	f.scratch[0] = sight.Fold(f.scratch[0][:0], withoutControls(text))
	folded := f.scratch[0]
	f.scratch[1], f.offsets = squeeze(f.scratch[1][:0], f.offsets[:0], folded)
	f.hits = f.hits[:0]
	c.matcher.Find(f.scratch[1], func(id, from int) {
		m, to := &c.marks[id], from+len(c.matcher.Pattern(id))
		if m.answer >= 0 && !m.anywhere {
			lo, hi := int(f.offsets[from]), int(f.offsets[to-1])+1
			whole := sight.IsWhole(folded, lo, hi-lo)
			if !whole && !(isBinary && c.answers[m.answer].bits >= unboundedBits) {
				return
			}
		}
		if len(f.hits) < maxCarried {
			f.hits = append(f.hits, carriedHit{id, from, to})
		}
	})
	slices.SortFunc(f.hits, func(a, b carriedHit) int { return cmp.Or(a.from-b.from, a.mark-b.mark) })
	f.hits = slices.Compact(f.hits)
	c.note(f, folded)
}

// maxCarried bounds what is kept of one text.
const maxCarried = 1 << 16

// note takes what a text holds, in the order of its places.
func (c *carrier) note(f *carriedFile, folded []byte) {
	var stretch []int
	last := 0
	for i, h := range f.hits {
		m := &c.marks[h.mark]
		for _, ref := range m.pieces {
			f.questions[ref.task] |= 1 << ref.piece
		}
		for _, t := range m.ids {
			if c.tasks[t].idSure {
				f.ids[t] = true
			}
		}
		if m.answer < 0 {
			continue
		}
		x := &c.answers[m.answer]
		if _, there := f.answers[m.answer]; !there {
			f.answers[m.answer] = m.spelling
		}
		for _, t := range x.tasks {
			if _, there := f.beside[t]; !there && c.isBeside(f, folded, i, t) {
				f.beside[t] = m.answer
			}
		}
		if !x.evidence {
			continue
		}
		if h.from-last > besideBytes {
			stretch = nil
		}
		last = h.to
		if !slices.Contains(stretch, m.answer) {
			stretch = append(stretch, m.answer)
		}
		if len(stretch) > len(f.table) {
			f.table = stretch // it only grows at its end
		}
	}
}

// isBeside reports whether the question or the id of a task stands near one of its
// answer. The question itself may name the answer, so that says nothing.
func (c *carrier) isBeside(f *carriedFile, folded []byte, at int, task int32) bool {
	h := f.hits[at]
	if !c.answers[c.marks[h.mark].answer].evidence && strings.Contains(squeezed(c.tasks[task].question), c.matcher.Pattern(h.mark)) {
		return false
	}
	near := func(other carriedHit) bool {
		m := &c.marks[other.mark]
		return slices.Contains(m.ids, task) || slices.ContainsFunc(m.pieces, func(ref pieceRef) bool { return ref.task == task })
	}
	for i := at - 1; i >= 0 && h.from-f.hits[i].to <= besideBytes; i-- {
		if near(f.hits[i]) {
			return true
		}
	}
	for i := at + 1; i < len(f.hits) && f.hits[i].from-h.to <= besideBytes; i++ {
		if near(f.hits[i]) {
			return true
		}
	}
	lo, hi := int(f.offsets[h.from]), int(f.offsets[h.to-1])+1
	return c.asksFor(folded[max(0, lo-besideBytes):lo], task) || c.asksFor(folded[hi:min(len(folded), hi+besideBytes)], task)
}

// asksFor reports whether a text has words of a question that stand together in no
// other question.
func (c *carrier) asksFor(text []byte, task int32) bool {
	if len(text) == 0 {
		return false
	}
	around := " " + wordsOf(text) + " "
	words := strings.Fields(wordsOf([]byte(c.tasks[task].question)))
	for i := 0; i+keyWords <= len(words); i++ {
		key := " " + strings.Join(words[i:i+keyWords], " ") + " "
		if sight.Surprise(key) >= 2*sight.MinBits && strings.Contains(around, key) && c.isOwn(key, task) {
			return true
		}
	}
	return false
}

// isOwn reports whether only one task asks with these words.
func (c *carrier) isOwn(key string, task int32) bool {
	for i := range c.tasks {
		if int32(i) != task && strings.Contains(" "+wordsOf([]byte(c.tasks[i].question))+" ", key) {
			return false
		}
	}
	return true
}

// decide says what a file is.
func (c *carrier) decide(f *carriedFile) {
	for name, why := range f.unread {
		c.gaps = append(c.gaps, name+" "+why)
	}
	for i := range f.answers {
		if c.answers[i].evidence {
			c.seen[i] = true
		}
	}
	fails := len(c.fails)
	fail := func(format string, args ...any) {
		c.fails = append(c.fails, f.path+": "+fmt.Sprintf(format, args...))
	}
	if f.published != "" {
		what := "is"
		if f.inside != f.path {
			what = "holds, as " + strings.TrimPrefix(f.inside, f.path+": ") + ","
		}
		fail("%s the file %s of the data set, by its SHA-256", what, quoted(f.published))
	}
	if len(f.beside) > 0 {
		tasks := slices.SortedFunc(maps.Keys(f.beside), func(a, b int32) int { return int(a - b) })
		t := tasks[0]
		fail("holds the answers of %s beside their questions, as %s of task %s%s", count(len(tasks), "task"), quoted(c.answers[f.beside[t]].text), c.tasks[t].id, f.how(f.beside[t]))
	}
	if c.isTable(f.table) {
		slices.Sort(f.table)
		i := f.table[0]
		fail("holds the answers of %s one after the other, as %s of task %s%s", count(len(f.table), "task"), quoted(c.answers[i].text), c.tasks[c.answers[i].tasks[0]].id, f.how(i))
	}
	if n := c.held(f); n >= heldQuestions {
		fail("holds the questions of %d tasks", n)
	}
	if len(f.ids) >= heldQuestions {
		fail("holds the ids of %d tasks", len(f.ids))
	}
	if len(c.fails) > fails {
		return
	}
	for _, i := range slices.Sorted(maps.Keys(f.answers)) {
		if x := &c.answers[i]; x.evidence {
			c.notes = append(c.notes, fmt.Sprintf("%s: holds %s, the answer of task %s%s (information: alone it may stand there by chance)", f.path, quoted(x.text), c.tasks[x.tasks[0]].id, f.how(i)))
		}
	}
}

func (f *carriedFile) how(answer int) string {
	if s := f.answers[answer]; s != "" {
		return ", " + s
	}
	return ""
}

func (c *carrier) isTable(answers []int) bool {
	sum := 0.0
	for _, i := range answers {
		sum += c.answers[i].bits
	}
	return len(answers) >= tableAnswers && sum >= tableBits
}

// held counts the questions that a file holds half of.
func (c *carrier) held(f *carriedFile) (n int) {
	for t, pieces := range f.questions {
		if p := c.tasks[t].pieces; p > 0 && bits.OnesCount64(pieces) >= (p+1)/2 {
			n++
		}
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// finishCarried decides AUD-11 when every file was read.
func (a *auditor) finishCarried() {
	f, c := &a.found[aud11], a.carrier
	if c == nil {
		c = &carrier{}
	}
	f.auditable, f.decided, f.fails, f.notes = c.files, c.countable, c.fails, slices.Concat(c.notes, a.in.AgentNotes)
	if strong := c.strong(); len(f.fails) == 0 && (strong >= shareAnswers && 10*strong >= c.countable || strong >= tableAnswers && 2*strong >= c.countable) {
		f.fails = append(f.fails, fmt.Sprintf("the files of the agent hold the answers of %d of %d tasks, apart from each other", strong, c.countable))
	}
	if a.split() == "test" {
		f.lacks = nil // it has no expected answers
	}
	gaps := slices.Concat(a.in.SourceGaps, a.in.AgentGaps, c.gaps)
	slices.Sort(gaps)
	switch {
	case len(gaps) > 0:
		f.gap = someOf(slices.Compact(gaps))
	case c.files == 0:
		f.gap = "no files of the agent supplied"
	case a.results.golds > 0:
	case a.split() == "test":
		f.notes = append(f.notes, "the test split has no expected answers: the files of the agent were held against the digests of the data set")
	default:
		f.gap = "the results carry no expected answers"
	}
}

// strong counts the distinctive answers in all files.
func (c *carrier) strong() (n int) {
	for i := range c.seen {
		if c.answers[i].distinctive {
			n++
		}
	}
	return n
}
