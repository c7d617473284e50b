package witness

import (
	"crypto/sha256"
	"strconv"
)

// A Policy is what a bundle's policy_hash is a hash of: the mode, the tools and
// the budgets. The order of the tools counts.
type Policy struct {
	Mode                Mode
	Allowed, Denied     []string
	MaxCostMicrodollars uint32
	MaxToolCalls        uint16
}

// StandardPolicy is the policy that ADR-035 defines for a mode.
func StandardPolicy(m Mode) Policy {
	switch m {
	case Restricted:
		return Policy{Mode: m, Allowed: []string{"Read", "Glob", "Grep", "WebFetch", "WebSearch"},
			Denied: []string{"Bash", "Write", "Edit"}, MaxCostMicrodollars: 10_000, MaxToolCalls: 50}
	case Approved:
		return Policy{Mode: m, MaxCostMicrodollars: 100_000, MaxToolCalls: 200}
	}
	return Policy{Mode: m, MaxCostMicrodollars: 1_000_000, MaxToolCalls: 500}
}

// Text is the spelling that is hashed. It does not escape names, so two
// policies whose tools contain "+", "-" or "|" may share a text; that is the
// format's.
func (p Policy) Text() string {
	b := []byte("mode=")
	b = strconv.AppendUint(b, uint64(p.Mode), 10)
	for _, tool := range p.Allowed {
		b = append(append(b, '+'), tool...)
	}
	for _, tool := range p.Denied {
		b = append(append(b, '-'), tool...)
	}
	b = append(b, "|cost="...)
	b = strconv.AppendUint(b, uint64(p.MaxCostMicrodollars), 10)
	b = append(b, "|calls="...)
	b = strconv.AppendUint(b, uint64(p.MaxToolCalls), 10)
	return string(b)
}

// Hash is the SHA-256 of the text. The header keeps the first 8 bytes of it.
func (p Policy) Hash() Hash { return sha256.Sum256([]byte(p.Text())) }
