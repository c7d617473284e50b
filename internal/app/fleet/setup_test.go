package fleet

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
)

// TestForgedSetupsAreRefused: all of what cases share is signed by an operator, and not
// only what the registration covers.
func TestForgedSetupsAreRefused(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := map[string]*seal.Key{}
	var entries []seal.Entry
	for name, role := range map[string]seal.Role{"alice": seal.Curator, "bob": seal.Curator, "olga": seal.Operator, "wa": seal.Worker} {
		key, err := seal.NewKey(rand.Reader)
		must(err)
		keys[name] = key
		entries = append(entries, seal.Entry{Principals: name, Key: key.Public(), Roles: []seal.Role{role}})
	}
	text, err := seal.Compose(1, digest.ID{}, entries)
	must(err)
	s := &Setup{Version: Version, Signers: []SignersVersion{{Signers: string(text)}}, Harness: "v0",
		Target: agent.Carried{Folders: []agent.CarriedFolder{{Kind: agent.VenvFolder, Inside: "/venv", Digest: digest.ContentOf([]byte("honest"))}}}}
	registration, err := canon.Marshal(&s.Registration)
	must(err)
	s.Registered = evidence.AttemptRegistered{Attempt: "sums.default.1", Plan: evidence.Plan{RegistrationDigest: digest.ContentOf(registration)}}
	message, err := s.Registered.Message()
	must(err)
	signature, err := seal.SignWith(keys["olga"].Signer(), seal.NamespaceAttempt, message)
	must(err)
	s.Registered.Signature = string(signature)
	signed := func(by string, ns seal.Namespace) []byte {
		data, err := Sign(keys[by], ns, s)
		must(err)
		return data
	}
	honest := signed("olga", seal.NamespaceWork)
	got, _, err := OpenSetup(honest, digest.IDOf(text), at)
	if err != nil || got.Target.Folders[0].Digest != s.Target.Folders[0].Digest {
		t.Fatalf("the honest one: %v", err)
	}
	var bare Signed
	must(canon.Unmarshal(honest, &bare))
	for name, data := range map[string][]byte{
		"another digest of a folder": []byte(strings.Replace(string(honest), s.Target.Folders[0].Digest.String(), digest.ContentOf([]byte("forged")).String(), 1)),
		"no signature":               bare.Body,
		"signed by a worker":         signed("wa", seal.NamespaceWork),
		"signed for another act":     signed("olga", seal.NamespaceResult),
	} {
		if _, _, err := OpenSetup(data, digest.IDOf(text), at); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if _, _, err := OpenSetup(honest, digest.IDOf([]byte("x")), at); err == nil {
		t.Error("of another trust root: it was taken")
	}
	s.Registration = bench.Registration{Class: "other"}
	if _, _, err := OpenSetup(signed("olga", seal.NamespaceWork), digest.IDOf(text), at); err == nil {
		t.Error("another registration: it was taken")
	}
}
