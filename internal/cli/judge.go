package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/user"
)

func newJudges(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "judges",
		Short:   "The verdicts of models that judge: list, prune, compare with people",
		Example: "tally judges list",
		Long: `Graders of the kind judge ask the model that judge.yaml names. "tally run --live" draws
verdicts, records each draw in the ledger and keeps the verdict, signed with the key
judge-cache, in .tally/judge-cache; later runs use it. A verdict that was changed by
hand is not used, and the ledger gets an integrity event.`,
	}
	cmd.AddCommand(newJudgeDigest(env), newJudgeList(env), newJudgePrune(env), newJudgeShow(env), newJudgeCalibrate(env))
	return cmd
}

type judgeDigestOptions struct{ user bool }

func newJudgeDigest(env *Env) *cobra.Command {
	var o judgeDigestOptions
	cmd := &cobra.Command{
		Use:     "digest",
		Short:   "Print the digest of judge.yaml, for judge_digest in a registration",
		Example: "tally judges digest\ntally judges digest --user",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runJudgeDigest(cmd.Context(), env, o) },
	}
	cmd.Flags().BoolVar(&o.user, "user", false, "of user.yaml with the prompt of the model that plays users, for user_digest")
	return cmd
}

func runJudgeDigest(_ context.Context, env *Env, o judgeDigestOptions) error {
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	if o.user {
		s, err := user.LoadSettings(w.Path(user.SettingsFile))
		if err != nil {
			return err
		}
		if s == nil {
			return refusal.Newf(refusal.NotFound, "there is no %s", w.Path(user.SettingsFile)).WithHint("write it; docs/users.md has the format")
		}
		return env.Answer(map[string]any{"digest": s.Digest, "model": s.Model, "prompt": user.PromptDigest()}, func(out io.Writer) { fmt.Fprintln(out, s.Digest) })
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
		Use:     "list",
		Short:   "List the verdicts that are kept, and those that would not be used",
		Example: "tally judges list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runJudgeList(cmd.Context(), env) },
	}
}

func runJudgeList(_ context.Context, env *Env) error {
	cache, err := openVerdicts(env)
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
		Use:     "prune --older-than DURATION",
		Short:   "Remove old verdicts; the next live run draws again",
		Example: "tally judges prune --older-than 720h",
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
	cache, err := openVerdicts(env)
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

// openVerdicts opens the verdicts of the workspace.
func openVerdicts(env *Env) (*judge.Cache, error) {
	p, err := openPlace(env)
	if err != nil {
		return nil, err
	}
	return lab.JudgeCache(p)
}
