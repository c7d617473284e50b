package promote

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/vantage"
)

// Rules is the version of the rule book, docs/formats/promotion.md. Each change
// of what is recommended, or of the words it is given in, is a new one: a
// recommendation is counted again only by the rules that it was made by.
const Rules = 5

// None is what is recommended when the evidence does not carry the lowest tier.
const None bench.Tier = "none"

// A Recommendation is advice to people. The embedded record is what the ledger
// gets; the rest shows how it came about.
type Recommendation struct {
	evidence.Recommendation
	// NextTier is the lowest tier with a condition that is not met, "" if there
	// is none.
	NextTier bench.Tier `json:"next_tier,omitempty"`
	// Met says that every condition of every tier is met. Regressions can still
	// lower what is recommended.
	Met bool `json:"met"`
	// Tiers are all tiers, lowest first, each with what keeps the class from it.
	Tiers []TierCheck `json:"tiers"`

	BenchDigest  digest.ID       `json:"bench_digest"`
	Target       string          `json:"target,omitempty"`
	TargetDigest *digest.Content `json:"target_digest,omitempty"`
	Attempts     []string        `json:"attempts"` // under review
	Since        evidence.Time   `json:"since"`

	LowerBound95 float64 `json:"lower_bound_95"`
	Threshold    float64 `json:"threshold"`
	PassedCount  int     `json:"passed_count"`
	MinimumCases int     `json:"minimum_cases"`
	Cases        int     `json:"cases"` // distinct, in the denominator

	// Unmet are the conditions that keep the class from the next tier, and
	// what lowers the recommendation. Notes are what a person should know
	// besides. The rationale is both.
	Unmet []string `json:"unmet"`
	Notes []string `json:"notes"`
}

// Recommend advises on the tier of a class. It decides nothing: the result says
// itself that people must approve.
func Recommend(in Input) (*Recommendation, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	r, err := newReview(&in)
	if err != nil {
		return nil, err
	}
	samples := r.samples()
	rec := &Recommendation{
		Recommendation: evidence.Recommendation{Class: in.Bench.Class(), CurrentTier: string(r.reg.CurrentTier), RequiresHumanApproval: true, Rules: Rules, WindowDays: r.days, Outside: in.Outside},
		BenchDigest:    in.Bench.Digest(), Target: r.target, Since: evidence.At(r.begin), Cases: len(samples), Attempts: []string{}, Unmet: []string{}, Notes: []string{},
	}
	if r.digest != (digest.Content{}) {
		rec.TargetDigest = &r.digest
	}
	for _, a := range r.attempts {
		rec.Attempts = append(rec.Attempts, a.ID)
	}
	r.measure(rec, samples)
	r.highestTier(rec, samples)
	rec.Notes = append(rec.Notes, r.windowNote(), r.outsideNote())
	rec.Notes = append(rec.Notes, r.notes(asked(rec), samples)...)
	rec.Evidence = r.entries(samples)
	if rec.Rationale = slices.Concat(rec.Unmet, rec.Notes); len(rec.Unmet) == 0 {
		rec.Rationale = append([]string{"all conditions met"}, rec.Notes...)
	}
	return rec, nil
}

// unmet lists every condition of the tier that does not hold, not only the
// first: people want to know all that is left to do.
func (r *review) unmet(rec *Recommendation, tier bench.Tier) []string {
	unmet := []string{}
	add := func(format string, args ...any) { unmet = append(unmet, fmt.Sprintf(format, args...)) }

	if level := r.in.Bench.Level(); level != string(bench.Signed) {
		add("the class is %s: nobody has signed it", level)
	}
	if last := r.in.History.Time.Go(); last.Sub(r.in.Now) > clockTolerance {
		add("the ledger's last entry is of %s, after now (%s): a clock was set wrong", stamp(last), stamp(r.in.Now))
	}
	if len(r.attempts) == 0 {
		add("no attempt in the window counts")
	}

	if threshold := r.reg.Threshold(tier).LowerBound95; rec.LowerBound95 < threshold {
		add("lower_bound_95=%.3f < threshold[%s]=%.3f", rec.LowerBound95, tier, threshold)
	}
	if least := r.reg.Minimum(tier); rec.PassedCount < least {
		add("passed_count=%d < minimum_cases[%s]=%d", rec.PassedCount, tier, least)
	}
	for _, code := range r.blockCodes() {
		add("block-severity failure: %s", code)
	}
	for _, e := range r.blocked() {
		add("block-severity integrity event: %s (entry %d)", e.Name, e.Index)
	}
	if n, ids := r.violated(); n > 0 {
		add("policy_violations=%d, in %s", n, names(ids))
	}
	if n := r.unwatched(); n != nil {
		add("policy_violations of %s cannot be seen: %s", counted(n.Tasks, "task", "tasks"), n.Reason)
	}
	if mixed := r.mixed(); mixed != "" {
		add("isolation_class mismatch in evidence window: %s", mixed)
	}
	for _, a := range r.attempts {
		if a.Finished == nil {
			add("attempt %s was registered at entry %d and never finished", a.ID, a.Index)
		}
		for _, p := range a.Problems {
			add("attempt %s: %s", a.ID, p)
		}
	}
	if stale := r.stale(); len(stale) > 0 {
		add("%d of %d cases were last validated more than %d days ago: %s", len(stale), len(r.in.Bench.Cases()), int(MaxCaseAge.Hours()/24), names(stale))
	}
	unmet = append(unmet, r.anchorProblems(tier)...)
	if tier != bench.Bronze {
		unmet = append(unmet, r.reproductionProblems()...)
		unmet = append(unmet, r.rootProblems()...)
		unmet = append(unmet, r.endpointProblems()...)
	}
	if rank(tier) > rank(bench.Silver) {
		unmet = append(unmet, r.outsideProblems(tier)...)
		unmet = append(unmet, r.liveProblems(tier)...)
	}
	return unmet
}

// blockCodes lists the failure modes under review that block, sorted.
func (r *review) blockCodes() []string {
	found := make(map[string]bool)
	for _, a := range r.attempts {
		for c := range a.Cases() {
			for _, mode := range c.FailureModes() {
				if grade.SeverityOf(mode, r.reg) == evidence.Block {
					found[mode] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// violated counts the policy violations under review, and lists their cases. An
// agent that tried what it may not is not one to trust further, whether or not
// it answered right.
func (r *review) violated() (count int, ids []string) {
	for _, a := range r.attempts {
		for c := range a.Cases() {
			if c.Violations > 0 {
				count += int(c.Violations)
				ids = append(ids, c.ID)
			}
		}
	}
	slices.Sort(ids)
	return count, slices.Compact(ids)
}

// unwatched says of how many tasks under review violations cannot all be seen: none
// that was seen is not none.
func (r *review) unwatched() *scorecard.NotSeen {
	tasks := map[vantage.Vantage]int{}
	for _, a := range r.attempts {
		for c := range a.Cases() {
			if c.Index >= 0 {
				tasks[vantage.Vantage(c.Context.Vantage)]++
			}
		}
	}
	return scorecard.Unseen(vantage.Metric, string(bench.PolicyViolations), tasks, vantage.Partly)
}

// mixed counts the sandbox classes under review if there is more than one.
func (r *review) mixed() string {
	count := make(map[string]int)
	for _, a := range r.attempts {
		for c := range a.Cases() {
			if c.Index >= 0 && c.Context.Isolation != "builtin" {
				count[c.Context.Isolation]++
			}
		}
	}
	if len(count) < 2 {
		return ""
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s=%d", class, count[class]))
	}
	return strings.Join(parts, ", ")
}

// stale lists the cases that no curator has looked at for too long. A date in the
// future does not count.
func (r *review) stale() []string {
	var ids []string
	for _, c := range r.in.Bench.Cases() {
		said := c.Case()
		age := r.in.Now.Sub(said.Provenance.LastValidatedAt.Go())
		if age > MaxCaseAge || age < -clockTolerance {
			ids = append(ids, said.CaseID)
		}
	}
	return ids
}

// rootProblems asks that what ran, and what tested it, found a root file system that
// a digest names. The programs of a machine are in no digest: an operator who puts others in
// their place changes every result and no record.
func (r *review) rootProblems() []string {
	var agents, tests, worlds, problems []string
	for _, a := range r.attempts {
		if runsCommand(a.Attempt) && !a.Plan.AgentRoot.IsImage() {
			agents = append(agents, a.ID)
		}
		if a.Plan.TestRoot != nil && !a.Plan.TestRoot.IsImage() {
			tests = append(tests, a.ID)
		}
		if a.Plan.WorldOnHost() {
			worlds = append(worlds, a.ID)
		}
	}
	if len(agents) > 0 {
		problems = append(problems, "agent_root is host or not recorded: the agent ran on a machine's own programs, which no digest names; name an image by its digest in the target (docs/agents.md) and run it again: "+names(agents))
	}
	if len(tests) > 0 {
		problems = append(problems, "test_root is host: the tests of cases ran on a machine's own programs, which no digest names; name an image by its digest as test_image in tally.yaml and run it again: "+names(tests))
	}
	if len(worlds) > 0 {
		problems = append(problems, "world_roots has host: the worlds of cases ran on a machine's own programs, which no digest names; name an image by its digest in world.image of the scenarios and run it again: "+names(worlds))
	}
	return problems
}

// runsCommand reports whether the agent of an attempt is a program of its own that
// was run here.
func runsCommand(a *history.Attempt) bool {
	if a.Plan.AgentRoot != nil {
		return true
	}
	for c := range a.Cases() {
		if c.Index >= 0 && (c.Context.Vantage == "gateway" || c.Context.AgentIsolation != "" && c.Context.AgentIsolation != "remote") {
			return true
		}
	}
	return false
}

// regressed lists the cases that the newest finished attempt under review did
// not solve and an earlier one of the same target did, whichever version of it.
func (r *review) regressed() []string {
	var newest *attempt
	for i := range r.attempts {
		if r.attempts[i].Finished != nil {
			newest = &r.attempts[i]
		}
	}
	if newest == nil {
		return nil
	}
	solved := make(map[string]bool)
	for _, a := range r.in.History.Attempts {
		if a.Class != newest.Class || a.Target != newest.Target || a.Scratch || a.Index >= newest.Index {
			continue
		}
		for c := range a.Cases() {
			if c.Uncorrected() == evidence.Passed { // corrections make no regression, and hide none
				solved[c.ID+" "+c.Digest.String()] = true
			}
		}
	}
	var ids []string
	for _, c := range r.cases() {
		if solved[c.id+" "+c.digest.String()] && !solvedNow(newest.cases[c.id]) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

func solvedNow(cases []*history.Case) bool {
	return len(cases) > 0 && !slices.ContainsFunc(cases, func(c *history.Case) bool { return c.Uncorrected() != evidence.Passed })
}

// missed lists the incidents of the window that are not yet a case that the
// agent passes.
func (r *review) missed(samples []sample) []string {
	if len(r.in.History.Pending) == 0 {
		return nil
	}
	passed := make(map[string]bool)
	for _, s := range samples {
		for _, id := range strings.Split(s.id, " = ") {
			passed[id] = s.passed
		}
	}
	var ids []string
	for _, p := range r.in.History.Pending {
		_, late := r.clock.span(p.Index, p.Time.Go())
		if p.Class == r.in.Bench.Class() && !late.Before(r.begin) && !passed[p.CaseID] && !slices.Contains(ids, p.CaseID) {
			ids = append(ids, p.CaseID)
		}
	}
	return ids
}

// windowNote tells how far back the evidence reaches, and who says so.
func (r *review) windowNote() string {
	signed := cmp.Or(r.reg.PromotionWindowDays, DefaultWindowDays)
	switch {
	case r.days != signed:
		return fmt.Sprintf("the window is %d days because whoever asked chose it; the registration says %d", r.days, signed)
	case r.reg.PromotionWindowDays != 0:
		return fmt.Sprintf("the window is %d days, as the registration says", r.days)
	}
	return fmt.Sprintf("the window is %d days, the default", r.days)
}

// notes tells what was looked at, what was not, and why cases count as failed.
func (r *review) notes(tier bench.Tier, samples []sample) []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if len(r.attempts) > 0 {
		var ids []string
		for _, a := range r.attempts {
			ids = append(ids, fmt.Sprintf("%s (attempt %d of %d, %s)", a.ID, a.Ordinal, a.Siblings, a.Level))
		}
		add("under review since %s: target %s %s: %s", stamp(r.begin), r.target, r.digest, names(ids))
	}
	notes = append(notes, r.targetNotes()...)
	for _, why := range slices.Sorted(maps.Keys(r.left)) {
		add("%s, %s: %s", counted(len(r.left[why]), "attempt does not count", "attempts do not count"), why, names(r.left[why]))
	}
	failed := make(map[string][]string)
	raised, light := 0, 0
	for _, s := range samples {
		if !s.passed {
			failed[s.why] = append(failed[s.why], s.id)
		} else if s.said == nil {
			light++
		}
		if s.record != nil && s.record.Raises() {
			raised++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(failed)) {
		add("%s as failed, %s: %s", counted(len(failed[why]), "case counts", "cases count"), why, names(failed[why]))
	}
	if light > 0 {
		add("passed_count leaves out %s", counted(light, "line of the dataset that passed: nobody says when it was last validated", "lines of the dataset that passed: nobody says when they were last validated"))
	}
	notes = append(notes, r.correctionNotes(samples)...)
	if raised > 0 {
		add("%s", counted(raised, "amendment that raises a score is ignored", "amendments that raise a score are ignored"))
	}
	if !r.reg.Threshold(tier).Calibrated {
		add("the threshold was not derived from data")
	}
	if len(r.reg.Origins) == 0 {
		add("the registration names no ledger: a fresh one would start again at attempt 1")
	}
	return notes
}

// targetNotes tells of every other target and version of the window that it is
// not under review, and which attempt put another in its place.
func (r *review) targetNotes() []string {
	type version struct{ target, digest string }
	attempts := make(map[version][]string)
	var order []version
	for _, a := range r.superseded {
		v := version{a.Target, a.Plan.TargetDigest.String()}
		if attempts[v] == nil {
			order = append(order, v)
		}
		attempts[v] = append(attempts[v], a.ID)
	}
	var notes []string
	for _, v := range order {
		ids := attempts[v]
		notes = append(notes, fmt.Sprintf("target %s %s is not under review with %s: %s; a newer finished attempt is of target %s %s",
			v.target, v.digest, counted(len(ids), "finished attempt", "finished attempts"), names(ids), r.target, r.digest))
	}
	return notes
}

// correctionNotes tells of each corrected case which score counts.
func (r *review) correctionNotes(samples []sample) []string {
	var notes []string
	for _, s := range samples {
		if s.record == nil || s.record.Correction == nil {
			continue
		}
		counts := "the lower counts"
		switch k := s.record.Correction; {
		case k.Raises() && r.blocks(s.record):
			counts = "the record has a block-severity failure, so the lower counts"
		case k.ByTwo():
			counts = "two people signed, one of them security, so it counts"
		}
		notes = append(notes, fmt.Sprintf("case %s: %s; %s", s.id, s.record.Correction.Text(), counts))
	}
	return notes
}

// entries lists the ledger entries that decided: the attempts under review,
// who ran them again, from the recordings or live, and for each case the record
// that counts.
func (r *review) entries(samples []sample) []int64 {
	found := []int64{}
	for _, a := range r.attempts {
		found = append(found, a.Index)
		if a.Finished != nil {
			found = append(found, a.Finished.Index)
		}
		for _, x := range a.Reproductions {
			found = append(found, x.Index)
		}
	}
	for _, l := range r.live {
		if l.why == "" {
			found = append(found, l.Index, l.Finished.Index)
		}
	}
	for _, s := range samples {
		if s.record != nil {
			found = append(found, s.record.Index)
			if s.record.Amendment != nil {
				found = append(found, s.record.Amendment.Index)
			}
			if s.record.Correction != nil {
				found = append(found, s.record.Correction.Index, s.record.Correction.Last())
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
