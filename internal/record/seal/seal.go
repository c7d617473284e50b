// Package seal knows people by the SSH keys they already have, or their OpenPGP
// keys: it makes SSH signatures, verifies both, reads who may sign what, and counts
// people.
//
// Start with [ParseSigners], [Root] and [Extend] (who is trusted), then
// [Signers.Verify] for one signature and [Signers.VerifyQuorum] for acts that
// need more than one person. [SignWith] makes signatures that
// "ssh-keygen -Y verify" accepts; "ssh-keygen -Y sign" makes signatures that
// Verify accepts. [Key] is an Ed25519 key that belongs to a machine and not to
// a person. openpgp.go holds what is particular to OpenPGP, note.go the signed
// notes and cosignatures of C2SP, multikey.go the spellings of Ed25519 keys in W3C
// documents: Multikey, did:key, JWK.
//
// What a caller may rely on:
//
//   - A [Signature] comes only out of a verification, and says which person
//     signed, not merely that bytes match.
//   - Validity is judged at the time the caller gives, never at "now".
//   - One person is one vote, however many keys they hold, and one key is one
//     vote, however many names it is listed under.
//   - Keys under which a signature proves nothing (small order, too short, of
//     a retired type) are refused when they are listed and again when used.
//
// Where it stops: it cannot tell that two keys of two names are held by the
// same human, it has no revocation other than the validity dates and the next
// version of the signers file, and a certificate authority in that file may
// name as many people as it likes. It reads key files and talks to the SSH
// agent, and writes nothing.
//
// The format is described in docs/formats/signers.md.
package seal

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
)

// A Namespace is the act a signature is for. SSHSIG signs it together with the
// message, so that a signature for one act is worthless for every other.
type Namespace string

// The acts that people sign.
const (
	NamespaceCase        Namespace = "tallystick-case"        // one case
	NamespaceBench       Namespace = "tallystick-bench"       // a bench manifest, the pinned digests
	NamespaceSigners     Namespace = "tallystick-signers"     // the next version of the signers file
	NamespaceAttempt     Namespace = "tallystick-attempt"     // an attempt, by its operator
	NamespaceAnchor      Namespace = "tallystick-anchor"      // an anchor
	NamespaceCorrection  Namespace = "tallystick-correction"  // another score for a record
	NamespaceReview      Namespace = "tallystick-review"      // a person's label for a case
	NamespaceOperators   Namespace = "tallystick-operators"   // the map from operator hashes to people
	NamespaceSubmission  Namespace = "tallystick-submission"  // a submission package, by its operator
	NamespaceSite        Namespace = "tallystick-site"        // the pages of a workspace as files, by its operator
	NamespacePage        Namespace = "tallystick-page"        // a page that "tally view" serves, by its operator
	NamespaceDisposition Namespace = "tallystick-disposition" // what a person says about a finding of an audit
	NamespaceResult      Namespace = "tallystick-result"      // what a worker of a fleet asks and brings back
	NamespaceWork        Namespace = "tallystick-work"        // a case that a coordinator gives out, by its operator
	NamespaceFrontier    Namespace = "tallystick-frontier"    // what a machine keeps of a verified ledger, by its operator
)

// namespaces are all of them.
var namespaces = []Namespace{NamespaceCase, NamespaceBench, NamespaceSigners, NamespaceAttempt, NamespaceAnchor,
	NamespaceCorrection, NamespaceOperators, NamespaceSubmission, NamespaceSite, NamespacePage, NamespaceDisposition, NamespaceReview, NamespaceResult, NamespaceWork, NamespaceFrontier}

// A Role is something a person is trusted with beyond being known.
type Role string

// The roles. There are no others: an unknown role in a signers file is refused.
const (
	Curator  Role = "curator"
	Security Role = "security"
	Operator Role = "operator"
	Worker   Role = "worker" // a machine of a fleet
)

// parseRoles reads the value of roles=.
func parseRoles(s string) ([]Role, error) {
	var roles []Role
	for word := range strings.SplitSeq(s, ",") {
		role := Role(word)
		switch role {
		case Curator, Security, Operator, Worker:
		default:
			return nil, fmt.Errorf("role %q is not one of curator, security, operator, worker", word)
		}
		if slices.Contains(roles, role) {
			return nil, fmt.Errorf("role %q is given twice", word)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// A Signature is a verified signature: who signed, with which key, holding
// which roles for that act at that time. Only [Signers.Verify] and
// [Signers.VerifyQuorum] make one.
type Signature struct {
	principal string
	key       PublicKey
	roles     []Role
}

// Principal is the name of the person, as the signers file spells it or, for
// a certificate, as the certificate does.
func (s Signature) Principal() string { return s.principal }

// Key is the public key that signed. For a certificate it is the certified
// key, not the authority's.
func (s Signature) Key() PublicKey { return s.key }

// Roles lists the roles the person held.
func (s Signature) Roles() []Role { return slices.Clone(s.roles) }

// Holds reports whether the person held the role.
func (s Signature) Holds(r Role) bool { return slices.Contains(s.roles, r) }

// person is what is counted: two spellings of a name that differ in case only
// would look like one person to a reader, so they are one.
func (s Signature) person() string { return strings.ToLower(s.principal) }

// invalid is short for the commonest refusal here.
func invalid(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.SignatureInvalid, format, args...)
}
