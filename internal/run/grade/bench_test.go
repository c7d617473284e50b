package grade

import (
	"testing"
	"time"

	"tallystick/internal/run/extract"
)

// BenchmarkPlainGraders grades one value a time, from extracting it to the
// detail that the evidence keeps. Wanted: 50,000 values/s.
func BenchmarkPlainGraders(b *testing.B) {
	for _, tt := range []struct{ name, answer, doc string }{
		{"exact", "Paris", `{"grade":{"kind":"exact","expected":"Paris"}}`},
		{"mismatch", "London", `{"grade":{"kind":"exact","expected":"Paris"}}`},
		{"normalised", "The  Eiffel Tower, in Paris!", `{"grade":{"kind":"normalised","expected":"the eiffel tower in paris"}}`},
		{"contains", "The Eiffel Tower is in Paris", `{"grade":{"kind":"contains","expected":["Eiffel","Paris"]}}`},
		{"regex", "order 12345 shipped", `{"grade":{"kind":"regex","pattern":"order [0-9]+","match":"anywhere"}}`},
		{"number", "42,195 m", `{"grade":{"kind":"number","expected":42.2,"unit":"km","relative":0.001}}`},
		{"json_equal", `{"total":1250.5,"items":[{"id":"a","n":1}]}`, `{"grade":{"kind":"json_equal","expected":{"items":[{"id":"x","n":1}],"total":1250.5},"ignore":["/items/*/id"]}}`},
		{"json_schema", `{"total":1250.5}`, `{"grade":{"kind":"json_schema","schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}}}`},
		{"expect", "x", `{"expect":{"turns":"<5"}}`},
	} {
		b.Run(tt.name, func(b *testing.B) { gradeMany(b, tt.doc, said(b, tt.answer)) })
	}
	b.Run("tool_calls", func(b *testing.B) {
		gradeMany(b, `{"grade":{"kind":"tool_calls","expected":[{"name":"lookup","args":{"who":"alice"}},{"name":"transfer","args":{"amount":100,"to":"alice"}}]}}`,
			called(b, `lookup {"who":"alice"}`, `transfer {"amount":100,"to":"alice"}`))
	})
}

func gradeMany(b *testing.B, doc string, s *extract.Source) {
	g := compiled(b, doc, Materials{})
	b.ReportAllocs()
	start := time.Now()
	n := 0
	for b.Loop() {
		if r := g.Grade(Input{Source: s}); r.Unscored != "" {
			b.Fatal(r.Unscored)
		}
		n++
	}
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "values/s")
}

// BenchmarkCondition looks at the end of each of 200 turns.
func BenchmarkCondition(b *testing.B) {
	gradeMany(b, `{"grade":{"kind":"cel","expression":"size(context.over_budget) == 0 && memory.semantic.fact == 'F'","always":true}}`, longRun(b, 200, 0, 0))
}
