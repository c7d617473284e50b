package lab

import (
	"context"
	"encoding/json"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
)

// RunOptions say how an attempt is run and recorded.
type RunOptions struct {
	Resume          bool   // the newest unfinished attempt of the class and target
	Again           string // the command that resumes it, for hints
	MaxCostMicroUSD int64  // for the whole attempt; 0 for no limit

	Drivers  harness.Drivers  // nil if the cases are driven in this process
	People   harness.People   // nil if nobody is there to answer
	Progress harness.Progress // nil if nobody looks on

	// Past, if not nil, has seen every entry of the ledger that the corpus was
	// read from, so that only what came since is verified.
	Past *harness.Past

	// Admit, if not nil, is shown the ids of all attempts before anything runs,
	// and may refuse.
	Admit func(attempts []string) error
}

// A Ran is an attempt that was run, perhaps not to its end.
type Ran struct {
	*harness.Summary
	JudgeCostMicroUSD int64    // of live draws; not in the summary, whose cost is the agent's
	Unfinished        []string // attempts of the class and target that were left open before
}

// Run runs an attempt and publishes an anchor at its end. What was recorded
// before an error is returned with it; nil if nothing was.
func (s *Setup) Run(ctx context.Context, o RunOptions) (*Ran, error) {
	cfg, err := s.place.Config()
	if err != nil {
		return nil, err
	}
	past := &harness.Past{}
	if o.Past != nil && s.place.Reading != nil {
		past, cfg.From = o.Past, s.place.Reading.Verified()
	}
	cfg.Visit = past.Visit
	l, err := s.place.OpenWith(ctx, cfg, dossier.LockWait)
	if err != nil {
		return nil, err
	}
	s.resume = o.Again
	ran, err := s.runOn(ctx, &book{l, s}, past, cfg.Key, o)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return ran, err
}

func (s *Setup) runOn(ctx context.Context, l *book, past *harness.Past, key *seal.Key, o RunOptions) (*Ran, error) {
	if o.Admit != nil {
		if err := o.Admit(past.Attempts()); err != nil {
			return nil, err
		}
	}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	if cfg.Operator, err = s.place.Operator(key); err != nil {
		return nil, err
	}
	cfg.People, cfg.Drivers = o.People, o.Drivers
	draws := &draws{ledger: l, past: past}
	if s.o.Live || s.replies != nil {
		live, err := s.goLive(&cfg, draws, o)
		if err != nil {
			return nil, err
		}
		defer live.access.Close()
	} else if cfg.Judge, err = s.judge(judge.Replay, draws); err != nil {
		return nil, err
	}
	summary, err := harness.Run(ctx, cfg, harness.Books{Ledger: l, Past: past, Origin: s.place.Settings.Origin, Key: key, Scratch: s.place.Shared != nil,
		Packs: filepath.Join(s.place.EvidenceDir(), "packs"), Runs: s.place.Private("runs"),
		Resume: o.Resume, Again: o.Again, MaxCostMicroUSD: o.MaxCostMicroUSD, Progress: o.Progress})
	if summary == nil {
		return nil, err
	}
	return &Ran{summary, draws.cost.Load(), past.Noted}, err
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
			WithHint("when the witnesses can be reached, resume with %s", b.s.resume)
	}
	return err
}

// Publish publishes an anchor.
func (b *book) Publish(ctx context.Context) error {
	_, err := Publish(ctx, b.s.place.Place, b.Ledger)
	return err
}
