package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

func TestScratchRunsAtOnceAndSaysSo(t *testing.T) {
	f := newFixture(t)
	for name, data := range Example("play", Scratch, nil, nil, now) {
		f.write("bench/play/"+name, data)
	}
	opt := Options{Now: now} // no signer is trusted or asked
	v, err := Verify(f.root, "play", opt)
	f.must(err)
	if v.Level() != "scratch" || len(v.Signers()) != 0 || v.Digest().IsZero() {
		t.Errorf("level %s, signers %v, digest %s", v.Level(), v.Signers(), v.Digest())
	}
	if w := v.Warnings(); len(w) != 1 || !strings.Contains(w[0].Detail, "never counts") {
		t.Errorf("warnings %v", w)
	}

	// Digests that are there must be right all the same.
	data, err := v.draft.Cases[0].WithDigests()
	f.must(err)
	f.write("bench/play/cases/greeting/case.yaml", data)
	_, err = Verify(f.root, "play", opt)
	f.must(err)
	f.flip("bench/play/cases/greeting/input/prompt.txt")
	_, err = Verify(f.root, "play", opt)
	requireRefusal(t, err, refusal.BenchCaseDigestMismatch, "class play", "case greeting")
}

func TestSignedClassNeedsSignersAndATime(t *testing.T) {
	f := newFixture(t)
	f.opt.Signers = nil
	f.refuses(refusal.Failed, "no signers given")
	f.opt = Options{Signers: signersFile(t)}
	f.refuses(refusal.Failed, "no time given")
}

func TestWarnings(t *testing.T) {
	warningsOf := func(f *fixture) string {
		var texts []string
		for _, w := range f.accepts().Warnings() {
			texts = append(texts, w.Case+": "+w.Detail)
		}
		return strings.Join(texts, "\n")
	}
	t.Run("a stale case", func(t *testing.T) {
		f := newFixture(t)
		f.opt.Now = now.AddDate(0, 0, 59) // the first of the cases was validated 90 days before
		if got := warningsOf(f); got != "" {
			t.Errorf("90 days are stale: %s", got)
		}
		f.opt.Now = f.opt.Now.Add(time.Second)
		if got := warningsOf(f); got != "greeting: last validated 2026-05-01T12:00:00Z, 90 days ago; more than 90 days is stale" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a case from the future", func(t *testing.T) {
		f := newFixture(t)
		f.edit(hardYAML, `last_validated_at: "2026-05-12T14:00:00Z"`, `last_validated_at: "2036-05-12T14:00:00Z"`)
		f.seal()
		if got := warningsOf(f); !strings.Contains(got, "hard: last_validated_at is 2036-05-12T14:00:00Z, which is in the future") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("an incident that claims success", func(t *testing.T) {
		f := newFixture(t)
		f.edit(hardYAML, "source: curated", "source: regression-converted")
		f.edit(hardYAML, "disposition: negative", "disposition: positive")
		f.seal()
		if got := warningsOf(f); !strings.Contains(got, "hard: made from an incident") {
			t.Errorf("got %q", got)
		}
	})
}

func TestPythonRubricNeedsAPinnedImage(t *testing.T) {
	f := newFixture(t)
	f.remove("bench/greet/rubric.star")
	f.write("bench/greet/rubric.py", []byte("print('{}')\n"))
	f.sealManifest("alice", "bob")
	f.refuses(refusal.PinMismatch, "no image called cpython")

	pins, _, err := LoadPins(f.root)
	f.must(err)
	image := digest.ContentOf([]byte("an image"))
	f.must(pins.Pin(f.root, "", image.String(), BuiltImage))
	f.write(PinsFile, pins.Format())
	f.refuses(refusal.SignatureInvalid, PinsFile)
	f.sealPins("alice", "bob")
	if got, ok := f.accepts().Image(); !ok || got != image {
		t.Errorf("the image is %s, %v", got, ok)
	}
	f.remove(PinsFile)
	f.refuses(refusal.BenchIncomplete, PinsFile)
}

// A draft has no way into what runs: it is not loaded, not listed and not
// scored, signed or not.
func TestPendingIsNeverPartOfAVerifiedClass(t *testing.T) {
	f := newFixture(t)
	before := f.accepts().Digest()
	incident, err := ParseIncident("x.json", []byte(`{"id":"INC-7","outcome":"wrong","input":{"q":"?"},"disposition":"positive","expected":{"answer":"hello"},"pager":true}`))
	f.must(err)
	files, err := incident.Draft(&Person{Identity: "alice"}, &Person{Identity: "bob"}, now)
	f.must(err)
	for name, data := range files {
		f.write("bench/greet/cases-pending/INC-7/"+name, data)
	}
	v := f.accepts()
	if v.Digest() != before || len(v.Cases()) != 2 {
		t.Errorf("the draft changed the bench: %d cases", len(v.Cases()))
	}
	c, err := f.load().Pending("INC-7")
	f.must(err)
	if !c.Pending || c.Provenance.Source != RegressionConverted || c.IncidentWarning() == "" {
		t.Errorf("draft %+v", c.Case)
	}
	if ids := f.load().PendingIDs(); !slices.Equal(ids, []string{"INC-7"}) {
		t.Errorf("pending %v", ids)
	}
	// A draft that cannot even be decoded does no harm.
	f.write("bench/greet/cases-pending/INC-7/case.yaml", []byte("][\n"))
	f.accepts()
	// The same folder among the cases is refused until two people signed.
	f.write("bench/greet/cases-pending/INC-7/case.yaml", files[CaseFile])
	f.must(os.Rename(f.path("bench/greet/cases-pending/INC-7"), f.path("bench/greet/cases/INC-7")))
	f.refuses(refusal.BenchCaseDigestMismatch, "case INC-7")
}

func TestIncidentsAreStrict(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"no id", `{"outcome":"x","input":1}`, "id is missing"},
		{"an id that is a path", `{"id":"../../x","outcome":"x","input":1}`, "id: the name"},
		{"no outcome", `{"id":"a","input":1}`, "outcome is missing"},
		{"no input", `{"id":"a","outcome":"x"}`, "input is missing"},
		{"a key twice", `{"id":"a","id":"b","outcome":"x","input":1}`, "duplicate"},
		{"another disposition", `{"id":"a","outcome":"x","input":1,"disposition":"great"}`, "disposition: found"},
		{"a number for an outcome", `{"id":"a","outcome":7,"input":1}`, "outcome:"},
		{"no object", `[]`, "found an array"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseIncident("x.json", []byte(tt.json))
			requireRefusal(t, err, refusal.Malformed, "x.json", tt.want)
		})
	}
	i, err := ParseIncident("x.json", []byte(`{"id":"a","outcome":"x","input":"text","expected":["no","mapping"]}`))
	if err != nil {
		t.Fatal(err)
	}
	files, err := i.Draft(nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if string(files["expected/expected.json"]) != `["no","mapping"]` || i.Disposition != Ambiguous || bytes.Contains(files[CaseFile], []byte("expected:")) {
		t.Errorf("draft %s", files[CaseFile])
	}
}

func TestLargeCassettesGoToTheStoreAndAreComparedAgain(t *testing.T) {
	f := newFixture(t)
	large := bytes.Repeat([]byte("recording "), keptCassette/10+1)
	f.write("cassettes/greet/hard.cassette.zst", large)
	f.seal()
	f.opt.Blobs = store.NewBlobs(store.OS{}, f.path(".tally/evidence/cassettes"))
	c := f.accepts().Cases()[1].draft.Cassette
	if data, err := c.Data(); err != nil || !bytes.Equal(data, large) || c.data != nil {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	name := strings.TrimPrefix(c.Digest.String(), "blake3:")
	f.flip(".tally/evidence/cassettes/" + name[:2] + "/" + name)
	_, err := c.Data()
	requireRefusal(t, err, refusal.DigestMismatch)
}

func TestAcceptancesComeFromTheLedger(t *testing.T) {
	signers := signersFile(t)
	signed, other := digest.IDOf([]byte("signed")), digest.IDOf([]byte("other"))
	a := &Acceptances{}
	record := func(body evidence.Body, month int, manual bool) {
		t.Helper()
		if err := a.Visit(ledger.Record{Body: body, Envelope: evidence.Envelope{Time: evidence.At(date(1).AddDate(0, month-1, 0)), Manual: manual}}); err != nil {
			t.Fatal(err)
		}
	}
	record(&evidence.Opened{Signers: string(signers.Bytes())}, 1, false)
	record(&evidence.CaseAccepted{Class: "greet", CaseID: "hard", Signed: other}, 2, true) // appended by hand
	record(&evidence.CaseAccepted{Class: "greet", CaseID: "hard", Signed: signed}, 3, false)
	record(&evidence.CaseAccepted{Class: "greet", CaseID: "hard", Signed: signed}, 5, false)
	if at, ok := a.AcceptedAt("greet", "hard", signed); !ok || !at.Equal(date(3)) {
		t.Errorf("accepted at %v, %v; the first entry counts", at, ok)
	}
	if s := a.SignersThen("greet", "hard", signed); s == nil || s.Digest() != signers.Digest() {
		t.Errorf("signers then %v", s)
	}
	for _, key := range []struct {
		class, id string
		signed    digest.ID
	}{{"greet", "hard", other}, {"greet", "easy", signed}, {"other", "hard", signed}} {
		if at, ok := a.AcceptedAt(key.class, key.id, key.signed); ok {
			t.Errorf("%v is accepted at %v", key, at)
		}
	}
}

// Every changed bit of a class is refused, or is in a place that means
// nothing: then what was signed is the same.
func TestNoChangedBitGoesUnnoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	f := newFixture(t)
	honest := f.accepts().Digest()
	meaningless := 0
	for _, name := range []string{
		"registration.yaml", "manifest.yaml", "manifest.yaml.sig", "rubric.star", "rubric/words.star", "dataset.jsonl",
		"cases/digests.yaml", "cases/hard/case.yaml", "cases/hard/input/prompt.txt", "cases/hard/expected/answer.txt",
	} {
		data := f.read("bench/greet/" + name)
		step := 1
		if len(data) > 150 {
			step = len(data) / 150 // keeps the test short
		}
		for i := len(data) % step; i < len(data); i += step {
			changed := slices.Clone(data)
			changed[i] ^= 1 << (i % 8)
			f.write("bench/greet/"+name, changed)
			v, err := f.verify()
			switch {
			case err != nil:
			case strings.HasSuffix(name, ".yaml") && v.Digest() == honest:
				meaningless++
			default:
				t.Errorf("%s: byte %d changed from %q to %q and no check noticed", name, i, data[i], changed[i])
			}
		}
		f.write("bench/greet/"+name, data)
	}
	f.accepts()
	t.Logf("%d changes were in comments and white space", meaningless)
}

// The commands that docs/formats/case.md gives reproduce a case digest and a
// rubric digest with tar and b3sum; the second is stood in for here.
func TestTarReproducesTheDigests(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("tar is not installed")
	}
	f := newFixture(t)
	for _, tt := range []struct{ dir, files, want string }{
		{"bench/greet/cases/hard", "find . -type f ! -path ./case.yaml", f.accepts().Cases()[1].Digest().String()},
		{"bench/greet", "find rubric.* rubric -type f", f.accepts().Rubric().Digest.String()},
	} {
		script := tt.files + ` -print | sed 's,^\./,,' | LC_ALL=C sort | tar --format=ustar --mode=0644 --owner=:0 --group=:0 --numeric-owner --mtime=@0 --no-recursion -b 1 -cf - -T -`
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = f.path(tt.dir)
		out, err := cmd.Output()
		if got := digest.ContentOf(out).String(); err != nil || got != tt.want {
			t.Errorf("%s: tar gives %s, want %s, %v", tt.dir, got, tt.want, err)
		}
	}
}

func TestStatusSaysWhatIsMissingAndWhoMaySign(t *testing.T) {
	f := newFixture(t)
	status := func() string {
		t.Helper()
		missing, err := f.load().Status(f.root, f.opt)
		f.must(err)
		var lines []string
		for _, m := range missing {
			lines = append(lines, fmt.Sprintf("%s: %s %v", m.What, m.Why, m.Who))
		}
		return strings.Join(lines, "\n")
	}
	if got := status(); got != "" {
		t.Errorf("nothing is missing, got %s", got)
	}
	f.setPeople("hard", nil, &Person{Identity: "carol"})
	f.remove("bench/greet/manifest.yaml.sig")
	got := status()
	for _, want := range []string{"case hard: reviewed_by carol has not signed [carol]", "manifest.yaml: not signed, needs 2 of"} {
		if !strings.Contains(got, want) {
			t.Errorf("the status does not say %q:\n%s", want, got)
		}
	}
}

func TestEditKeepsWhatPeopleWrote(t *testing.T) {
	source := []byte("# top\ncase_id: a # the id\nprovenance:\n  # who\n  added_by:\n    identity: x\n    signature: |\n      old\n      lines\n\n  # when\n  added_at: when\n# end\nexpected: {a: 1}\n\n# tail\n")
	out, err := setMember("x", source, []string{"provenance"}, "added_by", "added_by:\n  identity: \"z\"")
	if err != nil {
		t.Fatal(err)
	}
	want := "# top\ncase_id: a # the id\nprovenance:\n  # who\n  added_by:\n    identity: \"z\"\n\n  # when\n  added_at: when\n# end\nexpected: {a: 1}\n\n# tail\n"
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out, err = setMember("x", source, nil, "case_digest", `case_digest: "d"`)
	if err != nil || !strings.Contains(string(out), "expected: {a: 1}\ncase_digest: \"d\"\n\n# tail\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := setMember("x", []byte("provenance: {added_at: when}\n"), []string{"provenance"}, "added_by", "added_by: z"); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("a mapping on one line: %v", err)
	}
}

func TestClassesThatLookAlikeAreRefused(t *testing.T) {
	f := newFixture(t)
	if taken, err := Taken(f.root, "gr33t"); err != nil || taken != "" {
		t.Errorf("gr33t is taken by %q, %v", taken, err)
	}
	for _, name := range []string{"greet", "GREET"} {
		if taken, err := Taken(f.root, name); err != nil || taken != "greet" {
			t.Errorf("%s is taken by %q, %v", name, taken, err)
		}
	}
	f.write("bench/Greet/registration.yaml", exampleRegistration("Greet", Signed, ""))
	_, err := Classes(f.root)
	requireRefusal(t, err, refusal.TaskClassAlreadyRegistered, "class greet", "looks like class Greet")
	f.remove("bench/Greet")
	f.write("bench/notes.txt", []byte("x"))
	_, err = Classes(f.root)
	requireRefusal(t, err, refusal.BenchTreeInvalid, "bench/notes.txt")
}

func TestDatasetLinesAreStrict(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"no newline at the end", `{"id":"a"}`, "no newline"},
		{"a line that is not an object", "[1]\n", "dataset.jsonl:1:"},
		{"no id", "{\"id\":\"a\"}\n{\"x\":1}\n", `dataset.jsonl:2:1: there is no "id"`},
		{"an id twice", "{\"id\":\"a\"}\n{\"id\":\"a\"}\n", `dataset.jsonl:2: the id "a" is that of line 1`},
		{"an id that looks like another", "{\"id\":\"a1\"}\n{\"id\":\"al\"}\n", `dataset.jsonl:2: the id "al" looks like "a1" in line 1`},
		{"a key twice", "{\"id\":\"a\",\"id\":\"b\"}\n", "dataset.jsonl:1:"},
		{"an empty line", "{\"id\":\"a\"}\n\n", "dataset.jsonl:2:"},
		{"a number for an id", "{\"id\":1}\n", `dataset.jsonl:1:1: the "id" is 1, expected a text`},
		{"nothing", "\n", "dataset.jsonl:1:1: the line is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("bench/greet/dataset.jsonl", []byte(tt.lines))
			f.refuses(refusal.Malformed, "class greet", tt.want)
		})
	}
}

func TestMalformedKeysOfCertificatesAndOthersNeverPanic(t *testing.T) {
	f := newFixture(t)
	f.setPeople("hard", &Person{"alice", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"}, nil)
	f.refuses(refusal.SignatureInvalid, "case hard")
	if kept := KeepSignatures([][]byte{[]byte("x"), f.sign("bob", seal.NamespaceBench, []byte("m")), f.sign("bob", seal.NamespaceBench, []byte("m")), f.sign("mallory", seal.NamespaceBench, []byte("m"))}, []byte("m"), f.opt); len(kept) != 1 {
		t.Errorf("kept %d signatures, want bob's once", len(kept))
	}
}

// BenchmarkVerify verifies a class of 100 signed cases, reading included.
func BenchmarkVerify(b *testing.B) {
	f := newFixture(b)
	for i := range 98 {
		f.addCase(fmt.Sprintf("case-%d", i+200))
	}
	f.seal()
	for b.Loop() {
		f.accepts()
	}
}
