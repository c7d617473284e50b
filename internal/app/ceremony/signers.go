package ceremony

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// Signers is the version of the signers in force, and the file beside it, which
// may propose the next one.
type Signers struct {
	*dossier.Place
	InForce *seal.Signers
	data    []byte // nil if the file is missing
}

// A FileState says what signers/allowed_signers is beside the version in force.
type FileState string

// The states of the file.
const (
	FileInForce  FileState = "in-force"
	FileProposed FileState = "proposed"
	FileDiffers  FileState = "differs"
	FileMissing  FileState = "missing"
)

// ReadSigners verifies the ledger and reads the file beside it.
func ReadSigners(p *dossier.Place) (*Signers, error) {
	v, err := p.Verify(nil)
	if err != nil {
		return nil, err
	}
	data, err := store.ReadFile(store.OS{}, p.SignersFile(), dossier.MaxSignedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &Signers{p, v.Signers, data}, nil
}

// State says what the file is.
func (s *Signers) State() FileState { return StateOf(s.InForce, s.data) }

// StateOf says what a signers file is beside the version in force; nil stands
// for no file.
func StateOf(inForce *seal.Signers, data []byte) FileState {
	if data == nil {
		return FileMissing
	}
	if digest.IDOf(data) == inForce.Digest() {
		return FileInForce
	}
	if _, err := seal.ParseNext(inForce, data); err == nil {
		return FileProposed
	}
	return FileDiffers
}

// Next prepares the next version of the file for editing, and returns its
// number.
func (s *Signers) Next() (int, error) {
	if state := s.State(); state != FileInForce && state != FileMissing {
		return 0, refusal.Newf(refusal.AlreadyExists, "%s is not the version in force; it is not overwritten", s.SignersFile()).
			WithHint(`"tally signers show" tells what it is`)
	}
	// The signatures of the version in force are in the ledger. Left here they
	// would count as wrong ones of the next.
	stale, err := dossier.SignatureFiles(s.SignersFile())
	if err != nil {
		return 0, err
	}
	for _, name := range stale {
		if err := store.RemoveTree(name); err != nil {
			return 0, err
		}
	}
	return s.InForce.Version() + 1, store.WriteFile(store.OS{}, s.SignersFile(), s.InForce.Next(), 0o644)
}

// AddOpenPGP adds a person's OpenPGP key, as "gpg --export" writes it, to the
// proposed file, and begins that if there is none. It returns the number of the
// version and the fingerprint.
func (s *Signers) AddOpenPGP(principal string, roles []seal.Role, export []byte) (version int, fingerprint string, err error) {
	entry, err := seal.NewOpenPGPEntry(principal, roles, export, s.Now())
	if err != nil {
		return 0, "", err
	}
	return s.add(entry)
}

// AddSSH is AddOpenPGP for an SSH key, as a .pub file has it. A worker may sign results
// and nothing else.
func (s *Signers) AddSSH(principal string, roles []seal.Role, line []byte) (version int, fingerprint string, err error) {
	key, err := seal.ParsePublicKey(line)
	if err != nil {
		return 0, "", err
	}
	entry := seal.Entry{Principals: principal, Key: key, Roles: roles}
	if slices.Contains(roles, seal.Worker) {
		entry.Namespaces = string(seal.NamespaceResult)
	}
	return s.add(entry)
}

// add adds a line to the proposed file, and begins that if there is none.
func (s *Signers) add(entry seal.Entry) (version int, fingerprint string, err error) {
	data := s.data
	if state := s.State(); state == FileInForce || state == FileMissing {
		data = s.InForce.Next()
	}
	proposed, err := seal.ParseNext(s.InForce, data)
	if err != nil {
		return 0, "", err
	}
	if data, err = proposed.With(entry); err != nil {
		return 0, "", err
	}
	// Signatures of the version before, or over the file without the line.
	if err := removeSignatures(s.SignersFile(), false); err != nil {
		return 0, "", err
	}
	return proposed.Version(), entry.Key.Fingerprint(), store.WriteFile(store.OS{}, s.SignersFile(), data, 0o644)
}

// Sign signs the proposed file for one person. It returns what is still
// missing, nil if nothing is.
func (s *Signers) Sign(pen Pen) (missing, err error) {
	h, err := pen.ready(s.InForce)
	if err != nil {
		return nil, err
	}
	if err := s.refuseInForce(); err != nil {
		return nil, err
	}
	err = addSignature(s.SignersFile(), h, "tally signers apply", seal.NamespaceSigners, func(signature, message []byte) error {
		if _, err := seal.ParseNext(s.InForce, message); err != nil {
			return err
		}
		_, err := s.InForce.Verify(signature, message, seal.NamespaceSigners, s.Now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nothing was signed: %w", err)
	}
	_, missing = s.proposed()
	return missing, nil
}

// refuseInForce refuses a file that proposes nothing.
func (s *Signers) refuseInForce() error {
	if s.State() != FileInForce {
		return nil
	}
	return refusal.Newf(refusal.Usage, "%s is version %d, which is in force already", s.SignersFile(), s.InForce.Version()).
		WithHint(`"tally signers next" prepares the next version`)
}

// proposed verifies that the file follows from the version in force.
func (s *Signers) proposed() (*evidence.SignersChanged, error) {
	data, err := store.ReadFile(store.OS{}, s.SignersFile(), dossier.MaxSignedFile)
	if err != nil {
		return nil, err
	}
	if err := s.refuseInForce(); err != nil {
		return nil, err
	}
	sigs, err := dossier.SignaturesOf(s.SignersFile())
	if err != nil {
		return nil, err
	}
	next, err := seal.Extend(s.InForce, data, sigs, s.Now())
	if err != nil {
		return nil, err
	}
	if err := checkSuccession(next, s.Now()); err != nil {
		return nil, err
	}
	change := &evidence.SignersChanged{Version: next.Version(), Signers: string(data)}
	for _, sig := range sigs {
		change.Signatures = append(change.Signatures, string(sig))
	}
	return change, nil
}

// checkSuccession refuses a version that its people could not change now. What
// it names may be right, and namespaces or dates take it back.
func checkSuccession(s *seal.Signers, now time.Time) error {
	if s.HasAuthority() {
		return nil
	}
	who := s.Candidates(seal.NamespaceSigners, now, "")
	if len(who) < 2 {
		return refusal.Newf(refusal.SignersChainBroken, "version %d of the signers can be changed by %d of its people now, needs 2: %s", s.Version(), len(who), strings.Join(who, ", ")).
			WithHint("let two people sign tallystick-signers at this time who are curators or hold the security role")
	}
	if len(s.Candidates(seal.NamespaceSigners, now, seal.Security)) == 0 {
		return refusal.Newf(refusal.SignersChainBroken, "in version %d of the signers no person who can sign now has the security role, and one is needed to change it", s.Version()).
			WithHint("give one of the people roles=security")
	}
	return nil
}

// Apply records the signed next version in the ledger. From that entry on it is
// in force.
func (s *Signers) Apply(ctx context.Context) (version int, pos ledger.Position, err error) {
	change, err := s.proposed()
	if err == nil {
		err = needsOwnLedger(s.Place, "a change of signers")
	}
	if err != nil {
		return 0, ledger.Position{}, err
	}
	pos, err = s.Append(ctx, evidence.SignersChangedKind, change)
	return change.Version, pos, err
}

// keepHistory writes the versions that the ledger has to signers/history, if
// there is more than one, so that a checkout without the ledger can follow
// them too.
func keepHistory(c *dossier.Corpus) error {
	if len(c.Versions) < 2 {
		return nil
	}
	for i, v := range c.Versions {
		file := c.HistoryFile(i + 1)
		if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := WriteIfMissing(file, []byte(v.Signers), 0o644); err != nil {
			return err
		}
		if v.Signatures == "" {
			continue
		}
		if err := WriteIfMissing(file+".sig", []byte(v.Signatures), 0o644); err != nil {
			return err
		}
	}
	return nil
}
