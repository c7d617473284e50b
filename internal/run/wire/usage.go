package wire

import (
	"cmp"
	"strconv"
)

// MaxTokens bounds each count of one call.
const MaxTokens = 1_000_000_000

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

// Validate checks that each count is one that a call can have.
func (u Usage) Validate() error {
	for _, n := range []int64{u.CacheReadTokens, u.CacheWriteLongTokens, u.CacheWriteTokens, u.InputTokens, u.OutputTokens, u.ReasoningTokens} {
		if n < 0 || n > MaxTokens {
			return malformed("usage counts %d tokens, expected 0 to %d", n, int64(MaxTokens))
		}
	}
	return nil
}

// UsageOf reads the usage fields of a reply's body. What is missing counts as
// zero, as in a reply that is an error.
func UsageOf(api API, body *Node) (Usage, error) {
	r, err := api.row()
	if err != nil {
		return Usage{}, err
	}
	usage := r.counts(body)
	if usage == nil {
		return Usage{}, nil
	}
	var c counter
	u := r.usage(&c, usage)
	if c.bad != "" {
		return Usage{}, malformed("usage: %s, expected 0 to %d tokens", c.bad, int64(MaxTokens))
	}
	return u, u.Validate()
}

// Billed says whose price a reply has, "" if it does not name its model, and
// whether it tells its usage: how many tokens went in and how many came out. The
// API must be known.
func Billed(api API, body *Node) (model string, counted bool) {
	r := api.must()
	return body.Str(cmp.Or(r.modelName, "model")), r.tells(body)
}

// tells reports whether the counts of a reply can be those of its call. Every call has
// tokens that went in, and what was said has tokens that came out: counts that are
// missing, null or zero where there must be some tell nothing.
func (r *row) tells(body *Node) bool {
	usage := r.counts(body)
	if usage == nil {
		return false
	}
	var c counter
	u := r.usage(&c, usage)
	if c.bad != "" || u.In() == 0 {
		return false
	}
	for _, name := range []string{r.inName, r.outName} {
		if n := usage.Get(name); name != "" && (n == nil || n.Kind != '0') {
			return false
		}
	}
	if r.outName == "" || u.OutputTokens > 0 {
		return true
	}
	said, err := ReadReply(r.api, body.AppendJSON(nil))
	return err == nil && said.Shown() == "" && len(said.Calls()) == 0
}

// StreamTells reports whether a stream tells how many tokens came out when they had: an
// API that counts from the first event on says of the end only in a later one.
func StreamTells(api API, chunks []string) bool {
	if api != AnthropicMessages {
		return true
	}
	events, _ := JSONEvents(chunks)
	for i := range events {
		data := &events[i].Data
		if usage := data.Get("usage"); data.Str("type") == "message_delta" && usage != nil && usage.Get(messagesRow.outName) != nil {
			return true
		}
	}
	return false
}

// counts is the member of a reply that has the counts, nil if there is none.
func (r *row) counts(body *Node) *Node {
	if usage := body.Get(cmp.Or(r.usageName, "usage")); usage != nil && usage.Kind == '{' {
		return usage
	}
	return nil
}

// A counter reads counts and remembers one that is not a count.
type counter struct{ bad string }

// at reads the number at a path. Absent and null are zero.
func (c *counter) at(n *Node, path ...string) int64 {
	for _, name := range path {
		if n = n.Get(name); n == nil || n.Kind == 'n' {
			return 0
		}
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if n.Kind != '0' || err != nil || v < 0 || v > MaxTokens {
		c.bad = "found " + Head(string(n.AppendJSON(nil)))
		return 0
	}
	return v
}
