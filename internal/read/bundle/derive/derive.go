// Package derive makes the witness bundle of a case from its record in the
// ledger and the evidence that the record names.
//
// [Bundle] is told the record, the index of its evidence and its trajectory,
// which its caller has verified, and reads the other pieces by their digests.
// What it makes depends on nothing else: not on the bench, not on the clock, so
// a reader who has the ledger and its evidence can make the same bundle again.
// docs/formats/bundle.md says which section comes from what.
//
// It refuses a record that its evidence contradicts: a trajectory of another
// case, a grading document that comes to another score. That the evidence tells
// the truth about what the agent did is beyond it.
package derive

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Source is one case as the ledger and its evidence have it.
type Source struct {
	Record     *evidence.CaseScored
	Files      *evidence.CaseFiles
	Trajectory *trajectory.Verified
	// Read returns a piece of evidence, having checked its digest.
	Read func(digest.Content) ([]byte, error)
	// Amendment is the last amendment of the record's score, or nil.
	Amendment *evidence.ScoreAmended
	// Corrected says what people corrected, "" if nothing: from what to what, who, when.
	Corrected string
}

// Bundle makes the bundle, without seals.
func Bundle(c Source) (*bundle.Bundle, error) {
	d := &deriving{Source: c}
	if err := d.events(); err != nil {
		return nil, err
	}
	if err := d.grading(); err != nil {
		return nil, err
	}
	r := c.Record
	b := &bundle.Bundle{Outcome: bundle.OutcomeOf(r.Outcome), Mode: bundle.Mode(d.started.Governance), PolicyHash: bundle.ShortHash(d.started.PolicyShort),
		Retries: bundle.RetriesOf(r.Retries), CreatedNS: uint64(max(0, r.FinishedAt.Go().UnixNano()))}
	var err error
	if b.TaskID, err = bundle.TaskIDOf(r.Class, r.CaseID, r.CaseDigest); err != nil {
		return nil, err
	}
	if b.Spec, err = d.spec(); err != nil {
		return nil, err
	}
	if b.Plan, err = d.piece(c.Files.Plan); err != nil {
		return nil, err
	}
	if err := d.trace(b); err != nil {
		return nil, err
	}
	if b.Diff, err = d.diff(); err != nil {
		return nil, err
	}
	if b.TestLog, err = d.testLog(); err != nil {
		return nil, err
	}
	b.Postmortem = d.postmortem()
	return b, nil
}

// deriving is a bundle being made.
type deriving struct {
	Source
	started    trajectory.RunStarted
	turns      []turn
	calls      []*call
	violations []string
	folder     folderStory
	elsewhere  []string // those of them that are not about a tool call, such as a model's cost
	rollbacks  []*trajectory.Rollback
	models     []*trajectory.ModelCallCompleted
	graded     *gradingDocument
	wholes     map[digest.Content][]byte // canonical forms of long arguments
}

type turn struct {
	agent string
	input *trajectory.Content
}

// A call is a tool call from its proposal to its end.
type call struct {
	name     string
	args     *trajectory.Args
	check    bundle.PolicyCheck
	executed *trajectory.ToolExecuted // nil if it was not made here, or broke
	reported *trajectory.Content      // what the agent says came of it, or nil
	vantage  bundle.Vantage
}

// events reads the trajectory, and refuses one of another case.
func (d *deriving) events() error {
	proposed, made, violated := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for e := range d.Trajectory.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunStarted:
			d.started = *p
		case *trajectory.TurnStarted:
			d.turns = append(d.turns, turn{p.Agent, p.Input})
		case *trajectory.ModelCallCompleted:
			d.models = append(d.models, p)
		case *trajectory.ToolProposed:
			proposed[p.Call] = true
		case *trajectory.ToolExecuted:
			if !proposed[p.Call] || made[p.Call] {
				return d.contradicted("tool call %s was made twice, or never proposed", p.Call)
			}
			made[p.Call] = true
		case *trajectory.PolicyViolation:
			d.violations = append(d.violations, p.Text)
			violated[p.Call] = true
			if !proposed[p.Call] {
				d.elsewhere = append(d.elsewhere, p.Text)
			}
		case *trajectory.Rollback:
			d.rollbacks = append(d.rollbacks, p)
			d.folder.add(p)
		default:
			d.folder.add(p)
		}
	}
	d.listCalls(violated)
	r, run := d.Record, d.started
	if run.Attempt != r.Attempt || run.Class != r.Class || run.Case != r.CaseID || run.Repeat != r.Repeat || run.Execution != r.Execution {
		return d.contradicted("its trajectory is of attempt %s, class %s, case %s, repeat %d, execution %d", run.Attempt, run.Class, run.Case, run.Repeat, run.Execution)
	}
	if !d.Trajectory.Complete() {
		return d.contradicted("its trajectory has no end")
	}
	return d.checkFolder()
}

// listCalls takes the calls from the one view of them. A call that a model only
// asked for, and of which nothing more was seen, is not among them: it was never made,
// and no policy was asked. What nothing permitted is denied, and so is a call of
// which the policy said afterwards that it broke a rule: a budget that it passed.
func (d *deriving) listCalls(violated map[string]bool) {
	view := trajectory.CallsOf(d.Trajectory)
	for i := range view.Calls {
		c := &view.Calls[i]
		if c.Call == "" && c.Vantage == trajectory.Proposed {
			continue
		}
		made := &call{name: c.Name, args: &c.Args, check: bundle.PolicyCheck(c.Check), executed: c.Made}
		switch {
		case violated[c.Call] || c.Report != nil && violated[c.Report.Judged]:
			made.check = bundle.Denied
		case c.Call == "" && !c.Judged:
			made.check = d.unjudged(c.Name)
		}
		switch c.Vantage {
		case trajectory.Reported:
			made.vantage, made.reported = bundle.Reported, c.Report.Result
		case trajectory.Proposed:
			made.vantage = bundle.Proposed
		}
		d.calls = append(d.calls, made)
	}
}

// unjudged is what is said of a call of the agent's own that no policy was asked
// about, as in runs of before observed calls were judged: what the standard policy says, if that is the
// one that the run names; nothing permitted any other.
func (d *deriving) unjudged(tool string) bundle.PolicyCheck {
	if p, ok := policy.Standard(d.started.Governance, d.started.PolicyShort); ok {
		return bundle.PolicyCheck(p.Check(tool))
	}
	return bundle.Denied
}

// contradicted is the refusal of a record whose evidence says something else.
func (d *deriving) contradicted(format string, args ...any) error {
	r := d.Record
	return refusal.Newf(refusal.RecomputeMismatch, "case %s of %s, repeat %d, execution %d: %s", r.CaseID, r.Attempt, r.Repeat, r.Execution, fmt.Sprintf(format, args...)).
		WithHint("the record and its evidence cannot both be true; find out who wrote them")
}

// A gradingDocument is what [grade.Document] writes, as far as it is told here.
type gradingDocument struct {
	Passed   *bool          `json:"passed"`
	Score    *float64       `json:"score"`
	Modes    []string       `json:"failure_modes"`
	Judged   bool           `json:"judged_by_model"`
	Unscored string         `json:"unscored"`
	Checks   []grade.Detail `json:"checks"`
}

// grading reads how the case was graded, and refuses a record with another
// grade.
func (d *deriving) grading() error {
	data, err := d.piece(d.Files.Grading)
	if err != nil || data == nil {
		return err
	}
	d.graded = &gradingDocument{}
	if err := json.Unmarshal(data, d.graded); err != nil {
		return refusal.Newf(refusal.Malformed, "grading document of case %s: %w", d.Record.CaseID, err)
	}
	score := d.Record.Score
	switch {
	case (score == nil) != (d.graded.Passed == nil):
		return d.contradicted("its outcome is %s, and its grading document says otherwise", d.Record.Outcome)
	case score != nil && (score.Passed != *d.graded.Passed || d.graded.Score == nil || score.Score != *d.graded.Score):
		return d.contradicted("its score is %v, passed %v, and its grading document says otherwise", score.Score, score.Passed)
	case score != nil && !sameNames(score.FailureModes, d.graded.Modes):
		return d.contradicted("its failure modes are %q, and its grading document has %q", score.FailureModes, d.graded.Modes)
	case d.Record.JudgedByModel != d.graded.Judged:
		return d.contradicted("judged_by_model is %v, and its grading document says %v", d.Record.JudgedByModel, d.graded.Judged)
	}
	return nil
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// piece reads a piece that the index may name. It is nil if the index does not,
// and never nil otherwise.
func (d *deriving) piece(name *digest.Content) ([]byte, error) {
	if name == nil {
		return nil, nil
	}
	data, err := d.Read(*name)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, data...), nil
}

// spec tells what was asked, and never what was expected.
func (d *deriving) spec() ([]byte, error) {
	r := d.Record
	var b bytes.Buffer
	fmt.Fprintf(&b, "case %s of class %s\n%s\n", plain.Line(r.CaseID), plain.Line(r.Class), r.CaseDigest)
	title, err := d.title()
	if err != nil {
		return nil, err
	}
	if title != "" {
		fmt.Fprintf(&b, "title: %s\n", plain.Line(title))
	}
	if len(r.Tags) > 0 {
		fmt.Fprintf(&b, "tags: %s\n", plain.Line(strings.Join(r.Tags, ", ")))
	}
	for i, t := range d.turns {
		fmt.Fprintf(&b, "\nturn %d\n", i+1)
		if t.input == nil {
			continue
		}
		text, whole, err := d.text(t.input)
		if err != nil {
			return nil, err
		}
		b.Write(bytes.TrimRight(text, "\n"))
		b.WriteByte('\n')
		if !whole {
			fmt.Fprintf(&b, "[not all of it is in the evidence; the whole has %d bytes, %s]\n", t.input.Bytes, t.input.Digest)
		}
	}
	return b.Bytes(), nil
}

// title is the case's title, which the evidence has where a rubric was told.
func (d *deriving) title() (string, error) {
	if d.Files.Rubric == nil {
		return "", nil
	}
	data, err := d.Read(d.Files.Rubric.Input)
	if err != nil {
		return "", err
	}
	var input struct {
		Metadata struct {
			Title string `json:"title"`
		} `json:"case_metadata"`
	}
	if err := json.Unmarshal(data, &input); err != nil {
		return "", refusal.Newf(refusal.Malformed, "what the rubric of case %s read: %w", d.Record.CaseID, err)
	}
	return input.Metadata.Title, nil
}

// text returns the text that an event stands for; whole says that it is all of
// it.
func (d *deriving) text(c *trajectory.Content) (text []byte, whole bool, err error) {
	switch {
	case !c.Truncated && !c.Lossy && !c.Redacted:
		return []byte(c.Head), true, nil
	case slices.Contains(d.Files.Contents, c.Digest):
		text, err = d.Read(c.Digest)
		return text, true, err
	}
	return []byte(c.Head), false, nil
}

// trace adds the tool calls, denied ones included.
func (d *deriving) trace(b *bundle.Bundle) error {
	full := &bundle.FullHashes{Policy: bundle.Hash(d.started.Policy)}
	for _, c := range d.calls {
		args, err := d.argsHash(c.args)
		if err != nil {
			return err
		}
		result := bundle.Hash(sha256.Sum256(nil))
		entry := bundle.ToolCall{Action: c.name, Check: c.check, ArgsHash: args.Short()}
		if x := c.executed; x != nil {
			if result, err = d.contentHash(&x.Result); err != nil {
				return err
			}
			entry.LatencyMS, entry.CostMicrodollars, entry.Tokens = saturate(x.LatencyMS), saturate(x.CostMicroUSD), saturate(x.Tokens)
		}
		if c.reported != nil {
			if result, err = d.contentHash(c.reported); err != nil {
				return err
			}
		}
		entry.ResultHash = result.Short()
		b.Trace = append(b.Trace, entry)
		full.Calls = append(full.Calls, bundle.CallHashes{Args: args, Result: result})
	}
	b.Full, b.Observed = full, d.observed()
	return nil
}

// observed adds up the work of models and says how each call is known.
func (d *deriving) observed() *bundle.Observed {
	var cost, latency, tokens int64
	for _, m := range d.models {
		cost, latency, tokens = cost+m.CostMicroUSD, latency+m.LatencyMS, tokens+m.TokensIn+m.TokensOut
	}
	o := &bundle.Observed{ModelCalls: saturate(int64(len(d.models))), CostMicrodollars: saturate(cost), LatencyMS: saturate(latency), Tokens: saturate(tokens)}
	for _, c := range d.calls {
		o.Vantages = append(o.Vantages, c.vantage)
	}
	return o
}

// argsHash is the SHA-256 of the arguments in canonical JSON, or as the model
// wrote them if they are no JSON object.
func (d *deriving) argsHash(a *trajectory.Args) (bundle.Hash, error) {
	if a.Raw != nil {
		return d.contentHash(a.Raw)
	}
	if len(a.Cut) == 0 {
		values := a.Values
		if values == nil {
			values = map[string]canon.RawMessage{}
		}
		whole, err := canon.Marshal(values)
		if err != nil {
			return bundle.Hash{}, err
		}
		return hashIfNamed(whole, a.Digest), nil
	}
	if err := d.findWholes(); err != nil {
		return bundle.Hash{}, err
	}
	return hashIfNamed(d.wholes[a.Digest], a.Digest), nil
}

// findWholes gathers the long arguments. The evidence has them as the model
// wrote them, events name their canonical form.
func (d *deriving) findWholes() error {
	if d.wholes != nil {
		return nil
	}
	d.wholes = make(map[digest.Content][]byte)
	for _, name := range d.Files.Contents {
		data, err := d.Read(name)
		if err != nil {
			return err
		}
		if whole, err := canon.Canonicalize(data); err == nil {
			d.wholes[digest.ContentOf(whole)] = whole
		}
	}
	return nil
}

func (d *deriving) contentHash(c *trajectory.Content) (bundle.Hash, error) {
	text, whole, err := d.text(c)
	if err != nil {
		return bundle.Hash{}, err
	}
	if !whole {
		text = nil
	}
	return hashIfNamed(text, c.Digest), nil
}

// hashIfNamed is the SHA-256 of a text that has the digest, and else that of the
// digest itself: of a text with secrets the evidence has nothing more.
func hashIfNamed(text []byte, name digest.Content) bundle.Hash {
	if digest.ContentOf(text) == name {
		return sha256.Sum256(text)
	}
	return sha256.Sum256([]byte(name.String()))
}

func saturate(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// diff is what changed in the working folder. An agent without one changed
// nothing, and its diff is empty. Of a folder that could not be compared there
// is none.
func (d *deriving) diff() ([]byte, error) {
	if d.folder.lost {
		return nil, nil
	}
	data, err := d.piece(d.Files.Diff)
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// testLog is what the case's test said, then what the graders did, then their
// grade as one test that passed or failed. It is nil if there is neither.
func (d *deriving) testLog() ([]byte, error) {
	log, err := d.piece(d.Files.TestLog)
	if err != nil || d.graded == nil {
		return log, err
	}
	b := bytes.NewBuffer(log)
	if len(log) > 0 && log[len(log)-1] != '\n' {
		b.WriteByte('\n')
	}
	d.troubles(b)
	for _, c := range d.graded.Checks {
		fmt.Fprintf(b, "%s\n", checkLine(c))
	}
	switch {
	case d.graded.Passed == nil:
		fmt.Fprintf(b, "no grade: %s\n", plain.Line(d.graded.Unscored))
	case *d.graded.Passed:
		b.WriteString("tests: 1 passed, 0 failed\n")
	default:
		b.WriteString("tests: 0 passed, 1 failed\n")
	}
	return b.Bytes(), nil
}

// troubles tells what the trace cannot of what the policy objected to, which a
// case may have passed all the same.
func (d *deriving) troubles(b *bytes.Buffer) {
	for _, v := range d.elsewhere {
		fmt.Fprintf(b, "violation: %s\n", plain.Line(v))
	}
	for _, r := range d.rollbacks {
		fmt.Fprintf(b, "rollback: %s\n", plain.Line(r.Summary()))
	}
}

// checkLine is one check. It begins with a word with which no summary of a test
// runner begins, so nothing that an agent answered counts as one.
func checkLine(c grade.Detail) string {
	return "check " + plain.Line(strings.TrimSpace(c.Check+" "+string(c.Grader))+" "+string(c.Outcome)+": "+c.Why)
}

// postmortem says what went wrong. It is nil for a case that passed and whose
// score was neither amended nor corrected.
func (d *deriving) postmortem() []byte {
	r := d.Record
	if r.Outcome == evidence.Passed && d.Amendment == nil && d.Corrected == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "outcome: %s\n", r.Outcome)
	if r.Reason != "" {
		fmt.Fprintf(&b, "reason: %s\n", plain.Line(r.Reason))
	}
	if r.Score != nil && len(r.Score.FailureModes) > 0 {
		fmt.Fprintf(&b, "failure modes: %s\n", plain.Line(strings.Join(r.Score.FailureModes, ", ")))
	}
	for _, v := range d.violations {
		fmt.Fprintf(&b, "violation: %s\n", plain.Line(v))
	}
	for _, s := range d.folder.standing {
		fmt.Fprintf(&b, "not rolled back: %s\n", plain.Line(s))
	}
	if d.graded != nil {
		for _, c := range d.graded.Checks {
			comparison(&b, c)
		}
	}
	if a := d.Amendment; a != nil {
		fmt.Fprintf(&b, "amended: score %v, passed %v, by %s: %s\n", a.Score.Score, a.Score.Passed, plain.Line(a.Author), plain.Line(a.Reason))
	}
	if d.Corrected != "" {
		fmt.Fprintf(&b, "corrected: %s\n", plain.Line(d.Corrected))
	}
	return b.Bytes()
}

// comparison tells what a check that did not pass compared with what.
func comparison(b *bytes.Buffer, c grade.Detail) {
	if c.Outcome == grade.Passed {
		return
	}
	fmt.Fprintf(b, "%s\n", checkLine(c))
	if c.Extracted != nil {
		fmt.Fprintf(b, "  got: %s\n", plain.Line(c.Extracted.Head))
	}
	if c.Missing != "" {
		fmt.Fprintf(b, "  got nothing: %s\n", plain.Line(c.Missing))
	}
	if c.Expected != nil {
		fmt.Fprintf(b, "  want: %s\n", plain.Line(c.Expected.Head))
	}
}
