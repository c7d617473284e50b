package audit

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"tallystick/internal/run/sight"
)

// An oracleSeen is what AUD-3 saw in one trajectory.
type oracleSeen struct {
	sentences []uint64 // of the first prompt
	hit       *oracleHit
}

// An oracleHit is an answer in a prompt. Its sentence is 0 if it stands in none.
type oracleHit struct {
	evidence string
	sentence uint64
}

// An oracle is AUD-3 over all trajectories. A sentence that stands in the prompts
// of most tasks is a form: it holds a word that is one task's answer by chance.
// One that holds the answers of two tasks is a list of answers.
type oracle struct {
	tasks     int
	sentences map[uint64]int32
	golds     map[uint64]int32
	hits      []oracleHit
}

const (
	maxSentences    = 1 << 20 // that are counted
	sentencesOfTask = 1 << 10
)

func (o *oracle) take(s *oracleSeen) {
	if o.sentences == nil {
		o.sentences, o.golds = map[uint64]int32{}, map[uint64]int32{}
	}
	if len(s.sentences) > 0 {
		o.tasks++
	}
	for _, h := range s.sentences {
		if _, there := o.sentences[h]; there || len(o.sentences) < maxSentences {
			o.sentences[h]++
		}
	}
	if s.hit != nil {
		o.hits = append(o.hits, *s.hit)
		o.golds[s.hit.sentence]++
	}
}

// finish parts leaks from forms.
func (o *oracle) finish(f *findings) {
	for _, h := range o.hits {
		if h.sentence != 0 && o.golds[h.sentence] == 1 && o.sentences[h.sentence] >= max(3, int32(o.tasks+1)/2) {
			f.notes = append(f.notes, h.evidence+" (information: the sentence stands in the prompts of most tasks)")
			continue
		}
		f.fails = append(f.fails, h.evidence)
	}
}

// oracle is AUD-3 on one trajectory: was the agent told the answer?
func (w *worker) oracle(o *outcome, task int) {
	f := &o.found[aud3]
	if !o.t.hasSteps {
		return
	}
	own := &w.a.index.tasks[task]
	first := true
	for i := range o.t.steps {
		s := &o.t.steps[i]
		if s.kind != stepPrompt && s.kind != stepModel || len(s.text) == 0 {
			continue
		}
		if first {
			f.auditable++
			o.oracle.sentences = sentencesOf(s.text)
		}
		if s.cut && !s.scanned && first {
			f.dark++
		}
		first = false
		if o.oracle.hit != nil || own.gold.Folded == "" || o.r.gold == "" {
			continue
		}
		claimed := len(s.hits) > 0 && !own.inQuestion && !own.gold.Weak
		if !w.see(s.text, task).gold && !claimed {
			continue
		}
		if w.repeats(o, task, i) {
			return
		}
		what := fmt.Sprintf("task %s: gold answer %s present in agent-visible %s", own.id, quoted(own.gold.Folded), s.kind)
		o.oracle.hit = &oracleHit{what, sentenceWith(s.text, own.gold.Folded)}
	}
}

// repeats reports whether a prompt says what a tool, or the model itself, said
// before: then the harness did not tell the agent. If a tool's text was recorded only in part
// it cannot be said, and that is not a finding.
func (w *worker) repeats(o *outcome, task, at int) bool {
	for i := range o.t.steps[:at] {
		s := &o.t.steps[i]
		switch s.kind {
		case stepResult:
			if len(s.hits) > 0 || s.cut && !s.scanned || w.see(s.text, task).gold {
				return true
			}
		case stepCall:
			if w.see(s.text, task).gold {
				return true
			}
		case stepModel:
			if len(s.saidHits) > 0 || w.see(s.said, task).gold {
				return true
			}
		}
	}
	return false
}

// sentencesOf are the sentences and lines of a prompt, by hash.
func sentencesOf(text []byte) []uint64 {
	var list []uint64
	eachSentence(text, func(s []byte) bool {
		list = append(list, hashOf(sight.Fold(nil, s)))
		return len(list) < sentencesOfTask
	})
	return list
}

// sentenceWith is the hash of the sentence that holds an answer.
func sentenceWith(text []byte, gold string) uint64 {
	var found uint64
	eachSentence(text, func(s []byte) bool {
		if folded := sight.Fold(nil, s); sight.IndexWhole(folded, gold, 0) >= 0 {
			found = hashOf(folded)
		}
		return found == 0
	})
	return found
}

func eachSentence(text []byte, visit func([]byte) bool) {
	from := 0
	for i := range text {
		end := text[i] == '\n' || i+1 == len(text) ||
			(text[i] == '.' || text[i] == '!' || text[i] == '?') && sight.IsSpace(text[i+1])
		if !end {
			continue
		}
		if s := bytes.TrimSpace(text[from : i+1]); len(s) > 0 && !visit(s) {
			return
		}
		from = i + 1
	}
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(bytes.TrimSpace(b))
	return h.Sum64() | 1
}
