package evidence

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/sequential"
)

// StopSPRT is Wald's sequential probability ratio test: the one rule there is.
const StopSPRT = "sprt"

// A StopEarly is the question that an attempt answers, and when it has: cases run in
// the order of the plan until the test decides. It comes from the signed
// registration of the class, and so does the seed of the order.
type StopEarly struct {
	Rule  string  `json:"rule"`
	P0    float64 `json:"p0"`
	P1    float64 `json:"p1"`
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
	Seed  int     `json:"seed"`
}

// Test is the test with its numbers.
func (s *StopEarly) Test() sequential.Test {
	return sequential.Test{P0: s.P0, P1: s.P1, Alpha: s.Alpha, Beta: s.Beta}
}

// Place is what cases are ordered by, smallest first. People signed the seed before
// the run, so the operator cannot choose an order that suits a result.
func (s *StopEarly) Place(caseID string) digest.Content {
	return digest.ContentOf(fmt.Appendf(nil, "tallystick-stop-order %d %s", s.Seed, caseID))
}

// Question says in words what is asked and how often the answer is wrong.
func (s *StopEarly) Question() string {
	return fmt.Sprintf("is the solve rate %v or more, or %v or less? wrong in at most about %v of the cases where it is %v, and %v where it is %v", s.P1, s.P0, s.Alpha, s.P0, s.Beta, s.P1)
}

// A Stopped says where an attempt with a [StopEarly] came to its end.
type Stopped struct {
	Decision sequential.Decision `json:"decision"` // undecided if the cases ran out
	After    int                 `json:"after"`    // cases, in the order of the plan
	Passed   int                 `json:"passed"`   // of these
}
