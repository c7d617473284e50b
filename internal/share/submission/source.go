package submission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/audit/disposition"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Source is all that a package is derived from.
type Source struct {
	Origin   string
	TreeSize int64 // that the receipts are for

	Registered *evidence.AttemptRegistered
	// Class is every registration of the attempt's class in that tree, by number.
	Class      []*evidence.AttemptRegistered
	Finished   *evidence.AttemptFinished // nil, for an audit, if it has not finished
	FinishedAt evidence.Time
	Records    []Record // in the order of the ledger

	// Draws are the verdicts that a judge was asked for in the attempt, and
	// Dispositions what people said about its findings, in the order of the ledger.
	Draws        []Draw
	Dispositions []Disposed
	Beside       []Beside // corrections and amendments of its records
	// Exact says that every entry from the registration to the end of the tree was
	// looked at, so that nothing of the attempt or its class is left out.
	Exact bool
	// Whole says that those before the registration were looked at, too, so that the
	// numbers of the class do not rest on how the ledger numbered it.
	Whole bool

	// Withheld are tasks that are held out and of which, in an audit, only the
	// outcome is told. A package has none.
	Withheld map[string]bool

	// Level is what a reader of the whole ledger made of the attempt.
	Level string
	// Registration is registration.yaml and Target the settings of the target,
	// both in canonical JSON; the plan has their digests. Nil if they are not there
	// any more: an audit then has a gap, and a package needs the first.
	Registration []byte
	Target       []byte

	// WithoutSources leaves the programs that decide the score out of the package.
	WithoutSources bool

	// Read gives a piece of evidence that has this digest.
	Read func(digest.Content) ([]byte, error)
}

// A Draw is a judge.drawn entry.
type Draw struct {
	Entry int64
	*evidence.JudgeDrawn
}

// A Disposed is an audit.disposed entry.
type Disposed struct {
	Entry int64
	*evidence.AuditDisposed
}

// A Record is a case.scored entry.
type Record struct {
	Entry int64
	Head  digest.ID // of the ledger with it as its last entry
	*evidence.CaseScored
}

// dataSet is what a registration says of the data; see bench.DataSet.
type dataSet struct {
	Name     string `json:"name"`
	Split    string `json:"split"`
	Revision string `json:"revision"`
	Files    []struct {
		Path   string    `json:"path"`
		SHA256 digest.ID `json:"sha256"`
	} `json:"files"`
}

// data reads it, nil if the class was not made of published data.
func (a *Source) data() (*dataSet, error) {
	if a.Registration == nil {
		return nil, nil
	}
	var members map[string]canon.RawMessage
	if err := canon.UnmarshalCanonical(a.Registration, &members); err != nil {
		return nil, fmt.Errorf("registration: %w", err)
	}
	raw, ok := members["data_set"]
	if !ok {
		return nil, nil
	}
	d := &dataSet{}
	return d, json.Unmarshal(raw, d)
}

// check refuses what does not belong together, so that nothing can be put in from
// another attempt.
func (a *Source) check() error {
	r := a.Registered
	switch {
	case digest.ContentOf(a.Registration) != r.Plan.RegistrationDigest:
		return bad("registration.json is not the registration that the plan names, %s", r.Plan.RegistrationDigest)
	case a.Target != nil && digest.ContentOf(a.Target) != r.Plan.TargetDigest:
		return bad("target.json is not the target that the plan names, %s", r.Plan.TargetDigest)
	case a.Finished.Attempt != r.Attempt:
		return bad("the end is of attempt %s, the registration of %s", a.Finished.Attempt, r.Attempt)
	}
	for i, other := range a.Class {
		if other.Class != r.Class || other.Number != i+1 {
			return bad("registration %d of the class is number %d of class %s, expected number %d of %s", i+1, other.Number, other.Class, i+1, r.Class)
		}
	}
	if !slices.ContainsFunc(a.Class, func(other *evidence.AttemptRegistered) bool { return other.Attempt == r.Attempt }) {
		return bad("the registration of the attempt is not among those of its class")
	}
	for _, rec := range a.Records {
		if rec.Attempt != r.Attempt || rec.Class != r.Class {
			return bad("entry %d is of attempt %s, expected %s", rec.Entry, rec.Attempt, r.Attempt)
		}
	}
	for _, d := range a.Draws {
		if d.Attempt != r.Attempt {
			return bad("entry %d is a draw of attempt %s, expected %s", d.Entry, d.Attempt, r.Attempt)
		}
	}
	return a.checkCounts()
}

// redraws counts the verdicts of questions that had one before, in whatever
// attempt: the ledger numbers the draws of a question.
func (a *Source) redraws() (n int) {
	for _, d := range a.Draws {
		if d.Draw > 1 {
			n++
		}
	}
	return n
}

// disposed verifies what people signed about findings.
func (a *Source) disposed() ([]audit.Disposed, error) {
	var out []audit.Disposed
	for _, d := range a.Dispositions {
		s, err := disposition.OfEntry(d.AuditDisposed)
		if err != nil {
			return nil, bad("entry %d, a disposition: %v", d.Entry, err)
		}
		if d.Attempt != a.Registered.Attempt {
			return nil, bad("entry %d is a disposition of attempt %s, expected %s", d.Entry, d.Attempt, a.Registered.Attempt)
		}
		out = append(out, audit.Disposed{Finding: s.Disposition.Finding, Check: d.Check, Reason: d.Reason, Key: d.Key, Entry: d.Entry})
	}
	return out, nil
}

// checkCounts compares the end with the records: as many of each outcome.
func (a *Source) checkCounts() error {
	seen := map[evidence.Outcome]int{}
	for _, rec := range a.Records {
		seen[rec.Outcome]++
	}
	for _, o := range []evidence.Outcome{evidence.Passed, evidence.Failed, evidence.Skipped, evidence.Errored, evidence.Unscored, evidence.Truncated} {
		if seen[o] != a.Finished.Outcomes[o] {
			return bad("%d records have the outcome %s, the end of the attempt says %d", seen[o], o, a.Finished.Outcomes[o])
		}
	}
	return nil
}

// A task is a planned case with its records, one for each repetition.
type task struct {
	evidence.PlannedCase
	records []Record
}

// tasks are all that were planned, in the order of the plan.
func (a *Source) tasks() ([]task, error) {
	planned := a.Registered.Plan.Cases
	if d := a.Registered.Plan.CasesDigest; d != nil {
		data, err := a.Read(*d)
		if err != nil {
			return nil, fmt.Errorf("the list of planned cases: %w", err)
		}
		if err := canon.UnmarshalCanonical(data, &planned); err != nil {
			return nil, fmt.Errorf("the list of planned cases: %w", err)
		}
	}
	if len(planned) != a.Registered.Plan.CaseCount {
		return nil, bad("%d cases are listed, the plan has %d", len(planned), a.Registered.Plan.CaseCount)
	}
	at := make(map[string]int, len(planned))
	tasks := make([]task, len(planned))
	for i, p := range planned {
		at[p.ID], tasks[i].PlannedCase = i, p
	}
	for _, rec := range a.Records {
		i, ok := at[rec.CaseID]
		switch {
		case !ok || rec.CaseDigest != tasks[i].Digest:
			return nil, bad("entry %d is of case %s, which was not planned, or was another", rec.Entry, rec.CaseID)
		case slices.ContainsFunc(tasks[i].records, func(r Record) bool { return r.Repeat == rec.Repeat }):
			return nil, bad("entry %d: case %s, repetition %d is there twice", rec.Entry, rec.CaseID, rec.Repeat)
		}
		tasks[i].records = append(tasks[i].records, rec)
	}
	for i := range tasks {
		slices.SortFunc(tasks[i].records, func(a, b Record) int { return a.Repeat - b.Repeat })
	}
	return tasks, nil
}

// executions are those that gave an answer to choose from. One that was begun and
// left no record gave none, and is counted as abandoned.
func (t *task) executions() int { return len(t.records) }

// level is the level of difficulty that a case is tagged with, 0 without one.
func level(tags []string) int {
	for _, t := range tags {
		if n, ok := strings.CutPrefix(t, LevelTag); ok && len(n) == 1 && n[0] >= '1' && n[0] <= '9' {
			return int(n[0] - '0')
		}
	}
	return 0
}

// LevelTag begins the tag of a case that says its level.
const LevelTag = "level-"

// bad is a refusal of something that does not fit together.
func bad(format string, args ...any) error {
	return refusal.Newf(refusal.SubmissionInvalid, "submission: "+format, args...).
		WithHint("it was changed, or put together from several; ask for the package again")
}
