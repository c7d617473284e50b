package dossier

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"

	"tallystick/internal/read/dossier/withheld"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Why tells why a case ended as it did.
type Why struct {
	Case         string         `json:"case"`
	Attempt      string         `json:"attempt"`
	Level        string         `json:"level"`
	Entry        int64          `json:"entry"`
	Outcome      string         `json:"outcome"`
	Reason       string         `json:"reason,omitempty"`
	FailureModes []string       `json:"failure_modes"`
	Checks       []grade.Detail `json:"checks"`
	// SecondViews are made now and stand in no record.
	SecondViews []grade.SecondView `json:"second_views,omitempty"`
	ToolCalls   []WhyCall          `json:"tool_calls,omitempty"` // those that were not executed here
	Denied      []WhyDenied        `json:"denied,omitempty"`     // what the policy did not let the agent do
	Unseen      string             `json:"tool_calls_unseen,omitempty"`
	RubricSaid  string             `json:"rubric_said,omitempty"` // on its standard error
	Divergence  string             `json:"divergence,omitempty"`
	LastPassed  string             `json:"last_passed,omitempty"` // attempt
	Changed     []Change           `json:"changed"`
	Missing     string             `json:"evidence_missing,omitempty"`
	Amendment   *Amendment         `json:"amendment,omitempty"` // the last
	// HeldOut says that the case is held out. Texts are then salted digests, or
	// they are shown with the salt, because somebody asked.
	HeldOut bool   `json:"held_out,omitempty"`
	Salt    string `json:"salt,omitempty"`
	// Reviewed is what people said about the case; no score changes.
	Reviewed *scorecard.ReviewedCase `json:"reviewed,omitempty"`
	// Correction is what people signed beside the record: the last that counts.
	Correction *scorecard.CorrectedCase `json:"correction,omitempty"`
}

// An Amendment is what somebody set beside the score. Checks are what was
// compared then, if the evidence has it.
type Amendment struct {
	Author string         `json:"author"`
	Reason string         `json:"reason"`
	Passed bool           `json:"passed"`
	Score  float64        `json:"score"`
	Raises bool           `json:"raises"` // it is more than the record has, and does not count
	Checks []grade.Detail `json:"checks"`
}

// A WhyCall is a tool call of a case, and how it is known.
type WhyCall struct {
	Name    string             `json:"name"`
	Turn    int                `json:"turn"`
	Vantage trajectory.Vantage `json:"vantage"`
	Denied  bool               `json:"denied,omitempty"`
}

// A WhyDenied is something that the policy did not let the agent do, by which
// rule, and what to change if it should have.
type WhyDenied struct {
	Name   string `json:"name"`
	Turn   int    `json:"turn"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	Change string `json:"change"`
}

// A Change is something that is not as it was when a case last passed.
type Change struct {
	What string `json:"what"`
	Was  string `json:"was"`
	Now  string `json:"now"`
}

// Why tells why a case of an attempt ended as it did: what was compared, where
// the run left the last one that passed, and what has changed since. It needs
// [Ask].Again and the records of every attempt.
func (r *Reading) Why(attempt *history.Attempt, c *history.Case) (*Why, error) {
	return r.why(attempt, c, true)
}

// WhyInShort is [Reading.Why] without what takes reading whole trajectories: tool
// calls that were not executed here, denials, and where the run left an earlier
// one. It is for a trajectory that is too long for that.
func (r *Reading) WhyInShort(attempt *history.Attempt, c *history.Case) (*Why, error) {
	return r.why(attempt, c, false)
}

func (r *Reading) why(attempt *history.Attempt, c *history.Case, whole bool) (*Why, error) {
	a := &Why{Case: c.ID, Attempt: attempt.ID, Level: attempt.Level.String(), Entry: c.Index, Outcome: string(c.Effective()),
		FailureModes: append([]string{}, c.FailureModes()...), Checks: []grade.Detail{}, Changed: []Change{}}
	record, err := r.Record(c)
	if err != nil {
		return nil, err
	}
	w, err := r.openOrHide(attempt, c, a)
	if err != nil {
		return nil, err
	}
	a.Reason = w.Text(record.Reason)
	if a.Checks, err = r.Checks(c); err != nil {
		a.Missing = err.Error()
	}
	if a.RubricSaid, err = r.rubricSaid(c); err != nil {
		a.Missing = err.Error()
	}
	if whole {
		r.observed(attempt, c, a)
	}
	a.Checks, a.RubricSaid = w.Checks(a.Checks), w.Text(a.RubricSaid)
	if w == nil { // of what is hidden there is none
		a.SecondViews = grade.SecondViews(a.Checks)
	}
	for i := range a.Denied {
		a.Denied[i].Reason = w.Text(a.Denied[i].Reason)
	}
	for _, x := range scorecard.ReviewedCases(r.History, attempt) {
		if x.Entry == c.Index {
			a.Reviewed = &x
			for i := range x.Labels {
				x.Labels[i].Note = w.Text(x.Labels[i].Note)
			}
		}
	}
	if corrected := c.Correction; corrected != nil {
		a.Correction = &scorecard.CorrectedCase{Attempt: attempt.ID, CaseID: c.ID, Repeat: c.Repeat, Was: corrected.Was, Now: corrected.Now,
			By: corrected.By, Reason: corrected.Reason, Entry: c.Index, Index: corrected.Index}
	}
	if c.Amendment != nil {
		if err := r.amendment(c, a); err != nil {
			return nil, err
		}
		a.Amendment.Reason, a.Amendment.Checks = w.Text(a.Amendment.Reason), w.Checks(a.Amendment.Checks)
	}
	if c.Effective() != evidence.Passed {
		if whole {
			a.Divergence = r.Parted(attempt, c) // which hides by itself
		}
		if before, last := r.lastPassed(attempt, c); last != nil {
			a.LastPassed = before.ID
			a.Changed = append(a.Changed, changes(before, attempt, last, c)...)
		}
	}
	return a, nil
}

// openOrHide returns what hides the texts of a case, or adds the salt for somebody
// who asked to see them.
func (r *Reading) openOrHide(attempt *history.Attempt, c *history.Case, a *Why) (*withheld.Hider, error) {
	held, err := r.isHeldOut(attempt, c)
	if err != nil || !held {
		return nil, err
	}
	a.HeldOut = true
	salt, err := r.saltOf(attempt, c)
	if r.ask.ShowHeldOut {
		a.Salt = hex.EncodeToString(salt[:])
		return nil, err
	}
	return &withheld.Hider{Salt: salt}, err
}

// observed adds the tool calls that did not simply pass through the harness. It
// is a help to people: without the trajectory they are left out.
func (r *Reading) observed(attempt *history.Attempt, c *history.Case, a *Why) {
	v, err := history.TrajectoryOf(c, r.Piece)
	if err != nil {
		return
	}
	for e := range v.Events() {
		if d, ok := e.Payload.(*trajectory.PolicyDecision); ok && d.Verdict == policy.Deny {
			a.Denied = append(a.Denied, WhyDenied{d.Name, e.Turn, d.Rule, d.Reason, changeOf(attempt.Class, d)})
		}
	}
	view := trajectory.CallsOf(v)
	if view.OnlyExecuted() {
		return
	}
	a.Unseen = view.Unseen
	for i := range view.Calls {
		if x := &view.Calls[i]; x.Vantage != trajectory.Executed {
			a.ToolCalls = append(a.ToolCalls, WhyCall{x.Name, x.Turn, x.Vantage, x.Denied})
		}
		for _, asked := range view.Calls[i].Otherwise() {
			a.ToolCalls = append(a.ToolCalls, WhyCall{asked.Name, asked.Turn, asked.Vantage, false})
		}
	}
}

// changeOf says which line would have let the agent do what it was denied.
func changeOf(class string, d *trajectory.PolicyDecision) string {
	file := path.Join(bench.Dir, class, "registration.yaml")
	listed := d.Name
	if d.Action != policy.Tool {
		listed = "action:" + string(d.Action)
	}
	switch d.Rule {
	case policy.RuleAllowList:
		return fmt.Sprintf("add %q to the list allow of policy in %s, or set governance to approved or autonomous there", listed, file)
	case policy.RuleDenyList:
		return fmt.Sprintf("take %q off the list deny of policy in %s; without a policy there, the mode's own list has it, and a policy replaces that", listed, file)
	case policy.RuleApproval:
		return "somebody was asked and refused, or nobody answered: the case's approvals, or whoever sits at the terminal"
	case policy.RuleCall:
		return "the call itself could not be understood"
	}
	return fmt.Sprintf("the rule %q of policy in %s", d.Rule, file)
}

// amendment adds the last amendment of a case.
func (r *Reading) amendment(c *history.Case, a *Why) error {
	entries, err := r.Entries(c.Amendment.Index)
	if err != nil {
		return err
	}
	amended, err := bodyOf[*evidence.ScoreAmended](c.Amendment.Index, entries[c.Amendment.Index])
	if err != nil {
		return err
	}
	a.Amendment = &Amendment{Author: amended.Author, Reason: amended.Reason, Passed: amended.Score.Passed, Score: amended.Score.Score, Raises: c.Raises(), Checks: []grade.Detail{}}
	if amended.Grading != nil {
		if a.Amendment.Checks, err = r.checksIn(*amended.Grading); err != nil {
			a.Missing = err.Error()
		}
	}
	return nil
}

// A CaseQuery says which case somebody means.
type CaseQuery struct {
	Case    string
	Attempt string // "" for the newest that has a record of it
	Class   string // "" for any
}

// FindCase finds a case in the attempt that was named, or in the newest that
// has a record of it.
func (r *Reading) FindCase(q CaseQuery) (*history.Attempt, *history.Case, error) {
	var known []string
	for i := len(r.History.Attempts) - 1; i >= 0; i-- {
		a := r.History.Attempts[i]
		if q.Attempt != "" && a.ID != q.Attempt || q.Class != "" && a.Class != q.Class {
			continue
		}
		for c := range a.Cases() {
			if c.ID == q.Case && c.Index >= 0 {
				return a, c, nil
			}
			known = append(known, c.ID)
		}
	}
	if q.Attempt != "" {
		if _, err := r.Attempt(q.Attempt); err != nil {
			return nil, nil, err
		}
	}
	where := "no attempt has a record"
	switch {
	case q.Attempt != "":
		where = "attempt " + q.Attempt + " has no record"
	case q.Class != "":
		where = "no attempt of class " + q.Class + " has a record"
	}
	return nil, nil, refusal.Newf(refusal.UnknownName, "%s of case %q", where, q.Case).
		Suggest(q.Case, known, `"tally log" lists the attempts`)
}

// Checks reads what was compared with what.
func (r *Reading) Checks(c *history.Case) ([]grade.Detail, error) {
	files, err := r.FilesOf(c)
	if err != nil || files.Grading == nil {
		return []grade.Detail{}, err
	}
	return r.checksIn(*files.Grading)
}

// rubricSaid reads what the rubric wrote to its standard error.
func (r *Reading) rubricSaid(c *history.Case) (string, error) {
	files, err := r.FilesOf(c)
	if err != nil || files.Rubric == nil || files.Rubric.Stderr == nil {
		return "", err
	}
	said, err := r.Piece(*files.Rubric.Stderr)
	return string(said), err
}

// checksIn reads a grading document.
func (r *Reading) checksIn(name digest.Content) ([]grade.Detail, error) {
	data, err := r.Piece(name)
	if err != nil {
		return []grade.Detail{}, err
	}
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return []grade.Detail{}, refusal.Newf(refusal.Malformed, "the grading document %s: %w", name, err)
	}
	return append([]grade.Detail{}, doc.Checks...), nil
}

// lastPassed is the newest earlier attempt of the same class and target in
// which the case passed.
func (r *Reading) lastPassed(a *history.Attempt, c *history.Case) (*history.Attempt, *history.Case) {
	for i := len(r.History.Attempts) - 1; i >= 0; i-- {
		earlier := r.History.Attempts[i]
		if earlier.Class != a.Class || earlier.Target != a.Target || earlier.Index >= a.Index {
			continue
		}
		for x := range earlier.Cases() {
			if x.ID == c.ID && x.Passed() {
				return earlier, x
			}
		}
	}
	return nil, nil
}

// changes lists what is not as it was when the case last passed.
func changes(before, now *history.Attempt, was, is *history.Case) []Change {
	var out []Change
	add := func(what, a, b string) {
		if a != b {
			out = append(out, Change{what, a, b})
		}
	}
	add("the case", was.Digest.String(), is.Digest.String())
	add("the bench", before.Plan.BenchDigest.String(), now.Plan.BenchDigest.String())
	add("the registration", before.Plan.RegistrationDigest.String(), now.Plan.RegistrationDigest.String())
	add("the target", before.Plan.TargetDigest.String(), now.Plan.TargetDigest.String())
	add("the rubric", orNone(before.Plan.RubricDigest), orNone(now.Plan.RubricDigest))
	add("the cassette", orNone(was.Cassette), orNone(is.Cassette))
	add("the mode", before.Mode, now.Mode)
	if was.Context != nil && is.Context != nil {
		add("the harness", was.Context.HarnessVersion, is.Context.HarnessVersion)
		add("the isolation", was.Context.Isolation, is.Context.Isolation)
	}
	return out
}

func orNone[T fmt.Stringer](d *T) string {
	if d == nil {
		return "none"
	}
	return (*d).String()
}

// Divergence finds where two runs of a case part, by their canonical traces; ""
// if they do not.
func (r *Reading) Divergence(a, b *history.Case) (string, error) {
	text, err := r.divergence(a, b)
	if err != nil || text == "" {
		return text, err
	}
	of := r.attemptOf(b)
	if of == nil {
		return "", fmt.Errorf("case %s (entry %d) is of no attempt", b.ID, b.Index)
	}
	w, err := r.withholds(of, b)
	return w.Text(text), err
}

// attemptOf is the attempt that a record is of.
func (r *Reading) attemptOf(c *history.Case) *history.Attempt {
	var of *history.Attempt
	for _, a := range r.History.Attempts {
		if a.Index < c.Index && (of == nil || a.Index > of.Index) && a.Has(c) {
			of = a
		}
	}
	return of
}

// Moves tells what the agent did differently in two runs of a case, call by call, and
// how its prompts differ; "" if it did the same.
func (r *Reading) Moves(a, b *history.Case) (string, error) {
	text, err := r.moves(a, b)
	if err != nil || text == "" {
		return text, err
	}
	w, err := r.withholds(r.attemptOf(b), b)
	return w.Text(text), err
}

func (r *Reading) moves(a, b *history.Case) (string, error) {
	left, err := r.trajectoryOf(a)
	if err != nil {
		return "", err
	}
	right, err := r.trajectoryOf(b)
	if err != nil {
		return "", err
	}
	return outline.Between(left, right).Detail(), nil
}

func (r *Reading) divergence(a, b *history.Case) (string, error) {
	left, err := r.trace(a)
	if err != nil {
		return "", err
	}
	right, err := r.trace(b)
	if err != nil {
		return "", err
	}
	if d := trajectory.Compare(left, right); d != nil {
		return d.String(), nil
	}
	return "", nil
}

func (r *Reading) trajectoryOf(c *history.Case) (*trajectory.Verified, error) {
	v, err := history.TrajectoryOf(c, r.Piece)
	if err != nil {
		return nil, fmt.Errorf("case %s (entry %d): %w", c.ID, c.Index, err)
	}
	return v, nil
}

func (r *Reading) trace(c *history.Case) (*trajectory.Trace, error) {
	v, err := r.trajectoryOf(c)
	if err != nil {
		return nil, err
	}
	return trajectory.Canonical(v, trajectory.Options{})
}

// Parted tells where a case left its golden trace, or the run in which the same
// target last passed it; "" if there is neither. It is a help to people: what
// cannot be read is left out.
func (r *Reading) Parted(a *history.Attempt, c *history.Case) string {
	w, err := r.withholds(a, c)
	if err != nil {
		return ""
	}
	if golden, err := r.ReadGolden(a.Class, a.Target, c.ID); err == nil {
		if v, err := history.TrajectoryOf(c, r.Piece); err == nil {
			if d, err := outline.CheckGolden(golden, v, "", GoldenTrace); err == nil && !d.Equal() {
				return w.Text(d.Detail())
			}
		}
	}
	var passed *history.Case
	for _, earlier := range r.History.Attempts {
		if earlier.Class != a.Class || earlier.Target != a.Target || earlier.Index >= a.Index {
			continue
		}
		for x := range earlier.Cases() {
			if x.ID == c.ID && x.Digest == c.Digest && x.Passed() {
				passed = x
			}
		}
	}
	if passed == nil {
		return ""
	}
	text, err := r.moves(passed, c)
	if err == nil && text == "" {
		text, err = r.divergence(passed, c)
	}
	if err != nil {
		return ""
	}
	return w.Text(text)
}
