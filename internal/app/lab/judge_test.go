package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/testing/fakemodel"
)

// A tribunal is a workspace with one case that a model judges, and a fake
// provider that is both the agent's model and the judge's.
type tribunal struct {
	*place
	server   *fakemodel.Server
	answer   string   // of the agent
	verdicts []string // of the judge, one after the other; the last stays
	asked    int      // times that the judge was
	cut      context.CancelFunc
}

func verdict(score float64, reason string) string {
	return fmt.Sprintf(`{"score":%v,"passed":%v,"reason":%q}`, score, score >= 0.5, reason)
}

func newTribunal(t *testing.T) *tribunal {
	t.Helper()
	b := &tribunal{place: newPlace(t), answer: "Oslo", verdicts: []string{verdict(1, "It is right.")}}
	b.server = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		if !strings.Contains(string(r.Body), "judge-1") {
			return fakemodel.Reply{Text: b.answer}
		}
		b.asked++
		text := b.verdicts[0]
		if len(b.verdicts) > 1 {
			b.verdicts = b.verdicts[1:]
		}
		if text == "cut" { // the run is interrupted meanwhile
			b.cut()
			return fakemodel.Reply{Hang: true}
		}
		if text == "500" {
			return fakemodel.Reply{Status: 500, Headers: map[string]string{"retry-after-ms": "0"}, Body: `{"error":{"message":"down"}}`}
		}
		return fakemodel.Reply{Text: text}
	})
	b.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+b.server.OpenAI()+"\n  key_env: BENCH_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n    judge-1: {input: 1000000, output: 4000000}\n")
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\ntemperature: 0\nmax_output_tokens: 200\n")
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","grade":{"kind":"judge","criteria":"Names the capital of Norway."}}`)
	return b
}

// live runs an attempt with real models, as the fake provider has it.
func (b *tribunal) live() (*RunResult, error) { return b.liveWith(nil) }

func (b *tribunal) liveWith(change func(*harness.Spec)) (*RunResult, error) {
	b.t.Helper()
	return b.run(func(o *harness.Spec) {
		if o.Live, o.MaxCostMicroUSD = true, 1_000_000; change != nil {
			change(o)
		}
	}, harness.Parties{})
}

// must is live for a run that comes to its end.
func (b *tribunal) must(ran *RunResult, err error) *RunResult {
	b.t.Helper()
	if err != nil || !ran.Finished {
		b.t.Fatalf("%+v, %v", ran, err)
	}
	return ran
}

// entries lists what the ledger has of judging, after verifying it.
func (b *tribunal) entries() (found []string, drawn []evidence.JudgeDrawn) {
	b.t.Helper()
	b.visit(func(r ledger.Record) {
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
	})
	return found, drawn
}

func (b *tribunal) require(want ...string) {
	b.t.Helper()
	got, _ := b.entries()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("the ledger has\n\t%s\nwant\n\t%s\n%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), b.notes)
	}
}

// Tampering, end to end: a hand-edited entry is a miss, a
// warning, an integrity event in the ledger, and is judged again.
func TestRunJudgesAgainWhatWasEditedByHand(t *testing.T) {
	b := newTribunal(t)
	b.answer = "Bergen"
	b.verdicts = []string{verdict(0, "It is wrong.")}
	b.must(b.live())
	file := b.verdictFile()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.NewReplacer(`"verdict":{"passed":false,"score":0`, `"verdict":{"passed":true,"score":1`,
		`"passed":false,"reason":"It is wrong."`, `"passed":true,"reason":"It is wrong."`, `"score":0}]`, `"score":1}]`).Replace(string(data))
	if forged == string(data) {
		t.Fatalf("nothing to forge in %s", data)
	}
	if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := JudgeCache(b.open())
	if err != nil {
		t.Fatal(err)
	}
	if list, err := cache.List(); err != nil || len(list) != 1 || list[0].State != "tampered" {
		t.Errorf("the cache lists %+v, %v", list, err)
	}
	b.must(b.live())
	if !strings.Contains(b.notes, "warning: case norway: the judge cache's entry") {
		t.Errorf("no warning: %s", b.notes)
	}
	if b.asked != 2 {
		t.Errorf("the judge was asked %d times", b.asked)
	}
	b.require("cities.default.1 norway draw 1", "norway failed judged=true 0",
		"cities.default.2 norway draw 2", judge.EventTampered+" block", "norway failed judged=true 0")
}

func TestRunReplaysWithTheCacheAndMakesNoCall(t *testing.T) {
	b := newTribunal(t)
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","expected":"Oslo","model":[{"text":"Oslo"}],"grade":{"kind":"judge","criteria":"Names the capital of Norway."}}`)
	b.must(b.run(nil, harness.Parties{}))
	if len(b.server.Requests()) != 0 {
		t.Error("a replay went to the network")
	}
	b.require("norway unscored judged=true unscored: the judge: no recorded verdict; run with --live or record")
	b.must(b.live())
	b.must(b.run(nil, harness.Parties{}))
	if b.asked != 1 {
		t.Errorf("the judge was asked %d times", b.asked)
	}
	b.require("norway unscored judged=true unscored: the judge: no recorded verdict; run with --live or record",
		"cities.default.2 norway draw 1", "norway passed judged=true 1", "norway passed judged=true 1")
}

func TestRunTakesAVerdictThatTheCaseWrote(t *testing.T) {
	b := newTribunal(t)
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","model":[{"when":{"agent":"fake-1"},"text":"Oslo"},{"when":{"agent":"judge-1","contains":"Oslo"},"text":"{\"score\":0.75,\"passed\":true,\"reason\":\"yes\"}"}],"grade":{"kind":"judge","criteria":"Names the capital."}}`)
	b.must(b.run(nil, harness.Parties{}))
	b.require("norway passed judged=true 0.75")
	if _, err := os.Stat(filepath.Join(b.dir, ".tally", "judge-cache")); !os.IsNotExist(err) {
		t.Errorf("what a person wrote is in the cache: %v", err)
	}
}

// A case cannot bring its own judge into a live run.
func TestRunLiveDoesNotListenToAVerdictThatTheCaseWrote(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{verdict(0, "No.")}
	b.dataset(`{"id":"norway","input":"What is the capital of Norway?","model":[{"when":{"agent":"judge-1"},"text":"{\"score\":1,\"passed\":true,\"reason\":\"yes\"}"}],"grade":{"kind":"judge","criteria":"Names the capital."}}`)
	b.must(b.live())
	b.require("cities.default.1 norway draw 1", "norway failed judged=true 0")
}

// Two repetitions with one answer are one question.
func TestRunDrawsOnceForAllRepetitions(t *testing.T) {
	b := newTribunal(t)
	b.verdicts = []string{verdict(1, "Yes."), verdict(0, "No.")}
	b.must(b.liveWith(func(o *harness.Spec) { o.Repeat, o.Jobs = 3, 3 }))
	b.require("cities.default.1 norway draw 1", "norway passed judged=true 1", "norway passed judged=true 1", "norway passed judged=true 1")
}

func TestRunLeavesACaseUnscoredWhenTheJudgeFails(t *testing.T) {
	for _, tt := range []struct{ name, reply, want string }{
		{"it is down", "500", "the judge: vote 1 of 1 failed: the provider answered with status 500"},
		{"it rambles", "I think it is right.", "the judge: its reply is not a verdict"},
		{"it is not a number", `{"score":NaN,"passed":true,"reason":"x"}`, "the judge: its reply is not a verdict"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTribunal(t)
			b.verdicts = []string{tt.reply}
			ran := b.must(b.live())
			got, _ := b.entries()
			if len(got) != 2 || got[0] != "cities.default.1 norway draw 1" || !strings.HasPrefix(got[1], "norway unscored judged=true unscored: "+tt.want) {
				t.Errorf("the ledger has %q", got)
			}
			if ran.Outcomes[evidence.Unscored] != 1 {
				t.Errorf("the summary: %+v", ran.Summary)
			}
		})
	}
}

func TestAnotherTemperatureIsAnotherQuestion(t *testing.T) {
	b := newTribunal(t)
	b.must(b.live())
	_, drawn := b.entries()
	if len(drawn) != 1 {
		t.Fatalf("%d draws", len(drawn))
	}
	b.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\ntemperature: 1\nmax_output_tokens: 200\n")
	b.must(b.live())
	if _, drawn = b.entries(); len(drawn) != 2 || drawn[1].Draw != 1 || drawn[0].Key == drawn[1].Key {
		t.Errorf("draws %+v", drawn)
	}
}

// verdictFile is the one entry of the cache.
func (b *tribunal) verdictFile() string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, ".tally", "judge-cache", "*.json"))
	if err != nil || len(files) != 1 {
		b.t.Fatalf("the cache has %q, %v", files, err)
	}
	return files[0]
}

// What a draw cost is told apart from the agent's cost, and a verdict that is
// used again costs nothing.
func TestJudgingIsNotTheAgentsCost(t *testing.T) {
	b := newTribunal(t)
	first, second := b.must(b.live()), b.must(b.live())
	if first.JudgeCost.MicroUSD == 0 || second.JudgeCost != (cost.Cost{}) || first.Cost.MicroUSD == 0 || first.Cost != second.Cost {
		t.Errorf("judging cost %s, then %s; the agent %s, then %s", first.JudgeCost, second.JudgeCost, first.Cost, second.Cost)
	}
}
