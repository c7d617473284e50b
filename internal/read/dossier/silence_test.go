package dossier

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// Where anchors come every night, days without one are a problem; where they
// come with the work, days without work are not.
func TestSilenceIsNoticedWhereAnchorsAreDueEveryDay(t *testing.T) {
	begin := time.Date(2026, 5, 1, 22, 0, 0, 0, time.UTC)
	at := func(day int, body evidence.Body) ledger.Record {
		return ledger.Record{Envelope: evidence.Envelope{Time: evidence.At(begin.AddDate(0, 0, day-1))}, Body: body}
	}
	anchor, work := &evidence.AnchorPublished{}, &evidence.CaseStarted{}
	for _, tt := range []struct {
		name    string
		anchors []int
		work    []int
		today   int
		want    []string
	}{
		{"every night", []int{1, 2, 3, 4, 5}, []int{1}, 6, nil},
		{"silent for twenty days", []int{1, 2, 3, 4, 5}, []int{1}, 26, []string{"no anchor was published on 20 days, 2026-05-06 to 2026-05-25, and anchors are due every day"}},
		{"one night left out", []int{1, 2, 3, 5, 6}, []int{1}, 7, []string{"no anchor was published on 2026-05-04, and anchors are due every day"}},
		{"silent, and then it goes on", []int{1, 2, 3, 4, 24, 25}, []int{1, 24}, 26, []string{"no anchor was published on 19 days, 2026-05-05 to 2026-05-23, and anchors are due every day"}},
		{"anchors come with the work", []int{1, 9, 20}, []int{1, 9, 20}, 30, nil},
		{"today's may still come", []int{1, 2, 3, 4}, nil, 5, nil},
	} {
		w := newWatch()
		for _, d := range tt.anchors {
			w.visit(at(d, anchor))
		}
		for _, d := range tt.work {
			w.visit(at(d, work))
		}
		var got []string
		for _, p := range w.silent(begin.AddDate(0, 0, tt.today-1), nil, 1) {
			got = append(got, p.Detail)
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
