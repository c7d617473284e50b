package monitor

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"time"

	"tallystick/internal/evidence"
	"tallystick/internal/seal"
)

// outcomeFollows checks that a decision is the one that the votes give.
func outcomeFollows(p *proposal, d *draw, b *evidence.RegistryDecided, at evidence.Time) error {
	v := b.Votes
	drawn := v.For + v.Against + v.Abstained + v.Missing
	if d == nil {
		return withoutDraw(p, b, at)
	}
	switch b.Outcome {
	case "published":
		if v.For < p.settings.Quorum {
			return fmt.Errorf("it is published with %d of %d votes; %d are needed", v.For, drawn, p.settings.Quorum)
		}
	case "rejected":
		if v.For >= p.settings.Quorum {
			return fmt.Errorf("it is rejected with %d votes for it; %d are enough", v.For, p.settings.Quorum)
		}
		if v.For+v.Missing >= p.settings.Quorum {
			return fmt.Errorf("it is rejected while %d votes are missing that could still publish it", v.Missing)
		}
	case "lapsed":
		if v.For >= p.settings.Quorum {
			return fmt.Errorf("it lapsed with %d votes for it; %d are enough", v.For, p.settings.Quorum)
		}
		return afterDeadline(p, at)
	}
	return nil
}

// withoutDraw checks a decision on which nobody voted.
func withoutDraw(p *proposal, b *evidence.RegistryDecided, at evidence.Time) error {
	switch {
	case b.Outcome == "published" && p.settings.Judges > 0:
		return fmt.Errorf("it is published and nobody was drawn to judge it; the settings ask for %d judges", p.settings.Judges)
	case b.Outcome == "rejected":
		return fmt.Errorf("it is rejected and nobody was drawn to judge it")
	case b.Outcome == "lapsed":
		return afterDeadline(p, at)
	}
	return nil
}

func afterDeadline(p *proposal, at evidence.Time) error {
	deadline := p.at.Go().Add(time.Duration(p.settings.DeadlineHours) * time.Hour)
	if at.Go().Before(deadline) {
		return fmt.Errorf("it lapsed at %s, before the deadline %s", at, evidence.At(deadline))
	}
	return nil
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
