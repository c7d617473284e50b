package scorecard

import (
	"cmp"
	"slices"

	"tallystick/internal/read/history"
)

// A ClassTarget is where a target stands with a class: the totals of its newest
// attempt that came to its end, and how many there are. Totals of several classes
// or targets at once would be of nothing.
type ClassTarget struct {
	Class      string `json:"class"`
	Target     string `json:"target"`
	Attempts   int    `json:"attempts"`
	Unfinished int    `json:"unfinished"`
	// Newest is the newest finished attempt, of the whole bench if there is one
	// such; nil if none is finished.
	Newest *AttemptLine `json:"newest"`
	Totals *Totals      `json:"totals"`
	// Corrected and AsCorrected are as in a [Card].
	Corrected   []CorrectedRow `json:"corrected,omitempty"`
	AsCorrected *Totals        `json:"as_corrected,omitempty"`
}

// ByClassTarget groups attempts, in the order of the names.
func ByClassTarget(attempts []*history.Attempt) []ClassTarget {
	groups := make(map[[2]string][]*history.Attempt)
	var order [][2]string
	for _, a := range attempts {
		key := [2]string{a.Class, a.Target}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], a)
	}
	slices.SortFunc(order, func(x, y [2]string) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) })
	out := []ClassTarget{}
	for _, key := range order {
		out = append(out, classTargetOf(key, groups[key]))
	}
	return out
}

func classTargetOf(key [2]string, attempts []*history.Attempt) ClassTarget {
	g := ClassTarget{Class: key[0], Target: key[1], Attempts: len(attempts)}
	var newest *history.Attempt
	for _, a := range attempts {
		switch {
		case a.Finished == nil:
			g.Unfinished++
		case a.Unanswered() > 0: // it has no score
		case newest == nil || IsWhole(a) || !IsWhole(newest):
			newest = a
		}
	}
	if newest != nil {
		tasks := tasksOf([]*history.Attempt{newest})
		line, totals := LineOf(newest), totalsOf(tasks, history.AsRecorded)
		g.Newest, g.Totals, g.Corrected, g.AsCorrected = &line, &totals, CorrectedCases(newest), asCorrected(tasks)
	}
	return g
}
