package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/testing/fakemodel"
)

// A tribunal is a workspace with one case that a model judges, and a fake
// provider that is both the agent's model and the judge's.
type tribunal struct {
	t        *testing.T
	dir      string
	vars     map[string]string
	server   *fakemodel.Server
	answer   string   // of the agent
	verdicts []string // of the judge, one after the other; the last stays
	asked    int      // times that the judge was

	out string
}

func verdict(score float64, reason string) string {
	return fmt.Sprintf(`{"score":%v,"passed":%v,"reason":%q}`, score, score >= 0.5, reason)
}

func newTribunal(t *testing.T) *tribunal {
	t.Helper()
	b := &tribunal{t: t, dir: filepath.Join(t.TempDir(), "w"), answer: "Oslo", verdicts: []string{verdict(1, "It is right.")}}
	b.vars = map[string]string{"XDG_STATE_HOME": t.TempDir(), "HOME": t.TempDir(), "BENCH_KEY": "sk-bench-0123456789"}
	b.server = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		if !strings.Contains(string(r.Body), "judge-1") {
			return fakemodel.Reply{Text: b.answer}
		}
		b.asked++
		text := b.verdicts[0]
		if len(b.verdicts) > 1 {
			b.verdicts = b.verdicts[1:]
		}
		if text == "500" {
			return fakemodel.Reply{Status: 500, Headers: map[string]string{"retry-after-ms": "0"}, Body: `{"error":{"message":"down"}}`}
		}
		return fakemodel.Reply{Text: text}
	})
	if code := b.run("init", b.dir); code != 0 {
		t.Fatal(b.out)
	}
	b.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n")
	b.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+b.server.OpenAI()+"\n  key_env: BENCH_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n    judge-1: {input: 1000000, output: 4000000}\n")
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\ntemperature: 0\nmax_output_tokens: 200\n")
	b.write("bench/cities/registration.yaml", `version: 1
class: cities
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`)
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","grade":{"kind":"judge","criteria":"Names the capital of Norway."}}`)
	return b
}

func (b *tribunal) dataset(lines ...string) {
	b.write("bench/cities/dataset.jsonl", strings.Join(lines, "\n")+"\n")
}

func (b *tribunal) write(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tribunal) run(args ...string) int {
	b.t.Helper()
	var out bytes.Buffer
	env := newEnv(strings.NewReader(""), &out, &out, func(name string) string { return b.vars[name] })
	if args[0] != "init" {
		args = append(args, "--workspace", b.dir)
	}
	code := newProgram(env).main(args)
	b.out = out.String()
	return code
}

func (b *tribunal) live() int {
	return b.run("run", "cities", "--live", "--cache=false", "--max-cost", "1")
}

// entries lists what the ledger has of judging, after verifying it.
func (b *tribunal) entries() (found []string, drawn []evidence.JudgeDrawn) {
	b.t.Helper()
	env := newEnv(nil, io.Discard, io.Discard, func(name string) string { return b.vars[name] })
	env.WorkspaceDir = b.dir
	_, _, err := verifiedLedger(env, func(r ledger.Record) error {
		switch body := r.Body.(type) {
		case *evidence.JudgeDrawn:
			found = append(found, fmt.Sprintf("%s %s draw %d", body.Attempt, body.CaseID, body.Draw))
			drawn = append(drawn, *body)
		case *evidence.IntegrityEvent:
			found = append(found, body.Name+" "+string(body.Severity))
		case *evidence.CaseScored:
			score := "unscored: " + body.Reason
			if body.Score != nil {
				score = fmt.Sprint(body.Score.Score)
			}
			found = append(found, fmt.Sprintf("%s %s judged=%v %s", body.CaseID, body.Outcome, body.JudgedByModel, score))
		case *evidence.AttemptRegistered:
			if body.Plan.JudgeDigest == nil {
				found = append(found, body.Attempt+" without a judge")
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return found, drawn
}

func (b *tribunal) require(want ...string) {
	b.t.Helper()
	got, _ := b.entries()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("the ledger has\n\t%s\nwant\n\t%s\n%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), b.out)
	}
}

func TestRunDrawsAVerdictOnceAndUsesItAgain(t *testing.T) {
	b := newTribunal(t)
	// What the draw cost is told, and is none of the agent's cost; the second
	// run draws nothing.
	if code := b.live(); code != 0 || !strings.Contains(b.out, " for judging\n") {
		t.Fatalf("%d: %s", code, b.out)
	}
	cost := regexp.MustCompile(`cost +(\$[0-9.]+)`).FindStringSubmatch(b.out)
	if code := b.live(); code != 0 || strings.Contains(b.out, "for judging") || cost == nil || !strings.Contains(b.out, cost[1]+"\n") {
		t.Fatalf("%d: first %v, then %s", code, cost, b.out)
	}
	if b.asked != 1 {
		t.Errorf("the judge was asked %d times", b.asked)
	}
	b.require("cities.default.1 norway draw 1", "norway passed judged=true 1", "norway passed judged=true 1")
	info, err := os.Stat(filepath.Join(b.dir, ".tally", "keys", "judge-cache"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	// The evidence has the verdict that the ledger names, and every piece is
	// there.
	if code := b.run("scorecard"); code != 0 || !strings.Contains(b.out, "evidence    of 1.0000 of the solved tasks") {
		t.Errorf("%d: %s", code, b.out)
	}
	if code := b.run("judges", "list"); code != 0 || !strings.Contains(b.out, "cities/norway  1 of 1 votes, spread 0, draw 1, judge-1") {
		t.Errorf("%d: %s", code, b.out)
	}
	if code := b.run("judges", "prune", "--older-than", "1h"); code != 0 || !strings.Contains(b.out, "0 verdicts removed") {
		t.Errorf("%d: %s", code, b.out)
	}
	if code := b.run("judges", "prune"); code != 2 {
		t.Errorf("%d: %s", code, b.out)
	}
}

// Who judges is signed with the class: a friendlier judge is refused before
// anything runs, and the digest to sign is the one that is printed.
func TestRunRefusesAnotherJudgeThanTheClassPins(t *testing.T) {
	b := newTribunal(t)
	file := filepath.Join(b.dir, "bench", "cities", "registration.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	counting := strings.Replace(string(data), "judged_scores_count: false", "judged_scores_count: true", 1)
	b.write("bench/cities/registration.yaml", counting)
	if code := b.live(); code != refusal.ExitFailed || !strings.Contains(b.out, "judge_digest: is missing") {
		t.Errorf("scores of any judge count: %d: %s", code, b.out)
	}
	if code := b.run("judges", "digest"); code != 0 {
		t.Fatalf("%d: %s", code, b.out)
	}
	b.write("bench/cities/registration.yaml", counting+"judge_digest: "+strings.TrimSpace(b.out)+"\n")
	if code := b.live(); code != 0 {
		t.Fatalf("%d: %s", code, b.out)
	}
	asked := b.asked
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\ntemperature: 1\nmax_output_tokens: 200\n")
	if code := b.run("run", "cities", "--live", "--max-cost", "1", "--json"); code != refusal.ExitUnverified || !strings.Contains(b.out, string(refusal.JudgeDigestMismatch)) || b.asked != asked {
		t.Errorf("another judge: %d, asked %d times: %s", code, b.asked-asked, b.out)
	}
}

// An operator deletes a verdict and rolls again.
func TestRunNumbersTheSecondDrawOfADeletedVerdict(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{verdict(0.25, "No."), verdict(1, "Yes.")}
	b.live()
	if err := os.RemoveAll(filepath.Join(b.dir, ".tally", "judge-cache")); err != nil {
		t.Fatal(err)
	}
	b.live()
	b.require("cities.default.1 norway draw 1", "norway failed judged=true 0.25", "cities.default.2 norway draw 2", "norway passed judged=true 1")
	if code := b.run("scorecard"); code != 0 || !strings.Contains(b.out, "2 verdicts drawn, 1 of them again") {
		t.Errorf("%d: %s", code, b.out)
	}
	_, drawn := b.entries()
	if drawn[0].Key != drawn[1].Key || drawn[0].Verdict == drawn[1].Verdict {
		t.Errorf("draws %+v", drawn)
	}
}

func TestRunRefusesAJudgeItCannotPayOrKeepSecret(t *testing.T) {
	b := newTribunal(t)
	b.write("judge.yaml", "version: 1\nmodel: judge-2\napi: openai.chat\n")
	if code := b.live(); code != 1 || !strings.Contains(b.out, "the judge default of judge.yaml") || len(b.server.Requests()) != 0 {
		t.Errorf("%d: %s", code, b.out)
	}
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\nvote: 3\n")
	if code := b.live(); code != 1 || !strings.Contains(b.out, "judge.yaml:4") {
		t.Errorf("%d: %s", code, b.out)
	}
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\n")
	if code := b.run("judges", "list"); code != 1 || !strings.Contains(b.out, "tally keys new judge-cache") {
		t.Errorf("%d: %s", code, b.out)
	}
	if code := b.run("keys", "new", "judge-cache"); code != 0 {
		t.Fatal(b.out)
	}
	if err := os.Chmod(filepath.Join(b.dir, ".tally", "keys", "judge-cache"), 0o640); err != nil {
		t.Fatal(err)
	}
	if code := b.live(); code != 1 || !strings.Contains(b.out, "has mode 0640, expected 0600") {
		t.Errorf("%d: %s", code, b.out)
	}
	b.require()
}

// What the judge said is in the recording of the attempt, and grading again
// asks no model.
func TestRescoreOfALiveAttemptUsesItsRecordedVerdict(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{verdict(0.75, "Yes."), verdict(0, "No.")}
	if code := b.live(); code != 0 {
		t.Fatal(b.out)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, ".tally", "judge-cache")); err != nil {
		t.Fatal(err)
	}
	if code := b.run("rescore", "cities.default.1", "--dry-run"); code != 0 || b.asked != 1 || !strings.Contains(b.out, "1 cases graded again, 0 would change") || strings.Contains(b.out, "not graded") {
		t.Errorf("%d, asked %d times: %s", code, b.asked, b.out)
	}
}
