package cli

import (
	"errors"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestTheWorstAttemptDecidesTheExitCode(t *testing.T) {
	order := []error{nil, refusal.Newf(refusal.GateNotMet, "4"), refusal.Newf(refusal.Usage, "2"), errors.New("1"), refusal.Newf(refusal.ChainTamperDetected, "3")}
	for i, a := range order {
		for j, b := range order {
			if got := worse(a, b); got != order[max(i, j)] {
				t.Errorf("of %v and %v the worse is %v", a, b, got)
			}
		}
	}
}
