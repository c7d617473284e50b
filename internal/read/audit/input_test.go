package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

const (
	goodResult     = `{"task_id":"t1","correct":true,"answer":"Lisbon","expected_output":"Lisbon","turns":2}`
	goodTrajectory = `{"task_id":"t1","turns":2,"final_answer":"Lisbon","steps":[{"type":"llm_call","output":"Lisbon"}]}`
)

// TestBadInputIsNamedWithItsPlace has the inputs that are refused.
func TestBadInputIsNamedWithItsPlace(t *testing.T) {
	utf16 := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			b.Write([]byte{c, 0})
		}
		return b.String()
	}
	for _, tt := range []struct{ name, results, trajectories, metadata, want string }{
		{"a task twice", goodResult + "\n" + goodResult, "", "", "r: line 2: task t1 is there already: r: line 1"},
		{"a trajectory twice", goodResult, goodTrajectory + "\n\n" + goodTrajectory, "", "t: line 3: the trajectory of task t1 is there already: t: line 1"},
		{"a task twice in a list", "[" + goodResult + "," + goodResult + "]", "", "", "r: [1]: task t1 is there already: r: [0]"},
		{"no task id", `{"correct":true}`, "", "", "r: line 1: has no task_id"},
		{"a task id that is a number", `{"task_id":7}`, "", "", "r: line 1: task_id is 7, expected a text"},
		{"nothing", "\n", "", "", "r: has no result"},
		{"an unreadable line", goodResult + "\nhello\n", "", "", "r: line 2: "},
		{"NaN", `{"task_id":"t1","turns":NaN}`, "", "", "r: line 1: byte 24 is NaN, which is not a JSON number"},
		{"NaN in a trajectory", goodResult, `{"task_id":"t1","turns":NaN}`, "", "t: line 1: byte 24 is NaN"},
		{"turns below zero", `{"task_id":"t1","turns":-1}`, "", "", "turns is -1, expected a number from 0"},
		{"a member twice", `{"task_id":"t1","task_id":"t2"}`, "", "", `duplicate object member name "task_id"`},
		{"a byte order mark", "\xef\xbb\xbf" + goodResult, "", "", "r: begins with a byte order mark"},
		{"UTF-16", "\xff\xfe" + utf16(goodResult), "", "", "r: is UTF-16 or UTF-32 (little-endian), expected UTF-8"},
		{"UTF-16 without a mark", goodResult, utf16(goodTrajectory), "", "t: is UTF-16 or UTF-32 (little-endian), expected UTF-8"},
		{"Latin-1", goodResult, strings.Replace(goodTrajectory, "Lisbon", "Lisb\xf3n", 1), "", "t: line 1: "},
		{"a cut trajectory", goodResult, goodTrajectory[:60], "", "t: line 1: "},
		{"a cut document", `{"results":[` + goodResult, "", "", "r: "},
		{"text after a record", goodResult + goodResult, "", "", "r: line 1: "},
		{"a trajectory without a result", goodResult, `{"task_id":"t2","steps":[]}`, "", "t: line 1: task t2 is not in the results"},
		{"another answer", goodResult, strings.Replace(goodTrajectory, "Lisbon", "Porto", 1), "", `t: line 1: task t1 has final_answer "Porto", and "Lisbon" in the results: r: line 1`},
		{"other turns", goodResult, strings.Replace(goodTrajectory, `"turns":2`, `"turns":3`, 1), "", "t: line 1: task t1 has turns 3, and 2 in the results: r: line 1"},
		{"another model", strings.Replace(goodResult, "{", `{"model":"a",`, 1), strings.Replace(goodTrajectory, "{", `{"model":"b",`, 1), "", "t: line 1: task t1 is of model b, and of a in the results: r: line 1"},
		{"no model, of two", strings.Replace(goodResult, "{", `{"model":"a",`, 1) + "\n" + strings.Replace(goodResult, "{", `{"model":"b",`, 1), goodTrajectory, "", "names no model, and the results have it of 2 models"},
		{"steps that are no list", goodResult, `{"task_id":"t1","steps":{}}`, "", "t: line 1: steps is {, expected a list"},
		{"an offset below zero", goodResult, `{"task_id":"t1","steps":[{"type":"tool_result","gold_hits":{"scanned":true,"offsets":[-1]}}]}`, "", "steps[0]: gold_hits: offsets[0] is -1"},
		{"metadata that is not an object", goodResult, "", "[]", "m: expected a JSON object"},
		{"a summary that contradicts the metadata", `{"summary":{"gaia_split":"test"},"results":[` + goodResult + `]}`, "", `{"gaia_split":"validation"}`, `r: summary: gaia_split is "test", and "validation" in m`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{Results: textFile("r", tt.results)}
			if tt.trajectories != "" {
				in.Trajectories = textFile("t", tt.trajectories)
			}
			if tt.metadata != "" {
				in.Metadata = textFile("m", tt.metadata)
			}
			r, err := Run(context.Background(), in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, expected %s", r, err, tt.want)
			}
			if refusal.ExitCode(err) != refusal.ExitFailed {
				t.Errorf("exit code %d: %v", refusal.ExitCode(err), err)
			}
		})
	}
}

func TestALineThatIsTooLongIsRefusedWithItsNumber(t *testing.T) {
	r, err := newLineReader("t", strings.NewReader("{}\n"+strings.Repeat("x", 1000)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	r.max = 500
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if _, err = r.next(); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(err.Error(), "t: line 2: a line of more than 500 bytes") {
		t.Errorf("got %v", err)
	}
}

// An endless is a file that has no end.
type endless struct{ at int }

func (e *endless) Read(p []byte) (int, error) {
	if e.at == 0 {
		e.at++
		return copy(p, `[{"task_id":"`), nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestARecordWithoutEndIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 64 MiB")
	}
	in := Input{Results: Source{Name: "r", Open: func() (io.ReadCloser, error) { return io.NopCloser(&endless{}), nil }}}
	if _, err := Run(context.Background(), in); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestABodyWithoutItsDigestIsRefused(t *testing.T) {
	s := newScene()
	body := filler(9000) + ownG
	s.keep(body)
	s.then(call("web_fetch", nil), s.headed("web_fetch", body, []int{9000}))
	for sum := range s.bodies {
		s.bodies[sum] = append(s.bodies[sum], '!')
	}
	_, err := Run(context.Background(), s.input(t))
	if !refusal.Is(err, refusal.DigestMismatch) || refusal.ExitCode(err) != refusal.ExitUnverified {
		t.Errorf("got %v", err)
	}
}

func TestBodiesAreDemandedUntilTheyAreShown(t *testing.T) {
	s := newScene()
	body := filler(9000) + ownG
	s.then(call("web_fetch", nil), s.headed("web_fetch", body, []int{9000}))
	r := run(t, s.input(t))
	if len(r.Bodies) != 1 || r.Bodies[0].TaskID != "fx-0" || r.Bodies[0].Step != 5 || !strings.Contains(r.Bodies[0].Reason, "byte 9000") {
		t.Errorf("demanded %+v", r.Bodies)
	}
	s.keep(body)
	if r := run(t, s.input(t)); len(r.Bodies) != 0 {
		t.Errorf("demanded %+v although it was shown", r.Bodies)
	}
	salted := s.steps[0][5]
	salted["salted"] = true
	s.bodies = nil
	if r := run(t, s.input(t)); len(r.Bodies) != 0 {
		t.Errorf("demanded %+v, which cannot be shown", r.Bodies)
	}
}

func TestTheReportDoesNotDependOnWorkers(t *testing.T) {
	s := newScene()
	for _, f := range leakFixtures()[:3] {
		f.make(s)
	}
	s.then(call("bash", "cat /srv/grader/x.py"), gave("bash", ""))
	want := ""
	for workers := 1; workers <= 5; workers++ {
		in := s.input(t)
		in.Workers = workers
		doc, err := run(t, in).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(doc)
		}
		if string(doc) != want {
			t.Fatalf("with %d workers:\n%s\nwith one:\n%s", workers, doc, want)
		}
	}
}

// TestSkipsAndGaps has what is missing, and what that makes of a report.
func TestSkipsAndGaps(t *testing.T) {
	gaps := func(r *Report) string { return strings.Join(r.Attestation.HarnessGaps, "\n") }
	t.Run("nothing is missing", func(t *testing.T) {
		r := run(t, newScene().input(t))
		if !r.Attestation.Complete || !r.Attestation.StrictClean || len(r.Attestation.Skipped) != 0 {
			t.Errorf("%+v", r.Attestation)
		}
	})
	t.Run("results alone", func(t *testing.T) {
		in := newScene().input(t)
		r := run(t, Input{Results: in.Results})
		if got := fmt.Sprint(r.Attestation.Skipped); got != "[answer-leakage oracle-leakage grader-isolation voting-disclosure split-integrity answer-key-reads dynamic-eval answers-carried answers-from-nowhere]" || r.Attestation.Complete || len(r.Attestation.HarnessGaps) != 11 {
			t.Errorf("%+v", r.Attestation)
		}
	})
	t.Run("a result without trajectory", func(t *testing.T) {
		s := newScene()
		s.steps[3] = nil
		if r := run(t, s.input(t)); r.Attestation.Complete || !strings.Contains(gaps(r), "answer-leakage: results without a trajectory: 1, the first is task fx-3") {
			t.Errorf("%+v", r.Attestation)
		}
	})
	t.Run("the test split", func(t *testing.T) {
		s := newScene()
		s.metadata["gaia_split"] = "test"
		for _, r := range s.results {
			delete(r, "expected_output")
			delete(r, "correct")
		}
		r := run(t, s.input(t))
		if !r.Attestation.Complete || fmt.Sprint(r.Attestation.Skipped) != "[answer-leakage no-work-pass oracle-leakage normalization-collision answers-from-nowhere]" {
			t.Errorf("%+v", r.Attestation)
		}
	})
	t.Run("validation without answers", func(t *testing.T) {
		s := newScene()
		for _, r := range s.results {
			delete(r, "expected_output")
		}
		if r := run(t, s.input(t)); r.Attestation.Complete || !strings.Contains(gaps(r), "answer-leakage: the results carry no expected answers") {
			t.Errorf("%+v", r.Attestation)
		}
	})
	t.Run("heads without gold_hits", func(t *testing.T) {
		s := newScene()
		s.then(call("web_fetch", 1), s.headed("web_fetch", filler(9000), nil))
		if r := run(t, s.input(t)); !strings.Contains(gaps(r), "answer-leakage: tool results recorded only in part, without gold_hits or a body: 1, the first is step 5 of task fx-0") {
			t.Errorf("%+v", r.Attestation)
		}
	})
}

// TestSourcesMustHaveTheirDigest: receipts name the programs of a run of ours.
func TestSourcesMustHaveTheirDigest(t *testing.T) {
	in := newScene().input(t)
	in.Sources = []SourceFile{{Path: "a.py", SHA256: strings.Repeat("0", 64), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil }}}
	if _, err := Run(context.Background(), in); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("got %v", err)
	}
	in.Sources[0].Open = func() (io.ReadCloser, error) { return nil, fs.ErrPermission }
	if _, err := Run(context.Background(), in); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v", err)
	}
}

// TestAnUnreadProgramIsAGap: a target in another language is not a pass.
func TestAnUnreadProgramIsAGap(t *testing.T) {
	for _, name := range []string{"a.rb", "b.pl", "c.php", "d.ipynb"} {
		s := newScene()
		s.sources[name] = "eval(x)\n"
		r := run(t, s.input(t))
		if c := r.Checks[aud9]; !strings.Contains(c.HarnessGap, name) || r.Attestation.Complete {
			t.Errorf("%s in a folder that a person names: %+v", name, c)
		}
	}
	for name, gap := range map[string]bool{"target/main.rs": true, "target/agent": true, "target.json": false} {
		s := newScene()
		s.sources = map[string]string{name: "x"}
		s.vouched = &Vouched{Number: 1, Of: 1, VotingAttempts: 1, Split: "validation"}
		c := run(t, s.input(t)).Checks[aud9]
		if (c.HarnessGap != "") != gap || (c.Status == Skip) != gap {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestARecorderWithoutModelCallsIsAGap: that one answer is wrong does not make the
// recorder one that records model calls.
func TestARecorderWithoutModelCallsIsAGap(t *testing.T) {
	s := newScene()
	for i := range s.steps {
		s.steps[i] = []map[string]any{s.steps[i][0], s.steps[i][2], s.steps[i][3]}
	}
	s.results[2]["correct"], s.results[2]["answer"] = false, "12"
	if c := run(t, s.input(t)).Checks[aud2]; c.Status == Fail || !strings.Contains(c.HarnessGap, "record no llm_call steps") {
		t.Errorf("%s, %q, gap %q", c.Status, c.Evidence, c.HarnessGap)
	}
}
