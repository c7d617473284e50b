package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/mirror"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// strictDays is how far back strict verification looks unless told otherwise.
const strictDays = 30

type ledgerVerifyOptions struct {
	strict bool
	since  string
	store  bool
}

func newLedgerVerify(env *Env) *cobra.Command {
	var o ledgerVerifyOptions
	cmd := &cobra.Command{
		Use:     "verify",
		Short:   "Verify chain, tree, seals, anchors, tiles and memory",
		Example: "tally ledger verify --strict --since 90d",
		Long: `Verify every entry against its place in the chain, every batch against its seal,
the published anchors and tiles against the tree, and all of it against this
machine's memory of what it signed.

With --strict it also looks for gaps in the last 30 days: a day with entries and no
anchor, or an older one than was published; an attempt registered and never finished;
a planned case without a record; a record whose evidence is missing; a list of events
that is gone; an anchor that did not come when it was due (anchors.every in
bench/digests.yaml, else every day once "tally ledger anchor publish" was called); a git that
could not be asked; pins or operators that two people did not sign. --since moves the
beginning of that window: to entry N, to some days ago (90d), or to a date (2026-05-01).

With --store the store that tally.yaml names is first held against the folder as it is,
entry by entry and piece of evidence by piece, and what only one side has, or both
otherwise, is listed. If only the store has something, the folder is behind. It
reads all of the store, and needs the program tally-fleet.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLedgerVerify(cmd.Context(), env, o) },
	}
	cmd.Flags().BoolVar(&o.strict, "strict", false, "look for gaps too, and check the signature of every seal")
	cmd.Flags().BoolVar(&o.store, "store", false, "compare the ledger's store with the folder, entry by entry and piece by piece")
	cmd.Flags().StringVar(&o.since, "since", "", "begin of the strict window: entry `N`, DAYSd, or a date (default 30d)")
	return cmd
}

func runLedgerVerify(ctx context.Context, env *Env, o ledgerVerifyOptions) error {
	if o.store && env.beyond == nil {
		return handOver(ctx, env, "comparing a ledger with its store")
	}
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	covers, err := o.window(env.Now())
	if err != nil {
		return err
	}
	var compared *mirror.Comparison
	if o.store {
		if compared, err = w.CompareStore(ctx); err != nil {
			return err
		}
		if err := compared.Refusal(); err != nil {
			if aerr := env.Answer(compared, func(out io.Writer) { storeText(out, compared) }); aerr != nil {
				return aerr
			}
			return w.Alarm(err)
		}
	}
	a, err := w.Report(ctx, dossier.LedgerOptions{Strict: o.strict, Covers: covers})
	a.Store = compared
	var p *ledger.Problem
	switch {
	case errors.As(err, &p):
		a.Problems = append(a.Problems, *p)
		err = w.Alarm(err)
	case err != nil && refusal.ExitCode(err) == refusal.ExitUnverified:
		r := refusal.Of(err)
		a.Problems = append(a.Problems, ledger.Problem{Index: -1, Kind: "anchor", Detail: r.Error(), Name: r.Name})
	case err != nil:
		return err
	case len(a.Problems) > 0:
		err = a.Problems[0].Refusal()
		if len(a.Problems) > 1 {
			err = refusal.Newf(a.Problems[0].Name, "%d problems, the first: %w", len(a.Problems), &a.Problems[0]).
				WithHint("%s", a.Problems[0].Refusal().Hint)
		}
		// A gap does not mean that an entry was changed.
		if a.Problems[0].Name != refusal.StrictGap {
			err = w.Alarm(err)
		}
	}
	a.OK = err == nil
	if aerr := env.Answer(a, func(out io.Writer) { ledgerText(out, a) }); aerr != nil {
		return aerr
	}
	return err
}

func ledgerText(out io.Writer, a *dossier.LedgerReport) {
	if !a.OK {
		fmt.Fprintf(out, "%s  %s\n", bad.of("NOT VERIFIED"), a.Origin)
		for _, p := range a.Problems {
			fmt.Fprintf(out, "  %s: %s\n", p.Kind, plain.Line(p.Error()))
		}
		return
	}
	fmt.Fprintf(out, "verified  %s\nentries   %d\nhead      %s\nroot      %s\nanchors   %d\n", a.Origin, a.Entries, a.Head, a.Root, a.Anchors)
	for _, n := range a.Notes {
		fmt.Fprintf(out, "note      %s\n", plain.Line(n))
	}
	if a.Store != nil {
		storeText(out, a.Store)
	}
}

// storeText tells what came of comparing a store with the folder.
func storeText(out io.Writer, c *mirror.Comparison) {
	fmt.Fprintf(out, "store     %s: %d entries here, %d there, %d the same; %d pieces of evidence here, %d there, %d the same\n", plain.Line(c.Store),
		c.Entries.Here, c.Entries.There, c.Entries.Same, c.Evidence.Here, c.Evidence.There, c.Evidence.Same)
	for _, d := range c.Differences {
		fmt.Fprintf(out, "  %s  %s\n", d.Where, plain.Line(d.Detail))
	}
}

// window reads --since.
func (o ledgerVerifyOptions) window(now time.Time) (func(int64, evidence.Time) bool, error) {
	since := o.since
	if since != "" && !o.strict {
		return nil, refusal.Newf(refusal.Usage, "--since moves the window of --strict, which was not given").WithHint("everything is verified in any case; add --strict to look for gaps")
	}
	if since == "" {
		since = fmt.Sprintf("%dd", strictDays)
	}
	if n, err := strconv.ParseInt(since, 10, 64); err == nil && n >= 0 {
		return func(index int64, _ evidence.Time) bool { return index >= n }, nil
	}
	if days, ok := strings.CutSuffix(since, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 100_000 {
			return after(now.AddDate(0, 0, -n)), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, since); err == nil {
		return after(day), nil
	}
	return nil, refusal.Newf(refusal.Usage, "--since %q is neither an entry, nor days as in 90d, nor a date as in 2026-05-01", since)
}

func after(begin time.Time) func(int64, evidence.Time) bool {
	return func(_ int64, at evidence.Time) bool { return !at.Go().Before(begin) }
}
