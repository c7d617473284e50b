package seal

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Signers is one version of the signers file: who may sign what, when, and
// in which role. [ParseSigners] makes one that is well-formed; only [Root] and
// [Extend] make one that is trusted.
type Signers struct {
	name     string
	data     []byte
	version  int
	previous digest.ID
	entries  []Entry
	byKey    map[string][]Entry // lines that are not an authority's, by [PublicKey.index]
}

// An Entry is one line of the signers file.
type Entry struct {
	Line        int       // in the file, from 1
	Principals  string    // one name, or for an authority a list of patterns
	Authority   bool      // the key signs certificates, and names people in them
	Namespaces  string    // list of patterns; empty means every namespace
	ValidAfter  time.Time // inclusive; zero means from the beginning
	ValidBefore time.Time // inclusive; zero means without end
	Key         PublicKey
	Roles       []Role
	Comment     string // what else stands after the key
}

// Version is the number in the header.
func (s *Signers) Version() int { return s.version }

// Previous is the digest of the version before; zero in version 1.
func (s *Signers) Previous() digest.ID { return s.previous }

// Digest is the SHA-256 of the file's bytes.
func (s *Signers) Digest() digest.ID { return digest.IDOf(s.data) }

// Bytes returns the file exactly as it was read.
func (s *Signers) Bytes() []byte { return bytes.Clone(s.data) }

// Entries lists the lines of the file in their order.
func (s *Signers) Entries() []Entry {
	entries := slices.Clone(s.entries)
	for i := range entries {
		entries[i].Roles = slices.Clone(entries[i].Roles)
	}
	return entries
}

// allows reports whether the line admits signatures in the namespace.
func (e Entry) allows(ns Namespace) bool {
	return e.Namespaces == "" || matchList(string(ns), e.Namespaces)
}

// ValidAt reports whether the line is in force. Both ends count, to the
// second, as in ssh-keygen.
func (e Entry) ValidAt(at time.Time) bool {
	t := at.Unix()
	return (e.ValidAfter.IsZero() || t >= e.ValidAfter.Unix()) &&
		(e.ValidBefore.IsZero() || t <= e.ValidBefore.Unix())
}

// ExamplePrefix begins the names of the people that "tally init" makes for
// examples. Their private keys lie in the workspace, so every holder of the
// workspace can sign in their names.
const ExamplePrefix = "example-"

// IsExample reports whether a name is that of an example person.
func IsExample(principal string) bool { return strings.HasPrefix(principal, ExamplePrefix) }

// window says when the line is in force, for messages.
func (e Entry) window() string {
	const form = "2006-01-02 15:04:05 UTC"
	switch {
	case e.ValidAfter.IsZero() && e.ValidBefore.IsZero():
		return "always"
	case e.ValidBefore.IsZero():
		return "from " + e.ValidAfter.Format(form)
	case e.ValidAfter.IsZero():
		return "until " + e.ValidBefore.Format(form)
	}
	return "from " + e.ValidAfter.Format(form) + " until " + e.ValidBefore.Format(form)
}

// Verify verifies one armoured signature, SSH or OpenPGP, over message for one
// act, by a signer whom the file admits for that act at that time. The time is
// that of the act's place in the ledger; it is never zero and never "now".
func (s *Signers) Verify(armored, message []byte, ns Namespace, at time.Time) (Signature, error) {
	if isOpenPGP(armored) {
		return s.verifyOpenPGP(armored, message, ns, at)
	}
	sig, err := verifyBytes(armored, message, ns)
	if err != nil {
		return Signature{}, err
	}
	if err := checkTime(at); err != nil {
		return Signature{}, err
	}
	if cert, ok := sig.PublicKey.(*ssh.Certificate); ok {
		return s.admitCertificate(cert, ns, at)
	}
	return s.admitKey(PublicKey{key: sig.PublicKey}, ns, at)
}

// checkTime refuses to judge at no time.
func checkTime(at time.Time) error {
	if at.IsZero() || at.Unix() < 0 {
		return refusal.Newf(refusal.Failed, "verifying signature: no time given to judge it at")
	}
	return nil
}

// verifyBytes checks everything about a signature that does not depend on who
// is trusted: form, act, strength of the key, and the signature itself.
func verifyBytes(armored, message []byte, ns Namespace) (*sshsig.Signature, error) {
	// The library would verify a signature without a namespace.
	if ns == "" {
		return nil, refusal.Newf(refusal.NamespaceNotAllowed, "verifying signature: the namespace is empty")
	}
	blob, err := unarmor(string(armored))
	if err != nil {
		return nil, invalid("verifying signature: %w", err)
	}
	sig, err := parseBlob(blob)
	if err != nil {
		return nil, invalid("verifying signature: %w", err)
	}
	if sig.Namespace != string(ns) {
		return nil, refusal.Newf(refusal.NamespaceNotAllowed, "verifying signature: made for %q, expected %q", sig.Namespace, ns).
			WithHint(`sign again with "ssh-keygen -Y sign -n %s"`, ns)
	}
	if err := checkStrength(signingKey(sig)); err != nil {
		return nil, fmt.Errorf("verifying signature: %w", err)
	}
	if err := sshsig.Verify(bytes.NewReader(message), sig, sig.PublicKey, sig.HashAlgorithm, string(ns)); err != nil {
		return nil, invalid("verifying signature: by %s: it does not match what it should cover (%v)", ssh.FingerprintSHA256(signingKey(sig)), err)
	}
	return sig, nil
}

// admitKey finds the person behind a plain key.
func (s *Signers) admitKey(key PublicKey, ns Namespace, at time.Time) (Signature, error) {
	lines := s.byKey[key.index()]
	if len(lines) == 0 {
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: the key %s is not in %s", key.Fingerprint(), s.title()).
			WithHint("a new signer is added by the next version of the signers file, which two present signers sign")
	}
	// All lines of one key name the same person: ParseSigners saw to it.
	who := lines[0].Principals
	lines, err := s.inForce(lines, who, ns, at)
	if err != nil {
		return Signature{}, err
	}
	return Signature{principal: who, key: key, roles: unionRoles(lines)}, nil
}

// inForce keeps the lines that admit the act at the time, and explains when
// none does.
func (s *Signers) inForce(lines []Entry, who string, ns Namespace, at time.Time) ([]Entry, error) {
	allowed := slices.DeleteFunc(slices.Clone(lines), func(e Entry) bool { return !e.allows(ns) })
	if len(allowed) == 0 {
		return nil, refusal.Newf(refusal.NamespaceNotAllowed, "verifying signature: %s may sign %q and not %q (%s line %d)",
			who, lines[0].Namespaces, ns, s.title(), lines[0].Line)
	}
	valid := slices.DeleteFunc(slices.Clone(allowed), func(e Entry) bool { return !e.ValidAt(at) })
	if len(valid) == 0 {
		return nil, refusal.Newf(refusal.SignerNotValidThen, "verifying signature: %s signs %s (%s line %d), the act is dated %s",
			who, allowed[0].window(), s.title(), allowed[0].Line, at.UTC().Format(time.RFC3339))
	}
	return valid, nil
}

// admitCertificate finds the person that a certificate names, if an authority
// in the file made it.
func (s *Signers) admitCertificate(cert *ssh.Certificate, ns Namespace, at time.Time) (Signature, error) {
	authority := cert.SignatureKey
	if err := checkStrength(authority); err != nil {
		return Signature{}, fmt.Errorf("verifying signature: certificate authority: %w", err)
	}
	var lines []Entry
	for _, e := range s.entries {
		if e.Authority && bytes.Equal(e.Key.Marshal(), authority.Marshal()) {
			lines = append(lines, e)
		}
	}
	if len(lines) == 0 {
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: the certificate's authority %s is not in %s",
			ssh.FingerprintSHA256(authority), s.title())
	}
	if err := checkSignatureForm(authority, cert.Signature); err != nil {
		return Signature{}, invalid("verifying signature: certificate: %w", err)
	}
	if cert.CertType != ssh.UserCert {
		return Signature{}, invalid("verifying signature: certificate %q is not a user certificate", cert.KeyId)
	}
	if len(cert.Reserved) != 0 {
		return Signature{}, invalid("verifying signature: certificate %q uses its reserved field", cert.KeyId)
	}

	// Which person? Exactly one of the certificate's principals must match.
	var names []string
	for _, p := range cert.ValidPrincipals {
		if slices.ContainsFunc(lines, func(e Entry) bool { return matchList(p, e.Principals) }) && !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	switch len(names) {
	case 0:
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: certificate %q names %s, the authority may name %q (%s line %d)",
			cert.KeyId, quoteAll(cert.ValidPrincipals), lines[0].Principals, s.title(), lines[0].Line)
	case 1:
	default:
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: certificate %q names more than one person: %s", cert.KeyId, quoteAll(names)).
			WithHint("have the authority certify the key for one principal")
	}
	who := names[0]
	if err := checkPrincipal(who); err != nil {
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: certificate %q: %w", cert.KeyId, err)
	}
	if spelled, ok := s.spelling(who); ok && spelled != who {
		return Signature{}, refusal.Newf(refusal.SignerUnknown, "verifying signature: certificate %q names %q, the signers file has %q", cert.KeyId, who, spelled)
	}

	// No critical option is known here, so any is refused. CheckCert also
	// verifies the authority's signature and the certificate's own validity.
	checker := ssh.CertChecker{Clock: func() time.Time { return at }}
	if err := checker.CheckCert(who, cert); err != nil {
		if t := uint64(at.Unix()); t < cert.ValidAfter || t >= cert.ValidBefore {
			return Signature{}, refusal.Newf(refusal.SignerNotValidThen, "verifying signature: certificate %q of %s at %s: %v", cert.KeyId, who, at.UTC().Format(time.RFC3339), err)
		}
		return Signature{}, invalid("verifying signature: certificate %q of %s: %v", cert.KeyId, who, err)
	}

	lines = slices.DeleteFunc(lines, func(e Entry) bool { return !matchList(who, e.Principals) })
	lines, err := s.inForce(lines, who, ns, at)
	if err != nil {
		return Signature{}, err
	}
	return Signature{principal: who, key: PublicKey{key: cert.Key}, roles: unionRoles(lines)}, nil
}

// spelling returns how the file writes a person's name.
func (s *Signers) spelling(who string) (string, bool) {
	for _, e := range s.entries {
		if !e.Authority && strings.EqualFold(e.Principals, who) {
			return e.Principals, true
		}
	}
	return "", false
}

// OperatorKeys lists the Ed25519 keys whose holders may sign attempts as
// operators at that time, in the order of the file. Only plain ssh-ed25519
// keys are listed: a ledger is sealed by a machine, without a touch.
func (s *Signers) OperatorKeys(at time.Time) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, e := range s.entries {
		pub, ok := e.operatorKey(at)
		if ok && !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(pub) }) {
			keys = append(keys, pub)
		}
	}
	return keys
}

// OperatorOf names the operator that the key belongs to at that time.
func (s *Signers) OperatorOf(pub ed25519.PublicKey, at time.Time) (string, error) {
	for _, e := range s.entries {
		if key, ok := e.operatorKey(at); ok && key.Equal(pub) {
			return e.Principals, nil
		}
	}
	return "", refusal.Newf(refusal.NotAnOperator, "the key %s is not an operator's in %s at %s",
		fingerprint(pub), s.title(), at.UTC().Format(time.RFC3339)).
		WithHint("the next version of the signers file can list it with roles=operator")
}

// operatorKey returns the line's key if it is an operator's that may seal.
func (e Entry) operatorKey(at time.Time) (ed25519.PublicKey, bool) {
	if e.Authority || !slices.Contains(e.Roles, Operator) || !e.allows(NamespaceAttempt) || !e.ValidAt(at) {
		return nil, false
	}
	return e.Key.Ed25519()
}

// Workers are the machines of a fleet that may bring results back at that time, each
// with its name, in the order of the file.
func (s *Signers) Workers(at time.Time) []Entry {
	return slices.DeleteFunc(s.Entries(), func(e Entry) bool {
		return !slices.Contains(e.Roles, Worker) || !e.allows(NamespaceResult) || !e.ValidAt(at)
	})
}

func fingerprint(pub ed25519.PublicKey) string {
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return fmt.Sprintf("of %d bytes", len(pub))
	}
	return ssh.FingerprintSHA256(key)
}

// title names the file and version for messages.
func (s *Signers) title() string { return fmt.Sprintf("%s version %d", s.name, s.version) }

// unionRoles collects the roles of several lines in a fixed order.
func unionRoles(lines []Entry) []Role {
	var roles []Role
	for _, e := range lines {
		roles = append(roles, e.Roles...)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func quoteAll(names []string) string {
	if len(names) == 0 {
		return "no principal"
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}
