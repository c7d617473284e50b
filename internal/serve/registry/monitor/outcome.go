package monitor

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
)

// outcomeFollows checks that a decision is the one that the votes give: published
// when a quorum accepts, rejected when so many reject that no quorum can, lapsed when
// nothing more can come. Fewer judges than a quorum must all accept.
func outcomeFollows(p *proposal, d *draw, b *evidence.RegistryDecided, at evidence.Time) error {
	if d == nil {
		if b.Outcome == "published" && p.settings.Judges == 0 {
			return nil
		}
		return fmt.Errorf("it is %s and no judge was drawn for it; the settings ask for %d judges", b.Outcome, p.settings.Judges)
	}
	v, drawn := b.Votes, len(d.body.Judges)
	quorum := min(p.settings.Quorum, drawn)
	want := "open"
	switch {
	case v.For >= quorum:
		want = "published"
	case v.Against > drawn-quorum:
		want = "rejected"
	case v.Missing == 0 || !at.Go().Before(deadline(p, d)):
		want = "lapsed"
	}
	if b.Outcome != want {
		return fmt.Errorf("it is %s with %+v; %d of %d decide, the deadline is %s, so it is %s", b.Outcome, v, quorum, drawn, evidence.At(deadline(p, d)), want)
	}
	return nil
}

// deadline counts from the draw, or from the proposal if that came after it.
func deadline(p *proposal, d *draw) time.Time {
	from := d.at.Go()
	if p.at.Go().After(from) {
		from = p.at.Go()
	}
	return from.Add(time.Duration(p.settings.DeadlineHours) * time.Hour)
}

// verifyVote verifies a judge's signature, in multibase or hexadecimal.
func verifyVote(did string, message []byte, text string) error {
	pub, err := seal.ParseDIDKey(did)
	if err != nil {
		return err
	}
	signature, err := hex.DecodeString(text)
	if err != nil {
		if signature, err = seal.DecodeMultibase(text); err != nil {
			return err
		}
	}
	if !ed25519.Verify(pub, message, signature) {
		return fmt.Errorf("it does not verify with %s", did)
	}
	return nil
}
