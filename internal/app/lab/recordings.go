package lab

import (
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/provider"
)

// Recordings is [NewRecording] for every target that the spec names, variants and
// patterns included. A limit of the spec is for all of them together. A target of which
// no case is to be recorded is left out, unless all are. The caller closes each.
func Recordings(c *dossier.Corpus, spec harness.Spec, o RecordOptions) ([]*Recording, error) {
	targets, err := findTargets(c, &spec)
	if err != nil {
		return nil, err
	}
	var all []*Recording
	var none error
	for _, t := range targets {
		r, err := NewRecording(c, spec.For(t.Name), o)
		if len(targets) > 1 && refusal.Is(err, refusal.NotFound) {
			c.Note("target %s: %v", t.Name, err)
			none = err
			continue
		}
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, none
	}
	if spec.MaxCostMicroUSD > 0 || spec.MaxCalls > 0 {
		together := provider.NewLimited(provider.Limit{MicroUSD: spec.MaxCostMicroUSD, Calls: spec.MaxCalls}, nil)
		for _, r := range all {
			r.budget = together
		}
	}
	return all, nil
}

// CheckTargets refuses names of targets that do not exist.
func CheckTargets(c *dossier.Corpus, spec harness.Spec) error {
	_, err := findTargets(c, &spec)
	return err
}

func closeAll(all []*Recording) {
	for _, r := range all {
		r.Close()
	}
}

// MostOf is the most that recordings can cost together, in micro-dollars; 0 if only the
// number of calls bounds it.
func MostOf(all []*Recording) int64 {
	if limit := all[0].Spec.MaxCostMicroUSD; limit > 0 || all[0].Spec.MaxCalls > 0 {
		return limit
	}
	sum := int64(0)
	for _, r := range all {
		sum += r.Most
	}
	return sum
}

// SpentOn is the most that their calls can have cost until now.
func SpentOn(all []*Recording) int64 {
	sum, seen := int64(0), map[*provider.Budget]bool{}
	for _, r := range all {
		if !seen[r.budget] {
			seen[r.budget], sum = true, sum+r.Spent()
		}
	}
	return sum
}
