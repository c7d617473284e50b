package harness

import (
	"context"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/gateway"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/user"
)

// Config is what cases are driven and graded with: what the run is told, what was
// found of it in the workspace, and who takes part. It has no ledger, no keys and no
// folders: what is recorded needs [Books] besides.
type Config struct {
	Spec Spec

	// The class and the target that the spec names, verified and read.
	Bench  *bench.Verified
	Target *agent.Target

	Select func(*scenario.Task) bool // which of the selected cases; nil for all

	// Rank, if not nil, is in which order [Rehearse] drives them: those of a lower rank
	// first, and those of the same rank in the order of the bench.
	Rank func(caseID string) int

	// FirstPolicy is for an attempt whose plan names no policy: without one of its
	// own, the class has that of its mode, whatever tools its cases offer.
	FirstPolicy bool

	User *user.Settings // of the model that plays users; nil without user.yaml

	// What this machine has.
	Image  func(digest.Content) (*image.Image, error) // that rubrics run in
	Hidden []string                                   // folders that an agent must not see
	// Steps reads the spans that an agent's own instrumentation sends; nil to take none.
	Steps func(contentType string, body []byte) ([]gateway.Step, error)
	// TestMounts are folders that the tests of coding cases find, read-only. The
	// plan names their digests.
	TestMounts []sandbox.Mount
	TestImage  string // the digest of the image that they run from; "" for this machine's own programs

	// Library, if not nil, answers a party of a case in a replay what its recording
	// misses. A fleet does not use it.
	Library func(*scenario.Task, cassette.Purpose) *replies.Shelf

	Operator digest.ID // in whose name it is run; zero if nothing is recorded
	Parties

	// Crossed, if not nil, writes a boundary before it is crossed: the start of a
	// rubric. Without it that comes with the others, in [Graded.Crossings]. Cases
	// that run side by side call it at the same time.
	Crossed func(Crossing) error

	// Paid, if not nil, gives [Rehearse] the journal of an execution's paid calls. It
	// is asked a second time if the execution was cut off and went another way.
	Paid func(caseID string, repeat int) (*journal.Running, error)

	Now func() time.Time
}

// Parties are who takes part in a run besides the agent. Each may be nil.
type Parties struct {
	People   People   // answer approvals; without them a case waits for a resume
	Judge    Judge    // without one, what needs a model's verdict is unscored
	Replayer Judge    // judges where no model may be asked, in a run in which Judge may; nil for Judge
	Live     Live     // answers model calls; nil in a replay
	Drivers  Drivers  // drive the cases elsewhere; nil if they are driven in this process
	Progress Progress // is told of each case that is recorded
}

// A Question is what a person is asked to approve.
type Question = session.Question

// People answer approvals that the case does not.
type People interface {
	Approve(ctx context.Context, caseID string, q Question) (approve, answered bool, err error)
}

// A Judge asks a model about a value, and records each draw.
type Judge interface {
	Ask(ctx context.Context, j Judging) (Judged, error)
	// Knows refuses the name of a judge that its settings do not have.
	Knows(name string) error
	// Digest names its settings, for the plan of an attempt that needs a judge.
	Digest() digest.Content
	// Models are those that its settings name, whichever of them is asked in
	// this run.
	Models() []string
	// Texts names the program's own texts in which it puts plain questions.
	Texts() digest.Content
}

// Live answers model calls from real models, or as if they were real ones.
type Live interface {
	// Case begins the live side of one execution of a case. The recording that
	// it makes goes to the evidence.
	Case(c *scenario.Task, j Job) (Recording, error)
	// Redactor takes secrets, such as the keys of providers, out of events; nil
	// if nothing of the events is kept.
	Redactor() *cassette.Redactor
}

// A Pricer is a live side that knows what models cost.
type Pricer interface {
	PricesDigest() (digest.Content, error)
}

// An Estimator is a live side that is told, before it is asked, which of the cases of an
// attempt ask something new. A refusal of the name NotAnswered says that it will not be
// asked: the cases are then recorded as not answered.
type Estimator interface {
	Ahead(cases []string, of int) error
}

// A Spender is a live side that costs money: its calls are kept in a journal, and
// it is told, before the first case, what the attempt has spent already.
type Spender interface{ Spent(microUSD int64) }

// A Recording is a live provider and the cassette that it makes.
type Recording interface {
	session.Models
	Cassette() ([]byte, error)
}

// LiveTools is what a recording may be besides: one that calls the tools of MCP
// servers live, and is closed when the case has ended.
type LiveTools interface {
	ToolBox(*tools.State) session.ToolBox
	Close()
}

// A LiveWeb is a recording that answers HTTP requests of the agent's program too.
type LiveWeb interface{ Web() session.Web }

// A JudgeRecording is a recording that keeps the judge's calls apart.
type JudgeRecording interface{ JudgeModels() session.Models }

// A Borrower is a recording that answers from earlier ones first. What it borrowed
// goes to the record.
type Borrower interface {
	Cached() *evidence.Cached
	Normalised() evidence.NormalisedCount
	Suggest(cassette.Request) []evidence.Normaliser
}

// A Reuser is a recording that tells which replies came from the library.
type Reuser interface{ Reused() *evidence.Reused }

// A Retrier is a recording that counts how often it asked a provider again, and how
// many of the tries before were sent and may have been billed.
type Retrier interface {
	Retries() (n int, unanswered int64)
}

// Books are what an attempt has and a rehearsal has not: where it is recorded.
type Books struct {
	Ledger Ledger
	Past   *Past // what the ledger holds, gathered while it was opened
	Origin string
	Key    *seal.Key // the operator's, which signs the registration
	// Scratch registers the attempt as scratch whatever was signed: no person
	// signs for the ledger.
	Scratch bool

	Disk  store.FS // that the evidence is written to; nil for the machine's
	Packs string   // folder for the evidence
	Runs  string   // folder for what is under way
}

// A Ledger takes the records of an attempt, from several goroutines at once.
type Ledger interface {
	// AppendRecord returns when the record is durable.
	AppendRecord(kind evidence.Kind, record evidence.Body) (ledger.Position, error)
	// Head names everything that is in the ledger.
	Head() digest.ID
	// Cosign is called when a registration is durable and before the first case:
	// witnesses, if there are any, have to see it first.
	Cosign(ctx context.Context) error
	// Publish is called when the attempt is finished, to anchor it.
	Publish(ctx context.Context) error
}

// Progress is told of each case after it was recorded, in any order, by one
// goroutine at a time.
type Progress interface{ Recorded(Result) }

// A Result is one case as it was recorded.
type Result struct {
	Index  int64 // in the ledger
	Total  int   // how many the attempt will have
	Case   string
	Repeat int
	Record evidence.CaseScored
	// HeldOut says that what the record says in words is not for those who build
	// agents.
	HeldOut bool
}
