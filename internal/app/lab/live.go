package lab

import (
	"fmt"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/scenario"
)

// live answers model calls from the providers of providers.yaml. Every case has a
// recorder of its own; all of them share one budget.
type live struct {
	s      *Setup
	access *provider.Access
	budget *provider.Budget
	cache  *cache // nil if every call goes to a provider

	librarian *librarian
}

// goLive sets who answers model calls, those of the judge too.
func (s *Setup) goLive(cfg *harness.Config, draws *draws) (*live, error) {
	access, err := s.access()
	if err != nil {
		return nil, err
	}
	budget, err := s.budget()
	if err != nil {
		return nil, err
	}
	l := &live{s: s, access: access, budget: budget, librarian: s.librarian(access.Settings.At, entering(draws.ledger))}
	cfg.Live = l
	if replies := s.Spec.Replies(); replies != nil {
		l.librarian.user.Finds, l.librarian.user.Pays = s.mayReuse(), s.Spec.Pays()
		l.cache = newCache(s, access.Settings, replies)
		if err := l.cache.check(); err != nil {
			return nil, err
		}
	}
	if !s.Spec.Pays() { // no judge is paid either
		cfg.Judge, err = s.judge(judge.Replay, draws, nil)
		return l, err
	}
	settings, _, err := s.modelsNeeded(*cfg, access)
	if err != nil || settings == nil {
		return l, err
	}
	if err := s.needJudgeKey(); err != nil {
		return l, err
	}
	if cfg.Judge, err = s.judge(judge.Live, draws, access); err == nil {
		cfg.Replayer, err = s.judge(judge.Replay, draws, nil)
	}
	return l, err
}

// PricesDigest names the prices by which the run counts.
func (l *live) PricesDigest() (digest.Content, error) { return l.access.Settings.PricesDigest() }

// access reads the providers and their keys, and that the target's own model is
// among them.
func (s *Setup) access() (*provider.Access, error) {
	settings, err := provider.LoadSettings(s.place.Path(provider.SettingsFile))
	if refusal.Is(err, refusal.NotFound) && (!s.Spec.Pays() || len(s.Target.Egress) > 0) {
		settings, err = &provider.Settings{}, nil // no provider is asked; a call of a model says that there is none
	}
	if err != nil {
		return nil, err
	}
	access, err := settings.Access(s.place.Getenv)
	if err != nil {
		return nil, err
	}
	if state, err := workspace.StateDir(s.place.Getenv); err == nil {
		access.Among(filepath.Join(state, "asking"), s.place.Path(".")+" "+s.Spec.Class)
	}
	if err := access.Egress(s.Target.Egress, s.place.Path("."), s.place.Getenv); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Target.File(), err)
	}
	if b := s.Target.Builtin; b != nil && s.Spec.Pays() {
		if err := access.CheckModel(b.API, b.Model, b.MaxOutputTokens); err != nil && !s.isNoPrice(err) {
			return nil, err
		}
	}
	return access, nil
}

// Case begins the live side of a case.
func (l *live) Case(c *scenario.Task, j harness.Job) (harness.Recording, error) {
	o := l.s.caseOptions(c, l.budget)
	o.Journal = j.Paid
	l.librarian.lend(&o, c, j.Repeat)
	if l.cache == nil {
		begun, err := l.access.Case(o)
		return liveSide{begun}, err
	}
	borrowed, err := l.cache.borrow(c, j)
	if err != nil {
		return nil, err
	}
	o.Cached, o.UserCached = borrowed.find, borrowed.findUser
	if !l.s.Spec.Pays() || j.Offline {
		o.JudgeCached = borrowed.findJudge
	}
	begun, err := l.access.Case(o)
	return borrowingSide{liveSide{begun}, borrowed}, err
}

// Spent takes what the attempt has spent before this process from its limit.
func (l *live) Spent(microUSD int64) {
	l.budget.Spend(microUSD)
	if p := l.s.permission; p != nil {
		p.spent(microUSD)
	}
}

// Redactor takes the keys of the providers out of events.
func (l *live) Redactor() *cassette.Redactor { return l.access.Redactor() }

func (s *Setup) caseOptions(c *scenario.Task, budget *provider.Budget) provider.CaseOptions {
	return provider.CaseOptions{Egress: s.Target.Egress, Matching: harness.Matching(s.Bench, s.Target, c), Budget: budget, Now: s.place.Now(), OnRetry: func(t provider.Retry) {
		s.place.Note("case %s: %s; trying again in %s", c.ID, t.Reason, t.Wait)
	}}
}

// A liveSide tells the harness how often a provider was asked again.
type liveSide struct{ *provider.LiveSide }

func (l liveSide) Retries() (n int, unanswered int64) {
	// What the judge's calls cost is not in the cost of a case.
	return l.Stats().Retries, int64(l.Live.Stats().Unanswered)
}
