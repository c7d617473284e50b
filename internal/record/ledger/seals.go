package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A pendingSeal is a seal whose signature need not be checked if the same key
// signs a later one: that signature covers everything this one does.
type pendingSeal struct {
	head      TreeHead
	edge      []tlog.Hash
	signature []byte
	keyHash   uint32
	signers   *seal.Signers
	at        evidence.Time
}

func (w *walk) seal(check, text []byte) error {
	if w.unsealed == 0 {
		return w.problem(refusal.ChainTamperDetected, "seal", "a seal with no entry since the one before it")
	}
	size, signature, err := parseSeal(text)
	if err != nil {
		return w.problem(refusal.ChainTamperDetected, "seal", "%v", err)
	}
	if want := appendSealCheck(nil, w.chain.head, text); !bytes.Equal(check, want) {
		return w.problem(refusal.ChainTamperDetected, "seal", "the line says %s, its bytes give %s", check, want)
	}
	if size != w.chain.size {
		return w.problem(refusal.SealInvalid, "seal", "a seal over %d entries stands after %d", size, w.chain.size)
	}
	s := &pendingSeal{
		head:      TreeHead{Origin: w.chain.origin, Size: size},
		edge:      append([]tlog.Hash(nil), w.chain.edge...),
		signature: signature,
		keyHash:   keyHashOf(signature),
		signers:   w.inForce,
		at:        w.time,
	}
	if p := w.pending; p != nil && (w.opt.EverySeal || p.keyHash != s.keyHash || p.signers != s.signers) {
		if err := w.checkSeal(p); err != nil {
			return err
		}
	}
	w.pending = s
	w.sealed.Seals++
	w.sealed.Tail.Batch = w.sealed.Tail.GoodSize
	w.sealed.Tail.GoodSize = w.offset + checkLen + 1 + int64(len(text)) + 1
	w.unsealed = 0
	w.sealed.chain = Chain{origin: w.chain.origin, size: w.chain.size, head: w.chain.head, edge: s.edge}
	w.sealed.LastTime = w.time
	w.sealed.Signers = w.signers
	w.sealed.history = slices.Clip(w.history)
	w.sealed.once = w.once
	for _, r := range w.batch {
		if err := w.opt.Visit(r); err != nil {
			return err
		}
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	w.past = len(w.held)
	return nil
}

// checkSeal verifies a seal's signature: an operator in force when the batch
// began, over the checkpoint of the tree.
func (w *walk) checkSeal(s *pendingSeal) error {
	s.head.Root = rootOf(s.edge)
	text := []byte(s.head.Text())
	for _, key := range s.signers.OperatorKeys(s.at.Go()) {
		v, err := seal.NoteVerifier(key, s.head.Origin)
		if err != nil {
			return err
		}
		if v.KeyHash() != s.keyHash {
			continue
		}
		if v.Verify(text, s.signature[4:]) {
			return nil
		}
		return sealProblem(s, refusal.ChainTamperDetected, "the seal over %d entries is not the operator's signature over their root: an entry was changed after it was sealed, or the seal was", s.head.Size)
	}
	return sealProblem(s, refusal.SealInvalid, "the seal over %d entries was made with key %08x, which does not belong to an operator in force there", s.head.Size, s.keyHash)
}

func sealProblem(s *pendingSeal, name refusal.Name, format string, args ...any) *Problem {
	return &Problem{Index: s.head.Size - 1, Kind: "seal", Detail: fmt.Sprintf(format, args...), Name: name}
}

// keyHashOf says which key a signature claims to be of.
func keyHashOf(signature []byte) uint32 { return binary.BigEndian.Uint32(signature) }
