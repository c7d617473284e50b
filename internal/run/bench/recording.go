package bench

import (
	"fmt"
	"os"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// VerifyForRecording is [Verify] for a runner that records cassettes. People
// sign a class with its recordings, so before that there is nothing to sign: a
// class that is not signed as it is comes back as a scratch class, with the
// refusal that says why, and can be recorded. Nothing that is run with it
// counts: it is called scratch everywhere, and the recordings count when two
// people have signed the class with them.
//
// How tells how the ledger says that a cassette was made, "" if it does not know:
// one that was not recorded was written by hand, and is not to be overwritten.
func VerifyForRecording(root *os.Root, class string, opt Options, how func(digest.Content) CassetteProvenance) (v *Verified, unsigned error, err error) {
	v, err = Verify(root, class, opt)
	if err == nil || !isUnsigned(err) {
		return v, nil, err
	}
	d, lerr := load(root, class, opt.Blobs)
	if lerr != nil {
		return nil, nil, lerr
	}
	d.Registration.Trust = Scratch
	d.Manifest, d.Digests, d.Signatures = nil, nil, nil
	for _, c := range d.Cases {
		c.CaseDigest, c.CassetteDigest, c.Cassettes = nil, nil, nil
		if c.Cassette == nil {
			c.CassetteProvenance = ""
			continue
		}
		c.CassetteDigest = &c.Cassette.Digest
		if c.CassetteProvenance = how(c.Cassette.Digest); c.CassetteProvenance == "" {
			c.CassetteProvenance = Authored
		}
	}
	v = &Verified{draft: d, shipped: true, made: opt.Made} // no pins, no warnings about signatures
	if verr := v.verify(root, opt); verr != nil {
		return nil, nil, fmt.Errorf("class %s: %w", class, verr)
	}
	v.shipped = false
	return v, err, nil
}

// isUnsigned reports whether a class was refused for want of digests and
// signatures over what is there, and for nothing else.
func isUnsigned(err error) bool {
	switch refusal.Of(err).Name {
	case refusal.TwoPersonRule, refusal.RoleMissing, refusal.SignatureInvalid, refusal.BenchIncomplete, refusal.PinMismatch,
		refusal.BenchCaseDigestMismatch, refusal.CassetteDigestMismatch, refusal.RegistrationDigestMismatch, refusal.RubricDigestMismatch, refusal.JudgeDigestMismatch, refusal.DatasetDigestMismatch:
		return true
	}
	return false
}
