package cheats

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"tallystick/internal/read/step"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/sight"
)

// A recorder is what is written down of an agent's acts.
type recorder struct {
	name string
	// heads cuts texts; else they are whole, as the original recorder has them.
	heads bool
	// looks says that the recorder looked for the answer in whole texts.
	looks bool
	// bodies keeps the whole texts of which there is only a head.
	bodies bool
}

// Of ten runs three have whole texts, three heads as our recorder writes them,
// three bodies beside heads, and one heads alone: there the audit cannot see
// what lies beyond them, and must say so.
var recorders = []recorder{
	{name: "whole"}, {name: "whole"}, {name: "whole"},
	{name: "heads", heads: true, looks: true}, {name: "heads", heads: true, looks: true}, {name: "heads", heads: true, looks: true},
	{name: "bodies", heads: true, looks: true, bodies: true}, {name: "bodies", heads: true, bodies: true}, {name: "bodies", heads: true, looks: true, bodies: true},
	{name: "bare", heads: true},
}

// The bounds of a head, in bytes, as docs/formats/submission.md states them.
const (
	promptHead = 2 << 10
	resultHead = 4 << 10
)

func (r recorder) steps(acts []act, gold *sought, bodies map[string]string) []*step.Step {
	steps := make([]*step.Step, 0, len(acts))
	for _, a := range acts {
		if r.heads {
			steps = append(steps, r.headed(a, gold, bodies))
		} else {
			steps = append(steps, whole(a))
		}
	}
	return steps
}

// whole is a step as the original recorder writes it.
func whole(a act) *step.Step {
	s := &step.Step{Type: a.kind, Name: a.name}
	switch a.kind {
	case step.Prompt:
		s.Content = &a.text
	case step.Model:
		s.Input, s.Output = a.input, &a.text
		s.TokensIn, s.TokensOut = &a.tokensIn, &a.tokensOut
	case step.Call:
		s.Input = a.args
	case step.Result:
		s.Output, s.URL, s.IsError = &a.text, a.url, a.isError
	}
	return s
}

// headed is a step as our recorder writes it.
func (r recorder) headed(a act, gold *sought, bodies map[string]string) *step.Step {
	s := &step.Step{Type: a.kind, Turn: a.turn, Name: a.name, URL: a.url, Vantage: a.vantage, IsError: a.isError}
	sum := ""
	if a.kind != step.Call {
		bound := resultHead
		if a.kind == step.Prompt {
			bound = promptHead
		}
		var head string
		head, sum, s.GoldHits = r.keep(a.text, bound, gold, bodies)
		size := int64(len(a.text))
		s.Head, s.Bytes, s.Truncated = &head, &size, len(head) < len(a.text)
	}
	switch a.kind {
	case step.Prompt:
		s.Content, s.ContentSHA256 = s.Head, sum
	case step.Model:
		head, inputSum, hits := r.keep(a.input, promptHead, gold, bodies)
		size := int64(len(a.input))
		s.Input, s.InputSHA256, s.InputGoldHits = head, inputSum, hits
		s.InputBytes, s.InputTruncated = &size, len(head) < len(a.input)
		s.Output, s.OutputSHA256 = s.Head, sum
		s.TokensIn, s.TokensOut = &a.tokensIn, &a.tokensOut
	case step.Call:
		data, _ := canon.Marshal(a.args)
		args := canon.RawMessage(data)
		s.Args, s.Input = &args, args
		if r.looks {
			s.InputGoldHits = hits(data, gold)
		}
	case step.Result:
		s.Output, s.OutputSHA256 = s.Head, sum
	}
	return s
}

// keep is what is written of one text.
func (r recorder) keep(text string, bound int, gold *sought, bodies map[string]string) (head, sum string, found *step.Hits) {
	head = cut(text, bound)
	digest := sha256.Sum256([]byte(text))
	sum = hex.EncodeToString(digest[:])
	if r.bodies && len(head) < len(text) {
		bodies[sum] = text
	}
	if r.looks {
		found = hits([]byte(text), gold)
	}
	return head, sum, found
}

// A sought is what the recorder looks for.
type sought struct {
	*sight.Search
	question sight.Question
}

// hits are where the recorder finds the answer. It looks with what the recorder
// of a run looks with.
func hits(text []byte, gold *sought) *step.Hits {
	found := append([]int64{}, gold.Find(text)...)
	h := &step.Hits{Scanned: gold.Any(), Offsets: found}
	if len(found) > 0 {
		beside := gold.question.IsIn(text)
		h.Question = &beside
	}
	if len(found) > evidence.MaxGoldHits {
		h.Offsets, h.Count = found[:evidence.MaxGoldHits], int64(len(found))
	}
	return h
}

// cut is the beginning of a text, not in the middle of a character.
func cut(text string, bound int) string {
	if len(text) <= bound {
		return text
	}
	for bound > 0 && !utf8.RuneStart(text[bound]) {
		bound--
	}
	return text[:bound]
}
