package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/journal"
)

// A sitting is one recording of a class with a target, from its first call until
// every case has ended. It has a journal of its own, so that one that is killed is
// resumed by the next "tally record": what is recorded stays, what was paid for is
// not paid again.
type sitting struct {
	dir    string
	owner  journal.Owner
	done   func(caseID string) bool // recorded, or thrown away, before it was cut off
	open   func(caseID string) bool // begun, and cut off
	paid   *journal.Journal         // once it is open
	before int64                    // micro-dollars that it spent, at most, before this process
}

// finishedFile says that nothing of a sitting is left to do.
const finishedFile = "finished"

// newestSitting finds the sitting that was cut off, or the next one.
func (r *Recording) newestSitting() (*sitting, error) {
	home := filepath.Join(r.place.Private("recordings"), r.Bench.Class(), r.Target.Name)
	for n := 1; ; n++ {
		no := func(string) bool { return false }
		s := &sitting{dir: filepath.Join(home, strconv.Itoa(n)), done: no, open: no}
		if workspace.Exists(filepath.Join(s.dir, finishedFile)) {
			continue
		}
		name := fmt.Sprintf("record.%s.%s.%d", r.Bench.Class(), r.Target.Name, n)
		s.owner = journal.Owner{Attempt: name, Origin: r.place.Settings.Origin, Registered: digest.ContentOf([]byte("tally record " + name))}
		j, err := journal.Read(store.OS{}, s.dir, s.owner)
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		s.done = func(id string) bool { return j.PutAway(id, 1) }
		s.open = func(id string) bool { return j.Began(j.Next(id, 1)) }
		paid := j.Paid()
		if s.before = paid.Most(); s.before > 0 {
			r.place.Note("resuming the recording that was interrupted: %d calls for %s are in its journal and are not paid again; %d more were sent, outcome unknown",
				paid.Calls, plain.Dollars(paid.CostMicroUSD), paid.Unknown)
		}
		return s, nil
	}
}

// begin opens the journal, for the one process that holds the ledger.
func (s *sitting) begin(r *Recording) (err error) {
	s.paid, err = journal.Open(store.OS{}, s.dir, s.owner, s.before > 0, r.place.Now)
	if err == nil {
		r.budget.Spend(s.before)
	}
	return err
}

// of is the side of one case: the execution that was cut off, or a new one.
func (s *sitting) of(caseID string, repeat int) (*journal.Running, error) {
	return s.paid.Case(s.paid.Next(caseID, repeat))
}

// close closes the journal. A sitting whose cases have all ended is over.
func (s *sitting) close(complete bool) error {
	if s.paid == nil {
		return nil
	}
	err := s.paid.Close()
	if err == nil && complete {
		err = s.finish()
	}
	return err
}

func (s *sitting) finish() error {
	return store.WriteFile(store.OS{}, filepath.Join(s.dir, finishedFile), nil, 0o600)
}
