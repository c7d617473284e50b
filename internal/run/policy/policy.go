package policy

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// Bounds of a policy. They are far above what people write, and keep a hostile
// file from making every decision slow.
const (
	maxPolicyBytes = 1 << 20
	maxListed      = 1024
	maxRules       = 256
	maxNameBytes   = 256
	maxCalls       = 1_000_000_000
	maxMoney       = 1_000_000_000_000_000 // a billion dollars in micro-dollars
)

const policyHint = "the keys and rule kinds are described in docs/formats/policy.md"

// A Policy is what the bench says a run may do. The zero Policy is restricted,
// allows no tool and has no budget.
type Policy struct {
	Mode Mode `json:"mode"`

	// Allow matters in restricted mode only. Deny is stronger than everything
	// else. Besides tools the lists may name a whole action, as in
	// "action:memory_write".
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`

	// A run that passes a budget is not stopped here: each call from then on
	// is a violation.
	MaxCostMicroUSD int64 `json:"max_cost_microdollars"`
	MaxToolCalls    int64 `json:"max_tool_calls"`

	Rules []Rule `json:"rules,omitempty"`
}

// ForMode returns the policy that RVF gives for a mode.
func ForMode(m Mode) Policy {
	switch m {
	case Approved:
		return Policy{Mode: Approved, MaxCostMicroUSD: 100_000, MaxToolCalls: 200}
	case Autonomous:
		return Policy{Mode: Autonomous, MaxCostMicroUSD: 1_000_000, MaxToolCalls: 500}
	}
	return Policy{
		Mode:            Restricted,
		Allow:           []string{"Read", "Glob", "Grep", "WebFetch", "WebSearch"},
		Deny:            []string{"Bash", "Write", "Edit"},
		MaxCostMicroUSD: 10_000,
		MaxToolCalls:    50,
	}
}

// Standard is the policy of a mode, if the hash is its own.
func Standard(m Mode, h ShortHash) (Policy, bool) {
	p := ForMode(m)
	return p, m.known() && p.ShortHash() == h
}

// Check is what RVF says about a tool by list and mode alone: rules, budgets and
// approvals come after it.
func (p *Policy) Check(tool string) Check {
	switch {
	case isListed(p.Deny, tool), p.Mode == Restricted && !isAllowed(p.Allow, tool):
		return Denied
	case p.Mode == Approved:
		return Confirmed
	}
	return Allowed
}

// Parse reads a policy in JSON, however it is spelled. Unknown keys, missing
// ones and rules that could not be applied are refused; the expressions of
// condition rules are looked at by [Compile].
func Parse(name string, data []byte) (Policy, error) {
	if len(data) > maxPolicyBytes {
		return Policy{}, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, len(data), maxPolicyBytes)
	}
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return Policy{}, fmt.Errorf("%s: %w", name, err)
	}
	var p Policy
	if err := canon.UnmarshalCanonical(canonical, &p); err != nil {
		return Policy{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.Validate(); err != nil {
		return Policy{}, refusal.Newf(refusal.Malformed, "%s: %w", name, err).WithHint(policyHint)
	}
	return p, nil
}

// Validate checks what the types do not say.
func (p *Policy) Validate() error {
	if !p.Mode.known() {
		return fmt.Errorf("no mode has the number %d", uint8(p.Mode))
	}
	if p.MaxCostMicroUSD < 0 || p.MaxCostMicroUSD > maxMoney {
		return fmt.Errorf("max_cost_microdollars is %d, expected 0 to %d", p.MaxCostMicroUSD, int64(maxMoney))
	}
	if p.MaxToolCalls < 0 || p.MaxToolCalls > maxCalls {
		return fmt.Errorf("max_tool_calls is %d, expected 0 to %d", p.MaxToolCalls, maxCalls)
	}
	if err := checkList("allow", p.Allow); err != nil {
		return err
	}
	if err := checkList("deny", p.Deny); err != nil {
		return err
	}
	return checkRules(p.Rules)
}

// checkList checks a list of tools and actions.
func checkList(field string, names []string) error {
	if len(names) > maxListed {
		return fmt.Errorf("%s has %d names, expected at most %d", field, len(names), maxListed)
	}
	for i, name := range names {
		if err := checkName(name); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if action, ok := strings.CutPrefix(name, actionPrefix); ok && !slices.Contains([]Action{MemoryWrite, Handoff, Approval}, Action(action)) {
			return fmt.Errorf("%s[%d]: %q, expected %smemory_write, %shandoff or %sapproval", field, i, name, actionPrefix, actionPrefix, actionPrefix)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s lists %q twice", field, name)
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("a name has %d bytes, expected 1 to %d", len(name), maxNameBytes)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("the name %q is not UTF-8", name)
	}
	return nil
}

// Serialised is the text that RVF hashes: mode, lists in their order,
// budgets. It leaves rules out, and a tool called "a+b" looks like two tools;
// [Policy.Digest] has neither weakness.
func (p *Policy) Serialised() string {
	var b strings.Builder
	b.WriteString("mode=" + strconv.Itoa(int(p.Mode)))
	for _, tool := range p.Allow {
		b.WriteString("+" + tool)
	}
	for _, tool := range p.Deny {
		b.WriteString("-" + tool)
	}
	fmt.Fprintf(&b, "|cost=%d|calls=%d", p.MaxCostMicroUSD, p.MaxToolCalls)
	return b.String()
}

// A ShortHash is the 8-byte policy hash of a witness bundle. It is carried for
// other readers of that format; nothing here trusts it.
type ShortHash [8]byte

func (h ShortHash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes 16 lower-case hexadecimal digits.
func (h ShortHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads exactly what MarshalText writes.
func (h *ShortHash) UnmarshalText(text []byte) error {
	var read ShortHash
	if n, err := hex.Decode(read[:], text[:min(len(text), 16)]); err != nil || n != len(read) || read.String() != string(text) {
		return fmt.Errorf("%.40q is not a short policy hash, expected 16 lower-case hexadecimal digits", text)
	}
	*h = read
	return nil
}

// ShortHash is the first 8 bytes of [Policy.Digest]: of the SHA-256 of
// [Policy.Serialised] for a policy of which that text says everything, so that
// readers of the format compute the same, and of the whole policy for one with
// rules of its own.
func (p *Policy) ShortHash() ShortHash {
	full, err := p.Digest()
	if err != nil { // a policy that has no JSON; Compile refuses it
		full = p.SerialisedDigest()
	}
	return ShortHash(full[:8])
}

// SerialisedDigest is the whole SHA-256 of [Policy.Serialised].
func (p *Policy) SerialisedDigest() digest.ID { return digest.IDOf([]byte(p.Serialised())) }

// Digest names the whole policy. Two policies with one digest are the same
// policy. It is [Policy.SerialisedDigest] where that text says everything,
// else the SHA-256 of the canonical JSON, which begins with a brace and so is
// never such a text.
func (p *Policy) Digest() (digest.ID, error) {
	if p.isPlain() {
		return p.SerialisedDigest(), nil
	}
	data, err := canon.Marshal(p)
	if err != nil {
		return digest.ID{}, fmt.Errorf("encoding policy: %w", err)
	}
	return digest.IDOf(data), nil
}

// isPlain reports whether the serialised text has only one reading.
func (p *Policy) isPlain() bool {
	ambiguous := func(name string) bool { return strings.ContainsAny(name, "+-|") }
	return len(p.Rules) == 0 && !slices.ContainsFunc(p.Allow, ambiguous) && !slices.ContainsFunc(p.Deny, ambiguous)
}
