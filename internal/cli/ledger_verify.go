package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

// strictDays is how far back strict verification looks unless told otherwise.
const strictDays = 30

// maxEvidence bounds one piece of evidence.
const maxEvidence = 1 << 30

type ledgerVerifyOptions struct {
	strict bool
	since  string
}

func newLedgerVerify(env *Env) *cobra.Command {
	var o ledgerVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify chain, tree, seals, anchors, tiles and memory",
		Long: `Verify every entry against its place in the chain, every batch against its seal,
the published anchors and tiles against the tree, and all of it against this
machine's memory of what it signed.

With --strict it also looks for gaps in the last 30 days: a day with entries and no
anchor, or an older one than was published; an attempt registered and never finished;
a planned case without a record; a record whose evidence is missing. --since moves
the beginning of that window: to entry N, to some days ago (90d), or to a date
(2026-05-01).`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLedgerVerify(cmd.Context(), env, o) },
	}
	cmd.Flags().BoolVar(&o.strict, "strict", false, "look for gaps too, and check the signature of every seal")
	cmd.Flags().StringVar(&o.since, "since", "", "begin of the strict window: entry `N`, DAYSd, or a date (default 30d)")
	return cmd
}

// verifyAnswer is the report. Notes are told and are no problems: a crash may
// leave bytes that nobody was promised.
type verifyAnswer struct {
	OK       bool             `json:"ok"`
	Entries  int64            `json:"entries"`
	Head     string           `json:"head"`
	Root     string           `json:"root"`
	Anchors  int              `json:"anchors"`
	Problems []ledger.Problem `json:"problems"`
	Origin   string           `json:"origin"`
	Notes    []string         `json:"notes"`
}

func runLedgerVerify(ctx context.Context, env *Env, o ledgerVerifyOptions) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	covers, err := o.window(env.Now())
	if err != nil {
		return err
	}
	a := verifyAnswer{Origin: w.Settings.Origin, Problems: []ledger.Problem{}, Notes: []string{}}
	err = env.verifyInto(ctx, w, o, covers, &a)
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
		// A gap is nothing that somebody changed.
		if a.Problems[0].Name != refusal.StrictGap {
			err = w.Alarm(err)
		}
	}
	a.OK = err == nil
	if aerr := env.Answer(a, a.text); aerr != nil {
		return aerr
	}
	return err
}

func (a verifyAnswer) text(out io.Writer) {
	if !a.OK {
		fmt.Fprintf(out, "NOT VERIFIED  %s\n", a.Origin)
		for _, p := range a.Problems {
			fmt.Fprintf(out, "  %s: %s\n", p.Kind, plain.Line(p.Error()))
		}
		return
	}
	fmt.Fprintf(out, "verified  %s\nentries   %d\nhead      %s\nroot      %s\nanchors   %d\n", a.Origin, a.Entries, a.Head, a.Root, a.Anchors)
	for _, n := range a.Notes {
		fmt.Fprintf(out, "note      %s\n", plain.Line(n))
	}
}

// verifyInto verifies and fills the report. Problems beside the chain itself
// are gathered; the first in the chain ends the walk and is returned.
func (e *Env) verifyInto(ctx context.Context, w *archive.Place, o ledgerVerifyOptions, covers func(int64, evidence.Time) bool, a *verifyAnswer) error {
	place, err := w.Sequencer()
	if err != nil {
		return err
	}
	anchors, expect, err := w.Expectations()
	if err != nil {
		return err
	}
	a.Anchors = len(anchors)
	complete, operators := completeness(w, anchors, covers), archive.SeenOperators{}
	tiles, err := place.CheckTiles()
	if err != nil {
		return err
	}
	v, err := place.Verify(ledger.Options{
		Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, Expect: expect, Decode: true, EverySeal: o.strict,
		Visit: func(r ledger.Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := tiles.Visit(r); err != nil || !o.strict {
				return err
			}
			operators.Visit(r)
			return complete.Visit(r)
		},
	})
	if err != nil {
		return err
	}
	a.Entries, a.Head, a.Root = v.Size, v.Head.String(), base64.StdEncoding.EncodeToString(v.Root[:])
	a.note(v, expect)
	problems, err := tiles.Problems(v)
	if err != nil {
		return err
	}
	a.Problems = append(a.Problems, problems...)
	if o.strict {
		gaps, err := complete.Gaps()
		if err != nil {
			return err
		}
		a.Problems = append(a.Problems, gaps...)
		return e.lookAtOperators(w, v, operators, a)
	}
	return nil
}

// lookAtOperators says which operators nobody stands for. Who that is may be
// secret, and people sign when they get to it, so neither is a gap; what was
// signed and does not verify is one.
func (e *Env) lookAtOperators(w *archive.Place, v *ledger.Verified, seen archive.SeenOperators, a *verifyAnswer) error {
	if len(seen) == 0 {
		return nil
	}
	f, _, err := w.VerifyOperators(v.Signers)
	switch {
	case refusal.Is(err, refusal.NotFound), refusal.Is(err, refusal.TwoPersonRule):
		a.Notes = append(a.Notes, "nobody stands for the operators yet: "+err.Error())
		return nil
	case refusal.ExitCode(err) == refusal.ExitUnverified:
		a.Problems = append(a.Problems, ledger.Problem{Index: -1, Kind: "operators", Name: refusal.Of(err).Name, Detail: err.Error()})
		return nil
	case err != nil:
		return err
	}
	for _, hash := range seen.InOrder() {
		if f.Find(hash) == nil {
			a.Notes = append(a.Notes, fmt.Sprintf(`audit/operators.yaml does not say who the operator of entry %d is; "tally signers operators --add" does`, seen[hash]))
		}
	}
	return nil
}

// note tells what is no problem and yet worth knowing.
func (a *verifyAnswer) note(v *ledger.Verified, expect []ledger.Expectation) {
	if t := v.Tail; t.Torn > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf(`%s ends in %d bytes that a crash left and nobody was promised; "tally ledger repair" sets them aside`, t.Segment, t.Torn))
	}
	if len(expect) == 0 {
		a.Notes = append(a.Notes, "no anchor and no memory on this machine: entries cut from the end would not be noticed here")
	}
}

func completeness(w *archive.Place, anchors []sequencer.AnchorFile, covers func(int64, evidence.Time) bool) *ledger.Completeness {
	vault := store.OpenVault(store.OS{}, w.EvidenceDir())
	past := &pastReading{vault: vault, seen: make(map[digest.Content]bool)}
	anchored := make(map[string]int64)
	for _, f := range anchors {
		anchored[f.Date] = f.Size
	}
	return &ledger.Completeness{
		Covers:   covers,
		Anchored: anchored,
		Evidence: past.whole, // a file with other content is no evidence
		Cases: func(d digest.Content) ([]evidence.PlannedCase, error) {
			data, err := vault.Get(d, maxEvidence)
			if err != nil {
				return nil, err
			}
			var cases []evidence.PlannedCase
			return cases, canon.UnmarshalCanonical(data, &cases)
		},
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
