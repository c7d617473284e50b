package evidence

import (
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// SchemaVersion is the version of the attempt records.
const SchemaVersion = 1

// A PlannedCase is one case that an attempt promised to run. Its fields are in
// the order of their names in JSON: a long list is then compared with its one
// spelling as it is read, and never written out again in memory.
type PlannedCase struct {
	Cassette *digest.Content `json:"cassette,omitempty"`
	Digest   digest.Content  `json:"digest"`
	ID       string          `json:"id"`
}

// A Plan fixes, before the first case runs, everything that decides a score.
type Plan struct {
	BenchDigest        digest.ID       `json:"bench_digest"`
	RegistrationDigest digest.Content  `json:"registration_digest"`
	RubricDigest       *digest.Content `json:"rubric_digest,omitempty"`
	TargetDigest       digest.Content  `json:"target_digest"`
	ImageDigest        *digest.Content `json:"image_digest,omitempty"`
	JudgeDigest        *digest.Content `json:"judge_digest,omitempty"`  // of the judge's settings, if a case needs a judge
	JudgesDigest       *digest.Content `json:"judges_digest,omitempty"` // of the class's templates for judges, if a case needs a judge
	// JudgeQuestion names everything that decides what the judges of the class are
	// asked, but for the cases themselves: judge.yaml, criteria, scales, templates,
	// what is shown, panels, votes, thresholds and the program's own texts, of every
	// case of the class, whichever are run.
	JudgeQuestion *digest.Content `json:"judge_question,omitempty"`
	// UserDigest names who plays the users of cases, if a model does: user.yaml with
	// the template of its prompt. UserPrompt is that template alone.
	UserDigest *digest.Content `json:"user_digest,omitempty"`
	UserPrompt *digest.Content `json:"user_prompt,omitempty"`
	// Cases lists the plan here, or CasesDigest names the list in the evidence
	// when it is too long for an entry.
	Cases       []PlannedCase   `json:"cases,omitempty"`
	CasesDigest *digest.Content `json:"cases_digest,omitempty"`
	CaseCount   int             `json:"case_count"`
	Repeat      int             `json:"repeat"`
	// Filtered says that only some cases of the bench were selected: such an
	// attempt is shown and never counts for promotion. Selection says how.
	Filtered  bool       `json:"filtered,omitempty"`
	Selection *Selection `json:"selection,omitempty"`
	// Retries is the attempt whose errors this one runs again; its cases are the
	// plan's, and it is filtered.
	Retries string `json:"retries,omitempty"`
	// Reduce says how the repetitions of a case make its outcome; absent, each
	// counts by itself. An attempt that has it never counts for promotion.
	Reduce Reducer `json:"reduce,omitempty"`
	// StopEarly ends the attempt when its question is answered; the order of the
	// cases is then drawn by its seed. Such an attempt answers this question and
	// never counts for promotion.
	StopEarly *StopEarly `json:"stop_early,omitempty"`
	// Floor is what null answers score in the class, as its registration states it; it
	// is said beside every number of the attempt.
	Floor *Floor `json:"floor,omitempty"`
	// Parameters are those of the target's variant.
	Parameters []PlannedParameter `json:"parameters,omitempty"`
	// ScoringDigest names what of the bench decides a score, which is all of it
	// but tiers, thresholds and gates.
	ScoringDigest digest.Content `json:"scoring_digest"`
	// AgentRoot is the root file system that the agent's program finds, and TestRoot
	// the one that the tests of cases find. A built-in agent and one behind a URL have
	// none here. Mounts are what else of the machine is shown.
	AgentRoot *Root `json:"agent_root,omitempty"`
	TestRoot  *Root `json:"test_root,omitempty"`
	// WorldRoots are those that the worlds of cases find, each once.
	WorldRoots []Root         `json:"world_roots,omitempty"`
	Mounts     []PlannedMount `json:"mounts,omitempty"`
	// Policy is the digest of the policy if it is the restricted one and allows
	// the tools that cases of the class offer besides its own. Absent, it is what
	// the registration says by itself.
	Policy *digest.ID `json:"policy,omitempty"`
	// SubmitIntent says that the attempt is meant to be submitted: an operator
	// who looks at the result first and then decides has not said so before.
	// Recording is what is noted of the texts while they pass; absent is
	// nothing.
	SubmitIntent bool          `json:"submit_intent,omitempty"`
	Recording    RecordingKind `json:"recording,omitempty"`
	// SecondView says who is asked about answers that an official scorer did not
	// take; absent means that no second view is asked for.
	SecondView SecondViewer `json:"second_view,omitempty"`
	// Sources names, in the evidence, the list of the programs that decide the
	// score. An attempt that is recorded for a submission has it.
	Sources *digest.Content `json:"sources,omitempty"`
	// Normalisers are what match keys were computed with.
	Normalisers []PlannedNormaliser `json:"normalisers,omitempty"`
	// PricesDigest names the prices of models that costs are counted by, in an attempt
	// that may ask providers.
	PricesDigest *digest.Content `json:"prices_digest,omitempty"`
	// Replies say that a live attempt uses recordings first.
	Replies *PlannedReplies `json:"replies,omitempty"`
}

// A SecondViewer is who is asked about answers that an official scorer did not take.
type SecondViewer string

// ViewedByJudge is the judge of the workspace.
const ViewedByJudge SecondViewer = "judge"

// A RecordingKind says what a submission shows of the texts of an attempt.
type RecordingKind string

// The kinds: the beginnings and the digests, or the whole texts besides.
const (
	RecordHeads  RecordingKind = "heads"
	RecordBodies RecordingKind = "bodies"
)

// A PlannedMount is a folder of the machine as the agent finds it. Without a
// digest its contents are unknown, and the attempt never counts for promotion.
type PlannedMount struct {
	Digest *digest.Content `json:"digest,omitempty"`
	// Held says how it is known that what was digested is what was shown.
	Held   Holding `json:"held,omitempty"`
	Inside string  `json:"inside"`
}

// A Holding is how it is known that what was digested is what was shown.
type Holding string

// HeldCompared: the identity of every file was compared after each case with that
// of when it was digested, and a case during which it changed is errored.
const HeldCompared Holding = "compared"

// A Root is the root file system that a program finds.
type Root struct {
	// Digest is that of the image. Of a host it only names the folders that hold
	// its programs, so that it can be seen that something was installed.
	Digest *digest.Content `json:"digest,omitempty"`
	Kind   RootKind        `json:"kind"`
}

// A RootKind says whose root file system it is.
type RootKind string

// The kinds: an image that its digest names with every file, or the programs and
// libraries of whatever machine it was.
const (
	ImageRoot RootKind = "image"
	HostRoot  RootKind = "host"
)

// IsImage reports whether a digest names every file of the root.
func (r *Root) IsImage() bool { return r != nil && r.Kind == ImageRoot && r.Digest != nil }

// Text tells people which root it is.
func (r *Root) Text() string {
	switch {
	case r == nil:
		return "not recorded"
	case r.Kind == ImageRoot:
		return "image " + r.Digest.String()
	}
	return "the machine's own programs (host)"
}

// OnHost reports whether the agent's program, a test or a world found the programs of
// whatever machine it was.
func (p *Plan) OnHost() bool {
	return p.WorldOnHost() || p.AgentRoot != nil && p.AgentRoot.Kind == HostRoot || p.TestRoot != nil && p.TestRoot.Kind == HostRoot
}

// WorldOnHost reports whether the world of a case found the programs of whatever machine
// it was.
func (p *Plan) WorldOnHost() bool {
	return slices.ContainsFunc(p.WorldRoots, func(r Root) bool { return r.Kind == HostRoot })
}

// Undigested lists the mounts whose contents are unknown.
func (p *Plan) Undigested() []string {
	var out []string
	for _, m := range p.Mounts {
		if m.Digest == nil {
			out = append(out, m.Inside)
		}
	}
	return out
}

// AttemptRegistered announces an attempt before its first case runs. The
// number is the ledger's: the count of attempts of this class, by all targets, so
// that a renamed target starts nothing anew.
type AttemptRegistered struct {
	SchemaVersion int    `json:"schema_version"`
	Attempt       string `json:"attempt"`
	Origin        string `json:"origin"`
	Class         string `json:"class"`
	Target        string `json:"target"`
	Number        int    `json:"number"`
	Mode          string `json:"mode"` // replay or live
	Scratch       bool   `json:"scratch,omitempty"`
	// Journal says that a journal of paid calls is kept, so that one that is not
	// there was taken away.
	Journal bool `json:"journal,omitempty"`
	// JudgeCalibrations is how many calibrations of the class's judge the ledger had
	// by then; it is there if a model judges cases of the plan. What is said of an
	// attempt without it says nothing of calibrations.
	JudgeCalibrations *int64 `json:"judge_calibrations,omitempty"`
	Plan              Plan   `json:"plan"`
	// Operator is a salted hash of the operator's identity; the signature is
	// the operator's, over this record without it.
	Operator  digest.ID `json:"operator"`
	Signature string    `json:"signature"`
}

// Message is what the operator signs: the record with an empty signature.
func (a *AttemptRegistered) Message() ([]byte, error) {
	unsigned := *a
	unsigned.Signature = ""
	return canon.Marshal(&unsigned)
}

// Kind is attempt.registered.
func (*AttemptRegistered) Kind() Kind { return AttemptRegisteredKind }

// CaseStarted is on disk before the agent sees the case, so that looking and
// then killing the run leaves a trace.
type CaseStarted struct {
	Attempt   string `json:"attempt"`
	CaseID    string `json:"case_id"`
	Execution int    `json:"execution"`        // from 1, how often this repetition was started
	Repeat    int    `json:"repeat"`           // from 1, which repetition of the case
	Worker    string `json:"worker,omitempty"` // fingerprint of the key of the worker of a fleet that took it
	// Events is the list of boundaries that the attempt had crossed by then, so that
	// also a list that a kill left without an end cannot be changed.
	Events *EventList `json:"events,omitempty"`
}

// An EventList is the beginning of an attempt's list of events: so many lines, and
// the digest of their bytes.
type EventList struct {
	Count  int64          `json:"count"`
	Digest digest.Content `json:"digest"`
}

// Kind is case.started.
func (*CaseStarted) Kind() Kind { return CaseStartedKind }

// Outcome says how a case ended.
type Outcome string

// The outcomes. Unscored and truncated are states of their own, never zero.
const (
	Passed    Outcome = "passed"
	Failed    Outcome = "failed"
	Skipped   Outcome = "skipped"
	Errored   Outcome = "errored"
	Unscored  Outcome = "unscored"
	Truncated Outcome = "truncated"
)

// A PolicyCount sums up what the policy said during a case.
type PolicyCount struct {
	Rollbacks         int `json:"rollbacks"`
	RollbacksVerified int `json:"rollbacks_verified"`
	Violations        int `json:"violations"`
}

// A ToolCallCount says how many tool calls of a case were executed by the
// harness, were not but reported by the agent, and were only proposed by a model.
type ToolCallCount struct {
	Executed int `json:"executed"`
	Proposed int `json:"proposed"`
	Reported int `json:"reported"`
}

// CaseScored is the record of one case: what ran, how it was scored, and the
// digests of everything that shows it. There is one for each case, so its
// fields stand in the order of their names: nothing is left to sort when it is
// written, or compared with how it would be written.
type CaseScored struct {
	AgentIsolation  string           `json:"agent_isolation,omitempty"`
	AgentScope      string           `json:"agent_scope,omitempty"` // attempt, if the agent was preloaded for all cases of it
	Attempt         string           `json:"attempt"`
	Cached          *Cached          `json:"cached,omitempty"` // of a live case; nil if every reply was paid for
	CaseDigest      digest.Content   `json:"case_digest"`
	CaseID          string           `json:"case_id"`
	CassetteDigest  *digest.Content  `json:"cassette_digest,omitempty"`
	Provenance      string           `json:"cassette_provenance,omitempty"`
	Class           string           `json:"class"`
	CostMicroUSD    int64            `json:"cost_microdollars"`
	EvidenceDigests []digest.Content `json:"evidence"`
	Execution       int              `json:"execution"`
	FinishedAt      Time             `json:"finished_at"`
	HarnessVersion  string           `json:"harness_version"`
	ImageDigest     *digest.Content  `json:"image_digest,omitempty"`
	IsolationClass  string           `json:"isolation_class"`
	IsolationScope  string           `json:"isolation_scope,omitempty"`
	JudgedByModel   bool             `json:"judged_by_model,omitempty"`
	Normalised      *NormalisedCount `json:"normalised,omitempty"` // nil if every reply was found by its exact request
	Operator        digest.ID        `json:"operator"`
	Outcome         Outcome          `json:"outcome"`
	Paid            *Paid            `json:"paid,omitempty"` // by all executions of this repetition; nil if nothing was live
	Policy          PolicyCount      `json:"policy"`
	Preload         *Preload         `json:"preload,omitempty"`
	Reason          string           `json:"reason,omitempty"`
	Repeat          int              `json:"repeat"`
	Resumed         int              `json:"resumed,omitempty"` // how often the execution was resumed from its journal of paid calls
	Retries         int              `json:"retries"`
	Reused          *Reused          `json:"reused,omitempty"` // replies of the library; nil if none was used
	RubricDigest    *digest.Content  `json:"rubric_digest,omitempty"`
	SchemaVersion   int              `json:"schema_version"`
	Score           *Score           `json:"score,omitempty"`
	StartedAt       Time             `json:"started_at"`
	Tags            []string         `json:"tags,omitempty"` // as the case had them, for gates
	Tokens          int64            `json:"tokens"`
	ToolCalls       *ToolCallCount   `json:"tool_calls,omitempty"` // by how they are known; nil if they are not seen
	Turns           int              `json:"turns"`
	Unanswered      bool             `json:"unanswered,omitempty"`     // it asked for a reply that is not recorded, and no model might be asked
	Unpriced        *int64           `json:"unpriced_calls,omitempty"` // whose cost is not in CostMicroUSD; nil if the record does not tell
	User            *User            `json:"user,omitempty"`           // who answered the agent; nil for the turns of a case
	Vantage         string           `json:"vantage"`
	Worker          *Worker          `json:"worker,omitempty"` // of a fleet, that drove the case; nil if the operator's own program did
}

// A User is who answered the agent in place of fixed turns, and what that took, apart
// from what the agent spent.
type User struct {
	By           string          `json:"by"` // model or script
	CostMicroUSD int64           `json:"cost_microdollars"`
	Ended        string          `json:"ended,omitempty"` // why the conversation ended, if the user did
	Model        string          `json:"model,omitempty"`
	Moves        int             `json:"moves"`
	Prompt       *digest.Content `json:"prompt,omitempty"` // the template that a model was given
	Tokens       int64           `json:"tokens"`
	ToolCalls    int             `json:"tool_calls"`
	Turns        int             `json:"turns"`                    // that it said, without the beginning
	Unpriced     int64           `json:"unpriced_calls,omitempty"` // whose cost is not in CostMicroUSD
}

// A Worker is the machine of a fleet that drove a case.
type Worker struct {
	HarnessVersion string `json:"harness_version"`
	Key            string `json:"key"` // fingerprint, as ssh-keygen prints it
}

// A Preload is what a preloaded agent imported before the first case, as it says
// itself: imported code could say otherwise.
type Preload struct {
	Digest       string `json:"digest"` // SHA-256 of the sorted names, one to a line, in hexadecimal
	Milliseconds int64  `json:"milliseconds"`
	Modules      int    `json:"modules"`
	Rehearsed    int    `json:"rehearsed,omitempty"`   // how many of them a rehearsal found
	Stderr       string `json:"stderr,omitempty"`      // the beginning of what imports printed
	Unrehearsed  string `json:"unrehearsed,omitempty"` // why a rehearsal was of no use
}

// ScopeAttempt is the agent_scope of an agent that was preloaded.
const ScopeAttempt = "attempt"

// Kind is case.scored.
func (*CaseScored) Kind() Kind { return CaseScoredKind }

// AttemptFinished closes an attempt: the sets of what ran and the totals.
type AttemptFinished struct {
	SchemaVersion   int              `json:"schema_version"`
	Attempt         string           `json:"attempt"`
	Outcomes        map[Outcome]int  `json:"outcomes"`
	CaseDigests     digest.Content   `json:"case_digests"` // of the canonical, sorted list
	RubricDigests   []digest.Content `json:"rubric_digests"`
	CassetteDigests digest.Content   `json:"cassette_digests"`
	ImageDigests    []digest.Content `json:"image_digests"`
	MeanScore       *float64         `json:"mean_score,omitempty"`
	FailureModes    []string         `json:"failure_modes"`
	// Events is the digest of the list of boundaries that were crossed, which
	// lies in the evidence.
	Events *digest.Content `json:"events,omitempty"`
	// EventCount is how many lines that list has.
	EventCount   int64 `json:"event_count,omitempty"`
	RuntimeMS    int64 `json:"runtime_ms"`
	CostMicroUSD int64 `json:"cost_microdollars"`
	// Unpriced is how many calls of the records are not in CostMicroUSD, and
	// CostUntold how many records do not tell all of their cost. Entries from before
	// they were counted have neither.
	Unpriced   *int64 `json:"unpriced_calls,omitempty"`
	CostUntold int64  `json:"cost_unknown_tasks,omitempty"`
	// Paid is what the attempt cost whether it was scored or not, the judge
	// included; nil if nothing was live.
	Paid *Paid `json:"paid,omitempty"`
	// Unanswered is how many records are unanswered. An attempt that has some has no
	// score: what was answered is a part of it.
	Unanswered int `json:"unanswered,omitempty"`
	// Stopped is there if the plan has stop_early. What it says follows from the
	// records, and readers hold it against them.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Kind is attempt.finished.
func (*AttemptFinished) Kind() Kind { return AttemptFinishedKind }

// AttemptReproduced says that an attempt was run again from its evidence by a
// second runner, and whether the two agree.
type AttemptReproduced struct {
	Attempt    string    `json:"attempt"`
	Original   string    `json:"original"`
	Origin     string    `json:"origin"`
	Agrees     bool      `json:"agrees"`
	Divergence string    `json:"divergence,omitempty"`
	Operator   digest.ID `json:"operator"`
	Signature  string    `json:"signature"`

	// What was compared: the heads of the original's registration and end, and
	// the digest of the compared results.
	Registered *digest.ID      `json:"registered"`
	Finished   *digest.ID      `json:"finished"`
	Results    *digest.Content `json:"results"`
}

// Message is what the second runner signs: the record with an empty signature.
func (a *AttemptReproduced) Message() ([]byte, error) {
	unsigned := *a
	unsigned.Signature = ""
	return canon.Marshal(&unsigned)
}

// A Compared is what a second run of a case gave, as far as it is compared. The
// list of them, in the order of case and repetition, is what Results names.
type Compared struct {
	CaseID  string         `json:"case_id"`
	Outcome Outcome        `json:"outcome"`
	Record  digest.ID      `json:"record"` // head of the original's case.scored
	Repeat  int            `json:"repeat"`
	Score   *float64       `json:"score,omitempty"`
	Trace   digest.Content `json:"trace"` // of the canonical trace
}

// Kind is attempt.reproduced.
func (*AttemptReproduced) Kind() Kind { return AttemptReproducedKind }

// ScoreAmended sets another score beside the one in the ledger, with author
// and reason. It never replaces it.
type ScoreAmended struct {
	Entry  int64  `json:"entry"` // index of the case.scored record
	Score  Score  `json:"score"`
	Author string `json:"author"`
	Reason string `json:"reason"`
	// Grading names what was compared with what this time, in the evidence.
	Grading *digest.Content `json:"grading,omitempty"`
	// Fills says that the record was unscored: scorecards and gates use the
	// first score that it gets.
	Fills bool `json:"fills,omitempty"`
}

// Kind is score.amended.
func (*ScoreAmended) Kind() Kind { return ScoreAmendedKind }

// JudgeDrawn records one draw of a verdict, so that deleting a bad verdict to
// roll again leaves a gap in the numbers.
type JudgeDrawn struct {
	Attempt string         `json:"attempt"`
	CaseID  string         `json:"case_id"`
	Draw    int            `json:"draw"`
	Key     string         `json:"key"`
	Verdict digest.Content `json:"verdict"`
}

// Kind is judge.drawn.
func (*JudgeDrawn) Kind() Kind { return JudgeDrawnKind }

// CassetteRecorded records that a cassette was made, kept or not.
type CassetteRecorded struct {
	Class      string         `json:"class"`
	CaseID     string         `json:"case_id"`
	Digest     digest.Content `json:"digest"`
	Provenance string         `json:"provenance"` // recorded, edited or authored
	Kept       bool           `json:"kept"`
	Calls      int            `json:"calls"`
	CostMicro  int64          `json:"cost_microdollars"`
	// Unpriced is how many calls of models are not in CostMicro; nil in entries from
	// before they were counted.
	Unpriced *int64 `json:"unpriced_calls,omitempty"`

	// ModelCalls is how many of the calls are of models, and Endpoints who answered
	// them, as the operator's machine saw it. Neither is in entries from before
	// recordings named endpoints.
	ModelCalls *int          `json:"model_calls,omitempty"`
	Endpoints  []EndpointUse `json:"endpoints,omitempty"`
}

// Kind is cassette.recorded.
func (*CassetteRecorded) Kind() Kind { return CassetteRecordedKind }

// ReplyDrawn records that a model was asked and paid for a reply, before the reply is
// used. What was asked is in it by digest alone.
type ReplyDrawn struct {
	API       string         `json:"api"`
	CaseID    string         `json:"case_id"`
	Class     string         `json:"class"`
	CostMicro *int64         `json:"cost_microdollars,omitempty"` // nil if it is not known
	Digest    digest.Content `json:"digest"`                      // of the file in cassettes/replies
	Draw      int64          `json:"draw"`                        // 1 for the first under the key
	Endpoint  string         `json:"endpoint"`                    // that answered, as a URL
	Kept      bool           `json:"kept"`                        // false if no file was written
	Key       digest.ID      `json:"key"`                         // of party, endpoint, API, request, ordinal and scope
	Model     string         `json:"model"`                       // that was asked for
	Party     string         `json:"party"`                       // agent or judge
	Reply     digest.Content `json:"reply"`                       // of the call with its reply, as a cassette has it
	Target    string         `json:"target"`
}

// Kind is reply.drawn.
func (*ReplyDrawn) Kind() Kind { return ReplyDrawnKind }

// CasePending records that a draft case was made of something that happened
// in production.
type CasePending struct {
	Class  string         `json:"class"`
	CaseID string         `json:"case_id"`
	Source string         `json:"source"`
	Digest digest.Content `json:"digest"`
}

// Kind is case.pending.
func (*CasePending) Kind() Kind { return CasePendingKind }

// CaseAccepted fixes the point in the ledger at which the signatures of a case
// are judged.
type CaseAccepted struct {
	Class      string         `json:"class"`
	CaseID     string         `json:"case_id"`
	Digest     digest.Content `json:"digest"`
	Signed     digest.ID      `json:"signed"` // of the bytes that the signatures cover
	Signatures []string       `json:"signatures"`
}

// Kind is case.accepted.
func (*CaseAccepted) Kind() Kind { return CaseAcceptedKind }

// Recommendation records what promotion advised a human to do.
type Recommendation struct {
	Class                 string   `json:"class"`
	CurrentTier           string   `json:"current_tier"`
	RecommendedTier       string   `json:"recommended_tier"`
	Evidence              []int64  `json:"evidence"`
	Rationale             []string `json:"rationale"`
	RequiresHumanApproval bool     `json:"requires_human_approval"` // always: a recommendation is never an action
	// Outside is who else than this machine had seen the history, and how much of
	// it. It is written down because nothing in the ledger tells it later.
	Outside    []Outside `json:"outside,omitempty"`
	Rules      int       `json:"rules"`       // version of the rule book it was made by
	WindowDays int       `json:"window_days"` // how far back the evidence reached
}

// An Outside is a memory of the ledger that its operator does not keep.
type Outside struct {
	Kind OutsideKind `json:"kind"`
	By   string      `json:"by"`   // name of the witness, or address of the remote
	Size int64       `json:"size"` // how many entries it has seen
}

// OutsideKind says what remembers.
type OutsideKind string

// The kinds.
const (
	OutsideWitness OutsideKind = "witness" // one that two people signed for cosigned it
	OutsideGit     OutsideKind = "git"     // a remote that two people signed for has an anchor of it
)

// Kind is promotion.recommendation.emitted.
func (*Recommendation) Kind() Kind { return RecommendationKind }

// ApplyBlocked records that a program was asked to change a tier.
type ApplyBlocked struct {
	Class string `json:"class"`
	Tier  string `json:"tier"`
}

// Kind is promotion.apply.blocked.
func (*ApplyBlocked) Kind() Kind { return ApplyBlockedKind }
