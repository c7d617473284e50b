package history

import (
	"iter"
	"time"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// Options say what to read of a ledger.
type Options struct {
	// Want reports whether the records of an attempt are kept, given what its
	// registration says. Nil keeps all. Of the others only counts are kept.
	Want func(*Attempt) bool
	// CaseList reads the piece of evidence that holds a case list too long for
	// its entry, having checked its digest. Nil finds none.
	CaseList func(digest.Content) ([]byte, error)
	// Cosigned lists checkpoints of the ledger, once it has verified, whose
	// cosignatures by trusted witnesses the caller has verified. The level
	// witnessed rests on them alone: that an entry claims cosignatures proves
	// nothing to a reader who does not trust the operator. Nil lists none.
	Cosigned func(*ledger.Verified) ([]Cosigned, error)
	// Pinned lists the ledgers that two people signed for, once this one has
	// verified; nil if none was signed for. Without the func none is listed.
	Pinned func(*ledger.Verified) ([]Ledger, error)
	// Until, if positive, reads the history as it was when the ledger had so
	// many entries. All of the ledger is verified all the same.
	Until int64
	// Marks keeps the head and the time of every entry, for [History.At] and
	// [History.HeadAfter].
	Marks bool
}

// A Cosigned is a verified checkpoint with its verified cosignatures.
type Cosigned struct {
	Size      int64
	Witnesses []string
}

// A History is what a verified ledger says about attempts. Only [Read] makes
// one.
type History struct {
	Origin string
	// FirstEntry is the content of the first entry: a ledger that was begun anew
	// under the same origin has another one.
	FirstEntry digest.Content
	Entries    int64
	Head       digest.ID
	// Time is that of the last entry.
	Time evidence.Time
	// Attempts are in the order of their registration.
	Attempts []*Attempt

	// Manual counts the entries that were appended by hand and are not here.
	Manual int64
	// Orphans counts the records that name no attempt registered before them.
	Orphans int64

	// What else decisions need, in the order of the ledger.
	Anchors []Anchor
	Events  []Event   // integrity events
	Pending []Pending // drafts made of production incidents
	Tapes   []Tape    // cassettes that were recorded
	// Authorities are the entries that signatures of people are judged by.
	Authorities []Authority

	byID        map[string]*Attempt
	known       *known // who is who at the end
	amendments  []amendment
	corrections []correction
	reviews     []review
	// Calibrations are comparisons of judges with people, oldest first.
	Calibrations []Calibration
	cosigned     []Cosigned
	pinned       []Ledger
	marks        *marks // nil unless asked for
}

// Line says what was read, for an answer that rests on it.
func (h *History) Line() Line { return Line{h.Origin, h.Entries, h.Head, h.Manual, h.Orphans} }

// A Line says what of a ledger was read.
type Line struct {
	Origin  string    `json:"origin"`
	Entries int64     `json:"entries"`
	Head    digest.ID `json:"head"`
	Manual  int64     `json:"manual_entries"`
	Orphans int64     `json:"orphan_records"`
}

// Attempt returns the attempt of that id, or nil.
func (h *History) Attempt(id string) *Attempt { return h.byID[id] }

// An Anchor is an anchor.published entry: a claim that witnesses cosigned.
type Anchor struct {
	Index int64
	Time  evidence.Time
	evidence.AnchorPublished
}

// An Event is an integrity.event entry.
type Event struct {
	Index int64
	Time  evidence.Time
	evidence.IntegrityEvent
}

// A Pending is a case.pending entry.
type Pending struct {
	Index int64
	Time  evidence.Time
	evidence.CasePending
}

// A Tape is a cassette.recorded entry.
type Tape struct {
	Index int64
	evidence.CassetteRecorded
}

// An Authority is an entry that signatures of people are judged by: a change of the
// signers, or the acceptance of a case, which fixes when those on it had to be valid.
type Authority struct {
	Index int64
	What  string
	Class string // of the case; "" for a change of the signers
}

// An Attempt is one attempt with what the ledger says about it.
type Attempt struct {
	ID       string
	Index    int64     // of the registration
	Head     digest.ID // of that entry
	Time     evidence.Time
	Class    string
	Target   string
	Number   int // as registered; see Ordinal
	Mode     string
	Origin   string // as registered; another ledger's attempt does not count here
	Scratch  bool
	Plan     evidence.Plan
	PlanID   digest.Content // of the plan's canonical bytes
	Operator digest.ID

	// Name and Note are what "tally name" gave it last, "" if nothing. They are for
	// people to find it by, and decide nothing.
	Name, Note string
	// NamedAt and NotedAt are the entries that say so; meaningless without a name or note.
	NamedAt, NotedAt int64

	// Ordinal and Siblings: this is attempt Ordinal of Siblings of its class,
	// by whichever target: a renamed one starts nothing anew. PlanOrdinal and
	// PlanSiblings count those whose whole plan is the same.
	Ordinal, Siblings         int
	PlanOrdinal, PlanSiblings int

	// Signer and Key are who signed the registration, "" if the signature does
	// not verify.
	Signer string
	Key    string
	runner *seal.Signature // theirs, nil if it does not verify

	// Level names the most that is known; [Attempt.Properties] says what each
	// thing adds.
	Level Level
	// Examples says that people who come with "tally init" could sign benches
	// when the attempt was registered.
	Examples bool
	// Pin says whether two people signed for the ledger.
	Pin Pin
	// Witnessed says that a cosigned checkpoint covered the registration
	// before the first case ran. A reproduced attempt need not have been.
	Witnessed     bool
	Reproductions []Reproduction

	FirstStarted int64 // index of its first case.started, or -1
	Executions   int   // case.started entries
	Abandoned    int   // of these, without a record of their own
	Records      int   // case.scored entries, all
	Passed       int   // of these, with the outcome passed
	Excluded     int   // of these, that do not count; Problems says why
	Finished     *Finished
	// Stop is the answer of an attempt that was registered with a question and may
	// stop when it is answered; nil if there is none, or before the end.
	Stop *Stop

	// Draws counts the verdicts that were drawn from a model for this attempt;
	// Redraws those of them whose question had been drawn before: the operator
	// rolled again, or removed the verdict.
	Draws, Redraws int
	drawnFor       map[string]bool // the cases that a verdict was drawn for

	judged      bool // a model judges cases of its plan
	calibration *JudgeStanding

	// Kept says that the records are here; see [Options.Want].
	Kept bool
	// Listed says that every planned case is known by name.
	Listed bool
	// Problems are what is wrong with the attempt's records, the first of each
	// kind with its entry.
	Problems []string

	cases    caseList
	unlisted int // planned repetitions of which not even the name is known
	stray    int // executions of what was not planned, without a record
	overrun  bool
	slots    slots
	faults   map[string]int
	// outer are the problems that are seen without reading the records.
	outer      []string
	outerKinds map[string]bool
	last       int64 // the last entry that says something about the attempt itself
}

// A Finished is an attempt.finished entry.
type Finished struct {
	Index int64
	Head  digest.ID // of that entry
	Time  evidence.Time
	evidence.AttemptFinished
}

// Cases gives every repetition of every planned case in the order of the plan;
// without the list of cases, those that were started. The pointers stay valid.
func (a *Attempt) Cases() iter.Seq[*Case] { return a.cases.all() }

// Has reports whether the record is one of the attempt's.
func (a *Attempt) Has(c *Case) bool {
	for x := range a.Cases() {
		if x == c || x.Index == c.Index && c.Index >= 0 {
			return true
		}
	}
	return false
}

// Tasks is how many repetitions of cases the attempt promised to run. All are
// in the denominator.
func (a *Attempt) Tasks() int {
	if !a.Kept {
		return tasks(&a.Plan)
	}
	return a.cases.n + a.unlisted
}

// Unanswered is how many repetitions asked for a reply that is not recorded: an attempt
// with some has no score and no verdict. Of an attempt whose records were not read it is
// what its end says.
func (a *Attempt) Unanswered() int {
	n := 0
	for c := range a.Cases() {
		if c.Unanswered() {
			n++
		}
	}
	if a.Finished != nil {
		n = max(n, a.Finished.Unanswered)
	}
	return n
}

// Unanswered reports whether the case asked for a reply that is not recorded.
func (c *Case) Unanswered() bool { return c.Context != nil && c.Context.Unanswered }

// Unlisted is how many of them are known by number only, because the list of
// cases is not at hand: they were not run, or that cannot be told.
func (a *Attempt) Unlisted() int { return a.unlisted }

// Replayed is the cassette that the record of a case names, or, of a case without
// a record, the planned one; nil if there is none.
func (c *Case) Replayed() *digest.Content {
	if c.Index < 0 {
		return c.planned
	}
	return c.Cassette
}

// NotAsPlanned is the kind of fault of a record that names another case or
// cassette than the plan does, in [Attempt.Faults] and before [Attempt.Problems].
const NotAsPlanned = "not as planned"

// WithoutRecords is the attempt as [Read] gives it to a caller who did not want
// its records: what an answer about another attempt says of this one.
func (a *Attempt) WithoutRecords() *Attempt {
	if !a.Kept {
		return a
	}
	b := *a
	b.Kept, b.Listed, b.Excluded, b.Problems = false, false, 0, a.outer
	b.Abandoned = max(0, a.Executions-a.Records)
	b.cases, b.unlisted, b.stray = caseList{}, 0, 0
	return &b
}

// A Case is one repetition of one case: its record, or that there is none.
type Case struct {
	ID     string
	Digest digest.Content
	Index  int64     // of the case.scored entry; -1 if there is none
	Head   digest.ID // of that entry

	// Context is what the record says about how it was made; nil without a
	// record. It is shared.
	Context *Context
	// Amendment is the last score.amended of the record, or nil.
	Amendment *Amendment
	// Correction is what people signed beside the record, or nil.
	Correction *Correction
	// Cassette is what was replayed, or nil. It is shared.
	Cassette *digest.Content
	Evidence []digest.Content
	// Cached is how many replies of a live case were not paid for; nil in attempts
	// that use no recordings.
	Cached *Cached
	// User is what the simulated user of the case took; nil if it had none.
	User *User
	// Reused is how many replies came from the library; nil if none did.
	Reused *Reused

	Score     float64 // as recorded, 0 without one
	Tokens    int64
	Cost      cost.Cost
	StartedMS int64 // since 1970
	LatencyMS int64 // finished_at - started_at

	Repeat    int32
	Execution int32 // of the record
	Started   int32 // executions started
	Scored    int32 // records of this repetition; only the first counts
	Retries   int32
	Turns     int32

	Violations        int32
	Rollbacks         int32
	RollbacksVerified int32

	ToolCalls CallCount

	// StartedBy is the key of the worker that its last case.started names, or nil. It
	// is shared.
	StartedBy *string

	recorded outcome
	planned  *digest.Content // the planned cassette, or nil
	tags     *[]string
	modes    *[]string
}

// A Cached says how many of the replies of a case came from a recording.
type Cached struct {
	Recording      digest.Content // that answered them; zero if none did
	Replies, Calls int64
}

// A User is what a simulated user took, apart from what the agent spent.
type User struct{ CostMicroUSD, Unpriced, Tokens int64 }

// Cost is what it cost in millionths of a dollar, as far as that is known; 0 of none.
func (u *User) Cost() int64 {
	if u == nil {
		return 0
	}
	return u.CostMicroUSD
}

// Spent is how many tokens it took; 0 of none.
func (u *User) Spent() int64 {
	if u == nil {
		return 0
	}
	return u.Tokens
}

// A Reused says how many of the replies of a case came from the library of replies, and
// how many of these no entry of the ledger names.
type Reused struct{ Replies, Unlisted int64 }

// A CallCount is how many tool calls a record has of each vantage, if it says.
type CallCount struct {
	Known                        bool
	Executed, Reported, Proposed int32
}

// A Context is what records of one attempt have in common.
type Context struct {
	HarnessVersion string
	Isolation      string
	Scope          string
	AgentIsolation string
	AgentScope     string
	Vantage        string
	Provenance     string
	JudgedByModel  bool
	Unanswered     bool // it asked for a reply that is not recorded
	// Some of its replies were found only by normalisers: of the class, of the
	// target.
	ByClassNormalisers, ByTargetNormalisers bool

	Operator      digest.ID
	Rubric, Image digest.Content // zero if the record has none

	// Of the machine of a fleet that drove the case: the fingerprint of its key, and
	// its program; "" if the operator's own machine did.
	Worker, WorkerVersion string
}

// An Amendment is a score.amended entry. It stands beside the record; see
// [Case.Passed].
type Amendment struct {
	Index  int64
	Passed bool
	Score  float64
	Author string
	Reason string
	Count  int // amendments of this record
	Time   evidence.Time
	// Fills says that the record is unscored and this is its first score, or
	// what a later amendment lowered that to.
	Fills bool
}

// NotRun is the outcome of a planned repetition that has no record. No record
// says so: it is what is missing.
const NotRun evidence.Outcome = "not_run"

// outcome is an [evidence.Outcome] in one byte.
type outcome uint8

const (
	notRun outcome = iota
	passed
	failed
	skipped
	errored
	unscored
	truncated
)

var outcomes = [...]evidence.Outcome{NotRun, evidence.Passed, evidence.Failed, evidence.Skipped, evidence.Errored, evidence.Unscored, evidence.Truncated}

func outcomeOf(o evidence.Outcome) outcome {
	for i, known := range outcomes {
		if o == known {
			return outcome(i)
		}
	}
	return errored
}

// Outcome is what the record says, before amendments, or [NotRun].
func (c *Case) Outcome() evidence.Outcome { return outcomes[c.recorded] }

// Effective is the outcome that counts for scorecards and gates: what people
// corrected it to, else that of [Case.Uncorrected]. An amendment that came after
// the correction may still turn a passed case into a failed one.
func (c *Case) Effective() evidence.Outcome {
	k := c.Correction
	switch {
	case c.isFilled() && c.Amendment.Passed:
		return evidence.Passed
	case c.isFilled():
		return evidence.Failed
	case k == nil:
		return c.Uncorrected()
	case k.Now.Passed && !(c.amendedAfter(k) && !c.Amendment.Passed):
		return evidence.Passed
	}
	return evidence.Failed
}

// Uncorrected is the outcome without corrections: an amendment turns a passed
// case into a failed one, and nothing into a passed one.
func (c *Case) Uncorrected() evidence.Outcome {
	if c.recorded == passed && c.Amendment != nil && !c.Amendment.Passed {
		return evidence.Failed
	}
	return c.Outcome()
}

func (c *Case) amendedAfter(k *Correction) bool {
	return c.Amendment != nil && c.Amendment.Index > k.last
}

// Passed reports whether the case counts as solved.
func (c *Case) Passed() bool { return c.Effective() == evidence.Passed }

// IsScored reports whether there is a score, of the record or of an amendment
// that fills it in.
func (c *Case) IsScored() bool { return c.WasScored() || c.isFilled() }

// WasScored reports whether the record has a score: a rubric judged the case.
func (c *Case) WasScored() bool { return c.recorded == passed || c.recorded == failed }

// isFilled reports whether an unscored record got its score later, as after an
// outage of the judge. It counts for scorecards and gates, and not for promotion.
func (c *Case) isFilled() bool {
	return c.recorded == unscored && c.Amendment != nil && c.Amendment.Fills
}

// EffectiveScore is the score that counts for scorecards and gates: the
// corrected one, else that of [Case.UncorrectedScore]. An amendment that came
// after the correction may lower it.
func (c *Case) EffectiveScore() float64 {
	k := c.Correction
	switch {
	case c.isFilled():
		return c.Amendment.Score
	case k == nil:
		return c.UncorrectedScore()
	case c.amendedAfter(k):
		return min(k.Now.Score, c.Amendment.Score)
	}
	return k.Now.Score
}

// UncorrectedScore is the score without corrections: the recorded one, or that
// of the last amendment if it is lower.
func (c *Case) UncorrectedScore() float64 {
	if c.WasScored() && c.Amendment != nil {
		return min(c.Score, c.Amendment.Score)
	}
	return c.Score
}

// Raises reports whether an amendment asks for more than the record has. It is
// shown and does not count.
func (c *Case) Raises() bool {
	a := c.Amendment
	return a != nil && !c.isFilled() && (a.Passed && c.recorded != passed || !c.WasScored() || a.Score > c.Score)
}

// Tags are the case's tags as recorded. The list is shared.
func (c *Case) Tags() []string { return list(c.tags) }

// FailureModes are those of the score as recorded. The list is shared.
func (c *Case) FailureModes() []string { return list(c.modes) }

func list(p *[]string) []string {
	if p == nil {
		return nil
	}
	return *p
}

// Latency is the case's wall clock.
func (c *Case) Latency() time.Duration { return time.Duration(c.LatencyMS) * time.Millisecond }
