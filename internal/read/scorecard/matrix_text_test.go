package scorecard

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
)

func TestALongTableShowsWhatDidNotPass(t *testing.T) {
	m := &Matrix{Targets: []MatrixTarget{{Target: "a"}, {Target: "b"}}}
	cell := func(o evidence.Outcome) MatrixCell { return MatrixCell{Outcome: o, Of: 1} }
	for i := range 300 {
		results := map[string]MatrixCell{"a": cell(evidence.Passed), "b": cell(evidence.Passed)}
		switch {
		case i < 205:
			results["b"] = cell(evidence.Failed)
		case i == 205:
			delete(results, "b")
		}
		m.Cases = append(m.Cases, MatrixRow{Case: fmt.Sprintf("case-%03d", i), Results: results})
	}
	var out strings.Builder
	m.printTable(&out, terminalMarks)
	got := out.String()
	for _, want := range []string{"case      1  2\n", "case-000  ✓  ✗\n", "case-199  ✓  ✗\n5 more that did not pass everywhere\n95 more, all passed\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "case-200") {
		t.Errorf("the table is too long:\n%s", got)
	}
	for o, want := range map[evidence.Outcome]string{evidence.Errored: "E", evidence.Unscored: "E", evidence.Skipped: "-", "not_run": "-", Mixed: "~"} {
		if got := plainMarks.of(cell(o), true); got != want {
			t.Errorf("%s is drawn as %s, want %s", o, got, want)
		}
	}
	if got := plainMarks.of(MatrixCell{Outcome: Mixed, Passed: 1, Of: 3}, true); got != "~ 1/3" {
		t.Errorf("a mixed case is drawn as %s", got)
	}
}
