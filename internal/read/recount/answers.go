package recount

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// A Run is what "tally run --json" prints, and what is kept of it beside the
// ledger.
type Run struct {
	Rules         int                   `json:"rules"`
	Attempt       RunLine               `json:"attempt"`
	Class         string                `json:"class"`
	Target        string                `json:"target"`
	Total         int                   `json:"total"`
	Passed        int                   `json:"passed"`
	Failed        int                   `json:"failed"`
	Skipped       int                   `json:"skipped"`
	Unscored      int                   `json:"unscored"`
	Truncated     int                   `json:"truncated"`
	Errors        int                   `json:"errors"`
	Unanswered    int                   `json:"unanswered,omitempty"` // of the errors and the unscored: what no recording answers
	Missing       *Missing              `json:"missing,omitempty"`    // what it would take to answer them
	Mixed         *Mixed                `json:"mixed,omitempty"`      // of an attempt in which models are asked for what is not recorded
	MeanScore     *float64              `json:"mean_score"`
	FailureModes  []string              `json:"failure_modes"`
	NotRun        int                   `json:"not_run,omitempty"`
	Cost          cost.Cost             `json:"-"`                              // as SetCost was told
	CostUSD       *float64              `json:"cost_usd"`                       // of what is known; null if a case does not tell
	Unpriced      int64                 `json:"unpriced_calls,omitempty"`       // not in CostUSD, which is then the least
	JudgeCostUSD  float64               `json:"judge_cost_usd,omitempty"`       // of live draws; not in CostUSD, which is the agent's
	JudgeUnpriced int64                 `json:"judge_unpriced_calls,omitempty"` // not in JudgeCostUSD
	Paid          *history.Paid         `json:"paid,omitempty"`                 // by every execution and the judge, if the run was live
	Isolation     string                `json:"isolation_class"`
	Head          digest.ID             `json:"head"`
	Finished      bool                  `json:"finished"`
	Scorecard     *scorecard.Card       `json:"scorecard"`
	Gate          *RunGates             `json:"gate,omitempty"`
	Decision      *gate.Decision        `json:"decision,omitempty"` // absent of an attempt that did not come to its end
	Comparison    *scorecard.Comparison `json:"comparison,omitempty"`
	LocalLedger   *LocalLedger          `json:"local_ledger,omitempty"` // absent where the workspace has its ledger

	// Of a class that was made of GAIA, from the tags of its records. Voting is what
	// the ledger shows: executions that an answer can be chosen from.
	GAIASplit      string         `json:"gaia_split,omitempty"`
	GAIALevels     map[string]int `json:"gaia_levels,omitempty"`
	VotingAttempts int            `json:"voting_attempts,omitempty"`

	// Of an attempt that was registered to be submitted: whether it can be, and why.
	Submittable *bool  `json:"submittable,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// A Mixed says how many cases recordings answered, and how many a model, in an attempt in
// which models are asked for what is not recorded.
type Mixed struct {
	Replayed int `json:"replayed"`
	Asked    int `json:"asked_live"`
}

// MixedOf counts; nil of an attempt that does not mix.
func MixedOf(a *history.Attempt) *Mixed {
	r := a.Plan.Replies
	if r == nil || r.From != evidence.FromCassette || r.OnMiss != evidence.OnMissLive {
		return nil
	}
	m := &Mixed{}
	for c := range a.Cases() {
		switch {
		case c.Index < 0 || c.Unanswered():
		case c.Cached != nil && c.Cached.Replies < c.Cached.Calls:
			m.Asked++
		case c.Outcome() != evidence.Truncated && c.Outcome() != evidence.Errored: // else perhaps nothing was answered
			m.Replayed++
		}
	}
	return m
}

// A Missing is the estimate of what it would take to answer an attempt.
type Missing struct {
	Cases   []string `json:"cases"` // that ask something new
	Command string   `json:"command"`
	// EstimateUSD is what they cost when they were last recorded, or what cases of the
	// class did; null if nothing is known. UnknownCases are not in it.
	EstimateUSD  *float64 `json:"estimate_usd"`
	UnknownCases int      `json:"unknown_cases,omitempty"`
	Estimate     string   `json:"estimate"` // the same in words, and how it was made
	Failed       []string `json:"failed"`   // of the cases that could be answered, those that did not pass
}

// SetCost says what the cases cost.
func (r *Run) SetCost(c cost.Cost) {
	r.Cost, r.CostUSD, r.Unpriced = c, c.Dollars(), c.Unpriced
}

// TellGAIA fills in what is said of GAIA, from the records of an attempt.
func (r *Run) TellGAIA(a *history.Attempt) {
	levels, records := map[string]int{}, map[string]int{}
	for c := range a.Cases() {
		if c.Index < 0 {
			continue
		}
		records[c.ID]++
		for _, tag := range c.Tags() {
			if split, ok := strings.CutPrefix(tag, "split-"); ok {
				r.GAIASplit = split
			}
			if level, ok := strings.CutPrefix(tag, "level-"); ok && records[c.ID] == 1 {
				levels[level]++
			}
		}
	}
	if r.GAIASplit == "" {
		return
	}
	r.GAIALevels = levels
	for _, n := range records {
		r.VotingAttempts = max(r.VotingAttempts, n)
	}
}

// A LocalLedger is that of a checkout which has not got the workspace's own: its
// attempts are scratch.
type LocalLedger struct {
	Origin string `json:"origin"`
	Of     string `json:"of"`              // the origin of the ledger that it stands in for
	Begun  bool   `json:"begun,omitempty"` // by this very run
}

// A RunLine says which attempt a run made.
type RunLine struct {
	ID         string             `json:"id"`
	Number     int                `json:"number"`
	Of         int                `json:"of,omitempty"` // attempts of the class, by whichever target
	Level      string             `json:"level"`
	Properties []history.Property `json:"properties,omitzero"`
}

// RunLineOf says which attempt it is, and which of how many.
func RunLineOf(a *history.Attempt) RunLine {
	return RunLine{ID: a.ID, Number: a.Ordinal, Of: a.Siblings, Level: a.Level.String(), Properties: a.Properties()}
}

// RunGates is what the gates of the class say about a run.
type RunGates struct {
	Met       bool          `json:"met"`
	Undecided bool          `json:"undecided,omitempty"`
	Gates     []gate.Result `json:"gates"`
}

// NewRunGates puts the results of gates into the form that is promised; nil if the
// class has none.
func NewRunGates(d *gate.Decision) *RunGates {
	if !d.HasGates() {
		return nil
	}
	return &RunGates{d.Met, d.Undecided, append([]gate.Result{}, d.Results...)}
}

// A Kind is one of the answers that people keep.
type Kind string

// The kinds.
const (
	RunKind            Kind = "run"
	ScorecardKind      Kind = "scorecard"
	ComparisonKind     Kind = "comparison"
	GateKind           Kind = "gate"
	RecommendationKind Kind = "recommendation"
)

// KindOf recognises a kept answer by members that no other has; "" for anything
// else.
func KindOf(data []byte) Kind {
	var doc map[string]canon.RawMessage
	if canon.Unmarshal(data, &doc) != nil {
		return ""
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return doc[name] == nil })
	}
	switch {
	case has("mcnemar_p", "paired"):
		return ComparisonKind
	case has("total_tasks", "attempts"):
		return ScorecardKind
	case has("recommended_tier", "index"):
		return RecommendationKind
	case has("gates", "met", "attempt"):
		return GateKind
	case has("attempt", "finished", "head"):
		return RunKind
	}
	return ""
}

// A Source is what answers are made again from, all of it verified.
type Source struct {
	// History is that of the whole ledger, with the records of every attempt
	// and with marks.
	History *history.History
	// At gives the history as it was when the ledger had so many entries.
	At func(entries int64) (*history.History, error)
	// Whole reads all evidence of an attempt.
	Whole func(*history.Attempt) (*dossier.Whole, error)
	// Piece gives a piece of evidence by its digest.
	Piece func(digest.Content) ([]byte, error)
	// Parting gives Divergence and Moves of [scorecard.CompareOptions].
	Parting func(first, second *history.Attempt) (divergence, moves dossier.Parting)
	// Bench verifies a class as it is now.
	Bench func(class string) (*bench.Verified, error)
	// Advised are the recommendations of the ledger by their index.
	Advised map[int64]dossier.Advice
	// Anchors are those that had been published by then.
	Anchors func(then *history.History) ([]dossier.CosignedAnchor, error)
	// Outside is who else is known to have seen the history now.
	Outside func() ([]evidence.Outside, error)
	// Proves verifies a receipt of this ledger, and returns of which entry.
	Proves func(receipt string) (index int64, err error)
}

// Answer makes a kept answer again and compares. Name says in messages which it
// is. An error means that nothing could be compared.
func (s *Source) Answer(kind Kind, name string, data []byte) (*Recounted, error) {
	if kind == RecommendationKind {
		return s.recommendation(name, data)
	}
	if out, err := otherRules(name, data); out != nil || err != nil {
		return out, err
	}
	again, ok := map[Kind]func(string, []byte) (*Recounted, error){RunKind: s.run, ScorecardKind: s.card, ComparisonKind: s.comparison, GateKind: s.gate}[kind]
	if !ok {
		return nil, NotKept(name, errors.New("it does not come from run, scorecard, compare, gate or promote recommend"))
	}
	return again(name, data)
}

// otherRules says of an answer by rules that this program does not have that
// nothing of it is compared; nil for any other. One that names none is compared,
// and differs in that.
func otherRules(name string, data []byte) (*Recounted, error) {
	var doc struct {
		Rules *int `json:"rules"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, NotKept(name, err)
	}
	if doc.Rules == nil || *doc.Rules == scorecard.Rules {
		return nil, nil
	}
	out := newRecounted()
	out.Unchecked = append(out.Unchecked, fmt.Sprintf("%s: it was made by version %d of the rules, and this program has version %d", name, *doc.Rules, scorecard.Rules))
	return out, nil
}

// then is the history as it was when an answer was made. It is nil, with a
// difference, if the answer is of another ledger, of one that was longer, or
// does not say.
func (s *Source) then(out *Recounted, name string, line *history.Line) (*history.History, error) {
	h := s.History
	if line == nil || line.Entries == 0 && line.Origin == "" {
		out.Compare(name, "ledger", nothing, "an answer says what of the ledger it was made from", false)
		return nil, nil
	}
	found := fmt.Sprintf("%s with %d entries", h.Origin, h.Entries)
	said := fmt.Sprintf("%s with %d entries, head %s", line.Origin, line.Entries, line.Head)
	if line.Origin == h.Origin && line.Entries >= 1 && line.Entries <= h.Entries {
		head := h.HeadAfter(line.Entries)
		if head == line.Head {
			return s.At(line.Entries)
		}
		found = fmt.Sprintf("%s, which had the head %s then", h.Origin, head)
	}
	out.Compare(name, "ledger", said, found, false)
	return nil, nil
}

// noSuch notes that an answer is about an attempt that there was not.
func (r *Recounted) noSuch(name, field, id string) {
	r.Compare(name, field, id, "no such attempt", false)
}

func (s *Source) card(name string, data []byte) (*Recounted, error) {
	var kept scorecard.Answer
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, NotKept(name, err)
	}
	out := newRecounted()
	h, err := s.then(out, name, &kept.Ledger)
	if h == nil || err != nil {
		return out, err
	}
	made, attempts, err := s.makeCard(out, name, h, kept.Card)
	if made == nil || err != nil {
		return out, err
	}
	answer := scorecard.Answer{Card: made}
	if kept.Groups != nil {
		answer.Groups = scorecard.ByClassTarget(attempts)
	}
	if kept.FailedCases != nil {
		answer.FailedCases = scorecard.FailedCases(attempts)
	}
	return out, out.document(name, data, answer, nil)
}

// makeCard makes a scorecard again: of the attempts that the kept one is about,
// with their evidence if that was looked at.
func (s *Source) makeCard(out *Recounted, name string, h *history.History, kept *scorecard.Card) (*scorecard.Card, []*history.Attempt, error) {
	var v scorecard.View
	for _, line := range kept.Attempts {
		a := h.Attempt(line.ID)
		if a == nil || slices.Contains(v.Attempts, a) {
			out.Compare(name, "attempts", line.ID, "no such attempt, or one that is named twice", false)
			return nil, nil, nil
		}
		v.Attempts = append(v.Attempts, a)
	}
	if kept.EvidenceChecked {
		v.Evidence = make(map[*history.Attempt]scorecard.Evidence)
		for _, a := range v.Attempts {
			whole, err := s.Whole(a)
			if err != nil {
				return nil, nil, err
			}
			v.Evidence[a] = whole
		}
	}
	// Who asked about one attempt did not read the records of the others, and
	// tells less of them.
	v.Unread = func(a *history.Attempt) bool {
		i := slices.IndexFunc(kept.Siblings, func(l scorecard.AttemptLine) bool { return l.ID == a.ID })
		if i < 0 {
			return false
		}
		said, unread := kept.Siblings[i], scorecard.LineOf(a.WithoutRecords())
		return said.Excluded == unread.Excluded && said.Abandoned == unread.Abandoned && slices.Equal(said.Problems, unread.Problems)
	}
	card, err := scorecard.Of(h, v)
	return card, v.Attempts, err
}

func (s *Source) comparison(name string, data []byte) (*Recounted, error) {
	var kept scorecard.Comparison
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, NotKept(name, err)
	}
	out := newRecounted()
	h, err := s.then(out, name, kept.Ledger)
	if h == nil || err != nil {
		return out, err
	}
	made, err := s.makeComparison(out, name, h, &kept)
	if made == nil || err != nil {
		return out, err
	}
	line := h.Line()
	made.Ledger = &line
	return out, out.document(name, data, made, nil)
}

// makeComparison makes a comparison again, as it was asked for: with the cases
// that did not change if the kept one has some, and looking as often where runs
// part.
func (s *Source) makeComparison(out *Recounted, name string, h *history.History, kept *scorecard.Comparison) (*scorecard.Comparison, error) {
	if l := kept.BaselineLedger; l != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("%s: the baseline is of the ledger %s with the head %s, which is not here: not counted again", name, l.Origin, l.Head))
		return kept, nil
	}
	a, b := h.Attempt(kept.A.ID), h.Attempt(kept.B.ID)
	if a == nil || b == nil || a == b {
		out.Compare(name, "attempts", []string{kept.A.ID, kept.B.ID}, "no two such attempts", false)
		return nil, nil
	}
	o := scorecard.CompareOptions{AcrossBenches: kept.AcrossBenches}
	divergence, moves := s.Parting(a, b)
	for _, c := range kept.Cases {
		o.AllCases = o.AllCases || c.Change == scorecard.Same
		if c.Moves != "" {
			o.Moves = moves
		}
		if looked := c.Divergence != "" || c.DivergenceNote != ""; looked {
			o.Divergence = divergence
			if c.DivergenceNote != scorecard.NotLookedAt {
				o.MaxDivergences++
			}
		}
	}
	made, err := scorecard.Compare(a, b, o)
	if refusal.Is(err, refusal.NotComparable) {
		out.Compare(name, "paired", kept.Paired, err.Error(), false)
		return nil, nil
	}
	if err == nil {
		out.earlierMoves(name, kept, made)
	}
	return made, err
}

// earlierMoves leaves the words of an earlier program as they are: it told fewer steps of
// two runs. That the runs differ, and where first, is compared all the same.
func (r *Recounted) earlierMoves(name string, kept, made *scorecard.Comparison) {
	for i := range kept.Cases {
		was := &kept.Cases[i]
		if was.Moves == "" || was.MovesVersion != 0 || i >= len(made.Cases) || made.Cases[i].CaseID != was.CaseID || made.Cases[i].Moves == "" || made.Cases[i].Moves == was.Moves {
			continue
		}
		made.Cases[i].Moves, made.Cases[i].MovesVersion = was.Moves, 0
		r.Notes = append(r.Notes, fmt.Sprintf("%s: case %s: moves are the words of an earlier program, which are not compared", name, was.CaseID))
	}
}

func (s *Source) gate(name string, data []byte) (*Recounted, error) {
	var kept gate.Answer
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, NotKept(name, err)
	}
	out := newRecounted()
	h, err := s.then(out, name, &kept.Ledger)
	if h == nil || err != nil {
		return out, err
	}
	a := h.Attempt(kept.Attempt)
	if a == nil {
		out.noSuch(name, "attempt", kept.Attempt)
		return out, nil
	}
	decision, why, err := s.decide(h, a)
	if err != nil {
		return nil, err
	}
	var unmade map[string]string
	if why != "" {
		unmade = map[string]string{"gates": why, "met": why}
	}
	made := gate.AnswerOf(h, a, decision)
	if why != "" && kept.Undecided {
		made.Undecided, unmade["undecided"] = true, why
	}
	return out, out.document(name, data, made, unmade)
}

func (s *Source) gateInput(h *history.History, a *history.Attempt) (in gate.Input, why string, err error) {
	v, err := s.Bench(a.Class)
	if err != nil {
		return in, "the bench does not verify: " + err.Error(), nil
	}
	in = gate.Input{Bench: v, History: h, Attempt: a, PlanIsBench: true}
	if gate.AskForEvidence(v) {
		in.Evidence, err = s.Whole(a)
	}
	return in, "", err
}

// decide makes the decision about an attempt again. Why is not "" if the registration
// at hand is not the one that the attempt was held against, or if only its bench would
// tell.
func (s *Source) decide(h *history.History, a *history.Attempt) (d *gate.Decision, why string, err error) {
	in, why, err := s.gateInput(h, a)
	if why != "" || err != nil {
		return nil, why, err
	}
	d, err = gate.Decide(in)
	if refusal.Is(err, refusal.BenchChanged) {
		return nil, err.Error(), nil
	}
	return d, "", err
}
