package seal

import (
	"testing"

	"tallystick/internal/record/digest"
)

// A person is known by every name and every key that some version of the signers file
// gave them, in any order.
func TestOnePersonUnderSeveralNamesAndKeys(t *testing.T) {
	one, two, three := testKey(t, "one"), testKey(t, "two"), testKey(t, "three")
	signers := func(lines ...Entry) *Signers {
		t.Helper()
		data, err := Compose(1, digest.ID{}, lines)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSigners("signers", data)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	line := func(name string, k *Key) Entry {
		return Entry{Principals: name, Key: k.Public(), Roles: []Role{Curator}}
	}
	sig := func(name string, k *Key) Signature { return Signature{principal: name, key: k.Public()} }

	first := People{}.With(signers(line("olga", one), line("alice", three)))
	second := first.With(signers(line("olivia", one), line("olivia", two), line("alice", three)))
	for _, tt := range []struct {
		name  string
		known People
		a, b  Signature
		want  bool
	}{
		{"the same", People{}, sig("olga", one), sig("olga", one), true},
		{"another key of the same name", People{}, sig("olga", one), sig("olga", two), true},
		{"the name in other letters", People{}, sig("olga", one), sig("OLGA", two), true},
		{"the same key under another name", People{}, sig("olga", one), sig("someone", one), true},
		{"two people", second, sig("olga", one), sig("alice", three), false},
		{"a new name of the key, before it was known", first, sig("olga", one), sig("olivia", two), false},
		{"a new name of the key, and a second key of that name", second, sig("olga", one), sig("olivia", two), true},
		{"the old name with a key of the new one", second, sig("olga", three), sig("olivia", two), true},
	} {
		if got := tt.known.Same(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got := tt.known.Same(tt.b, tt.a); got != tt.want {
			t.Errorf("%s, the other way round: %v", tt.name, got)
		}
	}
	if !second.Holds(sig("olivia", two), one.Public().Fingerprint()) || second.Holds(sig("alice", three), one.Public().Fingerprint()) {
		t.Error("the key that was olga's is olivia's, and not alice's")
	}
	if first.Same(sig("olga", one), sig("olivia", two)) {
		t.Error("what a later version says changed what was known before")
	}
}

// Whose role was taken away ran what they ran: a person who had the role operator in any
// version is known under every name and key.
func TestWhoEverWasAnOperator(t *testing.T) {
	one, two, three, four := testKey(t, "one"), testKey(t, "two"), testKey(t, "three"), testKey(t, "four")
	var known People
	version := 0
	next := func(lines ...Entry) {
		t.Helper()
		version++
		var before digest.ID
		if version > 1 {
			before = digest.IDOf([]byte("the version before"))
		}
		data, err := Compose(version, before, lines)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSigners("signers", data)
		if err != nil {
			t.Fatal(err)
		}
		known = known.With(s)
	}
	line := func(name string, k *Key, roles ...Role) Entry {
		return Entry{Principals: name, Key: k.Public(), Roles: roles}
	}
	sig := func(name string, k *Key, roles ...Role) Signature { return Signature{name, k.Public(), roles} }

	authority := line("*@ops", four, Operator)
	authority.Authority = true
	next(line("olga", one, Operator), line("alice", three, Curator), authority)
	before := known
	next(line("olivia", one, Curator), line("olivia", two, Curator), line("alice", three, Curator))
	for name, tt := range map[string]struct {
		s    Signature
		want bool
	}{
		"by the key that had the role":      {sig("olivia", one, Curator), true},
		"by the old name":                   {sig("Olga", two, Curator), true},
		"by another key of the new name":    {sig("olivia", two, Curator), true},
		"by a certificate's name":           {sig("rita@ops", three, Curator), true},
		"by the role that it has now":       {sig("new", four, Operator), true},
		"another person":                    {sig("alice", three, Curator), false},
		"another name at another authority": {sig("rita@dev", three, Curator), false},
	} {
		if got := known.Ran(tt.s); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if before.Ran(sig("olivia", two, Curator)) || (People{}).Ran(sig("olga", one, Curator)) {
		t.Error("what a later version says changed what was known before")
	}
}
