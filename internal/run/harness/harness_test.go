package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

var attemptKinds = []evidence.Kind{evidence.AttemptRegisteredKind, evidence.CaseStartedKind, evidence.CaseScoredKind, evidence.AttemptFinishedKind, evidence.IntegrityEventKind}

func TestAttemptIsRegisteredRecordedAndFinishedInOrder(t *testing.T) {
	p := newPlace(t, sum(1, "2"), sum(2, "wrong"), sum(3, "6"))
	s, err := p.run(context.Background(), func(c *setup) { c.Spec.Jobs = 1 })
	if err != nil {
		t.Fatal(err)
	}
	if s.Outcomes[evidence.Passed] != 2 || s.Outcomes[evidence.Failed] != 1 || !s.Finished || *s.MeanScore < 0.66 || *s.MeanScore > 0.67 {
		t.Errorf("summary %+v", s)
	}
	var got []string
	for _, r := range p.records(attemptKinds...) {
		got = append(got, string(r.Envelope.Kind))
	}
	want := "attempt.registered case.started case.scored case.started case.scored case.started case.scored attempt.finished"
	if strings.Join(got, " ") != want {
		t.Errorf("entries\n got %s\nwant %s", strings.Join(got, " "), want)
	}
	p.checkEvidence()
}

// checkEvidence follows every record to its evidence: the index, and each piece
// that it names, with the trajectory verified by its head.
func (p *place) checkEvidence() {
	p.t.Helper()
	vault := store.OpenVault(store.OS{}, filepath.Join(p.dir, "evidence"))
	for _, r := range p.records(evidence.CaseScoredKind) {
		rec := r.Body.(*evidence.CaseScored)
		data, err := vault.Get(rec.EvidenceDigests[0], 1<<20)
		if err != nil {
			p.t.Fatalf("case %s: %v", rec.CaseID, err)
		}
		var files evidence.CaseFiles
		if err := canon.UnmarshalCanonical(data, &files); err != nil {
			p.t.Fatalf("case %s: the index: %v", rec.CaseID, err)
		}
		for _, d := range files.All() {
			if _, err := vault.Get(d, 1<<26); err != nil {
				p.t.Errorf("case %s: %v", rec.CaseID, err)
			}
		}
		log, err := vault.Get(files.Trajectory.Digest, 1<<26)
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := trajectory.Verify(log, trajectory.HeadIs(files.Trajectory.Head)); err != nil {
			p.t.Errorf("case %s: %v", rec.CaseID, err)
		}
	}
}

func TestScoresDoNotDependOnHowManyRunAtOnce(t *testing.T) {
	lines := sums(40)
	lines[7] = sum(7, "wrong")
	var want string
	for _, jobs := range []int{1, 3, 16} {
		p := newPlace(t, lines...)
		p.tick = 0 // the clock is not what is compared
		s, err := p.run(context.Background(), func(c *setup) { c.Spec.Jobs, c.Spec.Repeat = jobs, 2 })
		if err != nil {
			t.Fatal(err)
		}
		scores := map[string]string{}
		for _, r := range p.records(evidence.CaseScoredKind) {
			rec := *r.Body.(*evidence.CaseScored)
			data, err := canon.Marshal(&rec)
			if err != nil {
				t.Fatal(err)
			}
			scores[fmt.Sprint(rec.CaseID, rec.Repeat)] = string(data)
		}
		s.Head = digest.ID{} // entries come in the order in which cases end
		got, err := json.Marshal([]any{scores, s})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(got)
		}
		if string(got) != want {
			t.Errorf("with %d jobs the records differ", jobs)
		}
	}
}

// A run that is stopped after any number of cases goes on, and in the end each
// case has exactly one score and the ledger tells how often it was begun.
func TestResumeNeitherRepeatsNorLosesACase(t *testing.T) {
	const n = 30
	p := newPlace(t, sums(n)...)
	for stop := 3; ; stop += 7 {
		ctx, cancel := context.WithCancel(context.Background())
		done := 0
		s, err := p.run(ctx, func(c *setup) {
			c.Spec.Jobs, c.Spec.Resume = 4, stop > 3
			c.Progress = watching(func(Result) {
				if done++; done == 7 {
					cancel()
				}
			})
		})
		cancel()
		if err == nil {
			if s.Outcomes[evidence.Passed] != n {
				t.Errorf("in the end %+v", s)
			}
			break
		}
		if !refusal.Is(err, refusal.Interrupted) {
			t.Fatal(err)
		}
	}
	scored, started := map[string]int{}, map[string]int{}
	for _, r := range p.records(evidence.CaseScoredKind, evidence.CaseStartedKind) {
		switch b := r.Body.(type) {
		case *evidence.CaseScored:
			scored[b.CaseID]++
			if b.Execution != started[b.CaseID] {
				t.Errorf("case %s: execution %d was scored after %d starts", b.CaseID, b.Execution, started[b.CaseID])
			}
		case *evidence.CaseStarted:
			started[b.CaseID]++
			if b.Execution != started[b.CaseID] {
				t.Errorf("case %s: start %d says execution %d", b.CaseID, started[b.CaseID], b.Execution)
			}
		}
	}
	if len(scored) != n {
		t.Errorf("%d cases scored, want %d", len(scored), n)
	}
	for id, count := range scored {
		if count != 1 {
			t.Errorf("case %s was scored %d times", id, count)
		}
	}
	if got := len(p.records(evidence.AttemptRegisteredKind)); got != 1 {
		t.Errorf("%d attempts registered, want 1", got)
	}
	p.checkEvidence()
}

func TestResumeRefusesAnotherPlan(t *testing.T) {
	p := newPlace(t, sums(10)...)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := p.run(ctx, func(c *setup) { c.Spec.Jobs = 1; c.Progress = watching(func(Result) { cancel() }) }); !refusal.Is(err, refusal.Interrupted) {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*setup){
		"fewer cases": func(c *setup) { c.Select = func(s *scenario.Task) bool { return s.ID < "case-000005" } },
		"repeats":     func(c *setup) { c.Spec.Repeat = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.run(context.Background(), func(c *setup) { c.Spec.Resume = true; change(c) })
			if !refusal.Is(err, refusal.PlanChanged) {
				t.Errorf("got %v", err)
			}
		})
	}
	p.write("targets/default.yaml", strings.Replace(plainTarget, "model: m", "model: another", 1))
	if _, err := p.run(context.Background(), func(c *setup) { c.Spec.Resume = true }); !refusal.Is(err, refusal.PlanChanged) {
		t.Errorf("another target: %v", err)
	}
}

func TestWhatGoesWrongIsRecordedAndTheAttemptGoesOn(t *testing.T) {
	line := func(id, rest string) string {
		return fmt.Sprintf(`{"id":"%s","input":"hi","grade":{"kind":"exact","expected":"ok"},%s}`, id, rest)
	}
	p := newPlace(t,
		line("a-right", `"model":[{"text":"ok"}]`),
		line("b-no-recording", `"tags":["x"]`),
		line("c-too-few-replies", `"model":[{"when":{"contains":"never said"},"text":"ok"}]`),
		line("d-too-dear", `"model":[{"text":"ok","cost_microdollars":2000000},{"text":"ok"}],"turns":[{"text":"hi"},{"text":"again"}]`),
		line("e-server-errors", `"model":[{"status":500,"repeat":true}]`),
		line("f-refuses", `"model":[{"refusal":"I will not"}]`),
	)
	_, err := p.run(context.Background(), nil)
	if err == nil || !strings.Contains(err.Error(), `expected "input" or "turns", and not both`) {
		t.Fatalf("a line with both input and turns was accepted: %v", err)
	}
	p = newPlace(t,
		line("a-right", `"model":[{"text":"ok"}]`),
		line("b-no-recording", `"tags":["x"]`),
		line("c-too-few-replies", `"model":[{"when":{"contains":"never said"},"text":"ok"}]`),
		`{"id":"d-too-dear","turns":[{"text":"hi"},{"text":"again"}],"grade":{"kind":"exact","expected":"ok"},"model":[{"text":"ok","cost_microdollars":2000000},{"text":"ok"}]}`,
		line("e-server-errors", `"model":[{"status":500,"repeat":true}]`),
		line("f-refuses", `"model":[{"refusal":"I will not"}]`),
	)
	s, err := p.run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range p.records(evidence.CaseScoredKind) {
		rec := r.Body.(*evidence.CaseScored)
		got[rec.CaseID] = string(rec.Outcome) + " " + strings.SplitN(rec.Reason, ":", 2)[0]
	}
	for id, want := range map[string]string{
		"a-right": "passed ", "b-no-recording": "errored CassetteMiss", "c-too-few-replies": "errored CassetteMiss",
		"d-too-dear": "truncated LimitReached", "f-refuses": "failed ",
	} {
		if got[id] != want {
			t.Errorf("case %s: %q, want %q", id, got[id], want)
		}
	}
	if !strings.HasPrefix(got["e-server-errors"], "errored ") {
		t.Errorf("case e-server-errors: %q", got["e-server-errors"])
	}
	if s.Outcomes[evidence.Passed] != 1 || s.Outcomes[evidence.Errored] != 3 || s.Outcomes[evidence.Truncated] != 1 {
		t.Errorf("summary %+v", s)
	}
}

func TestAttemptsBudgetTruncatesWhatIsLeft(t *testing.T) {
	lines := make([]string, 5)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"id":"c%d","input":"hi","model":[{"text":"ok","cost_microdollars":100}],"grade":{"kind":"exact","expected":"ok"}}`, i)
	}
	p := newPlace(t, lines...)
	s, err := p.run(context.Background(), func(c *setup) { c.Spec.Jobs, c.Spec.MaxCostMicroUSD = 1, 250 })
	if err != nil {
		t.Fatal(err)
	}
	if s.Outcomes[evidence.Passed] != 3 || s.Outcomes[evidence.Truncated] != 2 {
		t.Errorf("outcomes %v, want 3 passed and 2 truncated", s.Outcomes)
	}
	p.checkEvidence()
}

func TestAnApprovalSuspendsAndIsAnsweredLater(t *testing.T) {
	p := newPlace(t, `{"id":"pay","input":"pay","tools":[{"name":"pay","class":"financial","replies":[{"result":{"paid":true}}]}],`+
		`"model":[{"tool_calls":[{"name":"pay","args":{}}]},{"text":"paid"}],"grade":{"kind":"exact","expected":"paid"}}`, sum(1, "2"))
	p.write("bench/sums/registration.yaml", strings.Replace(registration, "governance: autonomous", "governance: approved", 1))
	s, err := p.run(context.Background(), nil)
	if !refusal.Is(err, refusal.ApprovalPending) || s.Finished || s.Outcomes[evidence.Passed] != 1 {
		t.Fatalf("not suspended: %+v, %v", s, err)
	}
	asked := 0
	s, err = p.run(context.Background(), func(c *setup) {
		c.Spec.Resume = true
		c.People = answering(func(caseID string, q session.Question) bool {
			asked++
			return caseID == "pay" && q.Name == "pay"
		})
	})
	if err != nil || asked != 1 || s.Outcomes[evidence.Passed] != 2 {
		t.Fatalf("asked %d times, %+v, %v", asked, s, err)
	}
	for _, r := range p.records(evidence.CaseScoredKind) {
		if rec := r.Body.(*evidence.CaseScored); rec.CaseID == "pay" && rec.Execution != 2 {
			t.Errorf("execution %d of the suspended case was scored, want 2", rec.Execution)
		}
	}
}

func TestLongPlansLieInTheEvidence(t *testing.T) {
	p := newPlace(t, sums(longPlan+1)...)
	if _, err := p.run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	reg := p.records(evidence.AttemptRegisteredKind)[0].Body.(*evidence.AttemptRegistered)
	if reg.Plan.Cases != nil || reg.Plan.CasesDigest == nil || reg.Plan.CaseCount != longPlan+1 {
		t.Fatalf("plan %+v", reg.Plan)
	}
	data, err := store.OpenVault(store.OS{}, filepath.Join(p.dir, "evidence")).Get(*reg.Plan.CasesDigest, 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	var cases []evidence.PlannedCase
	if err := canon.UnmarshalCanonical(data, &cases); err != nil || len(cases) != longPlan+1 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}

// A hello-world bench with a fixed clock and key crosses exactly these
// boundaries, and leaves exactly this ledger. A crossing that is not listed
// here fails the test.
func TestBoundariesAndHeadAreExact(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	p.tick = 0
	p.now = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	if _, err := p.run(context.Background(), func(c *setup) { c.Spec.Jobs = 1 }); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "runs", "sums.default.1", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var e Crossing
		if err := canon.Unmarshal([]byte(strings.TrimSpace(line)), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Event.Boundary, e.Event.Severity, e.Event.Name, e.Case)))
	}
	want := []string{
		"TB-1 info task_class.registered",
		"TB-4 info bench.run.started",
		"TB-4 info bench.case.completed case-000001",
		"TB-4 info bench.run.finished",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("boundaries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	records := p.records(append(attemptKinds, evidence.LedgerOpened)...)
	if got := records[len(records)-1].Head.String(); got != goldenHead {
		t.Errorf("the ledger ends with %s, want %s", got, goldenHead)
	}
}

// goldenHead changes whenever anything that is hashed on the way changes; then
// look at what changed before you write the new one here.
const goldenHead = "sha256:68305898394c756ff26128520975a9010aeca1a91f1c138e654afc08f191a5c8"

// TestMachineWithoutTheRubricsImageRegistersNothing: an attempt that was never
// going to finish must not stay in the ledger, where it counts against its
// class.
func TestMachineWithoutTheRubricsImageRegistersNothing(t *testing.T) {
	p := newPlace(t, `{"id":"case-1","input":"What is 1 plus 1?","model":[{"text":"2"}],"grade":{"kind":"rubric"}}`)
	p.write("bench/sums/rubric.py", "print(1)\n")
	missing := errors.New("no such image")
	_, err := p.run(context.Background(), func(c *setup) {
		c.Image = func(digest.Content) (*image.Image, error) { return nil, missing }
	})
	if !errors.Is(err, missing) {
		t.Errorf("got %v, want that there is no image", err)
	}
	if got := p.records(evidence.AttemptRegisteredKind); len(got) != 0 {
		t.Errorf("%d attempts are registered", len(got))
	}
}

// TestMachineThatCannotRunTheAgentRegistersNothing: no class that the
// registration accepts runs programs.
func TestMachineThatCannotRunTheAgentRegistersNothing(t *testing.T) {
	inMicroVMs := strings.Replace(registration, "classes: [gvisor]", "classes: [microvm]", 1)
	for name, p := range map[string]*place{
		"an agent that is a program": newPlace(t, sum(1, "2")),
		"a case with a test":         newPlace(t, `{"id":"case-1","input":"mend it","model":[{"text":"done"}],"files":{"a":"b"},"test":{"command":["true"],"timeout_seconds":10}}`),
	} {
		p.write("bench/sums/registration.yaml", inMicroVMs)
		if name == "an agent that is a program" {
			p.write("targets/default.yaml", "version: 1\nkind: command\ncommand: {command: [cat]}\n")
		}
		if _, err := p.run(context.Background(), nil); !refusal.Is(err, refusal.SandboxUnavailable) {
			t.Errorf("%s: %v, want SandboxUnavailable", name, err)
		}
		if got := p.records(evidence.AttemptRegisteredKind); len(got) != 0 {
			t.Errorf("%s: %d attempts are registered", name, len(got))
		}
	}
}

// TestMachineWithoutTheRubricsImageAsksNoModel: a recording is paid for.
func TestMachineWithoutTheRubricsImageAsksNoModel(t *testing.T) {
	p := newPlace(t, `{"id":"case-1","input":"What is 1 plus 1?","grade":{"kind":"rubric"}}`)
	p.write("bench/sums/rubric.py", "print(1)\n")
	missing, asked := errors.New("no such image"), false
	err := p.rehearse(func(c *setup) {
		c.Image = func(digest.Content) (*image.Image, error) { return nil, missing }
		c.Live = playing(func(*scenario.Task) (Recording, error) { asked = true; return nil, errors.New("asked") })
	}, func(*Graded) error { return nil })
	if !errors.Is(err, missing) || asked {
		t.Errorf("got %v, asked %v; want that there is no image, before anything is asked", err, asked)
	}
}

// TestSpentIsThatOfTheAttemptToGoOnWith: a limit of cost is the attempt's, and a
// resume must not begin it again.
func TestSpentIsThatOfTheAttemptToGoOnWith(t *testing.T) {
	p := &Past{}
	for n, costs := range [][]int64{{7}, {30, 12}} {
		id := fmt.Sprintf("sums.default.%d", n+1)
		p.registered(&evidence.AttemptRegistered{Attempt: id, Class: "sums", Target: "default"})
		for i, micro := range costs {
			p.open[id].results[planned{fmt.Sprint(i), 1}] = brief{cost: cost.Of(micro, 1)}
		}
	}
	got, unpriced := p.newestOpen("sums", "default").spent()
	if other := p.newestOpen("sums", "other"); got != 42 || unpriced != 2 || other != nil {
		t.Errorf("spent %d, %d calls unpriced, by another target %v; want 42, 2 and none", got, unpriced, other)
	}
}
