package ceremony

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
)

// PendingOptions say what draft to make.
type PendingOptions struct {
	Class               string
	From                string // file of the incident, for messages
	Source              string // what the ledger says it came from; "" for what the incident says
	AddedBy, ReviewedBy string
	Files               map[string][]byte // that go beside the draft
}

// A Pending is a draft that was made of a production incident. It is never
// scored.
type Pending struct {
	Class       string            `json:"class"`
	Case        string            `json:"case"`
	Digest      digest.Content    `json:"digest"`
	Disposition bench.Disposition `json:"disposition"`
	Index       int64             `json:"index"`
	Scored      bool              `json:"scored"` // never
	Warning     string            `json:"warning,omitempty"`

	Scratch bool `json:"-"` // the class is
}

// AddPending writes the draft of an incident, and its entry.
func AddPending(ctx context.Context, p *dossier.Corpus, o PendingOptions, incidentData []byte) (*Pending, error) {
	d, err := bench.Load(p.Root, o.Class)
	if err != nil {
		return nil, err
	}
	added, reviewed, err := bench.People(o.AddedBy, o.ReviewedBy, p.Options)
	if err != nil {
		return nil, err
	}
	incident, err := bench.ParseIncident(o.From, incidentData)
	if err != nil {
		return nil, err
	}
	if other := d.LooksTaken(incident.ID); other != "" {
		return nil, refusal.Newf(refusal.AlreadyExists, "class %s: draft %s looks like %s, which exists already", o.Class, incident.ID, other).
			WithHint("an incident is converted once; give another id if it is another incident")
	}
	files, err := incident.Draft(added, reviewed, p.Now())
	if err != nil {
		return nil, err
	}
	maps.Copy(files, o.Files)
	// Opened first, so that no draft is left that the ledger does not know of
	// because it could not be written to.
	if err := needsOwnLedger(p.Place, "a draft"); err != nil {
		return nil, err
	}
	l, err := p.OpenLedger(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	dir := p.ClassDir(o.Class, bench.PendingDir, incident.ID)
	if err := WriteFiles(dir, files); err != nil {
		return nil, err
	}
	if d, err = bench.Load(p.Root, o.Class); err != nil {
		return nil, err
	}
	c, err := d.Pending(incident.ID)
	if err != nil {
		return nil, err
	}
	pos, err := l.AppendRecord(evidence.CasePendingKind, &evidence.CasePending{Class: o.Class, CaseID: incident.ID, Source: cmp.Or(o.Source, incident.Source()), Digest: c.Digest})
	if err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("draft %s of class %s from %s, entry %d; it is not scored", incident.ID, o.Class, cmp.Or(o.Source, incident.Source()), pos.Index)
	if err := crossed(l, "case.pending", detail); err != nil {
		return nil, err
	}
	return &Pending{o.Class, incident.ID, c.Digest, c.Disposition, pos.Index, false, c.IncidentWarning(), d.Registration.Trust == bench.Scratch}, nil
}

// An Accepted is a case whose signatures the ledger has now.
type Accepted struct {
	Signed     digest.ID
	Position   ledger.Position
	WasPending bool
}

// AcceptOptions say which case is accepted.
type AcceptOptions struct {
	Class, CaseID string
	Covers        digest.ID // what its signatures must cover; zero for what the files say now
}

// Accept verifies the two signatures of a case and records them in the ledger.
// A draft becomes a case.
func Accept(ctx context.Context, p *dossier.Corpus, o AcceptOptions) (*Accepted, error) {
	class, id := o.Class, o.CaseID
	d, err := bench.Load(p.Root, class)
	if err != nil {
		return nil, err
	}
	c, err := d.Case(id)
	if err != nil {
		return nil, err
	}
	signed, err := acceptable(p, d, c, o.Covers)
	if err != nil {
		return nil, err
	}
	if err := needsOwnLedger(p.Place, "an acceptance"); err != nil {
		return nil, err
	}
	l, err := p.OpenLedger(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if c.Pending {
		if err := moveDraft(p, class, id); err != nil {
			return nil, err
		}
	}
	pos, err := l.AppendRecord(evidence.CaseAcceptedKind, &evidence.CaseAccepted{Class: class, CaseID: id, Digest: c.Digest, Signed: signed,
		Signatures: []string{c.Provenance.AddedBy.Signature, c.Provenance.ReviewedBy.Signature}})
	if err == nil && c.Pending {
		err = crossed(l, "case.accepted", fmt.Sprintf("draft %s of class %s is a case now, signed by two people, entry %d", id, class, pos.Index))
	}
	return &Accepted{signed, pos, c.Pending}, err
}

// crossed records that something came from production into the bench.
func crossed(l *sequencer.Ledger, name, detail string) error {
	_, err := l.AppendRecord(evidence.IntegrityEventKind, &evidence.IntegrityEvent{Name: name, Severity: evidence.Info, Boundary: "TB-7", Detail: detail})
	return err
}

// acceptable refuses a case that cannot be accepted, and says what its
// signatures cover.
func acceptable(p *dossier.Corpus, d *bench.Draft, c *bench.CaseFolder, shown digest.ID) (digest.ID, error) {
	if d.Registration.Trust == bench.Scratch {
		return digest.ID{}, refusal.Newf(refusal.Usage, "class %s is a scratch class, which is not signed, so there is nothing to accept", d.Class).
			WithHint("move the draft's folder from %s to %s by hand", bench.PendingDir, bench.CasesDir)
	}
	if err := cmp.Or(d.CheckGraded(c), c.VerifyForAcceptance(p.Options)); err != nil {
		return digest.ID{}, fmt.Errorf("class %s: case %s: %w", d.Class, c.CaseID, err)
	}
	message, err := c.Message()
	if err != nil {
		return digest.ID{}, err
	}
	if err := covers(c.CaseID, shown, message); err != nil {
		return digest.ID{}, err
	}
	signed := digest.IDOf(message)
	if p.Options.AcceptedAt != nil && !c.Pending {
		if at, ok := p.Options.AcceptedAt(d.Class, c.CaseID, signed); ok {
			return digest.ID{}, refusal.Newf(refusal.AlreadyExists, "class %s: case %s: %s was accepted at %s", d.Class, c.CaseID, signed, at.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	return signed, nil
}

// moveDraft makes a draft a case. A crash after it leaves a case that is in no
// manifest, which verifying refuses and accepting again completes.
func moveDraft(p *dossier.Corpus, class, id string) error {
	to := p.ClassDir(class, bench.CasesDir, id)
	if err := store.MakeDir(store.OS{}, filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if workspace.Exists(to) {
		return refusal.Newf(refusal.AlreadyExists, "%s exists already", to)
	}
	from := p.ClassDir(class, bench.PendingDir, id)
	if err := (store.OS{}).Rename(from, to); err != nil {
		return refusal.Newf(refusal.WriteFailed, "moving %s to %s: %w", from, to, err)
	}
	for _, dir := range []string{from, to} {
		if err := (store.OS{}).SyncDir(filepath.Dir(dir)); err != nil {
			return refusal.Newf(refusal.WriteFailed, "moving %s to %s: %w", from, to, err)
		}
	}
	return nil
}
