package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A crew drives cases in this process as workers of a fleet do: without the bench, and
// what comes back is read from its bytes.
type crew struct {
	driver *Driver
	change func(j *Job)                // what is driven in place of what was asked for
	forge  func(n int, d *DriveResult) // what becomes of it on the way, by the number of the claim
	lose   func(n int) bool            // a worker that does not come back
	twice  bool                        // every case is run by a second worker
	alone  bool                        // and there is none

	mu       sync.Mutex
	claims   int
	verdicts []error
	begun    Start
}

func (c *crew) Begin(_ context.Context, s Start) error { c.begun = s; return nil }
func (c *crew) AtOnce() int                            { return 4 }
func (c *crew) Doubled(string, int) bool               { return c.twice }

func (c *crew) Claim(_ context.Context, o Offer) (Claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone && o.Not != "" {
		return nil, ErrNoSecond
	}
	c.claims++
	return &crewClaim{c, c.claims, o.Not}, nil
}

type crewClaim struct {
	*crew
	n   int
	not string
}

func (k *crewClaim) Worker() evidence.Worker {
	if k.not != "" {
		return evidence.Worker{Key: "SHA256:second", HarnessVersion: "v0"}
	}
	return evidence.Worker{Key: "SHA256:first", HarnessVersion: "v0"}
}

func (k *crewClaim) Drive(ctx context.Context, h Handout) (*DriveResult, error) {
	if k.lose != nil && k.lose(k.n) {
		return nil, fmt.Errorf("%w: as if killed", ErrDriverLost)
	}
	// A worker is not given what says what a right answer is.
	c := *h.Case
	c.Expected, c.ExpectedFiles, c.Grading, c.Metadata = nil, nil, nil, nil
	if k.change != nil && k.n == 1 {
		k.change(&h.Job)
	}
	tested := c.Scenario.Test != nil
	c.Scenario.Test, c.Tests = nil, nil
	d, err := k.driver.Drive(ctx, &c, h.Job, tested)
	if err != nil {
		return nil, err
	}
	data, err := canon.Marshal(d)
	if err != nil {
		return nil, err
	}
	sent := &DriveResult{Pieces: maps.Clone(d.Pieces)}
	if err := canon.Unmarshal(data, sent); err != nil {
		return nil, err
	}
	if k.forge != nil {
		k.forge(k.n, sent)
	}
	return sent, nil
}

func (k *crewClaim) Verdict(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verdicts = append(k.verdicts, err)
}

// runOver runs an attempt of a place over a crew and gives its entries.
func runOver(t *testing.T, p *place, c *crew) *notebook {
	t.Helper()
	n := &notebook{}
	runOn(t, p, c, n)
	return n
}

// runOn is runOver with a notebook of one's own.
func runOn(t *testing.T, p *place, c *crew, n *notebook) {
	t.Helper()
	_, err := p.run(context.Background(), func(s *setup) {
		inNotebook(t, n)(s)
		d, err := NewDriver(context.Background(), Config{Spec: Spec{Class: s.Bench.Class(), Version: "v0"}, Target: s.Target, Now: p.clock}, DriverClass{Registration: s.Bench.Registration()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		c.driver, s.Drivers = d, c
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhatAWorkerDoesAtTheEndIsNotListed: a worker does something while the attempt is
// being finished. The list of events is in the evidence by then and stays as it is; the
// ledger has the event. What comes after the end is not written anywhere.
func TestWhatAWorkerDoesAtTheEndIsNotListed(t *testing.T) {
	p, c := newPlace(t, sums(1)...), &crew{}
	late := evidence.IntegrityEvent{Name: "fleet.result.late", Severity: evidence.Warn, Boundary: "TB-4", Detail: "late", Data: []byte("{}")}
	n := &notebook{}
	n.before = func(kind evidence.Kind) {
		if kind != evidence.AttemptFinishedKind {
			return
		}
		if err := c.begun.Refused(late); err != nil {
			t.Error(err)
		}
	}
	runOn(t, p, c, n)
	ended := len(n.entries)
	if err := c.begun.Refused(late); err != nil || len(n.entries) != ended {
		t.Errorf("after the end, when the ledger is closed: %v, %d entries", err, len(n.entries)-ended)
	}
	last := n.entries[ended-2:]
	if last[0].kind != evidence.IntegrityEventKind || last[1].kind != evidence.AttemptFinishedKind {
		t.Fatalf("the ledger ends with %s, %s", last[0].kind, last[1].kind)
	}
	var f evidence.AttemptFinished
	if err := canon.Unmarshal(last[1].body, &f); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "runs", f.Attempt, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if *f.Events != digest.ContentOf(data) {
		t.Errorf("the evidence has another list than the attempt's folder:\n%s", data)
	}
}

func scoredIn(t *testing.T, n *notebook) map[string]evidence.CaseScored {
	t.Helper()
	all := map[string]evidence.CaseScored{}
	for _, e := range n.entries {
		if e.kind != evidence.CaseScoredKind {
			continue
		}
		var r evidence.CaseScored
		if err := canon.Unmarshal(e.body, &r); err != nil {
			t.Fatal(err)
		}
		if _, twice := all[r.CaseID]; twice {
			t.Errorf("case %s is recorded twice", r.CaseID)
		}
		all[r.CaseID] = r
	}
	return all
}

// TestDriversElsewhereGiveTheSameRecords: who drives a case makes no difference to its
// record, but for the worker that it names.
func TestDriversElsewhereGiveTheSameRecords(t *testing.T) {
	lines := []string{sum(1, "2"), sum(2, "wrong"), sum(3, "6")}
	here := newPlace(t, lines...)
	here.tick = 0
	local := &notebook{}
	if _, err := here.run(context.Background(), inNotebook(t, local)); err != nil {
		t.Fatal(err)
	}
	there := newPlace(t, lines...)
	there.tick = 0
	want, got := scoredIn(t, local), scoredIn(t, runOver(t, there, &crew{}))
	if len(got) != 3 {
		t.Fatalf("%d cases are recorded", len(got))
	}
	for id, w := range want {
		g := got[id]
		if g.Worker == nil || g.Worker.Key != "SHA256:first" {
			t.Errorf("case %s: worker is %+v", id, g.Worker)
		}
		g.Worker = nil
		a, _ := canon.Marshal(&w)
		b, _ := canon.Marshal(&g)
		if string(a) != string(b) {
			t.Errorf("case %s: here\n%s\nelsewhere\n%s", id, a, b)
		}
	}
}

// TestForgedResultsAreRefused: what is not a result of the case that was given is thrown
// away, the ledger says so, and the case runs again as execution 2.
func TestForgedResultsAreRefused(t *testing.T) {
	first := func(forge func(*DriveResult)) func(int, *DriveResult) {
		return func(n int, d *DriveResult) {
			if n == 1 {
				forge(d)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*Job)
		forge  func(*DriveResult)
		want   string
	}{
		{"a trajectory of another attempt", func(j *Job) { j.Attempt = "sums.default.99" }, nil, "the trajectory is of sums.default.99"},
		{"a trajectory of another execution", func(j *Job) { j.Execution = 7 }, nil, "execution 7"},
		{"a trajectory of another repetition", func(j *Job) { j.Repeat = 3 }, nil, "repetition 3"},
		{"a piece is missing", nil, func(d *DriveResult) { delete(d.Pieces, d.Files.Trajectory.Digest) }, "is missing"},
		{"a piece is another", nil, func(d *DriveResult) { d.Pieces[d.Files.Trajectory.Digest] = []byte("{}") }, "is missing"},
		{"a chain that is cut", nil, func(d *DriveResult) {
			log := string(d.Pieces[d.Files.Trajectory.Digest])
			cut := []byte(log[:strings.LastIndexByte(log[:len(log)-1], '\n')+1])
			d.Files.Trajectory.Digest = digest.ContentOf(cut)
			d.Pieces[d.Files.Trajectory.Digest] = cut
		}, "head"},
		{"an answer that was not given", nil, func(d *DriveResult) {
			answer := digest.ContentOf([]byte("2"))
			d.Files.Answer, d.Pieces[answer] = &answer, []byte("2")
		}, "is not that of the trajectory"},
		{"a grading of its own", nil, func(d *DriveResult) { d.Files.Grading = &d.Files.Trajectory.Digest }, "only grading makes"},
		{"a test that was not run", nil, func(d *DriveResult) { d.Files.TestLog = &d.Files.Trajectory.Digest }, "only grading makes"},
		{"an end that is left to the test of a case without any", nil, func(d *DriveResult) {
			cut, head := cutEnd(d.Pieces[d.Files.Trajectory.Digest])
			d.Files.Trajectory = evidence.TrajectoryFile{Digest: digest.ContentOf(cut), Head: head}
			d.Pieces[d.Files.Trajectory.Digest] = cut
		}, "has no end, and the case has no test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, sum(1, "wrong"))
			c := &crew{change: tt.change}
			if tt.forge != nil {
				c.forge = first(tt.forge)
			}
			n := runOver(t, p, c)
			if len(c.verdicts) != 2 || !refusal.Is(c.verdicts[0], refusal.ResultRefused) || !strings.Contains(c.verdicts[0].Error(), tt.want) || c.verdicts[1] != nil {
				t.Fatalf("verdicts: %v", c.verdicts)
			}
			r := scoredIn(t, n)["case-000001"]
			if r.Execution != 2 || r.Outcome != evidence.Failed {
				t.Errorf("recorded: execution %d, %s", r.Execution, r.Outcome)
			}
			if got := strings.Count(n.kinds(), "case.started"); got != 2 || !strings.Contains(n.kinds(), "integrity.event") {
				t.Errorf("entries: %s", n.kinds())
			}
		})
	}
}

// cutEnd takes the last event of a trajectory away.
func cutEnd(log []byte) (cut []byte, head digest.ID) {
	lines := strings.SplitAfter(strings.TrimSuffix(string(log), "\n"), "\n")
	cut = []byte(strings.Join(lines[:len(lines)-1], ""))
	return cut, digest.IDOf([]byte(strings.TrimSuffix(lines[len(lines)-2], "\n")))
}

// TestALostWorkerCostsAnExecution: nothing is lost and nothing is recorded twice.
func TestALostWorkerCostsAnExecution(t *testing.T) {
	p := newPlace(t, sum(1, "2"), sum(2, "4"))
	c := &crew{lose: func(n int) bool { return n <= 2 }}
	n := runOver(t, p, c)
	if len(c.verdicts) != 4 || !errors.Is(c.verdicts[0], ErrDriverLost) {
		t.Errorf("verdicts: %v", c.verdicts)
	}
	all := scoredIn(t, n)
	if len(all) != 2 || strings.Count(n.kinds(), "case.started") != 4 {
		t.Errorf("%d records; %s", len(all), n.kinds())
	}
}

// TestALostCaseIsGivenUpInTheEnd: a case that breaks every worker is not started
// without end. It is unscored, and says why.
func TestALostCaseIsGivenUpInTheEnd(t *testing.T) {
	c := &crew{lose: func(int) bool { return true }}
	n := runOver(t, newPlace(t, sum(1, "2")), c)
	r := scoredIn(t, n)["case-000001"]
	if r.Outcome != evidence.Unscored || r.Score != nil || r.Execution != maxLosses || !strings.Contains(r.Reason, "did not bring the case back in 5 executions; the last: the worker was lost: as if killed") {
		t.Errorf("recorded: %s in execution %d, %s", r.Outcome, r.Execution, r.Reason)
	}
	if started := strings.Count(n.kinds(), "case.started"); started != maxLosses || c.claims != maxLosses {
		t.Errorf("started %d times, claimed %d times", started, c.claims)
	}
	// One more, and it would have been brought back.
	c = &crew{lose: func(n int) bool { return n < maxLosses }}
	if r := scoredIn(t, runOver(t, newPlace(t, sum(1, "2")), c))["case-000001"]; r.Outcome != evidence.Passed || r.Execution != maxLosses {
		t.Errorf("recorded: %s in execution %d, %s", r.Outcome, r.Execution, r.Reason)
	}
}

// TestACaseThatIsNotDoubledIsUnscored: it was to be compared, and was not.
func TestACaseThatIsNotDoubledIsUnscored(t *testing.T) {
	for name, tt := range map[string]struct {
		crew   *crew
		want   string
		claims int
	}{
		"none brings it back": {&crew{twice: true, lose: func(n int) bool { return n > 1 }}, "NotDoubled: no second worker brought the case back in 5 tries; the last: the worker was lost", 1 + maxLosses},
		"there is none":       {&crew{twice: true, alone: true}, "NotDoubled: no second worker brought the case back in 0 tries; the last: no second worker takes the case", 1},
	} {
		n := runOver(t, newPlace(t, sum(1, "2")), tt.crew)
		r := scoredIn(t, n)["case-000001"]
		if r.Outcome != evidence.Unscored || r.Score != nil || !strings.HasPrefix(r.Reason, tt.want) || tt.crew.claims != tt.claims {
			t.Errorf("%s: recorded %s, %s; %d claims", name, r.Outcome, r.Reason, tt.crew.claims)
		}
		if strings.Count(n.kinds(), "case.started") != 1 {
			t.Errorf("%s: entries: %s", name, n.kinds())
		}
	}
	// The last try counts.
	c := &crew{twice: true, lose: func(n int) bool { return n > 1 && n <= maxLosses }}
	if r := scoredIn(t, runOver(t, newPlace(t, sum(1, "2")), c))["case-000001"]; r.Outcome != evidence.Passed {
		t.Errorf("recorded %s, %s", r.Outcome, r.Reason)
	}
}

// TestWorkersThatDisagreeLeaveACaseUnscored: one of the two may have lied.
func TestWorkersThatDisagreeLeaveACaseUnscored(t *testing.T) {
	agree := runOver(t, newPlace(t, sum(1, "2")), &crew{twice: true})
	if r := scoredIn(t, agree)["case-000001"]; r.Outcome != evidence.Passed || r.Execution != 1 {
		t.Errorf("two that agree: %s", r.Outcome)
	}
	if !strings.Contains(string(lastOf(agree, evidence.IntegrityEventKind)), "fleet.workers_agree") {
		t.Errorf("entries: %s", agree.kinds())
	}
	// A lie about the reference agent is found without a second worker.
	p := newPlace(t, sum(1, "2"))
	c := &crew{}
	c.forge = func(n int, d *DriveResult) {
		if n == 1 {
			*d = *stoppedRun(t, c, p)
		}
	}
	runOver(t, p, c)
	if !refusal.Is(c.verdicts[0], refusal.ResultRefused) || !strings.Contains(c.verdicts[0].Error(), "the same agent with the same replies gives") {
		t.Errorf("verdicts: %v", c.verdicts)
	}
}

func lastOf(n *notebook, kind evidence.Kind) (body []byte) {
	for _, e := range n.entries {
		if e.kind == kind {
			body = e.body
		}
	}
	return body
}

// stoppedRun drives case 1 with a model that says something else.
func stoppedRun(t *testing.T, c *crew, p *place) *DriveResult {
	t.Helper()
	cfg, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := prepare(cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ready.worker.cases.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	other.Scenario.Model = append(other.Scenario.Model[:0:0], other.Scenario.Model...)
	other.Scenario.Model[0].Text = "a lie"
	d, err := c.driver.Drive(context.Background(), other, Job{Attempt: c.begun.Registered.Attempt, Case: other.ID, Repeat: 1, Execution: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
