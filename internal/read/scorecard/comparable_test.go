package scorecard

import (
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/testing/historytest"
)

// What is found before an attempt is what Compare takes, for every kind of attempt that
// may stand between.
func TestLastComparableIsWhatCompareTakes(t *testing.T) {
	const first, second = "repo-fix.agent.1", "repo-fix.agent.9"
	other := func(r *evidence.AttemptRegistered) {
		r.Plan.BenchDigest, r.Plan.ScoringDigest = digest.IDOf([]byte("bench 2")), historytest.ContentOf("scoring 2")
	}
	tests := []struct {
		name    string
		between func(*historytest.Book)
		want    string
	}{
		{"nothing", func(*historytest.Book) {}, first},
		{"a newer one", func(b *historytest.Book) {
			b.Run(historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1), 1, 1, 0)
		}, "repo-fix.agent.2"},
		{"another target", func(b *historytest.Book) {
			b.Run(historytest.Registration("repo-fix.other.2", "other", 2, 3, 1), 1, 1, 0)
		}, first},
		{"another bench", func(b *historytest.Book) {
			r := historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1)
			other(r)
			b.Run(r, 1, 1, 0)
		}, first},
		{"one that did not end", func(b *historytest.Book) {
			b.Register(historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1))
		}, first},
		{"one that was not answered", func(b *historytest.Book) {
			r := historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1)
			b.Register(r)
			for i := range 3 {
				s := historytest.UnscoredCase(r, i, 1, evidence.Errored)
				s.Unanswered = true
				b.Case(r, s)
			}
			b.Finish(r)
		}, first},
		{"a part of the bench", func(b *historytest.Book) {
			r := historytest.Registration("repo-fix.agent.2", "agent", 2, 1, 1)
			r.Plan.Filtered = true
			b.Run(r, 1)
		}, first},
		{"without a case in common", func(b *historytest.Book) {
			r := historytest.Registration("repo-fix.agent.2", "agent", 2, 1, 1)
			r.Plan.Cases[0].ID = "another"
			b.Run(r, 1)
		}, first},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := historytest.New(t)
			b.Run(historytest.Registration(first, "agent", 1, 3, 1), 1, 1, 1)
			tt.between(b)
			b.Run(historytest.Registration(second, "agent", 9, 3, 1), 1, 0, 0)
			h := read(b, history.Options{})
			got := LastComparable(h.Attempts, h.Attempt(second))
			if got == nil || got.ID != tt.want {
				t.Fatalf("got %v, want %s", got, tt.want)
			}
			if _, err := Compare(got, h.Attempt(second), CompareOptions{}); err != nil {
				t.Error(err)
			}
			if x := LastComparable(h.Attempts, h.Attempt(first)); x != nil {
				t.Errorf("before the first there is %s", x.ID)
			}
		})
	}
}

// Of a part of the bench, whole attempts and parts are as good: what decides is which is
// the last.
func TestLastComparableOfAPart(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1), 1, 1, 1)
	for _, id := range []string{"repo-fix.agent.2", "repo-fix.agent.3"} {
		r := historytest.Registration(id, "agent", int(id[len(id)-1]-'0'), 1, 1)
		r.Plan.Filtered = true
		b.Run(r, 1)
	}
	h := read(b, history.Options{})
	if got := LastComparable(h.Attempts, h.Attempt("repo-fix.agent.3")); got == nil || got.ID != "repo-fix.agent.2" {
		t.Errorf("got %v, want the part before it", got)
	}
	if got := LastComparable(h.Attempts, h.Attempt("repo-fix.agent.2")); got == nil || got.ID != "repo-fix.agent.1" {
		t.Errorf("got %v, want the whole attempt", got)
	}
}

func TestLastComparablePair(t *testing.T) {
	b := historytest.New(t)
	b.Run(historytest.Registration("repo-fix.one.1", "one", 1, 3, 1), 1, 1, 1)
	if x, y := LastComparablePair(read(b, history.Options{}).Attempts, ""); x != nil || y != nil {
		t.Errorf("one attempt is a pair: %v, %v", x, y)
	}
	b.Run(historytest.Registration("repo-fix.two.2", "two", 2, 3, 1), 1, 0, 1)
	pair := func(class, want, than string) {
		t.Helper()
		x, y := LastComparablePair(read(b, history.Options{}).Attempts, class)
		if x == nil || y == nil || x.ID != want || y.ID != than {
			t.Errorf("%v and %v, want %s and %s", x, y, want, than)
		}
	}
	pair("", "repo-fix.one.1", "repo-fix.two.2") // of another target, where there is no other
	b.Run(historytest.Registration("repo-fix.one.3", "one", 3, 3, 1), 1, 0, 1)
	pair("", "repo-fix.one.1", "repo-fix.one.3") // of its own target, though another's is newer
	pair("repo-fix", "repo-fix.one.1", "repo-fix.one.3")
	if x, _ := LastComparablePair(read(b, history.Options{}).Attempts, "another"); x != nil {
		t.Errorf("of another class: %s", x.ID)
	}
}
