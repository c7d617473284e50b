package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const origin = "example.com/evals"

var when = evidence.At(time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC))

func key(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A forger writes ledgers with the operator's own key, so that whatever is
// refused is refused for what it says.
type forger struct {
	t     *testing.T
	key   *seal.Key
	chain *ledger.Chain
	data  []byte
}

func newForger(t *testing.T) (*forger, []byte) {
	t.Helper()
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{
		{Principals: "olga@example.com", Key: key(t, 1).Public(), Roles: []seal.Role{seal.Operator}},
		{Principals: "alice@example.com", Key: key(t, 2).Public(), Roles: []seal.Role{seal.Curator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(evidence.Opened{Origin: origin, Signers: string(signers)})
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, key: key(t, 1), chain: ledger.NewChain(origin)}
	f.entry(evidence.LedgerOpened, string(body))
	f.seal(0)
	return f, signers
}

func (f *forger) entry(kind evidence.Kind, body string) {
	entry := evidence.AppendEntry(nil, []byte(body), kind, false, when)
	p := f.chain.Append(digest.ContentOf(entry))
	f.data = ledger.AppendEntryLine(f.data, entry, p.Head)
}

// seal seals what is there, with flip added to the last byte of the signature.
func (f *forger) seal(flip byte) {
	f.t.Helper()
	signer, err := seal.NoteSigner(f.key, origin)
	if err != nil {
		f.t.Fatal(err)
	}
	sig, err := signer.Sign([]byte(ledger.TreeHead{Origin: origin, Size: f.chain.Size(), Root: f.chain.Root()}.Text()))
	if err != nil {
		f.t.Fatal(err)
	}
	sig[len(sig)-1] += flip
	f.data = ledger.AppendSealLine(f.data, f.chain.Size(), f.chain.Head(), append(binary.BigEndian.AppendUint32(nil, signer.KeyHash()), sig...))
}

func (f *forger) folder() string {
	f.t.Helper()
	dir := f.t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "segments"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "segments", "0000000000000000.log"), f.data, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

// TestStrangersSeeWhatTheOperatorSigned: everything is sealed by the right key,
// and still not everything passes.
func TestStrangersSeeWhatTheOperatorSigned(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(f *forger)
		want  refusal.Name
	}{
		{"honest", func(f *forger) { f.entry(evidence.NoteKind, `{"n":1}`); f.seal(0) }, ""},
		{"an entry that no reader would take", func(f *forger) { f.entry(evidence.CaseStartedKind, `{"attempt":""}`); f.seal(0) }, refusal.EntryInvalid},
		{"a bad seal that a good one covers", func(f *forger) {
			f.entry(evidence.NoteKind, `{"n":1}`)
			f.seal(1)
			f.entry(evidence.NoteKind, `{"n":2}`)
			f.seal(0)
		}, refusal.ChainTamperDetected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, signers := newForger(t)
			tt.forge(f)
			item := Path(f.folder(), Trust{Root: digest.IDOf(signers)})
			if item.Name != tt.want || item.Verified != (tt.want == "") || item.Type != "ledger" {
				t.Errorf("got %+v, want %q", item, tt.want)
			}
		})
	}
}

// TestWhatCannotBeReadIsNotWhatDoesNotVerify: a pipe, a folder without a ledger,
// signers of a later version, an anchor of another schema.
func TestWhatCannotBeReadIsNotWhatDoesNotVerify(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]refusal.Name{
		pipe:               refusal.Unreadable,
		dir:                refusal.Unrecognised,
		write("empty", ""): refusal.Unrecognised,
		write("anchor", `{"checkpoint":"","published_at":"","schema":"tallystick-anchor/2"}`+"\n"): refusal.NewerFormat,
		filepath.Join(dir, "nowhere"): refusal.Unreadable,
	} {
		if item := Path(path, Trust{}); item.Name != want {
			t.Errorf("%s: got %q (%s), want %q", filepath.Base(path), item.Name, item.Detail, want)
		}
	}

	_, v1 := newForger(t)
	v2 := bytes.Replace(v1, []byte("# version: 1\n"), []byte("# version: 2\n# previous: "+digest.IDOf(v1).String()+"\n"), 1)
	if root, err := RootOf(write("v1", string(v1))); err != nil || root != digest.IDOf(v1) {
		t.Errorf("version 1: %s, %v", root, err)
	}
	if _, err := RootOf(write("v2", string(v2))); !refusal.Is(err, refusal.Usage) {
		t.Errorf("version 2 as the root of trust: %v", err)
	}
}

// One key under two names is one witness, and a caller who names a witness without a
// number wants to see its signature (trials F6).
func TestWitnessesAreCountedByTheirKeys(t *testing.T) {
	vkey := func(name string, n byte) string {
		return seal.CosignatureVKey(key(t, n).Ed25519().Public().(ed25519.PublicKey), name)
	}
	var twice Trust
	if err := twice.AddWitness(vkey("one.example", 3)); err != nil {
		t.Fatal(err)
	}
	if err := twice.AddWitness(vkey("two.example", 3)); !refusal.Is(err, refusal.DuplicateKey) {
		t.Errorf("the same key twice: %v", err)
	}
	var two Trust
	if err := errors.Join(two.AddWitness(vkey("one.example", 3)), two.AddWitness(vkey("two.example", 4))); err != nil {
		t.Fatal(err)
	}
	if got := two.Policy().Quorum; got != 2 {
		t.Errorf("two witnesses are named and %d are asked for", got)
	}
	if two.Quorum = 1; two.Policy().Quorum != 1 {
		t.Error("the number that was given does not count")
	}
}
