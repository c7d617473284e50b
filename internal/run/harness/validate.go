package harness

import (
	"tallystick/internal/record/digest"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/scenario"
)

// Validate refuses a bench that every run would refuse before it starts: a case
// that cannot be read or that nothing grades, an invalid policy. It also
// refuses files of trees that no case uses. It is for those who verify a bench
// without running it.
func Validate(b *bench.Verified) error {
	if _, err := rulesOf(b.Registration(), nil); err != nil {
		return err
	}
	w := &Worker{cfg: Config{Bench: b}, cases: scenario.Of(b, "")}
	var trees []digest.Content
	type seen struct { // a look has ten times as many bytes, and a server has little memory
		trees []digest.Content
		err   error
	}
	for _, l := range lookAtAll(w, func(l look) seen { return seen{l.trees, l.err} }) {
		if l.err != nil {
			return l.err
		}
		trees = append(trees, l.trees...)
	}
	return b.CheckTrees(trees)
}
