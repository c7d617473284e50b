package seal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

func TestParseSignersReadsEveryField(t *testing.T) {
	ca := testKey(t, "authority").Public().String()
	text := "# tallystick-signers/1-draft\n# version: 7\n# previous: sha256:" + strings.Repeat("ab", 32) + "\n" +
		"\n# people\n" +
		line(t, "alice", `namespaces="tallystick-*",valid-after="20260101Z",valid-before="20261231235959Z"`, "roles=curator,security laptop of alice") + "\n" +
		"*@example.org,!root@example.org\tcert-authority,namespaces=\"tallystick-case\"   " + ca + "\troles=operator\n"
	s := mustParse(t, text)
	if s.Version() != 7 || s.Previous().String() != "sha256:"+strings.Repeat("ab", 32) {
		t.Errorf("version %d after %s", s.Version(), s.Previous())
	}
	if !bytes.Equal(s.Bytes(), []byte(text)) || s.Digest() != digest.IDOf([]byte(text)) {
		t.Error("the bytes are not kept")
	}
	entries := s.Entries()
	if len(entries) != 2 {
		t.Fatalf("%d entries", len(entries))
	}
	a, c := entries[0], entries[1]
	if a.Line != 6 || a.Principals != "alice" || a.Authority || a.Namespaces != "tallystick-*" ||
		!a.ValidAfter.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) ||
		!a.ValidBefore.Equal(time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)) ||
		!slices.Equal(a.Roles, []Role{Curator, Security}) || a.Comment != "laptop of alice" {
		t.Errorf("alice: %+v", a)
	}
	if c.Line != 7 || c.Principals != "*@example.org,!root@example.org" || !c.Authority || c.Namespaces != "tallystick-case" || !slices.Equal(c.Roles, []Role{Operator}) {
		t.Errorf("authority: %+v", c)
	}
	// What Entries gives away cannot change what Verify uses.
	entries[0].Roles[0] = Operator
	if s.Entries()[0].Roles[0] != Curator {
		t.Error("a caller can change the roles")
	}
}

func TestParseSignersRefuses(t *testing.T) {
	alice := line(t, "alice", "", "")
	aliceKey := testKey(t, "alice").Public().String()
	bobKey := testKey(t, "bob").Public().String()
	v2 := "# tallystick-signers/1-draft\n# version: 2\n"

	tests := []struct {
		name    string
		text    string
		refusal refusal.Name
		want    string
	}{
		{"an empty file", "", refusal.Malformed, "the last line has no newline"},
		{"a file without header", alice + "\n", refusal.Malformed, "signers line 1: found"},
		{"only the first header line", "# tallystick-signers/1-draft\n", refusal.Malformed, `signers line 2: expected "# version: "`},
		{"a file of ssh-keygen alone", alice + "\n", refusal.Malformed, `expected the header, which is "# tallystick-signers/1-draft" and below it "# version: 1"`},
		{"a newer format", "# tallystick-signers/2\n# version: 1\n", refusal.NewerFormat, "signers line 1: it was written in format tallystick-signers/2 by a newer tally; this one reads 1-draft"},
		{"another header", "# tallystick-signers v6\n# version: 1\n", refusal.Malformed, "signers line 1"},
		{"a hidden header", "# tallystick-signers/1-draft\n# version: 1\n# # version: 7\n" + alice + "\n", refusal.Malformed, "in the wrong place"},
		{"version 0", "# tallystick-signers/1-draft\n# version: 0\n", refusal.Malformed, `version "0"`},
		{"version 01", "# tallystick-signers/1-draft\n# version: 01\n", refusal.Malformed, `version "01"`},
		{"version +1", "# tallystick-signers/1-draft\n# version: +1\n", refusal.Malformed, `version "+1"`},
		{"a huge version", "# tallystick-signers/1-draft\n# version: 2147483648\n", refusal.Malformed, "2147483647"},
		{"version 2 without previous", v2 + alice + "\n", refusal.Malformed, "signers line 3: expected \"# previous: \" and the digest of version 1"},
		{"version 2 that ends early", v2, refusal.Malformed, "signers line 3"},
		{"a short digest", v2 + "# previous: sha256:abcd\n", refusal.Malformed, "signers line 3: digest of version 1"},
		{"another digest", v2 + "# previous: blake3:" + strings.Repeat("ab", 32) + "\n", refusal.Malformed, "signers line 3: digest of version 1"},
		{"version 1 with previous", signersText("# previous: sha256:" + strings.Repeat("ab", 32)), refusal.Malformed, "signers line 3: header line"},
		{"a second version further down", signersText(alice, "#version: 9"), refusal.Malformed, "signers line 4: header line"},
		{"no last newline", strings.TrimSuffix(signersText(alice), "\n"), refusal.Malformed, "the last line has no newline"},
		{"CRLF", strings.ReplaceAll(signersText(alice), "\n", "\r\n"), refusal.Malformed, "signers line 1: ends in a carriage return"},
		{"NUL", signersText(alice + " \x00"), refusal.Malformed, "signers line 3: character U+0000"},
		{"text direction override", signersText("# \u202e"), refusal.Malformed, "signers line 3: character U+202E"},
		{"escape sequence", signersText("# \x1b[2J"), refusal.Malformed, "signers line 3: character U+001B"},
		{"invalid UTF-8", signersText("# \xff"), refusal.Malformed, "signers line 3: not valid UTF-8"},
		{"blank before", signersText(" " + alice), refusal.Malformed, "signers line 3: blank at the beginning"},
		{"blank after", signersText(alice + " "), refusal.Malformed, "signers line 3: blank at the beginning or the end"},
		{"a long line", signersText("# " + strings.Repeat("x", 16<<10)), refusal.TooLarge, "signers line 3: 16386 bytes"},
		{"many lines", signersText(strings.Repeat("\n", 4096)), refusal.TooLarge, "lines, at most 4096"},
		{"a large file", strings.Repeat("#\n", 1<<19) + "\n", refusal.TooLarge, "bytes, at most 1048576"},

		{"a principal alone", signersText("alice"), refusal.Malformed, "signers line 3"},
		{"no key", signersText("alice ssh-ed25519"), refusal.Malformed, "expected principal, options, key type and key"},
		{"two principals", signersText("alice,bob " + aliceKey), refusal.Malformed, `principal "alice,bob": one line is for one person`},
		{"pattern *", signersText("a* " + aliceKey), refusal.Malformed, "a person must be named"},
		{"pattern ?", signersText("alic? " + aliceKey), refusal.Malformed, "a person must be named"},
		{"pattern !", signersText("!bob " + aliceKey), refusal.Malformed, "a person must be named"},
		{"quoted principal", signersText(`"alice" ` + aliceKey), refusal.Malformed, "is not a letter"},
		{"look-alike letter", signersText("аlice " + aliceKey), refusal.Malformed, "is not printable ASCII"},
		{"long principal", signersText(strings.Repeat("a", 256) + " " + aliceKey), refusal.Malformed, "256 characters"},
		{"unknown option", signersText("alice no-touch-required " + aliceKey), refusal.Malformed, `signers line 3: unknown option "no-touch-required"`},
		{"option in capitals", signersText(`alice NAMESPACES="file" ` + aliceKey), refusal.Malformed, `unknown option "NAMESPACES"`},
		{"option twice", signersText(`alice namespaces="a",namespaces="b" ` + aliceKey), refusal.Malformed, "option namespaces is given twice"},
		{"flag twice", signersText(`a* cert-authority,cert-authority ` + aliceKey), refusal.Malformed, "option cert-authority is given twice"},
		{"flag with a value", signersText(`a* cert-authority="yes" ` + aliceKey), refusal.Malformed, "takes no value"},
		{"value without quotes", signersText(`alice namespaces=file ` + aliceKey), refusal.Malformed, "option namespaces needs a value in double quotes"},
		{"half a quote", signersText(`alice namespaces="file ` + aliceKey), refusal.Malformed, "a double quote is not closed"},
		{"text after the quote", signersText(`alice namespaces="file"x ` + aliceKey), refusal.Malformed, "expected a comma"},
		{"comma at the end", signersText(`alice namespaces="file", ` + aliceKey), refusal.Malformed, "expected a comma and another option"},
		{"comma at the end of a flag", signersText(`a* cert-authority, ` + aliceKey), refusal.Malformed, "end in a comma"},
		{"backslash", signersText(`alice namespaces="fi\"le" ` + aliceKey), refusal.Malformed, "backslash"},
		{"empty namespaces", signersText(`alice namespaces="" ` + aliceKey), refusal.Malformed, "empty pattern"},
		{"empty namespace in the list", signersText(`alice namespaces="a,,b" ` + aliceKey), refusal.Malformed, "empty pattern"},
		{"blank in namespaces", signersText(`alice namespaces="a, b" ` + aliceKey), refusal.Malformed, "is not accepted"},
		{"time without Z", signersText(`alice valid-after="20260101" ` + aliceKey), refusal.Malformed, "depend on the time zone"},
		{"time with a dash", signersText(`alice valid-after="2026-01-01Z" ` + aliceKey), refusal.Malformed, "not a time of the form"},
		{"month 13", signersText(`alice valid-after="20261301Z" ` + aliceKey), refusal.Malformed, "not a time of the form"},
		{"30 February", signersText(`alice valid-after="20260230Z" ` + aliceKey), refusal.Malformed, "not a time of the form"},
		{"the epoch", signersText(`alice valid-before="19700101Z" ` + aliceKey), refusal.Malformed, "is not after 1970"},
		{"an empty window", signersText(`alice valid-after="20260101Z",valid-before="20260101Z" ` + aliceKey), refusal.Malformed, "valid-before is not after valid-after"},
		{"unknown role", signersText(alice + " roles=curator,root"), refusal.Malformed, `role "root" is not one of`},
		{"empty role", signersText(alice + " roles="), refusal.Malformed, `role "" is not one of`},
		{"role twice", signersText(alice + " roles=curator,curator"), refusal.Malformed, `role "curator" is given twice`},
		{"roles twice", signersText(alice + " roles=curator roles=security"), refusal.Malformed, "roles= is given twice"},
		{"role= for roles=", signersText(alice + " role=curator"), refusal.Malformed, "write roles="},
		{"key with an authority's pattern list empty", signersText("a,,b cert-authority " + aliceKey), refusal.Malformed, "empty pattern"},
		{"key cut short", signersText(alice[:len(alice)-4]), refusal.Malformed, "cannot be decoded"},

		{"one key, two names", signersText(alice, "bob "+aliceKey), refusal.DuplicateKey, "is listed for alice and for bob (line 3)"},
		{"an authority's key as a person's", signersText(alice, "*@example.org cert-authority "+aliceKey), refusal.DuplicateKey, "an authority's on one line and a person's on the other"},
		{"names that differ in case", signersText(alice, "Alice "+bobKey), refusal.Malformed, `principal "Alice" differs from "alice" on line 3 in case only`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSigners("signers", []byte(tt.text))
			refused(t, err, tt.refusal, tt.want)
		})
	}
}

// TestOneSecretInTwoWrappingsIsOneKey covers what comparing key bytes misses:
// a key of a machine listed again as a security key, and an RSA modulus listed
// with two exponents.
func TestOneSecretInTwoWrappingsIsOneKey(t *testing.T) {
	raw := testKey(t, "alice").Ed25519().Public().(ed25519.PublicKey)
	sk := func(app string) string {
		return "sk-ssh-ed25519@openssh.com " + base64.StdEncoding.EncodeToString(ssh.Marshal(struct {
			Name string
			Key  []byte
			App  string
		}{ssh.KeyAlgoSKED25519, raw, app}))
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := p256.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := ssh.NewPublicKey(&p256.PublicKey)
	skECDSA := "sk-ecdsa-sha2-nistp256@openssh.com " + base64.StdEncoding.EncodeToString(ssh.Marshal(struct {
		Name, Curve string
		Key         []byte
		App         string
	}{ssh.KeyAlgoSKECDSA256, "nistp256", point, "ssh:"}))
	n := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 3072), big.NewInt(1))
	rsaText := func(e int) string { return strings.TrimSpace(string(rsaLine(t, n, e))) }

	for _, pair := range [][2]string{
		{testKey(t, "alice").Public().String(), sk("ssh:")},
		{sk("ssh:"), sk("ssh:other")},
		{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(plain))), skECDSA},
		{rsaText(65537), rsaText(65539)},
	} {
		_, err := ParseSigners("signers", []byte(signersText("alice "+pair[0], "bob "+pair[1])))
		refused(t, err, refusal.DuplicateKey, "is listed for alice and for bob")
		_, err = ParseSigners("signers", []byte(signersText("alice "+pair[0], "alice "+pair[1])))
		refused(t, err, refusal.DuplicateKey, "is listed in two wrappings")
	}
}

func TestComposeWritesWhatParseReads(t *testing.T) {
	entries := []Entry{
		{Principals: "alice", Key: testKey(t, "alice").Public(), Roles: []Role{Curator, Operator}, Comment: "laptop"},
		{Principals: "*@example.org", Authority: true, Namespaces: "tallystick-*,!tallystick-signers", Key: testKey(t, "authority").Public(),
			ValidAfter: noon, ValidBefore: noon.Add(time.Hour)},
	}
	data, err := Compose(3, digest.IDOf([]byte("version 2")), entries)
	if err != nil {
		t.Fatal(err)
	}
	want := "# tallystick-signers/1-draft\n# version: 3\n# previous: " + digest.IDOf([]byte("version 2")).String() + "\n" +
		"alice " + entries[0].Key.String() + " roles=curator,operator laptop\n" +
		`*@example.org cert-authority,namespaces="tallystick-*,!tallystick-signers",valid-after="20260512120000Z",valid-before="20260512130000Z" ` + entries[1].Key.String() + "\n"
	if string(data) != want {
		t.Errorf("got:\n%s\nexpected:\n%s", data, want)
	}
	_, err = Compose(1, digest.ID{}, []Entry{{Principals: "alice", Key: entries[0].Key}, {Principals: "bob", Key: entries[0].Key}})
	refused(t, err, refusal.DuplicateKey, "alice and for bob")
	_, err = Compose(1, digest.ID{}, []Entry{{Principals: "alice\nbob", Key: entries[0].Key}})
	refused(t, err, refusal.Malformed, "line 3")
}

func TestOperatorKeys(t *testing.T) {
	sk := testKey(t, "touch").Ed25519().Public().(ed25519.PublicKey)
	skLine := "dora sk-ssh-ed25519@openssh.com " + base64.StdEncoding.EncodeToString(ssh.Marshal(struct {
		Name string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, sk, "ssh:"})) + " roles=operator"
	s := mustParse(t, signersText(
		line(t, "alice", "", "roles=operator"),
		line(t, "bob", `valid-before="20260101Z"`, "roles=operator"),
		line(t, "carol", "", "roles=curator"),
		line(t, "frank", `namespaces="tallystick-case"`, "roles=operator"),
		"* cert-authority "+testKey(t, "authority").Public().String()+" roles=operator",
		line(t, "grace", `valid-before="20270101Z"`, "roles=operator"),
		line(t, "grace", `valid-after="20260101Z"`, "roles=operator,security"),
		skLine))
	keys := s.OperatorKeys(noon)
	want := []string{"alice", "grace"}
	if len(keys) != len(want) {
		t.Fatalf("%d operator keys", len(keys))
	}
	for i, name := range want {
		pub := testKey(t, name).Ed25519().Public().(ed25519.PublicKey)
		if !keys[i].Equal(pub) {
			t.Errorf("key %d is not %s's", i, name)
		}
		if who, err := s.OperatorOf(pub, noon); err != nil || who != name {
			t.Errorf("got %q, %v", who, err)
		}
	}
	for _, name := range []string{"bob", "carol", "frank", "authority", "mallory", "touch"} {
		_, err := s.OperatorOf(testKey(t, name).Ed25519().Public().(ed25519.PublicKey), noon)
		refused(t, err, refusal.NotAnOperator, "is not an operator's in signers version 1")
	}
	if _, err := s.OperatorOf(testKey(t, "bob").Ed25519().Public().(ed25519.PublicKey), noon.AddDate(-1, 0, 0)); err != nil {
		t.Errorf("bob a year ago: %v", err)
	}
}
