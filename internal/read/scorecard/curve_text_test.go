package scorecard

import (
	"bytes"
	"strings"
	"testing"

	"tallystick/internal/record/cost"
)

// What a curve looks like when there is little to draw.
func TestCurvePlotOfOddData(t *testing.T) {
	week := func(name, begins string, rate float64, solved int, micro int64) Week {
		return Week{Week: name, Begins: begins, SolveRate: rate, Solved: solved, CostPerSolve: cost.Of(micro, 0)}
	}
	for _, tt := range []struct {
		name    string
		weeks   []Week
		columns int
		want    string
	}{
		{"nothing", nil, 80, ""},
		{"a terminal too narrow", []Week{week("2026-W20", "2026-05-11", 1, 1, 5)}, 45, ""},
		{"one week in which nothing is solved", []Week{week("2026-W20", "2026-05-11", 0, 0, 0)}, 52, `
week      solve rate (full: 1)  cost a solve
2026-W20  0.00 |                     - |

`},
		{"a free week", []Week{week("2026-W20", "2026-05-11", 1, 3, 0)}, 52, `
week      solve rate (full: 1)  cost a solve
2026-W20  1.00 |###########  $0.000000 |

`},
		{"weeks without an attempt, over the end of a year of 53 weeks", []Week{
			week("2026-W52", "2026-12-21", 0.5, 1, 2_000_000), week("2026-W53", "2026-12-28", 0.01, 1, 1), week("2027-W01", "2027-01-04", 0, 0, 0),
			week("2027-W03", "2027-01-18", 1, 2, 1_000_000), week("2027-W10", "2027-03-08", 1, 2, 1_000_000)}, 60, `
week      solve rate (full: 1)   cost a solve (full: $2.000000)
2026-W52  0.50 |########         $2.000000 |###############
2026-W53  0.01 |#                $0.000001 |#
2027-W01  0.00 |                         - |
     ...  1 week without an attempt
2027-W03  1.00 |###############  $1.000000 |########
     ...  6 weeks without an attempt
2027-W10  1.00 |###############  $1.000000 |########

`},
		{"a solve dearer than a house", []Week{week("2026-W20", "2026-05-11", 1, 1, 1_234_567_000_000)}, 60, `
week      solve rate (full: 1)  cost a solve (full: $1234567.000000)
2026-W20  1.00 |############  $1234567.000000 |############

`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			PlotWeeks(&out, tt.weeks, tt.columns)
			if want := strings.TrimPrefix(tt.want, "\n"); out.String() != want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want)
			}
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "|") && len(line)-1 > tt.columns {
					t.Errorf("wider than the terminal: %q", line)
				}
			}
		})
	}
}
