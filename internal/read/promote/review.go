package promote

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/vantage"
)

// A review is what a recommendation looks at.
type review struct {
	in    *Input
	reg   bench.Registration
	clock clock
	days  int
	begin time.Time
	keys  []string // fingerprints of the pinned runners; none pins none

	// under review, in the order of the ledger
	attempts []attempt
	target   string
	digest   digest.Content

	recordings map[digest.Content][]*history.Tape // of the class, in the order of the ledger

	live []liveRun // of the class, in the order of the ledger

	left map[string][]string // why an attempt does not count to the ids
	// superseded are finished attempts that count and are of another version
	// of the agent.
	superseded []*history.Attempt
}

// An attempt is one under review.
type attempt struct {
	*history.Attempt
	cases    map[string][]*history.Case
	evidence *dossier.Whole
	// fresh says that it surely lies in the window. If it only may, it counts
	// against and not for.
	fresh bool
}

func newReview(in *Input) (*review, error) {
	reg := in.Bench.Registration()
	days := cmp.Or(in.WindowDays, reg.PromotionWindowDays, DefaultWindowDays)
	r := &review{in: in, reg: reg, clock: newClock(in.Anchors), days: days, begin: in.Now.Add(-Window(days)), left: make(map[string][]string), recordings: make(map[digest.Content][]*history.Tape)}
	for i := range in.History.Tapes {
		if t := &in.History.Tapes[i]; t.Class == in.Bench.Class() {
			r.recordings[t.Digest] = append(r.recordings[t.Digest], t)
		}
	}
	for _, line := range r.reg.RunnerKeys {
		key, err := seal.ParsePublicKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("registration of %s: runner_keys: %w", in.Bench.Class(), err)
		}
		r.keys = append(r.keys, key.Fingerprint())
	}
	var count []attempt
	for _, a := range in.History.Attempts {
		if a.Class != in.Bench.Class() {
			continue
		}
		if why := r.leaves(a, "replay"); why != "" {
			r.left[why] = append(r.left[why], a.ID)
			continue
		}
		early, _ := r.clock.span(a.Index, a.Time.Go())
		count = append(count, attempt{Attempt: a, cases: byID(a), fresh: !early.Before(r.begin)})
	}
	r.choose(count)
	for i := range r.attempts {
		whole, err := in.Evidence(r.attempts[i].Attempt)
		if err != nil {
			return nil, err
		}
		r.attempts[i].evidence = whole
	}
	r.live = r.liveRuns()
	return r, nil
}

// Window is how long so many days are.
func Window(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

// choose puts under review the attempts by the newest version of the agent, and
// all that were never finished: an operator who sees a run go badly and kills it must
// not get rid of it by changing a word in the agent's settings.
func (r *review) choose(count []attempt) {
	newest := -1
	for i, a := range count {
		if a.Finished != nil || newest < 0 || count[newest].Finished == nil {
			newest = i
		}
	}
	if newest < 0 {
		return
	}
	r.target, r.digest = count[newest].Target, count[newest].Plan.TargetDigest
	for _, a := range count {
		if a.Finished == nil || a.Target == r.target && a.Plan.TargetDigest == r.digest {
			r.attempts = append(r.attempts, a)
		} else {
			r.superseded = append(r.superseded, a.Attempt)
		}
	}
}

// leaves says why an attempt does not count, neither for nor against. Each of
// these is fixed before the first case runs, or, as the last one, chosen by the
// machine it runs on. Mode is how the models of attempts that count are answered.
func (r *review) leaves(a *history.Attempt, mode string) string {
	b := r.in.Bench
	_, late := r.clock.span(a.Index, a.Time.Go())
	switch {
	case a.Scratch:
		return "scratch attempt"
	case a.Origin != r.in.History.Origin:
		return "registered for another ledger"
	case a.Signer == "":
		return "not signed by an operator in force"
	case a.Plan.BenchDigest != b.Digest():
		return "of another bench digest"
	case a.Plan.RegistrationDigest != b.RegistrationDigest():
		return "of another registration"
	case a.Plan.Filtered:
		return "run with a case or tag filter"
	case a.Plan.Reduce != "":
		return "run with --reduce"
	case a.Plan.StopEarly != nil:
		return "run with --stop-early"
	case a.Mode != mode && mode == "replay":
		return "run live: its replies are in nothing that two people signed"
	case len(r.reg.Origins) > 0 && !slices.Contains(r.reg.Origins, a.Origin):
		return "in a ledger that the registration does not name"
	case len(a.Plan.Undigested()) > 0:
		return "with mounts that were not digested"
	case len(a.Plan.TargetNormalisers()) > 0:
		return "with normalisers that only its target names"
	case a.Pin == history.OtherPinned:
		return "in a ledger that bench/digests.yaml does not name, or that was begun anew"
	case a.Examples:
		return "of a bench that example signers may have signed"
	case !r.pinned(a.Key):
		return "run with a key that the registration does not name"
	case late.Before(r.begin):
		return "before the window"
	case r.weak(a):
		return "run without an accepted isolation"
	}
	return ""
}

// pinned reports whether the registration lets this runner count.
func (r *review) pinned(key string) bool { return len(r.keys) == 0 || slices.Contains(r.keys, key) }

// weak reports whether an attempt has records and none of them an accepted
// isolation, as on a machine that has no other. If only some have, those others
// count as failed.
func (r *review) weak(a *history.Attempt) bool {
	records := 0
	for c := range a.Cases() {
		if !c.WasScored() {
			continue // nothing graded it, so nothing had to be isolated
		}
		if records++; r.isolationProblem(c.Context) == "" {
			return false
		}
	}
	return records > 0 && a.Finished != nil
}

func byID(a *history.Attempt) map[string][]*history.Case {
	cases := make(map[string][]*history.Case)
	for c := range a.Cases() {
		cases[c.ID] = append(cases[c.ID], c)
	}
	return cases
}

// isolationProblem says why what a record tells about its sandboxes is not
// enough.
func (r *review) isolationProblem(c *history.Context) string {
	switch {
	case c.Isolation == "builtin":
		// The graders of tally itself run no foreign code.
	case !bench.CountsForPromotion(c.Isolation) || !slices.Contains(r.reg.Isolation.Classes, c.Isolation):
		return "isolation_class is " + c.Isolation
	case c.Scope != "case":
		return "isolation_scope is " + orNone(c.Scope)
	}
	switch {
	case c.AgentScope != "":
		return "agent_scope is " + c.AgentScope
	case bench.CountsForPromotion(c.AgentIsolation):
	case c.AgentIsolation == "" && c.Vantage == string(vantage.Inside):
		// The built-in agent is part of tally and runs nothing of its own.
	default:
		return "agent_isolation is " + orNone(c.AgentIsolation)
	}
	return ""
}

// blocked lists the integrity events of the window that block. Those of a
// rubric are in the record of its case as a failure mode, and belong to one
// class. What was refused at the door, as a bench that did not verify, a swapped
// recording or a tier that a person asked for, left no evidence behind. The
// others are about the evidence itself.
func (r *review) blocked() []history.Event {
	var found []history.Event
	for _, e := range r.in.History.Events {
		_, late := r.clock.span(e.Index, e.Time.Go())
		if e.Severity == evidence.Block && !strings.HasPrefix(e.Name, "rubric.") && !atTheDoor(e.Boundary) && !late.Before(r.begin) {
			found = append(found, e)
		}
	}
	return found
}

// atTheDoor reports whether a refusal at that boundary kept something out before
// anything was run or recorded.
func atTheDoor(boundary string) bool {
	switch boundary {
	case "TB-1", "TB-2", "TB-6", "TB-7", "TB-8":
		return true
	}
	return false
}

func orNone(s string) string {
	if s == "" {
		return "not stated"
	}
	return s
}
