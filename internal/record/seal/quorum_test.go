package seal

import (
	"fmt"
	"slices"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

var message = []byte("case axios-ssrf\n")

func TestVerifyNamesThePersonAndTheirRoles(t *testing.T) {
	sig, err := team(t).Verify(signAs(t, "bob", NamespaceCase, message), message, NamespaceCase, noon)
	if err != nil {
		t.Fatal(err)
	}
	if sig.Principal() != "bob" || !sig.Key().Equal(testKey(t, "bob").Public()) {
		t.Errorf("got %s with %s", sig.Principal(), sig.Key())
	}
	if !sig.Holds(Security) || !sig.Holds(Operator) || sig.Holds(Curator) {
		t.Errorf("roles are %v", sig.Roles())
	}
}

func TestVerifyQuorumCountsPeople(t *testing.T) {
	alice := signAs(t, "alice", NamespaceCase, message)
	bob := signAs(t, "bob", NamespaceCase, message)
	carol := signAs(t, "carol", NamespaceCase, message)

	tests := []struct {
		name    string
		sigs    [][]byte
		rule    Rule
		refusal refusal.Name // empty when accepted
		text    string
		people  int
	}{
		{"two people", [][]byte{alice, bob}, Rule{People: 2}, "", "", 2},
		{"three where two are needed", [][]byte{alice, bob, carol}, Rule{People: 2}, "", "", 3},
		{"one person", [][]byte{alice}, Rule{People: 2}, refusal.TwoPersonRule, "signed by alice, needs 2 of alice, bob, carol", 0},
		{"one person twice", [][]byte{alice, alice}, Rule{People: 2}, refusal.TwoPersonRule, "signed by alice, needs 2 of alice, bob, carol", 0},
		{"signatures stripped", nil, Rule{People: 2}, refusal.TwoPersonRule, "not signed, needs 2 of alice, bob, carol", 0},
		{"with the role", [][]byte{alice, bob}, Rule{People: 2, Roles: []Role{Security}}, "", "", 2},
		{"without the role", [][]byte{alice, carol}, Rule{People: 2, Roles: []Role{Security}}, refusal.RoleMissing, "signed by alice, carol, needs one of them to hold the role security: bob", 0},
		{"only of a role", [][]byte{bob, carol}, Rule{People: 1, Of: Curator}, "", "", 1},
		{"too few of a role", [][]byte{bob, carol}, Rule{People: 2, Of: Curator}, refusal.TwoPersonRule, "signed by bob, carol, needs 2 with the role curator of alice, carol", 0},
		{"the role is held by one who is not counted", [][]byte{alice, bob}, Rule{People: 1, Of: Curator, Roles: []Role{Security}}, refusal.RoleMissing, "needs one of them to hold the role security: bob", 0},
		{"a rule that asks for no people", [][]byte{alice}, Rule{}, refusal.Failed, "expected at least 1", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sigs, err := team(t).VerifyQuorum(tt.sigs, message, NamespaceCase, noon, tt.rule)
			if tt.refusal != "" {
				refused(t, err, tt.refusal, tt.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(sigs) != tt.people {
				t.Errorf("counted %d people, expected %d", len(sigs), tt.people)
			}
		})
	}
}

// TestOperatorKeyIsNotASecondPerson: a user with a shell on the operator's
// machine has this key, and must not be able to complete a quorum with it.
func TestOperatorKeyIsNotASecondPerson(t *testing.T) {
	file, err := Compose(1, digest.ID{}, []Entry{
		{Principals: "alice", Key: testKey(t, "alice").Public(), Roles: []Role{Curator, Security}},
		{Principals: "bob", Key: testKey(t, "bob").Public(), Roles: []Role{Operator}},
		{Principals: "carol", Key: testKey(t, "carol").Public(), Roles: []Role{Curator, Operator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSigners("signers", file)
	if err != nil {
		t.Fatal(err)
	}
	alice := signAs(t, "alice", NamespaceCase, message)
	_, err = s.VerifyQuorum([][]byte{alice, signAs(t, "bob", NamespaceCase, message)}, message, NamespaceCase, noon, Rule{People: 2})
	refused(t, err, refusal.TwoPersonRule, "signed by alice, bob, needs 2 of alice, carol")
	if _, err := s.VerifyQuorum([][]byte{alice, signAs(t, "carol", NamespaceCase, message)}, message, NamespaceCase, noon, Rule{People: 2}); err != nil {
		t.Errorf("an operator who is a curator too: %v", err)
	}
}

func TestVerifyQuorumRefusesOneBadSignatureAmongGoodOnes(t *testing.T) {
	sigs := [][]byte{
		signAs(t, "alice", NamespaceCase, message),
		signAs(t, "carol", NamespaceCase, []byte("another message")),
		signAs(t, "bob", NamespaceCase, message),
	}
	_, err := team(t).VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 2})
	refused(t, err, refusal.SignatureInvalid, "signature 2 of 3")
}

func TestVerifyQuorumBoundsItsWork(t *testing.T) {
	sigs := slices.Repeat([][]byte{signAs(t, "alice", NamespaceCase, message)}, 65)
	_, err := team(t).VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 1})
	refused(t, err, refusal.TooLarge, "65 signatures, at most 64")
}

func TestOnePersonWithTwoKeysCountsOnce(t *testing.T) {
	s := mustParse(t, signersText(
		line(t, "alice", "", "roles=curator"),
		"alice "+testKey(t, "alice-second").Public().String()+" roles=security",
		line(t, "bob", "", "roles=curator")))
	sigs := [][]byte{signAs(t, "alice", NamespaceCase, message), signAs(t, "alice-second", NamespaceCase, message)}
	_, err := s.VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 2})
	refused(t, err, refusal.TwoPersonRule, "signed by alice, needs 2 of alice, bob")

	// With bob it is two, and alice brings the roles of both her keys.
	sigs = append(sigs, signAs(t, "bob", NamespaceCase, message))
	people, err := s.VerifyQuorum(sigs, message, NamespaceCase, noon, Rule{People: 2, Roles: []Role{Curator, Security}})
	if err != nil {
		t.Fatal(err)
	}
	if len(people) != 2 || !people[0].Holds(Curator) || !people[0].Holds(Security) {
		t.Errorf("got %v", people)
	}
}

func TestRootComparesWithThePin(t *testing.T) {
	data := []byte(signersText(line(t, "alice", "", ""), line(t, "bob", "", "")))
	if _, err := Root("signers", data, digest.IDOf(data)); err != nil {
		t.Fatal(err)
	}
	other := []byte(signersText(line(t, "mallory", "", ""), line(t, "mallet", "", "")))
	_, err := Root("signers", other, digest.IDOf(data))
	refused(t, err, refusal.SignersChainBroken, "the trust root is sha256:")

	v2 := nextVersion(mustParse(t, string(data)), line(t, "alice", "", ""), line(t, "bob", "", ""))
	_, err = Root("signers", v2, digest.IDOf(v2))
	refused(t, err, refusal.SignersChainBroken, "a trust root is version 1, the file is version 2")
}

func TestNextKeepsEverythingButTheHeader(t *testing.T) {
	lines := "\n# laptop of alice\n" + line(t, "alice", `valid-after="20260101Z"`, "roles=curator") + "\n#\n" + line(t, "bob", "", "") + "\n"
	first := mustParse(t, "# tallystick-signers/1-draft\n# version: 1\n"+lines)
	second := mustParse(t, string(first.Next()))
	third := mustParse(t, string(second.Next()))
	for i, s := range []*Signers{first, second} {
		next := []*Signers{second, third}[i]
		want := fmt.Sprintf("# tallystick-signers/1-draft\n# version: %d\n# previous: %s\n%s", i+2, s.Digest(), lines)
		if got := string(next.Bytes()); got != want {
			t.Errorf("got:\n%s\nexpected:\n%s", got, want)
		}
	}
}

func TestExtendTakesTwoPeopleOfTheVersionBefore(t *testing.T) {
	prev := team(t)
	next := nextVersion(prev, line(t, "alice", "", "roles=curator"), line(t, "bob", "", "roles=security"), line(t, "dave", "", ""))
	sign := func(data []byte, names ...string) (sigs [][]byte) {
		for _, n := range names {
			sigs = append(sigs, signAs(t, n, NamespaceSigners, data))
		}
		return sigs
	}

	s, err := Extend(prev, next, sign(next, "alice", "bob"), noon)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version() != 2 || s.Previous() != prev.Digest() || string(s.Bytes()) != string(next) {
		t.Errorf("got version %d after %s", s.Version(), s.Previous())
	}

	usurped := nextVersion(prev, line(t, "mallory", "", ""), line(t, "mallet", "", ""))
	skipped := []byte("# tallystick-signers/1-draft\n# version: 3\n# previous: " + prev.Digest().String() + "\n" + line(t, "alice", "", "") + "\n" + line(t, "bob", "", "") + "\n")
	again := []byte(signersText(line(t, "alice", "", ""), line(t, "bob", "", "")))
	orphan := []byte("# tallystick-signers/1-draft\n# version: 2\n# previous: " + digest.IDOf([]byte("another file")).String() + "\n" + line(t, "alice", "", "") + "\n" + line(t, "bob", "", "") + "\n")
	dead := nextVersion(prev, line(t, "alice", "", "roles=curator"))

	tests := []struct {
		name    string
		next    []byte
		sigs    [][]byte
		refusal refusal.Name
		text    string
	}{
		{"one signer", next, sign(next, "alice"), refusal.TwoPersonRule, "signed by alice, needs 2 of alice, bob, carol"},
		{"not signed", next, nil, refusal.TwoPersonRule, "not signed"},
		{"a newcomer vouches for themselves", next, sign(next, "alice", "dave"), refusal.SignerUnknown, "is not in signers version 1"},
		{"swapped file signed by its own signers", usurped, sign(usurped, "mallory", "mallet"), refusal.SignerUnknown, "is not in signers version 1"},
		{"signatures of another version", usurped, sign(next, "alice", "bob"), refusal.SignatureInvalid, "does not match what it should cover"},
		{"a version is skipped", skipped, sign(skipped, "alice", "bob"), refusal.SignersChainBroken, "version 3 cannot follow version 1"},
		{"a second version 1", again, sign(again, "alice", "bob"), refusal.SignersChainBroken, "version 1 cannot follow version 1"},
		{"it follows another file", orphan, sign(orphan, "alice", "bob"), refusal.SignersChainBroken, "version 2 follows sha256:"},
		{"signed for another act", next, [][]byte{signAs(t, "alice", NamespaceCase, next), signAs(t, "bob", NamespaceCase, next)}, refusal.NamespaceNotAllowed, `made for "tallystick-case", expected "tallystick-signers"`},
		{"no quorum could change it again", dead, sign(dead, "alice", "bob"), refusal.SignersChainBroken, "(1), so no quorum could ever change it again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Extend(prev, tt.next, tt.sigs, noon)
			refused(t, err, tt.refusal, tt.text)
		})
	}
}

// Two people whom the file gives no security role must not appoint themselves,
// whichever way they spell it.
func TestAChangeNeedsTheSecurityRole(t *testing.T) {
	people := []string{line(t, "alice", "", "roles=curator"), line(t, "bob", "", "roles=curator"), line(t, "carol", "", "roles=security"), line(t, "dave", "", ""), line(t, "erin", "", ""), line(t, "op", "", "roles=operator")}
	sign := func(message []byte, names ...string) [][]byte {
		var sigs [][]byte
		for _, name := range names {
			sigs = append(sigs, signAs(t, name, NamespaceSigners, message))
		}
		return sigs
	}
	prev := mustParse(t, signersText(people...))
	for _, tt := range []struct {
		name  string
		lines []string
		by    []string
		want  refusal.Name // "" if it is accepted
	}{
		{"a curator and security", people, []string{"alice", "carol"}, ""},
		{"two curators", people, []string{"alice", "bob"}, refusal.RoleMissing},
		{"security and a signer without a role", people, []string{"carol", "dave"}, refusal.TwoPersonRule},
		{"security and the operator", people, []string{"carol", "op"}, refusal.TwoPersonRule},
		{"two without a role", people, []string{"dave", "erin"}, refusal.TwoPersonRule},
		{"no signer is left with the security role", people[:2], []string{"alice", "carol"}, refusal.SignersChainBroken},
		{"only one person is left who counts", people[2:], []string{"alice", "carol"}, refusal.SignersChainBroken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := nextVersion(prev, tt.lines...)
			_, err := Extend(prev, next, sign(next, tt.by...), noon)
			if tt.want == "" && err != nil || tt.want != "" && !refusal.Is(err, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
