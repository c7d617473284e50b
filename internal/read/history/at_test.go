package history

import (
	"reflect"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/testing/historytest"
)

// busyBook is a ledger in which attempts follow each other, records are amended
// and reproduced later, and people append by hand. At returns the sizes it had
// after each step.
func busyBook(t *testing.T) (b *historytest.Book, sizes []int64) {
	b = historytest.New(t)
	mark := func() {
		if err := b.Ledger.Close(); err != nil {
			t.Fatal(err)
		}
		v, err := b.Verify(func(ledger.Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, v.Size)
		b.Reopen()
	}
	one := historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1)
	at := b.Run(one, 1, 1, 0.5)
	mark()
	b.ByHand(evidence.NoteKind, &evidence.Note{})
	b.Add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: at[0], Score: evidence.Score{Score: 0.25, Breakdown: map[string]float64{}, FailureModes: []string{}}, Author: "a", Reason: "first"})
	mark()
	two := historytest.Registration("repo-fix.agent.2", "agent", 2, 3, 1)
	b.Register(two)
	b.Case(two, historytest.Score(two, 0, 1, 1))
	b.Finish(two)
	b.Case(two, historytest.Score(two, 1, 1, 1)) // late
	mark()
	b.Add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: at[0], Score: evidence.Score{Score: 0.1, Breakdown: map[string]float64{}, FailureModes: []string{}}, Author: "a", Reason: "second"})
	b.Add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: "unknown", Outcomes: map[evidence.Outcome]int{}, RubricDigests: []digest.Content{}, ImageDigests: []digest.Content{}, FailureModes: []string{}})
	b.Add(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: "x", Severity: evidence.Block, Boundary: "TB-4", Detail: "d"})
	b.Run(historytest.Registration("repo-fix.agent.3", "agent", 3, 2, 1), 1)
	mark()
	return b, sizes
}

// described is all of a history that a reader can see.
func described(h *History) any {
	type attempt struct {
		Attempt
		Faults map[string]int
		List   []Case
	}
	var attempts []attempt
	for _, a := range h.Attempts {
		x := attempt{Attempt: *a, Faults: a.faults}
		for c := range a.Cases() {
			one := *c
			one.planned, one.tags, one.modes = nil, nil, nil
			x.List = append(x.List, one)
		}
		x.cases, x.slots, x.faults = caseList{}, slots{}, nil
		if len(x.Reproductions) == 0 {
			x.Reproductions = nil
		}
		attempts = append(attempts, x)
	}
	return []any{h.Line(), h.Time, attempts, len(h.Anchors), len(h.Events), len(h.Pending)}
}

func TestAtIsWhatUntilReads(t *testing.T) {
	b, sizes := busyBook(t)
	now := read(b, Options{Marks: true})
	for _, size := range sizes {
		then, ok := now.At(size)
		if !ok {
			t.Fatalf("at %d entries: cannot tell", size)
		}
		if got, want := described(then), described(read(b, Options{Until: size})); !reflect.DeepEqual(got, want) {
			t.Errorf("at %d entries:\n%+v\nwant\n%+v", size, got, want)
		}
	}
	if got, want := described(now), described(read(b, Options{})); !reflect.DeepEqual(got, want) {
		t.Errorf("looking back changed the present:\n%+v\nwant\n%+v", got, want)
	}
	// In the middle of an attempt it does not guess.
	if _, ok := now.At(now.Attempts[0].Index + 2); ok {
		t.Error("tells what was in the middle of an attempt")
	}
}

func TestAReaderGoesOnAsTheLedgerGrows(t *testing.T) {
	b, sizes := busyBook(t)
	whole := read(b, Options{})
	for _, size := range append(sizes, sizes[0]-2, sizes[2]-1) {
		r := NewReader(Options{})
		part := func(from, to int64) func(func(ledger.Record) error) (*ledger.Verified, error) {
			return func(visit func(ledger.Record) error) (*ledger.Verified, error) {
				v, err := b.Verify(func(rec ledger.Record) error {
					if rec.Index < from || rec.Index >= to {
						return nil
					}
					return visit(rec)
				})
				if err == nil && to < v.Size {
					short := *v
					short.Size = to
					v = &short
				}
				return v, err
			}
		}
		if _, err := r.Read(part(0, size)); err != nil {
			t.Fatal(err)
		}
		h, err := r.Read(part(size, whole.Entries))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := described(h), described(whole); !reflect.DeepEqual(got, want) {
			t.Errorf("continued from %d entries:\n%+v\nwant\n%+v", size, got, want)
		}
	}
}

func TestAReaderRefusesAWalkWithAGap(t *testing.T) {
	b, _ := busyBook(t)
	r := NewReader(Options{})
	if _, err := r.Read(b.Verify); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(b.Verify); err == nil {
		t.Error("entries that were seen twice pass")
	}
	if _, err := r.Read(func(func(ledger.Record) error) (*ledger.Verified, error) { return b.Verify(nil) }); err == nil {
		t.Error("a broken reader reads on")
	}
}

// What another answer says of an attempt does not depend on whether its records
// were read, but for what only they show.
func TestWithoutRecordsIsWhatIsReadUnwanted(t *testing.T) {
	b, _ := busyBook(t)
	read_, unread := read(b, Options{}), read(b, Options{Want: func(*Attempt) bool { return false }})
	for i, a := range read_.Attempts {
		got, want := *a.WithoutRecords(), *unread.Attempts[i]
		got.outer, got.outerKinds, got.faults, got.overrun = nil, nil, nil, false
		want.outer, want.outerKinds, want.faults = nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", a.ID, got, want)
		}
	}
}
