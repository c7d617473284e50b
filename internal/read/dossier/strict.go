package dossier

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/mirror"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// A LedgerReport says what came of verifying a ledger with all that belongs to
// it. Notes are told and are not problems: a crash may leave bytes that were
// never acknowledged.
type LedgerReport struct {
	OK       bool             `json:"ok"`
	Entries  int64            `json:"entries"`
	Head     string           `json:"head"`
	Root     string           `json:"root"`
	Anchors  int              `json:"anchors"`
	Problems []ledger.Problem `json:"problems"`
	Origin   string           `json:"origin"`
	Notes    []string         `json:"notes"`
	// Store is the ledger's store held against the folder, if that was asked for.
	Store *mirror.Comparison `json:"store,omitempty"`
}

// LedgerOptions say how to verify a ledger.
type LedgerOptions struct {
	// Strict looks for gaps too, and checks the signature of every seal.
	Strict bool
	// Covers reports whether an entry lies in the window in which gaps are
	// looked for.
	Covers func(index int64, at evidence.Time) bool
}

// CompareStore compares the folder, as it is, with the store that the settings name.
func (p *Place) CompareStore(ctx context.Context) (*mirror.Comparison, error) {
	link, err := p.Link()
	if err != nil {
		return nil, err
	}
	m, err := link.Mirror()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, refusal.Newf(refusal.Usage, "the ledger is in the folder %s; tally.yaml names no store to compare it with", p.LedgerDir()).
			WithHint(`"tally ledger move s3://…" puts it into one`)
	}
	return m.Compare(ctx)
}

// Report verifies chain, tree, seals, anchors, tiles and memory. Problems beside
// the chain itself are gathered in the report; the first in the chain ends the
// walk and is returned.
func (p *Place) Report(ctx context.Context, o LedgerOptions) (*LedgerReport, error) {
	report := &LedgerReport{Origin: p.Settings.Origin, Problems: []ledger.Problem{}, Notes: []string{}}
	return report, p.report(ctx, o, report)
}

func (p *Place) report(ctx context.Context, o LedgerOptions, a *LedgerReport) error {
	place, err := p.Sequencer()
	if err != nil {
		return err
	}
	anchors, expect, err := p.Expectations()
	if err != nil {
		return err
	}
	a.Anchors = len(anchors)
	receipts, err := sequencer.Receipts(place.FS, p.Dir)
	if err != nil {
		return err
	}
	vault := p.link.Vault()
	complete, operators := p.completeness(vault, anchors, o.Covers), SeenOperators{}
	tiles, err := place.CheckTiles()
	if err != nil {
		return err
	}
	git := p.newGitCheck(ctx)
	var published []history.Anchor
	var due cadence
	var beside besideLedger
	events := eventSeals{}
	targets := map[digest.Content]bool{}
	v, err := place.Verify(ledger.Options{
		Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot, Expect: slices.Concat(expect, receipts), Decode: true, EverySeal: o.Strict,
		Visit: func(r ledger.Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			git.visit(r)
			if b, ok := r.Body.(*evidence.AnchorPublished); ok && !r.Envelope.Manual {
				published = append(published, history.Anchor{Index: r.Index, Time: r.Envelope.Time, AnchorPublished: *b})
			}
			if err := tiles.Visit(r); err != nil || !o.Strict {
				return err
			}
			if b, ok := r.Body.(*evidence.AttemptRegistered); ok {
				targets[b.Plan.TargetDigest] = true
			}
			operators.Visit(r)
			due.visit(r)
			beside.visit(r)
			events.visit(r, o.Covers)
			return complete.Visit(r)
		},
	})
	if err != nil {
		return err
	}
	a.Entries, a.Head, a.Root = v.Size, v.Head.String(), base64.StdEncoding.EncodeToString(v.Root[:])
	a.note(v, expect)
	if err := git.verify(v, len(anchors)); err != nil {
		return err
	}
	if err := everyAnchorGone(p.AnchorsDir(), published, len(anchors)); err != nil {
		return err
	}
	problems, err := tiles.Problems(v)
	if err != nil {
		return err
	}
	a.Problems = append(a.Problems, problems...)
	pins, unsigned, err := p.signedPins(v)
	if err != nil {
		return err
	}
	a.gitGaps(git, expectsGit(pins, published), o.Strict)
	if !o.Strict {
		return nil
	}
	gaps, err := complete.Gaps()
	if err != nil {
		return err
	}
	a.Problems = append(append(a.Problems, tiles.Unexpected()...), gaps...)
	changed, err := events.problems(p)
	if err != nil {
		return err
	}
	a.Problems = append(append(a.Problems, changed...), beside.problems(unsigned)...)
	kept, err := sequencer.LoadCheckpoints(place.FS, place.Checkpoints)
	if err != nil {
		return err
	}
	cosigned, err := p.cosignedAnchors(pins, v, anchors, kept)
	if err != nil {
		return err
	}
	var cadence *bench.AnchorPins
	if pins != nil {
		cadence = pins.Anchors
		a.Notes = append(a.Notes, slices.Sorted(maps.Values(p.ownWitnesses(pins, v)))...)
	}
	a.Problems = append(a.Problems, due.problems(cadence, cosigned, p.Now(), v.Size, o.Covers)...)
	for d := range targets {
		vault.Get(d, maxEvidence) // nothing rests on it and attempts may lack it; a wrong copy is noted
	}
	wrong, err := vault.WrongCopies(maxEvidence)
	if err != nil {
		return err
	}
	for _, err := range wrong {
		a.Problems = append(a.Problems, ledger.Problem{Index: -1, Kind: "evidence", Name: refusal.DigestMismatch,
			Detail: "a copy of a piece that has a good one elsewhere is wrong: " + err.Error()})
	}
	return p.lookAtOperators(v, operators, a)
}

// gitGaps tells what git could not be asked for. That is a gap if there is a git that
// could have been, or should be.
func (a *LedgerReport) gitGaps(git *gitCheck, expected string, strict bool) {
	why, gap := git.notAsked(expected)
	if !gap && !strict {
		return // who does not look for gaps may well do without git
	}
	for _, w := range why {
		if gap && strict {
			a.Problems = append(a.Problems, ledger.Problem{Index: -1, Kind: "git", Name: refusal.StrictGap, Detail: "git was not asked for anchors: " + w})
			continue
		}
		a.Notes = append(a.Notes, "git was not asked for anchors: "+w)
	}
}

// expectsGit says why the workspace should be in a git repository, "" if nothing
// asks for it.
func expectsGit(pins *bench.Pins, published []history.Anchor) string {
	if pins != nil && pins.Anchors != nil && len(pins.Anchors.Remotes) > 0 {
		return bench.PinsFile + " says that its anchors are pushed to " + pins.Anchors.Remotes[0]
	}
	for _, a := range published {
		if a.Git {
			return fmt.Sprintf("entry %d says that it was when an anchor was published on %s", a.Index, a.Date)
		}
	}
	return ""
}

// A besideLedger remembers whether the pins must be there: a class counts as signed
// only with them.
type besideLedger struct {
	signed string // an attempt of a class that two people signed
	entry  int64
}

func (b *besideLedger) visit(r ledger.Record) {
	if reg, ok := r.Body.(*evidence.AttemptRegistered); ok && !r.Envelope.Manual && !reg.Scratch && !strings.HasPrefix(reg.Class, bench.ShippedPrefix) {
		b.signed, b.entry = reg.Attempt, r.Index
	}
}

// problems says what is wrong with the pins: who takes them away, or changes them,
// takes away what people signed about anchors and witnesses.
func (b *besideLedger) problems(unsigned error) []ledger.Problem {
	if unsigned == nil || b.signed == "" {
		return nil
	}
	return []ledger.Problem{{Index: b.entry, Kind: "pins", Name: refusal.StrictGap,
		Detail: fmt.Sprintf("attempt %s is of a signed class, and what %s says of anchors and witnesses is not trusted: %v", b.signed, bench.PinsFile, unsigned)}}
}

// lookAtOperators says which operators no people stand for. Who that is may be
// secret, so that there is no file, or that it does not name one of them, is not a
// gap; a file that two people did not sign is not trusted, and is one.
func (p *Place) lookAtOperators(v *ledger.Verified, seen SeenOperators, a *LedgerReport) error {
	f, _, err := p.VerifyOperators(v.Signers)
	switch {
	case refusal.Is(err, refusal.NotFound):
		if len(seen) > 0 {
			a.Notes = append(a.Notes, "no file says who the operators are: "+err.Error())
		}
		return nil
	case refusal.Is(err, refusal.TwoPersonRule):
		a.Problems = append(a.Problems, ledger.Problem{Index: -1, Kind: "operators", Name: refusal.StrictGap, Detail: `not yet signed by two people, so not trusted; each signs it with "tally signers operators --sign KEY": ` + err.Error()})
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

// note tells what is not a problem and yet worth knowing.
func (a *LedgerReport) note(v *ledger.Verified, expect []ledger.Expectation) {
	if t := v.Tail; t.Torn > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf(`%s ends in %d bytes that a crash left and no writer acknowledged; "tally ledger repair" sets them aside`, t.Segment, t.Torn))
	}
	if len(expect) == 0 {
		a.Notes = append(a.Notes, "no anchor and no memory on this machine: nothing vouches that this is all, and entries cut from the end would not be noticed here")
	}
}

func (p *Place) completeness(vault *store.Vault, anchors []sequencer.AnchorFile, covers func(int64, evidence.Time) bool) *ledger.Completeness {
	r := &Reading{Place: p, vault: vault, seen: make(map[digest.Content]bool)}
	anchored := make(map[string]int64)
	for _, f := range anchors {
		anchored[f.Date] = f.Size
	}
	return &ledger.Completeness{
		Covers:   covers,
		Anchored: anchored,
		Evidence: r.whole, // a file with other content is not evidence
		Cases: func(d digest.Content) ([]evidence.PlannedCase, error) {
			data, err := r.Piece(d)
			if err != nil {
				return nil, err
			}
			var cases []evidence.PlannedCase
			return cases, canon.UnmarshalCanonical(data, &cases)
		},
	}
}

// AnchorReport is what was found about one anchor.
type AnchorReport struct {
	Path       string   `json:"path"`
	Date       string   `json:"date"`
	Size       int64    `json:"size"`
	Head       string   `json:"head"`
	Cosigners  []string `json:"cosigners"`
	People     []string `json:"people,omitempty"` // who signed it besides
	Verified   bool     `json:"verified"`
	Unanchored int64    `json:"entries_since"`
}

// VerifyAnchors verifies the ledger against its anchors, and those in a second
// folder if one is named, and each anchor under the policy of the settings: the
// witnesses and how many of them are needed.
func (p *Place) VerifyAnchors(against string) (reports []AnchorReport, entries int64, err error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, 0, err
	}
	anchors, expect, err := p.Expectations()
	if err != nil {
		return nil, 0, err
	}
	if against != "" {
		if _, err := os.Stat(against); err != nil {
			return nil, 0, refusal.Newf(refusal.Unreadable, "reading anchors: %w", err)
		}
		more, err := sequencer.LoadAnchors(p.fs(), against)
		if err != nil {
			return nil, 0, err
		}
		anchors, expect = append(anchors, more...), append(expect, sequencer.AnchorExpectations(more)...)
	}
	if len(anchors) == 0 {
		return nil, 0, refusal.Newf(refusal.MissingAnchor, "there is no anchor in %s", place.Anchors).WithHint(`"tally ledger anchor publish" makes one`)
	}
	v, err := place.Verify(ledger.Options{Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot, Expect: expect})
	if err != nil {
		return nil, 0, p.Alarm(err)
	}
	policy := ledger.Policy{Logs: v.EveryKey(), Quorum: p.Settings.Quorum, Signers: v.SignersOf}
	if policy.Witnesses, err = p.Settings.WitnessVerifiers(); err != nil {
		return nil, 0, err
	}
	for _, f := range anchors {
		a, err := ledger.VerifyAnchor(f.Data, policy)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", f.Path, err)
		}
		reports = append(reports, AnchorReport{Path: f.Path, Date: f.Date, Size: f.Size, Head: f.Head.String(),
			Cosigners: append([]string{}, a.Checkpoint.Cosignatures...), People: a.Names(), Verified: true, Unanchored: v.Size - f.Size})
	}
	return reports, v.Size, nil
}
