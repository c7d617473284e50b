package answer

import (
	"encoding/hex"
	"fmt"
	"path"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
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
	Unanswered   bool           `json:"unanswered,omitempty"` // it asks something new, which is not recorded
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
	// they are shown with the salt, because the owner asked.
	HeldOut bool   `json:"held_out,omitempty"`
	Salt    string `json:"salt,omitempty"`
	// Reviewed is what people said about the case; no score changes.
	Reviewed *scorecard.ReviewedRow `json:"reviewed,omitempty"`
	// Correction is what people signed beside the record: the last that counts.
	Correction *scorecard.CorrectedRow `json:"correction,omitempty"`
}

// An Amendment is what a person set beside the score. Checks are what was
// compared then, if the evidence has it.
type Amendment struct {
	At     evidence.Time  `json:"at"`
	Was    history.Mark   `json:"was"` // as recorded
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
	// Diff is how the one text becomes the other, in one line that is safe to print, if it
	// is of more than a few words; Was and Now are then the beginnings of the two.
	Diff string `json:"diff,omitempty"`
}

// WhyOf tells why a case of an attempt ended as it did: what was compared, where
// the run left the last one that passed, and what has changed since. It needs
// [dossier.Ask].Again and the records of every attempt.
func WhyOf(c *dossier.Case) (*Why, error) { return why(c, true) }

// WhyInShort is [WhyOf] without what takes reading whole trajectories: tool
// calls that were not executed here, denials, and where the run left an earlier
// one. It is for a trajectory that is too long for that.
func WhyInShort(c *dossier.Case) (*Why, error) { return why(c, false) }

func why(c *dossier.Case, whole bool) (*Why, error) {
	attempt := c.Dossier()
	a := &Why{Case: c.ID, Attempt: attempt.ID, Level: attempt.Level.String(), Entry: c.Index, Outcome: string(c.Outcome()), Unanswered: c.Unanswered(),
		FailureModes: append([]string{}, c.FailureModes()...), Checks: []grade.Detail{}, Changed: []Change{}}
	record, err := c.Record()
	if err != nil {
		return nil, err
	}
	w, err := openOrHide(c, a)
	if err != nil {
		return nil, err
	}
	a.Reason = w.Text(record.Reason)
	if a.Checks, err = c.Checks(); err != nil {
		a.Missing = err.Error()
	}
	if a.RubricSaid, err = c.RubricSaid(); err != nil {
		a.Missing = err.Error()
	}
	if whole {
		observed(c, a)
	}
	a.Checks, a.RubricSaid = w.Checks(a.Checks), w.Text(a.RubricSaid)
	if w == nil { // of what is hidden there is none
		a.SecondViews = grade.SecondViews(a.Checks)
	}
	for i := range a.Denied {
		a.Denied[i].Reason = w.Text(a.Denied[i].Reason)
	}
	for _, x := range scorecard.ReviewedCases(attempt.Reading().History, attempt.Attempt) {
		if x.Entry == c.Index {
			a.Reviewed = &x
			for i := range x.Labels {
				x.Labels[i].Note = w.Text(x.Labels[i].Note)
			}
		}
	}
	for _, row := range c.Corrections(attempt.ID) { // w is nil for an owner who asked
		if row.Kind == evidence.ScoreCorrectedKind {
			row.Reason = w.Text(row.Reason)
			a.Correction = &row
		}
	}
	if c.Amendment != nil {
		if err := a.amend(c); err != nil {
			return nil, err
		}
		a.Amendment.Reason, a.Amendment.Checks = w.Text(a.Amendment.Reason), w.Checks(a.Amendment.Checks)
	}
	if !c.On(history.AsRecorded).Passed() || !c.Passed() {
		if whole {
			a.Divergence = parted(c) // which hides by itself
		}
		if before, last := lastPassed(c); last != nil {
			a.LastPassed = before.ID
			a.Changed = append(a.Changed, changes(attempt.Reading().Dossier(before), attempt, last, c.Case)...)
		}
	}
	return a, nil
}

// openOrHide returns what hides the texts of a case, or adds the salt for an owner
// who asked to see them.
func openOrHide(c *dossier.Case, a *Why) (*dossier.Hider, error) {
	a.HeldOut = c.IsHeldOut()
	if !a.HeldOut || !c.Dossier().Reading().ShowsHeldOut() {
		return c.Hider()
	}
	salt, err := c.Salt()
	a.Salt = hex.EncodeToString(salt[:])
	return nil, err
}

// observed adds the tool calls that did not simply pass through the harness. It
// is a help to people: without the trajectory they are left out.
func observed(c *dossier.Case, a *Why) {
	v, err := c.Trajectory()
	if err != nil {
		return
	}
	for e := range v.Events() {
		if d, ok := e.Payload.(*trajectory.PolicyDecision); ok && d.Verdict == policy.Deny {
			a.Denied = append(a.Denied, WhyDenied{d.Name, e.Turn, d.Rule, d.Reason, changeOf(c.Dossier().Class, d)})
		}
	}
	view := trajectory.CallsOf(v)
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
		return "the approval was refused or never came: answer it in the approvals of the case, or at the terminal"
	case policy.RuleCall:
		return "the call itself could not be understood"
	}
	return fmt.Sprintf("the rule %q of policy in %s", d.Rule, file)
}

// amend adds the last amendment of a case.
func (a *Why) amend(c *dossier.Case) error {
	amended, checks, missing, err := c.AmendedTo()
	if err != nil {
		return err
	}
	a.Amendment = &Amendment{At: c.Amendment.Time, Was: c.On(history.AsRecorded), Author: amended.Author, Reason: amended.Reason, Passed: amended.Score.Passed, Score: amended.Score.Score, Raises: c.Raises(), Checks: checks}
	if missing != nil {
		a.Missing = missing.Error()
	}
	return nil
}

// lastPassed is the newest earlier attempt of the same class and target in
// which the case passed.
func lastPassed(c *dossier.Case) (*history.Attempt, *history.Case) {
	a, r := c.Dossier(), c.Dossier().Reading()
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
func changes(before, now *dossier.Dossier, was, is *history.Case) []Change {
	var out []Change
	add := func(what, a, b string) {
		if a != b {
			out = append(out, Change{What: what, Was: a, Now: b})
		}
	}
	add("the case", was.Digest.String(), is.Digest.String())
	add("the bench", before.Plan.BenchDigest.String(), now.Plan.BenchDigest.String())
	add("the registration", before.Plan.RegistrationDigest.String(), now.Plan.RegistrationDigest.String())
	if before.Plan.TargetDigest != now.Plan.TargetDigest {
		out = append(out, targetChanges(before, now)...)
	}
	add("the rubric", orNone(before.Plan.RubricDigest), orNone(now.Plan.RubricDigest))
	add("the cassette", orNone(was.Cassette), orNone(is.Cassette))
	add("the mode", before.Mode, now.Mode)
	if before.Plan.AgentRoot != nil {
		add("the root file system of the agent", digestedRoot(before.Plan.AgentRoot), digestedRoot(now.Plan.AgentRoot))
	}
	if was.Context != nil && is.Context != nil {
		add("the harness", was.Context.HarnessVersion, is.Context.HarnessVersion)
		add("the isolation", was.Context.Isolation, is.Context.Isolation)
	}
	return out
}

// maxChangeText bounds a text of a [Change].
const maxChangeText = 200

// targetChanges are the settings and files of the target that are not as they were; two
// digests only where nothing else is known.
func targetChanges(before, now *dossier.Dossier) []Change {
	var out []Change
	for _, p := range targetApart(before, now) {
		c := Change{What: "the target: " + p.What, Was: p.Was, Now: p.Now}
		switch {
		case p.Diff != nil:
			c.Was, c.Now = clipped(p.Diff.Was(), maxChangeText), clipped(p.Diff.Now(), maxChangeText)
			c.Diff = difference.Brief(p.Diff.Was(), p.Diff.Now())
		case c.Was == "" && c.Now == "":
			c.What += " (" + p.Note + ")"
			c.Was, c.Now = before.Plan.TargetDigest.String(), now.Plan.TargetDigest.String()
		}
		out = append(out, c)
	}
	return out
}

// digestedRoot tells a root apart from others of its kind.
func digestedRoot(r *evidence.Root) string {
	if r == nil || r.Digest == nil {
		return r.Text()
	}
	return string(r.Kind) + " " + r.Digest.String()
}

func orNone[T fmt.Stringer](d *T) string {
	if d == nil {
		return "none"
	}
	return (*d).String()
}

// parted tells where a case left its golden trace, or the run in which the same
// target last passed it; "" if there is neither. It is a help to people: what
// cannot be read is left out.
func parted(c *dossier.Case) string {
	a, r := c.Dossier(), c.Dossier().Reading()
	w, err := c.Hider()
	if err != nil {
		return ""
	}
	if golden, err := r.ReadGolden(a.Class, a.Target, c.ID); err == nil {
		if v, err := c.Trajectory(); err == nil {
			if d, err := outline.CheckGolden(golden, v, "", dossier.GoldenTrace); err == nil && !d.Equal() {
				return w.Text(d.Detail())
			}
		}
	}
	var passed *dossier.Case
	for _, earlier := range r.History.Attempts {
		if earlier.Class != a.Class || earlier.Target != a.Target || earlier.Index >= a.Index {
			continue
		}
		for x := range earlier.Cases() {
			if x.ID == c.ID && x.Digest == c.Digest && x.Passed() {
				passed = r.Dossier(earlier).Case(x)
			}
		}
	}
	if passed == nil {
		return ""
	}
	text, err := c.PartedFrom(passed)
	if err != nil {
		return ""
	}
	return text
}
