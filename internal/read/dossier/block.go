package dossier

import (
	"context"
	"errors"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
)

// boundaries says at which trust boundary (ARCHITECTURE.md) a refusal happened, by
// its name. What is not here is about a stranger's file, which crosses none.
var boundaries = map[refusal.Name]string{
	refusal.BenchCaseDigestMismatch: "TB-1", refusal.RegistrationDigestMismatch: "TB-1", refusal.DatasetDigestMismatch: "TB-1", refusal.ManifestMismatch: "TB-1",
	refusal.BenchTreeInvalid: "TB-1", refusal.BenchRepositoryUnproved: "TB-1", refusal.BenchIncomplete: "TB-1", refusal.PinMismatch: "TB-1", refusal.FenceMissing: "TB-1", refusal.FenceDidNotRun: "TB-1",
	refusal.JudgeDigestMismatch: "TB-1", refusal.UserDigestMismatch: "TB-1", refusal.SignatureInvalid: "TB-1", refusal.SignerUnknown: "TB-1", refusal.SignerNotValidThen: "TB-1",
	refusal.NamespaceNotAllowed: "TB-1", refusal.TwoPersonRule: "TB-1", refusal.RoleMissing: "TB-1", refusal.WeakKey: "TB-1", refusal.DuplicateKey: "TB-1",

	refusal.RubricDigestMismatch:   "TB-2",
	refusal.CassetteDigestMismatch: "TB-8", refusal.ReplyInvalid: "TB-8",

	refusal.ChainTamperDetected: ledgerBoundary, refusal.SealInvalid: ledgerBoundary, refusal.HistoryRolledBack: ledgerBoundary, refusal.HistoryForked: ledgerBoundary,
	refusal.TimeWentBack: ledgerBoundary, refusal.MissingAnchor: ledgerBoundary, refusal.AnchorMismatch: ledgerBoundary, refusal.AnchorSignatureInvalid: ledgerBoundary,
	refusal.CheckpointInvalid: ledgerBoundary, refusal.TileMismatch: ledgerBoundary, refusal.EntryInvalid: ledgerBoundary, refusal.SignersChainBroken: ledgerBoundary,
	refusal.DigestMismatch: ledgerBoundary, refusal.RecomputeMismatch: ledgerBoundary, refusal.ResultRefused: ledgerBoundary,
}

// ledgerBoundary is that between the harness and the ledger.
const ledgerBoundary = "TB-4"

// Refused records that something did not verify, at the boundary where it was
// met: as an entry of the ledger if that is whole, else as an alarm. Whichever
// command met it, it is recorded once. It returns err as an [Alarm]; other errors,
// and refusals of a stranger's file, it returns as they are.
func (p *Place) Refused(err error) error {
	a := (*Alarm)(nil)
	name := refusal.Of(err).Name
	boundary, known := boundaries[name]
	switch {
	case refusal.ExitCode(err) != refusal.ExitUnverified || errors.As(err, &a) || !known:
		return err
	case p.isLedgers(err):
		return p.Alarm(err)
	}
	p.Record(evidence.IntegrityEvent{Name: string(name), Severity: evidence.Block, Boundary: boundary, Detail: err.Error()})
	return &Alarm{err, securityBlock(err, "")}
}

// Noted is Refused for a command whose answer says what was refused: nothing is
// shown besides.
func (p *Place) Noted(err error) error {
	refused := p.Refused(err)
	if a := (*Alarm)(nil); errors.As(refused, &a) && !errors.As(err, new(*Alarm)) {
		return &Alarm{a.Err, ""}
	}
	return refused
}

// isLedgers reports whether a refusal is about the ledger itself, which then
// cannot take a record of it.
func (p *Place) isLedgers(err error) bool {
	problem := (*ledger.Problem)(nil)
	switch name := refusal.Of(err).Name; {
	case errors.As(err, &problem):
		return true
	case name == refusal.DigestMismatch, name == refusal.RecomputeMismatch, name == refusal.ResultRefused:
		return false
	default:
		return boundaries[name] == ledgerBoundary
	}
}

// recordWait is how long a command waits for another writer to record an event: it
// is ending, and the alarms are there.
const recordWait = 2 * time.Second

// Record records an event in the ledger, or as an alarm where there is none that
// is whole and can be written to.
func (p *Place) Record(event evidence.IntegrityEvent) {
	if p.isCopy() || p.appendEvent(&event) != nil {
		p.Raise(event)
	}
}

// isCopy reports whether this machine knows the ledger from another folder. A
// command that only looks must not continue on a copy: the original would be the
// one that lags behind.
func (p *Place) isCopy() bool {
	if p.Settings.Ledger != "" {
		return false // every folder is one
	}
	place, err := p.Sequencer()
	if err != nil {
		return false
	}
	known, err := sequencer.Remembered(place.FS, place.StateDir, p.Settings.Origin)
	if err != nil || known == nil {
		return false
	}
	here, err := place.LayHere(p.Settings.Origin)
	return err == nil && !here
}

// appendEvent appends an event. It leaves no alarm about the ledger: the caller
// has something to tell already.
func (p *Place) appendEvent(event *evidence.IntegrityEvent) error {
	cfg, err := p.Config()
	if err != nil {
		return err
	}
	_, err = appendTo(p.link.Open(context.Background(), cfg, recordWait))(evidence.IntegrityEventKind, event)
	return err
}
