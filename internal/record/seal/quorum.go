package seal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Rule says how many people an act needs, and who.
type Rule struct {
	People int    // how many distinct people; at least 1
	Of     Role   // if set, only people who hold this role are counted
	Roles  []Role // each must be held by at least one of the people counted
}

// VerifyQuorum verifies signatures over one message and counts the people
// behind them. Every signature must verify: a bad one among good ones is
// refused and named by its place, because it did not get there by itself.
//
// People are counted, not signatures: a person who signs twice, or with two
// keys, counts once, and one who is an operator and nothing else not at all.
// One key that signed under two names is refused. The result has one signature
// for each person counted, in the order given, with all the roles that the
// person's signatures carry.
func (s *Signers) VerifyQuorum(sigs [][]byte, message []byte, ns Namespace, at time.Time, rule Rule) ([]Signature, error) {
	if rule.People < 1 {
		return nil, refusal.Newf(refusal.Failed, "verifying signatures: the rule asks for %d signers, expected at least 1", rule.People)
	}
	if len(sigs) > maxSignatures {
		return nil, refusal.Newf(refusal.TooLarge, "verifying signatures: %d signatures, at most %d are accepted", len(sigs), maxSignatures)
	}
	var people []Signature
	nameOf := map[string]string{} // by key material
	for i, armored := range sigs {
		sig, err := s.Verify(armored, message, ns, at)
		if err != nil {
			return nil, fmt.Errorf("signature %d of %d: %w", i+1, len(sigs), err)
		}
		for _, material := range sig.key.materials() {
			if other, ok := nameOf[material]; ok && other != sig.person() {
				return nil, refusal.Newf(refusal.DuplicateKey, "signature %d of %d: the key %s signed as %s and as %s",
					i+1, len(sigs), sig.key.Fingerprint(), other, sig.person())
			}
			nameOf[material] = sig.person()
		}
		people = addPerson(people, sig)
	}

	counted := slices.DeleteFunc(slices.Clone(people), func(sig Signature) bool { return !counts(sig.roles, rule.Of) })
	if len(counted) < rule.People {
		return nil, refusal.Newf(refusal.TwoPersonRule, "%s, needs %s", signedBy(people), s.needs(ns, at, rule)).
			WithHint(`each missing person signs with "ssh-keygen -Y sign -n %s -f KEY FILE"`, ns)
	}
	for _, role := range rule.Roles {
		if !slices.ContainsFunc(counted, func(sig Signature) bool { return sig.Holds(role) }) {
			return nil, refusal.Newf(refusal.RoleMissing, "%s, needs one of them to hold the role %s: %s",
				signedBy(counted), role, listNames(s.Candidates(ns, at, role)))
		}
	}
	return counted, nil
}

// counts reports whether a signer with these roles is one of the people that a
// rule asks for. A key that is an operator's and nothing else lies on a machine
// for programs to use: the owner of that machine is not a second person. Nor is
// a signer to whom the file gives no role at all.
func counts(roles []Role, of Role) bool {
	if of != "" {
		return slices.Contains(roles, of)
	}
	return slices.Contains(roles, Curator) || slices.Contains(roles, Security)
}

// addPerson adds a signature, or its roles to the person who signed already.
func addPerson(people []Signature, sig Signature) []Signature {
	for i, p := range people {
		if p.person() != sig.person() {
			continue
		}
		roles := append(slices.Clone(p.roles), sig.roles...)
		slices.Sort(roles)
		people[i].roles = slices.Compact(roles)
		return people
	}
	return append(people, sig)
}

func signedBy(people []Signature) string {
	if len(people) == 0 {
		return "not signed"
	}
	names := make([]string, len(people))
	for i, p := range people {
		names[i] = p.principal
	}
	return "signed by " + strings.Join(names, ", ")
}

// needs says what would satisfy the count: "2 of alice, bob, carol".
func (s *Signers) needs(ns Namespace, at time.Time, rule Rule) string {
	who := listNames(s.Candidates(ns, at, rule.Of))
	if rule.Of != "" {
		return fmt.Sprintf("%d with the role %s of %s", rule.People, rule.Of, who)
	}
	return fmt.Sprintf("%d of %s", rule.People, who)
}

// Candidates lists who could sign the act at that time and be counted; a role
// of "" asks for none.
func (s *Signers) Candidates(ns Namespace, at time.Time, role Role) []string {
	var names []string
	for _, e := range s.entries {
		if !e.allows(ns) || !e.ValidAt(at) || !counts(e.Roles, role) {
			continue
		}
		name := e.Principals
		if e.Authority {
			name = "signers certified as " + name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func listNames(names []string) string {
	const most = 12
	switch n := len(names); {
	case n == 0:
		return "none (the signers file names no such signer)"
	case n > most:
		return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// succession is what it takes to put a file in the place of another: two people,
// one of whom holds the security role.
var succession = Rule{People: 2, Roles: []Role{Security}}

// Root reads version 1 of a signers file and compares it with the digest that
// the ledger's first entry or the person pinned.
func Root(name string, data []byte, pin digest.ID) (*Signers, error) {
	if found := digest.IDOf(data); found != pin {
		return nil, refusal.Newf(refusal.SignersChainBroken, "%s: the trust root is %s, the file is %s", name, pin, found).
			WithHint("a writer of this file decides who is trusted; compare it with the copy that was pinned")
	}
	s, err := ParseSigners(name, data)
	if err != nil {
		return nil, err
	}
	if s.version != 1 {
		return nil, refusal.Newf(refusal.SignersChainBroken, "%s: a trust root is version 1, the file is version %d", name, s.version)
	}
	return s, nil
}

// ParseNext reads a file that would be the version after prev. Whether people
// agreed to it is for [Extend].
func ParseNext(prev *Signers, next []byte) (*Signers, error) {
	s, err := ParseSigners(prev.name, next)
	if err != nil {
		return nil, err
	}
	if s.version != prev.version+1 {
		return nil, refusal.Newf(refusal.SignersChainBroken, "%s: version %d cannot follow version %d", prev.name, s.version, prev.version).
			WithHint("versions follow one another without gaps, so that each is signed by people of the one before")
	}
	if s.previous != prev.Digest() {
		return nil, refusal.Newf(refusal.SignersChainBroken, "%s: version %d follows %s, version %d is %s", prev.name, s.version, s.previous, prev.version, prev.Digest())
	}
	return s, nil
}

// Extend reads the next version of a signers file, which two people of the
// version before must have signed as it is, in [NamespaceSigners]. The people
// it names itself do not count. A file with a lone operator is different: it is
// changed by that operator, and only to another key.
func Extend(prev *Signers, next []byte, sigs [][]byte, at time.Time) (*Signers, error) {
	s, err := ParseNext(prev, next)
	if err != nil {
		return nil, err
	}
	if _, lone := prev.LoneOperator(); lone {
		return s, s.succeedsAlone(prev, sigs, at)
	}
	if _, err := prev.VerifyQuorum(sigs, next, NamespaceSigners, at, succession); err != nil {
		return nil, fmt.Errorf("%s version %d: %w", prev.name, s.version, err)
	}
	return s, s.canChange(prev.name)
}

// canChange refuses a file that the people it names could never change again.
func (s *Signers) canChange(name string) error {
	if s.HasAuthority() {
		return nil
	}
	if n := len(s.people("")); n < succession.People {
		return refusal.Newf(refusal.SignersChainBroken, "%s: too few people count in version %d (%d), so no quorum could ever change it again", name, s.version, n).
			WithHint("keep at least two people in the file who are curators or hold the security role")
	}
	for _, role := range succession.Roles {
		if len(s.people(role)) == 0 {
			return refusal.Newf(refusal.SignersChainBroken, "%s: version %d gives no signer the role %s, so it could never be changed again", name, s.version, role).
				WithHint("give the role %s to one of the people", role)
		}
	}
	return nil
}

// HasAuthority reports whether a line lets an authority certify people, whose
// number is unknown.
func (s *Signers) HasAuthority() bool {
	return slices.ContainsFunc(s.entries, func(e Entry) bool { return e.Authority })
}

// people lists the names on the plain lines that count as people; a role of ""
// asks for none.
func (s *Signers) people(role Role) []string {
	var names []string
	for _, e := range s.entries {
		if !e.Authority && counts(e.Roles, role) && !slices.Contains(names, e.Principals) {
			names = append(names, e.Principals)
		}
	}
	return names
}
