package seal

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// lone is version 1 of a file that names an operator and no other signer.
func lone(t testing.TB, name string) *Signers {
	t.Helper()
	data, err := Compose(1, digest.ID{}, []Entry{{Principals: "olga", Key: testKey(t, name).Public(), Roles: []Role{Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Root("signers", data, digest.IDOf(data))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestALoneOperatorChangesTheirOwnKey(t *testing.T) {
	first := lone(t, "alice")
	next, err := first.WithOperatorKey(testKey(t, "bob").Public())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Extend(first, next, [][]byte{signAs(t, "alice", NamespaceSigners, next), signAs(t, "bob", NamespaceSigners, next)}, noon)
	if err != nil {
		t.Fatal(err)
	}
	bob, _ := testKey(t, "bob").Public().Ed25519()
	alice, _ := testKey(t, "alice").Public().Ed25519()
	if _, err := second.OperatorOf(bob, noon); err != nil {
		t.Error(err)
	}
	if _, err := second.OperatorOf(alice, noon); err == nil {
		t.Error("the key that was replaced still seals")
	}
	// And again.
	next, err = second.WithOperatorKey(testKey(t, "carol").Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Extend(second, next, [][]byte{signAs(t, "bob", NamespaceSigners, next), signAs(t, "carol", NamespaceSigners, next)}, noon); err != nil {
		t.Error(err)
	}
	if _, err := team(t).WithOperatorKey(testKey(t, "carol").Public()); !refusal.Is(err, refusal.SignersChainBroken) {
		t.Errorf("a file with people: %v", err)
	}
}

func TestOnlyALoneOperatorChangesItsKey(t *testing.T) {
	first := lone(t, "alice")
	good, err := first.WithOperatorKey(testKey(t, "bob").Public())
	if err != nil {
		t.Fatal(err)
	}
	line := func(name, person, roles string) string {
		return person + " " + testKey(t, name).Public().String() + " roles=" + roles + "\n"
	}
	bobs := line("bob", "olga", "operator")
	if !strings.HasSuffix(string(good), bobs) {
		t.Fatalf("%q does not end in %q", good, bobs)
	}
	edited := func(old, new string) []byte {
		if strings.Count(string(good), old) != 1 {
			t.Fatalf("%q is not in %q once", old, good)
		}
		return []byte(strings.Replace(string(good), old, new, 1))
	}
	for _, tt := range []struct {
		name string
		file []byte
		by   []string
		want refusal.Name
	}{
		{"by the new key alone", good, []string{"bob"}, refusal.SignersChainBroken},
		{"by the new key twice", good, []string{"bob", "bob"}, refusal.SignerUnknown},
		{"by a stranger and the new key", good, []string{"mallory", "bob"}, refusal.SignerUnknown},
		{"without the new key's consent", good, []string{"alice", "alice"}, refusal.SignerUnknown},
		{"by the old key alone", good, []string{"alice"}, refusal.SignersChainBroken},
		{"the signatures change places", good, []string{"bob", "alice"}, refusal.SignerUnknown},
		{"one more signature", good, []string{"alice", "bob", "bob"}, refusal.SignersChainBroken},
		{"to the same key", edited(bobs, line("alice", "olga", "operator")), []string{"alice", "alice"}, refusal.SignersChainBroken},
		{"to another person", edited(bobs, line("bob", "mallory", "operator")), []string{"alice", "bob"}, refusal.SignersChainBroken},
		{"with a person beside", edited(bobs, bobs+line("carol", "carol", "curator")), []string{"alice", "bob"}, refusal.SignersChainBroken},
		{"with another role", edited(bobs, line("bob", "olga", "operator,security")), []string{"alice", "bob"}, refusal.SignersChainBroken},
		{"in a newer format", edited("signers/1-draft", "signers/2"), []string{"alice", "bob"}, refusal.NewerFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sigs [][]byte
			for _, who := range tt.by {
				sigs = append(sigs, signAs(t, who, NamespaceSigners, tt.file))
			}
			_, err := Extend(first, tt.file, sigs, noon)
			refused(t, err, tt.want, "")
		})
	}
	t.Run("signed for another act", func(t *testing.T) {
		_, err := Extend(first, good, [][]byte{signAs(t, "alice", NamespaceAnchor, good), signAs(t, "bob", NamespaceSigners, good)}, noon)
		refused(t, err, refusal.NamespaceNotAllowed, "")
	})
}

// A file with people never becomes the file of one operator by the operator's own
// signature.
func TestPeopleAreNotReplacedByALoneOperator(t *testing.T) {
	people := team(t)
	next := []byte(header(people.Version()+1, people.Digest()) + "bob " + testKey(t, "bob").Public().String() + " roles=operator\n")
	_, err := Extend(people, next, [][]byte{signAs(t, "bob", NamespaceSigners, next), signAs(t, "bob", NamespaceSigners, next)}, noon)
	refused(t, err, refusal.TwoPersonRule, "")
	// Not even by two people: no quorum could change it again.
	_, err = Extend(people, next, [][]byte{signAs(t, "alice", NamespaceSigners, next), signAs(t, "bob", NamespaceSigners, next)}, noon)
	refused(t, err, refusal.SignersChainBroken, "too few people")
}
