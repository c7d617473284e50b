package submission

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// The witness manifest of Ruflo, member by member in its order.
type witnessManifest struct {
	Schema    string         `json:"schema"`
	IssuedAt  string         `json:"issuedAt"`
	GitCommit string         `json:"gitCommit"`
	Branch    string         `json:"branch"`
	Releases  struct{}       `json:"releases"`
	Summary   witnessSummary `json:"summary"`
	Fixes     []witnessFix   `json:"fixes"`
}

type witnessSummary struct {
	Total    int `json:"totalFixes"`
	Verified int `json:"verified"`
	Missing  int `json:"missing"`
}

type witnessFix struct {
	ID             string `json:"id"`
	Desc           string `json:"desc"`
	File           string `json:"file"`
	SHA256         string `json:"sha256"`
	Marker         string `json:"marker"`
	MarkerVerified bool   `json:"markerVerified"`
}

type witnessIntegrity struct {
	HashAlgo       string `json:"manifestHashAlgo"`
	Hash           string `json:"manifestHash"`
	SignatureAlgo  string `json:"signatureAlgo"`
	PublicKey      string `json:"publicKey"`
	Signature      string `json:"signature"`
	SeedDerivation string `json:"seedDerivation"`
}

const (
	witnessSchema = "ruflo-witness/v1"
	cleanMarker   = `"clean": true`
)

// compat is the original's manifest, for tools that look for it. Its key is made
// of the commit, which is public, so it proves nothing; here the first 40
// digits of the head of the plan stand for the commit.
func (b *builder) compat(p *Package) ([]byte, error) {
	report := sha256.Sum256(p.Audit.Report)
	commit := hex.EncodeToString(b.Registered.Plan.BenchDigest[:20])
	m := witnessManifest{Schema: witnessSchema, IssuedAt: b.FinishedAt.String(), GitCommit: commit, Branch: "compatibility only: the key follows from public data", Summary: witnessSummary{Total: 1},
		Fixes: []witnessFix{{ID: "gaia-exploit-audit", Desc: "GAIA pre-submission exploit audit clean", File: AuditFile, SHA256: hex.EncodeToString(report[:]),
			Marker: cleanMarker, MarkerVerified: bytes.Contains(p.Audit.Report, []byte(cleanMarker))}}}
	if m.Fixes[0].MarkerVerified {
		m.Summary.Verified = 1
	} else {
		m.Summary.Missing = 1
	}
	return signWitness(&m)
}

// signWitness signs as Ruflo does: over the 32 bytes of the manifest's SHA-256.
func signWitness(m *witnessManifest) ([]byte, error) {
	data, err := asJavaScript(m)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(data)
	seed := sha256.Sum256([]byte(m.GitCommit + ":" + witnessSchema))
	key := ed25519.NewKeyFromSeed(seed[:])
	whole, err := asJavaScript(struct {
		Manifest  *witnessManifest `json:"manifest"`
		Integrity witnessIntegrity `json:"integrity"`
	}{m, witnessIntegrity{"sha256", hex.EncodeToString(hash[:]), "ed25519", hex.EncodeToString(key.Public().(ed25519.PublicKey)),
		hex.EncodeToString(ed25519.Sign(key, hash[:])), "sha256(gitCommit + ':" + witnessSchema + "')"}})
	if err != nil {
		return nil, err
	}
	return indent(whole)
}

// asJavaScript is JSON.stringify: members in their order, nothing escaped for HTML.
func asJavaScript(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
