package lab

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"tallystick/internal/app/spend"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/wire"
)

// A Permission is whether a run may pay for what no recording answers, without a limit on
// its command line: by what this user allowed, see package spend.
type Permission struct {
	Why     string          // it may not be paid; "" if it may
	Lacking []spend.Subject // that this user would have to permit for that
	Today   spend.Limit     // what is left of the day, as lowered by tally.yaml

	book    *spend.Book
	asked   map[string]spend.Subject // by the name of the provider
	lowered spend.Limit              // of a day, by tally.yaml
	perRun  int64                    // micro-dollars, by tally.yaml; 0 for no limit

	mu  sync.Mutex
	run int64 // what the calls of this run have cost or can cost
}

// Permit finds out whether the class may spend now, and under which limit. A class that
// people signed replays, unless the spec says live; nothing is paid where CI is set.
func (s *Setup) Permit() (*Permission, error) {
	p := &Permission{}
	switch {
	case s.place.Getenv("CI") != "":
		p.Why = "CI is set"
	case bench.IsShipped(s.Bench.Class()):
		p.Why = "the class comes with the program"
	case s.Bench.Level() != string(bench.Scratch) && !s.Spec.Live:
		p.Why = "the class is signed, and a signed class replays unless --live is given"
	}
	if p.Why != "" {
		return p, nil
	}
	settings, err := provider.LoadSettings(s.place.Path(provider.SettingsFile))
	if refusal.Is(err, refusal.NotFound) {
		p.Why = "there is no " + provider.SettingsFile
		return p, nil
	}
	if err != nil { // what cannot be read permits nothing, and a replay does not need it
		p.Why = err.Error()
		return p, nil
	}
	if p.book, err = spend.Open(s.place.Getenv, s.place.Now); err != nil {
		return nil, err
	}
	live := s.place.Settings.Live
	p.lowered, p.perRun, p.asked = spend.Limit{MicroUSD: live.MaxCostPerDay, Calls: live.MaxCallsPerDay}, live.MaxCostPerRun, map[string]spend.Subject{}
	endpoints, err := s.askable(settings)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 {
		p.Why = "no provider of " + provider.SettingsFile + " has its key set"
	}
	for _, e := range endpoints {
		if err := p.look(s.place.Dir, e, settings, s.Target.Egress); err != nil {
			return nil, err
		}
	}
	if most := p.lowered.MicroUSD; most > 0 { // of all endpoints together
		p.Today.MicroUSD = min(p.Today.MicroUSD, most)
	}
	if most := p.lowered.Calls; most > 0 {
		p.Today.Calls = min(p.Today.Calls, most)
	}
	if len(p.Lacking) > 0 {
		p.Why = "there is no permission to ask " + p.Lacking[0].Text()
	}
	return p, nil
}

// look finds the permission for one endpoint.
func (p *Permission) look(dir string, e *provider.Endpoint, settings *provider.Settings, servers egress.Rules) error {
	var mcp []string
	for _, name := range slices.Sorted(maps.Keys(settings.MCP)) {
		mcp = append(mcp, name+": "+settings.MCP[name].Destination())
	}
	subject, err := spend.SubjectOf(dir, e.BaseURL, e.KeyNames(), mcp)
	if err != nil {
		return err
	}
	for i := range servers {
		subject.Egress = append(subject.Egress, servers[i].Destination())
	}
	p.asked[e.Provider] = subject
	given, err := p.book.Find(subject)
	switch {
	case err != nil:
		return err
	case given == nil:
		p.Lacking = append(p.Lacking, subject)
	default:
		left, err := p.book.Left(given, p.lowered)
		if err != nil {
			return err
		}
		p.Today.MicroUSD, p.Today.Calls = p.Today.MicroUSD+left.MicroUSD, p.Today.Calls+left.Calls
	}
	return nil
}

// askable are the providers that a run may ask: that of the built-in agent's model and
// those of its judges, or all whose key is set for a program that chooses itself.
func (s *Setup) askable(settings *provider.Settings) ([]*provider.Endpoint, error) {
	var wanted []wire.API
	if b := s.Target.Builtin; b != nil {
		wanted = append(wanted, b.API)
		judges, err := s.judgeAPIs()
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, judges...)
	}
	var list []*provider.Endpoint
	for _, e := range settings.Endpoints {
		chosen := wanted == nil || slices.ContainsFunc(wanted, func(api wire.API) bool { return api.Provider().Name == e.Provider })
		if chosen && e.HasKey(s.place.Getenv) {
			list = append(list, e)
		}
	}
	return list, nil
}

// judgeAPIs are what grading asks models by.
func (s *Setup) judgeAPIs() (apis []wire.API, err error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	asked, err := harness.ModelsAskedBy(cfg)
	if err != nil {
		return nil, err
	}
	if len(asked.Embedders) > 0 {
		apis = append(apis, wire.Embeddings)
	}
	if asked.User {
		apis = append(apis, cfg.User.API)
	}
	settings, err := judge.LoadSettings(s.place.Path(judge.SettingsFile))
	if err != nil || settings == nil || !asked.Judge && !asked.View {
		return apis, err
	}
	apis = append(apis, settings.API)
	for _, name := range asked.Panel {
		if one, err := settings.Named(name); err == nil {
			apis = append(apis, one.API)
		}
	}
	return apis, nil
}

// Give permits what is lacking, each up to the limit for a day.
func (p *Permission) Give(limit spend.Limit) error {
	for _, s := range p.Lacking {
		if err := p.book.Give(s, limit); err != nil {
			return err
		}
	}
	return nil
}

// Under has the run pay under a permission: for what no recording answers, unless the
// spec says that models are asked for more.
func (s *Setup) Under(p *Permission) {
	s.permission = p
	if !s.Spec.Live {
		s.Spec.OnMiss = evidence.OnMissLive
	}
}

// budget is what the calls of the run may cost together.
func (s *Setup) budget() (*provider.Budget, error) {
	limit := provider.Limit{MicroUSD: s.Spec.MaxCostMicroUSD, Calls: s.Spec.MaxCalls}
	if s.permission == nil {
		if limit == (provider.Limit{}) && s.Spec.Pays() {
			return nil, noLimit()
		}
		return provider.NewLimited(limit, nil), nil
	}
	if limit.Calls == 0 {
		limit.Calls = spend.MostCalls // the permission has the limit of a day
	}
	return provider.NewLimited(limit, s.permission), nil
}

func noLimit() error {
	return refusal.Newf(refusal.Usage, "--live costs money and there is no limit").
		WithHint("say with --max-cost how many dollars may be spent, or give a permission at a terminal: docs/live.md")
}

// Reserve takes a call from the day of its endpoint.
func (p *Permission) Reserve(e *provider.Endpoint, most int64, priced bool) (func(int64) error, error) {
	subject, ok := p.asked[e.Provider]
	if !ok {
		return nil, refusal.Newf(refusal.NotAnswered, "there is no permission to ask %s; nothing was sent", e.BaseURL).
			WithHint(`set its key, and give the permission with "tally run CLASS --live" at a terminal`)
	}
	if !priced {
		most = spend.Unpriced
	}
	inRun := max(most, 0)
	if err := p.takeOfRun(inRun); err != nil {
		return nil, err
	}
	r, err := p.book.Reserve(subject, most, p.lowered)
	if err != nil {
		p.spent(-inRun)
		return nil, err
	}
	return func(cost int64) error {
		p.spent(cost - inRun)
		return p.book.Settle(r, cost)
	}, nil
}

// takeOfRun takes the most of a call from what tally.yaml allows a run. Beyond it the call
// is not answered, as beyond the day's limit: a limit does not make a case a bad one.
func (p *Permission) takeOfRun(most int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perRun > 0 && most > p.perRun-p.run {
		return refusal.Newf(refusal.NotAnswered, "the next call can cost %s, and %s are left of the %s that live: max_cost_per_run in tally.yaml allows a run; it was not sent",
			plain.Dollars(most), plain.Dollars(max(0, p.perRun-p.run)), plain.Dollars(p.perRun)).
			WithHint(`allow more in tally.yaml, or for one run with "tally run CLASS --on-miss live --max-cost DOLLARS"`)
	}
	p.run += most
	return nil
}

// spent counts what the run spent besides what was taken.
func (p *Permission) spent(microUSD int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run += microUSD
}

// Text says what is left.
func (p *Permission) Text() string {
	return plain.Dollars(p.Today.MicroUSD) + " and " + plain.Plural(int(p.Today.Calls), "call") + " are left of today's permission"
}

// isNoPrice reports whether a model lacks only its price, which a limit of calls stands
// in for.
func (s *Setup) isNoPrice(err error) bool {
	return errors.Is(err, provider.ErrNoPrice) && (s.Spec.MaxCalls > 0 || s.permission != nil)
}
