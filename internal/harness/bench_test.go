package harness

import (
	"context"
	"testing"
)

// BenchmarkReplayedCases runs whole attempts: built-in target, plain grader,
// evidence and ledger on disk.
func BenchmarkReplayedCases(b *testing.B) {
	const n = 2000
	p := newPlace(b, sums(n)...)
	for b.Loop() {
		s, err := p.run(context.Background(), nil)
		if err != nil || s.Outcomes["passed"] != n {
			b.Fatalf("%+v, %v", s, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "cases/s")
}
