package cli

import (
	"context"
	"fmt"
	"time"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/verify"
)

// Every command that issues a document passes its bytes through a function of this
// file before it writes or prints them: our own verifier reads them first, as a reader
// would who has the keys, and nothing is issued that it refuses. Tests spoil the bytes
// here, which are those that would be written.

// spoiled lets a test damage what is about to be issued: bytes, files by name, or a
// folder.
func spoiled(env *Env, issued any) {
	if env.spoil != nil {
		env.spoil(issued)
	}
}

// accept refuses documents that are not what this trust verifies.
func accept(env *Env, t verify.Trust, documents ...[]byte) error {
	for _, data := range documents {
		spoiled(env, data)
		if err := verify.Issued(data, t); err != nil {
			return err
		}
	}
	return nil
}

// acceptProof refuses proofs and reports that the ledger's key does not verify.
func acceptProof(env *Env, key string, documents ...[]byte) error {
	t, err := trustLedger(key)
	if err != nil {
		return err
	}
	return accept(env, t, documents...)
}

// acceptReceipt refuses a receipt, with the entry that lies beside it.
func acceptReceipt(env *Env) func(receipt, entry []byte, key string) error {
	return func(receipt, entry []byte, key string) error {
		t, err := trustLedger(key)
		if err != nil {
			return err
		}
		spoiled(env, receipt)
		return verify.IssuedReceipt(receipt, entry, t)
	}
}

// acceptBundle refuses a bundle that those who sealed it do not verify.
func acceptBundle(env *Env) func(data []byte, seals bundle.Seals, ledgerKey string) error {
	return func(data []byte, seals bundle.Seals, ledgerKey string) error {
		spoiled(env, data)
		return verify.IssuedBundle(data, seals, ledgerKey)
	}
}

// acceptPackage refuses a submission package.
func acceptPackage(env *Env) func(files map[string][]byte, key string) error {
	return func(files map[string][]byte, key string) error {
		t, err := trustLedger(key)
		if err != nil {
			return err
		}
		spoiled(env, files)
		return verify.IssuedPackage(files, t)
	}
}

// acceptSite refuses the pages of a workspace.
func acceptSite(env *Env) func(dir string, keys []string) error {
	return func(dir string, keys []string) error {
		t, err := trustLedger(keys...)
		if err != nil {
			return err
		}
		spoiled(env, dir)
		return verify.IssuedSite(dir, t)
	}
}

func trustLedger(keys ...string) (verify.Trust, error) {
	var t verify.Trust
	for _, key := range keys {
		if err := t.AddLog(key); err != nil {
			return t, err
		}
	}
	return t, nil
}

// acceptCredential refuses a credential, with the keys of those who signed it and of the
// ledger of its receipt, if it has one.
func acceptCredential(env *Env, s claim.Signing, ledgerKey string, text []byte) error {
	keys, err := s.Keys()
	if err != nil {
		return err
	}
	var t verify.Trust
	if ledgerKey != "" {
		if err := t.AddLog(ledgerKey); err != nil {
			return err
		}
	}
	t.Credentials = verify.Credentials{Keys: *keys, Now: s.Now, UnsafeSkipStatus: true}
	return accept(env, t, text)
}

// acceptProposed refuses a credential, or a body that its runner signed, that was read from a
// file to be proposed to a registry. Of one under a did:web, whose keys are not here, only
// the registry can say whether it verifies.
func acceptProposed(env *Env, file string, p *client.Publication) error {
	trust := attest.Trust{Now: env.Now(), UnsafeSkipStatus: true}
	var err error
	if p.Credential != nil {
		spoiled(env, p.Credential)
		_, err = attest.Verify(p.Credential, trust)
	} else if attest.IsSigned(p.Body) {
		_, err = attest.VerifyBody(p.Body, trust)
	}
	switch {
	case err == nil:
		return nil
	case refusal.Is(err, refusal.SignerUnknown):
		env.Note("not verified here, only by the registry: %v", err)
		return nil
	}
	return refusal.Newf(refusal.NotIssued, "%s is not proposed, because this program's own verifier refuses it: %w", file, err).
		WithHint("nothing was sent; \"tally attest verify\" tells more")
}

// clockAhead is how far the clock of a registry may be ahead of ours: what it issues is
// valid from its now.
const clockAhead = 5 * time.Minute

// acceptMinted refuses a credential that a registry made, unless the key set at the
// registry's own address verifies it, and the runner's proof in it is one.
func acceptMinted(ctx context.Context, env *Env, c *client.Client, runner claim.Party, text []byte) error {
	keys := &attest.Keys{}
	if runner.Key != nil {
		var err error
		if keys, err = (claim.Signing{Runner: runner, Now: env.Now()}).Keys(); err != nil {
			return err
		}
	}
	issuer, set, err := c.KeysOf(ctx, text)
	if err != nil {
		return err
	}
	if set != nil {
		if err := keys.AddJWKS(issuer, set); err != nil {
			return fmt.Errorf("the registry's keys: %w", err)
		}
	}
	now := env.Now().Add(clockAhead)
	err = accept(env, verify.Trust{Credentials: verify.Credentials{Keys: *keys, Now: now, UnsafeSkipStatus: true}}, text)
	if err != nil {
		return refusal.Newf(refusal.RegistryMismatch, "the registry's credential does not verify with the keys of the registry: %w", err).
			WithHint("do not use it; tell the operator of the registry. Nothing was written")
	}
	return nil
}

// acceptStatusList refuses a status list that its issuer's key does not verify.
func acceptStatusList(env *Env, by claim.Party, now time.Time, text []byte) error {
	keys, err := claim.Signing{Runner: by, Now: now}.Keys()
	if err != nil {
		return err
	}
	spoiled(env, text)
	return verify.IssuedStatusList(text, by.DID, verify.Trust{Credentials: verify.Credentials{Keys: *keys, Now: now}})
}
