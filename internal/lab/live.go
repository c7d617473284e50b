package lab

import (
	"tallystick/internal/cassette"
	"tallystick/internal/harness"
	"tallystick/internal/judge"
	"tallystick/internal/provider"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
)

// live answers model calls from the providers of providers.yaml. Every case has a
// recorder of its own; all of them share one budget.
type live struct {
	s      *Setup
	access *provider.Access
	budget *provider.Budget
}

// goLive sets who answers model calls, those of the judge too.
func (s *Setup) goLive(cfg *harness.Config, draws *draws, o RunOptions) (*live, error) {
	access, err := s.access()
	if err != nil {
		return nil, err
	}
	if o.MaxCostMicroUSD == 0 {
		return nil, refusal.Newf(refusal.Usage, "--live costs money and there is no limit").WithHint("say with --max-cost how many dollars may be spent")
	}
	left := o.MaxCostMicroUSD
	if o.Resume { // the limit is the attempt's, not the process's
		left = max(0, left-draws.past.Spent(s.Bench.Class(), s.Target.Name))
	}
	l := &live{s, access, provider.NewBudget(left)}
	cfg.Live = l
	settings, err := s.judgeNeeded(*cfg, access)
	if err != nil || settings == nil {
		return l, err
	}
	if err := s.needJudgeKey(); err != nil {
		return l, err
	}
	cfg.Judge, err = s.judge(judge.Live, draws)
	return l, err
}

// access reads the providers and their keys, and that the target's own model is
// among them.
func (s *Setup) access() (*provider.Access, error) {
	settings, err := provider.LoadSettings(s.place.Path(provider.SettingsFile))
	if err != nil {
		return nil, err
	}
	access, err := settings.Access(s.place.Getenv)
	if err != nil {
		return nil, err
	}
	if b := s.Target.Builtin; b != nil {
		if err := access.CheckModel(b.API, b.Model, b.MaxOutputTokens); err != nil {
			return nil, err
		}
	}
	return access, nil
}

// Case begins the live side of a case.
func (l *live) Case(c *scenario.Case) (harness.Recording, error) {
	begun, err := l.access.Case(l.s.caseOptions(c, l.budget))
	if err != nil {
		return nil, err
	}
	return liveCase{begun}, nil
}

// Redactor takes the keys of the providers out of events.
func (l *live) Redactor() *cassette.Redactor { return l.access.Redactor() }

func (s *Setup) caseOptions(c *scenario.Case, budget *provider.Budget) provider.CaseOptions {
	return provider.CaseOptions{Budget: budget, Now: s.place.Now(), OnRetry: func(t provider.Retry) {
		s.place.Note("case %s: %s; trying again in %s", c.ID, t.Reason, t.Wait)
	}}
}

// A liveCase tells the harness how often a provider was asked again.
type liveCase struct{ *provider.Case }

func (l liveCase) Retries() int { return int(l.Stats().Retries) }
