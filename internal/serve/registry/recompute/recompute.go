// Package recompute has what every reader can compute again from the public entries of
// a registry: who is drawn to judge, what a judge signs, what ties manifests
// together. It is pure, and imports nothing of the registry, so that a monitor that
// watches one does not rely on its code. docs/formats/registry.md has the rules.
package recompute

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

const drawPrefix = "tallystick-registry-draw-v1\n"

// Draw draws the judges of a content: the first persons in the order of
// HMAC-SHA-256 under SHA-256(prefix ‖ root ‖ content). The order in which the
// eligible persons are given does not matter.
func Draw(root tlog.Hash, content digest.ID, eligible []string, judges int) []string {
	seed := sha256.Sum256(slices.Concat([]byte(drawPrefix), root[:], content[:]))
	type lot struct {
		person string
		value  []byte
	}
	lots := make([]lot, 0, len(eligible))
	for _, p := range eligible {
		mac := hmac.New(sha256.New, seed[:])
		mac.Write([]byte(p))
		lots = append(lots, lot{p, mac.Sum(nil)})
	}
	slices.SortFunc(lots, func(a, b lot) int { return bytes.Compare(a.value, b.value) })
	drawn := []string{}
	for _, l := range lots[:min(judges, len(lots))] {
		drawn = append(drawn, l.person)
	}
	return drawn
}

// A Judgement is what a judge signs, whole: another proposal, registry or
// verdict makes another message.
type Judgement struct {
	Content  digest.ID       `json:"content"`
	Proposal string          `json:"proposal"`
	Reason   *digest.Content `json:"reason,omitempty"` // of the text, BLAKE3
	Registry string          `json:"registry"`         // the origin of its ledger
	Type     string          `json:"type"`
	Verdict  string          `json:"verdict"`
}

// JudgementType is the type of the proof of a judge.
const JudgementType = "IntelligencePro.JudgmentProof"

// Message is what the Ed25519 signature of a judgement covers.
func (j Judgement) Message() ([]byte, error) {
	j.Type = JudgementType
	text, err := canon.Marshal(j)
	return append([]byte("tallystick-registry-judgement-v1\n"), text...), err
}

// A Link is what a chain signature covers: one published manifest and the one
// before it on the same artifact path.
type Link struct {
	Artifact string         `json:"artifact"`
	Manifest digest.Content `json:"manifest"`
	Previous string         `json:"previous,omitempty"` // chainSignature before it
	Proposal string         `json:"proposal"`
	Registry string         `json:"registry"`
}

// Message is what both chain signatures cover.
func (l Link) Message() ([]byte, error) {
	text, err := canon.Marshal(l)
	return append([]byte("tallystick-registry-chain-v1\n"), text...), err
}
