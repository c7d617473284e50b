package dossier

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/run/bench"
)

// A history of anchors and work is held against the rhythm that two people signed
// for, or against a day where anchors come for their own sake.
func TestAnchorsComeWhenTheyAreDue(t *testing.T) {
	begin := time.Date(2026, 5, 1, 22, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return begin.AddDate(0, 0, n-1) }
	type at struct {
		days   []int
		alone  bool
		manual bool
	}
	nine := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, tt := range []struct {
		name    string
		every   string
		anchors []at
		work    []int
		today   int
		want    []string // beginnings of what is told, in order
	}{
		{"every night", "", []at{{days: []int{1, 2, 3, 4, 5}}}, []int{1}, 6, nil},
		{"nine nights and then twenty days of silence", "", []at{{days: nine}}, []int{1}, 30, []string{"no anchor was published on 20 days, 2026-05-10 to 2026-05-29, and anchors are due every day"}},
		{"the same beside work every day", "", []at{{days: nine, alone: true}}, nine, 30, []string{"no anchor was published on 20 days, 2026-05-10 to 2026-05-29"}},
		{"one night is enough to begin", "", []at{{days: []int{1}, alone: true}}, []int{1}, 3, []string{"no anchor was published on 2026-05-02,"}},
		{"one night left out", "", []at{{days: []int{1, 2, 3, 5, 6}}}, []int{1}, 7, []string{"no anchor was published on 2026-05-04,"}},
		{"one anchor twice", "", []at{{days: []int{1, 2, 3, 3, 5}}}, []int{1}, 6, []string{"no anchor was published on 2026-05-04,"}},
		{"silent, and then it goes on", "", []at{{days: []int{1, 2, 3, 4, 24, 25}}}, []int{1, 24}, 26, []string{"no anchor was published on 19 days, 2026-05-05 to 2026-05-23,"}},
		{"written by hand", "", []at{{days: []int{1, 2, 5}}, {days: []int{3, 4}, manual: true}}, []int{1}, 6, []string{"no anchor was published on 2 days, 2026-05-03 to 2026-05-04,"}},
		{"back-filled in one night", "", []at{{days: []int{1, 2, 9, 9, 9, 9, 9, 9}}}, []int{1}, 10, []string{"no anchor was published on 6 days, 2026-05-03 to 2026-05-08,"}},
		{"dated in the future", "", []at{{days: []int{1, 2, 3, 4, 5, 6}}}, []int{1}, 4, []string{"the entry says that an anchor was published at 2026-05-05T22:00:00Z, which is after now", "the entry says that an anchor was published at 2026-05-06T22:00:00Z"}},
		{"anchors come with the work", "", []at{{days: []int{1, 9, 20}}}, []int{1, 9, 20}, 30, nil},
		{"with the work, and people signed for every day", "24h", []at{{days: []int{1, 3}}}, []int{1, 3}, 5, []string{"no anchor was published on 2026-05-02, and bench/digests.yaml says that anchors are due every 24h", "no anchor was published on 2026-05-04,"}},
		{"people signed for every day and none ever came", "1d", nil, []int{1}, 4, []string{"no anchor was published on 3 days, 2026-05-01 to 2026-05-03,"}},
		{"people signed for weeks", "7d", []at{{days: []int{1, 2, 9}, alone: true}}, []int{1}, 15, nil},
		{"people signed for weeks, and one is missing", "7d", []at{{days: []int{1, 2}, alone: true}}, []int{1}, 16, []string{"no anchor was published from 2026-05-07T00:00:00Z to 2026-05-14T00:00:00Z,"}},
		{"people signed for six hours", "6h", []at{{days: []int{1}, alone: true}}, []int{1}, 2, []string{"no anchor was published from 2026-05-02T00:00:00Z to 2026-05-02T18:00:00Z,"}},
		{"people signed for none", "none", []at{{days: nine, alone: true}}, nil, 30, nil},
		{"today's may still come", "", []at{{days: []int{1, 2, 3, 4}}}, nil, 5, nil},
	} {
		var c cadence
		entry := func(n int, manual bool, body evidence.Body) {
			c.visit(ledger.Record{Position: ledger.Position{Index: int64(len(c.published))}, Envelope: evidence.Envelope{Time: evidence.At(day(n)), Manual: manual}, Body: body})
		}
		for _, d := range tt.work {
			entry(d, false, &evidence.CaseStarted{})
		}
		for _, a := range tt.anchors {
			for _, d := range a.days {
				entry(d, a.manual, &evidence.AnchorPublished{Alone: a.alone})
			}
		}
		var pins *bench.AnchorPins
		if tt.every != "" {
			pins = &bench.AnchorPins{Every: tt.every}
		}
		var got []string
		for _, p := range c.problems(pins, nil, day(tt.today), 1, nil) {
			got = append(got, p.Detail)
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tt.want[i]) {
				t.Errorf("%s: %q, want %q", tt.name, got[i], tt.want[i])
			}
		}
	}
}

// A clock that was set back for the anchors of the days before is found out by the
// witnesses that saw them.
func TestAnchorsThatWitnessesSawLater(t *testing.T) {
	begin := time.Date(2026, 5, 1, 22, 0, 0, 0, time.UTC)
	var c cadence
	var cosigned []CosignedAnchor
	for i := range 5 {
		c.visit(ledger.Record{Position: ledger.Position{Index: int64(i)}, Envelope: evidence.Envelope{Time: evidence.At(begin.AddDate(0, 0, i))}, Body: &evidence.AnchorPublished{Size: int64(i + 1), Alone: true}})
		cosigned = append(cosigned, CosignedAnchor{Size: int64(i + 1), Cosigned: begin.AddDate(0, 0, i)})
	}
	now := begin.AddDate(0, 0, 5)
	if got := c.problems(nil, cosigned, now, 5, nil); got != nil {
		t.Errorf("honest: %v", got)
	}
	for i := 2; i < 5; i++ {
		cosigned[i].Cosigned = begin.AddDate(0, 0, 4)
	}
	got := c.problems(nil, cosigned, now, 5, nil)
	if len(got) != 3 || !strings.Contains(got[0].Detail, "no witness saw it before 2026-05-05") || !strings.HasPrefix(got[2].Detail, "no anchor was published on 2 days, 2026-05-03 to 2026-05-04") {
		t.Errorf("back-filled: %v", got)
	}
}
