package ledger

import (
	"errors"
	"slices"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// What fills a gap must be of the attempt that promised it, and of the hand
// that did.
func TestNothingFillsAGapThatItDoesNotBelongTo(t *testing.T) {
	plan := evidence.Plan{Cases: []evidence.PlannedCase{{ID: "one"}}, CaseCount: 1, Repeat: 2}
	registered := func() evidence.Body { return &evidence.AttemptRegistered{Attempt: "a", Plan: plan} }
	scored := func(repeat int) evidence.Body {
		return &evidence.CaseScored{Attempt: "a", CaseID: "one", Repeat: repeat}
	}
	finished := &evidence.AttemptFinished{Attempt: "a"}
	gone := digest.ContentOf([]byte("gone"))
	published := func(size int64) evidence.Body {
		return &evidence.AnchorPublished{Date: testTime.Date(), Size: size}
	}
	type entry struct {
		body   evidence.Body
		manual bool
	}
	for _, tt := range []struct {
		name    string
		entries []entry
		want    []string
	}{
		{"an honest attempt", []entry{{registered(), false}, {scored(1), false}, {scored(2), false}, {finished, false}}, nil},
		{"all of it by hand", []entry{{registered(), true}, {scored(1), true}, {scored(2), true}, {finished, true}}, nil},
		{"an end by hand", []entry{{registered(), false}, {scored(1), false}, {scored(2), false}, {finished, true}},
			[]string{"entry 0: attempt a was registered and never finished"}},
		{"a record by hand", []entry{{registered(), false}, {scored(1), false}, {scored(2), true}, {finished, false}},
			[]string{"entry 0: attempt a: case one has 1 of 2 records"}},
		{"one repetition recorded twice", []entry{{registered(), false}, {scored(1), false}, {scored(1), false}, {finished, false}},
			[]string{"entry 0: attempt a: case one has 1 of 2 records"}},
		{"a repetition that was not planned", []entry{{registered(), false}, {scored(1), false}, {scored(3), false}, {finished, false}},
			[]string{"entry 0: attempt a: case one has 1 of 2 records"}},
		{"a second registration with an easier plan", []entry{
			{registered(), false}, {&evidence.AttemptRegistered{Attempt: "a", Plan: evidence.Plan{Repeat: 1}}, false}, {finished, false}},
			[]string{"entry 0: attempt a: case one has 0 of 2 records", "entry 1: attempt a was registered before, at entry 0"}},
		{"the same by hand", []entry{{registered(), false}, {&evidence.AttemptRegistered{Attempt: "a", Plan: evidence.Plan{Repeat: 1}}, true}, {finished, true}},
			[]string{"entry 0: attempt a was registered and never finished", "entry 0: attempt a: case one has 0 of 2 records"}},
		{"a record of another case", []entry{{registered(), false}, {scored(1), false}, {&evidence.CaseScored{Attempt: "a", CaseID: "one", Repeat: 2, CaseDigest: gone}, false}, {finished, false}},
			[]string{"entry 2: attempt a: case one: the record is of " + gone.String() + ", planned was " + digest.Content{}.String()}},
		{"a record of another cassette", []entry{{registered(), false}, {scored(1), false}, {&evidence.CaseScored{Attempt: "a", CaseID: "one", Repeat: 2, CassetteDigest: &gone}, false}, {finished, false}},
			[]string{"entry 2: attempt a: case one: it replayed " + gone.String() + ", planned was no cassette"}},
		{"a list of events that is not there", []entry{{registered(), false}, {scored(1), false}, {scored(2), false}, {&evidence.AttemptFinished{Attempt: "a", Events: &gone}, false}},
			[]string{"entry 3: attempt a: its events " + gone.String() + " are missing or changed: it is not there"}},
		{"an anchor that was published", []entry{{published(2), false}, {published(4), false}}, nil},
		{"an anchor that is older than one published", []entry{{published(4), false}, {published(6), false}, {published(5), false}},
			[]string{"entry 1: the anchor of 2026-05-12 covers 4 entries, one of 6 was published"}},
		{"a publication by hand", []entry{{published(6), true}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Completeness{
				Covers:   func(int64, evidence.Time) bool { return true },
				Anchored: map[string]int64{testTime.Date(): 4},
				Evidence: func(d digest.Content) error {
					if d == gone {
						return errors.New("it is not there")
					}
					return nil
				},
			}
			for i, e := range tt.entries {
				err := c.Visit(Record{Position: Position{Index: int64(i)}, Envelope: evidence.Envelope{Manual: e.manual, Time: testTime}, Body: e.body})
				if err != nil {
					t.Fatal(err)
				}
			}
			gaps, err := c.Gaps()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range gaps {
				got = append(got, g.Error())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("gaps %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRepeatsCountAsASetDoes also beyond the ones that have a bit.
func TestRepeatsCountAsASetDoes(t *testing.T) {
	var r repeats
	set := make(map[int]bool)
	for _, n := range []int{1, 2, 2, 62, 63, 64, 65, 64, 1000} {
		r.add(n)
		set[n] = true
		for upTo := -1; upTo < 1100; upTo++ {
			want := 0
			for have := range set {
				if have <= upTo {
					want++
				}
			}
			if got := r.upTo(upTo); got != want {
				t.Fatalf("%d repetitions up to %d of %v, want %d", got, upTo, set, want)
			}
		}
	}
}
