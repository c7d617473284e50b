package cli

import (
	"encoding/hex"
	"fmt"
	"io"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
)

type bundleHeader struct {
	Magic          uint32 `json:"magic"`
	Version        uint16 `json:"version"`
	Flags          uint16 `json:"flags"`
	TaskID         string `json:"task_id"`
	PolicyHash     string `json:"policy_hash"`
	CreatedNS      uint64 `json:"created_ns"`
	Outcome        uint8  `json:"outcome"`
	OutcomeName    string `json:"outcome_name"`
	Mode           uint8  `json:"governance_mode"`
	ModeName       string `json:"governance_mode_name"`
	ToolCalls      uint16 `json:"tool_call_count"`
	Cost           uint32 `json:"total_cost_microdollars"`
	Latency        uint32 `json:"total_latency_ms"`
	Tokens         uint32 `json:"total_tokens"`
	Retries        uint16 `json:"retry_count"`
	Sections       uint16 `json:"section_count"`
	TotalSizeBytes uint32 `json:"total_bundle_size"`
}

type bundleSection struct {
	Tag    uint16 `json:"tag"`
	Name   string `json:"name"`
	Length int    `json:"length"`
}

type bundleCall struct {
	Action     string `json:"action"`
	Check      uint8  `json:"policy_check"`
	CheckName  string `json:"policy_check_name"`
	ArgsHash   string `json:"args_hash"`
	ResultHash string `json:"result_hash"`
	Latency    uint32 `json:"latency_ms"`
	Cost       uint32 `json:"cost_microdollars"`
	Tokens     uint32 `json:"tokens"`
	// How the call is known, where the bundle says: executed, reported or
	// proposed.
	Vantage string `json:"vantage,omitempty"`
	// The whole hashes, where the bundle has them.
	ArgsSHA256   string `json:"args_sha256,omitempty"`
	ResultSHA256 string `json:"result_sha256,omitempty"`
}

// bundleAnswer is a bundle as JSON. Nothing in it was verified.
type bundleAnswer struct {
	Header           bundleHeader    `json:"header"`
	Sections         []bundleSection `json:"sections"`
	Trace            []bundleCall    `json:"trace"`
	Signed           bool            `json:"signed"`
	EvidenceComplete bool            `json:"evidence_complete"`
	// What further sections claim.
	PolicySHA256 string `json:"policy_sha256,omitempty"`
	Ed25519Key   string `json:"ed25519_key,omitempty"`
	HasReceipt   bool   `json:"has_receipt"`
	// What is not in the header's cost, which holds an amount only.
	Unpriced    int64 `json:"unpriced_calls,omitempty"`
	CostUnknown bool  `json:"cost_unknown,omitempty"` // the record does not tell all of it
	cost        cost.Cost
}

func describeBundle(p *bundle.Parsed) bundleAnswer {
	h := p.Header
	a := bundleAnswer{
		Header: bundleHeader{bundle.Magic, h.Version, h.Flags, h.TaskID.String(), hex.EncodeToString(h.PolicyHash[:]), h.CreatedNS,
			uint8(h.Outcome), h.Outcome.String(), uint8(h.Mode), h.Mode.String(), h.ToolCalls, h.CostMicrodollars, h.LatencyMS, h.Tokens,
			h.Retries, h.Sections, h.Size},
		Sections: []bundleSection{}, Trace: []bundleCall{},
		Signed: p.HMAC != nil, EvidenceComplete: p.EvidenceComplete(),
		Ed25519Key: hex.EncodeToString(p.Signer), HasReceipt: p.Receipt != nil,
		Unpriced: p.Cost().Unpriced, CostUnknown: p.Cost().Untold > 0, cost: p.Cost(),
	}
	for _, s := range p.Sections {
		a.Sections = append(a.Sections, bundleSection{uint16(s.Tag), s.Tag.String(), len(s.Value)})
	}
	for i, c := range p.Trace {
		call := bundleCall{Action: c.Action, Check: uint8(c.Check), CheckName: c.Check.String(),
			ArgsHash: hex.EncodeToString(c.ArgsHash[:]), ResultHash: hex.EncodeToString(c.ResultHash[:]),
			Latency: c.LatencyMS, Cost: c.CostMicrodollars, Tokens: c.Tokens}
		if v, ok := p.VantageOf(i); ok {
			call.Vantage = v.String()
		}
		if p.Full != nil {
			call.ArgsSHA256, call.ResultSHA256 = hex.EncodeToString(p.Full.Calls[i].Args[:]), hex.EncodeToString(p.Full.Calls[i].Result[:])
		}
		a.Trace = append(a.Trace, call)
	}
	if p.Full != nil {
		a.PolicySHA256 = hex.EncodeToString(p.Full.Policy[:])
	}
	return a
}

// showBundle prints what a bundle says about itself. The form is checked and no
// signature: it may be a forgery.
func showBundle(env *Env, path string) error {
	p, err := parseBundle(path)
	if err != nil {
		return err
	}
	a := describeBundle(p)
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "bundle    %s (not verified)\n", plain.Line(path))
		a.headerText(out)
		seals := "no signature"
		if a.Signed {
			seals = "HMAC-SHA256"
		}
		if a.Ed25519Key != "" {
			seals += ", Ed25519 by " + a.Ed25519Key
		}
		fmt.Fprintf(out, "claims    %s\nevidence  %s\n", seals, evidenceText(a.EvidenceComplete))
		for _, s := range a.Sections {
			fmt.Fprintf(out, "section   %#04x %-11s %d bytes\n", s.Tag, s.Name, s.Length)
		}
		for i, c := range a.Trace {
			fmt.Fprintf(out, "call %-4d %s\n", i+1, c)
		}
	})
}

func evidenceText(complete bool) string {
	if complete {
		return "complete: specification, diff and test log"
	}
	return "incomplete: specification, diff or test log is missing"
}

// headerText prints the header for a person.
func (a bundleAnswer) headerText(out io.Writer) {
	h := a.Header
	fmt.Fprintf(out, "task      %s\noutcome   %s\nmode      %s, policy %s\ncreated   %s\n", h.TaskID, h.OutcomeName, h.ModeName, h.PolicyHash, nanoTime(h.CreatedNS))
	fmt.Fprintf(out, "totals    %d tool calls, %d ms, %v, %d tokens, %d retries\n", h.ToolCalls, h.Latency, a.cost, h.Tokens, h.Retries)
	fmt.Fprintf(out, "size      %d bytes in %d sections\n", h.TotalSizeBytes, h.Sections)
}

// String is one tool call on one line.
func (c bundleCall) String() string {
	check, how := c.CheckName, ""
	if c.Vantage != "" && c.Vantage != bundle.Executed.String() {
		how = "  " + vantageText(c.Vantage)
	}
	if c.Vantage == bundle.Reported.String() && c.CheckName == bundle.Denied.String() {
		how += ", seen and not prevented"
	}
	return fmt.Sprintf("%-9s %-12s %6d ms  %s  %6d tokens  args %s  result %s%s", check, plain.Line(c.Action), c.Latency, microdollars(c.Cost), c.Tokens, c.ArgsHash, c.ResultHash, how)
}

// vantageText says what a vantage means.
func vantageText(vantage string) string {
	if vantage == bundle.Reported.String() {
		return "reported by the agent"
	}
	return "proposed by the model"
}

func microdollars(n uint32) string { return fmt.Sprintf("$%d.%06d", n/1_000_000, n%1_000_000) }
