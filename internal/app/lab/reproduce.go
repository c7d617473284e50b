package lab

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// An Original is an attempt that the verified ledger has, and its evidence.
type Original struct {
	*history.Attempt
	Read func(digest.Content) ([]byte, error) // a piece of the evidence
}

// A Reproduced says whether a second run of an attempt agrees with it.
type Reproduced struct {
	Original   string `json:"original"`
	Attempt    string `json:"attempt"`
	Agrees     bool   `json:"agrees"`
	Cases      int    `json:"cases"`
	Divergence string `json:"divergence,omitempty"`
	Entry      int64  `json:"entry"`
}

// Reproduce runs every case of an attempt again, with its recordings, under an
// operator's key that is not the one that ran it. The agreement, or the first
// divergence, is signed and recorded.
func Reproduce(ctx context.Context, c *dossier.Corpus, original Original, spec harness.Spec) (*Reproduced, error) {
	if original.Finished == nil {
		return nil, refusal.Newf(refusal.NotFound, "attempt %s was never finished, so there is nothing to agree with", original.ID).
			WithHint("finish it with tally run %s --target %s --resume, and the flags that it was run with", original.Class, plain.ShellWord(original.Target))
	}
	key, err := c.OperatorKey()
	if err != nil {
		return nil, err
	}
	operator, err := c.Operator(key)
	if err != nil {
		return nil, err
	}
	if fp := key.Fingerprint(); fp == original.Key || operator == original.Operator {
		return nil, refusal.Newf(refusal.Usage, "attempt %s was run with this key (%s): agreeing with oneself shows nothing", original.ID, fp).
			WithHint("name another operator's key in TALLY_OPERATOR_KEY")
	}
	spec = spec.For(original.Target)
	spec.Class, spec.Repeat = original.Class, original.Plan.Repeat
	s, err := New(c, spec)
	if err != nil {
		return nil, err
	}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	if err := harness.CheckReproduces(cfg, original.ID, &original.Plan); err != nil {
		return nil, err
	}
	out := &Reproduced{Original: original.ID, Attempt: original.ID + ".again-" + hex.EncodeToString(operator[:4])}
	if n := len(original.Reproductions); n > 0 {
		// Another run is another record, also by the same runner.
		out.Attempt = fmt.Sprintf("%s-%d", out.Attempt, n+1)
	}
	crossed := &crossings{file: s.place.Private("runs", out.Attempt, "events.jsonl")}
	var results []evidence.Compared
	if err = s.verified(crossed); err == nil {
		out.Divergence, results, err = s.again(ctx, cfg, original, crossed)
	}
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	out.Agrees, out.Cases = out.Divergence == "", len(results)
	compared, err := resultsDigest(results)
	if err != nil {
		return nil, err
	}
	return out, out.record(ctx, c, key, &evidence.AttemptReproduced{Attempt: out.Attempt, Original: original.ID, Origin: original.Origin,
		Agrees: out.Agrees, Divergence: out.Divergence, Operator: operator, Registered: &original.Head, Finished: &original.Finished.Head, Results: &compared})
}

// resultsDigest names what a second run gave, in the order of case and
// repetition.
func resultsDigest(results []evidence.Compared) (digest.Content, error) {
	slices.SortFunc(results, func(a, b evidence.Compared) int {
		return cmp.Or(strings.Compare(a.CaseID, b.CaseID), cmp.Compare(a.Repeat, b.Repeat))
	})
	data, err := canon.Marshal(results)
	return digest.ContentOf(data), err
}

// caseKey names one record of an attempt.
type caseKey struct {
	id     string
	repeat int
}

// again drives every case and returns the first divergence, "" if there is
// none.
func (s *Setup) again(ctx context.Context, cfg harness.Config, original Original, crossed *crossings) (string, []evidence.Compared, error) {
	recorded := map[caseKey]*history.Case{}
	ids := map[string]bool{}
	for c := range original.Cases() {
		recorded[caseKey{c.ID, int(c.Repeat)}] = c
		ids[c.ID] = true
	}
	cfg.Crossed = crossed.write
	cfg.Select = func(c *scenario.Task) bool { return ids[c.ID] }
	cfg.FirstPolicy = original.Plan.Policy == nil
	if original.Mode == "live" {
		match := func(c *scenario.Task) cassette.Matching { return harness.Matching(s.Bench, s.Target, c) }
		cfg.Live = &relived{original, match, recorded}
	}
	divergence, results := "", []evidence.Compared{}
	err := harness.Rehearse(ctx, cfg, func(g *harness.Graded) error {
		if err := crossed.add(g.Crossings, s.blocked); err != nil {
			return err
		}
		c := recorded[caseKey{g.Case.ID, g.Repeat}]
		result, trace, err := comparedOf(c, g)
		if err != nil {
			return fmt.Errorf("case %s: %w", g.Case.ID, err)
		}
		results = append(results, result)
		if divergence != "" || c == nil {
			return nil
		}
		what, err := original.differs(c, g, trace)
		if err != nil {
			return fmt.Errorf("case %s: %w", g.Case.ID, err)
		}
		if what != "" {
			divergence = fmt.Sprintf("case %s: %s", g.Case.ID, what)
		}
		return nil
	})
	if err == nil && divergence == "" && len(results) != len(recorded) {
		divergence = fmt.Sprintf("the attempt has %d records, %d cases were run again", len(recorded), len(results))
	}
	return divergence, results, err
}

// comparedOf is what a second run of a case gave, and its canonical trace.
func comparedOf(c *history.Case, g *harness.Graded) (evidence.Compared, *trajectory.Trace, error) {
	out := evidence.Compared{CaseID: g.Case.ID, Repeat: g.Repeat, Outcome: g.Record.Outcome}
	if c != nil {
		out.Record = c.Head
	}
	if g.Record.Score != nil {
		out.Score = &g.Record.Score.Score
	}
	v, err := trajectory.Verify(g.Trajectory, trajectory.HeadIs(g.Files.Trajectory.Head))
	if err != nil {
		return out, nil, err
	}
	trace, err := trajectory.Canonical(v, dossier.GoldenTrace)
	if err != nil {
		return out, nil, err
	}
	out.Trace = digest.ContentOf(trace.Format())
	return out, trace, nil
}

// relived answers as the models of a live attempt did, from the cassettes that it
// left in the evidence.
type relived struct {
	original Original
	match    func(*scenario.Task) cassette.Matching
	recorded map[caseKey]*history.Case
}

// Redactor returns none: nothing of the second run is kept.
func (*relived) Redactor() *cassette.Redactor { return nil }

// Case finds the recording of a case.
func (l *relived) Case(of *scenario.Task, j harness.Job) (harness.Recording, error) {
	c := l.recorded[caseKey{of.ID, max(1, j.Repeat)}]
	if c == nil {
		return nil, refusal.Newf(refusal.NotFound, "the case has no record to replay")
	}
	files, err := history.FilesOf(c, l.original.Read)
	if err != nil {
		return nil, err
	}
	if files.Recording == nil {
		return nil, refusal.Newf(refusal.NotFound, "case %s: the evidence has no recording", c.ID)
	}
	data, err := l.original.Read(*files.Recording)
	if err != nil {
		return nil, err
	}
	parsed, err := cassette.Parse(data, cassette.Limits{})
	if err != nil {
		return nil, err
	}
	return &replayedRecording{session.Replay{Player: cassette.NewMatchingPlayer(parsed, l.match(of))}, cassette.NewJudgePlayer(parsed), cassette.NewUserPlayer(parsed), data}, nil
}

// A replayedRecording answers from a cassette, and gives it back as its own.
type replayedRecording struct {
	session.Replay
	judges *cassette.Player
	users  *cassette.Player
	data   []byte
}

// JudgeModels answers the judge from its own calls.
func (r *replayedRecording) JudgeModels() session.Models { return &session.Replay{Player: r.judges} }

// UserModels answers the simulated user from its own.
func (r *replayedRecording) UserModels() session.Models { return &session.Replay{Player: r.users} }

// RecordedWorld is what the world of the case did then.
func (r *replayedRecording) RecordedWorld() *cassette.Player { return r.Player }

// RecordWorld keeps nothing: the recording is given back as it was.
func (r *replayedRecording) RecordWorld(cassette.MCPTraffic) error { return nil }

func (r *replayedRecording) Cassette() ([]byte, error) { return r.data, nil }

// differs compares a record with a second run of its case: how it ended, the
// score, and the canonical trace.
func (a Original) differs(c *history.Case, g *harness.Graded, after *trajectory.Trace) (string, error) {
	before, err := history.TrajectoryOf(c, a.Read)
	if err != nil {
		return "", err
	}
	// A world that does something else is why the rest differs.
	if diff := trajectory.WorldDifference(before, g.Verified); diff != "" {
		return diff, nil
	}
	if c.Outcome() != g.Record.Outcome {
		return fmt.Sprintf("was %s, is %s", c.Outcome(), g.Record.Outcome), nil
	}
	score := 0.0
	if g.Record.Score != nil {
		score = g.Record.Score.Score
	}
	if c.WasScored() && c.Score != score {
		return fmt.Sprintf("the score was %v, is %v", c.Score, score), nil
	}
	was, err := trajectory.Canonical(before, dossier.GoldenTrace)
	if err != nil {
		return "", err
	}
	if d := trajectory.Compare(was, after); d != nil {
		return fmt.Sprintf("%s at turn %d, step %d", d.Change, d.Turn, d.Step), nil
	}
	return "", nil
}

// record signs what was found and appends it.
func (r *Reproduced) record(ctx context.Context, c *dossier.Corpus, key *seal.Key, record *evidence.AttemptReproduced) error {
	message, err := canon.Marshal(record)
	if err != nil {
		return err
	}
	sig, err := seal.SignWith(key.Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		return err
	}
	record.Signature = string(sig)
	pos, err := c.Append(ctx, evidence.AttemptReproducedKind, record)
	r.Entry = pos.Index
	return err
}
