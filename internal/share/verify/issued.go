package verify

import (
	"crypto/ed25519"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
)

// Issued verifies the very bytes that a command is about to hand out, as a reader would
// who trusts the keys that signed them. A command that issues a document writes and
// prints nothing before this returned nil: a document that our own verifier refuses
// would accuse the run, or the reader.
func Issued(data []byte, t Trust) error {
	return t.issued(func(t Trust) (string, string, error) { return recogniseFile("", data, t) })
}

// IssuedPackage is [Issued] for a submission package.
func IssuedPackage(files map[string][]byte, t Trust) error {
	return t.issued(func(t Trust) (string, string, error) {
		return submitted("", func(string) (map[string][]byte, error) { return files, nil }, t)
	})
}

// IssuedSite is [Issued] for the pages of a workspace, which lie in a folder that has
// not got its name yet.
func IssuedSite(dir string, t Trust) error {
	return t.issued(func(t Trust) (string, string, error) { return writtenSite(dir, t) })
}

// IssuedStatusList is [Issued] for the status list of an issuer.
func IssuedStatusList(data []byte, issuer string, t Trust) error {
	return t.issued(func(t Trust) (string, string, error) {
		return "status list", "", attest.VerifyStatusList(data, issuer, attest.Revocation, t.trust())
	})
}

// IssuedBundle is [Issued] for a bundle, by those who sealed it and the ledger of its
// receipt.
func IssuedBundle(data []byte, seals bundle.Seals, ledgerKey string) error {
	t := Trust{HMACKey: seals.HMACKey}
	if seals.Key != nil {
		t.BundleKeys = []ed25519.PublicKey{seals.Key.Public().(ed25519.PublicKey)}
	}
	if ledgerKey == "" { // the receipt, if any, is of a ledger that is not known here
		t.OwnLogs = true
	} else if err := t.AddLog(ledgerKey); err != nil {
		return err
	}
	if seals.Key == nil && seals.HMACKey == nil && ledgerKey == "" {
		return t.issued(func(Trust) (string, string, error) {
			_, err := bundle.Parse(data) // it is not signed, and says so
			return "bundle", "", err
		})
	}
	return Issued(data, t)
}

// IssuedReceipt is [Issued] for a receipt that does not carry its entry.
func IssuedReceipt(receipt, entry []byte, t Trust) error {
	t.Entry = entry
	return Issued(receipt, t)
}

func (t Trust) issued(verify func(Trust) (kind, detail string, err error)) error {
	var assumed []string
	var said *Claim
	t.assumed, t.claim = &assumed, &said
	kind, _, err := verify(t)
	if err == nil {
		return nil
	}
	return refusal.Newf(refusal.NotIssued, "the %s is not issued, because this program's own verifier refuses it: %w", kind, err).
		WithHint(`nothing was written; "tally verify" tells whether the ledger and its evidence are whole, and if they are, this is a fault of the program: please report it`)
}
