package submission

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Verified is a package every file of which follows from its receipts. Only
// [Verify] makes one.
type Verified struct {
	Manifest
	Class      string
	Target     string
	Checkpoint *ledger.Checkpoint
}

// Verify verifies the files of a package, which are all that its folder has, by
// path. The policy says whose ledger is trusted; the manifest must be signed by
// the key of one of its logs.
func Verify(files map[string][]byte, policy ledger.Policy) (*Verified, error) {
	m, err := parseManifest(files[ManifestFile])
	if err != nil {
		return nil, err
	}
	if err := checkSignature(files, policy); err != nil {
		return nil, err
	}
	if err := m.checkFiles(files); err != nil {
		return nil, err
	}
	x := &proofs{files: files, policy: policy, used: map[string]bool{}, proved: map[int64]*ledger.Proved{}, class: map[int64]bool{}}
	a, err := x.attempt()
	if err != nil {
		return nil, err
	}
	// What the maker said of the level is his word; that the ledger's key signed
	// the registration of a bench that people signed is not.
	a.Level = m.Attempt.Level
	if err := checkRegistration(a, policy); err != nil {
		return nil, err
	}
	a.Registration, a.Target, a.Read = files[RegistrationFile], files[TargetFile], readFrom(files)
	if err := checkAuditRules(files[AuditFile]); err != nil {
		return nil, err
	}
	if d := a.Registered.Plan.Sources; d != nil {
		_, there := files[evidenceDir+hex.EncodeToString(d[:])]
		a.WithoutSources = !there
	}
	p, err := Build(a)
	if err != nil {
		return nil, asInvalid(err)
	}
	for path := range x.used {
		p.Files[path] = files[path]
	}
	manifest, err := p.manifest(a)
	if err != nil {
		return nil, err
	}
	p.Files[ManifestFile], p.Files[SignatureFile] = files[ManifestFile], files[SignatureFile]
	if err := same(p.Files, files); err != nil {
		return nil, err
	}
	if !bytes.Equal(manifest, files[ManifestFile]) { // last: the other files say better what was changed
		return nil, bad("%s is not what the receipts and the evidence give: they differ from line %d on", ManifestFile, differsAt(files[ManifestFile], manifest))
	}
	if !p.Decision.Submittable {
		return nil, bad("the attempt cannot be submitted: %s", p.Decision.Reason)
	}
	return &Verified{*m, a.Registered.Class, a.Registered.Target, x.tree}, nil
}

// Text says what the package proves, for a person.
func (v *Verified) Text() string {
	a, h := v.Attempt, v.Headline
	result := fmt.Sprintf("%d tasks, unscored", h.N)
	if h.PassRate != nil {
		result = fmt.Sprintf("pass rate %s, %d of n = %d, 95 %% interval %.4f to %.4f", plain.Score(*h.PassRate, 4), h.Passed, h.N, h.CI95[0], h.CI95[1])
	}
	if h.Corrected != nil {
		result = fmt.Sprintf("as recorded %s; AS CORRECTED %s", result, h.Corrected.Text(h.N))
	}
	audit := "audit clean and complete"
	switch {
	case !v.Audit.Clean:
		audit = "AUDIT NOT CLEAN"
	case !v.Audit.StrictClean && !v.Audit.Complete:
		audit = "audit clean with warnings, not complete"
	case !v.Audit.StrictClean:
		audit = "audit clean with warnings, complete"
	case !v.Audit.Complete:
		audit = "audit clean, not complete"
	}
	return fmt.Sprintf("class %s: %s; %s; attempt %s by target %s, %s; %s; in %s",
		v.Class, result, audit, a.ID, v.Target, a.Text(), a.Level, a.Origin)
}

// checkAuditRules refuses a package that was audited by rules that this program
// does not have: the audit cannot be made again.
func checkAuditRules(report []byte) error {
	var r struct {
		Rules struct {
			Version int `json:"version"`
		} `json:"rules"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return bad("%s: %v", AuditFile, err)
	}
	if v := r.Rules.Version; v != audit.RulesVersion {
		return refusal.Newf(refusal.Malformed, "submission: %s is by version %d of the rules, and this program has version %d", AuditFile, v, audit.RulesVersion).
			WithHint("verify it with the program that made it, or a newer one")
	}
	return nil
}

// checkSignature wants the manifest signed by the key of a trusted log.
func checkSignature(files map[string][]byte, policy ledger.Policy) error {
	key, err := seal.VerifySignature(files[SignatureFile], files[ManifestFile], seal.NamespaceSubmission)
	if err != nil {
		return bad("%s: %v", SignatureFile, err)
	}
	if pub, ok := key.Ed25519(); ok {
		for _, l := range policy.Logs {
			if ed25519.PublicKey(l.Key).Equal(pub) {
				return nil
			}
		}
	}
	return bad("%s is signed by %s, which is not the key of a trusted ledger", ManifestFile, key)
}

// checkFiles compares what is there with what the manifest lists.
func (m *Manifest) checkFiles(files map[string][]byte) error {
	listed := map[string]bool{ManifestFile: true, SignatureFile: true}
	for _, f := range m.Files {
		listed[f.Path] = true
		data, ok := files[f.Path]
		if !ok {
			return bad("%s is missing", f.Path)
		}
		if got := digest.IDOf(data); got != f.SHA256 || len(data) != f.Bytes {
			return bad("%s has %d bytes and %s, the manifest says %d and %s", f.Path, len(data), got, f.Bytes, f.SHA256)
		}
	}
	for _, path := range sortedPaths(files) {
		if !listed[path] {
			return bad("%s is not in the manifest", path)
		}
	}
	return nil
}

// notVerified says which file was not verified. One that is not even well formed is
// a package that does not verify: its maker had whole files.
func notVerified(file string, err error) error {
	if refusal.ExitCode(err) != refusal.ExitUnverified {
		return bad("%s: %v", file, err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// checkRegistration wants the registration signed by the key that seals the
// ledger, as the harness signs it.
func checkRegistration(a *Source, policy ledger.Policy) error {
	message, err := a.Registered.Message()
	if err != nil {
		return err
	}
	key, err := seal.VerifySignature([]byte(a.Registered.Signature), message, seal.NamespaceAttempt)
	if err != nil {
		return bad("the registration: %v", err)
	}
	pub, ok := key.Ed25519()
	for _, l := range policy.Logs {
		if ok && ed25519.PublicKey(l.Key).Equal(pub) {
			return nil
		}
	}
	return bad("the registration is signed by %s, which is not the key of a trusted ledger", key)
}

// readFrom gives pieces that are in the package: in evidence/ by their names, and
// in bodies/, which has other names.
func readFrom(files map[string][]byte) func(digest.Content) ([]byte, error) {
	bodies := map[digest.Content][]byte{}
	for path, data := range files {
		if strings.HasPrefix(path, bodiesDir) {
			bodies[digest.ContentOf(data)] = data
		}
	}
	return func(d digest.Content) ([]byte, error) {
		data, ok := files[evidenceDir+hex.EncodeToString(d[:])]
		if !ok {
			if data, ok = bodies[d]; !ok {
				return nil, bad("the piece %s of the evidence is missing", d)
			}
		}
		if got := digest.ContentOf(data); got != d {
			return nil, bad("evidence/%x is %s", d[:], got)
		}
		return data, nil
	}
}

// same compares the package as it was built again with the one that is there.
func same(made, there map[string][]byte) error {
	for _, path := range sortedPaths(made) {
		data, ok := there[path]
		if !ok {
			return bad("%s is missing", path)
		}
		if !bytes.Equal(data, made[path]) {
			return bad("%s is not what the receipts and the evidence give: they differ from line %d on", path, differsAt(data, made[path]))
		}
	}
	for _, path := range sortedPaths(there) {
		if _, ok := made[path]; !ok {
			return bad("%s does not come from the attempt", path)
		}
	}
	return nil
}

func differsAt(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return 1 + bytes.Count(a[:n], []byte("\n"))
}

// asInvalid makes a package whose content cannot even be read one that does not
// verify: its signer did not make it with this program.
func asInvalid(err error) error {
	if refusal.ExitCode(err) == refusal.ExitUnverified {
		return err
	}
	return bad("%v", err)
}
