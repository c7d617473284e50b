package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
	"tallystick/internal/scorecard"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/session"
	"tallystick/internal/trajectory"
)

type reproduceOptions struct {
	attempt string
	jobs    int
}

func newReproduce(env *Env) *cobra.Command {
	var o reproduceOptions
	cmd := &cobra.Command{
		Use:   "reproduce ATTEMPT",
		Short: "Run an attempt again under another key, and record whether it agrees",
		Long: `Run every case of a recorded attempt again, with its recordings from the evidence or
the bench, under an operator's key that is not the one that ran it (TALLY_OPERATOR_KEY).
Scores, outcomes and canonical traces must be the same. The agreement, or the first
divergence, is signed and recorded.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.attempt = args[0]
			return runReproduce(cmd.Context(), env, o)
		},
	}
	cmd.Flags().IntVar(&o.jobs, "jobs", 0, "run `N` cases at once")
	return cmd
}

type reproduceAnswer struct {
	Original   string `json:"original"`
	Attempt    string `json:"attempt"`
	Agrees     bool   `json:"agrees"`
	Cases      int    `json:"cases"`
	Divergence string `json:"divergence,omitempty"`
	Entry      int64  `json:"entry"`
}

func runReproduce(ctx context.Context, env *Env, o reproduceOptions) error {
	p, err := env.readPast(func(a *scorecard.Attempt) bool { return a.ID == o.attempt })
	if err != nil {
		return err
	}
	original, err := p.attempt(o.attempt)
	if err != nil {
		return err
	}
	if original.Finished == nil {
		return refusal.Newf(refusal.NotFound, "attempt %s was never finished, so there is nothing to agree with", original.ID).
			WithHint(`finish it with "tally run %s --resume"`, original.Class)
	}
	place, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer place.Root.Close()
	cfg, err := place.Config()
	if err != nil {
		return err
	}
	operator, err := place.Operator(cfg.Key)
	if err != nil {
		return err
	}
	if fp := cfg.Key.Fingerprint(); fp == original.Key || operator == original.Operator {
		return refusal.Newf(refusal.Usage, "attempt %s was run with this key (%s): agreeing with oneself shows nothing", original.ID, fp).
			WithHint("name another operator's key in TALLY_OPERATOR_KEY")
	}
	r, err := env.newRunner(place, runOptions{class: original.Class, target: original.Target, repeat: original.Plan.Repeat, jobs: o.jobs})
	if err != nil {
		return err
	}
	if err := r.samePlan(original); err != nil {
		return err
	}
	divergence, cases, err := r.again(ctx, p, original)
	if err != nil {
		return err
	}
	answer := &reproduceAnswer{Original: original.ID, Agrees: divergence == "", Cases: cases, Divergence: divergence}
	if err := r.recordAgreement(ctx, cfg, operator, original, answer); err != nil {
		return err
	}
	if err := env.Answer(answer, answer.print); err != nil || answer.Agrees {
		return err
	}
	return refusal.Newf(refusal.NotReproduced, "attempt %s does not reproduce: %s", original.ID, divergence)
}

// samePlan refuses to compare with another bench or agent.
func (r *runner) samePlan(a *scorecard.Attempt) error {
	for _, same := range []struct{ what, was, now string }{
		{"the bench digest", a.Plan.BenchDigest.String(), r.bench.Digest().String()},
		{"the target digest", a.Plan.TargetDigest.String(), r.target.Digest.String()},
	} {
		if same.was != same.now {
			return refusal.Newf(refusal.PlanChanged, "attempt %s: %s was %s and is %s now", a.ID, same.what, same.was, same.now).
				WithHint("check out the commit that the attempt was run at")
		}
	}
	return nil
}

// again drives every case and returns the first divergence, "" if there is
// none.
func (r *runner) again(ctx context.Context, p *pastReading, original *scorecard.Attempt) (string, int, error) {
	type key struct {
		id     string
		repeat int
	}
	recorded := map[key]*scorecard.Case{}
	ids := map[string]bool{}
	for c := range original.Cases() {
		recorded[key{c.ID, int(c.Repeat)}] = c
		ids[c.ID] = true
	}
	cfg, err := r.rehearsal()
	if err != nil {
		return "", 0, err
	}
	cfg.Select = func(c *scenario.Case) bool { return ids[c.ID] }
	if original.Mode == "live" {
		cfg.Live = func(c *scenario.Case) (harness.Recording, error) { return p.recording(recorded[key{c.ID, 1}]) }
	}
	divergence, cases := "", 0
	err = harness.Rehearse(ctx, cfg, func(h harness.Rehearsal) error {
		cases++
		c := recorded[key{h.Case.ID, h.Repeat}]
		if divergence != "" || c == nil {
			return nil
		}
		what, err := p.differs(c, h)
		if err != nil {
			return fmt.Errorf("case %s: %w", h.Case.ID, err)
		}
		if what != "" {
			divergence = fmt.Sprintf("case %s: %s", h.Case.ID, what)
		}
		return nil
	})
	if err == nil && divergence == "" && cases != len(recorded) {
		divergence = fmt.Sprintf("the attempt has %d records, %d cases were run again", len(recorded), cases)
	}
	return divergence, cases, err
}

// A replayedRecording answers from the cassette that a live attempt left in the
// evidence.
type replayedRecording struct {
	session.Replay
	data []byte
}

func (r *replayedRecording) Cassette() ([]byte, error) { return r.data, nil }

func (p *pastReading) recording(c *scorecard.Case) (harness.Recording, error) {
	if c == nil {
		return nil, refusal.Newf(refusal.NotFound, "the case has no record to replay")
	}
	files, err := scorecard.FilesOf(c, p.read)
	if err != nil {
		return nil, err
	}
	if files.Recording == nil {
		return nil, refusal.Newf(refusal.NotFound, "case %s: the evidence has no recording", c.ID)
	}
	data, err := p.read(*files.Recording)
	if err != nil {
		return nil, err
	}
	parsed, err := cassette.Parse(data, cassette.Limits{})
	if err != nil {
		return nil, err
	}
	return &replayedRecording{session.Replay{Player: cassette.NewPlayer(parsed)}, data}, nil
}

// differs compares a record with a second run of its case: how it ended, the
// score, and the canonical trace.
func (p *pastReading) differs(c *scorecard.Case, h harness.Rehearsal) (string, error) {
	if c.Outcome() != h.Record.Outcome {
		return fmt.Sprintf("was %s, is %s", c.Outcome(), h.Record.Outcome), nil
	}
	score := 0.0
	if h.Record.Score != nil {
		score = h.Record.Score.Score
	}
	if c.IsScored() && c.Score != score {
		return fmt.Sprintf("the score was %v, is %v", c.Score, score), nil
	}
	before, err := scorecard.TrajectoryOf(c, p.read)
	if err != nil {
		return "", err
	}
	after, err := trajectory.Verify(h.Trajectory, trajectory.HeadIs(h.Files.Trajectory.Head))
	if err != nil {
		return "", err
	}
	var traces [2]*trajectory.Trace
	for i, v := range []*trajectory.Verified{before, after} {
		if traces[i], err = trajectory.Canonical(v, trajectory.Options{KeepCost: true}); err != nil {
			return "", err
		}
	}
	if d := trajectory.Compare(traces[0], traces[1]); d != nil {
		return fmt.Sprintf("%s at turn %d, step %d", d.Change, d.Turn, d.Step), nil
	}
	return "", nil
}

// recordAgreement signs what was found and appends it.
func (r *runner) recordAgreement(ctx context.Context, cfg sequencer.Config, operator digest.ID, original *scorecard.Attempt, a *reproduceAnswer) error {
	a.Attempt = original.ID + ".again-" + hex.EncodeToString(operator[:4])
	record := &evidence.AttemptReproduced{Attempt: a.Attempt, Original: original.ID, Origin: original.Origin, Agrees: a.Agrees, Divergence: a.Divergence, Operator: operator}
	message, err := canon.Marshal(record)
	if err != nil {
		return err
	}
	sig, err := seal.SignWith(cfg.Key.Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		return err
	}
	record.Signature = string(sig)
	l, err := r.place.OpenLedger(ctx)
	if err != nil {
		return err
	}
	pos, err := l.AppendRecord(evidence.AttemptReproducedKind, record)
	a.Entry = pos.Index
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return err
}

func (a *reproduceAnswer) print(out io.Writer) {
	if a.Agrees {
		fmt.Fprintf(out, "attempt %s reproduces: %d cases, same outcomes, scores and traces (entry %d)\n", plain.Line(a.Original), a.Cases, a.Entry)
		return
	}
	fmt.Fprintf(out, "attempt %s does NOT reproduce: %s (entry %d)\n", plain.Line(a.Original), plain.Line(a.Divergence), a.Entry)
}
