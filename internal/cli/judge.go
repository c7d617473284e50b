package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/ceremony"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/harness"
	"tallystick/internal/judge"
	"tallystick/internal/plain"
	"tallystick/internal/provider"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/session"
)

// judgeKey is the name of the key that signs verdicts, and judgeCache that of
// their folder.
const (
	judgeKey   = "judge-cache"
	judgeCache = "judge-cache"
)

func newJudge(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "The verdicts of models that judge: list and prune",
		Long: `Graders of the kind judge ask the model that judge.yaml names. "tally run --live" draws
verdicts, records each draw in the ledger and keeps the verdict, signed with the key
judge-cache, in .tally/judge-cache; later runs use it. A verdict that was changed by
hand is not used, and the ledger gets an integrity event.`,
	}
	cmd.AddCommand(newJudgeDigest(env), newJudgeList(env), newJudgePrune(env))
	return cmd
}

func newJudgeDigest(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "digest",
		Short: "Print the digest of judge.yaml, for judge_digest in a registration",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runJudgeDigest(cmd.Context(), env) },
	}
}

func runJudgeDigest(_ context.Context, env *Env) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	s, err := judge.LoadSettings(w.Path(judge.SettingsFile))
	if err != nil {
		return err
	}
	if s == nil {
		return refusal.Newf(refusal.NotFound, "there is no %s", w.Path(judge.SettingsFile)).WithHint("write it; docs/formats/judge.md has the format")
	}
	return env.Answer(map[string]any{"digest": s.Digest, "model": s.Model}, func(out io.Writer) { fmt.Fprintln(out, s.Digest) })
}

func newJudgeList(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the verdicts that are kept, and those that would not be used",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runJudgeList(cmd.Context(), env) },
	}
}

func runJudgeList(_ context.Context, env *Env) error {
	cache, err := env.judgeCache()
	if err != nil {
		return err
	}
	list, err := cache.List()
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"verdicts": append([]judge.Listed{}, list...)}, func(out io.Writer) { printVerdicts(out, list) })
}

type judgePruneOptions struct{ olderThan time.Duration }

func newJudgePrune(env *Env) *cobra.Command {
	var o judgePruneOptions
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION",
		Short: "Remove old verdicts; the next live run draws again",
		Long: `Remove verdicts that were drawn longer ago than DURATION. A run that needs one of them
again has to draw it with --live, and the ledger numbers that draw after the earlier
ones: pruning hides nothing.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runJudgePrune(cmd.Context(), env, o) },
	}
	cmd.Flags().DurationVar(&o.olderThan, "older-than", 0, "age in `DURATION`, as in 720h")
	return cmd
}

func runJudgePrune(_ context.Context, env *Env, o judgePruneOptions) error {
	if o.olderThan <= 0 {
		return refusal.Newf(refusal.Usage, "--older-than is missing, or not more than 0").WithHint("give an age, as in --older-than 720h")
	}
	cache, err := env.judgeCache()
	if err != nil {
		return err
	}
	removed, err := cache.Prune(env.Now().Add(-o.olderThan))
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"removed": append([]judge.Listed{}, removed...)}, func(out io.Writer) {
		printVerdicts(out, removed)
		fmt.Fprintf(out, "%d verdicts removed\n", len(removed))
	})
}

func printVerdicts(out io.Writer, list []judge.Listed) {
	for _, l := range list {
		fmt.Fprintf(out, "%s  %s", plain.Line(l.Key), l.Time.Format(time.DateOnly))
		if l.Score == nil {
			fmt.Fprintf(out, "  not used: %s: %s\n", l.State, plain.Line(l.Why))
			continue
		}
		fmt.Fprintf(out, "  %s/%s  %v of %d votes, spread %v, draw %d, %s", plain.Line(l.Class), plain.Line(l.CaseID), *l.Score, l.Votes, *l.Spread, l.Draw, plain.Line(l.Model))
		if l.State != "hit" {
			fmt.Fprintf(out, "  not used: %s: %s", l.State, plain.Line(l.Why))
		}
		fmt.Fprintln(out)
	}
}

// judgeCache opens the cache of a workspace that has a key for it.
func (e *Env) judgeCache() (*judge.Cache, error) {
	w, err := e.open()
	if err != nil {
		return nil, err
	}
	cache, err := openJudgeCache(w)
	if cache == nil && err == nil {
		return nil, refusal.Newf(refusal.NotFound, "no key %s in %s, so no verdict here can be verified", judgeKey, w.KeysDir()).
			WithHint(`"tally keys new %s" makes one, and so does the first live run that needs a judge`, judgeKey)
	}
	return cache, err
}

// openJudgeCache opens the cache, nil if there is no key yet.
func openJudgeCache(w *archive.Place) (*judge.Cache, error) {
	path := filepath.Join(w.KeysDir(), judgeKey)
	if !fileExists(path) {
		return nil, nil
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("judge cache: %w", err)
	}
	return judge.OpenCache(w.Private(judgeCache), key), nil
}

// makeJudgeKey makes the key that signs verdicts. It is random: whoever could
// derive it could sign verdicts.
func (e *Env) makeJudgeKey(w *archive.Place) error {
	if _, err := ceremony.NewKey(w, judgeKey); err != nil {
		return err
	}
	e.Note("made the key %s, which signs the judge's verdicts", judgeKey)
	return nil
}

// A bailiff stands between the harness and the judge.
type bailiff struct {
	env      *Env
	settings *judge.Settings
	judge    *judge.Judge
	spent    *atomic.Int64 // micro-dollars, by live draws
}

// judgeOf sets the judge of a config, if the workspace has one. With a ledger,
// live draws go to it; without one, nothing is drawn.
func (r *runner) judgeOf(hc *harness.Config, mode judge.Mode, l *sequencer.Ledger) error {
	w := r.place.Place
	settings, err := judge.LoadSettings(w.Path(judge.SettingsFile))
	if err != nil || settings == nil {
		return err
	}
	cfg := judge.Config{Settings: settings, Mode: mode, Now: r.env.Now}
	if cfg.Cache, err = openJudgeCache(w); err != nil {
		return err
	}
	if l != nil {
		cfg.Drawn = func(caseID string, key digest.ID) judge.Drawn {
			n, last := r.past.Drawn(caseID, key.String())
			return judge.Drawn{Count: n, Verdict: last}
		}
		cfg.Draw = func(d judge.Draw) error {
			entry := &evidence.JudgeDrawn{Attempt: d.Attempt, CaseID: d.CaseID, Draw: d.Number, Key: d.Key.String(), Verdict: d.Verdict}
			if _, err := l.AppendRecord(evidence.JudgeDrawnKind, entry); err != nil {
				return err
			}
			r.past.NoteDraw(entry)
			return nil
		}
	}
	b := &bailiff{env: r.env, settings: settings, spent: &r.judged}
	if b.judge, err = judge.New(cfg); err != nil {
		return err
	}
	hc.Judge, hc.JudgeDigest = b.ask, &settings.Digest
	return nil
}

// liveJudge sets the judge of a run with real models, if its class needs one:
// the model can be called and its price is known, and there is a key.
func (r *runner) liveJudge(hc *harness.Config, access *provider.Access, l *sequencer.Ledger) error {
	w := r.place.Place
	settings, err := judge.LoadSettings(w.Path(judge.SettingsFile))
	if err != nil || settings == nil {
		return err
	}
	needed, err := harness.NeedsJudge(*hc)
	if err != nil || !needed {
		return err
	}
	if err := access.CheckModel(settings.API, settings.Model, settings.MaxOutput); err != nil {
		return fmt.Errorf("the judge of %s: %w", judge.SettingsFile, err)
	}
	if !fileExists(filepath.Join(w.KeysDir(), judgeKey)) {
		if err := r.env.makeJudgeKey(w); err != nil {
			return err
		}
	}
	return r.judgeOf(hc, judge.Live, l)
}

// recordedJudge says which model judges the cases that are to be recorded, nil
// if none does, and that it can be called.
func (r *runner) recordedJudge(access *provider.Access, chosen []string) (*judge.Settings, error) {
	settings, err := judge.LoadSettings(r.place.Path(judge.SettingsFile))
	if err != nil || settings == nil {
		return nil, err
	}
	cfg, err := r.rehearsal()
	if err != nil {
		return nil, err
	}
	cfg.Select = func(c *scenario.Case) bool { return slices.Contains(chosen, c.ID) }
	needed, err := harness.NeedsJudge(cfg)
	if err != nil || !needed {
		return nil, err
	}
	if err := access.CheckModel(settings.API, settings.Model, settings.MaxOutput); err != nil {
		return nil, fmt.Errorf("the judge of %s: %w", judge.SettingsFile, err)
	}
	return settings, nil
}

// ask puts the harness's words into the judge's, and back.
func (b *bailiff) ask(ctx context.Context, j harness.Judging) (harness.Judged, error) {
	q := judge.Question{Attempt: j.Attempt, Class: j.Class, CaseID: j.Case.ID, Criteria: j.Spec.Criteria, Expected: j.Spec.Expected, Votes: j.Spec.Votes, Task: []string{}}
	for _, t := range j.Case.Scenario.Turns {
		q.Task = append(q.Task, t.Text)
	}
	var err error
	if q.Answer, err = j.Value.Canonical(); err != nil {
		return harness.Judged{JudgeOutcome: grade.JudgeOutcome{Unscored: "the value has no JSON form: " + err.Error()}}, nil
	}
	models, source := j.Models, judge.FromCassette
	if script := b.authored(j.Case); script != nil {
		models, source = script, judge.FromAuthored
	}
	o, err := b.judge.Ask(ctx, q, models, source)
	if err != nil {
		return harness.Judged{}, fmt.Errorf("case %s: asking the judge: %w", j.Case.ID, err)
	}
	for _, e := range o.Events {
		b.env.Note("warning: %s", e.Detail)
	}
	if d := o.Document; d != nil && d.Source == judge.FromLive && !o.Cached {
		b.spent.Add(d.CostMicroUSD)
	}
	return harness.Judged{JudgeOutcome: grade.JudgeOutcome{Score: o.Score, Votes: o.Votes, Reason: o.Reason, Unscored: o.Unscored, Events: o.Events}, Evidence: o.Evidence}, nil
}

// authored is the judge that a case wrote itself: the replies that are for the
// judge's model by name. A live run and a recording do not listen to it.
func (b *bailiff) authored(c *scenario.Case) session.Models {
	if b.judge.Mode() != judge.Replay {
		return nil
	}
	var replies []scenario.Reply
	for _, r := range c.Scenario.Model {
		if r.When != nil && r.When.Agent == b.settings.Model {
			replies = append(replies, r)
		}
	}
	if len(replies) == 0 {
		return nil
	}
	return session.NewScript(replies)
}
