package audit

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"tallystick/internal/read/step"
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
//
// Of several executions of a task the first one counts: what its prompts share with
// each other makes no form.
type oracle struct {
	tasks     map[string]bool
	sentences map[uint64]int32
	golds     map[uint64]map[string]bool // tasks whose answers a sentence holds
	hits      []oracleHit
}

const (
	maxSentences    = 1 << 20 // that are counted
	sentencesOfTask = 1 << 10
)

func (o *oracle) take(s *oracleSeen, task string) {
	if o.sentences == nil {
		o.tasks, o.sentences, o.golds = map[string]bool{}, map[uint64]int32{}, map[uint64]map[string]bool{}
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
		if o.golds[s.hit.sentence] == nil {
			o.golds[s.hit.sentence] = map[string]bool{}
		}
		o.golds[s.hit.sentence][task] = true
	}
}

// finish parts leaks from forms.
func (o *oracle) finish(f *findings) {
	for _, h := range o.hits {
		if h.sentence != 0 && len(o.golds[h.sentence]) == 1 && o.sentences[h.sentence] >= max(3, int32(len(o.tasks)+1)/2) {
			f.notes = append(f.notes, h.evidence+" (information: the sentence stands in the prompts of most tasks)")
			continue
		}
		f.fails = append(f.fails, h.evidence)
	}
}

// oracle is AUD-3 on one trajectory: was the agent told the answer?
func (w *worker) oracle(o *outcome, task int) {
	f := &o.found[aud3]
	if !o.t.HasSteps {
		return
	}
	own := &w.a.index.tasks[task]
	first := true
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		if s.Kind != step.Prompt && s.Kind != step.Model || len(s.Shown.Text) == 0 {
			continue
		}
		if first {
			f.auditable++
			o.oracle.sentences = sentencesOf(s.Shown.Text)
		}
		if s.Shown.Cut && !s.Shown.Scanned && first {
			f.dark++
		}
		first = false
		if o.oracle.hit != nil || own.gold.Folded == "" || o.r.gold == "" {
			continue
		}
		claimed := len(s.Shown.Hits) > 0 && !own.inQuestion && !own.gold.Weak
		if !w.see(s.Shown.Text, task).gold && !claimed {
			continue
		}
		if w.repeats(o, task, i) {
			return
		}
		what := fmt.Sprintf("task %s: gold answer %s present in agent-visible %s", own.id, quoted(own.gold.Folded), s.Kind)
		o.oracle.hit = &oracleHit{what, sentenceWith(s.Shown.Text, own.gold.Folded)}
	}
}

// repeats reports whether a prompt says what a tool, or the model itself, said
// before: then the harness did not tell the agent. If a tool's text was recorded only in part
// it cannot be said, and that is not a finding.
func (w *worker) repeats(o *outcome, task, at int) bool {
	for i := range o.t.Steps[:at] {
		s := &o.t.Steps[i]
		switch s.Kind {
		case step.Result:
			if len(s.Shown.Hits) > 0 || s.Shown.Cut && !s.Shown.Scanned || w.see(s.Shown.Text, task).gold {
				return true
			}
		case step.Call:
			if w.see(s.Said.Text, task).gold {
				return true
			}
		case step.Model:
			if len(s.Said.Hits) > 0 || w.see(s.Said.Text, task).gold {
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
