package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"time"
)

// An Input is what is audited. Results are needed; whatever else is missing makes
// checks skip.
type Input struct {
	// Results are the answers: results.jsonl, or a JSON document of the run.
	Results Source
	// Trajectories are what the agent did, a line for each task.
	Trajectories Source
	// Metadata describes the run: metadata.json.
	Metadata Source
	// Sources are the files that decide a score: the harness, graders, rubrics,
	// the agent. HasSources says that they were given, even if there are none.
	Sources    []SourceFile
	HasSources bool
	// SourceGaps are what decides a score and is not among the sources, and why.
	// AgentGaps are files of the agent that decide none by themselves, as data.
	SourceGaps []string
	AgentGaps  []string
	// AgentNotes are what the agent has besides its files, as installed packages.
	AgentNotes []string
	// Published are the files of the data set: paths by their SHA-256, in hex.
	Published map[string]string

	// Bodies opens the whole text of a step by its SHA-256, in hex. An error that
	// is fs.ErrNotExist means that it is not there. Nil if there are no bodies.
	Bodies func(sha256 string) (io.ReadCloser, error)

	// Log is the SHA-256, in hex, of another harness's log that results and
	// trajectories were made of; "" if they are files of their own.
	Log string

	// Strict makes failures of severity warn count for [Report.Met].
	Strict bool
	// AuditedAt goes into the report. If it is zero the report takes the time
	// from the metadata, or says that there is none.
	AuditedAt time.Time
	// Vouched is what receipts say about a run of ours; nil for other files.
	Vouched *Vouched
	// Dispositions are what people said about findings of the attempt, verified.
	// Present is for the audit to say.
	Dispositions []Disposed
	// Workers is how many lines are checked at once; 0 for as many as there are
	// processors. The report does not depend on it.
	Workers int
}

// A Source is a file that is read once, from its beginning to its end. Its zero
// value is a file that was not given.
type Source struct {
	Name string // for messages
	Open func() (io.ReadCloser, error)
}

// Given reports whether there is such a file.
func (s Source) Given() bool { return s.Open != nil }

// A SourceFile is a file of a program.
type SourceFile struct {
	Path   string // with slashes, as it is shown
	SHA256 string // that receipts state, or "" if nothing vouches for it
	Agent  bool   // it is the agent's, which carries no answers with it
	Open   func() (io.ReadCloser, error)
}

// Vouched is what the ledger says of an attempt, against which claims in the
// files are held.
type Vouched struct {
	Attempt string // its id
	Number  int    // of this class, in the ledger
	Of      int    // attempts of this class that were registered so far

	// VotingAttempts are the executions from which each answer was chosen: the
	// largest number of any task.
	VotingAttempts int
	// Recorded are the executions that left a record, by task: as many trajectories
	// as there must be.
	Recorded map[string]int
	// Abandoned are executions that were started and left no record.
	Abandoned int
	// Redraws are judge verdicts that were drawn again.
	Redraws int
	// JudgeCacheEvents counts entries of the judge cache that did not verify.
	JudgeCacheEvents int
	// Split is that of the registration: validation, test, smoke, or "" if the
	// class is not of GAIA.
	Split string
	// SplitUnknown says that the registration is not at hand, so it cannot be
	// said which split it names.
	SplitUnknown bool
	// AnswersOnly are the tasks whose agent ran elsewhere, by id: what it
	// did was not observed, so that a trajectory without work says nothing. What a file claims of
	// itself does not count: an exploit would claim it.
	AnswersOnly map[string]bool
	// Unshown are the tasks of which not every word of a model and not every result
	// of a tool shows from where the harness stood, by id, and why.
	Unshown map[string]string
	// Digests of the inputs, in hex, where receipts vouch for their bytes or for
	// what they were derived from.
	Results, Trajectories, Metadata bool
}

// Run audits. An error is about the input: it could not be read, or is not what
// it must be, or contradicts itself. Findings are not errors.
func Run(ctx context.Context, in Input) (*Report, error) {
	a := newAuditor(in)
	if err := a.readMetadata(); err != nil {
		return nil, err
	}
	if err := a.readResults(ctx); err != nil {
		return nil, err
	}
	if err := a.readTrajectories(ctx); err != nil {
		return nil, err
	}
	if err := a.readSources(ctx); err != nil {
		return nil, err
	}
	return a.report(), nil
}

// A hashed is a reader that takes the digest of all that goes through it.
type hashed struct {
	src  io.Reader
	hash hash.Hash
}

func newHashed(src io.Reader) *hashed { return &hashed{src, sha256.New()} }

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.src.Read(p)
	h.hash.Write(p[:n])
	return n, err
}

func (h *hashed) sum() string { return hex.EncodeToString(h.hash.Sum(nil)) }
