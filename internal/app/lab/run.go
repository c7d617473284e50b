package lab

import (
	"context"
	"encoding/json"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
)

// A RunResult is an attempt that was run, perhaps not to its end.
type RunResult struct {
	*harness.Summary
	JudgeCost  cost.Cost // of live draws; not in the summary, whose cost is the agent's
	Unfinished []string  // attempts of the class and target that were left open before
}

// Run runs an attempt and publishes an anchor at its end. The workspace's judge and
// live models take part besides those that the caller names. Past, if not nil, has seen
// every entry of the ledger that the corpus was read from, so that only what came
// since is verified. What was recorded before an error is returned with it; nil if
// nothing was.
func (s *Setup) Run(ctx context.Context, with harness.Parties, past *harness.Past) (*RunResult, error) {
	cfg, err := s.place.Config()
	if err != nil {
		return nil, err
	}
	if past != nil && s.place.Reading != nil {
		cfg.From = s.place.Reading.Verified()
	} else {
		past = &harness.Past{}
	}
	cfg.Visit = past.Visit
	l, err := s.place.OpenWith(ctx, cfg, dossier.LockWait)
	if err != nil {
		return nil, err
	}
	ran, err := s.runOn(ctx, &book{l, s}, past, cfg.Key, with)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return ran, err
}

func (s *Setup) runOn(ctx context.Context, l *book, past *harness.Past, key *seal.Key, with harness.Parties) (*RunResult, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	if cfg.Operator, err = s.place.Operator(key); err != nil {
		return nil, err
	}
	cfg.Parties = with
	draws := &draws{ledger: l, past: past}
	if s.Spec.AnswersLive() {
		live, err := s.goLive(&cfg, draws)
		if err != nil {
			return nil, err
		}
		defer live.access.Close()
	} else if cfg.Judge, err = s.judge(judge.Replay, draws, nil); err != nil {
		return nil, err
	}
	summary, err := harness.Run(ctx, cfg, harness.Books{Ledger: l, Past: past, Origin: s.place.Settings.Origin, Key: key, Scratch: s.place.Shared != nil,
		Packs: filepath.Join(s.place.EvidenceDir(), "packs"), Runs: s.place.Private("runs")})
	if summary == nil {
		return nil, err
	}
	return &RunResult{summary, draws.paid(), past.Noted}, err
}

// KeepAnswer keeps what a person was told about an attempt beside the ledger. It
// proves nothing: "tally verify --recompute" counts again.
func KeepAnswer(p *dossier.Place, attempt string, answer any) error {
	data, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(p.RunsDir(), attempt+".json"), append(data, '\n'), 0o600)
}

// A book is the workspace's ledger as the harness needs it.
type book struct {
	*sequencer.Ledger
	s *Setup
}

// Head names everything that is in the ledger.
func (b *book) Head() digest.ID { return b.Tip().Head }

// Cosign has witnesses cosign the registration before the first case runs, so
// that the attempt can be of the level witnessed.
func (b *book) Cosign(ctx context.Context) error {
	if len(b.s.place.Settings.Witnesses) == 0 {
		return nil
	}
	err := b.Publish(ctx)
	if refusal.Is(err, refusal.WitnessFailed) {
		// No case has run: the result cannot be of the level witnessed, so the
		// attempt waits. It is in the ledger already.
		return refusal.Newf(refusal.WitnessFailed, "the attempt is registered and no case has run: %w", err).
			WithHint("when the witnesses can be reached, resume with %s", b.s.Spec.ResumeCommand)
	}
	return err
}

// Publish publishes an anchor.
func (b *book) Publish(ctx context.Context) error {
	_, err := Publish(ctx, b.s.place.Place, b.Ledger)
	return err
}
