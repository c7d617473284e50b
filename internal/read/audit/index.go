package audit

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"tallystick/internal/run/sight"
)

// knownSources are places that hold the answers of a benchmark, folded. A sure
// one is an address: asking for it is enough. The others are names that also
// stand elsewhere, and count beside the answer.
var knownSources = []struct {
	text string
	sure bool
}{
	{"gaia-benchmark/gaia", false},
	{"huggingface.co/datasets/gaia-benchmark", true},
	{"hf.co/datasets/gaia-benchmark", true},
	{"datasets-server.huggingface.co/rows?dataset=gaia-benchmark", true},
	{"2023/validation/metadata.jsonl", false},
}

// An index has the texts of all tasks, to find those of other tasks in what one
// task fetched. Results of one task by several models are one task.
type index struct {
	matcher  *sight.Matcher
	patterns []patternInfo
	tasks    []taskInfo
	byID     map[string]int
	golds    int            // different answers that are looked for
	answers  map[string]int // that can be decided, folded, and how many tasks expect them
	// short says that an answer is short and yet distinctive: a number.
	short bool
	// words are those that only one question has, with its task.
	words func() map[string]int32
}

// A taskInfo is a task as it is looked for.
type taskInfo struct {
	id   string
	gold sight.Answer
	q    sight.Question
	// goldAt is the pattern of the answer, -1 if it is weak.
	goldAt int
	// naming is the question in each form that names the answer, as one of a choice or
	// in a text to read: as it is written, without its tags, and so on.
	naming []string
	// short says that a piece of the answer in base64 is short.
	short bool
	// label says that several tasks expect this answer, as a class that all
	// questions are sorted into: it is expected in any text about them.
	label bool
}

// decidable reports whether the answer in a text says something. One that is
// short, or a label, stands there by chance.
func (t *taskInfo) decidable() bool { return t.gold.Decidable() && !t.label }

// A patternInfo says whose a pattern is.
type patternInfo struct {
	pieces []pieceRef
	shared bool    // more than one question holds it: it does not say which of them a text has
	golds  []int32 // tasks
	base64 []int32 // tasks whose answer in base64 has this, folded
	known  int     // place in knownSources plus 1
}

type pieceRef struct {
	task  int32
	piece uint8
}

// why says why an answer is not decidable.
func (t *taskInfo) why() string {
	if t.label {
		return fmt.Sprintf("%d tasks or more expect", labelTasks)
	}
	return fmt.Sprintf("has under %d bits of surprise", sight.MinBits)
}

// An answer that labelTasks tasks expect is a label, unless it has more than
// labelBits of surprise: labels are short.
const (
	labelTasks = 3
	labelBits  = 64
)

// sharedBy is how many tasks may have a piece of their questions in common before
// it is a form that says nothing about a task.
const sharedBy = 2

func newIndex(c *corpus) *index {
	x := &index{byID: map[string]int{}, answers: map[string]int{}}
	at := map[string]int{}
	var texts []string
	pattern := func(text string) *patternInfo {
		i, ok := at[text]
		if !ok {
			i = len(texts)
			at[text] = i
			texts = append(texts, text)
			x.patterns = append(x.patterns, patternInfo{})
		}
		return &x.patterns[i]
	}
	for i, k := range knownSources {
		pattern(k.text).known = i + 1
	}
	for _, r := range c.list {
		if _, there := x.byID[r.id]; there {
			continue
		}
		n := len(x.tasks)
		x.byID[r.id] = n
		t := taskInfo{id: r.id, gold: sight.NewAnswer(r.gold), q: sight.NewQuestion(r.question), goldAt: -1}
		t.naming = namings(r.question, &t.gold)
		for i, p := range t.q.Pieces {
			info := pattern(p)
			info.pieces = append(info.pieces, pieceRef{int32(n), uint8(i)})
		}
		if len(t.gold.Folded) >= sight.MinPattern && !t.gold.Weak {
			info := pattern(t.gold.Folded)
			if len(info.golds) == 0 {
				x.golds++
			}
			info.golds = append(info.golds, int32(n))
			t.goldAt = at[t.gold.Folded]
			x.short = x.short || sight.IsShort(t.gold.Folded) && sight.IsDistinctive(t.gold.Folded)
		}
		for _, e := range t.gold.Folded64() {
			if info := pattern(e); !slices.Contains(info.base64, int32(n)) {
				info.base64 = append(info.base64, int32(n))
			}
			t.short = t.short || sight.IsShort(e)
		}
		if t.gold.Decidable() {
			x.answers[t.gold.Folded]++
		}
		x.tasks = append(x.tasks, t)
	}
	x.dropShared()
	x.markLabels()
	x.matcher = sight.NewMatcher(texts)
	x.markShared()
	x.words = sync.OnceValue(x.ownWords)
	return x
}

// markShared finds the pieces that several questions hold, wherever in them.
func (x *index) markShared() {
	for i := range x.tasks {
		x.matcher.Find([]byte(x.tasks[i].q.Folded), func(id, _ int) {
			p := &x.patterns[id]
			p.shared = p.shared || slices.ContainsFunc(p.pieces, func(ref pieceRef) bool { return int(ref.task) != i })
		})
	}
}

// dropShared forgets pieces that several questions have in common.
func (x *index) dropShared() {
	shared := map[int32]int{}
	for i := range x.patterns {
		p := &x.patterns[i]
		if len(p.pieces) > sharedBy {
			for _, ref := range p.pieces {
				shared[ref.task]++
			}
			p.pieces = nil
		}
	}
	for task, n := range shared {
		q := &x.tasks[task].q
		q.Pieces = q.Pieces[:len(q.Pieces)-n] // only how many there are is used from here on
	}
}

// markLabels finds the labels. They are not counted as answers of other tasks.
func (x *index) markLabels() {
	for i := range x.patterns {
		p := &x.patterns[i]
		if len(p.golds) < labelTasks || x.tasks[p.golds[0]].gold.Bits > labelBits {
			continue
		}
		for _, t := range p.golds {
			x.tasks[t].label = true
		}
		delete(x.answers, x.tasks[p.golds[0]].gold.Folded)
		p.golds = nil
		x.golds--
	}
}

func (x *index) taskOf(r *result) int { return x.byID[r.id] }

// A span is a part of a folded text.
type span struct{ from, to int }

// A sighting is what one folded text holds.
type sighting struct {
	own    uint64 // pieces of the task's own question
	spans  []span // where they are
	others []otherPieces
	golds  []goldHit // of other tasks
	known  uint64    // places in knownSources
	gold   []int     // where the task's own answer is, outside its question
	base64 bool      // the answer stands there in base64
	// encoded says that a piece of that stands there in some letters, large or small.
	encoded bool
}

type otherPieces struct {
	task   int32
	pieces uint64
}

type goldHit struct{ pattern, at int }

func (s *sighting) reset() {
	*s = sighting{spans: s.spans[:0], others: s.others[:0], golds: s.golds[:0], gold: s.gold[:0]}
}

// maxHits bounds what is kept of one text, and maxOthers how many other tasks whose
// questions it holds: two decide.
const (
	maxHits   = 4096
	maxOthers = 64
)

// look finds everything that is looked for in a folded text; short answers of other
// tasks only if it is told to.
func (x *index) look(text []byte, task int, short bool, s *sighting) {
	s.reset()
	own := &x.tasks[task]
	hit := func(id, at int) {
		p := &x.patterns[id]
		if p.known > 0 {
			s.known |= 1 << (p.known - 1)
		}
		for _, ref := range p.pieces {
			if int(ref.task) == task {
				s.own |= 1 << ref.piece
				s.addSpan(at, len(x.matcher.Pattern(id)))
			} else if !p.shared {
				s.other(ref)
			}
		}
		s.encoded = s.encoded || slices.Contains(p.base64, int32(task))
		if len(p.golds) > 0 && id != own.goldAt && len(s.golds) < maxHits && sight.IsWhole(text, at, len(x.matcher.Pattern(id))) {
			s.golds = append(s.golds, goldHit{id, at})
		}
	}
	x.matcher.FindLong(text, hit)
	if short {
		x.matcher.FindShort(text, hit)
	}
	for _, q := range own.naming {
		s.addNaming(text, q)
	}
	s.joinSpans()
	s.ownGold(text, own)
}

// namings are the folded forms of a question that hold an answer: as it is written,
// as it stands in a request in JSON, and what it hides.
func namings(question string, gold *sight.Answer) (list []string) {
	add := func(form []byte) {
		folded := sight.FoldString(string(form))
		if at, _ := gold.Index([]byte(folded), 0); at >= 0 && !slices.Contains(list, folded) {
			list = append(list, folded)
		}
	}
	sight.Unwrap([]byte(question), add)
	if len(list) > 0 {
		quoted := strconv.AppendQuote(nil, question)
		add(quoted[1 : len(quoted)-1])
		add(inASCII(quoted[1 : len(quoted)-1]))
	}
	return list
}

// inASCII writes a text as JSON in ASCII has it.
func inASCII(text []byte) (ascii []byte) {
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			ascii = append(ascii, byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			ascii = fmt.Appendf(ascii, `\u%04x`, u)
		}
	}
	return ascii
}

// A question is looked for by pieces of anchorBytes of it, at most maxAnchors, each as
// far as the text is the same: of a long one a prompt may have only a part.
const (
	anchorBytes = 32
	maxAnchors  = 64
)

// addNaming finds where a text has a question, or a part of it.
func (s *sighting) addNaming(text []byte, q string) {
	size := min(anchorBytes, len(q))
	for o := 0; o+size <= len(q); o += max(size, len(q)/maxAnchors) {
		anchor := []byte(q[o : o+size])
		for at := bytes.Index(text, anchor); at >= 0; {
			from, to := at, at+size
			for from > 0 && o-(at-from) > 0 && text[from-1] == q[o-(at-from)-1] {
				from--
			}
			for to < len(text) && o+to-at < len(q) && text[to] == q[o+to-at] {
				to++
			}
			s.addSpan(from, to-from)
			next := bytes.Index(text[to:], anchor)
			if next < 0 {
				break
			}
			at = to + next
		}
	}
}

func (s *sighting) addSpan(at, size int) {
	if len(s.spans) < maxHits {
		s.spans = append(s.spans, span{at, at + size})
	}
}

// joinSpans puts the spans in order, and makes one of those that meet.
func (s *sighting) joinSpans() {
	slices.SortFunc(s.spans, func(a, b span) int { return a.from - b.from })
	joined := s.spans[:0]
	for _, q := range s.spans {
		if n := len(joined); n > 0 && q.from <= joined[n-1].to+1 { // a space may be between
			joined[n-1].to = max(joined[n-1].to, q.to)
			continue
		}
		joined = append(joined, q)
	}
	s.spans = joined
}

func (s *sighting) other(ref pieceRef) {
	for i := range s.others {
		if s.others[i].task == ref.task {
			s.others[i].pieces |= 1 << ref.piece
			return
		}
	}
	if len(s.others) < maxOthers {
		s.others = append(s.others, otherPieces{ref.task, 1 << ref.piece})
	}
}

// ownGold finds the task's own answer. Inside the question it is not news. A weak
// answer counts only where it is called one.
func (s *sighting) ownGold(text []byte, own *taskInfo) {
	if own.gold.Weak && !hasAnswerWord(text) {
		return
	}
	for at, end := own.gold.Index(text, 0); at >= 0 && len(s.gold) < maxHits; at, end = own.gold.Index(text, end) {
		if s.inQuestion(at, end) || own.gold.Weak && !calledAnswer(text, at) {
			continue
		}
		s.gold = append(s.gold, at)
	}
}

func (s *sighting) inQuestion(from, to int) bool {
	n, _ := slices.BinarySearchFunc(s.spans, from+1, func(q span, at int) int { return q.from - at })
	return n > 0 && to <= s.spans[n-1].to
}

// holdsQuestion reports whether half of the question's pieces were seen.
func (x *index) holdsQuestion(task int, pieces uint64) bool {
	q := &x.tasks[task].q
	return len(q.Pieces) > 0 && bits.OnesCount64(pieces) >= q.Enough()
}
