package audit

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"slices"

	"tallystick/internal/read/step"
	"tallystick/internal/run/sight"
)

// An oracleSeen is what AUD-3 saw in one trajectory.
type oracleSeen struct {
	sentences []uint64 // of its prompts
	hit       *oracleHit
}

// An oracleHit is an answer in a prompt.
type oracleHit struct {
	evidence string
	gold     string
	// sentences are those that hold the answer. There are none if it is encoded,
	// divided, or beyond what is recorded.
	sentences []uint64
}

// An oracle is AUD-3 over all trajectories. A sentence that stands in the prompts
// of most tasks is a form: it holds a word that is one task's answer by chance.
// Forms that hold the answers of several tasks are a list of answers.
//
// Of several executions of a task the first one counts: what its prompts share with
// each other makes no form.
type oracle struct {
	tasks     map[string]bool
	sentences map[uint64]int32
	hits      []oracleHit
}

const (
	maxSentences    = 1 << 20 // that are counted
	sentencesOfTask = 1 << 10
	// A form that holds as many answers as this, of the tasks of a run, is a list
	// of answers: two that no text has by chance, or a tenth of all.
	keyDistinctive = 2
	keyAnswers     = 3
)

func (o *oracle) take(s *oracleSeen, task string) {
	if o.sentences == nil {
		o.tasks, o.sentences = map[string]bool{}, map[uint64]int32{}
	}
	if len(s.sentences) > 0 && !o.tasks[task] {
		o.tasks[task] = true
		for _, h := range s.sentences {
			if _, there := o.sentences[h]; there || len(o.sentences) < maxSentences {
				o.sentences[h]++
			}
		}
	}
	if s.hit != nil {
		o.hits = append(o.hits, *s.hit)
	}
}

// isForm reports whether an answer stands in forms and nowhere else.
func (o *oracle) isForm(h *oracleHit) bool {
	most := max(3, int32(len(o.tasks)+1)/2)
	return len(h.sentences) > 0 && !slices.ContainsFunc(h.sentences, func(s uint64) bool { return o.sentences[s] < most })
}

// finish parts leaks from forms.
func (o *oracle) finish(f *findings) {
	answers, distinctive := map[string]bool{}, 0
	for i := range o.hits {
		if h := &o.hits[i]; o.isForm(h) && !answers[h.gold] {
			answers[h.gold] = true
			if sight.IsDistinctive(h.gold) {
				distinctive++
			}
		}
	}
	isKey := distinctive >= keyDistinctive || len(answers) >= max(keyAnswers, (len(o.tasks)+9)/10)
	for i := range o.hits {
		if h := &o.hits[i]; !isKey && o.isForm(h) {
			f.notes = append(f.notes, h.evidence+" (information: the sentence stands in the prompts of most tasks)")
		} else {
			f.fails = append(f.fails, h.evidence)
		}
	}
}

// oracle is AUD-3 on one trajectory: was the agent told the answer?
func (w *worker) oracle(o *outcome, task int) {
	f := &o.found[aud3]
	own := &w.a.index.tasks[task]
	t := told{w: w, o: o, task: task, own: own, had: map[uint64]bool{}}
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		if s.Kind == step.Prompt || s.Kind == step.Model && (len(s.Shown.Text) > 0 || len(s.Shown.Hits) > 0) {
			t.shown(i, s)
		}
	}
	if t.n == 0 {
		return
	}
	f.decides(own)
	f.notes = append(f.notes, t.notes...)
}

// A told is AUD-3 on one trajectory while it runs.
type told struct {
	w    *worker
	o    *outcome
	task int
	own  *taskInfo

	n     int             // texts that the agent was shown
	had   map[uint64]bool // sentences
	last  []byte          // the end of the last prompt
	known bool            // the answer was there before: nothing more can be told
	whole bool            // it was offered as a choice: what is put together has it too
	notes []string
}

// shown looks at a text that the agent was shown.
func (t *told) shown(i int, s *step.View) {
	t.n++
	if s.Kind == step.Prompt || len(t.had) == 0 {
		t.addSentences(s.Shown.Text)
	}
	seam := t.seam(s)
	if t.known || t.o.oracle.hit != nil || t.own.gold.Folded == "" {
		return
	}
	found := t.w.see(s.Shown.Text, t.task).gold
	divided := !found && !t.whole && t.own.decidable() && len(seam) > 0 && t.w.see(seam, t.task).gold
	claimed := len(s.Shown.Hits) > 0 && !s.Shown.Body && len(t.own.naming) == 0
	if !found && !divided && !claimed {
		return
	}
	what := fmt.Sprintf("task %s: gold answer %s present in agent-visible %s", t.own.id, quoted(t.own.gold.Folded), s.Kind)
	switch {
	case !t.own.decidable():
		if found && len(t.notes) == 0 {
			t.notes = append(t.notes, what+" (information: an answer that "+t.own.why()+" is not decidable)")
		}
		return
	case t.before(i) || found && t.carries(s.Shown.Text):
		t.known = true
		return
	case found && t.w.a.index.offered(s.Shown.Text, t.task):
		t.whole = true
		if len(t.notes) == 0 {
			t.notes = append(t.notes, what+" (information: it is one of the choices that the text offers)")
		}
		return
	}
	hit := &oracleHit{evidence: what, gold: t.own.gold.Folded}
	if found {
		hit.sentences = sentencesWith(s.Shown.Text, &t.own.gold)
	}
	t.o.oracle.hit = hit
}

// addSentences remembers the sentences of a prompt, for what most prompts share.
func (t *told) addSentences(text []byte) {
	list := &t.o.oracle.sentences
	eachSentence(text, func(s []byte) bool {
		if h := hashOf(sight.Fold(nil, s)); !t.had[h] {
			t.had[h] = true
			*list = append(*list, h)
		}
		return len(*list) < sentencesOfTask
	})
}

// seam is the end of the prompt before this one and its beginning, and the ends and
// beginnings of its messages: an answer may be divided over them.
func (t *told) seam(s *step.View) []byte {
	var seam []byte
	if s.Kind == step.Prompt {
		if t.last != nil {
			head := s.Shown.Text[:min(len(s.Shown.Text), seamBytes)]
			seam = slices.Concat(t.last, head, []byte("\n|\n"), t.last, []byte(" "), head)
		}
		t.last = tailOf(s.Shown.Text, seamBytes)
	}
	return messageEdges(seam, s.Shown.Text)
}

// before reports whether a tool, or the model itself, said the answer before a
// step: then the harness did not tell the agent. If not all of what a tool gave
// was seen it cannot be said, which is no finding and a gap.
func (t *told) before(at int) bool {
	unseen := false
	for i := range t.o.t.Steps[:at] {
		s := &t.o.t.Steps[i]
		switch s.Kind {
		case step.Result:
			if len(s.Shown.Hits) > 0 || t.w.see(s.Shown.Text, t.task).gold {
				return true
			}
			unseen = unseen || !s.Shown.Seen()
		case step.Call:
			if len(s.Said.Hits) > 0 || t.w.see(s.Said.Text, t.task).gold {
				return true
			}
		case step.Model:
			if len(s.Said.Hits) > 0 || t.w.see(s.Said.Text, t.task).gold {
				return true
			}
		}
	}
	if unseen {
		t.o.lacks.is(lackSource, fmt.Sprintf("step %d of task %s", at, t.own.id))
	}
	return unseen
}

// carries reports whether a request has the answer only in what the model and its
// tools said before.
func (t *told) carries(text []byte) bool {
	r, ok := requestOf(text)
	return ok && !t.w.see(r.told, t.task).gold && (t.w.see(r.model, t.task).gold || t.w.see(r.tools, t.task).gold)
}

// sentencesWith are the hashes of the sentences that hold an answer.
func sentencesWith(text []byte, gold *sight.Answer) []uint64 {
	var list []uint64
	eachSentence(text, func(s []byte) bool {
		folded := sight.Fold(nil, s)
		if at, _ := gold.Index(folded, 0); at >= 0 {
			list = append(list, hashOf(folded))
		}
		return len(list) < sentencesOfTask
	})
	return list
}

// eachSentence visits the sentences and lines of a text. Where a text is JSON its
// strings are sentences, and an escaped line break ends one.
func eachSentence(text []byte, visit func([]byte) bool) {
	from := 0
	for i := 0; i < len(text); i++ {
		end, next := i, i+1
		switch c := text[i]; {
		case c == '\n' || c == '"':
		case next == len(text) || (c == '.' || c == '!' || c == '?') && isSpace(text[next]):
			end = next
		case c == '\\' && text[next] == 'n':
			next++
		default:
			continue
		}
		if s := bytes.Trim(text[from:end], " \t\r\\"); len(s) > 0 && !visit(s) {
			return
		}
		from, i = next, next-1
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(bytes.TrimSpace(b))
	return h.Sum64() | 1
}

// frames are what stands between the messages of a request and is none of them.
var frames = []string{"role", "content", "type", "text", "input_text", "output_text", "user", "system", "developer", "assistant", "name", "parts", "messages", "input", "message"}

// messageEdges appends the ends and beginnings of the messages of a request, one
// after the other, without what stands between them; of any other text nothing.
func messageEdges(dst, text []byte) []byte {
	texts := jsonTexts(text)
	if texts == nil {
		// The texts of an object or a list begin with the name of a member.
		if n := bytes.IndexByte(text[:min(len(text), 16)], '\n'); n < 0 || !slices.Contains(frames, string(text[:n])) {
			return dst
		}
		texts = bytes.Split(text, []byte("\n"))
	}
	dst = append(dst, '\n')
	for _, t := range texts {
		switch {
		case len(t) == 0 || slices.Contains(frames, string(t)):
		case len(t) <= 2*seamBytes:
			dst = append(append(dst, t...), ' ')
		default:
			dst = append(append(append(dst, t[:seamBytes]...), "\n|\n"...), tailOf(t, seamBytes)...)
			dst = append(dst, ' ')
		}
	}
	return dst
}

// jsonTexts are the strings of a text that is JSON, or the beginning of JSON.
func jsonTexts(text []byte) [][]byte {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil
	}
	list := [][]byte{}
	for {
		from := bytes.IndexByte(text, '"')
		if from < 0 {
			return list
		}
		end := from + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(text))
		list = append(list, text[from+1:end])
		if end == len(text) {
			return list
		}
		text = text[end+1:]
	}
}

func tailOf(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
