package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/promote"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
)

func newPromote(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "promote",
		Short:   "What the evidence says about a class's tier; people decide",
		Example: "tally promote recommend support",
		Long: `A task class is at bronze, silver, gold or platinum. "recommend" reads the evidence and
advises; only people change a tier, by editing the registration and signing it.`,
	}
	cmd.AddCommand(newPromoteRecommend(env), newPromoteApply(env))
	return cmd
}

type recommendOptions struct {
	class     string
	require   string
	window    int // in days
	trustRoot string
}

func newPromoteRecommend(env *Env) *cobra.Command {
	var o recommendOptions
	cmd := &cobra.Command{
		Use:     "recommend CLASS",
		Short:   "Advise on the tier of a class, and record the advice",
		Example: "tally promote recommend support --require silver",
		Long: `Verify the bench, the ledger and its anchors, and say which tier the evidence of the last
30 days carries: the highest tier whose every condition is met, or none. Which tier the class
has now does not matter. The answer lists every condition of the next tier that is not met. It
is recorded in the ledger and in .tally/recommendations, with a receipt for each entry that
decided. It changes nothing: people do. The rules are in docs/formats/promotion.md.

--require TIER makes the exit code 4 when less than that tier is recommended. --window asks
about another number of days than the registration says (promotion_window_days, or 30); then
nothing can be required, because the asker could leave out the bad days.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runPromoteRecommend(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.require, "require", "", "exit 4 unless at least this `TIER` is recommended")
	cmd.Flags().IntVar(&o.window, "window", 0, "look at this many `DAYS` instead of the number in the registration; not with --require")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

func runPromoteRecommend(ctx context.Context, env *Env, o recommendOptions) error {
	if o.require != "" && !slices.Contains(bench.Tiers(), bench.Tier(o.require)) {
		return refusal.UnknownValue("require", bench.Tier(o.require), bench.Tiers()...)
	}
	if o.window < 0 || o.window > bench.MaxPromotionWindow {
		return refusal.Newf(refusal.Usage, "--window %d: expected 1 to %d days", o.window, bench.MaxPromotionWindow)
	}
	if o.require != "" && o.window != 0 {
		return refusal.Newf(refusal.Usage, "--window with --require: the asker would choose the days that count").
			WithHint("write promotion_window_days into registration.yaml, where two people sign it")
	}
	if err := refuseShipped(o.class); err != nil {
		return err
	}
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	rec, err := answer.Recommend(ctx, place, o.class, o.trustRoot, o.window)
	if err != nil {
		return err
	}
	if err := env.Answer(rec, func(out io.Writer) { recommendText(out, rec) }); err != nil {
		return err
	}
	tiers := bench.Tiers()
	if slices.Index(tiers, bench.Tier(rec.RecommendedTier)) < slices.Index(tiers, bench.Tier(o.require)) {
		return refusal.Newf(refusal.TierNotRecommended, "class %s: %s is recommended, %s is required", rec.Class, rec.RecommendedTier, o.require).
			WithHint("the reasons are in the recommendation, %s", rec.File)
	}
	return nil
}

func recommendText(out io.Writer, a *promote.Answer) {
	fmt.Fprintf(out, "class        %s\ncurrent      %s\nrecommended  %s\n", plain.Line(a.Class), a.CurrentTier, a.RecommendedTier)
	fmt.Fprintf(out, "window       %d days, since %s\n", a.WindowDays, a.Since)
	for _, t := range a.Tiers {
		state := "met"
		if !t.Met {
			state = "not met"
		}
		fmt.Fprintf(out, "%-12s %s: lower_bound_95 %.3f of %.3f, %d of %d passed cases (%d in the bench)\n", t.Tier, state, a.LowerBound95, t.Threshold, a.PassedCount, t.MinimumCases, a.Cases)
	}
	for _, why := range a.Rationale {
		fmt.Fprintf(out, "  - %s\n", plain.Line(why))
	}
	fmt.Fprintf(out, "entry %d, %s\nThis is advice. A human must approve: see \"tally promote apply --help\".\n", a.Index, plain.Line(a.File))
}

func newPromoteApply(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "apply CLASS TIER",
		Short:   "Refuse: no program changes a tier; the attempt is recorded",
		Example: "tally promote apply support gold",
		Long: `Refuse, and record that it was asked. There is no program that changes a tier. People
do: edit current_tier in bench/CLASS/registration.yaml in a reviewed change, then
"tally bench digest CLASS", and two people, one with the security role, run
"tally bench sign CLASS --key K".`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPromoteApply(cmd.Context(), env, args[0], args[1])
		},
	}
}

// maxAsked bounds the names that a user asked with.
const maxAsked = 200

func runPromoteApply(ctx context.Context, env *Env, class, tier string) error {
	blocked := &evidence.ApplyBlocked{Class: plain.Line(class), Tier: plain.Line(tier)}
	for _, s := range []*string{&blocked.Class, &blocked.Tier} {
		// Cut between two letters: a record with half a one would be refused.
		if *s = strings.ToValidUTF8((*s)[:min(len(*s), maxAsked)], ""); *s == "" {
			*s = "(nothing)"
		}
	}
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	var mayApprove []string
	if p, err := openCorpus(env); err == nil {
		mayApprove = p.Options.Signers.Candidates(seal.NamespaceBench, env.Now(), "")
		p.Root.Close()
	}
	refused := promote.Apply(class, bench.Tier(tier), mayApprove)
	if _, err := (&resolver{env: env}).class("CLASS", class); err != nil {
		r := refusal.Of(refused)
		refused = refusal.Newf(r.Name, "%w; %w", refused, err).WithHint("%s; %s", r.Hint, refusal.Of(err).Hint)
	}
	if _, err := w.AppendAfter(ctx, applyBlocked(blocked, "refused"), evidence.ApplyBlockedKind, blocked); err != nil {
		// The refusal stands whether or not it can be recorded where it should.
		w.Raise(applyBlocked(blocked, fmt.Sprintf("not in the ledger: %v", err)))
		r := refusal.Of(refused)
		return refusal.Newf(r.Name, "%w; it could not be recorded in the ledger: %v", r.Err, err).WithHint("%s", r.Hint)
	}
	return refused
}

// applyBlocked is the event of a user asking the program to change a tier.
func applyBlocked(asked *evidence.ApplyBlocked, then string) evidence.IntegrityEvent {
	return evidence.IntegrityEvent{Name: string(evidence.ApplyBlockedKind), Severity: evidence.Block, Boundary: "TB-6",
		Detail: fmt.Sprintf("a user asked to move class %s to %s; %s", asked.Class, asked.Tier, then)}
}
