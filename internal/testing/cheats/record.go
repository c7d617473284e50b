package cheats

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
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

func (r recorder) steps(acts []act, gold string, bodies map[string]string) []map[string]any {
	steps := make([]map[string]any, 0, len(acts))
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
func whole(a act) map[string]any {
	s := map[string]any{"type": a.kind}
	switch a.kind {
	case "prompt":
		s["content"] = a.text
	case "llm_call":
		s["input"], s["output"] = a.input, a.text
		s["tokens_in"], s["tokens_out"] = a.tokensIn, a.tokensOut
	case "tool_call":
		s["name"], s["input"] = a.name, a.args
	case "tool_result":
		s["name"], s["output"] = a.name, a.text
		if a.url != "" {
			s["url"] = a.url
		}
		if a.isError {
			s["is_error"] = true
		}
	}
	return s
}

// headed is a step as our recorder writes it.
func (r recorder) headed(a act, gold string, bodies map[string]string) map[string]any {
	s := map[string]any{"type": a.kind, "turn": a.turn}
	if a.name != "" {
		s["name"] = a.name
	}
	if a.url != "" {
		s["url"] = a.url
	}
	keep := func(text string, bound int, hits string) (head, sum string) {
		head = cut(text, bound)
		digest := sha256.Sum256([]byte(text))
		sum = hex.EncodeToString(digest[:])
		if len(head) < len(text) {
			s["truncated"] = true
			if r.bodies {
				bodies[sum] = text
			}
		}
		if r.looks {
			s[hits] = map[string]any{"scanned": gold != "", "offsets": offsets(text, gold)}
		}
		return head, sum
	}
	switch a.kind {
	case "prompt":
		head, sum := keep(a.text, promptHead, "gold_hits")
		s["head"], s["content"], s["content_sha256"], s["bytes"] = head, head, sum, len(a.text)
	case "llm_call":
		s["input"], s["input_sha256"] = keep(a.input, promptHead, "gold_hits")
		head, sum := keep(a.text, resultHead, "output_gold_hits")
		s["head"], s["output"], s["output_sha256"], s["bytes"] = head, head, sum, len(a.text)
		s["tokens_in"], s["tokens_out"] = a.tokensIn, a.tokensOut
	case "tool_call":
		s["args"], s["input"], s["vantage"] = a.args, a.args, a.vantage
	case "tool_result":
		head, sum := keep(a.text, resultHead, "gold_hits")
		s["head"], s["output"], s["output_sha256"], s["bytes"] = head, head, sum, len(a.text)
		s["vantage"] = a.vantage
		if a.isError {
			s["is_error"] = true
		}
	}
	return s
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

// offsets are where our recorder finds the answer in a whole text.
func offsets(text, gold string) []int64 {
	out := []int64{}
	words := strings.Fields(gold)
	if len(words) == 0 {
		return out
	}
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	pattern := `(?i)` + strings.Join(words, `\s+`)
	if utf8.RuneCountInString(gold) < 3 {
		pattern = `(?i)\b` + strings.Join(words, `\s+`) + `\b`
	}
	for _, at := range regexp.MustCompile(pattern).FindAllStringIndex(text, 64) {
		out = append(out, int64(at[0]))
	}
	return out
}
