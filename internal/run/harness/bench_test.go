package harness

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
// notes for a submission: three tools, a page of 8 KB each. Each round makes one of
// either, in turns, with a ledger of its own, and what is reported is the median of
// the ratios of the rounds, so that what else the machine does disturbs it little:
// a pair has it in both halves or is one of many.
func BenchmarkRecording(b *testing.B) {
	lines := gaiaShaped(165)
	var cpu, wall pairs
	for b.Loop() {
		var spent [2]spending
		for i := range 2 {
			if which := (len(cpu) + i) % 2; which == 0 {
				spent[0] = spentOn(b, lines, nil)
			} else {
				spent[1] = spentOn(b, lines, recording)
			}
		}
		cpu = append(cpu, [2]time.Duration{spent[0].cpu, spent[1].cpu})
		wall = append(wall, [2]time.Duration{spent[0].wall, spent[1].wall})
	}
	cpu.report(b, "cpu")
	wall.report(b, "wall")
}

// pairs are what was spent without and with recording.
type pairs [][2]time.Duration

// report says how much more the second of a pair takes, in per cent: the quartiles
// of the pairs, and the least of all second ones by the least of all first ones,
// because other programs only ever add to what one takes.
func (p pairs) report(b *testing.B, what string) {
	var ratios []float64
	least := p[0]
	for _, pair := range p {
		ratios = append(ratios, float64(pair[1])/float64(pair[0]))
		least = [2]time.Duration{min(least[0], pair[0]), min(least[1], pair[1])}
	}
	more := func(name string, ratio float64) { b.ReportMetric(100*(ratio-1), what+"-"+name+"-%") }
	more("q1", quantile(ratios, .25))
	more("median", quantile(ratios, .5))
	more("q3", quantile(ratios, .75))
	more("least", float64(least[1])/float64(least[0]))
}

// gaiaShaped are n cases with a question, three tools and a page.
func gaiaShaped(n int) (lines []string) {
	page := strings.Repeat("The keeper wrote of fog and of gulls. ", 220)
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"id":"case-%06d","input":"Which wind was logged on day %d?","tools":[{"name":"fetch","class":"read","default":{"result":%q}},{"name":"search","class":"read","default":{"result":"one hit"}},{"name":"sum","class":"read","default":{"result":3}}],`+
			`"model":[{"tool_calls":[{"name":"search","args":{"query":"wind"}}]},{"tool_calls":[{"name":"fetch","args":{"url":"https://lights.example/%d"}}]},{"tool_calls":[{"name":"sum","args":{"of":"1+2"}}]},{"text":"FINAL ANSWER: northwest-%d"}],`+
			`"expected":"northwest-%d","grade":{"kind":"gaia"},"extract":{"kind":"answer","pattern":"FINAL ANSWER: (.*)"}}`, i, i, page+fmt.Sprint(i), i, 300+i, 300+i))
	}
	return lines
}

// spending is what one attempt took: processor time of the whole process, user and
// system, and time on the clock.
type spending struct{ cpu, wall time.Duration }

// spentOn makes one attempt in a fresh place.
func spentOn(b *testing.B, lines []string, change func(*setup)) spending {
	p := newPlace(b, lines...)
	runtime.GC() // what the other attempt left is not this one's to collect
	cpu, wall := processorTime(b), time.Now()
	s, err := p.run(context.Background(), change)
	spent := spending{cpu: processorTime(b) - cpu, wall: time.Since(wall)}
	if err != nil || s.Outcomes["passed"] != len(lines) {
		b.Fatalf("%+v, %v", s, err)
	}
	return spent
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quantile is that of values, between its neighbours where it falls between two.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
