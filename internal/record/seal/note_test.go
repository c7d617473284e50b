package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/refusal"
)

// The example of c2sp.org/signed-note, restated.
const (
	c2spVKey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	c2spNote = "This is an example message.\n\n" +
		"— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)

func TestC2SPSignedNoteExampleVerifies(t *testing.T) {
	name, pub, err := ParseLogKey(c2spVKey)
	if err != nil || VKey(pub, name) != c2spVKey {
		t.Fatalf("VKey gives %q, %v", VKey(pub, name), err)
	}
	v, err := NoteVerifier(pub, name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(c2spNote), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	if n.Text != "This is an example message.\n" {
		t.Errorf("text %q", n.Text)
	}
	bad := strings.Replace(c2spNote, "example message", "Example message", 1)
	if _, err := note.Open([]byte(bad), note.VerifierList(v)); err == nil {
		t.Error("a changed note verifies")
	}
}

// TestNoteKeysAreThoseOfTheGoLibrary signs with one and verifies with the
// other, both ways.
func TestNoteKeysAreThoseOfTheGoLibrary(t *testing.T) {
	key := testKey(t, "operator")
	pub := key.Ed25519().Public().(ed25519.PublicKey)
	const name = "ledger.example/a"
	signer, err := NoteSigner(key, name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := note.Sign(&note.Note{Text: "ledger.example/a\n7\nroot\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := note.NewVerifier(VKey(pub, name))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := NoteVerifier(pub, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []note.Verifier{theirs, ours} {
		if _, err := note.Open(text, note.VerifierList(v)); err != nil {
			t.Error(err)
		}
	}
	if want, _ := note.NewEd25519VerifierKey(name, pub); VKey(pub, name) != want {
		t.Errorf("got %s, expected %s", VKey(pub, name), want)
	}
}

// The checkpoint and cosignature line of c2sp.org/tlog-cosignature, restated.
const (
	c2spCheckpoint = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	c2spCosigned   = "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA=="
)

func TestC2SPCosignatureExample(t *testing.T) {
	// The specification does not publish the witness's key, so the line's
	// form and time can be checked and its signature cannot.
	at, err := CosignatureTime(note.Signature{Name: "witness.example.com/w1", Base64: c2spCosigned})
	if err != nil {
		t.Fatal(err)
	}
	if at.Unix() != 1679315147 {
		t.Errorf("time %d", at.Unix())
	}
	want := "cosignature/v1\ntime 1679315147\n" + c2spCheckpoint
	if got := string(cosigned(1679315147, []byte(c2spCheckpoint))); got != want {
		t.Errorf("signed message %q", got)
	}
}

func cosigner(t *testing.T, name string) (note.Signer, note.Verifier) {
	t.Helper()
	key := testKey(t, "witness")
	signer, err := CosignatureSigner(key, name, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := CosignatureVerifier(CosignatureVKey(key.Ed25519().Public().(ed25519.PublicKey), name))
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier
}

func TestCosignatureGoesRound(t *testing.T) {
	signer, verifier := cosigner(t, "witness.example/w1")
	text, err := note.Sign(&note.Note{Text: c2spCheckpoint}, signer)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		t.Fatal(err)
	}
	at, err := CosignatureTime(n.Sigs[0])
	if err != nil || !at.Equal(noon) {
		t.Errorf("time %v, %v", at, err)
	}

	// The signature covers what the specification says, byte for byte.
	raw, _ := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
	pub := testKey(t, "witness").Ed25519().Public().(ed25519.PublicKey)
	if !ed25519.Verify(pub, []byte("cosignature/v1\ntime 1778587200\n"+c2spCheckpoint), raw[12:]) {
		t.Error("the signed message is not that of the specification")
	}
	if id := binary.BigEndian.Uint32(raw); id != keyID("witness.example/w1", append([]byte{4}, pub...)) {
		t.Errorf("key id %08x", id)
	}
}

func TestForgedCosignaturesAreRefused(t *testing.T) {
	signer, verifier := cosigner(t, "witness.example/w1")
	good, err := signer.Sign([]byte(c2spCheckpoint))
	if err != nil {
		t.Fatal(err)
	}
	if !verifier.Verify([]byte(c2spCheckpoint), good) {
		t.Fatal("the honest cosignature is refused")
	}
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	plain := ed25519.Sign(testKey(t, "witness").Ed25519(), []byte(c2spCheckpoint))
	future := binary.BigEndian.AppendUint64(nil, math.MaxInt64+1)
	future = append(future, ed25519.Sign(testKey(t, "witness").Ed25519(), cosigned(math.MaxInt64+1, []byte(c2spCheckpoint)))...)

	for name, sig := range map[string][]byte{
		"dated back":                 edit(func(b []byte) []byte { b[7]--; return b }),
		"signature changed":          edit(func(b []byte) []byte { b[20] ^= 1; return b }),
		"a byte too many":            append(bytes.Clone(good), 0),
		"a byte too few":             good[:len(good)-1],
		"empty":                      nil,
		"a plain note signature":     plain,
		"the same after eight zeros": append(make([]byte, 8), plain...),
		"beyond the end of time":     future,
	} {
		if verifier.Verify([]byte(c2spCheckpoint), sig) {
			t.Errorf("%s: accepted", name)
		}
	}
	if verifier.Verify([]byte(strings.Replace(c2spCheckpoint, "20852163", "20852164", 1)), good) {
		t.Error("another checkpoint: accepted")
	}
	// A note verifier of the same key does not take a cosignature.
	v, _ := NoteVerifier(testKey(t, "witness").Ed25519().Public().(ed25519.PublicKey), "witness.example/w1")
	if v.KeyHash() == verifier.KeyHash() || v.Verify([]byte(c2spCheckpoint), good) {
		t.Error("a cosignature passes for a log's signature")
	}
	_, err = CosignatureTime(note.Signature{Name: "w", Base64: base64.StdEncoding.EncodeToString(append(make([]byte, 4), future...))})
	refused(t, err, refusal.Malformed, "out of range")
	_, err = CosignatureTime(note.Signature{Name: "w", Base64: "AAAA"})
	refused(t, err, refusal.Malformed, "expected base64 of 76 bytes")
}

func TestClockBeforeTheEpochDoesNotCosign(t *testing.T) {
	signer, err := CosignatureSigner(testKey(t, "witness"), "w", func() time.Time { return time.Time{} })
	if err != nil {
		t.Fatal(err)
	}
	_, err = signer.Sign([]byte(c2spCheckpoint))
	refused(t, err, refusal.Failed, "the clock says 0001-01-01")
}

func TestVerifierKeysAreStrict(t *testing.T) {
	pub := testKey(t, "witness").Ed25519().Public().(ed25519.PublicKey)
	good := CosignatureVKey(pub, "w.example")
	weak := make(ed25519.PublicKey, 32)
	tests := []struct {
		name    string
		vkey    string
		refusal refusal.Name
		text    string
	}{
		{"empty", "", refusal.Malformed, "three parts"},
		{"no name", CosignatureVKey(pub, ""), refusal.Malformed, "is empty"},
		{"a name with a space", CosignatureVKey(pub, "w example"), refusal.Malformed, "contains ' '"},
		{"a name with a newline", CosignatureVKey(pub, "w\nexample"), refusal.Malformed, "contains '\\n'"},
		{"a name with a plus", CosignatureVKey(pub, "w+example"), refusal.Malformed, ""},
		{"a log's key", VKey(pub, "w.example"), refusal.Malformed, "signature type is 0x01, expected 0x04"},
		{"another name", strings.Replace(good, "w.example", "v.example", 1), refusal.Malformed, "key id is"},
		{"key id in capitals", strings.ToUpper(good[:18]) + good[18:], refusal.Malformed, ""},
		{"a short key", CosignatureVKey(pub[:31], "w.example"), refusal.Malformed, "32 bytes, expected 33"},
		{"not base64", good + "!", refusal.Malformed, "not base64"},
		{"newline at the end", good + "\n", refusal.Malformed, "not base64"},
		{"a weak key", CosignatureVKey(weak, "w.example"), refusal.WeakKey, "small order"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := CosignatureVerifier(tt.vkey)
			refused(t, err, tt.refusal, tt.text)
		})
	}
	_, err := NoteVerifier(weak, "w.example")
	refused(t, err, refusal.WeakKey, "small order")
	_, _, err = ParseLogKey(VKey(weak, "w.example"))
	refused(t, err, refusal.WeakKey, "small order")
	_, _, err = ParseLogKey(VKey(pub, "two words"))
	refused(t, err, refusal.Malformed, "contains ' '")
	_, err = NoteSigner(testKey(t, "witness"), "two words")
	refused(t, err, refusal.Malformed, "contains ' '")
}
