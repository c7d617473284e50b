package seal

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/refusal"
)

// TestSSHKeygenAndWeAgreeOnWhoMaySign asks both about the same signers file,
// signature, namespace and time, for the name that the row gives. What we
// accept ssh-keygen must accept; what only we refuse has its reason here and in
// docs/formats/signers.md, "What ssh-keygen accepts and we refuse".
func TestSSHKeygenAndWeAgreeOnWhoMaySign(t *testing.T) {
	k := newSSHKeygen(t)
	ca, otherCA := testKey(t, "authority"), testKey(t, "other authority")
	alice := testKey(t, "alice").Signer()
	touch := softEd25519(t, "touch", 1)
	rsaKey, err := strongRSA()
	if err != nil {
		t.Fatal(err)
	}
	weakKey, err := weakRSA()
	if err != nil {
		t.Fatal(err)
	}

	plain := mustSign(t, alice, NamespaceCase, message)
	certified := func(holder, authority ssh.Signer, edit func(*ssh.Certificate)) []byte {
		cert := &ssh.Certificate{Key: holder.PublicKey(), CertType: ssh.UserCert, KeyId: "badge", ValidPrincipals: []string{"alice"}, ValidBefore: ssh.CertTimeInfinity}
		if edit != nil {
			edit(cert)
		}
		if err := cert.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := WithCertificate(holder, ssh.MarshalAuthorizedKey(cert))
		if err != nil {
			t.Fatal(err)
		}
		return mustSign(t, signer, NamespaceCase, message)
	}
	names := func(who ...string) func(*ssh.Certificate) {
		return func(c *ssh.Certificate) { c.ValidPrincipals = who }
	}
	window := func(after, before time.Time) func(*ssh.Certificate) {
		return func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = uint64(after.Unix()), uint64(before.Unix()) }
	}
	badge := certified(alice, ca.Signer(), nil)

	aliceKey := testKey(t, "alice").Public().String()
	caKey := " cert-authority " + ca.Public().String()
	with := func(options string) string { return "alice " + options + " " + aliceKey }
	authority := func(principals, options string) string {
		return principals + " cert-authority" + options + " " + ca.Public().String()
	}
	const agree = ""

	rows := []struct {
		name     string
		line     string
		sig      []byte
		who      string
		refusal  refusal.Name // of ours; empty when we accept
		stricter string       // why ssh-keygen accepts what we refuse
	}{
		// Namespaces.
		{"no options", "alice " + aliceKey, plain, "alice", "", agree},
		{"the namespace", with(`namespaces="tallystick-case"`), plain, "alice", "", agree},
		{"another namespace", with(`namespaces="tallystick-bench"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"a namespace in another case", with(`namespaces="Tallystick-Case"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"a star", with(`namespaces="tallystick-*"`), plain, "alice", "", agree},
		{"a star for nothing", with(`namespaces="tallystick-case*"`), plain, "alice", "", agree},
		{"two stars", with(`namespaces="*stick*se"`), plain, "alice", "", agree},
		{"only stars", with(`namespaces="***"`), plain, "alice", "", agree},
		{"a question mark", with(`namespaces="*-c?se"`), plain, "alice", "", agree},
		{"a question mark for nothing", with(`namespaces="tallystick-case?"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"taken out after", with(`namespaces="*,!tallystick-case"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"taken out before", with(`namespaces="!tallystick-case,*"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"another taken out", with(`namespaces="!tallystick-bench,*"`), plain, "alice", "", agree},
		{"nothing but taken out", with(`namespaces="!tallystick-bench"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"taken out by a pattern", with(`namespaces="!*c?se,tally*"`), plain, "alice", refusal.NamespaceNotAllowed, agree},
		{"the third of a list", with(`namespaces="a,b,tallystick-case"`), plain, "alice", "", agree},
		{"a beginning is not enough", with(`namespaces="tallystick"`), plain, "alice", refusal.NamespaceNotAllowed, agree},

		// Times. It is noon of 12 May in UTC, and 13 May where ssh-keygen runs.
		{"from this day", with(`valid-after="20260512Z"`), plain, "alice", "", agree},
		{"from this minute", with(`valid-after="202605121200Z"`), plain, "alice", "", agree},
		{"from this second", with(`valid-after="20260512120000Z"`), plain, "alice", "", agree},
		{"from the next second", with(`valid-after="20260512120001Z"`), plain, "alice", refusal.SignerNotValidThen, agree},
		{"from the next day", with(`valid-after="20260513Z"`), plain, "alice", refusal.SignerNotValidThen, agree},
		{"until this second", with(`valid-before="20260512120000Z"`), plain, "alice", "", agree},
		{"until the second before", with(`valid-before="20260512115959Z"`), plain, "alice", refusal.SignerNotValidThen, agree},
		{"until the beginning of this day", with(`valid-before="20260512Z"`), plain, "alice", refusal.SignerNotValidThen, agree},
		{"between two seconds", with(`valid-after="20260512120000Z",valid-before="20260512120001Z"`), plain, "alice", "", agree},
		{"an order of options", with(`valid-before="20270101Z",namespaces="tallystick-bench,*case",valid-after="20250101Z"`), plain, "alice", "", agree},
		{"beyond 2038", with(`valid-before="20991231Z"`), plain, "alice", "", agree},
		{"31 April", with(`valid-after="20260431Z"`), plain, "alice", refusal.Malformed, "ssh-keygen reads it as 1 May"},
		{"the end before the beginning", with(`valid-after="20270101Z",valid-before="20260101Z"`), plain, "alice", refusal.Malformed, agree},
		{"a time of the zone", with(`valid-after="20260513"`), plain, "alice", refusal.Malformed, "it depends on the machine's time zone"},
		{"a time with a small z", with(`valid-after="20260512z"`), plain, "alice", refusal.Malformed, "a second spelling of Z"},
		{"a time with UTC", with(`valid-after="20260512UTC"`), plain, "alice", refusal.Malformed, "a second spelling of Z"},
		{"the first second of 1970", with(`valid-before="19700101Z"`), plain, "alice", refusal.Malformed, agree},
		{"second 60", with(`valid-after="20260512115960Z"`), plain, "alice", refusal.Malformed, "a second spelling of noon"},
		{"hour 24", with(`valid-after="20260511240000Z"`), plain, "alice", refusal.Malformed, agree},
		{"no time", with(`valid-after=""`), plain, "alice", refusal.Malformed, agree},

		// Spelling of a line.
		{"tabs", "alice\tnamespaces=\"tallystick-case\"\t" + strings.ReplaceAll(aliceKey, " ", "\t"), plain, "alice", "", agree},
		{"a comment with blanks", "alice " + aliceKey + " my laptop roles=curator", plain, "alice", "", agree},
		{"a blank in front", " alice " + aliceKey, plain, "alice", refusal.Malformed, "one spelling"},
		{"a quoted name", `"alice" ` + aliceKey, plain, "alice", refusal.Malformed, "one spelling"},
		{"an option in capitals", with(`NAMESPACES="tallystick-case"`), plain, "alice", refusal.Malformed, "one spelling"},
		{"a value without quotes", with(`namespaces=tallystick-case`), plain, "alice", refusal.Malformed, agree},
		{"an option twice", with(`namespaces="a",namespaces="tallystick-case"`), plain, "alice", refusal.Malformed, agree},
		{"an unknown option", with(`no-touch-required`), plain, "alice", refusal.Malformed, agree},
		{"an empty list of namespaces", with(`namespaces=""`), plain, "alice", refusal.Malformed, agree},
		{"another's key", "alice " + testKey(t, "bob").Public().String(), plain, "alice", refusal.SignerUnknown, agree},
		{"a key with another label", "alice ssh-rsa " + strings.Fields(aliceKey)[1], plain, "alice", refusal.Malformed, agree},
		{"a bad line beside a good one", "alice " + aliceKey + "\nbob nonsense", plain, "alice", refusal.Malformed, "ssh-keygen skips lines that it cannot read"},

		// Who. ssh-keygen is told the name, we find it.
		{"another name", "bob " + aliceKey, plain, "bob", "", agree},
		{"a name beside it", "alice " + aliceKey + "\nbob " + aliceKey, plain, "alice", refusal.DuplicateKey, "one key is one person"},
		{"a list of names", "alice,bob " + aliceKey, plain, "alice", refusal.Malformed, "a line is for one person"},
		{"a pattern of names", "al* " + aliceKey, plain, "alice", refusal.Malformed, "a person must be named"},
		{"a negated name", "*,!bob " + aliceKey, plain, "alice", refusal.Malformed, "a person must be named"},
		{"a second line that admits", with(`namespaces="tallystick-bench"`) + "\nalice " + aliceKey, plain, "alice", "", agree},
		{"a second line that does not", "alice " + aliceKey + "\n" + with(`namespaces="tallystick-bench"`), plain, "alice", "", agree},

		// Keys of every kind, and weak ones.
		{"a security key", "alice " + keyText(touch), mustSign(t, touch, NamespaceCase, message), "alice", "", agree},
		{"a security key of NIST's curve", "", nil, "alice", "", agree}, // made below
		{"a security key that was not touched", "alice " + keyText(softEd25519(t, "touch", 0)), rawSecurityKey(t, softEd25519(t, "touch", 0), nil), "alice", refusal.SignatureInvalid, "ssh-keygen does not look"},
		{"RSA", "alice " + keyText(mustSigner(t, rsaKey)), mustSign(t, mustSigner(t, rsaKey), NamespaceCase, message), "alice", "", agree},
		{"RSA of 2048 bits", "alice " + keyText(mustSigner(t, weakKey)), nil, "alice", refusal.WeakKey, "3072 bits are the least"},

		// Certificates.
		{"a certificate", authority("alice", ""), badge, "alice", "", agree},
		{"a certificate by a pattern", authority("al*", ""), badge, "alice", "", agree},
		{"a certificate by a list", authority("bob,alic?", ""), badge, "alice", "", agree},
		{"a certificate for every name", authority("*", ""), badge, "alice", "", agree},
		{"a certificate for every other name", authority("*,!alice", ""), badge, "alice", refusal.SignerUnknown, agree},
		{"a certificate for every name but another", authority("!bob,*", ""), badge, "alice", "", agree},
		{"a certificate for no name", authority("!bob", ""), badge, "alice", refusal.SignerUnknown, agree},
		{"a certificate for another", authority("bob", ""), badge, "alice", refusal.SignerUnknown, agree},
		{"a certificate in a namespace", authority("alice", `,namespaces="*case"`), badge, "alice", "", agree},
		{"a certificate in another namespace", authority("alice", `,namespaces="*,!*case"`), badge, "alice", refusal.NamespaceNotAllowed, agree},
		{"a certificate in time", authority("alice", `,valid-after="20260512Z",valid-before="20260512120000Z"`), badge, "alice", "", agree},
		{"a certificate out of time", authority("alice", `,valid-before="20260512115959Z"`), badge, "alice", refusal.SignerNotValidThen, agree},
		{"a certificate of another authority", authority("alice", ""), certified(alice, otherCA.Signer(), nil), "alice", refusal.SignerUnknown, agree},
		{"a certificate of a person", "alice " + ca.Public().String(), badge, "alice", refusal.SignerUnknown, agree},
		{"an authority that signs itself", authority("alice", ""), mustSign(t, ca.Signer(), NamespaceCase, message), "alice", refusal.SignerUnknown, agree},
		{"the certified key without its certificate", authority("alice", ""), plain, "alice", refusal.SignerUnknown, agree},
		{"a certificate where the key is listed", "alice " + aliceKey, badge, "alice", refusal.SignerUnknown, agree},
		{"the second line of the authority", authority("bob", "") + "\n" + authority("alice", ""), badge, "alice", "", agree},
		{"a certificate that ends this second", authority("alice", ""), certified(alice, ca.Signer(), window(noon.AddDate(-1, 0, 0), noon)), "alice", refusal.SignerNotValidThen, agree},
		{"a certificate that ends the next second", authority("alice", ""), certified(alice, ca.Signer(), window(noon.AddDate(-1, 0, 0), noon.Add(time.Second))), "alice", "", agree},
		{"a certificate that begins this second", authority("alice", ""), certified(alice, ca.Signer(), window(noon, noon.AddDate(1, 0, 0))), "alice", "", agree},
		{"a certificate that begins the next second", authority("alice", ""), certified(alice, ca.Signer(), window(noon.Add(time.Second), noon.AddDate(1, 0, 0))), "alice", refusal.SignerNotValidThen, agree},
		{"a certificate of a host", authority("alice", ""), certified(alice, ca.Signer(), func(c *ssh.Certificate) { c.CertType = ssh.HostCert }), "alice", refusal.SignatureInvalid, agree},
		{"a certificate without a name", authority("*", ""), certified(alice, ca.Signer(), names()), "alice", refusal.SignerUnknown, agree},
		{"a certificate of two, one admitted", authority("alice", ""), certified(alice, ca.Signer(), names("bob", "alice")), "alice", "", agree},
		{"a certificate of two, both admitted", authority("*", ""), certified(alice, ca.Signer(), names("bob", "alice")), "alice", refusal.SignerUnknown, "we are not told which is meant"},
		{"a certificate of a pattern", authority("*", ""), certified(alice, ca.Signer(), names("al*")), "al*", refusal.SignerUnknown, "a person must be named"},
		{"a certificate with an extension", authority("alice", ""), certified(alice, ca.Signer(), func(c *ssh.Certificate) { c.Extensions = map[string]string{"permit-pty": ""} }), "alice", "", agree},
		{"a certificate with a critical option", authority("alice", ""), certified(alice, ca.Signer(), func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "true"} }), "alice", refusal.SignatureInvalid, "no option is known here"},
		{"a certificate of a security key", authority("alice", ""), certified(touch, ca.Signer(), nil), "alice", "", agree},
		{"a certificate by a security key", "alice cert-authority " + keyText(touch), certified(alice, touch, nil), "alice", "", agree},
		{"a certificate of RSA by RSA", "alice cert-authority " + keyText(mustSigner(t, rsaKey)), certified(mustSigner(t, rsaKey), mustSigner(t, rsaKey), nil), "alice", "", agree},
		{"a person's key that is an authority's too", "alice " + ca.Public().String() + "\nbob" + caKey, mustSign(t, ca.Signer(), NamespaceCase, message), "alice", refusal.DuplicateKey, "one key is one person"},
	}

	accepted, stricter := 0, 0
	for _, tt := range rows {
		switch tt.name {
		case "a security key of NIST's curve":
			key := softECDSA(t, 1)
			tt.line, tt.sig = "alice "+keyText(key), mustSign(t, key, NamespaceCase, message)
		case "RSA of 2048 bits":
			tt.sig = signUnchecked(t, mustSigner(t, weakKey))
		}
		file := []byte(signersText(tt.line))
		ours := func() error {
			s, err := ParseSigners("signers", file)
			if err != nil {
				return err
			}
			sig, err := s.Verify(tt.sig, message, NamespaceCase, noon)
			if err == nil && sig.Principal() != tt.who {
				t.Errorf("%s: signed by %s", tt.name, sig.Principal())
			}
			return err
		}()
		theirs := k.verify(t, file, tt.sig, message, tt.who, NamespaceCase, noon)

		compareDecisions(t, tt.name, ours, theirs, tt.refusal, tt.stricter)
		if ours == nil {
			accepted++
		}
		if tt.stricter != agree {
			stricter++
		}
	}
	t.Logf("%d rows: %d accepted by both, %d refused by both, %d refused by us alone", len(rows), accepted, len(rows)-accepted-stricter, stricter)
}

// compareDecisions insists that we are never laxer than ssh-keygen, and stricter
// only where there is a reason.
func compareDecisions(t *testing.T, name string, ours, theirs error, want refusal.Name, stricter string) {
	t.Helper()
	switch {
	case want == "" && ours != nil:
		t.Errorf("%s: we say %v", name, ours)
	case want != "" && !refusal.Is(ours, want):
		t.Errorf("%s: we say %v, expected %s", name, ours, want)
	case ours == nil && theirs != nil:
		t.Errorf("%s: we accept what ssh-keygen refuses: %v", name, theirs)
	case (ours != nil && theirs == nil) != (stricter != ""):
		t.Errorf("%s: we say %v, ssh-keygen says %v; the reason given is %q", name, ours, theirs, stricter)
	}
}

// signUnchecked signs without the checks of SignWith.
func signUnchecked(t *testing.T, signer ssh.Signer) []byte {
	t.Helper()
	r := honest(t, NamespaceCase)
	sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signedData(r.namespace, "", r.hash, sum512(message)), ssh.KeyAlgoRSASHA512)
	if err != nil {
		t.Fatal(err)
	}
	r.key, r.format, r.blob = signer.PublicKey().Marshal(), sig.Format, sig.Blob
	return armor(r.marshal())
}

// TestSSHKeygenAndWeAgreeOnSignatures does the same for one line and many
// signatures. What only we refuse is a second spelling of a signature, or would
// let one be made.
func TestSSHKeygenAndWeAgreeOnSignatures(t *testing.T) {
	k := newSSHKeygen(t)
	file := []byte(signersText(line(t, "alice", "", "")))
	good := signAs(t, "alice", NamespaceCase, message)
	edit := func(f func(r *rawSig)) []byte {
		r := honest(t, NamespaceCase)
		f(&r)
		return armor(r.marshal())
	}
	signed := func(r *rawSig) {
		sig, err := testKey(t, "alice").Signer().Sign(rand.Reader, signedData(r.namespace, r.reserved, r.hash, sum512(message)))
		if err != nil {
			t.Fatal(err)
		}
		r.blob = sig.Blob
	}
	const agree = ""
	rows := []struct {
		name     string
		armored  []byte
		refusal  refusal.Name // of ours; empty when we accept
		stricter string       // why ssh-keygen accepts what we refuse
	}{
		{"as ssh-keygen writes it", good, "", agree},
		{"lines of 64", rewrap(good, 64), "", agree},
		{"lines of 76", rewrap(good, 76), "", agree},
		{"lines of 65", rewrap(good, 65), refusal.SignatureInvalid, "one spelling"},
		{"one long line", rewrap(good, 1000), refusal.SignatureInvalid, "one spelling"},
		{"no last newline", bytes.TrimSuffix(good, []byte("\n")), refusal.SignatureInvalid, "one spelling"},
		{"text after it", append(bytes.Clone(good), "x\n"...), refusal.SignatureInvalid, "one spelling"},
		{"another after it", append(bytes.Clone(good), signAs(t, "bob", NamespaceCase, message)...), refusal.SignatureInvalid, "one spelling"},
		{"text before it", append([]byte("x\n"), good...), refusal.SignatureInvalid, agree},
		{"carriage returns", bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), refusal.SignatureInvalid, agree},
		{"empty", nil, refusal.SignatureInvalid, agree},
		{"stripped to the armour", []byte(armorBegin + "\n" + armorEnd + "\n"), refusal.SignatureInvalid, agree},
		{"of another message", signAs(t, "alice", NamespaceCase, []byte("another")), refusal.SignatureInvalid, agree},
		{"of another act", signAs(t, "alice", NamespaceBench, message), refusal.NamespaceNotAllowed, agree},
		{"of no act", armor(honest(t, "").marshal()), refusal.NamespaceNotAllowed, agree},
		{"of another signer", signAs(t, "bob", NamespaceCase, message), refusal.SignerUnknown, agree},
		{"relabelled for this act", edit(func(r *rawSig) { *r = honest(t, NamespaceBench); r.namespace = string(NamespaceCase) }), refusal.SignatureInvalid, agree},
		{"wrong magic", edit(func(r *rawSig) { r.magic = "SSHSIH" }), refusal.SignatureInvalid, agree},
		{"version 0", edit(func(r *rawSig) { r.version = 0 }), refusal.SignatureInvalid, "there is no version 0"},
		{"version 2", edit(func(r *rawSig) { r.version = 2 }), refusal.SignatureInvalid, agree},
		{"hash sha256", edit(func(r *rawSig) { r.hash = "sha256" }), refusal.SignatureInvalid, agree},
		{"hash sha1", edit(func(r *rawSig) { r.hash = "sha1" }), refusal.SignatureInvalid, agree},
		{"reserved field in use", edit(func(r *rawSig) { r.reserved = "x" }), refusal.SignatureInvalid, "one spelling: ssh-keygen skips the field, which nothing signs"},
		{"reserved field in use and signed", edit(func(r *rawSig) { r.reserved = "x"; signed(r) }), refusal.SignatureInvalid, agree},
		{"bytes after the blob", edit(func(r *rawSig) { r.atTail = []byte{0} }), refusal.SignatureInvalid, agree},
		{"bytes after the signature", edit(func(r *rawSig) { r.afterSig = []byte{0} }), refusal.SignatureInvalid, agree},
		{"another algorithm's name", edit(func(r *rawSig) { r.format = "ssh-rsa" }), refusal.SignatureInvalid, agree},
		{"short", edit(func(r *rawSig) { r.blob = r.blob[:63] }), refusal.SignatureInvalid, agree},
		{"long", edit(func(r *rawSig) { r.blob = append(r.blob, 0) }), refusal.SignatureInvalid, agree},
	}
	for _, tt := range rows {
		_, ours := mustParse(t, string(file)).Verify(tt.armored, message, NamespaceCase, noon)
		theirs := k.verify(t, file, tt.armored, message, "alice", NamespaceCase, noon)
		compareDecisions(t, tt.name, ours, theirs, tt.refusal, tt.stricter)
	}
}
