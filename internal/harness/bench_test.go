package harness

import (
	"context"
	"fmt"
	"strings"
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

// BenchmarkRecording compares attempts in the shape of GAIA, with and without the
// notes for a submission: three tools, a page of 8 KB each.
func BenchmarkRecording(b *testing.B) {
	const n = 165
	page := strings.Repeat("The keeper wrote of fog and of gulls. ", 220)
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"id":"case-%06d","input":"Which wind was logged on day %d?","tools":[{"name":"fetch","class":"read","default":{"result":%q}},{"name":"search","class":"read","default":{"result":"one hit"}},{"name":"sum","class":"read","default":{"result":3}}],`+
			`"model":[{"tool_calls":[{"name":"search","args":{"query":"wind"}}]},{"tool_calls":[{"name":"fetch","args":{"url":"https://lights.example/%d"}}]},{"tool_calls":[{"name":"sum","args":{"of":"1+2"}}]},{"text":"FINAL ANSWER: northwest-%d"}],`+
			`"expected":"northwest-%d","grade":{"kind":"gaia"},"extract":{"kind":"answer","pattern":"FINAL ANSWER: (.*)"}}`, i, i, page+fmt.Sprint(i), i, 300+i, 300+i))
	}
	for _, tt := range []struct {
		name   string
		change func(*setup)
	}{{"plain", nil}, {"recorded", recording}} {
		b.Run(tt.name, func(b *testing.B) {
			p := newPlace(b, lines...)
			for b.Loop() {
				s, err := p.run(context.Background(), tt.change)
				if err != nil || s.Outcomes["passed"] != n {
					b.Fatalf("%+v, %v", s, err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "cases/s")
		})
	}
}
