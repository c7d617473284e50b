package lab

import (
	"path"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/suites"
)

// findTargets finds the agents that a spec names, in that order: by name, which
// stands for all variants of one with parameters; by NAME[PARAMETER=VALUE,…]; or by
// a pattern with * and ?, which stands for all whose file fits, by name. Of each,
// only the variants are taken that the parameters choose.
func findTargets(c *dossier.Corpus, spec *harness.Spec) ([]*agent.Target, error) {
	params, err := spec.Choice()
	if err != nil {
		return nil, err
	}
	names := spec.Targets
	if len(names) == 0 {
		names = []string{spec.Target()}
	}
	var found []*agent.Target
	for _, name := range names {
		some, err := targetsNamed(c, spec.Class, name)
		if err == nil {
			some, err = params.Of(some)
		}
		if err != nil {
			return nil, err
		}
		for _, t := range some {
			if slices.ContainsFunc(found, func(o *agent.Target) bool { return o.Name == t.Name }) {
				return nil, refusal.Newf(refusal.Usage, "target %s is named twice", t.Name).WithHint("each target runs once; --repeat runs each case several times")
			}
			found = append(found, t)
		}
	}
	return found, nil
}

func targetsNamed(c *dossier.Corpus, class, name string) ([]*agent.Target, error) {
	if !strings.ContainsAny(name, "*?") || strings.Contains(name, "[") {
		return findVariants(c, class, name)
	}
	known := targetNames(c, class)
	var found []*agent.Target
	for _, k := range known {
		if ok, err := path.Match(name, k); err != nil || !ok {
			continue
		}
		some, err := findVariants(c, class, k)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	if len(found) == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "no target is named like %s", name).WithHint("there are %s", strings.Join(known, ", "))
	}
	return found, nil
}

// targetNames are the targets that a class can be run against.
func targetNames(c *dossier.Corpus, class string) []string {
	var names []string
	if bench.IsShipped(class) {
		names = suites.Targets()
	}
	names = append(names, agent.Names(c.Root)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Each is New for every target that the spec names, of a class that is verified
// once.
func Each(c *dossier.Corpus, spec harness.Spec) ([]*Setup, error) {
	v, err := c.Bench(spec.Class)
	if err != nil {
		return nil, c.Refused(err)
	}
	warn(c, v)
	return eachOf(c, v, spec)
}

// eachOf is Each for a class that is verified.
func eachOf(c *dossier.Corpus, v *bench.Verified, spec harness.Spec) ([]*Setup, error) {
	targets, err := findTargets(c, &spec)
	if err != nil {
		return nil, err
	}
	var all []*Setup
	for _, t := range targets {
		s, err := setupOf(c, v, t, spec)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// A Round is one run of a matrix as the ledger has it: for each target its
// attempt, or nil if it was not begun.
type Round []*history.Attempt

// LastRound finds the last run of these targets, one after the other, in the
// ledger. The last attempt of the class by any of them belongs to it, and what
// came before as long as the targets stand in their order. It refuses a round of
// which a finished attempt had another plan, and one with nothing left to do.
func LastRound(h *history.History, setups []*Setup) (Round, error) {
	round, next := make(Round, len(setups)), len(setups)
	for _, a := range slices.Backward(h.Attempts) {
		at := slices.IndexFunc(setups, func(s *Setup) bool { return s.Target.Name == a.Target && s.Bench.Class() == a.Class })
		if at < 0 {
			continue
		}
		if at >= next {
			break
		}
		round[at], next = a, at
	}
	left := 0
	for i, a := range round {
		if a == nil || a.Finished == nil {
			left++
			continue
		}
		if err := setups[i].madeAs(a); err != nil {
			return nil, err
		}
	}
	if left == 0 || next == len(setups) {
		return nil, refusal.Newf(refusal.NotFound, "no unfinished attempt of class %s by these %d targets", setups[0].Bench.Class(), len(setups)).
			WithHint("leave out --resume to start new attempts")
	}
	return round, nil
}

// madeAs refuses unless a finished attempt had the plan that the setup has now.
func (s *Setup) madeAs(a *history.Attempt) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	return harness.CheckPlan(cfg, &evidence.AttemptRegistered{Attempt: a.ID, Plan: a.Plan, Mode: a.Mode})
}

// CaseAnswers are what several targets answered to a case.
type CaseAnswers struct {
	Case string `json:"case"`
	// Answers are by target, of the first repetition. A held-out case has none, unless
	// the caller asked to see such cases.
	Answers map[string]string `json:"answers"`
}

// AnswersOf reads what attempts of several targets answered to these cases.
func AnswersOf(r *dossier.Reading, attempts []string, cases []string) ([]CaseAnswers, error) {
	out, at := make([]CaseAnswers, len(cases)), map[string]int{}
	for i, id := range cases {
		out[i], at[id] = CaseAnswers{id, map[string]string{}}, i
	}
	for _, id := range attempts {
		a, err := r.Attempt(id)
		if err != nil {
			return nil, err
		}
		for c := range a.Cases() {
			i, wanted := at[c.ID]
			if _, there := out[i].Answers[a.Target]; !wanted || there || c.Index < 0 {
				continue
			}
			answer, known, err := answerOf(c)
			if err != nil {
				return nil, err
			}
			if known {
				out[i].Answers[a.Target] = answer
			}
		}
	}
	return out, nil
}

// answerOf is what an agent answered in a case, unless that is hidden.
func answerOf(c *dossier.Case) (answer string, known bool, err error) {
	if hidden, err := c.IsHidden(); err != nil || hidden {
		return "", false, err
	}
	files, err := c.Files()
	if err != nil || files.Answer == nil {
		return "", err == nil, err
	}
	text, err := c.Dossier().Reading().Piece(*files.Answer)
	return strings.ToValidUTF8(string(text), "\uFFFD"), true, err
}
