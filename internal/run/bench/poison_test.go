package bench

import (
	"crypto/rand"
	"encoding"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

const (
	greetingYAML = "bench/greet/cases/greeting/case.yaml"
	hardYAML     = "bench/greet/cases/hard/case.yaml"
)

// Each forgery is refused by its name, and the refusal says where.
func TestVerifyRefusesEachForgery(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	for _, tt := range []struct {
		name   string
		poison func(f *fixture)
		want   refusal.Name
		texts  []string
	}{
		{"one bit of an expected file", func(f *fixture) { f.flip("bench/greet/cases/hard/expected/answer.txt") },
			refusal.BenchCaseDigestMismatch, []string{"class greet", "case hard", "cases/digests.yaml says blake3:"}},
		{"one bit of an input", func(f *fixture) { f.flip("bench/greet/cases/greeting/input/prompt.txt") },
			refusal.BenchCaseDigestMismatch, []string{"case greeting"}},
		{"a file added to a case", func(f *fixture) { f.write("bench/greet/cases/hard/input/hint.txt", []byte("goodbye")) },
			refusal.BenchCaseDigestMismatch, []string{"case hard"}},
		{"a file removed from a case", func(f *fixture) { f.remove("bench/greet/cases/hard/expected/answer.txt") },
			refusal.BenchCaseDigestMismatch, []string{"case hard"}},
		{"a file and its pin", func(f *fixture) {
			f.write("bench/greet/cases/hard/expected/answer.txt", []byte("hello\n"))
			_, digests, err := f.load().Compute()
			f.must(err)
			f.write("bench/greet/cases/digests.yaml", digests.Format())
		}, refusal.BenchCaseDigestMismatch, []string{"case hard", "field case_digest"}},
		{"a file, its pin and its case_digest", func(f *fixture) {
			old := f.read(hardYAML)
			f.write("bench/greet/cases/hard/expected/answer.txt", []byte("hello\n"))
			f.digestCases()
			f.restoreSignatures("hard", old)
		}, refusal.SignatureInvalid, []string{"case hard", "added_by alice"}},
		{"everything digested anew without the signers", func(f *fixture) {
			f.write("bench/greet/cases/hard/expected/answer.txt", []byte("hello\n"))
			f.digestCases()
		}, refusal.TwoPersonRule, []string{"case hard", "alice has not signed"}},
		{"a case re-signed and the manifest left", func(f *fixture) {
			f.write("bench/greet/cases/hard/expected/answer.txt", []byte("hello\n"))
			f.digestCases()
			f.signCase("hard", "alice", "carol")
		}, refusal.ManifestMismatch, []string{"case hard", "manifest.yaml says sha256:"}},
		{"a pinned digest", func(f *fixture) { f.editDigit("bench/greet/cases/digests.yaml", "\"hard\": \"blake3:") },
			refusal.BenchCaseDigestMismatch, []string{"case hard"}},
		{"a pin removed", func(f *fixture) {
			d := f.load().Digests
			delete(d.Cases, "hard")
			f.write("bench/greet/cases/digests.yaml", d.Format())
		}, refusal.BenchCaseDigestMismatch, []string{"case hard", "does not list"}},
		{"a pin for a case that is not there", func(f *fixture) {
			d := f.load().Digests
			d.Cases["ghost"] = digest.Content{1}
			f.write("bench/greet/cases/digests.yaml", d.Format())
		}, refusal.BenchCaseDigestMismatch, []string{"case ghost", "no such folder"}},
		{"the pins of the cases removed", func(f *fixture) { f.remove("bench/greet/cases/digests.yaml") },
			refusal.BenchIncomplete, []string{"cases/digests.yaml"}},
		{"no case_digest, and signed so", func(f *fixture) {
			data, err := setMember(hardYAML, f.read(hardYAML), nil, "case_digest", "")
			f.must(err)
			f.write(hardYAML, data)
			f.signCase("hard", "alice", "carol")
			f.sealManifest("alice", "bob")
		}, refusal.BenchCaseDigestMismatch, []string{"case hard", "no case_digest"}},
		{"one bit of a signature", func(f *fixture) { f.flipSignature("hard", "added_by") },
			refusal.SignatureInvalid, []string{"case hard", "added_by alice"}},
		{"one bit of the second signature", func(f *fixture) { f.flipSignature("hard", "reviewed_by") },
			refusal.SignatureInvalid, []string{"case hard", "reviewed_by carol"}},
		{"a random text for a signature", func(f *fixture) {
			f.setPeople("hard", &Person{"alice", "MEUCIQ\n"}, nil)
		}, refusal.SignatureInvalid, []string{"case hard", "added_by alice"}},
		{"a missing signature", func(f *fixture) { f.setPeople("hard", nil, &Person{Identity: "carol"}) },
			refusal.TwoPersonRule, []string{"case hard", "reviewed_by carol has not signed"}},
		{"not reviewed", func(f *fixture) { f.dropPerson("hard", "reviewed_by") },
			refusal.TwoPersonRule, []string{"case hard", "only added_by"}},
		{"signatures of another case", func(f *fixture) { f.restoreSignatures("hard", f.read(greetingYAML)) },
			refusal.SignatureInvalid, []string{"case hard", "added_by alice"}},
		{"the two signatures swapped", func(f *fixture) {
			c, err := f.load().Case("hard")
			f.must(err)
			a, r := *c.Provenance.AddedBy, *c.Provenance.ReviewedBy
			a.Signature, r.Signature = r.Signature, a.Signature
			f.setPeople("hard", &a, &r)
		}, refusal.SignatureInvalid, []string{"case hard", "added_by is alice, the signature there is by carol"}},
		{"the same person twice", func(f *fixture) { f.rename("hard", "alice", "alice") },
			refusal.TwoPersonRule, []string{"case hard", "both alice"}},
		{"the same person in another case", func(f *fixture) { f.rename("hard", "alice", "ALICE") },
			refusal.TwoPersonRule, []string{"case hard"}},
		{"the same key twice", func(f *fixture) { f.signCase("hard", "alice", "alice") },
			refusal.SignatureInvalid, []string{"case hard", "reviewed_by is carol, the signature there is by alice"}},
		{"added by a person who is not a curator", func(f *fixture) { f.rename("hard", "carol", "bob") },
			refusal.RoleMissing, []string{"case hard", "added_by carol holds the role security, needs the role curator"}},
		{"reviewed by an operator", func(f *fixture) { f.rename("hard", "alice", "dave") },
			refusal.RoleMissing, []string{"case hard", "reviewed_by dave holds the role operator, needs the role curator or security"}},
		{"signed by a stranger", func(f *fixture) { f.rename("hard", "alice", "mallory") },
			refusal.SignerUnknown, []string{"case hard", "reviewed_by mallory"}},
		{"signed with a key that has expired", func(f *fixture) { f.rename("hard", "erin", "bob") },
			refusal.SignerNotValidThen, []string{"case hard", "added_by erin"}},
		{"signed with a key that is not valid yet", func(f *fixture) { f.rename("hard", "frank", "bob") },
			refusal.SignerNotValidThen, []string{"case hard", "added_by frank"}},
		{"signed for another act", func(f *fixture) {
			c, err := f.load().Case("hard")
			f.must(err)
			message, err := c.Message()
			f.must(err)
			f.setPeople("hard", &Person{"alice", string(f.sign("alice", seal.NamespaceBench, message))}, nil)
		}, refusal.NamespaceNotAllowed, []string{"case hard", "added_by alice"}},
		{"a case of another class", func(f *fixture) {
			c, err := f.load().Case("hard")
			f.must(err)
			message, err := c.message("other", c.Digest)
			f.must(err)
			f.setPeople("hard", &Person{"alice", string(f.sign("alice", seal.NamespaceCase, message))}, &Person{"carol", string(f.sign("carol", seal.NamespaceCase, message))})
		}, refusal.SignatureInvalid, []string{"case hard", "added_by alice"}},

		{"one bit of the rubric", func(f *fixture) { f.edit("bench/greet/rubric.star", `1.0 if passed`, `1.0 if True`) },
			refusal.RubricDigestMismatch, []string{"class greet", "rubric.star", "manifest.yaml says blake3:"}},
		{"one bit of a helper", func(f *fixture) { f.flip("bench/greet/rubric/words.star") },
			refusal.RubricDigestMismatch, nil},
		{"a helper that would take the rubric's place", func(f *fixture) { f.write("bench/greet/rubric/rubric.star", []byte("X = 1\n")) },
			refusal.BenchTreeInvalid, []string{"rubric/rubric.star"}},
		{"a helper added", func(f *fixture) { f.write("bench/greet/rubric/more.star", []byte("X = 1\n")) },
			refusal.RubricDigestMismatch, nil},
		{"the rubric removed", func(f *fixture) { f.remove("bench/greet/rubric.star") },
			refusal.BenchIncomplete, []string{"rubric.star"}},
		{"a second rubric", func(f *fixture) { f.write("bench/greet/rubric.py", []byte("print(1)\n")) },
			refusal.BenchTreeInvalid, []string{"rubric.py"}},
		{"a threshold in the registration", func(f *fixture) {
			f.edit("bench/greet/registration.yaml", "bronze: {lower_bound_95: 0.6,", "bronze: {lower_bound_95: 0.1,")
		}, refusal.RegistrationDigestMismatch, []string{"registration.yaml"}},
		{"the tier in the registration", func(f *fixture) {
			f.edit("bench/greet/registration.yaml", "current_tier: bronze", "current_tier: gold")
		}, refusal.RegistrationDigestMismatch, nil},
		{"one bit of the dataset", func(f *fixture) { f.edit("bench/greet/dataset.jsonl", "line-two", "line-six") },
			refusal.DatasetDigestMismatch, []string{"dataset.jsonl"}},
		{"the dataset removed", func(f *fixture) { f.remove("bench/greet/dataset.jsonl") },
			refusal.DatasetDigestMismatch, []string{"absent"}},
		{"a swapped cassette", func(f *fixture) { f.write("cassettes/greet/hard.cassette.zst", []byte("the right answer")) },
			refusal.CassetteDigestMismatch, []string{"case hard", "cassettes/greet/hard.cassette.zst", "field cassette_digest says"}},
		{"one bit of a cassette", func(f *fixture) { f.flip("cassettes/greet/hard.cassette.zst") },
			refusal.CassetteDigestMismatch, []string{"case hard"}},
		{"a cassette removed", func(f *fixture) { f.remove("cassettes/greet/hard.cassette.zst") },
			refusal.CassetteDigestMismatch, []string{"case hard", "there is no"}},
		{"a cassette for a case that has none", func(f *fixture) { f.write("cassettes/greet/greeting.cassette.zst", []byte("x")) },
			refusal.CassetteDigestMismatch, []string{"case greeting"}},
		{"a link in place of a cassette", func(f *fixture) {
			f.write("elsewhere", []byte("a recording"))
			f.link("../../elsewhere", "cassettes/greet/hard.cassette.zst")
		}, refusal.BenchTreeInvalid, []string{"case hard", "link"}},

		{"a hard case dropped", func(f *fixture) {
			f.remove("bench/greet/cases/hard")
			f.remove("cassettes/greet/hard.cassette.zst")
			_, digests, err := f.load().Compute()
			f.must(err)
			f.write("bench/greet/cases/digests.yaml", digests.Format())
		}, refusal.ManifestMismatch, []string{"case hard", "no such folder"}},
		{"a hard case dropped from the manifest too", func(f *fixture) {
			f.remove("bench/greet/cases/hard")
			f.remove("cassettes/greet/hard.cassette.zst")
			manifest, digests, err := f.load().Compute()
			f.must(err)
			f.write("bench/greet/cases/digests.yaml", digests.Format())
			f.write("bench/greet/manifest.yaml", manifest.Format())
		}, refusal.SignatureInvalid, []string{"manifest.yaml", "signature 1 of 2"}},
		{"an easy case added without a manifest", func(f *fixture) { f.addCase("easy"); f.digestCases(); f.signCase("easy", "alice", "bob") },
			refusal.ManifestMismatch, []string{"case easy", "does not list it"}},
		{"the manifest removed", func(f *fixture) { f.remove("bench/greet/manifest.yaml") },
			refusal.BenchIncomplete, []string{"manifest.yaml"}},
		{"the manifest's signatures removed", func(f *fixture) { f.remove("bench/greet/manifest.yaml.sig") },
			refusal.TwoPersonRule, []string{"manifest.yaml", "not signed"}},
		{"the manifest of a rubric that was changed", func(f *fixture) {
			f.edit("bench/greet/rubric.star", `1.0 if passed`, `1.0 if True`)
			manifest, _, err := f.load().Compute()
			f.must(err)
			f.write("bench/greet/manifest.yaml", manifest.Format())
		}, refusal.SignatureInvalid, []string{"manifest.yaml"}},
		{"a digit of the manifest's rubric", func(f *fixture) { f.editDigit("bench/greet/manifest.yaml", "rubric: \"blake3:") },
			refusal.RubricDigestMismatch, nil},
		{"a digit of the manifest's registration", func(f *fixture) { f.editDigit("bench/greet/manifest.yaml", "registration: \"blake3:") },
			refusal.RegistrationDigestMismatch, nil},
		{"a digit of the manifest's dataset", func(f *fixture) { f.editDigit("bench/greet/manifest.yaml", "dataset: \"blake3:") },
			refusal.DatasetDigestMismatch, nil},
		{"a digit of a case in the manifest", func(f *fixture) { f.editDigit("bench/greet/manifest.yaml", "\"hard\": {signed: \"sha256:") },
			refusal.ManifestMismatch, []string{"case hard"}},
		{"a digit of a cassette in the manifest", func(f *fixture) { f.editDigit("bench/greet/manifest.yaml", "cassette: \"blake3:") },
			refusal.CassetteDigestMismatch, []string{"case hard"}},
		{"the manifest signed by one person twice", func(f *fixture) { f.sealManifest("bob", "bob") },
			refusal.TwoPersonRule, []string{"manifest.yaml", "signed by bob"}},
		{"the manifest signed by two without the security role", func(f *fixture) { f.sealManifest("alice", "heidi") },
			refusal.RoleMissing, []string{"manifest.yaml", "security"}},
		{"the manifest signed by one person and the machine's own key", func(f *fixture) { f.sealManifest("bob", "dave") },
			refusal.TwoPersonRule, []string{"manifest.yaml", "signed by bob, dave", "needs 2 of"}},
		{"the manifest signed by a stranger too", func(f *fixture) { f.sealManifest("alice", "bob", "mallory") },
			refusal.SignerUnknown, []string{"manifest.yaml", "signature 3 of 3"}},
		{"the manifest signed with an expired key", func(f *fixture) { f.sealManifest("erin", "bob") },
			refusal.SignerNotValidThen, []string{"manifest.yaml"}},
		{"one bit of the manifest's signature", func(f *fixture) { f.flip("bench/greet/manifest.yaml.sig") },
			refusal.SignatureInvalid, []string{"manifest.yaml"}},
		{"the pins' signature on the manifest", func(f *fixture) { f.write("bench/greet/manifest.yaml.sig", f.read(PinsFile+".sig")) },
			refusal.SignatureInvalid, []string{"manifest.yaml"}},
		{"the manifest of another class", func(f *fixture) { f.edit("bench/greet/manifest.yaml", `class: "greet"`, `class: "other"`) },
			refusal.Malformed, []string{"manifest.yaml:4:1", `"other"`, `"greet"`}},

		{"a digit of the pins", func(f *fixture) { f.editDigit(PinsFile, "digest: \"blake3:") },
			refusal.SignatureInvalid, []string{PinsFile}},
		{"the class removed from the pins", func(f *fixture) { f.edit(PinsFile, "classes:\n  - \"greet\"", "classes: []") },
			refusal.SignatureInvalid, []string{PinsFile}},
		{"pins that do not list the class, signed", func(f *fixture) {
			f.edit(PinsFile, "classes:\n  - \"greet\"", "classes: []")
			f.sealPins("alice", "bob")
		}, refusal.PinMismatch, []string{PinsFile}},
		{"the pins signed by one", func(f *fixture) { f.sealPins("bob") },
			refusal.TwoPersonRule, []string{PinsFile}},
		{"the pins signed without the security role", func(f *fixture) { f.sealPins("alice", "heidi") },
			refusal.RoleMissing, []string{PinsFile}},

		{"the pins removed", func(f *fixture) {
			f.remove(PinsFile)
			f.remove(PinsFile + ".sig")
		}, refusal.BenchIncomplete, []string{PinsFile}},

		{"a line of the dataset that looks like a case", func(f *fixture) {
			f.write("bench/greet/dataset.jsonl", []byte("{\"id\":\"first\"}\n{\"id\":\"Hard\"}\n"))
		}, refusal.Malformed, []string{"dataset.jsonl:2", `"Hard"`, "case folder hard"}},
		{"a link to outside in a case", func(f *fixture) {
			f.link("/etc/hostname", "bench/greet/cases/hard/expected/answer.txt")
		}, refusal.BenchTreeInvalid, []string{"cases/hard/expected/answer.txt", "symbolic link"}},
		{"a link to inside", func(f *fixture) {
			f.link("answer.txt", "bench/greet/cases/hard/expected/copy.txt")
		}, refusal.BenchTreeInvalid, []string{"cases/hard/expected/copy.txt"}},
		{"a case that is a link", func(f *fixture) {
			f.must(os.Rename(f.path("bench/greet/cases/hard"), f.path("hidden")))
			f.link("../../../hidden", "bench/greet/cases/hard")
		}, refusal.BenchTreeInvalid, []string{"cases/hard"}},
		{"a class that is a link", func(f *fixture) {
			f.must(os.Rename(f.path("bench/greet"), f.path("hidden")))
			f.link("../hidden", "bench/greet")
		}, refusal.BenchTreeInvalid, []string{"bench/greet"}},
		{"a folder that is not a case", func(f *fixture) { f.write("bench/greet/cases/notes/todo.txt", []byte("x")) },
			refusal.BenchTreeInvalid, []string{"case notes", "no case.yaml"}},
		{"an empty folder among the cases", func(f *fixture) { f.must(os.Mkdir(f.path("bench/greet/cases/empty"), 0o755)) },
			refusal.BenchTreeInvalid, []string{"case empty", "no case.yaml"}},
		{"a file among the cases", func(f *fixture) { f.write("bench/greet/cases/easy.yaml", []byte("x")) },
			refusal.BenchTreeInvalid, []string{"cases/easy.yaml"}},
		{"a file that belongs to nothing", func(f *fixture) { f.write("bench/greet/promotion.yaml", []byte("tier: gold")) },
			refusal.BenchTreeInvalid, []string{"promotion.yaml"}},
		{"an odd name", func(f *fixture) { f.write("bench/greet/cases/hard/input/a\u202eb.txt", []byte("x")) },
			refusal.BenchTreeInvalid, []string{"invisible"}},
		{"an id that looks like another", func(f *fixture) { f.addCase("farm-1"); f.addCase("farrn_I") },
			refusal.BenchTreeInvalid, []string{"case farrn_I", "looks like case farm-1"}},
		{"an id in other case", func(f *fixture) { f.addCase("HARD") },
			refusal.BenchTreeInvalid, []string{"cases/hard", "cases/HARD"}},
		{"an id that is not ASCII", func(f *fixture) { f.addCase("hаrd") }, // a Cyrillic letter
			refusal.BenchTreeInvalid, []string{"case hаrd"}},
		{"an id of another case", func(f *fixture) { f.edit(hardYAML, "case_id: hard", "case_id: easy") },
			refusal.Malformed, []string{"case hard", "cases/hard/case.yaml:2:1", `found "easy", the folder is "hard"`}},
		{"another class in the registration", func(f *fixture) { f.edit("bench/greet/registration.yaml", `class: "greet"`, `class: "other"`) },
			refusal.Malformed, []string{"registration.yaml:", "other"}},
		{"all cases removed", func(f *fixture) {
			f.remove("bench/greet/cases")
			f.remove("bench/greet/dataset.jsonl")
		}, refusal.BenchIncomplete, []string{"no cases"}},
		{"the trust turned to scratch", func(f *fixture) { f.edit("bench/greet/registration.yaml", "trust: signed", "trust: scratch") },
			refusal.RegistrationDigestMismatch, nil},
		{"a class that sheds its signatures", func(f *fixture) {
			f.edit("bench/greet/registration.yaml", "trust: signed", "trust: scratch")
			f.remove("bench/greet/manifest.yaml")
			f.remove("bench/greet/manifest.yaml.sig")
		}, refusal.PinMismatch, []string{PinsFile, "trust scratch"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			tt.poison(f)
			f.refuses(tt.want, append(tt.texts, "greet")...)
		})
	}
}

// A signer whom no quorum let in counts for nothing, whatever the file beside
// the cases says: who is trusted comes from the caller.
func TestVerifyRefusesASignerAddedWithoutTwoSignatures(t *testing.T) {
	f := newFixture(t)
	entries := append(f.opt.Signers.Entries(), seal.Entry{Principals: "mallory", Key: keyOf(t, "mallory").Public(), Roles: []seal.Role{seal.Curator, seal.Security}})
	data, err := seal.Compose(2, f.opt.Signers.Digest(), entries)
	f.must(err)
	if _, err := seal.Extend(f.opt.Signers, data, [][]byte{f.sign("mallory", seal.NamespaceSigners, data), f.sign("alice", seal.NamespaceSigners, data)}, now); err == nil {
		t.Fatal("a signer let himself in")
	}
	f.rename("hard", "mallory", "bob")
	f.refuses(refusal.SignerUnknown, "case hard", "added_by mallory")
}

// A case is judged at its place in the ledger and not now: an expired key does
// not orphan what it signed, and a new key cannot vouch for the past.
func TestCaseIsJudgedWhenItWasAccepted(t *testing.T) {
	accepted := func(at time.Time) func(string, string, digest.ID) (time.Time, bool) {
		return func(class, id string, _ digest.ID) (time.Time, bool) {
			return at, class == "greet" && id == "hard"
		}
	}
	t.Run("expired now, valid then", func(t *testing.T) {
		f := newFixture(t)
		f.rename("hard", "erin", "bob")
		f.sealManifest("alice", "bob")
		f.refuses(refusal.SignerNotValidThen, "case hard", "erin")
		f.opt.AcceptedAt = accepted(date(1).AddDate(0, 0, 14))
		f.accepts()
	})
	t.Run("valid now, not yet valid then", func(t *testing.T) {
		f := newFixture(t)
		f.rename("hard", "frank", "bob")
		f.sealManifest("alice", "bob")
		f.opt.Now = date(8)
		f.accepts()
		f.opt.AcceptedAt = accepted(date(6))
		f.refuses(refusal.SignerNotValidThen, "case hard", "frank")
	})
	t.Run("accepted in another form", func(t *testing.T) {
		f := newFixture(t)
		f.rename("hard", "erin", "bob")
		f.sealManifest("alice", "bob")
		c, err := f.load().Case("hard")
		f.must(err)
		message, err := c.Message()
		f.must(err)
		f.opt.AcceptedAt = func(_, _ string, signed digest.ID) (time.Time, bool) {
			return date(1).AddDate(0, 0, 14), signed != digest.IDOf(message)
		}
		f.refuses(refusal.SignerNotValidThen, "case hard", "erin")
	})
	t.Run("by the people in force then", func(t *testing.T) {
		f := newFixture(t)
		var without []seal.Entry
		for _, e := range f.opt.Signers.Entries() {
			if e.Principals != "carol" {
				without = append(without, e)
			}
		}
		then := f.opt.Signers
		data, err := seal.Compose(2, then.Digest(), without)
		f.must(err)
		f.opt.Signers, err = seal.ParseSigners("signers", data)
		f.must(err)
		f.refuses(refusal.SignerUnknown, "case hard", "carol")
		f.opt.AcceptedAt = accepted(date(5))
		f.opt.SignersThen = func(_, _ string, _ digest.ID) *seal.Signers { return then }
		f.accepts()
	})
}

// otherValue gives fields with a closed list of words another word of it, so
// that what refuses the change is a signature and not the form.
var otherValue = map[string]any{
	"schema_version":             2, // there is only one
	"disposition":                "positive",
	"difficulty":                 "easy",
	"cassette_provenance":        "authored",
	"cassettes.robot.provenance": "edited",
	"provenance.source":          "regression-converted",
	"provenance.source_ref.type": "commit",
	"provenance.added_at":        "2026-05-11T14:00:00Z",
}

// refusedBy lists the fields whose change something notices before the
// signatures do.
var refusedBy = map[string]refusal.Name{
	"schema_version":         refusal.NewerFormat,
	"case_id":                refusal.Malformed,
	"case_digest":            refusal.BenchCaseDigestMismatch,
	"cassette_digest":        refusal.CassetteDigestMismatch,
	"cassettes.robot.digest": refusal.CassetteDigestMismatch,
}

// No field of case.yaml can change alone. The fields come from the type, so a
// new one is tested the day it is added, or this test says that it is not.
func TestNoFieldOfACaseChangesAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	f := newFixture(t)
	f.write("cassettes/greet/robot/hard.cassette.zst", []byte("of a robot"))
	f.seal()
	honest := f.read(hardYAML)
	c, err := f.load().Case("hard")
	f.must(err)
	encoded, err := c.encode()
	f.must(err)
	var doc map[string]any
	f.must(canon.Unmarshal(encoded, &doc))

	paths := leaves("", doc)
	for _, want := range fieldsOf(reflect.TypeFor[Case](), "") {
		if !slices.ContainsFunc(paths, func(p string) bool { return p == want || strings.HasPrefix(p, want+".") }) {
			t.Errorf("the field %s is not in the case that is tested: add it to fullCase", want)
		}
	}
	for _, p := range paths {
		t.Run(p, func(t *testing.T) {
			f.TB = t
			defer f.write(hardYAML, honest)
			want, ok := refusedBy[p]
			if !ok {
				want = refusal.SignatureInvalid
			}
			changed := change(t, doc, p)
			f.write(hardYAML, changed)
			f.refuses(want, "case hard")
		})
	}
	f.TB = t
	f.accepts()
}

// What is optional cannot be left out or put in afterwards either.
func TestNoFieldOfACaseIsDroppedOrAdded(t *testing.T) {
	f := newFixture(t)
	honest := f.read(hardYAML)
	c, err := f.load().Case("hard")
	f.must(err)
	encoded, err := c.encode()
	f.must(err)
	var doc map[string]any
	f.must(canon.Unmarshal(encoded, &doc))
	for _, p := range []string{"tags", "held_out", "expected", "rubric_limits", "expected.cve_delta", "tags.1"} {
		t.Run("without "+p, func(t *testing.T) {
			f.TB = t
			defer f.write(hardYAML, honest)
			f.write(hardYAML, withoutField(t, doc, p))
			f.refuses(refusal.SignatureInvalid, "case hard")
		})
	}
	f.TB = t
	for _, add := range []string{"tags: [easy]", "rubric_limits: {wall_clock_seconds: 300, memory_bytes: 4294967296}"} {
		honest := f.read(greetingYAML)
		f.write(greetingYAML, append(slices.Clone(honest), add+"\n"...))
		f.refuses(refusal.SignatureInvalid, "case greeting")
		f.write(greetingYAML, honest)
	}
}

// leaves lists the paths of everything in a document that is neither a mapping
// nor a list.
func leaves(path string, v any) []string {
	join := func(key string) string {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(keysOf(v)) {
			out = append(out, leaves(join(k), v[k])...)
		}
	case []any:
		for i, item := range v {
			out = append(out, leaves(join(strconv.Itoa(i)), item)...)
		}
	default:
		return []string{path}
	}
	return out
}

// fieldsOf lists the paths of all fields of a type.
func fieldsOf(t reflect.Type, path string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return []string{path}
	}
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if path != "" {
			name = path + "." + name
		}
		out = append(out, fieldsOf(t.Field(i).Type, name)...)
	}
	return out
}

// change returns the document with one leaf changed, as JSON, which is YAML.
func change(t *testing.T, doc map[string]any, path string) []byte {
	t.Helper()
	return rewrite(t, doc, path, func(old any) (any, bool) {
		if v, ok := otherValue[path]; ok {
			return v, true
		}
		switch old := old.(type) {
		case bool:
			return !old, true
		case float64:
			return old + 1, true
		case nil:
			return 0, true
		case string:
			switch {
			case strings.HasPrefix(old, "blake3:"):
				d, err := digest.ParseContent(old)
				if err != nil {
					t.Fatal(err)
				}
				d[0] ^= 1
				return d.String(), true
			case strings.HasSuffix(old, ":00Z"):
				return strings.TrimSuffix(old, ":00Z") + ":01Z", true
			case strings.HasPrefix(old, "-----BEGIN"):
				return flipBase64(old), true
			}
			return old + "x", true
		}
		t.Fatalf("%s is a %T", path, old)
		return nil, false
	})
}

func withoutField(t *testing.T, doc map[string]any, path string) []byte {
	t.Helper()
	return rewrite(t, doc, path, func(any) (any, bool) { return nil, false })
}

func rewrite(t *testing.T, doc map[string]any, path string, f func(any) (any, bool)) []byte {
	t.Helper()
	var walk func(v any, keys []string) any
	walk = func(v any, keys []string) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, x := range v {
				switch {
				case k != keys[0]:
					out[k] = x
				case len(keys) == 1:
					if y, keep := f(x); keep {
						out[k] = y
					}
				default:
					out[k] = walk(x, keys[1:])
				}
			}
			return out
		case []any:
			var out []any
			for i, x := range v {
				switch {
				case strconv.Itoa(i) != keys[0]:
					out = append(out, x)
				case len(keys) == 1:
					if y, keep := f(x); keep {
						out = append(out, y)
					}
				default:
					out = append(out, walk(x, keys[1:]))
				}
			}
			return out
		}
		t.Fatalf("no %s", path)
		return nil
	}
	data, err := canon.Marshal(walk(doc, strings.Split(path, ".")))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// flipBase64 changes a character in the middle of an armoured signature.
func flipBase64(armored string) string {
	b := []byte(armored)
	i := len(b) * 3 / 5
	for b[i] == '\n' {
		i++
	}
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func (f *fixture) flipSignature(id, field string) {
	f.Helper()
	c, err := f.load().Case(id)
	f.must(err)
	a, r := *c.Provenance.AddedBy, *c.Provenance.ReviewedBy
	if field == "added_by" {
		a.Signature = flipBase64(a.Signature)
	} else {
		r.Signature = flipBase64(r.Signature)
	}
	f.setPeople(id, &a, &r)
}

// setPeople writes people into a case as they are; nil leaves one alone.
func (f *fixture) setPeople(id string, added, reviewed *Person) {
	f.Helper()
	c, err := f.load().Case(id)
	f.must(err)
	if added == nil {
		added = c.Provenance.AddedBy
	}
	if reviewed == nil {
		reviewed = c.Provenance.ReviewedBy
	}
	data, err := c.WithPeople(added, reviewed)
	f.must(err)
	f.write("bench/greet/cases/"+id+"/case.yaml", data)
}

func (f *fixture) dropPerson(id, field string) {
	f.Helper()
	name := "bench/greet/cases/" + id + "/case.yaml"
	data, err := setMember(name, f.read(name), []string{"provenance"}, field, "")
	f.must(err)
	f.write(name, data)
}

// restoreSignatures puts the people of another case.yaml into a case.
func (f *fixture) restoreSignatures(id string, from []byte) {
	f.Helper()
	var c Case
	_, err := decode("case.yaml", from, &c)
	f.must(err)
	f.setPeople(id, c.Provenance.AddedBy, c.Provenance.ReviewedBy)
}

func (f *fixture) addCase(id string) {
	f.Helper()
	f.write("bench/greet/cases/"+id+"/case.yaml", NewCase(id, "Easy", &Person{Identity: "alice"}, &Person{Identity: "bob"}, now).YAML())
	f.write("bench/greet/cases/"+id+"/input/prompt.txt", []byte("x"))
}

// editDigit changes the first hexadecimal digit after a text.
func (f *fixture) editDigit(name, after string) {
	f.Helper()
	data := f.read(name)
	i := strings.Index(string(data), after)
	if i < 0 {
		f.Fatalf("no %q in %s", after, name)
	}
	i += len(after)
	if data[i] == '0' {
		data[i] = '1'
	} else {
		data[i] = '0'
	}
	f.write(name, data)
}

func (f *fixture) link(target, name string) {
	f.Helper()
	os.Remove(f.path(name))
	f.must(os.Symlink(filepath.FromSlash(target), f.path(name)))
}

// An authority of the signers file could certify one key under two names. That
// is still one key.
func TestVerifyRefusesOneKeyUnderTwoNames(t *testing.T) {
	f := newFixture(t)
	authority := keyOf(t, "authority")
	entries := append(f.opt.Signers.Entries(), seal.Entry{Principals: "*.staff", Authority: true, Key: authority.Public(), Roles: []seal.Role{seal.Curator}})
	data, err := seal.Compose(1, digest.ID{}, entries)
	f.must(err)
	f.opt.Signers, err = seal.ParseSigners("signers", data)
	f.must(err)
	certified := func(key, name string) ssh.Signer {
		t.Helper()
		public, err := ssh.NewPublicKey(keyOf(t, key).Ed25519().Public())
		f.must(err)
		cert := &ssh.Certificate{Key: public, CertType: ssh.UserCert, KeyId: name, ValidPrincipals: []string{name}, ValidBefore: ssh.CertTimeInfinity}
		f.must(cert.SignCert(rand.Reader, authority.Signer()))
		signer, err := seal.WithCertificate(keyOf(t, key).Signer(), ssh.MarshalAuthorizedKey(cert))
		f.must(err)
		return signer
	}
	sign := func(added, reviewed ssh.Signer) {
		t.Helper()
		f.setPeople("hard", &Person{Identity: "x.staff"}, &Person{Identity: "y.staff"})
		c, err := f.load().Case("hard")
		f.must(err)
		message, err := c.Message()
		f.must(err)
		a, err := seal.SignWith(added, seal.NamespaceCase, message)
		f.must(err)
		r, err := seal.SignWith(reviewed, seal.NamespaceCase, message)
		f.must(err)
		f.setPeople("hard", &Person{"x.staff", string(a)}, &Person{"y.staff", string(r)})
		f.sealManifest("alice", "bob")
	}
	sign(certified("x", "x.staff"), certified("y", "y.staff"))
	f.accepts()
	sign(certified("x", "x.staff"), certified("x", "y.staff"))
	f.refuses(refusal.DuplicateKey, "case hard")
}
