package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
)

// Bounds of what one side takes from the other, so that neither can exhaust the
// other's memory.
const (
	MaxMessage = 8 << 20   // bytes of a message that is not cut into parts
	MaxPart    = 512 << 10 // bytes of a part of a piece
	MaxPiece   = 128 << 20 // bytes of one piece
	MaxResult  = 256 << 20 // bytes of all pieces of one result
	MaxPieces  = 20_000    // pieces of one result
)

// Version is that of the messages.
const Version = 2

// A Signed is a document with the signature of its sender.
type Signed struct {
	Body      canon.RawMessage `json:"body"`
	Signature string           `json:"signature"`
}

// Sign signs a document for one act.
func Sign(key *seal.Key, ns seal.Namespace, document any) ([]byte, error) {
	body, err := canon.Marshal(document)
	if err != nil {
		return nil, err
	}
	signature, err := key.SignMessage(ns, body)
	if err != nil {
		return nil, err
	}
	return canon.Marshal(&Signed{Body: body, Signature: string(signature)})
}

// Open verifies that data is a document signed for one act by a holder of the role
// whom the signers admit at that time, and decodes it.
func Open(data []byte, s *seal.Signers, ns seal.Namespace, role seal.Role, at time.Time, into any) (seal.Signature, error) {
	var signed Signed
	if err := canon.Unmarshal(data, &signed); err != nil {
		return seal.Signature{}, err
	}
	by, err := s.Verify([]byte(signed.Signature), signed.Body, ns, at)
	if err != nil {
		return seal.Signature{}, err
	}
	if !by.Holds(role) {
		return seal.Signature{}, refusal.Newf(refusal.RoleMissing, "%s does not hold the role %s", by.Principal(), role)
	}
	return by, canon.Unmarshal(signed.Body, into)
}

// A Message is what a worker signs, whatever it says. The signature covers what the
// message is about and where its answer goes, so that nothing of the envelope that
// carries it has to be trusted: not the subject, not the reply subject, not a header.
type Message struct {
	Verb string `json:"verb"`
	// Answer is the last word of the subject below the sender's inbox that is answered
	// to; "" if the sender wants no answer.
	Answer string           `json:"answer,omitempty"`
	Body   canon.RawMessage `json:"body"`
	Rest   *digest.Content  `json:"rest,omitempty"` // of the bytes that follow the document
}

// Say signs a message. Rest, if not nil, follows the document.
func Say(key *seal.Key, verb, answer string, document any, rest []byte) ([]byte, error) {
	body, err := canon.Marshal(document)
	if err != nil {
		return nil, err
	}
	m := Message{Verb: verb, Answer: answer, Body: body}
	if rest != nil {
		d := digest.ContentOf(rest)
		m.Rest = &d
	}
	data, err := Sign(key, seal.NamespaceResult, &m)
	if err != nil {
		return nil, err
	}
	return append(append(data, '\n'), rest...), nil
}

// Hear verifies that data is a message which the worker of that key signed, and that it
// is about that verb. It gives the bytes that follow the document too.
func Hear(data []byte, s *seal.Signers, worker, verb string, at time.Time) (*Message, []byte, error) {
	document, rest, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, nil, refusal.Newf(refusal.Malformed, "the message has no end")
	}
	m := &Message{}
	by, err := Open(document, s, seal.NamespaceResult, seal.Worker, at, m)
	switch {
	case err != nil:
		return nil, nil, err
	case by.Key().Fingerprint() != worker:
		return nil, nil, refusal.Newf(refusal.SignerUnknown, "the message is signed by %s and came as from %s", by.Key().Fingerprint(), worker)
	case m.Verb != verb:
		return nil, nil, refusal.Newf(refusal.Malformed, "the message is signed as %.40q and came as %s", m.Verb, verb)
	case m.Answer != "" && !IsWord(m.Answer):
		return nil, nil, refusal.Newf(refusal.Malformed, "the message asks for an answer at %.100q, which is not one word of letters and digits", m.Answer)
	case m.Rest == nil && len(rest) > 0, m.Rest != nil && digest.ContentOf(rest) != *m.Rest:
		return nil, nil, refusal.Newf(refusal.Malformed, "what follows the message is not what was signed")
	}
	return m, rest, nil
}

// IsWord reports whether a text can be the last word of a subject: no wildcard, no dot.
func IsWord(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// A Ticket is what lies in the queue. It says that there is work, and nothing about
// the work: a case is shown to the worker that has claimed it.
type Ticket struct {
	Fleet  string `json:"fleet"`
	Ticket string `json:"ticket"`
}

// A Hello is what a worker asks when it comes.
type Hello struct {
	Version int    `json:"v"`
	Harness string `json:"harness_version"`
	Label   string `json:"label,omitempty"`
}

// A Welcome answers a [Hello]: where the work is, and what all cases share, by digest.
type Welcome struct {
	Version int            `json:"v"`
	Fleet   string         `json:"fleet"` // names the attempt and this start of its coordinator
	Setup   digest.Content `json:"setup"`
	Bytes   int64          `json:"bytes"`             // of the setup
	Refused string         `json:"refused,omitempty"` // why the worker may not take part
}

// A SignersVersion is one version of the signers file with its signatures.
type SignersVersion struct {
	Signers    string `json:"signers"`
	Signatures string `json:"signatures,omitempty"`
}

// A Setup is what all cases of an attempt share. It names no case.
type Setup struct {
	Version      int                        `json:"v"`
	Signers      []SignersVersion           `json:"signers"`
	Registered   evidence.AttemptRegistered `json:"registered"`
	Registration bench.Registration         `json:"registration"`
	Offered      []string                   `json:"offered,omitempty"`
	Target       agent.Carried              `json:"target"`
	Sandbox      []sandbox.Class            `json:"sandbox,omitempty"`
	Unsafe       bool                       `json:"unsafe,omitempty"`
	Replies      *evidence.PlannedReplies   `json:"replies,omitempty"`
	Live         bool                       `json:"live,omitempty"`
	Harness      string                     `json:"harness_version"`
}

// Spec is what a worker is told of the run: the spec of the attempt without what only
// the coordinator needs.
func (s *Setup) Spec() harness.Spec {
	spec := harness.Spec{Class: s.Registered.Class, UnsafeAgent: s.Unsafe, Live: s.Live}
	if len(s.Sandbox) > 0 { // there is one at most
		spec.Sandbox = s.Sandbox[0]
	}
	if r := s.Replies; r != nil {
		spec.Live, spec.Cache, spec.OnMiss = false, r.From == evidence.FromCache, r.OnMiss
	}
	return spec.For(s.Registered.Target)
}

// OpenSetup verifies that data is the setup of an attempt, signed by an operator whom
// signers admit that follow from the trust root. It gives those signers too.
func OpenSetup(data []byte, trustRoot digest.ID, at time.Time) (*Setup, *seal.Signers, error) {
	var signed Signed
	if err := canon.Unmarshal(data, &signed); err != nil {
		return nil, nil, err
	}
	s := &Setup{}
	if err := canon.Unmarshal(signed.Body, s); err != nil {
		return nil, nil, err
	}
	signers, err := s.Verify(trustRoot, at)
	if err != nil {
		return nil, nil, err
	}
	if _, err := Open(data, signers, seal.NamespaceWork, seal.Operator, at, &Setup{}); err != nil {
		return nil, nil, fmt.Errorf("the setup: %w", err)
	}
	return s, signers, nil
}

// Verify follows the signers from the trust root, and verifies that an operator among
// them registered the attempt and that registration and target are those of its plan.
// It gives the signers in force.
func (s *Setup) Verify(trustRoot digest.ID, at time.Time) (*seal.Signers, error) {
	if s.Version != Version || len(s.Signers) == 0 || len(s.Signers) > 10_000 {
		return nil, refusal.Newf(refusal.Malformed, "the setup has version %d and %d versions of the signers; this program knows version %d", s.Version, len(s.Signers), Version)
	}
	signers, err := seal.Root("signers of the coordinator", []byte(s.Signers[0].Signers), trustRoot)
	if err != nil {
		return nil, err
	}
	for _, v := range s.Signers[1:] {
		sigs, err := seal.SplitArmored([]byte(v.Signatures))
		if err != nil {
			return nil, err
		}
		if signers, err = seal.Extend(signers, []byte(v.Signers), sigs, at); err != nil {
			return nil, err
		}
	}
	message, err := s.Registered.Message()
	if err != nil {
		return nil, err
	}
	by, err := signers.Verify([]byte(s.Registered.Signature), message, seal.NamespaceAttempt, at)
	if err != nil {
		return nil, err
	}
	if !by.Holds(seal.Operator) {
		return nil, refusal.Newf(refusal.NotAnOperator, "attempt %.100q is registered by %s, who is not an operator", s.Registered.Attempt, by.Principal())
	}
	registration, err := canon.Marshal(&s.Registration)
	if err != nil {
		return nil, err
	}
	if d := digest.ContentOf(registration); d != s.Registered.Plan.RegistrationDigest {
		return nil, refusal.Newf(refusal.RegistrationDigestMismatch, "the registration of the class is %s, the attempt is registered with %s", d, s.Registered.Plan.RegistrationDigest)
	}
	return signers, nil
}

// A Claim says that a worker wants a case. Name is of the worker's choice: who asks with
// the same one again, because the answer was lost, is given the same case.
type Claim struct {
	Fleet   string `json:"fleet"`
	Name    string `json:"name"`
	Harness string `json:"harness_version"`
	Label   string `json:"label,omitempty"`
}

// A Handout is the answer to a [Claim], signed by the operator: the case as far as an
// agent is driven through it. It has no expected answer, no grading, no rubric and no
// test, none of the replies that the case wrote for its model, and the cassette is the
// agent's part of it.
type Handout struct {
	Fleet     string `json:"fleet"`
	Ticket    string `json:"ticket"`
	Worker    string `json:"worker"` // fingerprint of whom it is for
	Attempt   string `json:"attempt"`
	CaseID    string `json:"case_id"`
	Repeat    int    `json:"repeat"`
	Execution int    `json:"execution"`
	HeldOut   bool   `json:"held_out,omitempty"`
	Tested    bool   `json:"tested,omitempty"` // the coordinator runs a test on what the agent leaves
	Scenario  Brief  `json:"scenario"`
	Authored  bool   `json:"authored,omitempty"` // the case has the replies of its model; the coordinator answers
	Files     []File `json:"files,omitempty"`
	Cassette  *File  `json:"cassette,omitempty"`
}

// A Brief is what a worker is told of a scenario. It lists what driving an agent
// needs, member by member, and is not a scenario with something taken out: a member
// that scenarios get later is not told until it stands here.
//
// Not in it: the replies for models, whose conditions and texts say what a right
// answer is; the test, whose command and names do; the name of a tree, whose files
// are in the handout. The answers of fixtures are in it, because the worker
// executes the tools.
type Brief struct {
	Turns      []scenario.Turn     `json:"turns"`
	Approvals  []scenario.Approval `json:"approvals,omitempty"`
	Start      string              `json:"start,omitempty"`
	Memory     []scenario.Memory   `json:"memory,omitempty"`
	Tools      []tools.Definition  `json:"tools,omitempty"`
	AgentTools []string            `json:"agent_tools,omitempty"`
}

// BriefOf is what a worker is told of s.
func BriefOf(s *scenario.Scenario) Brief {
	return Brief{Turns: s.Turns, Approvals: s.Approvals, Start: s.Start, Memory: s.Memory, Tools: s.Tools, AgentTools: s.AgentTools}
}

// Scenario is what the worker drives its agent through.
func (b Brief) Scenario() scenario.Scenario {
	return scenario.Scenario{Version: 1, Turns: b.Turns, Approvals: b.Approvals, Start: b.Start, Memory: b.Memory, Tools: b.Tools, AgentTools: b.AgentTools}
}

// A File is some bytes by digest.
type File struct {
	Path   string         `json:"path,omitempty"`
	Digest digest.Content `json:"digest"`
	Bytes  int64          `json:"bytes"`

	Executable bool `json:"executable,omitempty"`
}

// An Answer is what a coordinator says to a request, if it is not the thing itself.
type Answer struct {
	Error string `json:"error,omitempty"`
	Gone  bool   `json:"gone,omitempty"`  // the case is another worker's by now, or done
	None  bool   `json:"none,omitempty"`  // there is no case to claim now
	Leave bool   `json:"leave,omitempty"` // this worker gets nothing more
}

// A Fetch asks for a part of a blob that the worker was told of.
type Fetch struct {
	Ticket string         `json:"ticket,omitempty"`
	Digest digest.Content `json:"digest"`
	Offset int64          `json:"offset"`
	// Folder asks for the bytes of the files of the folder whose list has the digest.
	Folder bool `json:"folder,omitempty"`
}

// A Beat says that a worker is there.
type Beat struct {
	Fleet   string   `json:"fleet"`
	Label   string   `json:"label,omitempty"`
	Tickets []string `json:"tickets"`
}

// A ModelCall asks the coordinator to make a model call of a live case, or of one
// whose model's replies a person wrote. Call is a name
// of the worker's choice: who asks with the same one again, because the answer was lost,
// is given the same answer. With Tool it is a call of a tool of an MCP server, and Body
// are the arguments.
type ModelCall struct {
	Fleet  string `json:"fleet"`
	Ticket string `json:"ticket"`
	Call   string `json:"call,omitempty"`
	API    string `json:"api"`
	Body   string `json:"body"`
	Turn   int    `json:"turn,omitempty"` // in which the agent asks
	Tool   string `json:"tool,omitempty"`
}

// A ModelReply answers a [ModelCall]: the recorded exchange, or where it can be fetched,
// or why there is none.
type ModelReply struct {
	Interaction *cassette.Interaction `json:"interaction,omitempty"`
	Tool        *ToolResult           `json:"tool,omitempty"`
	Blob        *File                 `json:"blob,omitempty"`
	Name        refusal.Name          `json:"name,omitempty"`
	Error       string                `json:"error,omitempty"`
	Hint        string                `json:"hint,omitempty"`
}

// A ToolResult is what came of a call of a tool.
type ToolResult struct {
	JSON      canon.RawMessage `json:"json,omitempty"`
	Error     string           `json:"error,omitempty"`
	Source    string           `json:"source"`
	Trust     string           `json:"trust,omitempty"`
	LatencyMS int64            `json:"latency_ms"`
	Findings  []ToolFinding    `json:"findings,omitempty"`
}

// A ToolFinding is something odd about a result.
type ToolFinding struct {
	Name     string            `json:"name"`
	Detail   string            `json:"detail"`
	Severity evidence.Severity `json:"severity"`
}

// ResultOf is a result as it travels.
func ResultOf(r tools.Result) *ToolResult {
	t := &ToolResult{JSON: r.JSON, Error: r.Error, Source: r.Source, Trust: r.Trust, LatencyMS: r.Latency.Milliseconds()}
	for _, f := range r.Findings {
		t.Findings = append(t.Findings, ToolFinding(f))
	}
	return t
}

// Result is the result that travelled.
func (t *ToolResult) Result() tools.Result {
	r := tools.Result{JSON: t.JSON, Error: t.Error, Source: t.Source, Trust: t.Trust, Latency: time.Duration(t.LatencyMS) * time.Millisecond}
	for _, f := range t.Findings {
		r.Findings = append(r.Findings, tools.Finding(f))
	}
	return r
}

// A Part says of which piece the bytes after it are the next ones.
type Part struct {
	Fleet  string         `json:"fleet"`
	Ticket string         `json:"ticket"`
	Digest digest.Content `json:"digest"` // of the whole piece
	Last   bool           `json:"last,omitempty"`
}

// A Result is what a worker brings back. The pieces follow the document, in the order in
// which it names them; those that were sent before are named only.
type Result struct {
	Fleet     string              `json:"fleet"`
	Ticket    string              `json:"ticket"`
	Attempt   string              `json:"attempt"`
	CaseID    string              `json:"case_id"`
	Repeat    int                 `json:"repeat"`
	Execution int                 `json:"execution"`
	Harness   string              `json:"harness_version"`
	Driven    harness.DriveResult `json:"driven"`
	Pieces    []File              `json:"pieces"`           // that follow
	Failed    string              `json:"failed,omitempty"` // why the worker could not drive the case; there is nothing else then
}

// errShort says that the pieces after a result are not those that it names.
var errShort = errors.New("the pieces that follow are not those that the result names")

// TakePieces cuts the pieces apart and compares each with its digest.
func (r *Result) TakePieces(data []byte, into map[digest.Content][]byte) error {
	if len(r.Pieces) > MaxPieces {
		return errShort
	}
	for _, p := range r.Pieces {
		if p.Bytes < 0 || p.Bytes > int64(len(data)) {
			return errShort
		}
		piece := data[:p.Bytes:p.Bytes]
		if digest.ContentOf(piece) != p.Digest {
			return errShort
		}
		into[p.Digest], data = piece, data[p.Bytes:]
	}
	if len(data) > 0 {
		return errShort
	}
	return nil
}

// Subjects of a fleet end with the name of the worker that may publish to them.
func Subject(verb, user string) string { return strings.Join([]string{"tally", verb, user}, ".") }

// Inbox is where answers to a worker go, which it alone may read.
func Inbox(user string) string { return "_INBOX_" + user }

// AnswerSubject is where the answer to a message of a worker goes: below the inbox of
// that worker, whatever the message says.
func AnswerSubject(user, answer string) string { return Inbox(user) + "." + answer }

// StatusSubject is where the status of a fleet is asked for, with a word; the answer goes
// to [StatusAnswer] of that word, and nowhere else.
const StatusSubject = "tally-status"

// StatusAnswer is where the status goes. It is "" for what is not a word.
func StatusAnswer(word string) string {
	if !IsWord(word) {
		return ""
	}
	return "tally-status-answer." + word
}

// EndSubject is where a worker is told that a fleet has ended.
func EndSubject(user string) string { return Inbox(user) + ".end" }
