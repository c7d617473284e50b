package promote

import (
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// recorded is the entry of a recording, if it was made from live models and kept, before
// an entry; nil otherwise. The last word about a digest counts.
func (r *review) recorded(d digest.Content, before int64) *history.Tape {
	var last *history.Tape
	for _, t := range r.recordings[d] {
		if t.Index < before {
			last = t
		}
	}
	if last == nil || !last.Kept || last.Provenance != "recorded" {
		return nil
	}
	return last
}

// recordingProblem says why a recording does not show what a model can do. Who answered
// is what the operator's machine saw; which servers are a model's is for the two people
// to say who sign the registration. Without their list a recording still counts for
// bronze (see endpointProblems), unless a local server made it: that may be the operator
// himself.
func (r *review) recordingProblem(t *history.Tape) string {
	if t == nil {
		return "no cassette.recorded entry names its cassette"
	}
	listed := len(r.reg.ModelEndpoints) > 0
	if listed && t.Unnamed() {
		return "replies of its recording name no endpoint, so they may be of a server that model_endpoints does not list: record it again"
	}
	for _, u := range t.Endpoints {
		if (listed || u.Endpoint.Local) && !r.reg.ListsEndpoint(u.Endpoint) {
			return "recorded from " + u.Endpoint.Text() + ", which model_endpoints of the registration does not list"
		}
	}
	return ""
}

// endpointProblems asks for a list of servers if recordings of models are under review.
func (r *review) endpointProblems() []string {
	if len(r.reg.ModelEndpoints) > 0 || !r.replaysModels() {
		return nil
	}
	found := []string{}
	for _, t := range r.tapes() {
		for _, u := range t.Endpoints {
			found = append(found, u.Endpoint.Text())
		}
		if t.Unnamed() {
			found = append(found, "an endpoint that the recording does not name")
		}
	}
	slices.Sort(found)
	return []string{fmt.Sprintf("the registration has no model_endpoints, so recordings of models count for bronze at most; these came from %s: list in registration.yaml the servers that are the model's, and have two people sign it",
		names(slices.Compact(found)))}
}

// tapes are the recordings that the attempts under review replayed.
func (r *review) tapes() (all []*history.Tape) {
	for _, a := range r.attempts {
		for c := range a.Cases() {
			if c.Index < 0 || c.Cassette == nil {
				continue
			}
			if t := r.recorded(*c.Cassette, a.Index); t != nil {
				all = append(all, t)
			}
		}
	}
	return all
}

// replaysModels reports whether recorded replies of models are under review.
func (r *review) replaysModels() bool {
	return slices.ContainsFunc(r.tapes(), func(t *history.Tape) bool { return t.ModelCalls == nil || *t.ModelCalls > 0 })
}

// A liveRun is a live attempt of the class: why it is not a reproduction of what is
// under review, or how well it did.
type liveRun struct {
	*history.Attempt
	why   string
	bound float64 // lower bound of its mean score
}

// liveRuns looks at the live attempts of the class, if models are replayed.
func (r *review) liveRuns() (all []liveRun) {
	if !r.replaysModels() {
		return nil
	}
	for _, a := range r.in.History.Attempts {
		if a.Class == r.in.Bench.Class() && a.Mode == "live" {
			why, bound := r.liveBound(a)
			all = append(all, liveRun{a, why, bound})
		}
	}
	return all
}

// reproducedLive is the first live reproduction that got as much as the tier wants, nil
// if none did.
func (r *review) reproducedLive(tier bench.Tier) *history.Attempt {
	for _, l := range r.live {
		if l.why == "" && l.bound >= r.reg.Threshold(tier).LowerBound95 {
			return l.Attempt
		}
	}
	return nil
}

// liveProblems asks, where models are replayed, that another runner has asked the models
// live and got as much as the tier wants. A second replay of the same recording shows
// that the grading is honest, and nothing about the recording.
func (r *review) liveProblems(tier bench.Tier) []string {
	if !r.replaysModels() {
		return nil
	}
	var below, others []string
	for _, l := range r.live {
		switch wants := r.reg.Threshold(tier).LowerBound95; {
		case l.why != "":
			others = append(others, fmt.Sprintf("live attempt %s does not count as a reproduction: %s", l.ID, l.why))
		case l.bound < wants:
			below = append(below, fmt.Sprintf("live attempt %s by another runner has lower_bound_95=%.3f < threshold[%s]=%.3f", l.ID, l.bound, tier, wants))
		}
	}
	if r.reproducedLive(tier) != nil {
		return below
	}
	return append(append(below, others...), fmt.Sprintf("no other runner has reproduced it live, which %s needs: another operator runs the class with --live, against the servers of model_endpoints", tier))
}

// liveBound is the lower bound of the mean score of a live attempt by another runner, or
// why it is not a reproduction.
func (r *review) liveBound(a *history.Attempt) (why string, bound float64) {
	early, _ := r.clock.span(a.Index, a.Time.Go())
	switch why := r.leaves(a, "live"); {
	case why != "":
		return why, 0
	case a.Finished == nil:
		return "it never finished", 0
	case a.Target != r.target || a.Plan.TargetDigest != r.digest:
		return "of another target or version of it", 0
	case a.Plan.Replies != nil:
		return "it was told to use replies that were recorded before", 0
	case early.Before(r.begin):
		return "before the window", 0
	case slices.ContainsFunc(r.attempts, func(o attempt) bool { return o.Key == a.Key || o.Operator == a.Operator }):
		return "by a runner of the attempts under review", 0
	}
	cases, recordings := byID(a), r.recordingsByCase()
	scores := []float64{}
	for _, s := range r.cases() {
		score := 0.0
		for i, c := range cases[s.id] {
			if worth := r.liveScore(a, c, s, recordings[s.id]); i == 0 || worth < score {
				score = worth
			}
		}
		scores = append(scores, score)
	}
	bound, _ = scorecard.BCa(scores, scorecard.Seed)
	return "", bound
}

// liveScore is what a case of a live attempt is worth: nothing unless the models of the
// registration answered, and nothing else is wrong with it. Recordings are those of the
// case; the record of a live case comes after that of its recording.
func (r *review) liveScore(a *history.Attempt, c *history.Case, s sample, recordings []*history.Tape) float64 {
	outcome, score := r.promoted(c)
	if c.Index < 0 || outcome != evidence.Passed || c.Started > 1 || c.Digest != s.digest || c.Violations > 0 || amendedAgain(c) ||
		c.Cached != nil && c.Cached.Replies > 0 || r.workerProblem(c) != "" || r.isolationProblem(c.Context) != "" {
		return 0
	}
	named := false
	for _, t := range recordings {
		if t.Index < a.Index || t.Index > c.Index {
			continue
		}
		if named = true; t.Provenance != "recorded" || r.recordingProblem(t) != "" {
			return 0
		}
	}
	if !named { // no entry says which servers answered
		return 0
	}
	return score
}

func (r *review) recordingsByCase() map[string][]*history.Tape {
	all := make(map[string][]*history.Tape)
	for _, tapes := range r.recordings {
		for _, t := range tapes {
			all[t.CaseID] = append(all[t.CaseID], t)
		}
	}
	return all
}
