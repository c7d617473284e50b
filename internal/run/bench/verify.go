package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// PinsFile is where the pins lie in a workspace.
const PinsFile = "bench/digests.yaml"

// PinnedImage is the name under which the pins hold the image of rubric.py.
const PinnedImage = "cpython"

// staleAfter is how long a case stays fresh after a person last looked at it.
const staleAfter = 90 * 24 * time.Hour

// Options say who is trusted and when. There is no default.
type Options struct {
	// Signers are the people in force. They may be missing only if the class
	// is a scratch class.
	Signers *seal.Signers
	// Now is when the manifest, the pins, and cases without an entry in the
	// ledger are judged.
	Now time.Time

	// AcceptedAt gives the time of the ledger's case.accepted entry for
	// exactly these signed bytes, so that a key that has expired since does
	// not orphan what it signed and nothing can be back-dated. It may be nil.
	AcceptedAt func(class, caseID string, signed digest.ID) (time.Time, bool)
	// SignersThen gives the people in force at that entry; nil means Signers.
	// See [Acceptances], which has both.
	SignersThen func(class, caseID string, signed digest.ID) *seal.Signers

	// Made tells how the ledger says that a cassette was made, "" if it does not
	// know. It may be nil: then an unpinned cassette never counts as recorded.
	Made func(digest.Content) CassetteProvenance

	// Blobs, if set, takes cassettes that are too large to keep in memory.
	Blobs *store.Blobs
}

// A Verified is a class whose every byte was checked against what people
// signed, or a scratch class, which says so. Only [Verify] and [VerifyShipped]
// make one. It holds the bytes themselves: the folder no longer matters.
type Verified struct {
	draft    *Draft
	manifest *Manifest
	digest   digest.ID
	pins     *VerifiedPins
	signers  []seal.Signature
	warnings []Warning
	events   []evidence.IntegrityEvent
	shipped  bool
	made     madeHow
}

// A Warning is something a person should look at that does not refuse a class.
type Warning struct {
	Case   string `json:"case,omitempty"`
	Detail string `json:"detail"`
}

// Verify reads a class of the workspace and verifies it: the digest and both
// signatures of each case, the cassettes, the rubric, the registration and the
// dataset against the manifest, the manifest's signatures, the pins.
//
// The first thing that is not as it should be refuses the whole class. A class
// with trust "scratch" needs no signatures and no digests; those it has must
// be right all the same.
func Verify(root *os.Root, class string, opt Options) (*Verified, error) {
	d, err := load(root, class, opt.Blobs)
	if err != nil {
		return nil, err
	}
	// What lies beside the classes may be a trick, such as a promotion.yaml:
	// every command refuses it, not only the one for all.
	if _, err := Classes(root); err != nil {
		return nil, err
	}
	v := &Verified{draft: d, made: opt.Made}
	if err := v.verify(root, opt); err != nil {
		return nil, fmt.Errorf("class %s: %w", class, err)
	}
	return v, nil
}

func (v *Verified) verify(root *os.Root, opt Options) error {
	d := v.draft
	scratch := d.Registration.Trust == Scratch
	if !scratch && opt.Signers == nil {
		return refusal.Newf(refusal.Failed, "no signers given to verify against")
	}
	if opt.Now.IsZero() {
		return refusal.Newf(refusal.Failed, "no time given to verify at")
	}
	if len(d.Cases) == 0 && d.Dataset == nil {
		return incomplete("there are no cases and no %s", DatasetFile)
	}
	v.event("task_class.registered", "TB-1", evidence.Info, fmt.Sprintf("class %s, trust %s", d.Class, d.Registration.Trust),
		map[string]any{"class": d.Class, "trust": d.Registration.Trust, "registration_digest": digest.ContentOf(d.registration)})

	// Content first, then who signed it: a changed file is reported as a
	// changed file and not as a bad signature.
	computed, digests, err := d.Compute()
	if err != nil {
		return err
	}
	if err := v.checkDigests(digests, scratch); err != nil {
		return err
	}
	for _, c := range d.Cases {
		if err := v.verifyCase(c, opt, scratch); err != nil {
			return fmt.Errorf("case %s: %w", c.CaseID, err)
		}
	}
	if err := v.checkManifest(computed, scratch); err != nil {
		return err
	}
	message, err := computed.Message()
	if err != nil {
		return err
	}
	for _, target := range slices.Sorted(keysOf(computed.DatasetCassettes)) {
		pin := computed.DatasetCassettes[target]
		v.event("case.verified", "TB-8", evidence.Info, fmt.Sprintf("cassettes of lines for target %s are %s", target, pin),
			map[string]any{"class": d.Class, "target": target, "dataset_cassettes": pin})
	}
	v.manifest, v.digest = computed, digest.IDOf(message)
	if v.shipped {
		return nil
	}
	if scratch {
		v.warn("", "the class is a scratch class: it is not signed and never counts for promotion")
		if err := v.checkNeverSigned(root); err != nil {
			return err
		}
		return d.checkSignedJSON()
	}
	if err := d.checkSignedJSON(); err != nil {
		return err
	}
	if v.signers, err = verifyTwo(d.Signatures, message, opt); err != nil {
		return fmt.Errorf("%s: %w", ManifestFile, err)
	}
	return v.checkPins(root, opt)
}

// benchRule is what manifests and pins need.
var benchRule = seal.Rule{People: 2, Roles: []seal.Role{seal.Security}}

func verifyTwo(sigs [][]byte, message []byte, opt Options) ([]seal.Signature, error) {
	return opt.Signers.VerifyQuorum(sigs, message, seal.NamespaceBench, opt.Now, benchRule)
}

// checkDigests compares cases/digests.yaml with the folders.
func (v *Verified) checkDigests(computed *CaseDigests, scratch bool) error {
	pinned := v.draft.Digests
	if pinned == nil {
		if scratch || len(v.draft.Cases) == 0 {
			return nil
		}
		return incomplete("there is no %s", DigestsFile)
	}
	for _, id := range slices.Sorted(keysOf(computed.Cases)) {
		want, ok := pinned.Cases[id]
		if !ok {
			return refusal.Newf(refusal.BenchCaseDigestMismatch, "case %s: the files are %s, %s does not list the case", id, computed.Cases[id], DigestsFile).WithHint(caseHint)
		}
		if got := computed.Cases[id]; got != want {
			return caseMismatch(id, got, want, DigestsFile)
		}
	}
	for _, id := range slices.Sorted(keysOf(pinned.Cases)) {
		if _, ok := computed.Cases[id]; !ok {
			return refusal.Newf(refusal.BenchCaseDigestMismatch, "case %s: %s pins %s, there is no such folder", id, DigestsFile, pinned.Cases[id]).WithHint(caseHint)
		}
	}
	return nil
}

const caseHint = `if the change is meant, run "tally bench digest" and have two people sign again; if not, restore the files`

func caseMismatch(id string, got, want digest.Content, where string) error {
	return refusal.Newf(refusal.BenchCaseDigestMismatch, "case %s: the files are %s, %s says %s", id, got, where, want).WithHint(caseHint)
}

// verifyCase checks one case: its own pin, its cassette, its two signatures.
func (v *Verified) verifyCase(c *CaseFolder, opt Options, scratch bool) error {
	switch {
	case c.CaseDigest != nil && *c.CaseDigest != c.Digest:
		return refusal.Newf(refusal.BenchCaseDigestMismatch, "the files are %s, case.yaml field case_digest says %s", c.Digest, *c.CaseDigest).WithHint(caseHint)
	case c.CaseDigest == nil && !scratch:
		return refusal.Newf(refusal.BenchCaseDigestMismatch, "the files are %s, case.yaml has no case_digest", c.Digest).WithHint(caseHint)
	}
	if err := c.checkCassette(scratch); err != nil {
		return err
	}
	if !scratch {
		if err := c.VerifySignatures(opt); err != nil {
			return err
		}
	}
	if !v.shipped {
		v.caseWarnings(c, opt.Now)
	}
	v.event("case.verified", "TB-1", evidence.Info, fmt.Sprintf("case %s is %s", c.CaseID, c.Digest),
		map[string]any{"class": c.class, "case_id": c.CaseID, "case_digest": c.Digest})
	if c.CassetteDigest != nil {
		v.event("case.verified", "TB-8", evidence.Info, fmt.Sprintf("cassette of case %s is %s", c.CaseID, c.CassetteDigest),
			map[string]any{"class": c.class, "case_id": c.CaseID, "cassette_digest": c.CassetteDigest})
	}
	for _, target := range slices.Sorted(keysOf(c.Cassettes)) {
		pin := c.Cassettes[target].Digest
		v.event("case.verified", "TB-8", evidence.Info, fmt.Sprintf("cassette of case %s for target %s is %s", c.CaseID, target, pin),
			map[string]any{"class": c.class, "case_id": c.CaseID, "target": target, "cassette_digest": pin})
	}
	return nil
}

func (c *CaseFolder) checkCassette(scratch bool) error {
	name := CassetteFile(c.class, "", c.CaseID)
	switch {
	case c.CassetteDigest == nil && c.Cassette != nil && !scratch:
		return refusal.Newf(refusal.CassetteDigestMismatch, "%s is %s, case.yaml pins no cassette_digest", name, c.Cassette.Digest).WithHint(tapeHint)
	case c.CassetteDigest != nil && c.Cassette == nil && !c.hasPinned():
		return refusal.Newf(refusal.CassetteDigestMismatch, "case.yaml field cassette_digest says %s, there is no %s", c.CassetteDigest, name).WithHint(tapeHint)
	case c.CassetteDigest != nil && c.Cassette != nil && *c.CassetteDigest != c.Cassette.Digest:
		return refusal.Newf(refusal.CassetteDigestMismatch, "%s is %s, case.yaml field cassette_digest says %s", name, c.Cassette.Digest, c.CassetteDigest).WithHint(tapeHint)
	}
	return c.checkTargets(scratch)
}

// VerifySignatures verifies the two signatures of a case: by the people it
// names, two distinct people with distinct keys, the one who added it a
// curator, the one who reviewed it a curator or with the security role.
func (c *CaseFolder) VerifySignatures(opt Options) error {
	added, reviewed := c.Provenance.AddedBy, c.Provenance.ReviewedBy
	if added == nil || reviewed == nil {
		return refusal.Newf(refusal.TwoPersonRule, "case.yaml names %s, expected added_by and reviewed_by", namedOnly(added, reviewed)).
			WithHint("name both people in case.yaml before the first of them signs")
	}
	if strings.EqualFold(added.Identity, reviewed.Identity) {
		return refusal.Newf(refusal.TwoPersonRule, "added_by and reviewed_by are both %s, needs two people", added.Identity)
	}
	message, err := c.Message()
	if err != nil {
		return err
	}
	signers, at := c.judgedBy(opt, digest.IDOf(message))
	if signers == nil {
		return refusal.Newf(refusal.Failed, "no signers given to verify against")
	}
	if err := verifyPerson("added_by", added, message, signers, at, seal.Curator); err != nil {
		return err
	}
	if err := verifyPerson("reviewed_by", reviewed, message, signers, at, seal.Curator, seal.Security); err != nil {
		return err
	}
	// Names differ by now; this refuses one key under two names.
	_, err = signers.VerifyQuorum([][]byte{[]byte(added.Signature), []byte(reviewed.Signature)}, message, seal.NamespaceCase, at, seal.Rule{People: 2})
	return err
}

// VerifyForAcceptance verifies what must hold before a case or draft goes into
// the ledger: its digests and both signatures, now.
func (c *CaseFolder) VerifyForAcceptance(opt Options) error {
	if c.CaseDigest == nil || *c.CaseDigest != c.Digest {
		return refusal.Newf(refusal.BenchCaseDigestMismatch, "the files are %s, case.yaml field case_digest says %s", c.Digest, optional(c.CaseDigest)).WithHint(caseHint)
	}
	if !c.Pending {
		if err := c.checkCassette(false); err != nil {
			return err
		}
	}
	opt.AcceptedAt = nil
	return c.VerifySignatures(opt)
}

func namedOnly(added, reviewed *Person) string {
	switch {
	case added != nil:
		return "only added_by"
	case reviewed != nil:
		return "only reviewed_by"
	}
	return "no person"
}

// judgedBy says by whom and when the case's signatures are judged: at the
// ledger's entry for exactly these bytes if there is one.
func (c *CaseFolder) judgedBy(opt Options, signed digest.ID) (*seal.Signers, time.Time) {
	signers, at := opt.Signers, opt.Now
	if opt.AcceptedAt == nil {
		return signers, at
	}
	then, ok := opt.AcceptedAt(c.class, c.CaseID, signed)
	if !ok {
		return signers, at
	}
	if opt.SignersThen != nil {
		if s := opt.SignersThen(c.class, c.CaseID, signed); s != nil {
			signers = s
		}
	}
	return signers, then
}

func verifyPerson(field string, p *Person, message []byte, signers *seal.Signers, at time.Time, roles ...seal.Role) error {
	if p.Signature == "" {
		return refusal.Newf(refusal.TwoPersonRule, "%s %s has not signed", field, p.Identity).
			WithHint(`they sign with "tally bench sign CLASS CASE --key THEIR-SSH-KEY"`)
	}
	sig, err := signers.Verify([]byte(p.Signature), message, seal.NamespaceCase, at)
	if err != nil {
		return fmt.Errorf("%s %s: %w", field, p.Identity, err)
	}
	if sig.Principal() != p.Identity {
		return refusal.Newf(refusal.SignatureInvalid, "%s is %s, the signature there is by %s", field, p.Identity, sig.Principal())
	}
	if !slices.ContainsFunc(roles, sig.Holds) {
		return refusal.Newf(refusal.RoleMissing, "%s %s holds %s, needs %s", field, p.Identity, rolesText(sig.Roles(), "and", "no role"), rolesText(roles, "or", ""))
	}
	return nil
}

func rolesText(roles []seal.Role, join, none string) string {
	if len(roles) == 0 {
		return none
	}
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return "the role " + strings.Join(words, " "+join+" ")
}

// caseWarnings notes what a person should look at.
func (v *Verified) caseWarnings(c *CaseFolder, now time.Time) {
	last := c.Provenance.LastValidatedAt.Go()
	switch age := now.Sub(last); {
	case age > staleAfter:
		v.warn(c.CaseID, fmt.Sprintf("last validated %s, %d days ago; more than 90 days is stale", c.Provenance.LastValidatedAt, int(age.Hours()/24)))
	case age < -24*time.Hour:
		v.warn(c.CaseID, fmt.Sprintf("last_validated_at is %s, which is in the future", c.Provenance.LastValidatedAt))
	}
	if w := c.IncidentWarning(); w != "" {
		v.warn(c.CaseID, w)
	}
}

// IncidentWarning says that a case made from an incident claims success, which
// is how a poisoned incident would raise a score; "" if it does not.
func (c *Case) IncidentWarning() string {
	if c.Provenance.Source == Curated || c.Disposition != Positive {
		return ""
	}
	return fmt.Sprintf("made from an incident (%s) and its disposition is positive: an incident is something that went wrong, so make sure that this is meant", c.Provenance.SourceRef.Value)
}

// checkManifest compares manifest.yaml with what is there; the refusal says
// what changed.
func (v *Verified) checkManifest(computed *Manifest, scratch bool) error {
	pinned := v.draft.Manifest
	if pinned == nil {
		if scratch {
			return nil
		}
		return incomplete("there is no %s", ManifestFile)
	}
	a, err := computed.Message()
	if err != nil {
		return err
	}
	b, err := pinned.Message()
	if err != nil {
		return err
	}
	if bytes.Equal(a, b) {
		return nil
	}
	// They differ; say where.
	const hint = `if the change is meant, run "tally bench digest" and have two people sign the manifest again; if not, restore the file`
	if got, want := optional(computed.Rubric), optional(pinned.Rubric); got != want {
		return refusal.Newf(refusal.RubricDigestMismatch, "%s with its helpers is %s, %s says %s", cmp.Or(v.draft.Rubric.Main, "the rubric"), got, ManifestFile, want).WithHint(hint)
	}
	if got, want := optional(computed.Judges), optional(pinned.Judges); got != want {
		return refusal.Newf(refusal.JudgeDigestMismatch, "the templates in %s/ are %s, %s says %s", JudgesDir, got, ManifestFile, want).WithHint(hint)
	}
	if computed.Registration != pinned.Registration {
		return refusal.Newf(refusal.RegistrationDigestMismatch, "%s is %s, %s says %s", RegistrationFile, computed.Registration, ManifestFile, pinned.Registration).WithHint(hint)
	}
	if got, want := optional(computed.Dataset), optional(pinned.Dataset); got != want {
		return refusal.Newf(refusal.DatasetDigestMismatch, "%s is %s, %s says %s", DatasetFile, got, ManifestFile, want).WithHint(hint)
	}
	if err := checkLineTapes(computed, pinned); err != nil {
		return err
	}
	for _, id := range slices.Sorted(keysOf(computed.Cases)) {
		got := computed.Cases[id]
		want, ok := pinned.Cases[id]
		switch {
		case !ok:
			return refusal.Newf(refusal.ManifestMismatch, "case %s: %s does not list it", id, ManifestFile).WithHint(hint)
		case got.Signed != want.Signed:
			return refusal.Newf(refusal.ManifestMismatch, "case %s: what its people signed is %s, %s says %s", id, got.Signed, ManifestFile, want.Signed).WithHint(hint)
		case optional(got.Cassette) != optional(want.Cassette):
			return refusal.Newf(refusal.CassetteDigestMismatch, "case %s: its cassette is %s, %s says %s", id, optional(got.Cassette), ManifestFile, optional(want.Cassette)).WithHint(hint)
		}
	}
	for _, id := range slices.Sorted(keysOf(pinned.Cases)) {
		if _, ok := computed.Cases[id]; !ok {
			return refusal.Newf(refusal.ManifestMismatch, "case %s: %s lists it, there is no such folder", id, ManifestFile).WithHint(hint)
		}
	}
	return refusal.Newf(refusal.ManifestMismatch, "%s is not the manifest of what is there", ManifestFile).WithHint(hint)
}

func optional(d *digest.Content) string {
	if d == nil {
		return "absent"
	}
	return d.String()
}

// checkPins verifies bench/digests.yaml, which a signed class must be listed
// in, and which must pin the image if the rubric needs one.
func (v *Verified) checkPins(root *os.Root, opt Options) error {
	pins, err := VerifyPins(root, opt)
	if err != nil {
		return err
	}
	if err := v.checkPinned(pins.pins); err != nil {
		return err
	}
	v.pins = pins
	return nil
}

func (v *Verified) checkPinned(pins Pins) error {
	if !slices.Contains(pins.Classes, v.draft.Class) {
		return refusal.Newf(refusal.PinMismatch, "%s lists %s, not this class", PinsFile, strings.Join(pins.Classes, ", ")).
			WithHint(`"tally bench digest" adds it; two people sign the file again`)
	}
	if _, ok := pins.Images[PinnedImage]; !ok && v.draft.Rubric.Main == "rubric.py" {
		return refusal.Newf(refusal.PinMismatch, "the rubric is Python and %s pins no image called %s", PinsFile, PinnedImage).
			WithHint(`"tally bench digest --image DIGEST" pins one; two people sign the file again`)
	}
	return nil
}

// checkNeverSigned refuses a scratch class that the pins list: a class does not
// shed its signatures by an edit of its own registration.
func (v *Verified) checkNeverSigned(root *os.Root) error {
	pins, _, err := LoadPins(root)
	if err != nil {
		return err
	}
	if pins != nil && slices.Contains(pins.Classes, v.draft.Class) {
		return refusal.Newf(refusal.PinMismatch, "%s lists it as signed, its registration says trust scratch", PinsFile).
			WithHint("a class does not stop being signed without two people changing the pins")
	}
	return nil
}

// VerifiedPins are the pins of a workspace whose signatures were verified.
// Only [VerifyPins] makes them.
type VerifiedPins struct {
	pins   Pins
	digest digest.ID
}

// Pins returns what is pinned.
func (p *VerifiedPins) Pins() Pins { return p.pins }

// Digest returns the SHA-256 of what was signed.
func (p *VerifiedPins) Digest() digest.ID { return p.digest }

// VerifyPins reads and verifies bench/digests.yaml.
func VerifyPins(root *os.Root, opt Options) (*VerifiedPins, error) {
	pins, sigs, err := LoadPins(root)
	if err != nil {
		return nil, err
	}
	if pins == nil {
		return nil, incomplete("there is no %s", PinsFile).
			WithHint(`restore the file; if there never was one, "tally bench digest CLASS" writes it and two people sign it`)
	}
	if opt.Signers == nil {
		return nil, refusal.Newf(refusal.Failed, "%s: no signers given to verify against", PinsFile)
	}
	if err := checkSignedPins(root, pins); err != nil {
		return nil, err
	}
	message, err := pins.Message()
	if err != nil {
		return nil, err
	}
	if _, err := verifyTwo(sigs, message, opt); err != nil {
		return nil, fmt.Errorf("%s: %w", PinsFile, err)
	}
	return &VerifiedPins{*pins, digest.IDOf(message)}, nil
}

// LoadPins reads bench/digests.yaml and the signatures beside it, without
// verifying them. It is not an error if there are none.
func LoadPins(root *os.Root) (*Pins, [][]byte, error) {
	data, err := readPlain(root, PinsFile, maxYAMLBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	pins := &Pins{}
	if _, err := decode(PinsFile, data, pins); err != nil {
		return nil, nil, err
	}
	files, err := pinSignatures(root)
	if err != nil {
		return nil, nil, err
	}
	sigs, err := signaturesIn(files, path.Base(PinsFile))
	return pins, sigs, err
}

func pinSignatures(root *os.Root) (map[string][]byte, error) {
	dir, err := root.Open(Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking for the signatures of %s: %w", PinsFile, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "looking for the signatures of %s: %w", PinsFile, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if !isSignatureOf(path.Base(PinsFile), name) {
			continue
		}
		if files[name], err = readPlain(root, path.Join(Dir, name), maxYAMLBytes); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (v *Verified) warn(caseID, detail string) {
	v.warnings = append(v.warnings, Warning{caseID, detail})
}

func (v *Verified) event(name, boundary string, severity evidence.Severity, detail string, data map[string]any) {
	raw, err := canon.Marshal(data)
	if err != nil {
		panic("bench: an event of our own values does not encode: " + err.Error())
	}
	v.events = append(v.events, evidence.IntegrityEvent{Name: name, Severity: severity, Boundary: boundary, Detail: detail, Data: raw})
}
