package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/user"
	"tallystick/internal/run/wire"
)

// judgeKey is the name of the key that signs verdicts, and judgeCache that of
// their folder.
const (
	judgeKey   = "judge-cache"
	judgeCache = "judge-cache"
)

// JudgeCache opens the verdicts of a workspace that has a key for them.
func JudgeCache(p *dossier.Place) (*judge.Cache, error) {
	cache, err := openJudgeCache(p)
	if cache == nil && err == nil {
		return nil, refusal.Newf(refusal.NotFound, "no key %s in %s, so no verdict here can be verified", judgeKey, p.KeysDir()).
			WithHint(`"tally keys new %s" makes one, and so does the first live run that needs a judge`, judgeKey)
	}
	return cache, err
}

// openJudgeCache opens the cache, nil if there is no key yet.
func openJudgeCache(p *dossier.Place) (*judge.Cache, error) {
	path := filepath.Join(p.KeysDir(), judgeKey)
	if !workspace.Exists(path) {
		return nil, nil
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("judge cache: %w", err)
	}
	return judge.OpenCache(p.Private(judgeCache), key), nil
}

// needJudgeKey makes the key that signs verdicts, if there is none. It is random:
// a person who could derive it could sign verdicts.
func (s *Setup) needJudgeKey() error {
	if workspace.Exists(filepath.Join(s.place.KeysDir(), judgeKey)) {
		return nil
	}
	if _, err := ceremony.NewKey(s.place.Place, judgeKey); err != nil {
		return err
	}
	s.place.Note("made the key %s, which signs the judge's verdicts", judgeKey)
	return nil
}

// draws is where verdicts are recorded that a model was asked for.
type draws struct {
	ledger harness.Ledger
	past   *harness.Past

	mu   sync.Mutex
	cost cost.Cost // of live draws
}

func (d *draws) pay(of cost.Cost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cost = d.cost.Plus(of)
}

func (d *draws) paid() cost.Cost {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cost
}

func (d *draws) drawn(caseID string, key digest.ID) judge.Drawn {
	n, last := d.past.Drawn(caseID, key.String())
	return judge.Drawn{Count: n, Verdict: last}
}

func (d *draws) draw(x judge.Draw) error {
	entry := &evidence.JudgeDrawn{Attempt: x.Attempt, CaseID: x.CaseID, Draw: x.Number, Key: x.Key.String(), Verdict: x.Verdict}
	if _, err := d.ledger.AppendRecord(evidence.JudgeDrawnKind, entry); err != nil {
		return err
	}
	d.past.NoteDraw(entry)
	return nil
}

// A bailiff stands between the harness and the judge.
type bailiff struct {
	settings *judge.Settings
	mode     judge.Mode
	judges   map[string]*judge.Judge // by their names in judge.yaml; "" is the one at the top
	note     func(format string, args ...any)
	draws    *draws // nil if nothing is drawn
}

// judge is the judge of the workspace, nil if it has none. Live draws go to
// draws; without that nothing is drawn. Asked is who answers a live judge.
func (s *Setup) judge(mode judge.Mode, draws *draws, asked *provider.Access) (harness.Judge, error) {
	settings, err := judge.LoadSettings(s.place.Path(judge.SettingsFile))
	if err != nil || settings == nil {
		return nil, err
	}
	cfg := judge.Config{Settings: settings, Mode: mode, Now: s.place.Now}
	if cfg.Cache, err = openJudgeCache(s.place.Place); err != nil {
		return nil, err
	}
	if draws != nil {
		cfg.Drawn, cfg.Draw = draws.drawn, draws.draw
	}
	if asked != nil {
		cfg.At = asked.Settings.At
	}
	b := &bailiff{settings: settings, mode: mode, judges: map[string]*judge.Judge{}, note: s.place.Note, draws: draws}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(settings.Others))...) {
		if cfg.Settings, err = settings.Named(name); err != nil {
			return nil, err
		}
		if b.judges[name], err = judge.New(cfg); err != nil {
			return nil, err
		}
	}
	b.judges[judge.DefaultJudge] = b.judges[""]
	return b, nil
}

// judgeNeeded says which model judges a case, or is asked for second
// views; nil if none is, and that it can be called and its price is known.
func (s *Setup) judgeNeeded(asked harness.ModelsAsked, access *provider.Access) (*judge.Settings, error) {
	if !asked.Judge && !asked.View {
		return nil, nil
	}
	settings, err := judge.LoadSettings(s.place.Path(judge.SettingsFile))
	if err != nil {
		return nil, err
	}
	if settings == nil {
		why := "class " + s.Spec.Class + " has cases that a model judges"
		if !asked.Judge {
			why = "--second-view asks a judge"
		}
		return nil, refusal.Newf(refusal.NotFound, "%s, and there is no %s: nothing was sent", why, judge.SettingsFile).
			WithHint("say in %s which model judges; docs/formats/judge.md has the format", s.place.Path(judge.SettingsFile))
	}
	for _, name := range append([]string{""}, asked.Panel...) {
		one, err := settings.Named(name)
		if err != nil {
			return nil, err
		}
		if err := access.CheckModel(one.API, one.Model, one.MaxOutput); err != nil && !s.isNoPrice(err) {
			return nil, fmt.Errorf("the judge %s of %s: %w", cmp.Or(name, judge.DefaultJudge), judge.SettingsFile, err)
		}
	}
	return settings, nil
}

// modelsNeeded says, before anything is sent, which judge is asked and which model plays
// users, nil for none, and that every model which the cases ask besides the agent's, for
// vectors too, can be called and has a price.
func (s *Setup) modelsNeeded(cfg harness.Config, access *provider.Access) (judges *judge.Settings, users *user.Settings, err error) {
	asked, err := harness.ModelsAskedBy(cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, model := range asked.Embedders {
		if err := access.CheckModel(wire.Embeddings, model, 0); err != nil && !s.isNoPrice(err) {
			return nil, nil, fmt.Errorf("class %s compares vectors of %s: %w", s.Spec.Class, model, err)
		}
	}
	if asked.User {
		users = cfg.User
		if err := access.CheckModel(users.API, users.Model, users.MaxOutput); err != nil && !s.isNoPrice(err) {
			return nil, nil, fmt.Errorf("the model that plays users, of %s: %w", user.SettingsFile, err)
		}
	}
	judges, err = s.judgeNeeded(asked, access)
	return judges, users, err
}

// Knows refuses the name of a judge that judge.yaml does not have.
func (b *bailiff) Knows(name string) error {
	_, err := b.settings.Named(name)
	return err
}

// Digest names the settings of the judge.
func (b *bailiff) Digest() digest.Content { return b.settings.Digest }

// Models are those of every judge of judge.yaml.
func (b *bailiff) Models() []string {
	models := []string{b.settings.Model}
	for _, other := range b.settings.Others {
		models = append(models, other.Model)
	}
	return models
}

// Texts names the texts in which a question without a template is put.
func (b *bailiff) Texts() digest.Content { return judge.TextsDigest() }

// Ask puts the harness's words into the judge's, and back.
func (b *bailiff) Ask(ctx context.Context, j harness.Judging) (harness.Judged, error) {
	q := questionOf(j)
	settings, err := b.settings.Named(q.Judge)
	if err != nil {
		return harness.Judged{}, err
	}
	if q.Answer, err = j.Value.Canonical(); err != nil {
		return harness.Judged{JudgeOutcome: grade.JudgeOutcome{Unscored: "the value has no JSON form: " + err.Error()}}, nil
	}
	models, source := j.Models, judge.FromCassette
	if script := b.authored(settings, j.Case); script != nil {
		models, source = script, judge.FromAuthored
	}
	o, err := b.judges[j.Spec.Judge].Ask(ctx, q, models, source)
	if err != nil {
		return harness.Judged{}, fmt.Errorf("case %s: asking the judge: %w", j.Case.ID, err)
	}
	if live, ok := j.Models.(*provider.Live); ok && o.Cached {
		for _, body := range o.Requests {
			if err := live.Settle(settings.API, body); err != nil {
				return harness.Judged{}, err
			}
		}
	}
	for _, e := range o.Events {
		b.note("warning: %s", e.Detail)
	}
	if d := o.Document; d != nil && d.Source == judge.FromLive && !o.Cached && b.draws != nil {
		b.draws.pay(d.Cost())
	}
	return harness.Judged{JudgeOutcome: judgedOf(&o), Evidence: o.Evidence, Unanswered: o.Missing}, nil
}

// questionOf puts what the harness asks into the judge's words, but for the answer.
func questionOf(j harness.Judging) judge.Question {
	spec := &j.Spec
	q := judge.Question{Attempt: j.Attempt, Class: j.Class, CaseID: j.Case.ID, Criteria: spec.Criteria, Expected: spec.Expected, Votes: spec.Votes, Task: []string{},
		Form: spec.Form, Template: spec.Template, Scale: spec.Scale, Reference: spec.Reference, Context: spec.Context}
	if spec.Judge != judge.DefaultJudge {
		q.Judge = spec.Judge
	}
	for _, v := range spec.Views {
		seen := judge.Seen{Part: v.Part, Digest: digest.ContentOf([]byte(v.Text)), Bytes: len(v.Text), Items: v.Items, LeftOut: v.LeftOut, CutBytes: v.CutBytes}
		q.Views = append(q.Views, judge.Shown{Part: v.Part, Text: v.Text, Seen: seen})
	}
	for _, t := range j.Case.Scenario.Turns {
		q.Task = append(q.Task, t.Text)
	}
	return q
}

// judgedOf is what the grader is told.
func judgedOf(o *judge.Opinion) grade.JudgeOutcome {
	out := grade.JudgeOutcome{Score: o.Score, Votes: o.Votes, Reason: o.Reason, Unscored: o.Unscored, Choice: o.Choice, Events: o.Events}
	if o.Marked > 0 {
		out.Marked = &grade.Marked{Held: o.Held, Of: o.Marked}
	}
	if o.Compared > 0 {
		out.Position = &grade.Position{First: o.First, Second: o.Second, Of: o.Compared}
	}
	return out
}

// authored is the judge that a case wrote itself: the replies that are for the
// judge. A live run and a recording do not listen to it.
func (b *bailiff) authored(settings *judge.Settings, c *scenario.Task) *session.Script {
	if b.mode != judge.Replay {
		return nil
	}
	return session.JudgeScript(&c.Scenario, settings.Model)
}
