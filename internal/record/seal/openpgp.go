package seal

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/openpgp"
	"tallystick/internal/record/refusal"
)

// openPGPType names the kind of key in messages and answers.
const openPGPType = "openpgp"

// openPGPPrefix begins the line of an OpenPGP key. To ssh-keygen it is a comment.
const openPGPPrefix = "# openpgp-signer: "

// OpenPGPMessage is what an OpenPGP signature for an act covers in place of the
// message: OpenPGP has no namespaces, so the text carries the act, and a signature
// for one act, or for a file sent by mail, is worthless for every other.
// It is short, so that a person can make it with printf and read what they sign.
func OpenPGPMessage(ns Namespace, message []byte) []byte {
	return fmt.Appendf(nil, "tallystick-openpgp-v1\n%s\n%s\n", ns, digest.IDOf(message))
}

// isOpenPGP tells the two kinds of signature apart by their first line.
func isOpenPGP(armored []byte) bool { return bytes.HasPrefix(armored, []byte(openpgp.ArmorBegin)) }

// respellOpenPGP writes an armoured OpenPGP signature as gpg would.
func respellOpenPGP(block string) ([]byte, error) {
	if len(block) > maxArmored {
		return nil, fmt.Errorf("%d bytes long, at most %d are accepted", len(block), maxArmored)
	}
	sig, err := openpgp.ParseArmored([]byte(block))
	if err != nil {
		return nil, err
	}
	return sig.Armor(), nil
}

// parseOpenPGP reads: prefix, principal, options if any, fingerprint, key, comment.
func parseOpenPGP(line string) (Entry, error) {
	var e Entry
	principal, rest := cutField(strings.TrimPrefix(line, openPGPPrefix))
	e.Principals = principal
	if options, after, err := cutOptions(rest); err != nil {
		return e, err
	} else if strings.Contains(options, "=") || options == "cert-authority" {
		if err := e.parseOptions(options); err != nil {
			return e, err
		}
		rest = after
	}
	fingerprint, rest := cutField(rest)
	b64, comment := cutField(rest)
	if b64 == "" {
		return e, fmt.Errorf("expected principal, options, fingerprint and key")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil {
		return e, fmt.Errorf("key is not base64: %v", err)
	}
	key, err := openpgp.ParseKey(data)
	if err != nil {
		return e, fmt.Errorf("OpenPGP key: %w", err)
	}
	if key.Fingerprint() != fingerprint {
		return e, fmt.Errorf("the line names the OpenPGP key %s, the key in it is %s", fingerprint, key.Fingerprint())
	}
	if e.Key, err = strongOpenPGP(key); err != nil {
		return e, err
	}
	if err := e.parseComment(comment); err != nil {
		return e, err
	}
	switch {
	case e.Authority:
		return e, fmt.Errorf("an OpenPGP key cannot be a cert-authority")
	case slices.Contains(e.Roles, Operator):
		return e, fmt.Errorf("an OpenPGP key cannot have the role operator: a ledger is sealed by a machine, with an SSH key")
	}
	return e, e.checkPrincipals()
}

// strongOpenPGP refuses OpenPGP keys of which a part is weak, by the rules for SSH
// keys.
func strongOpenPGP(key *openpgp.Key) (PublicKey, error) {
	for _, k := range append(key.Signing(), key.Primary()) {
		bare, err := ssh.NewPublicKey(k.Public())
		if err != nil {
			return PublicKey{}, refusal.Newf(refusal.Malformed, "OpenPGP key %s: %v", k.Fingerprint(), err)
		}
		if err := checkStrength(bare); err != nil {
			return PublicKey{}, fmt.Errorf("OpenPGP key %s: %w", k.Fingerprint(), err)
		}
	}
	return PublicKey{pgp: key}, nil
}

// NewOpenPGPEntry makes the line of a person from what "gpg --export" writes. A key
// that is weak, revoked or expired at that time is refused.
func NewOpenPGPEntry(principal string, roles []Role, export []byte, now time.Time) (Entry, error) {
	key, err := openpgp.Minimal(export, now)
	if err != nil {
		return Entry{}, refusal.Newf(refusal.Malformed, "OpenPGP key of %s: %w", principal, err).
			WithHint("give what \"gpg --export-options export-minimal --export FINGERPRINT\" writes")
	}
	public, err := strongOpenPGP(key)
	return Entry{Principals: principal, Roles: roles, Key: public}, err
}

// ParseRoles reads a comma-separated list of roles.
func ParseRoles(list string) ([]Role, error) { return parseRoles(list) }

// OpenPGPKey finds the OpenPGP key that a fingerprint or long key number names,
// that of a primary key or of a subkey, and the fingerprint of the key to sign
// with: the one named or, for a primary key, the last of its signing keys, as gpg
// would take.
func (s *Signers) OpenPGPKey(id string) (key PublicKey, signing string, err error) {
	wanted := strings.ToUpper(strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(id, " ", ""), "0x"), "!"))
	if len(wanted) < 16 || strings.Trim(wanted, "0123456789ABCDEF") != "" {
		return PublicKey{}, "", refusal.Newf(refusal.Usage, "%q is not a fingerprint or a long key number of an OpenPGP key", id).
			WithHint(`"gpg --list-keys --with-subkey-fingerprint" prints the fingerprints`)
	}
	for _, e := range s.entries {
		if e.Key.pgp == nil {
			continue
		}
		keys := e.Key.pgp.Signing()
		for _, k := range keys {
			if strings.HasSuffix(k.Fingerprint(), wanted) && k.Fingerprint() != e.Key.pgp.Fingerprint() {
				return e.Key, k.Fingerprint(), nil
			}
		}
		if strings.HasSuffix(e.Key.pgp.Fingerprint(), wanted) {
			return e.Key, keys[len(keys)-1].Fingerprint(), nil
		}
	}
	return PublicKey{}, "", refusal.Newf(refusal.SignerUnknown, "the OpenPGP key %s is not in %s", wanted, s.title()).
		WithHint(`"tally signers add NAME --gpg-key FILE" adds it to the next version of the signers file, which two present signers sign`)
}

// verifyOpenPGP is [Signers.Verify] for OpenPGP. The signature names its key, so
// the file is asked first; then the bytes are checked.
func (s *Signers) verifyOpenPGP(armored, message []byte, ns Namespace, at time.Time) (Signature, error) {
	if ns == "" {
		return Signature{}, refusal.Newf(refusal.NamespaceNotAllowed, "verifying signature: the namespace is empty")
	}
	spelled, err := respellOpenPGP(string(armored))
	if err == nil && !bytes.Equal(spelled, armored) {
		err = fmt.Errorf("not spelled as gpg spells it")
	}
	if err != nil {
		return Signature{}, invalid("verifying signature: OpenPGP: %w", err)
	}
	sig, err := openpgp.ParseArmored(armored)
	if err != nil {
		return Signature{}, invalid("verifying signature: OpenPGP: %w", err)
	}
	if err := checkTime(at); err != nil {
		return Signature{}, err
	}
	i := slices.IndexFunc(s.entries, func(e Entry) bool { return e.Key.pgp != nil && e.Key.pgp.Find(sig.Issuer()) != nil })
	if i < 0 {
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: the OpenPGP key %s is not in %s, or not as one that signs", sig.Issuer(), s.title()).
			WithHint("a new signer or subkey is added by the next version of the signers file, which two present signers sign")
	}
	key := s.entries[i].Key
	if err := key.pgp.Verify(sig, OpenPGPMessage(ns, message)); err != nil {
		return Signature{}, whatElse(key.pgp, sig, message, ns, err)
	}
	return s.admitKey(key, ns, at)
}

// whatElse says what a signature covers that does not cover what it should.
func whatElse(key *openpgp.Key, sig *openpgp.Signature, message []byte, ns Namespace, err error) error {
	for _, other := range namespaces {
		if key.Verify(sig, OpenPGPMessage(other, message)) == nil {
			return refusal.Newf(refusal.NamespaceNotAllowed, "verifying signature: made for %q, expected %q", other, ns)
		}
	}
	if key.Verify(sig, message) == nil {
		return invalid("verifying signature: by %s: it covers the file itself, which says nothing of what the signature is for", sig.Issuer()).
			WithHint("sign the text that docs/formats/signers.md describes, or let \"--gpg\" do it")
	}
	return invalid("verifying signature: by %s: %w", sig.Issuer(), err)
}
