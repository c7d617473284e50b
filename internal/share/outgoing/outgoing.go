// Package outgoing makes what leaves a workspace: exports, drafts of credentials,
// bundles, spans, the page of an attempt, packages for submission, receipts.
//
// Each is made of a verified workspace (package dossier) in the form of the package
// that owns the format; texts of held-out cases are not in it unless the owner asked.
//
// Where it stops: no decision depends on it, and formats are none of its business.
package outgoing

import (
	"context"
	"fmt"
	"io"
	"iter"
	"path"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/export"
	"tallystick/internal/share/importer"
)

// A DraftAsk is what the caller wants attested: a result file that is there, "-" for
// standard input, or an attempt.
type DraftAsk struct {
	What        string
	AttemptOnly bool // What is an attempt, whatever files there are
	Stdin       io.Reader
	claim.Options
}

// Draft drafts the body of what was asked for. With an attempt it gives its id.
func Draft(ctx context.Context, open func() (*dossier.Place, error), ask DraftAsk) (*claim.Draft, string, error) {
	if !ask.AttemptOnly && (ask.What == "-" || dossier.AreFiles(ask.What)) {
		runs, err := importer.Read(ctx, []string{ask.What}, importer.Options{Stdin: ask.Stdin, Setup: true})
		if err != nil {
			return nil, "", err
		}
		draft, err := claim.OfRuns(runs, ask.Options)
		return draft, "", err
	}
	p, err := open()
	if refusal.Is(err, refusal.NotFound) {
		return nil, "", refusal.Newf(refusal.Unreadable, "%s: there is no such file, and no workspace with an attempt of that name", ask.What).
			WithHint("name a result file, a run folder, - or an attempt")
	}
	if err != nil {
		return nil, "", err
	}
	a, err := p.ReadAttempt(ask.What, dossier.Ask{Prove: true})
	if err != nil {
		return nil, "", err
	}
	if err := scorecard.RequireAnswered(a.Attempt); err != nil {
		return nil, "", err
	}
	whole, err := a.ReadAll()
	if err != nil {
		return nil, "", err
	}
	for c := range whole.Cases() {
		if err := whole.Missing(c.Case); c.Index >= 0 && err != nil {
			return nil, "", fmt.Errorf("case %s: %w", c.ID, err)
		}
	}
	out, err := FactsOf(whole.Public(), "")
	if err != nil {
		return nil, "", err
	}
	draft, err := claim.OfAttempt(out, ask.Options)
	return draft, a.ID, err
}

// An ExportAsk says what of an attempt is to leave, and how.
type ExportAsk struct {
	Attempt, Glob string
	ShowHeldOut   bool
	Withhold      bool
	Salts         string // a file for what opens withheld texts, "" for none
}

// ForExport verifies the ledger, gathers the attempt and withholds what is to be
// withheld.
func ForExport(p *dossier.Place, ask ExportAsk) (*export.Facts, error) {
	found, err := p.ReadAttempt(ask.Attempt, dossier.Ask{Prove: true, ShowHeldOut: ask.ShowHeldOut})
	if err != nil {
		return nil, err
	}
	a, err := decidedFacts(found, found.Public(), ask.Glob)
	if err != nil {
		return nil, err
	}
	if len(a.Samples) == 0 {
		return nil, NoCase(a.ID, ask.Glob)
	}
	if !ask.Withhold {
		return a, nil
	}
	salts, err := a.Withhold(nil)
	if err != nil || ask.Salts == "" {
		return a, err
	}
	data, err := export.EncodeSalts(salts)
	if err != nil {
		return nil, err
	}
	return a, dossier.WriteSecret(ask.Salts, data)
}

// decidedFacts is [FactsOf] with what was decided about the attempt, which the gates of
// its class say and no fact of its own.
func decidedFacts(d *dossier.Dossier, public *dossier.Public, glob string) (*export.Facts, error) {
	if err := scorecard.RequireAnswered(d.Attempt); err != nil {
		return nil, err
	}
	decision, err := gate.Of(d)
	if err != nil {
		return nil, err
	}
	out, err := FactsOf(public, glob)
	if err != nil {
		return nil, err
	}
	out.Decision = *decision
	return out, nil
}

// matching gives the cases of an attempt whose id matches glob, all if that is "".
func matching(a *dossier.Public, glob string) iter.Seq[*history.Case] {
	return func(yield func(*history.Case) bool) {
		for c := range a.Cases() {
			if ok, _ := path.Match(glob, c.ID); glob != "" && !ok {
				continue
			}
			if !yield(c) {
				return
			}
		}
	}
}

// ImportedBadge draws the badge of a result file, which says that Tallystick did not observe
// the run, and counts its samples.
func ImportedBadge(ctx context.Context, path string) ([]export.File, int, error) {
	runs, err := importer.Read(ctx, []string{path}, importer.Options{})
	if err != nil {
		return nil, 0, err
	}
	files, err := claim.ImportedBadge(runs)
	return files, int(runs[0].Samples), err
}

// NoCase refuses a pattern that matches no case of an attempt.
func NoCase(attempt, glob string) error {
	if glob == "" {
		return refusal.Newf(refusal.NotFound, "attempt %s: no case ran, so there is nothing to tell", attempt).
			WithHint(`"tally run" with --resume resumes an attempt that was interrupted`)
	}
	return refusal.Newf(refusal.UnknownName, "attempt %s has no case that matches %q", attempt, glob).WithHint(`"tally scorecard %s" lists what it has`, attempt)
}
