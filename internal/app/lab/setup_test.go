package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/session"
	"tallystick/internal/run/suites"
)

// An onlooker is a person who watches an attempt and answers its questions.
type onlooker struct {
	seen    []string
	asked   []string
	approve bool
}

func (o *onlooker) Recorded(r harness.Result) {
	o.seen = append(o.seen, r.Case+" "+string(r.Record.Outcome))
}

func (o *onlooker) Approve(_ context.Context, caseID string, q session.Question) (approve, answered bool, err error) {
	o.asked = append(o.asked, caseID+" "+q.Name)
	return o.approve, true, nil
}

func TestRunIsAnchoredAndWatched(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	var who onlooker
	ran, err := p.run(func(o *harness.Spec) { o.Jobs = 1 }, harness.Parties{Progress: &who, People: &who})
	if err != nil || !ran.Finished || ran.Outcomes[evidence.Passed] != 1 || ran.Outcomes[evidence.Failed] != 1 {
		t.Fatalf("%+v, %v", ran, err)
	}
	if got := strings.Join(who.seen, ", "); got != "norway passed, sweden failed" || who.asked != nil {
		t.Errorf("watched %s; asked %q", got, who.asked)
	}
	if got, want := p.kinds(), "attempt.registered case.started case.scored case.started case.scored attempt.finished anchor.published"; got != want {
		t.Errorf("the ledger has %s, want %s", got, want)
	}
	v, err := p.open().Verify(nil)
	if err != nil || v.Head != ran.Head {
		t.Errorf("the ledger ends with %s, the run says %s; %v", v.Head, ran.Head, err)
	}
}

// TestRunAsksThePersonAndResumes: an open question is answered later.
func TestRunAsksThePersonAndResumes(t *testing.T) {
	p := newPlace(t)
	p.write("bench/cities/registration.yaml", strings.Replace(registration, "governance: autonomous", "governance: approved", 1))
	p.dataset(`{"id":"pay","input":"pay","tools":[{"name":"pay","class":"financial","replies":[{"result":{"paid":true}}]}],` +
		`"model":[{"tool_calls":[{"name":"pay","args":{}}]},{"text":"paid"}],"grade":{"kind":"exact","expected":"paid"}}`)
	if ran, err := p.run(nil, harness.Parties{}); !refusal.Is(err, refusal.ApprovalPending) || ran == nil || ran.Finished {
		t.Fatalf("%+v, %v", ran, err)
	}
	who := onlooker{approve: true}
	ran, err := p.run(func(o *harness.Spec) { o.Resume = true }, harness.Parties{People: &who})
	if err != nil || ran.Outcomes[evidence.Passed] != 1 || strings.Join(who.asked, ", ") != "pay pay" {
		t.Errorf("%+v, %v; asked %q", ran, err, who.asked)
	}
	// One that is left open is told of.
	if _, err := p.run(nil, harness.Parties{}); !refusal.Is(err, refusal.ApprovalPending) {
		t.Fatal(err)
	}
	if ran, err = p.run(nil, harness.Parties{People: &who}); err != nil || strings.Join(ran.Unfinished, ", ") != "cities.default.2" {
		t.Errorf("unfinished %q, %v", ran.Unfinished, err)
	}
}

// TestRunWaitsForItsWitnesses: an attempt that no witness has seen registered cannot
// be witnessed, so no case runs.
func TestRunWaitsForItsWitnesses(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	key, err := seal.NewKey(strings.NewReader(strings.Repeat("w", 32)))
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.Public().Ed25519()
	s, err := p.setup(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.place.Settings.Witnesses = []workspace.Witness{{URL: "http://127.0.0.1:1", Key: seal.CosignatureVKey(pub, "witness.example")}}
	ran, err := s.Run(context.Background(), harness.Parties{}, nil)
	if !refusal.Is(err, refusal.WitnessFailed) || ran != nil || !strings.Contains(err.Error(), "no case has run") {
		t.Errorf("%+v, %v", ran, err)
	}
	if got := p.kinds(); got != "attempt.registered anchor.published" {
		t.Errorf("the ledger has %s", got)
	}
}

func TestLiveNeedsALimitAndProviders(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	live := func(o *harness.Spec) { o.Live = true }
	if _, err := p.run(func(o *harness.Spec) { o.Live, o.MaxCostMicroUSD = true, 1 }, harness.Parties{}); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("without providers.yaml: %v", err)
	}
	p.write("providers.yaml", "version: 1\nopenai:\n  base_url: http://127.0.0.1:1/v1\n  key_env: BENCH_KEY\n  prices:\n    fake-1: {input: 1, output: 1}\n")
	if _, err := p.run(live, harness.Parties{}); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "no limit") {
		t.Errorf("without a limit: %v", err)
	}
	if got := p.kinds(); got != "" {
		t.Errorf("the ledger has %s", got)
	}
}

func TestReplayDoesNotGoToAnAgentElsewhere(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	p.write("targets/default.yaml", "version: 1\nkind: http\nhttp: {url: \"https://agent.example/run\"}\n")
	_, err := p.setup(nil)
	if r := refusal.Of(err); r.Name != refusal.Usage || !strings.Contains(err.Error(), "touches no network") || !strings.Contains(r.Hint, "tally run cities --target default --live --max-cost") {
		t.Errorf("%v", err)
	}
}

func TestSpecChoosesCases(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	for _, tt := range []struct {
		name, cases, tag, want string
	}{
		{"all", "", "", "norway sweden"},
		{"by pattern", "n*", "", "norway"},
		{"by tag", "", "big", "sweden"},
		{"by both", "n*", "big", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := p.setup(func(o *harness.Spec) { o.Cases, o.Tags = list(tt.cases), list(tt.tag) })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = s.Rehearse(context.Background(), func(g *harness.Graded) error { got = append(got, g.Case.ID); return nil })
			if strings.Join(got, " ") != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("chose %q, %v", got, err)
			}
		})
	}
	if got := p.kinds(); got != "" {
		t.Errorf("a rehearsal recorded %s", got)
	}
}

// list is a list of one, or of nothing.
func list(one string) []string {
	if one == "" {
		return nil
	}
	return []string{one}
}

// TestShippedClassesHaveTheirOwnTargetsFirst: and then those of the workspace.
func TestShippedClassesHaveTheirOwnTargetsFirst(t *testing.T) {
	p := newPlace(t)
	c := p.corpus()
	p.write("targets/vulnerable.yaml", "version: 1\nkind: builtin\nbuiltin: {model: mine, api: openai.chat}\n")
	shipped, err := FindTarget(c, "builtin:adversarial", "vulnerable")
	want, serr := suites.Target("vulnerable")
	if err != nil || serr != nil || shipped.Digest != want.Digest || !strings.Contains(p.notes, "give yours another name") {
		t.Errorf("%v, %v; told %q", err, serr, p.notes)
	}
	if mine, err := FindTarget(c, "cities", "vulnerable"); err != nil || mine.Digest == want.Digest {
		t.Errorf("the target of a class of one's own: %v", err)
	}
	if own, err := FindTarget(c, "builtin:adversarial", "default"); err != nil || own.Name != "default" {
		t.Errorf("one's own against a shipped class: %v", err)
	}
	if _, err := FindTarget(c, "builtin:adversarial", "unknown"); !refusal.Is(err, refusal.UnknownName) || !strings.Contains(refusal.Of(err).Hint, "vulnerable") {
		t.Errorf("unknown: %v", err)
	}
}

func TestGoldenTracesAreWrittenOnceAndChecked(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	golden := func() (*Setup, *GoldenCheck) {
		t.Helper()
		s, err := p.setup(nil)
		if err != nil {
			t.Fatal(err)
		}
		check, err := s.CheckGolden(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		return s, check
	}
	s, check := golden()
	if check.Met || len(check.Problems) != 2 || check.Problems[0].Change != "missing_golden" {
		t.Errorf("before there are any: %+v", check)
	}
	for _, want := range []GoldenUpdate{{Written: []string{"norway", "sweden"}}, {Same: 2}} {
		u, err := s.UpdateGolden(context.Background(), "")
		if err != nil || strings.Join(u.Written, " ") != strings.Join(want.Written, " ") || u.Same != want.Same {
			t.Errorf("%+v, %v, want %+v", u, err, want)
		}
	}
	if _, check = golden(); !check.Met || check.Equal != 2 {
		t.Errorf("after: %+v", check)
	}
	p.dataset(strings.Replace(norway, `"text":"Oslo"`, `"text":"Bergen"`, 1))
	_, check = golden()
	if check.Met || len(check.Problems) != 2 || check.Problems[0].Change != "changed_answer" || check.Problems[0].Turn != 1 || check.Problems[1].Change != "stale_golden" {
		t.Errorf("another answer, and a case less: %+v", check)
	}
}

// original reads an attempt back from the ledger.
func (p *place) original(id string) Original {
	p.t.Helper()
	w := p.open()
	r, err := w.Read(dossier.Ask{})
	if err != nil {
		p.t.Fatal(err)
	}
	a, err := r.Attempt(id)
	if err != nil {
		p.t.Fatal(err)
	}
	return Original{a.Attempt, r.Piece}
}

func TestRescoreAmendsWhatChangedAndNothingElse(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	if _, err := p.run(nil, harness.Parties{}); err != nil {
		t.Fatal(err)
	}
	before := p.kinds()
	rescore := func(o RescoreOptions) *Rescored {
		t.Helper()
		out, err := Rescore(context.Background(), p.corpus(), p.original("cities.default.1"), o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := rescore(RescoreOptions{Reason: "to see"}); out.Graded != 2 || len(out.Changed) != 0 || p.kinds() != before {
		t.Errorf("the same graders: %+v", out)
	}
	p.dataset(norway, strings.Replace(sweden, `"expected":"Stockholm"`, `"expected":"Gothenburg"`, 1))
	if out := rescore(RescoreOptions{DryRun: true}); len(out.Changed) != 1 || out.Changed[0].Case != "sweden" || out.Changed[0].Now != 1 || p.kinds() != before {
		t.Errorf("a dry run: %+v", out)
	}
	out := rescore(RescoreOptions{Reason: "the harbour counts"})
	if len(out.Changed) != 1 || out.Changed[0].Amends == 0 || p.kinds() != before+" score.amended" {
		t.Errorf("%+v; the ledger has %s", out, p.kinds())
	}
	if out := rescore(RescoreOptions{Reason: "again"}); len(out.Changed) != 0 {
		t.Errorf("amended twice: %+v", out)
	}
}

func TestReproduceNeedsAnotherOperator(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	if _, err := p.run(nil, harness.Parties{}); err != nil {
		t.Fatal(err)
	}
	before := p.kinds()
	if _, err := Reproduce(context.Background(), p.corpus(), p.original("cities.default.1"), harness.Spec{}); !refusal.Is(err, refusal.Usage) || p.kinds() != before {
		t.Errorf("with the same key: %v", err)
	}
}

// TestDriveAgainstFindsWhereATargetParts: with the words and replies of a run
// that the evidence has.
func TestDriveAgainstFindsWhereATargetParts(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	p.write("targets/curt.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0, system: Be curt.}\n")
	s, err := p.setup(nil)
	if err != nil {
		t.Fatal(err)
	}
	var happened Happened
	if err := s.Rehearse(context.Background(), func(g *harness.Graded) error {
		happened = Happened{Verified: g.Verified, Content: func(d digest.Content) ([]byte, bool) { piece := g.Piece(d); return piece, piece != nil }}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if d, err := DriveAgainst(context.Background(), p.corpus(), happened, "default"); err != nil || d != nil {
		t.Errorf("the same target parts: %v, %v", d, err)
	}
	if d, err := DriveAgainst(context.Background(), p.corpus(), happened, "curt"); err != nil || d == nil {
		t.Errorf("another target does the same: %v", err)
	}
	incident, files, err := Incident(happened, "from-oslo")
	if err != nil || !strings.Contains(string(incident), `"id":"from-oslo"`) || !strings.Contains(string(files["scenario.yaml"]), "Oslo") {
		t.Errorf("%s, %v, %v", incident, files, err)
	}
}

// TestLoadGraderRefusesWhatIsNotThere: a rubric or a judge.
func TestLoadGraderRefusesWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if _, err := LoadGrader(write("a.yaml", "version: 1\ngrade: {kind: judge, criteria: It is polite.}\n"), ""); !refusal.Is(err, refusal.Usage) {
		t.Errorf("a judge: %v", err)
	}
	for _, tt := range []struct{ kind, expected string }{{"exact", "Oslo\n"}, {"json_equal", `{"city":"Oslo"}`}} {
		if _, err := LoadGrader(write("b.yaml", "version: 1\ngrade: {kind: "+tt.kind+"}\n"), write("expected", tt.expected)); err != nil {
			t.Errorf("%s: %v", tt.kind, err)
		}
	}
}
