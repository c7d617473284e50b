// Package describe reads what a person writes to have a witness bundle packed: a
// JSON file, or a folder with one file for each section.
//
// It reads files and nothing else. Packing and sealing the bundle is for package
// witness.
package describe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/policy"
)

// A Description is what a person writes to have a bundle packed.
//
// It is decoded strictly, and not by canon: nothing hashes or signs it, and
// created_ns needs integers beyond 2^53, which canon refuses.
type Description struct {
	TaskID     *string       `json:"task_id"`
	Outcome    *nameOrNumber `json:"outcome"`
	Mode       *nameOrNumber `json:"governance_mode"`
	Policy     *governance   `json:"policy"`
	PolicyHash *string       `json:"policy_hash"`
	CreatedNS  *uint64       `json:"created_ns"`
	RetryCount uint32        `json:"retry_count"`

	Spec       *string    `json:"spec"`
	Plan       *string    `json:"plan"`
	Diff       *string    `json:"diff"`
	TestLog    *string    `json:"test_log"`
	Postmortem *string    `json:"postmortem"`
	Trace      []toolCall `json:"trace"`
}

type governance struct {
	Allowed      []string `json:"allowed_tools"`
	Denied       []string `json:"denied_tools"`
	MaxCost      uint32   `json:"max_cost_microdollars"`
	MaxToolCalls uint16   `json:"max_tool_calls"`
}

type toolCall struct {
	Action     *string       `json:"action"`
	Check      *nameOrNumber `json:"policy_check"`
	ArgsHash   *string       `json:"args_hash"`
	Args       *string       `json:"args"`
	ResultHash *string       `json:"result_hash"`
	Result     *string       `json:"result"`
	Latency    uint32        `json:"latency_ms"`
	Cost       uint32        `json:"cost_microdollars"`
	Tokens     uint32        `json:"tokens"`
}

// A nameOrNumber is a value that people know by name and "witness show" prints
// as the format's number.
type nameOrNumber string

// UnmarshalJSON takes a string or a small number.
func (n *nameOrNumber) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(n))
	}
	i, err := strconv.ParseUint(string(data), 10, 8)
	if err != nil {
		return fmt.Errorf("%s is neither a name nor a number of the format", data)
	}
	*n = nameOrNumber(strconv.FormatUint(i, 10))
	return nil
}

// value reads the name with parse, or the number as it is; the packer refuses
// numbers that the format does not know.
func value[T ~uint8](n *nameOrNumber, field string, parse func(string) (T, error)) (T, error) {
	if n == nil {
		return 0, refusal.Newf(refusal.Malformed, "%s is missing", field)
	}
	if i, err := strconv.ParseUint(string(*n), 10, 8); err == nil {
		return T(i), nil
	}
	return parse(string(*n))
}

// bundleFiles are the files of a folder and the member that each stands for.
var bundleFiles = map[string]func(*Description) **string{
	"spec.txt":       func(d *Description) **string { return &d.Spec },
	"plan.txt":       func(d *Description) **string { return &d.Plan },
	"diff.patch":     func(d *Description) **string { return &d.Diff },
	"test.log":       func(d *Description) **string { return &d.TestLog },
	"postmortem.txt": func(d *Description) **string { return &d.Postmortem },
}

// MetaFile is in every folder that describes a bundle.
const MetaFile = "meta.json"

const traceFile = "trace.jsonl"

// Load reads a folder or a JSON file.
func Load(source string) (*Description, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", source, refusal.WithoutPath(err)).
			WithHint("give a folder with %s, or a JSON file", MetaFile)
	}
	d := &Description{}
	if !info.IsDir() {
		data, err := store.ReadFile(store.OS{}, source, bundle.MaxBytes)
		if err != nil {
			return nil, err
		}
		return d, readDescription(source, data, d)
	}
	data, err := store.ReadBelow(source, MetaFile, bundle.MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := readDescription(filepath.Join(source, MetaFile), data, d); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", source, refusal.WithoutPath(err))
	}
	for _, e := range entries {
		if err := d.addFile(source, e.Name()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readDescription decodes one JSON file.
func readDescription(path string, data []byte, d any) error {
	if err := unmarshalStrict(data, d); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// unmarshalStrict refuses unknown and doubled members and bytes after the value.
func unmarshalStrict(data []byte, v any) error {
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return refusal.Newf(refusal.Malformed, "decoding JSON: %w", err).WithHint(`"tally export --format bundle --help" lists the members`)
	}
	return nil
}

// addFile puts one file of the folder into the description. A file that is not one
// of ours is refused: it may be evidence under a mistyped name.
func (d *Description) addFile(dir, name string) error {
	path := filepath.Join(dir, name)
	if name == MetaFile || strings.HasPrefix(name, ".") {
		return nil
	}
	if name == traceFile {
		return d.addTrace(dir, path)
	}
	member, ok := bundleFiles[name]
	if !ok {
		return refusal.Newf(refusal.Malformed, "%s does not belong in a bundle", path).
			WithHint("a folder holds %s and any of spec.txt, plan.txt, %s, diff.patch, test.log, postmortem.txt", MetaFile, traceFile)
	}
	if *member(d) != nil {
		return refusal.Newf(refusal.Malformed, "%s is there, and %s has its text too", path, MetaFile)
	}
	data, err := store.ReadBelow(dir, name, bundle.MaxBytes)
	if err != nil {
		return err
	}
	text := string(data)
	*member(d) = &text
	return nil
}

func (d *Description) addTrace(dir, path string) error {
	if d.Trace != nil {
		return refusal.Newf(refusal.Malformed, "%s is there, and %s has a trace too", path, MetaFile)
	}
	data, err := store.ReadBelow(dir, traceFile, bundle.MaxBytes)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var c toolCall
		if err := unmarshalStrict(line, &c); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		d.Trace = append(d.Trace, c)
	}
	return nil
}

// Bundle makes the bundle that the description describes, with whole hashes if
// all are known.
func (d *Description) Bundle(now time.Time) (*bundle.Bundle, error) {
	if d.TaskID == nil {
		return nil, refusal.Newf(refusal.Malformed, "task_id is missing")
	}
	b := &bundle.Bundle{
		CreatedNS: uint64(now.UnixNano()), Retries: bundle.RetriesOf(int(d.RetryCount)),
		Spec: text(d.Spec), Plan: text(d.Plan), Diff: text(d.Diff), TestLog: text(d.TestLog), Postmortem: text(d.Postmortem),
	}
	if d.CreatedNS != nil {
		b.CreatedNS = *d.CreatedNS
	}
	var err error
	if b.TaskID, err = bundle.ParseUUID(*d.TaskID); err != nil {
		return nil, fmt.Errorf("task_id: %w", err)
	}
	if b.Outcome, err = value(d.Outcome, "outcome", bundle.ParseOutcome); err != nil {
		return nil, err
	}
	if b.Mode, err = value(d.Mode, "governance_mode", bundle.ParseMode); err != nil {
		return nil, err
	}
	hash, err := d.policyHash(b.Mode)
	if err != nil {
		return nil, err
	}
	b.PolicyHash = hash.short
	full := &bundle.FullHashes{Policy: hash.full}
	known := hash.known
	for i, c := range d.Trace {
		call, hashes, whole, err := c.call()
		if err != nil {
			return nil, fmt.Errorf("tool call %d: %w", i+1, err)
		}
		b.Trace = append(b.Trace, call)
		full.Calls = append(full.Calls, hashes)
		known = known && whole
	}
	if known {
		b.Full = full
	}
	return b, contradiction(b)
}

// contradiction refuses a trace in which a call is allowed that the standard policy
// denies which the bundle names, by its lists and its mode. That a call was denied
// needs no list: a budget or a person can deny it.
func contradiction(b *bundle.Bundle) error {
	p, ok := policy.Standard(policy.Mode(b.Mode), policy.ShortHash(b.PolicyHash))
	if !ok {
		return nil
	}
	for i, c := range b.Trace {
		if c.Check != bundle.Denied && p.Check(c.Action) == policy.Denied {
			return refusal.Newf(refusal.Malformed, "tool call %d: %s is %s, and the standard policy of %s mode, which the bundle names, denies it", i+1, plain.Line(c.Action), c.Check, b.Mode).
				WithHint("correct policy_check, or name the policy that was in force with policy or policy_hash")
		}
	}
	return nil
}

// text is nil for a member that is not there, and not nil for an empty one.
func text(s *string) []byte {
	if s == nil {
		return nil
	}
	return append([]byte{}, *s...)
}

func (d *Description) policyHash(m bundle.Mode) (someHash, error) {
	switch {
	case d.Policy != nil && d.PolicyHash != nil:
		return someHash{}, refusal.Newf(refusal.Malformed, "both policy and policy_hash are there")
	case d.PolicyHash != nil:
		return parseHash("policy_hash", *d.PolicyHash)
	case d.Policy != nil:
		p := policy.Policy{Mode: policy.Mode(m), Allow: d.Policy.Allowed, Deny: d.Policy.Denied, MaxCostMicroUSD: int64(d.Policy.MaxCost), MaxToolCalls: int64(d.Policy.MaxToolCalls)}
		return wholeHash(bundle.Hash(p.SerialisedDigest())), nil
	}
	standard := policy.ForMode(policy.Mode(m))
	return wholeHash(bundle.Hash(standard.SerialisedDigest())), nil
}

// A someHash is a hash of which at least the 8 bytes of the format are known.
type someHash struct {
	short bundle.ShortHash
	full  bundle.Hash
	known bool // that full is
}

func wholeHash(h bundle.Hash) someHash { return someHash{h.Short(), h, true} }

func parseHash(field, s string) (someHash, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	switch {
	case err == nil && len(raw) == 32:
		return wholeHash(bundle.Hash(raw)), nil
	case err == nil && len(raw) == 8 && !strings.HasPrefix(s, "sha256:"):
		return someHash{short: bundle.ShortHash(raw)}, nil
	}
	return someHash{}, refusal.Newf(refusal.Malformed, "%s is %q", field, s).
		WithHint("give sha256: and 64 hexadecimal digits, or the 16 that the format keeps")
}

// hashOf takes a hash, or hashes the text that is there instead of one.
func hashOf(field string, hash, text *string) (someHash, error) {
	switch {
	case (hash == nil) == (text == nil):
		return someHash{}, refusal.Newf(refusal.Malformed, "expected one of %s_hash and %s", field, field)
	case text != nil:
		return wholeHash(sha256.Sum256([]byte(*text))), nil
	}
	return parseHash(field+"_hash", *hash)
}

func (c toolCall) call() (bundle.ToolCall, bundle.CallHashes, bool, error) {
	fail := func(err error) (bundle.ToolCall, bundle.CallHashes, bool, error) {
		return bundle.ToolCall{}, bundle.CallHashes{}, false, err
	}
	if c.Action == nil {
		return fail(refusal.Newf(refusal.Malformed, "action is missing"))
	}
	check, err := value(c.Check, "policy_check", bundle.ParsePolicyCheck)
	if err != nil {
		return fail(err)
	}
	args, err := hashOf("args", c.ArgsHash, c.Args)
	if err != nil {
		return fail(err)
	}
	result, err := hashOf("result", c.ResultHash, c.Result)
	if err != nil {
		return fail(err)
	}
	call := bundle.ToolCall{Action: *c.Action, Check: check, ArgsHash: args.short, ResultHash: result.short,
		LatencyMS: c.Latency, CostMicrodollars: c.Cost, Tokens: c.Tokens}
	return call, bundle.CallHashes{Args: args.full, Result: result.full}, args.known && result.known, nil
}
