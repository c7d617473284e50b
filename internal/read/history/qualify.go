package history

import (
	"fmt"
	"slices"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/vantage"
)

// A Qualification is something that a reader must know beside a number: how it
// was come by, or what is missing from it.
type Qualification struct {
	Name string `json:"name"`
	// Tasks is of how many tasks it is true; 0 if it is said of a whole attempt.
	Tasks int    `json:"tasks,omitempty"`
	Text  string `json:"text"`
	// Reused is how many replies came from the library, in all records.
	Reused int64 `json:"reused,omitempty"`
}

// The qualifications, in the order in which they are said. Those of a whole
// attempt come first.
const (
	QualScratch      = "scratch"
	QualFiltered     = "filtered"
	QualReduced      = "reduced"
	QualStopped      = "stopped_early"
	QualFloor        = "floor"
	QualUnfinished   = "unfinished"
	QualMounts       = "mounts_not_digested"
	QualHostRoot     = "host_root"
	QualNormalisers  = "target_normalisers"
	QualReplies      = "replies_cached"
	QualReused       = "replies_reused"
	QualReplayed     = "replayed"
	QualNormalised   = "normalised"
	QualAuthored     = "authored"
	QualEdited       = "edited"
	QualUnsandboxed  = "unsandboxed"
	QualReported     = "reported"
	QualJudged       = "judged"
	QualCached       = "cached"
	QualCalibrated   = "judge_calibrated"
	QualStale        = "judge_calibration_stale"
	QualUncalibrated = "judge_not_calibrated"
	QualCorrected    = "corrected"
	QualCostUnknown  = "cost_unknown"
	QualUnpriced     = "calls_unpriced"
	QualUnscored     = "unscored"
	QualNotRun       = "not_run"
)

// saidOfTasks is what each qualification of tasks means, in words.
var saidOfTasks = []struct{ name, words string }{
	{QualReplayed, "replayed from a recording: the cost is the recorded one, not paid now"},
	{QualNormalised, "answered by a recording whose request differs in what normalisers leave out"},
	{QualAuthored, "answered by replies that a person wrote: this says nothing about a model"},
	{QualEdited, "replayed from a recording that was edited, or that this ledger has no entry of"},
	{QualUnsandboxed, "run by an agent without a sandbox, which may have done more than was seen"},
	{QualReported, "run in the process that asked for them: answers, and scores of its own functions, are as that process reported them"},
	{QualJudged, "judged by a model"},
	{QualCached, "judged by a verdict that was not drawn in this attempt: cached, recorded or authored"},
	{QualCorrected, "corrected after the run"},
	{QualCostUnknown, "of unknown cost: the agent's model calls could not be seen, or the record does not tell which of them had a price"},
	{QualUnpriced, "with calls that have no price or no usage: the cost is at least what is shown"},
	{QualUnscored, "without a score"},
	{QualNotRun, "not run"},
}

// Qualify says what must be known beside the numbers of some attempts. Every
// writer of numbers asks it, so that all say the same.
func Qualify(attempts ...*Attempt) []Qualification {
	var said []Qualification
	counts, total := make(map[string]int), 0
	whole, cached, reused := make(map[string]int), Cached{}, Reused{}
	how := make(map[string]string) // more about the one attempt
	for _, a := range attempts {
		for _, name := range a.labels() {
			whole[name]++
		}
		how[QualFiltered], how[QualReduced] = a.Plan.Selection.Text(a.Plan.CaseCount), a.Plan.ReducedText()
		if a.Stop != nil {
			how[QualStopped] = a.Stop.Text()
		}
		if !a.Kept {
			continue
		}
		total += a.Tasks()
		counts[QualNotRun] += a.Unlisted()
		for c := range a.Cases() {
			for _, name := range a.QualificationsOf(c) {
				counts[name]++
			}
			if c.Cached != nil {
				cached.Calls, cached.Replies = cached.Calls+c.Cached.Calls, cached.Replies+c.Cached.Replies
			}
			if c.Reused != nil {
				reused.Replies, reused.Unlisted = reused.Replies+c.Reused.Replies, reused.Unlisted+c.Reused.Unlisted
			}
		}
	}
	for _, l := range []struct{ name, one, many string }{
		{QualScratch, "scratch: nobody vouches for the bench or the ledger", "%d attempts are scratch: nobody vouches for their bench or ledger"},
		{QualFiltered, "filtered: only some cases of the bench were selected", "%d attempts are filtered: only some cases of the bench were selected"},
		{QualReduced, "reduced: the repetitions of a case make one outcome", "%d attempts are reduced: the repetitions of a case make one outcome"},
		{QualStopped, "stops early: the answer to its registered question is the result, and the solve rate is a biased estimate", "%d attempts stop early: the answer to the registered question is the result, and the solve rate is a biased estimate"},
		{QualUnfinished, "unfinished: the attempt did not come to its end", "%d attempts did not come to their end"},
		{QualMounts, "mounts not digested: nobody knows what the agent found there", "%d attempts have mounts that were not digested: nobody knows what the agent found there"},
		{QualHostRoot, "host root: the agent or its tests ran on a machine's own programs, which no digest names, so the attempt counts for bronze at most", "%d attempts ran on a machine's own programs, which no digest names, so they count for bronze at most"},
		{QualNormalisers, "normalisers of the target: nobody signed for what they leave out of requests, so the attempt never counts for promotion", "%d attempts used normalisers of their target, which nobody signed for: they never count for promotion"},
	} {
		switch n := whole[l.name]; {
		case n == 1 && len(attempts) == 1 && how[l.name] != "":
			said = append(said, Qualification{Name: l.name, Text: l.one + ": " + how[l.name]})
		case n == 1:
			said = append(said, Qualification{Name: l.name, Text: l.one})
		case n > 1:
			said = append(said, Qualification{Name: l.name, Text: fmt.Sprintf(l.many, n)})
		}
	}
	said = append(said, qualifyFloors(attempts)...)
	if cached.Replies > 0 {
		said = append(said, Qualification{Name: QualReplies, Tasks: counts[QualReplies], Text: fmt.Sprintf("live, %d of %d replies from the cache: what was recorded once is one sample", cached.Replies, cached.Calls)})
	}
	if reused.Replies > 0 {
		said = append(said, Qualification{Name: QualReused, Tasks: counts[QualReused], Text: reused.text(), Reused: reused.Replies})
	}
	for _, q := range saidOfTasks {
		if n := counts[q.name]; n > 0 {
			said = append(said, Qualification{Name: q.name, Tasks: n, Text: fmt.Sprintf("%d of %d tasks %s", n, total, q.words)})
		}
	}
	return append(said, qualifyJudges(attempts)...)
}

// text says what the library answered.
func (r Reused) text() string {
	text := "1 reply"
	if r.Replies > 1 {
		text = fmt.Sprintf("%d replies", r.Replies)
	}
	text += " reused from the library: drawn before, perhaps for another target or class"
	if r.Unlisted > 0 {
		text += fmt.Sprintf("; %d of them not in this ledger: nothing here shows that a model gave them", r.Unlisted)
	}
	return text
}

// qualifyFloors says what null answers score in the classes of some attempts, each thing
// once.
func qualifyFloors(attempts []*Attempt) []Qualification {
	var said []Qualification
	for _, a := range attempts {
		f := a.Plan.Floor
		if f == nil {
			continue
		}
		q := Qualification{Name: QualFloor, Text: fmt.Sprintf("floor of %s: %s, as its registration states", a.Class, f.Text())}
		if f.Weak() {
			q.Text += ": the class tests next to nothing"
		}
		if !slices.Contains(said, q) {
			said = append(said, q)
		}
	}
	return said
}

// qualifyJudges says how the judges of some attempts stand, each thing once.
func qualifyJudges(attempts []*Attempt) []Qualification {
	var said []Qualification
	for _, a := range attempts {
		s := a.Judge()
		if s == nil {
			continue
		}
		q := Qualification{Name: map[JudgeState]string{Calibrated: QualCalibrated, Stale: QualStale, Uncalibrated: QualUncalibrated}[s.State], Text: s.Text()}
		if !slices.Contains(said, q) {
			said = append(said, q)
		}
	}
	return said
}

// labels are the qualifications of the attempt as a whole.
func (a *Attempt) labels() []string {
	var names []string
	for _, l := range []struct {
		is   bool
		name string
	}{{a.Level == Scratch, QualScratch}, {a.Plan.Filtered, QualFiltered}, {a.Plan.Reduce != "", QualReduced}, {a.Plan.StopEarly != nil, QualStopped}, {a.Finished == nil, QualUnfinished}, {len(a.Plan.Undigested()) > 0, QualMounts}, {a.Level != Scratch && a.Plan.OnHost(), QualHostRoot}, {len(a.Plan.TargetNormalisers()) > 0, QualNormalisers}} {
		if l.is {
			names = append(names, l.name)
		}
	}
	return names
}

// QualificationsOf names what must be known beside the numbers of one task of the
// attempt.
func (a *Attempt) QualificationsOf(c *Case) []string {
	if c.Index < 0 {
		return []string{QualNotRun}
	}
	x := c.Context
	var names []string
	for _, q := range []struct {
		is   bool
		name string
	}{
		{a.Mode == "replay" && c.Provenance() == "recorded", QualReplayed},
		{c.Cached != nil && c.Cached.Replies > 0, QualReplies},
		{c.Reused != nil, QualReused},
		{x.ByClassNormalisers || x.ByTargetNormalisers, QualNormalised},
		{c.Provenance() == "authored", QualAuthored},
		{c.Provenance() == "edited", QualEdited},
		{x.AgentIsolation == "none", QualUnsandboxed},
		{vantage.Of(x.Vantage) == vantage.Reported, QualReported},
		{x.JudgedByModel, QualJudged},
		{x.JudgedByModel && !a.drawnFor[c.ID] && !a.asksOnlyForVectors(), QualCached},
		{c.Amendment != nil || c.Correction != nil, QualCorrected},
		{c.Cost.Untold > 0, QualCostUnknown},
		{c.Cost.Unpriced > 0, QualUnpriced},
		{!c.IsScored() && c.Outcome() != evidence.Skipped, QualUnscored},
	} {
		if q.is {
			names = append(names, q.name)
		}
	}
	return names
}

// Provenance is where the replies of the model came from: recorded, edited or
// authored; "" if a model gave them. An agent behind a URL does not see those of
// the case.
func (c *Case) Provenance() string {
	if c.Index < 0 || c.Sees(vantage.ModelCalls).Sight == vantage.Not {
		return ""
	}
	return c.Context.Provenance
}

// Sees says how much of a matter the vantage of the record shows. Of what was not
// run everything is seen: nothing happened.
func (c *Case) Sees(m vantage.Matter) vantage.View {
	if c.Index < 0 {
		return vantage.View{Sight: vantage.Seen}
	}
	return vantage.Of(c.Context.Vantage).Sees(m)
}

// asksOnlyForVectors reports whether the models that grade a live attempt give vectors
// and no verdicts, which are never drawn from a cache: each is asked for and is in the
// evidence.
func (a *Attempt) asksOnlyForVectors() bool { return a.Mode == "live" && a.Plan.JudgeDigest == nil }
