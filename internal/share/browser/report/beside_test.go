package report

import (
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
)

// A score stands beside a record that the page has, of the attempt of the page.
func TestAScoreBesideNoRecordIsRefused(t *testing.T) {
	p := &parts{records: []*part{{index: 3}}, beside: []*part{{index: 7, body: &evidence.ScoreCorrected{Entry: 3}}, {index: 8, body: &evidence.ScoreAmended{Entry: 3}}}}
	if err := p.checkBeside(); err != nil {
		t.Error(err)
	}
	p.beside = append(p.beside, &part{index: 9, body: &evidence.ScoreAmended{Entry: 4}})
	if err := p.checkBeside(); err == nil || !strings.Contains(err.Error(), "entry 9 sets a score beside entry 4") {
		t.Error(err)
	}
	if err := p.sort("sums.default.1", &part{index: 10, body: &evidence.ScoreCorrected{Entry: 3, Attempt: "sums.default.2"}}); err == nil {
		t.Error("a correction of another attempt belongs into the report")
	}
}
