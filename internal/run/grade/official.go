package grade

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/official"
)

// validateOfficial wants the name of a scorer of package official.
func validateOfficial(at place, r *Rule) error {
	if _, err := official.Find(r.Scorer); err != nil {
		return &placed{at.in("scorer"), err}
	}
	return nil
}

// officialGrader scores as the official code of a public suite does, with its bugs.
func officialGrader(want canon.RawMessage, r *Rule) (grader, error) {
	scorer, err := official.Find(r.Scorer)
	if err != nil {
		return nil, err
	}
	score, err := scorer.Compile(want)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		said := score(text)
		if said.Passed {
			return passed("by %s, %s", scorer.Name, said.Why)
		}
		return mismatch("by %s, %s", scorer.Name, said.Why)
	}, nil
}

// officialGold is the answer that a scorer expects, where it is one text.
func officialGold(expected canon.RawMessage, scorer string) []string {
	s, err := official.Find(scorer)
	if err != nil {
		return nil
	}
	return s.Gold(expected)
}
