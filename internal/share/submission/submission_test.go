package submission

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

var update = flag.Bool("update", false, "write testdata/trajectories.jsonl")

// A lab writes a trajectory as the session does, and notes the texts as the
// harness does.
type lab struct {
	t     *testing.T
	log   *trajectory.Log
	notes evidence.Watched
	turn  int
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, log: trajectory.NewLog(), notes: evidence.Watched{Version: format.Version, Gold: true}}
	p := policy.ForMode(policy.Autonomous)
	l.event(&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
		Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t"})
	return l
}

func (l *lab) event(p trajectory.Payload) {
	l.t.Helper()
	if p.Type() == trajectory.TurnStartedType {
		l.turn++
	}
	if _, err := l.log.Append(l.turn, p, 0); err != nil {
		l.t.Fatal(err)
	}
}

// text stands for a text that has a secret where safe differs from it.
func (l *lab) text(raw, safe string, limit int, hits ...int64) trajectory.Content {
	c := trajectory.NewRedacted([]byte(raw), []byte(safe), limit)
	note := evidence.WatchedText{Bytes: int64(len(raw)), Digest: c.Digest, SHA256: sha256.Sum256([]byte(raw)), Hits: hits, HitCount: int64(len(hits)), Salted: raw != safe}
	l.notes.Texts = append(l.notes.Texts, note)
	return c
}

// args stands for arguments, in canonical JSON.
func (l *lab) args(raw string, hits ...int64) trajectory.Args {
	a := trajectory.NewArgs([]byte(raw))
	l.notes.Texts = append(l.notes.Texts, evidence.WatchedText{Bytes: a.Bytes, Digest: a.Digest, SHA256: sha256.Sum256([]byte(raw)), Hits: hits, HitCount: int64(len(hits))})
	return a
}

// story is a case with everything: a long page, a secret, a call that an agent
// reported, one that was never made, arguments that were cut.
func story(t *testing.T) *lab {
	l := newLab(t)
	ask := l.text("Which wind?", "Which wind?", trajectory.PromptHead)
	l.event(&trajectory.TurnStarted{Input: &ask})
	l.event(&trajectory.ModelCallStarted{Call: "c1", Messages: 1, Model: "m-1", Provider: "openai", Prompt: l.text(`{"messages":["Which wind?"]}`, `{"messages":["Which wind?"]}`, trajectory.PromptHead), Request: digest.ContentOf([]byte("q"))})
	l.event(&trajectory.ModelCallCompleted{Call: "c1", Source: "authored", Output: l.text("I look.", "I look.", trajectory.ResultHead), TokensIn: 10, TokensOut: 3})
	args := l.args(`{"url":"https://lights.example/1"}`)
	l.event(&trajectory.ToolObserved{Args: args, Call: "c1", ID: "p1", Name: "fetch", Vantage: trajectory.Proposed})
	l.event(&trajectory.ToolProposed{Args: args, Call: "c2", ID: "p1", Name: "fetch", Class: policy.Read})
	page := strings.Repeat("é fog ", 1000) + "north-west"
	l.event(&trajectory.ToolExecuted{Args: args, Call: "c2", Name: "fetch", Source: "fixture", Result: l.text(page, page, trajectory.ResultHead, int64(len(page)-10))})
	own := l.args(`{"code":"`+strings.Repeat("x", 9000)+` north-west","n":1}`, 9010)
	kept := l.text("key sk-abcdefgh12345678 is 7", "key [REDACTED] is 7", trajectory.ResultHead)
	l.event(&trajectory.ToolObserved{Args: own, Call: "c1", ID: "p2", Name: "python", Vantage: trajectory.Proposed})
	l.event(&trajectory.ToolObserved{Args: own, Call: "c3", ID: "p2", Name: "python", Vantage: trajectory.Reported, Result: &kept, Error: true})
	l.event(&trajectory.ToolObserved{Args: trajectory.NewArgs(nil), Call: "c3", ID: "p3", Name: "shell", Vantage: trajectory.Proposed})
	l.event(&trajectory.ModelCallStarted{Call: "c4", Messages: 3, Model: "m-1", Provider: "openai", Prompt: l.text(`{"messages":["north-west"]}`, `{"messages":["north-west"]}`, trajectory.PromptHead, 15), Request: digest.ContentOf([]byte("q"))})
	l.event(&trajectory.ModelCallCompleted{Call: "c4", Source: "authored", Output: l.text("FINAL ANSWER: north-west", "FINAL ANSWER: north-west", trajectory.ResultHead, 14), TokensIn: 90, TokensOut: 6})
	return l
}

func (l *lab) steps() *walk {
	l.t.Helper()
	w, err := stepsOf(l.log.Bytes(), &l.notes, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return w
}

// TestTrajectoriesAreAsTheyWere compares with the bytes of a file that is kept.
func TestTrajectoriesAreAsTheyWere(t *testing.T) {
	w := story(t).steps()
	one := &told{steps: w, answer: "FINAL ANSWER: north-west"}
	one.fill(Record{7, digest.ID{}, &evidence.CaseScored{CaseID: "t-1", Outcome: evidence.Passed, Turns: 1, Vantage: "inside", Repeat: 1}}, &grading{})
	var got bytes.Buffer
	if err := writeLine(&got, &one.line); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/trajectories.jsonl"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got.Bytes(), want)
	}
}

func TestStepsSayWhatIsKnownOfEachCall(t *testing.T) {
	w := story(t).steps()
	var seen []string
	for _, s := range w.steps {
		seen = append(seen, strings.TrimSuffix(s.Type+" "+s.Name+" "+s.Vantage, "  "))
	}
	want := "prompt|llm_call|tool_call fetch executed|tool_result fetch executed|tool_call python reported|tool_result python reported|tool_call shell proposed|llm_call"
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if w.in != 100 || w.out != 9 || strings.Join(w.models, ",") != "m-1" || strings.Join(w.tools, ",") != "fetch,python,shell" {
		t.Errorf("%d in, %d out, models %v, tools %v", w.in, w.out, w.models, w.tools)
	}
}

// TestHeadsAreBoundedAndSayWhatTheyAre: bytes between characters, digests of the
// whole text, marks of what is missing.
func TestHeadsAreBoundedAndSayWhatTheyAre(t *testing.T) {
	w := story(t).steps()
	page := w.steps[3]
	whole := strings.Repeat("é fog ", 1000) + "north-west"
	sum := sha256.Sum256([]byte(whole))
	if len(*page.Head) > trajectory.ResultHead || !utf8.ValidString(*page.Head) || !page.Truncated || *page.Bytes != int64(len(whole)) || page.OutputSHA256 != hex.EncodeToString(sum[:]) ||
		!page.GoldHits.Scanned || page.GoldHits.Offsets[0] != int64(len(whole)-10) || *page.Output != *page.Head || page.URL != "https://lights.example/1" {
		t.Errorf("%+v", page)
	}
	call := w.steps[4]
	if !call.InputTruncated || !call.InputGoldHits.Scanned || call.InputGoldHits.Offsets[0] != 9010 || *call.InputBytes < 9000 || !bytes.Contains(*call.Args, []byte("…[truncated ")) || len(*call.Args) > trajectory.ArgumentHead+200 || !bytes.Contains(*call.Args, []byte(`"n":1`)) {
		t.Errorf("%+v %.80s", call, *call.Args)
	}
	secret := w.steps[5]
	if !secret.Redacted || !secret.Salted || !secret.IsError || strings.Contains(*secret.Output, "sk-") {
		t.Errorf("%+v", secret)
	}
	// What is shown a model, and what it says, are not one.
	last := w.steps[7]
	if last.InputGoldHits.Offsets[0] != 15 || last.GoldHits.Offsets[0] != 14 {
		t.Errorf("%+v", last)
	}
}

// TestWhatAnAgentReportedStandsBeforeTheRequestThatToldOfIt: it had happened when
// the request was sent, so a request that repeats it tells the model nothing new.
// What a provider did while it answered stands behind the request.
func TestWhatAnAgentReportedStandsBeforeTheRequestThatToldOfIt(t *testing.T) {
	l := newLab(t)
	plain := func(s string) trajectory.Content { return l.text(s, s, trajectory.PromptHead) }
	ask := plain("Which wind?")
	l.event(&trajectory.TurnStarted{Input: &ask})
	request := func(call, text string) {
		l.event(&trajectory.ModelCallStarted{Call: call, Messages: 1, Model: "m-1", Provider: "openai", Prompt: plain(text), Request: digest.ContentOf([]byte(text))})
	}
	reply := func(call, text string) {
		l.event(&trajectory.ModelCallCompleted{Call: call, Source: "authored", Output: plain(text), TokensIn: 1, TokensOut: 1})
	}
	observed := func(call, id, name, result string) {
		o := &trajectory.ToolObserved{Args: trajectory.NewArgs([]byte(`{"q":1}`)), Call: call, ID: id, Name: name, Vantage: trajectory.Proposed}
		if result != "" {
			c := plain(result)
			o.Result, o.Vantage = &c, trajectory.Reported
		}
		l.event(o)
	}
	request("c1", "Which wind?")
	reply("c1", "I look.")
	observed("c1", "p1", "search", "")
	request("c2", "Which wind? north-west, it says")
	observed("c2", "p1", "search", "north-west, it says")
	observed("c2", "", "own", "a call that no model asked for")
	reply("c2", "It is north-west.")
	observed("c2", "p9", "web", "what the provider read")
	request("c3", "more")
	reply("c3", "Done.")
	var seen []string
	for _, s := range l.steps().steps {
		seen = append(seen, s.Type+" "+s.Name)
	}
	want := "prompt |llm_call |tool_call search|tool_result search|tool_call own|tool_result own|llm_call |tool_call web|tool_result web|llm_call "
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestWhatWasNotWatchedIsNotScanned: none found and not looked are not one.
func TestWhatWasNotWatchedIsNotScanned(t *testing.T) {
	l := story(t)
	l.notes.Texts = l.notes.Texts[:1]
	w := l.steps()
	if w.steps[0].GoldHits.Scanned != true || w.steps[3].GoldHits.Scanned || w.steps[3].OutputSHA256 != "" {
		t.Errorf("%+v, %+v", w.steps[0].GoldHits, w.steps[3])
	}
	l.notes.Gold = false
	if l.steps().steps[0].GoldHits.Scanned {
		t.Error("scanned without an answer to look for")
	}
}

func TestMajorityChoosesAndTheFirstOfEquals(t *testing.T) {
	said := func(s string) *told { return &told{Result: Result{ModelAnswer: s}} }
	a, b, c := said("Oslo"), said("Bergen"), said(" bergen")
	for _, tt := range []struct {
		all  []*told
		want *told
	}{{[]*told{a, b, c}, b}, {[]*told{a, b}, a}, {[]*told{b, a, said("oslo")}, a}, {[]*told{a}, a}} {
		if got := chosen(tt.all); got != tt.want {
			t.Errorf("%q", got.ModelAnswer)
		}
	}
}

// TestWitnessManifestIsTheOriginals: the vector is that of the original's
// verifier, which was run on it.
func TestWitnessManifestIsTheOriginals(t *testing.T) {
	m := &witnessManifest{Schema: witnessSchema, IssuedAt: "2026-07-03T00:00:00.000Z", GitCommit: "0123456789abcdef0123456789abcdef01234567", Branch: "main", Summary: witnessSummary{1, 1, 0},
		Fixes: []witnessFix{{"gaia-exploit-audit", "GAIA pre-submission exploit audit clean (ADR-167)", "audit-report.json", strings.Repeat("0", 64), `"clean": true`, true}}}
	data, err := signWitness(m)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Integrity witnessIntegrity }
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Integrity.Hash != "5f2de0933f7a889a6d55c9c63a5b4ccc8af64cc96a06c2791dc72943e480b5a9" || got.Integrity.PublicKey != "6a3c032c0a37c676fd99b80bda452b23a259436d146c0dd23eb859f557af20e1" ||
		got.Integrity.Signature != "59fae3d661a61302d71ea00a1ac3281af51f8bd28b918cb0d6a8c9b95a717a91e911fca4aecd46a5fe13149bed7c11fa9a7d5ab5f8a9b931a4bdf8f08f250109" {
		t.Errorf("%+v", got.Integrity)
	}
}

func TestWilsonIsTheOneOfTheScorecard(t *testing.T) {
	lo, hi := wilson(0.3, 10)
	if lo < 0.10779 || lo > 0.10780 || hi < 0.60322 || hi > 0.60323 {
		t.Errorf("%v to %v", lo, hi)
	}
	if lo, hi := wilson(1, 5); hi != 1 || lo < 0.5655 || lo > 0.5656 {
		t.Errorf("%v to %v", lo, hi)
	}
}

// TestOnlyWhatWasMeantAndWholeIsSubmittable has a row for each reason.
func TestOnlyWhatWasMeantAndWholeIsSubmittable(t *testing.T) {
	good := func() *builder {
		return &builder{Source: &Source{Level: "signed", Registered: &evidence.AttemptRegistered{Plan: evidence.Plan{SubmitIntent: true, Recording: evidence.RecordHeads, Repeat: 1}}},
			tasks: []task{{records: []Record{{}}}}}
	}
	for _, tt := range []struct {
		name   string
		change func(*builder)
		want   string
	}{
		{"all of it", func(*builder) {}, "recorded whole"},
		{"not meant", func(b *builder) { b.Registered.Plan.SubmitIntent = false }, "--submit-intent"},
		{"scratch", func(b *builder) { b.Registered.Scratch = true }, "level"},
		{"example signers", func(b *builder) { b.Level = "signed by example signers" }, "level"},
		{"some cases only", func(b *builder) { b.Registered.Plan.Filtered = true }, "selected"},
		{"a task without a record", func(b *builder) { b.tasks = append(b.tasks, task{}) }, "1 of 2 planned tasks"},
		{"a repetition is missing", func(b *builder) { b.Registered.Plan.Repeat = 2 }, "1 of 1 planned tasks"},
		{"not recorded whole", func(b *builder) { b.partial = []string{"t-9"} }, "the first is t-9"},
	} {
		b := good()
		tt.change(b)
		if d := b.decide(); d.Submittable != (tt.name == "all of it") || !strings.Contains(d.Reason, tt.want) {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

// TestManifestHasOneSpelling: a stranger's tool that writes it otherwise is not
// verified by luck.
func TestManifestHasOneSpelling(t *testing.T) {
	m := &Manifest{Type: ManifestType, Files: []File{{1, "a", digest.IDOf([]byte("x"))}}}
	good, err := indented(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseManifest(good); err != nil {
		t.Fatal(err)
	}
	plain, _ := canon.Marshal(m)
	for name, data := range map[string][]byte{"without white space": plain, "one more member": bytes.Replace(good, []byte("{\n"), []byte("{\n  \"zzz\": 1,\n"), 1), "cut": good[:len(good)-3],
		"another type": bytes.Replace(good, []byte("submission/1-draft"), []byte("submission/2"), 1), "a path that leaves": bytes.Replace(good, []byte(`"a"`), []byte(`"../a"`), 1), "nothing": nil} {
		if _, err := parseManifest(data); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestZipHasOneForm: what other programs write, and what could hide something, is
// refused.
func TestZipHasOneForm(t *testing.T) {
	files := map[string][]byte{"manifest.json": []byte("{}"), "evidence/aa": []byte("x"), "results.jsonl": {}}
	data, err := Zip(files)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Zip(files); err != nil || !bytes.Equal(again, data) {
		t.Errorf("other bytes the second time: %v", err)
	}
	if got, err := Unzip(data); err != nil || len(got) != 3 || string(got["evidence/aa"]) != "x" || !IsZip(data) {
		t.Errorf("%v, %v", got, err)
	}
	write := func(change func(*zip.Writer)) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		change(z)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	put := func(z *zip.Writer, h zip.FileHeader) {
		w, err := z.CreateHeader(&h)
		if err == nil {
			_, err = w.Write([]byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{
		"compressed":   write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "a", Method: zip.Deflate}) }),
		"out of order": write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "b"}); put(z, zip.FileHeader{Name: "a"}) }),
		"twice":        write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "a"}); put(z, zip.FileHeader{Name: "a"}) }),
		"a folder":     write(func(z *zip.Writer) { _, _ = z.CreateHeader(&zip.FileHeader{Name: "a/"}) }),
		"a comment":    write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "a"}); _ = z.SetComment("x") }),
		"more in it":   write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "a", Extra: []byte("ab\x01\x00x")}) }),
		"by others":    write(func(z *zip.Writer) { put(z, zip.FileHeader{Name: "a"}) }),
		"more behind":  append(bytes.Clone(data), 'x'),
		"more before":  append([]byte("PK\x03\x04"), data...),
		"another name": bytes.Replace(data, []byte("evidence/aa"), []byte("evidence/ab"), 1), // where the file stands, not in the list
		"cut":          data[:len(data)-10],
		"changed":      bytes.Replace(data, []byte("{}"), []byte("[]"), 1),
		"nothing":      nil,
	} {
		if _, err := Unzip(data); err == nil || refusal.ExitCode(err) != refusal.ExitUnverified {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryRegistrationOfTheClassIsCounted: a ledger that gave a number twice has an
// attempt more than its numbers say, and a package that shows the whole tree cannot
// leave it out, under whatever name it was registered.
func TestEveryRegistrationOfTheClassIsCounted(t *testing.T) {
	mine := &evidence.AttemptRegistered{Class: "k", Attempt: "k.t.2", Number: 2}
	for _, tt := range []struct {
		name   string
		second *evidence.AttemptRegistered
		manual bool
		want   string
	}{
		{"of another class", &evidence.AttemptRegistered{Class: "other", Attempt: "other.t.1", Number: 1}, false, ""},
		{"a number twice", &evidence.AttemptRegistered{Class: "k", Attempt: "k.u.1", Number: 1}, false, "entry 2 (attempt.registered)"},
		{"a number and a name twice", &evidence.AttemptRegistered{Class: "k", Attempt: "k.t.1", Number: 1}, false, "entry 2 (attempt.registered)"},
		{"by hand, which does not count", &evidence.AttemptRegistered{Class: "k", Attempt: "k.u.1", Number: 1}, true, ""},
	} {
		x := &proofs{tree: &ledger.Checkpoint{TreeHead: ledger.TreeHead{Size: 4}}, class: map[int64]bool{1: true, 3: true}, proved: map[int64]*ledger.Proved{}}
		for i, body := range []evidence.Body{&evidence.Opened{}, &evidence.AttemptRegistered{Class: "k", Attempt: "k.t.1", Number: 1}, tt.second, mine} {
			x.proved[int64(i)] = &ledger.Proved{Position: ledger.Position{Index: int64(i)}, Body: body, Entry: evidence.Entry{Kind: body.Kind(), Manual: tt.manual && i == 2}}
		}
		a := &Source{Registered: mine}
		err := x.span(a, 3, true)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && (!a.Exact || !a.Whole) {
			t.Errorf("%s: exact %v, whole %v", tt.name, a.Exact, a.Whole)
		}
		delete(x.proved, 0)
		a = &Source{Registered: mine}
		if err := x.span(a, 3, true); (err == nil) != (tt.want == "") || err == nil && (!a.Exact || a.Whole) {
			t.Errorf("%s, without the first entry: %v, exact %v, whole %v", tt.name, err, a.Exact, a.Whole)
		}
	}
}

// TestOtherRulesOfTheAudit: what was audited by other rules cannot be audited again.
func TestOtherRulesOfTheAudit(t *testing.T) {
	own := strconv.Itoa(audit.RulesVersion)
	for version, known := range map[string]bool{`0`: false, `1`: false, `2`: false, own: true, own + `0`: false, `"` + own + `"`: false} {
		if err := checkAuditRules([]byte(`{"rules":{"version":` + version + `}}`)); (err == nil) != known {
			t.Errorf("rules of version %s: %v", version, err)
		}
	}
}
