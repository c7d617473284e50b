package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// now is when every test takes place.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// cast are the people of the tests, with real keys. Erin's key is good in
// January 2026 only, Frank's from July on.
var cast = []struct {
	name          string
	roles         []seal.Role
	after, before time.Time
}{
	{name: "alice", roles: []seal.Role{seal.Curator}},
	{name: "bob", roles: []seal.Role{seal.Curator, seal.Security}},
	{name: "carol", roles: []seal.Role{seal.Security}},
	{name: "dave", roles: []seal.Role{seal.Operator}},
	{name: "heidi", roles: []seal.Role{seal.Curator}},
	{name: "erin", roles: []seal.Role{seal.Curator}, after: date(1), before: date(2)},
	{name: "frank", roles: []seal.Role{seal.Curator}, after: date(7)},
}

func date(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }

func keyOf(t testing.TB, name string) *seal.Key {
	t.Helper()
	seed := digest.IDOf([]byte("bench test key of " + name))
	key, err := seal.NewKey(bytes.NewReader(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A fixture is a workspace with the signed class "greet", which has all that a
// class can have, in a temporary folder.
type fixture struct {
	testing.TB
	dir  string
	root *os.Root
	opt  Options
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{TB: t, dir: t.TempDir()}
	root, err := os.OpenRoot(f.dir)
	f.must(err)
	t.Cleanup(func() { root.Close() })
	f.root = root
	f.opt = Options{Signers: signersFile(t), Now: now}
	for name, data := range Example("greet", Signed, &Person{Identity: "alice"}, &Person{Identity: "bob"}, now.AddDate(0, -1, 0)) {
		f.write("bench/greet/"+name, data)
	}
	f.write("bench/greet/rubric/words.star", []byte("HELLO = \"hello\"\n"))
	f.write("bench/greet/dataset.jsonl", []byte("{\"id\":\"line-one\",\"turns\":[]}\n{\"id\":\"line-two\"}\n"))
	f.write("bench/greet/README.md", []byte("# greet\n"))
	f.write("bench/greet/cases/hard/case.yaml", fullCase)
	f.write("bench/greet/cases/hard/input/prompt.txt", []byte("Say goodbye.\n"))
	f.write("bench/greet/cases/hard/expected/answer.txt", []byte("goodbye\n"))
	f.write("cassettes/greet/hard.cassette.zst", []byte("a recording"))
	f.write(".github/workflows/bench.yml", []byte(Workflow))
	pins := &Pins{Version: 1, Classes: []string{"greet"}}
	f.must(pins.Pin(root, ".github/workflows/bench.yml", "", ""))
	f.write(PinsFile, pins.Format())
	f.seal()
	return f
}

// fullCase has every field of case.yaml.
var fullCase = []byte(`schema_version: 1
case_id: hard
title: "Say goodbye, the hard way"
disposition: negative
difficulty: hard
tags: [farewell, slow]
held_out: true
provenance:
  source: curated
  source_ref:
    type: ghsa
    value: GHSA-xxxx-xxxx-xxxx
  added_at: "2026-05-12T14:00:00Z"
  added_by:
    identity: alice
  reviewed_by:
    identity: carol
  last_validated_at: "2026-05-12T14:00:00Z"
metadata: {area: greetings, seen: 3}
expected:
  recipe_id: bump-minor
  cve_delta: -1
  nested: {list: [1, 2.5, null, true]}
cassette_digest: "blake3:0000000000000000000000000000000000000000000000000000000000000000"
cassette_provenance: recorded
rubric_limits:
  wall_clock_seconds: 120
  memory_bytes: 2147483648
`)

func signersFile(t testing.TB) *seal.Signers {
	t.Helper()
	s, err := seal.ParseSigners("signers", signersText(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signersText(t testing.TB) []byte {
	t.Helper()
	var entries []seal.Entry
	for _, p := range cast {
		entries = append(entries, seal.Entry{Principals: p.name, Key: keyOf(t, p.name).Public(), Roles: p.roles, ValidAfter: p.after, ValidBefore: p.before})
	}
	data, err := seal.Compose(1, digest.ID{}, entries)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f *fixture) write(name string, data []byte) {
	f.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	f.must(os.WriteFile(f.path(name), data, 0o644))
}

func (f *fixture) read(name string) []byte {
	f.Helper()
	data, err := os.ReadFile(f.path(name))
	f.must(err)
	return data
}

// edit is the forger: it replaces the one occurrence of old.
func (f *fixture) edit(name, old, new string) {
	f.Helper()
	data := string(f.read(name))
	if n := strings.Count(data, old); n != 1 {
		f.Fatalf("%q occurs %d times in %s, want once", old, n, name)
	}
	f.write(name, []byte(strings.Replace(data, old, new, 1)))
}

// flip changes one bit of a file, in the middle.
func (f *fixture) flip(name string) {
	f.Helper()
	data := f.read(name)
	data[len(data)/2] ^= 1
	f.write(name, data)
}

func (f *fixture) remove(name string) { f.Helper(); f.must(os.RemoveAll(f.path(name))) }

func (f *fixture) load() *Draft {
	f.Helper()
	d, err := Load(f.root, "greet")
	f.must(err)
	return d
}

func (f *fixture) sign(name string, ns seal.Namespace, message []byte) []byte {
	f.Helper()
	sig, err := seal.SignWith(keyOf(f, name).Signer(), ns, message)
	f.must(err)
	return sig
}

// seal writes the digests, and has the named people sign every case and alice
// and bob the manifest and the pins.
func (f *fixture) seal() {
	f.Helper()
	f.digestCases()
	for _, c := range f.load().Cases {
		f.signCase(c.CaseID, c.Provenance.AddedBy.Identity, c.Provenance.ReviewedBy.Identity)
	}
	f.sealManifest("alice", "bob")
	f.sealPins("alice", "bob")
}

func (f *fixture) digestCases() {
	f.Helper()
	for _, c := range f.load().Cases {
		data, err := c.WithDigests()
		f.must(err)
		if data != nil {
			f.write("bench/greet/cases/"+c.CaseID+"/case.yaml", data)
		}
	}
	_, digests, err := f.load().Compute()
	f.must(err)
	f.write("bench/greet/cases/digests.yaml", digests.Format())
}

// signCase has the case signed by these keys, under the names that are in it.
func (f *fixture) signCase(id, addedKey, reviewedKey string) {
	f.Helper()
	c, err := f.load().Case(id)
	f.must(err)
	message, err := c.Message()
	f.must(err)
	added, reviewed := *c.Provenance.AddedBy, *c.Provenance.ReviewedBy
	added.Signature = string(f.sign(addedKey, seal.NamespaceCase, message))
	reviewed.Signature = string(f.sign(reviewedKey, seal.NamespaceCase, message))
	data, err := c.WithPeople(&added, &reviewed)
	f.must(err)
	f.write("bench/greet/cases/"+id+"/case.yaml", data)
}

// rename gives a case other people, and signs it with their keys.
func (f *fixture) rename(id, added, reviewed string) {
	f.Helper()
	c, err := f.load().Case(id)
	f.must(err)
	data, err := c.WithPeople(&Person{Identity: added}, &Person{Identity: reviewed})
	f.must(err)
	f.write("bench/greet/cases/"+id+"/case.yaml", data)
	f.signCase(id, added, reviewed)
}

func (f *fixture) sealManifest(names ...string) {
	f.Helper()
	manifest, _, err := f.load().Compute()
	f.must(err)
	message, err := manifest.Message()
	f.must(err)
	f.write("bench/greet/manifest.yaml", manifest.Format())
	f.write("bench/greet/manifest.yaml.sig", f.signatures(message, names))
}

func (f *fixture) sealPins(names ...string) {
	f.Helper()
	pins, _, err := LoadPins(f.root)
	f.must(err)
	message, err := pins.Message()
	f.must(err)
	f.write(PinsFile+".sig", f.signatures(message, names))
}

func (f *fixture) signatures(message []byte, names []string) []byte {
	f.Helper()
	var sigs []byte
	for _, n := range names {
		sigs = append(sigs, f.sign(n, seal.NamespaceBench, message)...)
	}
	return sigs
}

func (f *fixture) verify() (*Verified, error) { return Verify(f.root, "greet", f.opt) }

// refuses requires a refusal of the given name whose message has every one of
// the texts.
func (f *fixture) refuses(want refusal.Name, texts ...string) {
	f.Helper()
	v, err := f.verify()
	if v != nil {
		f.Fatalf("verified, want %s", want)
	}
	requireRefusal(f, err, want, texts...)
}

func requireRefusal(t testing.TB, err error, want refusal.Name, texts ...string) {
	t.Helper()
	if !refusal.Is(err, want) {
		t.Fatalf("refused with %s, want %s: %v", refusal.Of(err).Name, want, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal does not say %q: %v", text, err)
		}
	}
}

func (f *fixture) accepts() *Verified {
	f.Helper()
	v, err := f.verify()
	if err != nil {
		f.Fatalf("refused: %v", err)
	}
	return v
}

func TestVerifyAcceptsWhatTwoPeopleSigned(t *testing.T) {
	f := newFixture(t)
	v := f.accepts()
	if v.Class() != "greet" || v.Level() != "signed" || len(v.Cases()) != 2 || len(v.Dataset().Lines) != 2 {
		t.Errorf("class %s, level %s, %d cases, %d lines", v.Class(), v.Level(), len(v.Cases()), len(v.Dataset().Lines))
	}
	if got := v.Signers(); !slices.Equal(got, []string{"alice", "bob"}) {
		t.Errorf("signed by %v", got)
	}
	if len(v.Warnings()) != 0 {
		t.Errorf("warnings: %v", v.Warnings())
	}
	var got []string
	for _, e := range v.Events() {
		if err := e.Validate(); err != nil {
			t.Errorf("event %s: %v", e.Name, err)
		}
		got = append(got, e.Boundary+" "+e.Name+" "+string(e.Data))
	}
	greeting, hard := v.Cases()[0], v.Cases()[1]
	want := []string{
		fmt.Sprintf(`TB-1 task_class.registered {"class":"greet","registration_digest":"%s","trust":"signed"}`, v.RegistrationDigest()),
		fmt.Sprintf(`TB-1 case.verified {"case_digest":"%s","case_id":"greeting","class":"greet"}`, greeting.Digest()),
		fmt.Sprintf(`TB-1 case.verified {"case_digest":"%s","case_id":"hard","class":"greet"}`, hard.Digest()),
		fmt.Sprintf(`TB-8 case.verified {"case_id":"hard","cassette_digest":"%s","class":"greet"}`, hard.draft.Cassette.Digest),
	}
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What was verified is what runs, even if the folder changes in between.
func TestVerifiedOwnsItsBytes(t *testing.T) {
	f := newFixture(t)
	v := f.accepts()
	f.write("bench/greet/cases/hard/expected/answer.txt", []byte("anything\n"))
	f.write("bench/greet/rubric.star", []byte("def score(a, b, c): return 1\n"))
	f.write("cassettes/greet/hard.cassette.zst", []byte("another recording"))
	hard := v.Cases()[1]
	if data := hard.Files()[0].Data; string(data) != "goodbye\n" {
		t.Errorf("the expected file is %q", data)
	}
	if data, err := hard.draft.Cassette.Data(); err != nil || string(data) != "a recording" {
		t.Errorf("the cassette is %q, %v", data, err)
	}
	if !strings.Contains(string(v.Rubric().Files["rubric.star"]), "wrong_answer") {
		t.Errorf("the rubric changed")
	}
}
