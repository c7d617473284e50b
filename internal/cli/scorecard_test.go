package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/promote"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// A scoredPlace is a workspace whose ledger holds attempts that a test wrote,
// as the harness would.
type scoredPlace struct {
	t   *testing.T
	env map[string]string
	dir string
	now time.Time
	key *seal.Key
	lie func(*evidence.AttemptFinished) // or nil

	ungraded bool // leave the grading documents out
}

func newScoredPlace(t *testing.T) *scoredPlace {
	t.Helper()
	dir := t.TempDir()
	p := &scoredPlace{t: t, dir: filepath.Join(dir, "ws"), env: map[string]string{"HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, "state")},
		now: time.Now().UTC()}
	ok := func(args ...string) {
		t.Helper()
		if code, _, stderr := p.tally(args...); code != 0 {
			t.Fatal(stderr)
		}
	}
	initWithPeople(t, p.dir, ok, "--origin", "example.com/evals")
	ok("bench", "new", ceremony.ExampleClass, "--added-by", "alice", "--reviewed-by", "bob")
	ok("bench", "digest", ceremony.ExampleClass)
	for _, who := range []string{"example-alice", "example-bob"} {
		ok("bench", "sign", ceremony.ExampleClass, "--key", filepath.Join(p.dir, ".tally", "keys", who))
	}
	e := p.newEnv(&bytes.Buffer{}, &bytes.Buffer{})
	w := p.workspace(e)
	var err error
	if p.key, err = w.OperatorKey(); err != nil {
		t.Fatal(err)
	}
	return p
}

// pinWitnesses has both people sign for the witnesses of tally.yaml.
func (p *scoredPlace) pinWitnesses() {
	p.t.Helper()
	keys := filepath.Join(p.dir, ".tally", "keys")
	for _, args := range [][]string{{"bench", "digest", ceremony.ExampleClass, "--pin-witnesses"}, {"bench", "sign", ceremony.ExampleClass, "--key", filepath.Join(keys, "example-alice")},
		{"bench", "sign", ceremony.ExampleClass, "--key", filepath.Join(keys, "example-bob")}} {
		if code, _, stderr := p.tally(args...); code != 0 {
			p.t.Fatal(stderr)
		}
	}
}

func (p *scoredPlace) newEnv(out, errs *bytes.Buffer) *Env {
	e := newEnv(strings.NewReader(""), out, errs, func(k string) string { return p.env[k] })
	e.Now = func() time.Time { return p.now }
	e.WorkspaceDir = p.dir
	return e
}

func (p *scoredPlace) workspace(e *Env) *dossier.Place {
	p.t.Helper()
	w, err := openPlace(e)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// tally runs one command line.
func (p *scoredPlace) tally(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	var out, errs bytes.Buffer
	e := newEnv(strings.NewReader(""), &out, &errs, func(k string) string { return p.env[k] })
	e.Now = func() time.Time { return p.now }
	if args[0] != "init" {
		args = append(args, "--workspace", p.dir)
	}
	code = newProgram(e).main(args)
	return code, out.String(), errs.String()
}

// answer runs a command with --json and returns its document.
func (p *scoredPlace) answer(args ...string) map[string]any {
	p.t.Helper()
	code, stdout, stderr := p.tally(append(args, "--json")...)
	var doc map[string]any
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 {
		p.t.Fatalf("%v: exit %d, %q, %q, %v", args, code, stdout, stderr, err)
	}
	return doc
}

// write opens the ledger for what f appends.
func (p *scoredPlace) write(f func(l *sequencer.Ledger, w *dossier.Place)) {
	p.t.Helper()
	e := p.newEnv(&bytes.Buffer{}, &bytes.Buffer{})
	w := p.workspace(e)
	l, err := w.OpenLedger(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	f(l, w)
	if err := l.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// attempt writes a whole attempt whose i-th case has the i-th score; each has a
// trajectory in which the agent answers with that score. It returns the id.
func (p *scoredPlace) attempt(target string, number int, bench string, scores ...float64) string {
	p.t.Helper()
	return p.attemptThen(target, number, bench, func(*sequencer.Ledger, *dossier.Place) {}, scores...)
}

// attemptThen is attempt with something between registration and first case.
func (p *scoredPlace) attemptThen(target string, number int, bench string, then func(*sequencer.Ledger, *dossier.Place), scores ...float64) string {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	r := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: fmt.Sprintf("fix.%s.%d", target, number), Origin: "example.com/evals", Class: "fix", Target: target,
		Number: number, Mode: "replay", Operator: digest.IDOf([]byte("olga")),
		Plan: evidence.Plan{BenchDigest: digest.IDOf([]byte(bench)), ScoringDigest: digest.ContentOf([]byte(bench)), RegistrationDigest: digest.ContentOf([]byte("registration")),
			TargetDigest: digest.ContentOf([]byte(target)), CaseCount: len(scores), Repeat: 1}}
	for i := range scores {
		r.Plan.Cases = append(r.Plan.Cases, evidence.PlannedCase{ID: fmt.Sprintf("case-%02d", i+1), Digest: digest.ContentOf(fmt.Append(nil, "case", i))})
	}
	message, err := r.Message()
	must(err)
	sig, err := seal.SignWith(p.key.Signer(), seal.NamespaceAttempt, message)
	must(err)
	r.Signature = string(sig)
	p.write(func(l *sequencer.Ledger, w *dossier.Place) {
		vault := store.OpenVault(store.OS{}, w.EvidenceDir())
		_, err := l.AppendRecord(evidence.AttemptRegisteredKind, r)
		must(err)
		then(l, w)
		outcomes := map[evidence.Outcome]int{}
		var cases []digest.Content
		total, modes := 0.0, []string{}
		for i, v := range scores {
			planned := r.Plan.Cases[i]
			cases = append(cases, planned.Digest)
			if v < 0 {
				continue // not run
			}
			log := trajectory.NewLog()
			answer := trajectory.NewContent(fmt.Appendf(nil, "answer worth %v \x1b[2J", v), trajectory.ArgumentHead)
			for _, e := range []struct {
				turn int
				p    trajectory.Payload
			}{
				{0, &trajectory.RunStarted{Attempt: r.Attempt, Case: planned.ID, Class: r.Class, Target: target, Repeat: 1, Execution: 1, Format: trajectory.Format, Governance: 1}},
				{1, &trajectory.TurnStarted{Agent: "main"}},
				{1, &trajectory.TurnCompleted{Answer: &answer}},
				{1, &trajectory.RunCompleted{Status: "completed", Answer: &answer}},
			} {
				_, err := log.Append(e.turn, e.p, 0)
				must(err)
			}
			d, err := vault.Put(log.Bytes())
			must(err)
			graded := grade.Result{Passed: v == 1, Score: v, Breakdown: map[string]float64{}, FailureModes: []string{}}
			if v != 1 {
				graded.FailureModes = []string{"bad\x1b[2J"}
			}
			doc, err := grade.Document(&graded)
			must(err)
			grading, err := vault.Put(doc)
			must(err)
			files := &evidence.CaseFiles{Version: format.Version, Trajectory: evidence.TrajectoryFile{Digest: d, Head: log.Head()}, Grading: &grading}
			if p.ungraded {
				files.Grading = nil
			}
			index, err := canon.Marshal(files)
			must(err)
			first, err := vault.Put(index)
			must(err)
			s := &evidence.CaseScored{SchemaVersion: 1, Attempt: r.Attempt, Class: r.Class, CaseID: planned.ID, Tags: []string{"t"}, Repeat: 1, Execution: 1, CaseDigest: planned.Digest,
				HarnessVersion: "v1", IsolationClass: "builtin", Outcome: evidence.Failed,
				Score:     &evidence.Score{Score: v, Breakdown: map[string]float64{}, FailureModes: []string{"bad\x1b[2J"}},
				StartedAt: evidence.At(p.now), FinishedAt: evidence.At(p.now.Add(time.Second)), Operator: r.Operator, Turns: 1, Vantage: "inside",
				EvidenceDigests: []digest.Content{first}}
			if v == 1 {
				s.Outcome, s.Score.Passed, s.Score.FailureModes = evidence.Passed, true, []string{}
			} else {
				modes = []string{"bad\x1b[2J"}
			}
			outcomes[s.Outcome]++
			total += v
			_, err = l.AppendRecord(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: r.Attempt, CaseID: planned.ID, Repeat: 1, Execution: 1})
			must(err)
			_, err = l.AppendRecord(evidence.CaseScoredKind, s)
			must(err)
		}
		mean := total / float64(len(scores))
		sortDigests(cases)
		data, err := canon.Marshal(cases)
		must(err)
		end := &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: outcomes,
			CaseDigests: digest.ContentOf(data), RubricDigests: []digest.Content{}, CassetteDigests: digest.ContentOf([]byte("[]")), ImageDigests: []digest.Content{},
			MeanScore: &mean, FailureModes: modes}
		if p.lie != nil {
			p.lie(end)
		}
		_, err = l.AppendRecord(evidence.AttemptFinishedKind, end)
		must(err)
	})
	return r.Attempt
}

func sortDigests(ds []digest.Content) {
	for i := range ds {
		for j := i; j > 0 && bytes.Compare(ds[j][:], ds[j-1][:]) < 0; j-- {
			ds[j], ds[j-1] = ds[j-1], ds[j]
		}
	}
}

func TestScorecardCommand(t *testing.T) {
	p := newScoredPlace(t)
	if code, _, stderr := p.tally("scorecard", "--json"); code != 1 || !strings.Contains(stderr, `"name":"NotFound"`) {
		t.Errorf("without attempts: exit %d, %s", code, stderr)
	}
	p.attempt("agent", 1, "bench", 1, 1, 0.5, 1, 1)
	p.attempt("agent", 2, "bench", 1, 1, 1, 1, 1)
	doc := p.answer("scorecard", "fix.agent.1")
	for _, field := range strings.Fields(`total_tasks solved failed skipped errors policy_violations rollback_count rollback_correctness total_cost_microdollars
		median_latency_ms p95_latency_ms total_tokens total_retries unscored truncated evidence_coverage cost_per_solve solve_rate solve_rate_ci95 acceptance`) {
		if _, ok := doc[field]; !ok {
			t.Errorf("the promised field %s is missing", field)
		}
	}
	acceptance := doc["acceptance"].(map[string]any)
	if doc["total_tasks"] != 5.0 || doc["solved"] != 4.0 || doc["solve_rate"] != 0.8 || doc["evidence_coverage"] != 1.0 || doc["level"] != "signed" ||
		doc["median_latency_ms"] != 1000.0 || acceptance["met"] != false || len(doc["other_attempts"].([]any)) != 1 {
		t.Errorf("%v", doc)
	}
	if all := p.answer("scorecard"); all["total_tasks"] != 10.0 || all["distinct_cases"] != 5.0 {
		t.Errorf("of all: %v", all)
	}
	if last := p.answer("scorecard", "--last", "--no-evidence"); last["solved"] != 5.0 || last["evidence_coverage"] != nil || last["acceptance"].(map[string]any)["met"] != false {
		t.Errorf("of the last: %v", last)
	}
	failed := p.answer("scorecard", "--failed", "--class", "fix")["failed_cases"].([]any)
	if len(failed) != 1 || failed[0].(map[string]any)["case_id"] != "case-03" {
		t.Errorf("failed %v", failed)
	}
	_, text, _ := p.tally("scorecard", "fix.agent.1", "--failed")
	for _, want := range []string{"level signed", "attempt fix.agent.1: number 1 of 2 by agent, 1 of 2 with this plan; signed", "not in this card: fix.agent.2 by agent, number 2 of 2: 5 of 5 passed",
		"5: 4 solved, 1 failed, 0 skipped, 0 errors", "NOT MET: 0 distinct tasks are repository issues (tag repo-issue), needs 100", "by tag", `bad\x1b[2J`} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b") {
		t.Errorf("the text can steer a terminal: %q", text)
	}
	// Only records tell tags, so the rows by tag must not look like all.
	if strings.Contains(text, "in no row by tag") {
		t.Errorf("all were run:\n%s", text)
	}
	p.attempt("agent", 3, "bench", 1, -1, 1, -1, 1)
	_, text, _ = p.tally("scorecard", "fix.agent.3")
	if !strings.Contains(text, "not run: 2 tasks, in no row by tag: only records tell tags\n") {
		t.Errorf("two were not run:\n%s", text)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"scorecard", "fix.agent.9"}, 2, "did you mean"},
		{[]string{"scorecard", "fix.agent.1", "fix.agent.1"}, 2, "named twice"},
		{[]string{"scorecard", "fix.agent.1", "--last"}, 2, "give one or the other"},
		{[]string{"scorecard", "--since", "yesterday"}, 2, "neither days"},
		{[]string{"scorecard", "curve", "--csv", "--plot"}, 2, "give one of them"},
		{[]string{"scorecard", "curve", "--plot", "--json"}, 2, "give one of them"},
		{[]string{"scorecard", "curve", "--class", "nothing"}, 2, `no class "nothing"`},
		{[]string{"compare", "fix.agent.1", "fix.agent.1"}, 2, "given twice"},
		{[]string{"compare", "fix.agent.1"}, 2, "expected A and B, got 1"},
		{[]string{"compare", "fix.agent.1", "fix.agent.2", "--divergences", "-1"}, 2, "expected 0 or more"},
	} {
		if code, _, stderr := p.tally(tt.args...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d, %s; want exit %d and %q", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}

// Taking a piece of evidence away, or changing it, shows in the coverage.
func TestScorecardLooksAtTheEvidence(t *testing.T) {
	for _, tt := range []struct {
		name string
		harm func(path string) error
	}{
		{"taken away", os.Remove},
		{"changed", func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newScoredPlace(t)
			p.attempt("agent", 1, "bench", 1, 1, 1, 1)
			harmed := 0
			err := filepath.Walk(filepath.Join(p.dir, ".tally", "evidence"), func(path string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				if err == nil && bytes.Contains(data, []byte(`"case":"case-02"`)) && bytes.Contains(data, []byte("run_started")) {
					harmed++
					return tt.harm(path)
				}
				return err
			})
			if err != nil || harmed != 1 {
				t.Fatalf("%d files harmed, %v", harmed, err)
			}
			doc := p.answer("scorecard")
			missing := doc["evidence_missing"].([]any)
			if doc["evidence_coverage"] != 0.75 || len(missing) != 1 || missing[0].(map[string]any)["case_id"] != "case-02" || doc["acceptance"].(map[string]any)["met"] != false {
				t.Errorf("%v", doc)
			}
		})
	}
}

// Nothing is counted from a ledger that was changed.
func TestScorecardRefusesATamperedLedger(t *testing.T) {
	p := newScoredPlace(t)
	p.attempt("agent", 1, "bench", 1, 0)
	p.attempt("agent", 2, "bench", 1, 0)
	segment := filepath.Join(p.dir, ".tally", "ledger", "segments", "0000000000000000.log")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(data, []byte(`"passed":false,"score":0}`), []byte(`"passed":false,"score":1}`), 1)
	if err := os.WriteFile(segment, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"scorecard"}, {"scorecard", "curve"}, {"compare", "fix.agent.1", "fix.agent.2"}} {
		if code, stdout, _ := p.tally(args...); code != 3 || stdout != "" {
			t.Errorf("%v: exit %d, stdout %q; want exit 3 and nothing", args, code, stdout)
		}
	}
}

func TestCurveCommand(t *testing.T) {
	p := newScoredPlace(t)
	p.now = time.Date(2027, 5, 11, 9, 0, 0, 0, time.UTC) // after the ledger began
	p.attempt("agent", 1, "bench", 1, 1, 0, 0)
	p.now = p.now.AddDate(0, 0, 7)
	p.attempt("agent", 2, "bench", 1, 0, 1, 1)
	weeks := p.answer("scorecard", "curve")["weeks"].([]any)
	second := weeks[1].(map[string]any)
	if len(weeks) != 2 || second["week"] != "2027-W20" || second["tasks"] != 4.0 || second["solved"] != 3.0 || second["regressions"] != 1.0 || second["level"] != "signed" {
		t.Errorf("%v", weeks)
	}
	_, table, _ := p.tally("scorecard", "curve")
	if !strings.HasPrefix(table, "week ") || strings.Contains(table, "#") {
		t.Errorf("in a pipe it is a table:\n%s", table)
	}
	_, plot, _ := p.tally("scorecard", "curve", "--plot")
	if !strings.Contains(plot, "0.75 |####") {
		t.Errorf("no bars:\n%s", plot)
	}
	for line := range strings.Lines(plot) {
		if strings.Contains(line, "|") && len(line) > 81 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
	_, csv, _ := p.tally("scorecard", "curve", "--csv", "--since", "2027-05-15")
	if lines := strings.Split(csv, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "2027-W20,2027-05-17,1,4,3,0.75,") {
		t.Errorf("%q", csv)
	}
}

// Evidence covers a case if a complete bundle can be made of it. One that nothing
// says how it was graded has no test log.
func TestEvidenceThatMakesNoBundleDoesNotCover(t *testing.T) {
	p := newScoredPlace(t)
	p.attempt("agent", 1, "bench", 1, 1)
	p.ungraded = true
	p.attempt("agent", 2, "bench", 1, 1)
	if doc := p.answer("scorecard", "fix.agent.1"); doc["evidence_coverage"] != 1.0 {
		t.Errorf("coverage %v", doc["evidence_coverage"])
	}
	doc := p.answer("scorecard", "fix.agent.2")
	if missing := doc["evidence_missing"].([]any); doc["evidence_coverage"] != 0.0 || len(missing) != 2 || !strings.Contains(fmt.Sprint(missing[0]), "neither a test log nor a grading document") {
		t.Errorf("coverage %v, missing %v", doc["evidence_coverage"], doc["evidence_missing"])
	}
}

func TestCompareCommand(t *testing.T) {
	p := newScoredPlace(t)
	p.attempt("agent", 1, "bench", 1, 1, 0, 0.5, 1)
	p.attempt("agent", 2, "bench", 1, 0, 1, 0.5, 1)
	p.attempt("agent", 3, "another bench", 1, 1, 1, 1)
	doc := p.answer("compare", "fix.agent.1", "fix.agent.2")
	flips := doc["flips"].(map[string]any)
	cases := doc["cases"].([]any)
	if doc["paired"] != 5.0 || doc["only_a"] != 0.0 || doc["only_b"] != 0.0 || flips["gained"] != 1.0 || flips["lost"] != 1.0 || doc["mcnemar_p"] != 1.0 || doc["difference"] != 0.0 || len(cases) != 2 {
		t.Errorf("%v", doc)
	}
	if _, ok := doc["difference_ci95"].([]any); !ok {
		t.Errorf("no interval: %v", doc)
	}
	lost := cases[0].(map[string]any)
	if lost["case_id"] != "case-02" || lost["change"] != "lost" || !strings.Contains(lost["divergence"].(string), "turn 1") {
		t.Errorf("%v", lost)
	}
	_, text, _ := p.tally("compare", "fix.agent.1", "fix.agent.2")
	for _, want := range []string{"A  fix.agent.1: number 1 of 3 by agent, signed", "1 gained, 1 lost", "lost     case-02", "did differently", "changed_answer"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("the text can steer a terminal: %q", text)
	}
	if code, _, stderr := p.tally("compare", "fix.agent.1", "fix.agent.3", "--json"); code != 2 || !strings.Contains(stderr, `"name":"NotComparable"`) {
		t.Errorf("another bench: exit %d, %s", code, stderr)
	}
	if doc := p.answer("compare", "fix.agent.1", "fix.agent.3", "--across-benches"); doc["across_benches"] != true || doc["paired"] != 4.0 || doc["only_a"] != 1.0 {
		t.Errorf("%v", doc)
	}
	if _, text, _ := p.tally("compare", "fix.agent.1", "fix.agent.3", "--across-benches"); !strings.Contains(text, "ACROSS BENCHES") {
		t.Errorf("it does not say that the benches differ:\n%s", text)
	}
}

func TestRecomputeAll(t *testing.T) {
	p := newScoredPlace(t)
	id := p.attempt("agent", 1, "bench", 1, 1, 0.5)
	run := filepath.Join(p.dir, ".tally", "runs", id+".json")
	if err := os.MkdirAll(filepath.Dir(run), 0o700); err != nil {
		t.Fatal(err)
	}
	head := ""
	p.write(func(l *sequencer.Ledger, _ *dossier.Place) { head = l.Tip().Head.String() })
	save := func(passed int) {
		t.Helper()
		doc := fmt.Sprintf(`{"attempt":{"id":%q,"level":"signed","number":1},"finished":true,"head":%q,"passed":%d,"total":3,
			"class":"fix","target":"agent","failed":1,"skipped":0,"unscored":0,"truncated":0,"errors":0,"mean_score":0.8333333333,"failure_modes":["bad\u001b[2J"],"cost_usd":0,"isolation_class":"builtin","scorecard":null,"rules":%d}`, id, head, passed, scorecard.Rules)
		if err := os.WriteFile(run, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(2)
	recompute := func() (*answer.Recounted, error) {
		t.Helper()
		place, err := openPlace(p.newEnv(&bytes.Buffer{}, &bytes.Buffer{}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := answer.ReadForRecount(place)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Recount(r)
	}
	got, err := recompute()
	if err != nil || got.Attempts != 1 || got.Checked < 20 {
		t.Errorf("%+v, %v", got, err)
	}
	save(3)
	got, err = recompute()
	if err == nil || len(got.Differences) != 1 || got.Differences[0].Field != "passed" {
		t.Errorf("%+v, %v", got, err)
	}
	head = digest.IDOf([]byte("a head that never was")).String()
	save(2)
	if got, err = recompute(); err == nil || len(got.Differences) != 1 || got.Differences[0].Field != "head" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Remove(run); err != nil {
		t.Fatal(err)
	}

	// An operator who lies in the totals, or recommends what nothing carries,
	// seals the lie with his key. It is found all the same.
	p.lie = func(f *evidence.AttemptFinished) { f.Outcomes[evidence.Passed]++ }
	p.attempt("liar", 1, "bench", 1, 0.5)
	if got, err = recompute(); !refusal.Is(err, refusal.RecomputeMismatch) || len(got.Differences) != 1 || got.Differences[0].Field != "outcomes" || !strings.Contains(got.Differences[0].Where, "attempt.finished of fix.liar.1") {
		t.Errorf("%+v, %v", got, err)
	}
	p.write(func(l *sequencer.Ledger, _ *dossier.Place) {
		if _, err := l.AppendRecord(evidence.RecommendationKind, &evidence.Recommendation{Rules: promote.Rules, Class: ceremony.ExampleClass, CurrentTier: "bronze", RecommendedTier: "gold", Evidence: []int64{},
			Rationale: []string{}, RequiresHumanApproval: true, WindowDays: 30}); err != nil {
			t.Fatal(err)
		}
	})
	if got, err = recompute(); err == nil || got.Recommendations != 1 || !slices.ContainsFunc(got.Differences, func(d recount.Difference) bool {
		return strings.Contains(d.Where, "recommendation for example") && d.Field == "recommended_tier"
	}) {
		t.Errorf("a recommendation without any attempt: %+v, %v", got, err)
	}
	p.write(func(l *sequencer.Ledger, _ *dossier.Place) {
		if _, err := l.AppendRecord(evidence.RecommendationKind, &evidence.Recommendation{Rules: promote.Rules + 1, Class: ceremony.ExampleClass, CurrentTier: "bronze", RecommendedTier: "gold", Evidence: []int64{},
			Rationale: []string{}, RequiresHumanApproval: true, WindowDays: 30}); err != nil {
			t.Fatal(err)
		}
	})
	if got, err = recompute(); err == nil || got.Recommendations != 2 || !slices.ContainsFunc(got.Unchecked, func(s string) bool {
		return strings.Contains(s, fmt.Sprintf("version %d of the rules", promote.Rules+1))
	}) {
		t.Errorf("a recommendation by other rules: %+v, %v", got, err)
	}
}

// A checkpoint that witnesses cosigned before the first case makes the attempt
// witnessed, and stays at hand when the day's anchor is replaced.
func TestAKeptCheckpointMakesAnAttemptWitnessed(t *testing.T) {
	p := newScoredPlace(t)
	witness, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := witness.Public().Ed25519()
	settings := filepath.Join(p.dir, "tally.yaml")
	data, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	data = fmt.Appendf(data, "witnesses:\n  - url: http://127.0.0.1:1\n    key: %s\nquorum: 1\n", seal.CosignatureVKey(pub, "witness.example"))
	if err := os.WriteFile(settings, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p.pinWitnesses()
	cosigners := []sequencer.Cosigner{testCosigner{witness}}
	id := p.attemptThen("agent", 1, "bench", func(l *sequencer.Ledger, w *dossier.Place) {
		pub, err := l.PublishAnchor(context.Background(), cosigners)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.KeepCheckpoint(pub); err != nil {
			t.Fatal(err)
		}
	}, 1, 1)
	p.write(func(l *sequencer.Ledger, _ *dossier.Place) { // replaces the day's file
		if _, err := l.PublishAnchor(context.Background(), cosigners); err != nil {
			t.Fatal(err)
		}
	})
	if doc := p.answer("scorecard", id, "--no-evidence"); doc["level"] != "witnessed" {
		t.Errorf("level %v", doc["level"])
	}
	kept := filepath.Join(p.dir, ".tally", "checkpoints")
	files, err := os.ReadDir(kept)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	path := filepath.Join(kept, files[0].Name())
	honest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Without the witness's line it is the operator's word alone.
	lines := strings.SplitAfter(string(honest), "\n")
	if err := os.WriteFile(path, []byte(strings.Join(lines[:len(lines)-2], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if doc := p.answer("scorecard", id, "--no-evidence"); doc["level"] != "signed" {
		t.Errorf("without the cosignature: level %v", doc["level"])
	}
	// A bent one is refused.
	forged := strings.Replace(string(honest), "\n"+lines[1], "\n1\n", 1)
	if err := os.WriteFile(path, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := p.tally("scorecard", id, "--json"); code != 3 {
		t.Errorf("a forged checkpoint: exit %d, %s", code, stderr)
	}
	// So is one of another history, however well it is signed.
	head, err := ledger.ParseTreeHead(strings.Join(lines[:3], ""))
	if err != nil {
		t.Fatal(err)
	}
	head.Root[0] ^= 1
	signer, err := seal.NoteSigner(p.key, head.Origin)
	if err != nil {
		t.Fatal(err)
	}
	cosigner, err := seal.CosignatureSigner(witness, "witness.example", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := note.Sign(&note.Note{Text: head.Text()}, signer, cosigner)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := p.tally("scorecard", id, "--json"); code != 3 || !strings.Contains(stderr, "HistoryForked") {
		t.Errorf("a checkpoint of another history: exit %d, %s", code, stderr)
	}
	// One of two witnesses is not enough for a quorum of two.
	if err := os.WriteFile(path, honest, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	pub2, _ := second.Public().Ed25519()
	more := strings.TrimSuffix(string(data), "quorum: 1\n") + fmt.Sprintf("  - url: http://127.0.0.1:2\n    key: %s\nquorum: 2\n", seal.CosignatureVKey(pub2, "second.example"))
	if err := os.WriteFile(settings, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	if doc := p.answer("scorecard", id, "--no-evidence"); doc["level"] != "signed" {
		t.Errorf("one witness of a quorum of two: level %v", doc["level"])
	}
	if err := os.WriteFile(settings, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if doc := p.answer("scorecard", id, "--no-evidence"); doc["level"] != "signed" {
		t.Errorf("without the checkpoint: level %v", doc["level"])
	}
}

// A testCosigner cosigns whatever it is shown.
type testCosigner struct{ key *seal.Key }

func (c testCosigner) Name() string { return "witness.example" }

func (c testCosigner) Cosign(_ context.Context, checkpoint *ledger.Checkpoint, _ *ledger.Tree) ([]byte, error) {
	signer, err := seal.CosignatureSigner(c.key, c.Name(), time.Now)
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: checkpoint.Text()}, signer)
	if err != nil {
		return nil, err
	}
	return bytes.TrimPrefix(signed, []byte(checkpoint.Text()+"\n")), nil
}
