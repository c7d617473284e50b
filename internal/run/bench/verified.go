package bench

import (
	"os"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/sandbox/image"
)

// Class is the name of the class.
func (v *Verified) Class() string { return v.draft.Class }

// Level is "signed" or "scratch". It is printed wherever a result of the class
// is shown.
func (v *Verified) Level() string { return string(v.draft.Registration.Trust) }

// Digest is the bench digest: the SHA-256 of the manifest's canonical JSON.
func (v *Verified) Digest() digest.ID { return v.digest }

// Manifest lists the digests of everything that decides a score.
func (v *Verified) Manifest() Manifest { return *v.manifest }

// Status is [Draft.Status] of the class as it was verified, with what its drafts lack.
func (v *Verified) Status(root *os.Root, opt Options) ([]Missing, error) {
	return v.draft.Status(root, opt)
}

// PendingIDs are those of its drafts, which no run scores.
func (v *Verified) PendingIDs() []string { return v.draft.PendingIDs() }

// Registration is what the signers agreed on.
func (v *Verified) Registration() Registration { return v.draft.Registration }

// RegistrationDigest is the BLAKE3 of the registration's canonical JSON.
func (v *Verified) RegistrationDigest() digest.Content { return digest.ContentOf(v.draft.registration) }

// ScoringDigest names what decides a score: the BLAKE3 of the canonical JSON of the
// manifest and of the registration, but for what the registration says about how
// good a score must be and whose counts. Two benches that have it in common give the
// same scores to the same agent.
func (v *Verified) ScoringDigest() (digest.Content, error) {
	m := *v.manifest
	m.Registration, m.Documents = digest.Content{}, nil
	var registration map[string]canon.RawMessage
	if err := canon.Unmarshal(v.draft.registration, &registration); err != nil {
		return digest.Content{}, err
	}
	for _, name := range notScoring {
		delete(registration, name)
	}
	data, err := canon.Marshal(struct {
		Manifest     *Manifest                   `json:"manifest"`
		Registration map[string]canon.RawMessage `json:"registration"`
	}{&m, registration})
	return digest.ContentOf(data), err
}

// notScoring are the members of a registration that decide no score: how good one
// must be, and whose counts. A member that is not here is taken to decide one.
var notScoring = []string{"title", "trust", "current_tier", "thresholds", "minimum_cases", "gates", "origins", "runner_keys", "promotion_window_days", "judged_scores_count", "data_set"}

// Rubric is the program that scores.
func (v *Verified) Rubric() Rubric { return v.draft.Rubric }

// Judges are the templates that models are asked with.
func (v *Verified) Judges() Judges { return v.draft.Judges }

// Dataset is the light form of cases, nil if the class has none.
func (v *Verified) Dataset() *Dataset { return v.draft.Dataset }

// Image is the pinned digest of the image that a Python rubric runs in.
func (v *Verified) Image() (digest.Content, bool) {
	if v.pins == nil {
		return digest.Content{}, false
	}
	image, ok := v.pins.pins.Images[PinnedImage]
	return image, ok
}

// ImageIsBuilt reports whether the pinned image is what the recipe in this program
// gives, whatever the pins say.
func (v *Verified) ImageIsBuilt() bool {
	pinned, ok := v.Image()
	return ok && image.IsBuilt(pinned.String())
}

// ImageKind is how the pinned image was made, "" if the pins do not say.
func (v *Verified) ImageKind() string {
	if v.pins == nil {
		return ""
	}
	return v.pins.pins.ImageKinds[PinnedImage]
}

// Standing is the level in words: whether people vouch for the class, and whether they
// are people.
func (v *Verified) Standing() string {
	if slices.ContainsFunc(v.Signers(), seal.IsExample) {
		return v.Level() + " by example signers"
	}
	return v.Level()
}

// Signers names the people who signed the manifest; none for a scratch class.
func (v *Verified) Signers() []string {
	var names []string
	for _, s := range v.signers {
		names = append(names, s.Principal())
	}
	return names
}

// Cases lists the cases in the order of their ids. The files and the cassette
// of each are bytes that were verified.
func (v *Verified) Cases() []VerifiedCase {
	cases := make([]VerifiedCase, len(v.draft.Cases))
	for i, c := range v.draft.Cases {
		cases[i] = VerifiedCase{c, v.manifest.Cases[c.CaseID].Signed, v.made}
	}
	return cases
}

// A VerifiedCase is a case of a [Verified].
type VerifiedCase struct {
	draft  *CaseFolder
	signed digest.ID
	made   madeHow
}

// Case is what case.yaml says.
func (c VerifiedCase) Case() Case { return c.draft.Case }

// Digest is that of the case's files.
func (c VerifiedCase) Digest() digest.Content { return c.draft.Digest }

// Signed is the SHA-256 of what the case's two signatures cover.
func (c VerifiedCase) Signed() digest.ID { return c.signed }

// Files are everything in the case's folder but case.yaml: input/ and
// expected/.
func (c VerifiedCase) Files() []digest.File { return slices.Clone(c.draft.Files) }

// Warnings lists what a person should look at.
func (v *Verified) Warnings() []Warning { return slices.Clone(v.warnings) }

// Events lists the trust boundaries that were crossed while verifying, for the
// harness to record.
func (v *Verified) Events() []evidence.IntegrityEvent { return slices.Clone(v.events) }
