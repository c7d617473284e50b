package ceremony

import (
	"fmt"
	"path/filepath"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// SignOptions say what to sign with which key.
type SignOptions struct {
	Class, CaseID       string // without a case: every case, the manifest, the pins
	Pen                        // what to sign with
	Signature           string // file with a signature of the case made by hand
	Message             string // file to write what the case's signatures cover to; then nothing is signed
	AddedBy, ReviewedBy string
	Covers              digest.ID // what the signature of the case must cover; zero for what the files say now
}

// A Signed is what was signed, and what is left.
type Signed struct {
	Signed   []string
	Missing  []bench.Missing
	Pending  bool // the case is a draft
	Warnings []string
	From     *RecordedFrom // who answered in the recordings
}

// Sign signs what waits for the owner of a key.
func Sign(p *dossier.Corpus, o SignOptions) (*Signed, error) {
	d, err := bench.Load(p.Root, o.Class)
	if err != nil {
		return nil, err
	}
	if d.Registration.Trust == bench.Scratch {
		return nil, refusal.Newf(refusal.Usage, "class %s is a scratch class, which is not signed", o.Class).
			WithHint("to have it signed, set trust: signed in registration.yaml")
	}
	answer := &Signed{Signed: []string{}}
	if answer.From, err = showRecordedFrom(p, d); err != nil {
		return nil, fmt.Errorf("class %s: %w", o.Class, err)
	}
	if o.CaseID != "" {
		err = signOneCase(p, d, o, answer)
	} else {
		err = signAll(p, d, o, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("class %s: %w", o.Class, err)
	}
	if o.Message == "" {
		if _, err := writeSignedJSON(p, o.Class); err != nil {
			return nil, err
		}
	}
	return answer, answer.look(p, o)
}

// look reads what the class, or the draft, still lacks.
func (s *Signed) look(p *dossier.Corpus, o SignOptions) error {
	d, err := bench.Load(p.Root, o.Class)
	if err != nil {
		return err
	}
	if o.CaseID != "" {
		c, err := d.Case(o.CaseID)
		if err != nil {
			return err
		}
		if s.Pending = c.Pending; c.Pending {
			s.Missing = c.Status(p.Options)
			return nil
		}
	}
	s.Missing, err = d.Status(p.Root, p.Options)
	return err
}

// signOneCase signs a case or draft, takes a signature made by hand, or writes
// what is to be signed.
func signOneCase(p *dossier.Corpus, d *bench.Draft, o SignOptions, answer *Signed) error {
	c, err := d.Case(o.CaseID)
	if err != nil {
		return err
	}
	if c, err = namePeople(p, d, c, o); err != nil {
		return err
	}
	message, err := c.Message()
	if err != nil {
		return err
	}
	if c.CaseDigest == nil || *c.CaseDigest != c.Digest {
		return refusal.Newf(refusal.BenchCaseDigestMismatch, "case %s: case.yaml does not pin the files as they are, %s", c.CaseID, c.Digest).
			WithHint(`run "tally bench digest %s" first`, o.Class)
	}
	if err := covers(c.CaseID, o.Covers, message); err != nil {
		return err
	}
	if o.Message != "" {
		return store.WriteFile(store.OS{}, o.Message, message, 0o644)
	}
	var armored []byte
	if o.Signature != "" {
		data, err := store.ReadFile(store.OS{}, o.Signature, 1<<20)
		if err != nil {
			return err
		}
		blocks, err := seal.SplitArmored(data)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Signature, err)
		}
		if len(blocks) != 1 {
			return refusal.Newf(refusal.Malformed, "%s holds %d signatures, expected one", o.Signature, len(blocks))
		}
		armored = blocks[0]
	} else {
		h, err := o.ready(p.Options.Signers)
		if err != nil {
			return err
		}
		if armored, err = h.sign(seal.NamespaceCase, message, caseByHand(c)); err != nil {
			return err
		}
	}
	done, err := putSignature(p, c, message, armored)
	if err != nil {
		return err
	}
	if done == "" {
		return refusal.Newf(refusal.RoleMissing, "case %s: its people are %s, the signature is by another person", c.CaseID, namesIn(c)).
			WithHint("name the signer in case.yaml as added_by or reviewed_by before the first person signs")
	}
	answer.Signed = append(answer.Signed, done)
	if w := c.IncidentWarning(); w != "" {
		answer.Warnings = append(answer.Warnings, "case "+c.CaseID+": "+w)
	}
	return nil
}

// covers refuses a message that is not the one that a person was shown.
func covers(id string, want digest.ID, message []byte) error {
	if got := digest.IDOf(message); want != (digest.ID{}) && got != want {
		return refusal.Newf(refusal.DigestMismatch, "case %s: its files and case.yaml come to %s now, and %s was shown", id, got, want).
			WithHint("look at it again: nothing was signed")
	}
	return nil
}

// caseByHand is how a case is signed where gpg is.
func caseByHand(c *bench.CaseFolder) byHand {
	file := c.CaseID + ".sig"
	return byHand{file, fmt.Sprintf("tally bench sign %s %s --signature %s", c.Class(), c.CaseID, file)}
}

// namePeople writes the people given by flags into a case that names no people
// yet. Both must be known before the first signs: the signatures cover the
// names.
func namePeople(p *dossier.Corpus, d *bench.Draft, c *bench.CaseFolder, o SignOptions) (*bench.CaseFolder, error) {
	added, reviewed := c.Provenance.AddedBy, c.Provenance.ReviewedBy
	if o.AddedBy == "" && o.ReviewedBy == "" {
		if added == nil || reviewed == nil {
			return nil, refusal.Newf(refusal.TwoPersonRule, "case %s: case.yaml names %s, expected added_by and reviewed_by", c.CaseID, namesIn(c)).
				WithHint("give --added-by NAME and --reviewed-by NAME: the signatures cover both names")
		}
		return c, nil
	}
	named, reviewer, err := bench.People(o.AddedBy, o.ReviewedBy, p.Options)
	if err != nil {
		return nil, err
	}
	if named != nil && (added == nil || added.Identity != named.Identity) {
		added = named
	}
	if reviewer != nil && (reviewed == nil || reviewed.Identity != reviewer.Identity) {
		reviewed = reviewer
	}
	data, err := c.WithPeople(added, reviewed)
	if err != nil {
		return nil, err
	}
	if err := store.WriteFile(store.OS{}, p.ClassDir(d.Class, caseFile(c)), data, 0o644); err != nil {
		return nil, err
	}
	again, err := bench.Load(p.Root, d.Class)
	if err != nil {
		return nil, err
	}
	return again.Case(c.CaseID)
}

func namesIn(c *bench.CaseFolder) string {
	names := "no people"
	for _, person := range []*bench.Person{c.Provenance.AddedBy, c.Provenance.ReviewedBy} {
		switch {
		case person == nil:
		case names == "no people":
			names = person.Identity
		default:
			names += " and " + person.Identity
		}
	}
	return names
}

// putSignature writes a signature into its signer's place, and says
// what was done, "" if the case does not name them.
func putSignature(p *dossier.Corpus, c *bench.CaseFolder, message, armored []byte) (string, error) {
	sig, err := p.Options.Signers.Verify(armored, message, seal.NamespaceCase, p.Options.Now)
	if err != nil {
		return "", fmt.Errorf("case %s: %w", c.CaseID, err)
	}
	added, reviewed := c.Provenance.AddedBy, c.Provenance.ReviewedBy
	signed := &bench.Person{Identity: sig.Principal(), Signature: string(armored)}
	field := ""
	switch {
	case added != nil && added.Identity == sig.Principal():
		added, field = signed, "added_by"
	case reviewed != nil && reviewed.Identity == sig.Principal():
		reviewed, field = signed, "reviewed_by"
	default:
		return "", nil
	}
	data, err := c.WithPeople(added, reviewed)
	if err != nil {
		return "", fmt.Errorf("case %s: %w", c.CaseID, err)
	}
	if err := store.WriteFile(store.OS{}, p.ClassDir(c.Class(), caseFile(c)), data, 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("case %s as %s %s", c.CaseID, field, sig.Principal()), nil
}

// signAll signs every case that waits for the key's owner, the manifest and
// the pins.
func signAll(p *dossier.Corpus, d *bench.Draft, o SignOptions, answer *Signed) error {
	h, err := o.ready(p.Options.Signers)
	if err != nil {
		return err
	}
	for _, c := range d.Cases {
		if c.Provenance.AddedBy == nil || c.Provenance.ReviewedBy == nil || c.CaseDigest == nil || *c.CaseDigest != c.Digest {
			continue // the list of what is missing says so
		}
		message, err := c.Message()
		if err != nil {
			return err
		}
		if bench.HasSigned(signaturesIn(c), message, seal.NamespaceCase, h.key, p.Options) {
			continue
		}
		armored, err := h.sign(seal.NamespaceCase, message, caseByHand(c))
		if err != nil {
			return err
		}
		done, err := putSignature(p, c, message, armored)
		if err != nil {
			return err
		}
		if done != "" {
			answer.Signed = append(answer.Signed, done)
			if w := c.IncidentWarning(); w != "" {
				answer.Warnings = append(answer.Warnings, "case "+c.CaseID+": "+w)
			}
		}
	}
	return signTogether(p, d, h, answer)
}

// signTogether signs the manifest and the pins, if they are those of what is
// there.
func signTogether(p *dossier.Corpus, d *bench.Draft, h *hand, answer *Signed) error {
	computed, _, err := d.Compute()
	if err != nil {
		return err
	}
	message, err := computed.Message()
	if err != nil {
		return err
	}
	if d.Manifest != nil {
		found, err := d.Manifest.Message()
		if err != nil {
			return err
		}
		if slices.Equal(found, message) {
			if err := signBeside(p, p.ClassDir(d.Class), bench.ManifestFile, h, message, d.Signatures, answer); err != nil {
				return err
			}
		}
	}
	pins, sigs, err := bench.LoadPins(p.Root)
	if err != nil || pins == nil {
		return err
	}
	if message, err = pins.Message(); err != nil {
		return err
	}
	return signBeside(p, p.Dir, bench.PinsFile, h, message, sigs, answer)
}

// signBeside writes FILE.sig with a new signature and those that still cover
// the message; signatures over earlier bytes would refuse the file. Who has
// signed already does not sign twice.
func signBeside(p *dossier.Corpus, dir, name string, h *hand, message []byte, old [][]byte, answer *Signed) error {
	if bench.HasSigned(old, message, seal.NamespaceBench, h.key, p.Options) {
		return nil
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	armored, err := h.sign(seal.NamespaceBench, message, byHand{file + ".NAME.sig", "tally bench verify CLASS"})
	if err != nil {
		return err
	}
	if _, err := p.Options.Signers.Verify(armored, message, seal.NamespaceBench, p.Options.Now); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	kept := bench.KeepSignatures(append(old, armored), message, p.Options)
	// Written before the others are removed: a crash in between leaves some
	// signatures twice, and none lost.
	if err := store.WriteFile(store.OS{}, file+".sig", slices.Concat(kept...), 0o644); err != nil {
		return err
	}
	if err := removeSignatures(file, true); err != nil {
		return err
	}
	answer.Signed = append(answer.Signed, name)
	return nil
}

// signaturesIn lists the signatures that a case carries.
func signaturesIn(c *bench.CaseFolder) [][]byte {
	var sigs [][]byte
	for _, person := range []*bench.Person{c.Provenance.AddedBy, c.Provenance.ReviewedBy} {
		if person != nil && person.Signature != "" {
			sigs = append(sigs, []byte(person.Signature))
		}
	}
	return sigs
}
