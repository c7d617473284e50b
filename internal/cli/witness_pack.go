package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/plain"
	"tallystick/internal/policy"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
	"tallystick/internal/witness"
)

type witnessPackOptions struct {
	source      string
	caseID      string
	out         string
	hmacKeyFile string
	key         string
	receipt     string
}

func newWitnessPack(env *Env) *cobra.Command {
	var o witnessPackOptions
	cmd := &cobra.Command{
		Use:   "pack ATTEMPT|SOURCE -o FILE|FOLDER",
		Short: "Pack the cases of an attempt, a folder or a JSON description into bundles",
		Long: `Pack a bundle for each case of an attempt, or for --case alone, into a folder; or one
bundle from a folder or a JSON file that describes it.

Bundles of an attempt are made from the verified ledger and from evidence that has the
digests which the ledger names, and from nothing else. They carry the receipt of their
entry and are signed with the operator's key, or with --key. A record whose evidence is
missing or changed is refused by name; the others are packed. What each section is made
of is in docs/formats/bundle.md. A bundle of a case that failed tells what was expected.

A folder holds meta.json and any of spec.txt, plan.txt, trace.jsonl, diff.patch,
test.log and postmortem.txt. A JSON file is meta.json with the texts inside: spec, plan,
trace (a list), diff, test_log, postmortem. Members of meta.json:

  task_id          a UUID
  outcome          solved, failed, skipped or errored
  governance_mode  restricted, approved or autonomous
  policy           allowed_tools, denied_tools, max_cost_microdollars, max_tool_calls;
                   or policy_hash; else the mode's standard policy
  created_ns       nanoseconds since 1970; else now
  retry_count      else 0

A tool call has action, policy_check (allowed, denied or confirmed), args_hash or args,
result_hash or result, latency_ms, cost_microdollars and tokens. A hash is sha256: and
64 digits, or the 16 digits that the format keeps; args and result are texts to hash.

A task that was not solved needs a postmortem. Without --key the bundle has only what
every reader of the format knows; with it, the whole hashes and the signature too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return runWitnessPack(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "`FILE` to write the bundle to; a folder for the cases of an attempt")
	f.StringVar(&o.caseID, "case", "", "only the case `ID` of the attempt")
	f.StringVar(&o.hmacKeyFile, "hmac-key-file", "", "sign with the shared key in `FILE`, readable only by you")
	f.StringVar(&o.key, "key", "", "sign with the Ed25519 private key in `FILE`, such as .tally/keys/operator")
	f.StringVar(&o.receipt, "receipt", "", "`FILE` with the ledger receipt of the task's case.scored entry")
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // the flag is declared above
	}
	return cmd
}

func runWitnessPack(_ context.Context, env *Env, o witnessPackOptions) error {
	if namesAttempt(env, o.source) {
		return packAttempt(env, o)
	}
	if o.caseID != "" {
		return refusal.Newf(refusal.Usage, "--case chooses among the cases of an attempt, and %s describes one bundle", o.source)
	}
	d, err := loadDescription(o.source)
	if err != nil {
		return err
	}
	b, err := d.bundle(env)
	if err != nil {
		return inFile(o.source, err)
	}
	seals, err := o.seals()
	if err != nil {
		return err
	}
	if seals.Key == nil {
		b.Full = nil
	} else if b.Full == nil {
		env.Note("only 8 bytes of some hash are known, so the whole hashes are left out")
	}
	data, err := b.Pack(seals)
	if err != nil {
		return inFile(o.source, err)
	}
	if err := archive.WriteOutput(o.out, data); err != nil {
		return err
	}
	a := archive.PackedBundle{Path: o.out, Bytes: len(data), TaskID: b.TaskID.String(), Outcome: b.Outcome.String(),
		Signed: seals.HMACKey != nil, EvidenceComplete: b.EvidenceComplete()}
	if seals.Key != nil {
		a.Ed25519Key = hex.EncodeToString(seals.Key[32:])
	}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "packed %s: task %s, %s, %d bytes\n", plain.Line(a.Path), a.TaskID, a.Outcome, a.Bytes)
		if !a.Signed && a.Ed25519Key == "" {
			fmt.Fprintln(out, "It is not signed: nobody can verify it. Sign with --hmac-key-file or --key.")
		}
		if a.Ed25519Key != "" {
			fmt.Fprintf(out, "Check it with: tally witness verify --signer %s %s\n", a.Ed25519Key, plain.Line(a.Path))
		}
		if !a.EvidenceComplete {
			fmt.Fprintf(out, "evidence is %s\n", evidenceText(false))
		}
	})
}

// seals loads the keys that the flags name.
func (o witnessPackOptions) seals() (witness.Seals, error) {
	var s witness.Seals
	var err error
	if o.hmacKeyFile != "" {
		if s.HMACKey, err = seal.LoadSecret(o.hmacKeyFile); err != nil {
			return s, err
		}
	}
	if o.key != "" {
		key, err := seal.LoadKey(o.key)
		if err != nil {
			return s, err
		}
		s.Key = key.Ed25519()
	}
	if o.receipt != "" {
		s.Receipt, err = store.ReadFile(store.OS{}, o.receipt, archive.MaxSignedFile)
	}
	return s, err
}

// A bundleDescription is what a person writes to have a bundle packed.
//
// It is decoded strictly, and not by canon: nothing hashes or signs it, and
// created_ns needs integers beyond 2^53, which canon refuses.
type bundleDescription struct {
	TaskID     *string            `json:"task_id"`
	Outcome    *nameOrNumber      `json:"outcome"`
	Mode       *nameOrNumber      `json:"governance_mode"`
	Policy     *policyDescription `json:"policy"`
	PolicyHash *string            `json:"policy_hash"`
	CreatedNS  *uint64            `json:"created_ns"`
	RetryCount uint32             `json:"retry_count"`

	Spec       *string           `json:"spec"`
	Plan       *string           `json:"plan"`
	Diff       *string           `json:"diff"`
	TestLog    *string           `json:"test_log"`
	Postmortem *string           `json:"postmortem"`
	Trace      []callDescription `json:"trace"`
}

type policyDescription struct {
	Allowed      []string `json:"allowed_tools"`
	Denied       []string `json:"denied_tools"`
	MaxCost      uint32   `json:"max_cost_microdollars"`
	MaxToolCalls uint16   `json:"max_tool_calls"`
}

type callDescription struct {
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
var bundleFiles = map[string]func(*bundleDescription) **string{
	"spec.txt":       func(d *bundleDescription) **string { return &d.Spec },
	"plan.txt":       func(d *bundleDescription) **string { return &d.Plan },
	"diff.patch":     func(d *bundleDescription) **string { return &d.Diff },
	"test.log":       func(d *bundleDescription) **string { return &d.TestLog },
	"postmortem.txt": func(d *bundleDescription) **string { return &d.Postmortem },
}

const (
	metaFile  = "meta.json"
	traceFile = "trace.jsonl"
)

// loadDescription reads a folder or a JSON file.
func loadDescription(source string) (*bundleDescription, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", source, cause(err)).
			WithHint("give a folder with %s, or a JSON file", metaFile)
	}
	if !info.IsDir() {
		d := &bundleDescription{}
		return d, readDescription(source, d)
	}
	d := &bundleDescription{}
	if err := readDescription(filepath.Join(source, metaFile), d); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", source, cause(err))
	}
	for _, e := range entries {
		if err := d.addFile(source, e.Name()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readDescription decodes one JSON file.
func readDescription(path string, d any) error {
	data, err := store.ReadFile(store.OS{}, path, witness.MaxBytes)
	if err != nil {
		return err
	}
	return inFile(path, unmarshalStrict(data, d))
}

// unmarshalStrict refuses unknown and doubled members and bytes after the value.
func unmarshalStrict(data []byte, v any) error {
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return refusal.Newf(refusal.Malformed, "decoding JSON: %w", err).WithHint(`"tally witness pack --help" lists the members`)
	}
	return nil
}

// addFile puts one file of the folder into the description. A file that is none
// of ours is refused: it may be evidence under a mistyped name.
func (d *bundleDescription) addFile(dir, name string) error {
	path := filepath.Join(dir, name)
	if name == metaFile || strings.HasPrefix(name, ".") {
		return nil
	}
	if name == traceFile {
		return d.addTrace(path)
	}
	member, ok := bundleFiles[name]
	if !ok {
		return refusal.Newf(refusal.Malformed, "%s is no part of a bundle", path).
			WithHint("a folder holds %s and any of spec.txt, plan.txt, %s, diff.patch, test.log, postmortem.txt", metaFile, traceFile)
	}
	if *member(d) != nil {
		return refusal.Newf(refusal.Malformed, "%s is there, and %s has its text too", path, metaFile)
	}
	data, err := store.ReadFile(store.OS{}, path, witness.MaxBytes)
	if err != nil {
		return err
	}
	text := string(data)
	*member(d) = &text
	return nil
}

func (d *bundleDescription) addTrace(path string) error {
	if d.Trace != nil {
		return refusal.Newf(refusal.Malformed, "%s is there, and %s has a trace too", path, metaFile)
	}
	data, err := store.ReadFile(store.OS{}, path, witness.MaxBytes)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var c callDescription
		if err := unmarshalStrict(line, &c); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		d.Trace = append(d.Trace, c)
	}
	return nil
}

// bundle makes the bundle that the description describes, with whole hashes if
// all are known.
func (d *bundleDescription) bundle(env *Env) (*witness.Bundle, error) {
	if d.TaskID == nil {
		return nil, refusal.Newf(refusal.Malformed, "task_id is missing")
	}
	b := &witness.Bundle{
		CreatedNS: uint64(env.Now().UnixNano()), Retries: witness.RetriesOf(int(d.RetryCount)),
		Spec: text(d.Spec), Plan: text(d.Plan), Diff: text(d.Diff), TestLog: text(d.TestLog), Postmortem: text(d.Postmortem),
	}
	if d.CreatedNS != nil {
		b.CreatedNS = *d.CreatedNS
	}
	var err error
	if b.TaskID, err = witness.ParseUUID(*d.TaskID); err != nil {
		return nil, fmt.Errorf("task_id: %w", err)
	}
	if b.Outcome, err = value(d.Outcome, "outcome", witness.ParseOutcome); err != nil {
		return nil, err
	}
	if b.Mode, err = value(d.Mode, "governance_mode", witness.ParseMode); err != nil {
		return nil, err
	}
	policy, err := d.policyHash(b.Mode)
	if err != nil {
		return nil, err
	}
	b.PolicyHash = policy.short
	full := &witness.FullHashes{Policy: policy.full}
	known := policy.known
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
	return b, nil
}

// text is nil for a member that is not there, and not nil for an empty one.
func text(s *string) []byte {
	if s == nil {
		return nil
	}
	return append([]byte{}, *s...)
}

func (d *bundleDescription) policyHash(m witness.Mode) (someHash, error) {
	switch {
	case d.Policy != nil && d.PolicyHash != nil:
		return someHash{}, refusal.Newf(refusal.Malformed, "both policy and policy_hash are there")
	case d.PolicyHash != nil:
		return parseHash("policy_hash", *d.PolicyHash)
	case d.Policy != nil:
		p := policy.Policy{Mode: policy.Mode(m), Allow: d.Policy.Allowed, Deny: d.Policy.Denied, MaxCostMicroUSD: int64(d.Policy.MaxCost), MaxToolCalls: int64(d.Policy.MaxToolCalls)}
		return wholeHash(witness.Hash(p.SerialisedDigest())), nil
	}
	standard := policy.ForMode(policy.Mode(m))
	return wholeHash(witness.Hash(standard.SerialisedDigest())), nil
}

// A someHash is a hash of which at least the 8 bytes of the format are known.
type someHash struct {
	short witness.ShortHash
	full  witness.Hash
	known bool // that full is
}

func wholeHash(h witness.Hash) someHash { return someHash{h.Short(), h, true} }

func parseHash(field, s string) (someHash, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	switch {
	case err == nil && len(raw) == 32:
		return wholeHash(witness.Hash(raw)), nil
	case err == nil && len(raw) == 8 && !strings.HasPrefix(s, "sha256:"):
		return someHash{short: witness.ShortHash(raw)}, nil
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

func (c callDescription) call() (witness.ToolCall, witness.CallHashes, bool, error) {
	fail := func(err error) (witness.ToolCall, witness.CallHashes, bool, error) {
		return witness.ToolCall{}, witness.CallHashes{}, false, err
	}
	if c.Action == nil {
		return fail(refusal.Newf(refusal.Malformed, "action is missing"))
	}
	check, err := value(c.Check, "policy_check", witness.ParsePolicyCheck)
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
	call := witness.ToolCall{Action: *c.Action, Check: check, ArgsHash: args.short, ResultHash: result.short,
		LatencyMS: c.Latency, CostMicrodollars: c.Cost, Tokens: c.Tokens}
	return call, witness.CallHashes{Args: args.full, Result: result.full}, args.known && result.known, nil
}
