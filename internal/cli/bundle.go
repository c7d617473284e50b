package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// magicBytes are how many bytes tell a bundle from other files.
const magicBytes = 4

// isBundle reports whether a name is that of a file that begins as a bundle.
func isBundle(path string) bool {
	head, err := dossier.ReadHead(path, magicBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Ext(path) == ".rvf" // so that the error is about the file
	}
	return err == nil && bundle.IsBundle(head)
}

// named reports whether anything was said about whom to believe.
func (o bundleTrust) named() bool {
	return o.hmacKeyFile != "" || len(o.signers)+len(o.ledgerKeys) > 0 || o.unsafeUnsigned
}

// readBundle reads a file that should be a bundle.
func readBundle(path string) ([]byte, error) {
	return dossier.ReadInput(path, bundle.MaxBytes)
}

// parseBundle reads a bundle and checks its form, and no signature: it may be a forgery.
func parseBundle(path string) (*bundle.Parsed, error) {
	data, err := readBundle(path)
	if err != nil {
		return nil, err
	}
	p, err := bundle.Parse(data)
	return p, inFile(path, err)
}

// inFile puts the file's name in front of what is wrong with it.
func inFile(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// bundleTrust say whom a command believes about a bundle.
type bundleTrust struct {
	hmacKeyFile    string
	signers        []string
	ledgerKeys     []string
	unsafeUnsigned bool
}

func (o *bundleTrust) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.hmacKeyFile, "hmac-key-file", "", "`FILE` with the shared key that must have signed; readable only by you")
	f.StringArrayVar(&o.signers, "signer", nil, "Ed25519 public `KEY` of which one must have signed: a .pub file, ssh-ed25519 text or 64 hex digits; may be given again")
	f.StringArrayVar(&o.ledgerKeys, "ledger-key", nil, "ledger `NAME+ID+KEY` that must vouch for the receipt; may be given again")
	f.BoolVar(&o.unsafeUnsigned, "unsafe-unsigned", false, "look at the form only: no signature is asked for or checked")
}

// trust loads what the flags name. With --unsafe-unsigned it is empty.
func (o bundleTrust) trust() (bundle.Trust, error) {
	var t bundle.Trust
	var err error
	if o.hmacKeyFile != "" {
		if t.HMACKey, err = seal.LoadSecret(o.hmacKeyFile); err != nil {
			return t, err
		}
	}
	for _, s := range o.signers {
		pub, err := dossier.BundleSigner(s)
		if err != nil {
			return t, fmt.Errorf("--signer: %w", err)
		}
		t.Signers = append(t.Signers, pub)
	}
	for _, k := range o.ledgerKeys {
		origin, pub, err := seal.ParseLogKey(k)
		if err != nil {
			return t, refusal.Newf(refusal.Usage, "--ledger-key: %w", err)
		}
		t.Ledger.Logs = append(t.Ledger.Logs, ledger.LogKey{Origin: origin, Key: pub})
	}
	named := t.HMACKey != nil || len(t.Signers) > 0 || len(t.Ledger.Logs) > 0
	switch {
	case o.unsafeUnsigned && named:
		return t, refusal.Newf(refusal.Usage, "--unsafe-unsigned checks no signature, and a key is named").
			WithHint("leave --unsafe-unsigned out")
	case o.unsafeUnsigned:
		return t, nil
	case !named:
		return t, refusal.Newf(refusal.Usage, "verifying a bundle needs to know whom you trust").
			WithHint("give --hmac-key-file or --signer; there is no default")
	}
	return t, t.Validate()
}

// read reads a bundle and verifies what the flags ask for. The Verified is nil
// with --unsafe-unsigned, when nothing was.
func (o bundleTrust) read(path string) (*bundle.Parsed, *bundle.Verified, error) {
	trust, err := o.trust()
	if err != nil {
		return nil, nil, err
	}
	data, err := readBundle(path)
	if err != nil {
		return nil, nil, err
	}
	if o.unsafeUnsigned {
		p, err := bundle.Parse(data)
		return p, nil, inFile(path, err)
	}
	v, err := bundle.Verify(data, trust)
	if err != nil {
		return nil, nil, inFile(path, err)
	}
	return v.Parsed, v, nil
}
