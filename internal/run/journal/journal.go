// Package journal keeps the paid calls of one live attempt, so that nothing that
// was paid for is lost when a run is killed.
//
// A journal is a file of canonical JSON lines. Before a request is sent, its
// intent is on disk; before a caller sees the reply, the reply is. So after a
// kill at any moment each call that was sent is known: with its reply and cost,
// or as "sent, outcome unknown" with the most that it can have cost. Each line
// names the hash of the line before it.
//
// [Open] reads a journal whole and refuses one that is damaged or another
// attempt's; only a last line that a crash tore is cut off. [Journal.Case] is the
// side of one execution of a case: a [Running] first answers requests from what an
// earlier process left of this execution, and is the same execution only if every
// one of those requests is made again; see [Running.Equalled].
//
// Where it stops: the chain finds an edit in the middle, and not a journal that
// was written again from there to its end. The records of the ledger name heads
// of the journal, and [Journal.Has] tells whether it still has them.
//
// docs/formats/journal.md states the format.
package journal

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// File is the name of a journal in the folder of its attempt.
const File = "paid.jsonl"

// maxLine bounds a line: an interaction of a cassette, which is at most 8 MiB of
// request and as much of reply, escaped.
const maxLine = 64 << 20

// An Owner is the attempt that a journal belongs to.
type Owner struct {
	Attempt    string
	Origin     string         // of the ledger that registered it
	Registered digest.Content // of the body of that registration
}

// An Execution is one execution of a case.
type Execution struct {
	Case   string
	Repeat int
	Number int
}

type task struct {
	id     string
	repeat int
}

// A Journal is open for appending. It is safe for concurrent use.
type Journal struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	file  *store.Lines
	lines int
	head  digest.ID
	heads map[digest.ID]bool

	calls map[Execution][]*call
	again map[Execution]int // how often it was resumed
	ended map[Execution]digest.ID
	done  map[Execution]fate
	sent  map[int]*sent // by the line of the intent, while nothing is known of it
	total evidence.Paid
	tasks map[task]*evidence.Paid
}

// A fate is what became of an execution that is not resumed.
type fate string

const (
	putAway fate = "put away"
	givenUp fate = "given up"
)

// A call is one request of an execution, through all of its tries.
type call struct {
	number  int
	payer   Payer
	request digest.ID
	tries   int
	unknown int64 // tries that were sent, outcome unknown
	replied bool
	at      int64 // of the reply's line in the file
	size    int
}

// sent is one try that was sent.
type sent struct {
	of      *call
	task    task
	ceiling int64
}

// Open opens the journal in an attempt's folder, and makes it if there is none.
// Existing says that there must be one.
func Open(fsys store.FS, dir string, owner Owner, existing bool, now func() time.Time) (*Journal, error) {
	j := newJournal(dir)
	j.now = now
	if _, err := fsys.Lstat(j.path); existing && err != nil {
		return nil, j.lost()
	}
	var err error
	j.file, err = store.OpenLines(fsys, j.path, maxLine, func(at int64, data []byte) error { return j.read(at, data, owner) })
	if err != nil {
		return nil, err
	}
	switch {
	case j.lines == 0 && existing:
		err = j.lost()
	case j.lines == 0:
		err = j.append(&Line{Kind: Opened, Format: Format, Attempt: owner.Attempt, Origin: owner.Origin, Registered: &owner.Registered})
	}
	if err != nil {
		j.file.Close()
		return nil, err
	}
	return j, nil
}

func newJournal(dir string) *Journal {
	return &Journal{path: filepath.Join(dir, File), heads: map[digest.ID]bool{}, calls: map[Execution][]*call{}, again: map[Execution]int{},
		ended: map[Execution]digest.ID{}, done: map[Execution]fate{}, sent: map[int]*sent{}, tasks: map[task]*evidence.Paid{}}
}

// Verify reads the journal in an attempt's folder and gives what it adds up to.
// Nothing is changed. Of the owner the registration need not be known.
func Verify(fsys store.FS, dir string, owner Owner) (evidence.Paid, error) {
	j, err := Read(fsys, dir, owner)
	return j.Paid(), err
}

// Read reads a journal to be asked and not written to.
func Read(fsys store.FS, dir string, owner Owner) (*Journal, error) {
	j := newJournal(dir)
	return j, store.ReadLines(fsys, j.path, maxLine, func(at int64, data []byte) error { return j.read(at, data, owner) })
}

func (j *Journal) lost() error {
	return refusal.Newf(refusal.NotFound, "%s: the journal of paid calls is gone, and cases of the attempt have run", j.path).
		WithHint("put it back, or start a new attempt; the unfinished one stays in the ledger")
}

// damaged is the refusal of a journal that is not as it was written.
func (j *Journal) damaged(line int, format string, args ...any) error {
	return refusal.Newf(refusal.ChainTamperDetected, "%s: line %d: "+format, append([]any{j.path, line}, args...)...).
		WithHint("restore the journal from a good copy, or start a new attempt; the unfinished one stays in the ledger")
}

// read takes a line of the file. What it refuses is never written over.
func (j *Journal) read(at int64, data []byte, owner Owner) error {
	n := j.lines + 1
	l, err := parseLine(data)
	if refusal.Is(err, refusal.NewerFormat) {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	if err != nil {
		return j.damaged(n, "%w", err)
	}
	if n == 1 {
		if l.Kind != Opened {
			return j.damaged(n, "it does not say whose journal this is")
		}
		if err := j.belongs(l, owner); err != nil {
			return err
		}
	}
	switch {
	case l.Line != n:
		return j.damaged(n, "it says that it is line %d", l.Line)
	case n > 1 && l.Kind == Opened:
		return j.damaged(n, "a second journal begins here")
	case n > 1 && (l.Prev == nil || *l.Prev != j.head):
		return j.damaged(n, "it does not follow the line before it, which was changed, dropped or added")
	}
	if err := j.admits(l); err != nil {
		return j.damaged(n, "%w", err)
	}
	j.take(l, at, data)
	return nil
}

// belongs refuses the journal of another attempt, also of one with the same name
// that another ledger or another person registered.
func (j *Journal) belongs(l *Line, owner Owner) error {
	if l.Attempt == owner.Attempt && l.Origin == owner.Origin && (*l.Registered == owner.Registered || owner.Registered.IsZero()) {
		return nil
	}
	found, expected := l.Attempt+" of "+l.Origin, owner.Attempt+" of "+owner.Origin
	if found == expected {
		found, expected = found+" registered as "+l.Registered.String(), expected+" registered as "+owner.Registered.String()
	}
	return refusal.Newf(refusal.ChainTamperDetected, "%s: line 1: it is the journal of %s, expected %s", j.path, found, expected).
		WithHint("put the attempt's own journal back; nothing of this one was used")
}

// append writes a line; the caller holds the lock, or is Open.
func (j *Journal) append(l *Line) error {
	l.Line = j.lines + 1
	if l.Line > 1 {
		prev := j.head
		l.Prev = &prev
	}
	data, err := canon.Marshal(l)
	if err != nil {
		return err
	}
	if err := cmp.Or(l.validate(), j.admits(l)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	at, err := j.file.Append(data)
	if err != nil {
		return err
	}
	j.take(l, at, data)
	return nil
}

// admits refuses a line that contradicts those before it.
func (j *Journal) admits(l *Line) error {
	switch l.Kind {
	case Intent:
		c := j.callOf(l)
		switch {
		case c == nil && (l.Call != len(j.calls[l.of()])+1 || l.Try != 1):
			return fmt.Errorf("it is try %d of call %d of case %.100q, which has %d calls", l.Try, l.Call, l.Case, len(j.calls[l.of()]))
		case c != nil && (c.request != *l.Request || c.payer != l.Pays || c.replied || l.Try != c.tries+1):
			return fmt.Errorf("it is not another try of call %d of case %.100q", l.Call, l.Case)
		}
	case Reply, Failed:
		if j.sent[l.Intent] == nil {
			return fmt.Errorf("line %d is not an intent whose outcome is open", l.Intent)
		}
	case Ended:
		if _, twice := j.ended[l.of()]; twice {
			return fmt.Errorf("execution %d of case %.100q has ended before", l.Execution, l.Case)
		}
	case Done:
		if j.done[l.of()] != "" {
			return fmt.Errorf("execution %d of case %.100q is done already", l.Execution, l.Case)
		}
	}
	return nil
}

func (l *Line) of() Execution { return Execution{l.Case, l.Repeat, l.Execution} }

// callOf is the call that an intent is a try of, nil if it is a new one.
func (j *Journal) callOf(l *Line) *call {
	if calls := j.calls[l.of()]; l.Call <= len(calls) {
		return calls[l.Call-1]
	}
	return nil
}

// take counts a line that is on disk.
func (j *Journal) take(l *Line, at int64, data []byte) {
	j.lines++
	j.head = digest.IDOf(data)
	j.heads[j.head] = true
	switch l.Kind {
	case Intent:
		j.takeIntent(l)
	case Reply, Failed:
		j.takeOutcome(l, at, len(data))
	case Resumed:
		j.again[l.of()]++
	case Ended:
		j.ended[l.of()] = *l.Trajectory
	case Done:
		j.done[l.of()] = putAway
		if l.Reason != "" {
			j.done[l.of()] = givenUp
		}
	}
}

func (j *Journal) takeIntent(l *Line) {
	c := j.callOf(l)
	if c == nil {
		c = &call{number: l.Call, payer: l.Pays, request: *l.Request}
		j.calls[l.of()] = append(j.calls[l.of()], c)
	}
	c.tries++
	c.unknown++
	s := &sent{of: c, task: task{l.Case, l.Repeat}}
	if l.Ceiling != nil {
		s.ceiling = *l.Ceiling
	}
	j.sent[l.Line] = s
	j.count(s.task, evidence.Paid{Unknown: 1, UnknownMicroUSD: s.ceiling})
}

func (j *Journal) takeOutcome(l *Line, at int64, size int) {
	s := j.sent[l.Intent]
	delete(j.sent, l.Intent)
	if l.Kind == Reply {
		s.of.replied, s.of.at, s.of.size = true, at, size
	}
	if l.Outcome != Unknown {
		s.of.unknown--
	}
	known := evidence.Paid{Unknown: -1, UnknownMicroUSD: -s.ceiling}
	switch {
	case l.Kind == Reply && s.of.payer == Tool:
		// It is known what became of it; what is counted as calls is paid.
	case l.Outcome == Refused:
		known.Refused = 1
	case l.Outcome == Unknown, l.Kind == Reply && l.Cost == nil:
		return // it stays the most that it can have cost
	case l.Kind == Reply:
		known.Calls, known.CostMicroUSD = 1, *l.Cost
	}
	j.count(s.task, known)
}

// count adds to the total and to that of a case.
func (j *Journal) count(t task, n evidence.Paid) {
	if j.tasks[t] == nil {
		j.tasks[t] = &evidence.Paid{}
	}
	for _, p := range []*evidence.Paid{&j.total, j.tasks[t]} {
		p.Calls += n.Calls
		p.CostMicroUSD += n.CostMicroUSD
		p.Refused += n.Refused
		p.Unknown += n.Unknown
		p.UnknownMicroUSD += n.UnknownMicroUSD
	}
}

// Paid is what all calls of the attempt cost until now.
func (j *Journal) Paid() evidence.Paid {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.total
	p.Journal = j.head
	return p
}

// PaidFor is what all executions of one repetition of a case cost until now.
func (j *Journal) PaidFor(caseID string, repeat int) evidence.Paid {
	j.mu.Lock()
	defer j.mu.Unlock()
	var p evidence.Paid
	if known := j.tasks[task{caseID, repeat}]; known != nil {
		p = *known
	}
	p.Journal = j.head
	return p
}

// Has reports whether the journal had this head at some time.
func (j *Journal) Has(head digest.ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.heads[head]
}

// Began reports whether the journal has calls of an execution.
func (j *Journal) Began(e Execution) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calls[e]) > 0
}

// Next is the execution of a case to begin, where no caller numbers them: the
// newest one if it was cut off, otherwise the one after it.
func (j *Journal) Next(caseID string, repeat int) Execution {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := Execution{caseID, repeat, 1}
	for len(j.calls[e]) > 0 && j.done[e] != "" {
		e.Number++
	}
	return e
}

// PutAway reports whether an execution of a case came to its end, and what came of
// it is kept.
func (j *Journal) PutAway(caseID string, repeat int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for e := (Execution{caseID, repeat, 1}); j.done[e] != ""; e.Number++ {
		if j.done[e] == putAway {
			return true
		}
	}
	return false
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
