package cassette

import (
	"strconv"

	"tallystick/internal/refusal"
)

// maxTokens bounds each count of one call, and maxPrice each price. Their
// product, five times over, stays within 63 bits.
const (
	maxTokens = 1_000_000_000
	maxPrice  = 1_000_000_000
)

// Usage counts the tokens of one call. The four kinds of input and the output
// do not overlap, whatever the provider's own fields do.
type Usage struct {
	CacheReadTokens      int64 `json:"cache_read_tokens,omitempty"`       // input read from a prompt cache
	CacheWriteLongTokens int64 `json:"cache_write_long_tokens,omitempty"` // input written to a cache for an hour
	CacheWriteTokens     int64 `json:"cache_write_tokens,omitempty"`      // input written to a cache for the usual time
	InputTokens          int64 `json:"input_tokens"`                      // all other input
	OutputTokens         int64 `json:"output_tokens"`                     // reasoning included
	ReasoningTokens      int64 `json:"reasoning_tokens,omitempty"`        // the part of the output that was reasoning, where told
}

// Total is the number of tokens that went in and came out.
func (u Usage) Total() int64 {
	return u.CacheReadTokens + u.CacheWriteLongTokens + u.CacheWriteTokens + u.InputTokens + u.OutputTokens
}

// In is the number of tokens that went in.
func (u Usage) In() int64 { return u.Total() - u.OutputTokens }

func (u Usage) validate() error {
	for _, n := range []int64{u.CacheReadTokens, u.CacheWriteLongTokens, u.CacheWriteTokens, u.InputTokens, u.OutputTokens, u.ReasoningTokens} {
		if n < 0 || n > maxTokens {
			return malformed("usage counts %d tokens, expected 0 to %d", n, int64(maxTokens))
		}
	}
	return nil
}

// A Price is what one million tokens cost, in micro-dollars.
type Price struct {
	Input, Output                         int64
	CacheRead, CacheWrite, CacheWriteLong int64
}

// Prices maps the name of a model, as replies or requests spell it, to its
// price. It is data of the caller: prices change and are not ours to know.
type Prices map[string]Price

// Validate refuses prices below zero and beyond 1,000 dollars for a million
// tokens, which no one has meant so far.
func (p Prices) Validate() error {
	for model, price := range p {
		for _, v := range []int64{price.Input, price.Output, price.CacheRead, price.CacheWrite, price.CacheWriteLong} {
			if v < 0 || v > maxPrice {
				return refusal.Newf(refusal.Malformed, "the price of %.60q: found %d, expected 0 to %d micro-dollars per million tokens", model, v, int64(maxPrice)).
					WithHint("prices are whole micro-dollars for a million tokens: 3 dollars is 3000000")
			}
		}
	}
	return nil
}

// Cost is the cost of u in micro-dollars: the sum over all kinds of tokens is
// exact, and is then rounded up once, so that a cost is never understated.
func (p Price) Cost(u Usage) int64 {
	sum := u.InputTokens*p.Input + u.OutputTokens*p.Output +
		u.CacheReadTokens*p.CacheRead + u.CacheWriteTokens*p.CacheWrite + u.CacheWriteLongTokens*p.CacheWriteLong
	return (sum + 999_999) / 1_000_000
}

// usageOf reads the usage fields of a reply's body. What is missing counts as
// zero, as in a reply that is an error.
func usageOf(api API, body *node) (Usage, error) {
	usage := body.get("usage")
	if usage == nil || usage.kind != '{' {
		return Usage{}, nil
	}
	r := usageReader{}
	var u Usage
	switch api {
	case OpenAIChat:
		u.OutputTokens = r.count(usage, "completion_tokens")
		u.InputTokens = r.count(usage, "prompt_tokens")
		u.CacheReadTokens = r.count(usage, "prompt_tokens_details", "cached_tokens")
		u.ReasoningTokens = r.count(usage, "completion_tokens_details", "reasoning_tokens")
	case OpenAIResponses:
		u.OutputTokens = r.count(usage, "output_tokens")
		u.InputTokens = r.count(usage, "input_tokens")
		u.CacheReadTokens = r.count(usage, "input_tokens_details", "cached_tokens")
		u.ReasoningTokens = r.count(usage, "output_tokens_details", "reasoning_tokens")
	case AnthropicMessages:
		u.OutputTokens = r.count(usage, "output_tokens")
		u.InputTokens = r.count(usage, "input_tokens")
		u.CacheReadTokens = r.count(usage, "cache_read_input_tokens")
		u.CacheWriteLongTokens = r.count(usage, "cache_creation", "ephemeral_1h_input_tokens")
		u.CacheWriteTokens = r.count(usage, "cache_creation_input_tokens") - u.CacheWriteLongTokens
	}
	if api != AnthropicMessages {
		// OpenAI counts what came from the cache as input, too.
		u.InputTokens -= u.CacheReadTokens
	}
	if r.bad != "" {
		return Usage{}, malformed("usage: %s, expected 0 to %d tokens", r.bad, int64(maxTokens))
	}
	return u, u.validate()
}

type usageReader struct{ bad string }

// count reads the number at a path. Absent and null are zero.
func (r *usageReader) count(n *node, path ...string) int64 {
	for _, name := range path {
		if n = n.get(name); n == nil || n.kind == 'n' {
			return 0
		}
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	if n.kind != '0' || err != nil || v < 0 || v > maxTokens {
		r.bad = "found " + head(string(n.appendJSON(nil)))
		return 0
	}
	return v
}
