package verify

import (
	"fmt"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Claim is what a proof of a case or an attempt says, in words that a person
// asks for. Every member is read from an entry whose receipt verified.
type Claim struct {
	Origin   string   `json:"origin,omitempty"`
	Entry    *int64   `json:"entry,omitempty"`
	TreeSize int64    `json:"tree_size,omitempty"`
	Class    string   `json:"class,omitempty"`
	Case     string   `json:"case,omitempty"`
	Target   string   `json:"target,omitempty"`
	Attempt  string   `json:"attempt,omitempty"`
	Number   int      `json:"number,omitempty"`
	Of       int      `json:"of,omitempty"`
	Outcome  string   `json:"outcome,omitempty"`
	Score    *float64 `json:"score,omitempty"`
	Level    string   `json:"level,omitempty"`
}

// claim verifies a file of several receipts and puts together what they say of
// one case or one attempt: the first is what is claimed, then come the
// registration of its attempt and the newest registration of its class.
func claim(data []byte, t Trust) (*Claim, string, error) {
	proved, err := ledger.VerifyProofs(data, t.Policy())
	if err != nil {
		return nil, "", err
	}
	first := proved[0]
	c := &Claim{Origin: first.Checkpoint.Origin, Entry: &first.Index, TreeSize: first.Checkpoint.Size}
	var finished *evidence.AttemptFinished
	switch b := first.Body.(type) {
	case *evidence.CaseScored:
		c.Attempt, c.Case, c.Outcome = b.Attempt, b.CaseID, string(b.Outcome)
		if b.Score != nil {
			c.Score = &b.Score.Score
		}
	case *evidence.AttemptFinished:
		c.Attempt, c.Outcome, c.Score, finished = b.Attempt, "finished", b.MeanScore, b
	default:
		return nil, "", notAClaim("its first receipt is of %s, expected a case.scored or an attempt.finished", first.Entry.Kind)
	}
	if err := c.registered(proved[1:], t); err != nil {
		return nil, "", err
	}
	return c, c.text(finished) + cosigned(first.Checkpoint), nil
}

// registered reads the registrations. The first must be that of the attempt.
func (c *Claim) registered(proved []*ledger.Proved, t Trust) error {
	for i, p := range proved {
		r, ok := p.Body.(*evidence.AttemptRegistered)
		switch {
		case !ok:
			return notAClaim("receipt %d is of %s, expected an attempt.registered", i+2, p.Entry.Kind)
		case i == 0 && (r.Attempt != c.Attempt || r.Origin != c.Origin || p.Index > *c.Entry):
			return notAClaim("the registration is of attempt %s at entry %d, the record of %s at entry %d", r.Attempt, p.Index, c.Attempt, *c.Entry)
		case i == 0:
			c.Class, c.Target, c.Number, c.Level = r.Class, r.Target, r.Number, levelOf(r, t)
			c.Of = r.Number
		case r.Class != c.Class:
			return notAClaim("receipt %d is of class %s, the attempt of %s", i+2, r.Class, c.Class)
		default:
			c.Of = max(c.Of, r.Number)
		}
	}
	if c.Class == "" {
		return notAClaim("the registration of attempt %s is missing", c.Attempt)
	}
	return nil
}

const levelSigned = "signed"

// levelOf is what can be said without the signers: whether the key that seals
// the ledger signed the registration of a bench that people signed.
func levelOf(r *evidence.AttemptRegistered, t Trust) string {
	message, err := r.Message()
	if r.Scratch || err != nil {
		return "scratch"
	}
	key, err := seal.VerifySignature([]byte(r.Signature), message, seal.NamespaceAttempt)
	if err != nil {
		return "scratch"
	}
	pub, ok := key.Ed25519()
	for _, l := range t.Logs {
		if ok && pub.Equal(l.Key) {
			return levelSigned
		}
	}
	return "scratch"
}

func (c *Claim) text(finished *evidence.AttemptFinished) string {
	var b strings.Builder
	if c.Case != "" {
		fmt.Fprintf(&b, "case %s of class %s: %s", c.Case, c.Class, c.Outcome)
		if c.Score != nil {
			fmt.Fprintf(&b, ", score %v", *c.Score)
		}
	} else {
		fmt.Fprintf(&b, "class %s: %d passed", c.Class, finished.Outcomes[evidence.Passed])
		total := 0
		for _, n := range finished.Outcomes {
			total += n
		}
		fmt.Fprintf(&b, " of %d", total)
	}
	fmt.Fprintf(&b, "; attempt %s by target %s, number %d of at least %d of the class; %s; entry %d of %s, in a tree of %d", c.Attempt, c.Target, c.Number, c.Of,
		c.Level, *c.Entry, c.Origin, c.TreeSize)
	return b.String()
}

func notAClaim(format string, args ...any) error {
	return refusal.Newf(refusal.ReceiptInvalid, "proof: "+format, args...).WithHint(`"tally export --format receipt ATTEMPT:CASE" writes one`)
}
