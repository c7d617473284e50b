package history

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/seal"
)

// A Level says how well an attempt is vouched for. It is computed here and
// claimed by no record.
type Level int

// The levels, weakest first.
const (
	// Scratch: nobody vouches. Labelled, never promotable.
	Scratch Level = iota
	// Signed: an operator in force signed the registration, which names the
	// digest of a bench that two people signed.
	Signed
	// Witnessed: a checkpoint that trusted witnesses cosigned covered the
	// registration, and no case of the attempt, so the attempt could not be
	// dropped once its result was known.
	Witnessed
	// Reproduced: somebody else, with another key, ran it again from its
	// evidence and got the same.
	Reproduced
)

var levelNames = [...]string{"scratch", "signed", "witnessed", "reproduced"}

// String is the level's name in lower case.
func (l Level) String() string { return levelNames[l] }

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("level is %q, expected one of %s", text, strings.Join(levelNames[:], ", "))
	}
	*l = Level(i)
	return nil
}

// A Reproduction is an attempt.reproduced entry about an attempt of this
// ledger, whose signature verified.
type Reproduction struct {
	Index      int64
	Time       evidence.Time
	Attempt    string // the second run's id
	Agrees     bool
	Divergence string
	Signer     string
	Key        string
	// Counts says that neither the key nor the person is that of the original.
	Counts bool
}

// setLevel is the whole rule of docs/formats/scorecard.md.
func (h *History) setLevel(a *Attempt) {
	a.Level, a.Witnessed = Scratch, false
	if a.Scratch || a.Signer == "" || a.Origin != h.Origin {
		return
	}
	a.Level = Signed
	if a.Witnessed = h.witnessed(a); a.Witnessed {
		a.Level = Witnessed
	}
	if reproduced(a.Reproductions) {
		a.Level = Reproduced
	}
}

// witnessed looks for a cosigned checkpoint that covers the registration and
// ends before the first case.
func (h *History) witnessed(a *Attempt) bool {
	end := a.FirstStarted
	if end < 0 {
		end = h.Entries
	}
	return slices.ContainsFunc(h.cosigned, func(c Cosigned) bool {
		return c.Size > a.Index && c.Size <= end && len(c.Witnesses) > 0
	})
}

// reproduced reports whether somebody else got the same and nobody else's last
// word is that they did not.
func reproduced(rs []Reproduction) bool {
	last := make(map[string]bool)
	for _, x := range rs {
		if x.Counts {
			last[x.Key] = x.Agrees
		}
	}
	for _, agrees := range last {
		if !agrees {
			return false
		}
	}
	return len(last) > 0
}

// checkSignature notes who signed a registration.
func (r *Reader) checkSignature(a *Attempt, rec ledger.Record, b *evidence.AttemptRegistered) {
	if a.Scratch {
		return // nothing is signed in scratch mode
	}
	message, err := b.Message()
	if err != nil {
		a.fault("signature", rec.Index, "the registration: %v", err)
		return
	}
	signer, err := r.signerOf(rec, message, b.Signature)
	if err != nil {
		a.fault("signature", rec.Index, "the registration: %v", err)
		return
	}
	a.Signer, a.Key = signer.Principal(), signer.Key().Fingerprint()
}

func (r *Reader) reproduced(rec ledger.Record, b *evidence.AttemptReproduced) error {
	a := r.history.byID[b.Original]
	if a == nil || b.Origin != r.history.Origin {
		// Of another ledger's attempt, or of none.
		return nil
	}
	// As of a registration: the record with an empty signature.
	unsigned := *b
	unsigned.Signature = ""
	message, err := canon.Marshal(&unsigned)
	if err != nil {
		return err
	}
	signer, err := r.signerOf(rec, message, b.Signature)
	if err != nil {
		a.fault("signature", rec.Index, "the reproduction %s: %v", b.Attempt, err)
		return nil
	}
	x := Reproduction{Index: rec.Index, Time: rec.Envelope.Time, Attempt: b.Attempt, Agrees: b.Agrees, Divergence: b.Divergence,
		Signer: signer.Principal(), Key: signer.Key().Fingerprint()}
	x.Counts = a.Signer != "" && x.Key != a.Key && x.Signer != a.Signer && b.Attempt != b.Original
	a.Reproductions = append(a.Reproductions, x)
	return nil
}

// signerOf verifies the operator's signature over a record at its place.
func (r *Reader) signerOf(rec ledger.Record, message []byte, signature string) (seal.Signature, error) {
	s, err := r.signers.Verify([]byte(signature), message, seal.NamespaceAttempt, rec.Envelope.Time.Go())
	if err != nil {
		return seal.Signature{}, err
	}
	if !s.Holds(seal.Operator) {
		return seal.Signature{}, fmt.Errorf("signed by %s, who is no operator", s.Principal())
	}
	return s, nil
}

// planID names a plan by the digest of its canonical bytes.
func planID(p *evidence.Plan) (digest.Content, error) {
	data, err := canon.Marshal(p)
	return digest.ContentOf(data), err
}
