package export

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"tallystick/internal/read/gate"
	"tallystick/internal/read/results"
	"tallystick/internal/record/schema"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/importer"
)

func number(f float64) *float64 { return &f }

// attempt has a case of every kind, and texts that try to break out of formats.
func attempt(repeat int) *Facts {
	began := time.Date(2026, 5, 12, 9, 30, 0, 0, time.UTC)
	a := &Facts{ID: "repo-fix.agent.2", Class: "repo-fix", Target: "agent", Origin: "example.com/evals", Level: "signed", Mode: "replay", Number: 2, Of: 3,
		Repeat: repeat, Started: began, Ended: began.Add(time.Minute), Finished: true, Version: "1.2", Models: []string{"acme/tiny"}, Bench: "sha256:" + strings.Repeat("1", 64),
		Registration: "sha256:" + strings.Repeat("2", 64), Receipt: "c2sp.org/tlog-proof@v1\n…", Key: "example.com/evals+00000000+AAAA"}
	for r := 1; r <= repeat; r++ {
		a.Samples = append(a.Samples,
			Sample{ID: "a", Digest: "blake3:aa", Repeat: r, Outcome: "passed", Score: number(1), Input: "2+2?", Answer: "4", Expected: "4", Started: began, Took: 1500 * time.Millisecond, Evidence: []string{"blake3:e"}},
			Sample{ID: "b/../c", Digest: "blake3:bb", Repeat: r, Outcome: "failed", Score: number(0.25 / float64(r)), Input: "</script>\x1b[31m", Answer: "\"|`<b>", Expected: "x", Modes: []string{"grade.mismatch"}, Started: began},
			Sample{ID: "d", Digest: "blake3:dd", Repeat: r, Outcome: "errored", Reason: "the agent broke", Started: began},
			Sample{ID: "e", Digest: "blake3:ee", Repeat: r, Outcome: "unscored", Reason: "no judge", Started: began},
			Sample{ID: "f", Digest: "blake3:ff", Repeat: r, Outcome: "not_run"})
	}
	return a
}

// imported writes an export to a folder and imports it.
func imported(t *testing.T, files []File, err error) ([]results.Run, []results.Sample) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var samples []results.Sample
	runs, err := importer.Read(context.Background(), []string{dir}, importer.Options{Each: func(_ int, s results.Sample) error {
		samples = append(samples, s)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		for _, c := range r.Checks {
			if c.Status == results.Fail {
				t.Errorf("%s: %s: %s", r.Harness, c.Name, c.Detail)
			}
		}
	}
	return runs, samples
}

// TestExportsImportAgainToTheSameNumbers: with and without repetitions, with and
// without texts.
func TestExportsImportAgainToTheSameNumbers(t *testing.T) {
	for _, repeat := range []int{1, 3} {
		for _, hidden := range []bool{false, true} {
			a := attempt(repeat)
			want := a.Totals()
			if hidden {
				if _, err := a.Withhold(bytes.NewReader(bytes.Repeat([]byte{7}, 32))); err != nil {
					t.Fatal(err)
				}
				if got := a.Totals(); *got.Mean != *want.Mean || got.Passed != want.Passed || got.Total != want.Total {
					t.Errorf("withholding changed the totals: %+v, %+v", got, want)
				}
			}
			files, err := EveryEvalEver(a)
			runs, samples := imported(t, files, err)
			if len(runs) != 2 || runs[0].Metrics["repo-fix/mean_score"] != *want.Mean || runs[1].Metrics["repo-fix.solved/solve_rate"] != want.SolveRate || len(samples) != want.Scored {
				t.Errorf("Every Eval Ever: %+v of %d samples, want %+v", runs, len(samples), want)
			}
			files, err = Inspect(a)
			runs, samples = imported(t, files, err)
			if len(runs) != 1 || !results.Close(runs[0].Metrics["score/mean"], meanOf(a.perCase(inspectScore))) || runs[0].Metrics["passed/accuracy"] != 0.5 ||
				runs[0].Samples != int64(want.Total) || runs[0].Scored != int64(want.Scored) || runs[0].Errors != int64(want.Total-want.Scored) {
				t.Errorf("Inspect: %+v, want %+v", runs, want)
			}
			for _, s := range samples {
				if shown := strings.HasPrefix(s.Input.Head, withheldPrefix); s.ID == "a" && shown != hidden {
					t.Errorf("the input of a is %q", s.Input.Head)
				}
			}
		}
	}
}

// opens tells whether a text is what was withheld, given its salt in hexadecimal.
func opens(shown, salt, text string) bool {
	key, err := hex.DecodeString(salt)
	return err == nil && strings.HasPrefix(shown, withheldPrefix) && withheld(key, text) == shown
}

func TestWithheldTextsOpenWithTheirSaltOnly(t *testing.T) {
	open, closed := attempt(2), attempt(2)
	salts, err := closed.Withhold(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range closed.Samples {
		was := open.Samples[i]
		if !opens(s.Input, salts[i].Input, was.Input) || !opens(s.Answer, salts[i].Answer, was.Answer) || !opens(s.Expected, salts[i].Expected, was.Expected) {
			t.Errorf("sample %s does not open", s.ID)
		}
		if opens(s.Answer, salts[i].Answer, was.Answer+"x") || opens(s.Answer, salts[i].Input, was.Answer) || opens(s.Answer, salts[(i+1)%len(salts)].Answer, was.Answer) || opens(was.Answer, salts[i].Answer, was.Answer) {
			t.Errorf("sample %s opens with the wrong salt or text", s.ID)
		}
	}
	if closed.Samples[0].Answer == closed.Samples[5].Answer {
		t.Error("the same answer has the same digest twice: a reader who opens one opens the other")
	}
	// Whatever format: no text is in it.
	for name, write := range writers() {
		files, err := write(closed)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data := unpacked(t, f)
			if name == "inspect" && !bytes.Contains(data, []byte(withheldPrefix)) {
				t.Error("the log was not looked into")
			}
			for _, text := range []string{"2+2?", "</script>", "the agent broke"} {
				if bytes.Contains(data, []byte(text)) {
					t.Errorf("%s: %s has %q", name, f.Name, text)
				}
			}
		}
	}
}

// unpacked is what a file holds, whatever it is packed in.
func unpacked(t *testing.T, f File) []byte {
	t.Helper()
	if !strings.HasSuffix(f.Name, ".eval") {
		return f.Data
	}
	z, err := zip.NewReader(bytes.NewReader(f.Data), int64(len(f.Data)))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, e := range z.File {
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// writers are the formats that this package writes.
func writers() map[string]func(*Facts) ([]File, error) {
	m := map[string]func(*Facts) ([]File, error){}
	for _, f := range Formats() {
		if f.Write != nil {
			m[f.Name] = func(a *Facts) ([]File, error) { return f.Write(a, Hub{Dataset: "org/name"}) }
		}
	}
	return m
}

// TestTheSameAttemptGivesTheSameBytes, and names that lead nowhere else.
func TestTheSameAttemptGivesTheSameBytes(t *testing.T) {
	for name, write := range writers() {
		one, err := write(attempt(2))
		if err != nil {
			t.Fatal(err)
		}
		two, err := write(attempt(2))
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range one {
			if !bytes.Equal(f.Data, two[i].Data) {
				t.Errorf("%s: %s differs", name, f.Name)
			}
			if !filepath.IsLocal(f.Name) {
				t.Errorf("%s: the name %q", name, f.Name)
			}
			if strings.HasSuffix(f.Name, "json") && !json.Valid(f.Data) {
				t.Errorf("%s: %s is not JSON", name, f.Name)
			}
		}
	}
}

// TestEveryEvalEverIsValid against the schemas of the project, if they are here.
func TestEveryEvalEverIsValid(t *testing.T) {
	files, err := EveryEvalEver(attempt(1))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"eval.schema.json", "instance_level_eval.schema.json"} {
		text, err := os.ReadFile(filepath.Join("../../../../shared/samples/every_eval_ever", name))
		if err != nil {
			t.Skip("the schemas are not here")
		}
		// A note to people, which is not a keyword of JSON Schema.
		text = regexp.MustCompile(`(?m)^ *"version": *"[^"]*",?$`).ReplaceAll(text, nil)
		s, err := schema.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(files[i].Data) {
			if problems := s.Check(line); len(problems) > 0 {
				t.Errorf("%s: %v", files[i].Name, problems)
			}
		}
	}
}

// TestHostileTextStaysText in YAML, Markdown and SVG.
func TestHostileTextStaysText(t *testing.T) {
	a := attempt(1)
	a.Class, a.Models = "x\"]}\n- value: 100 </title><script>alert(1)</script> `|", []string{"m\n  value: 99\x1b"}
	a.Address = "https://a.example/r?x=\"'<>"
	for _, f := range HuggingFace(a, Hub{}) {
		if !strings.HasSuffix(f.Name, ".yaml") {
			for line := range strings.Lines(string(f.Data)) {
				if strings.Count(line, "`")%2 != 0 || strings.Contains(line, "\x1b") {
					t.Errorf("%s: %q", f.Name, line)
				}
			}
			continue
		}
		var rows []map[string]any
		if err := yaml.Unmarshal(f.Data, &rows); err != nil || len(rows) != 1 || fmt.Sprint(rows[0]["value"]) != "20" {
			t.Errorf("%v: %v\n%s", err, rows, f.Data)
		}
	}
	d := xml.NewDecoder(bytes.NewReader(Badge(Label{Name: a.Class, Value: "v", Title: a.sentence(), Imported: true})[0].Data))
	elements := map[string]int{}
	text := ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			elements[x.Name.Local]++
		case xml.CharData:
			text += string(x)
		}
	}
	if elements["script"] != 0 || elements["title"] != 1 || !strings.Contains(text, "imported, not observed") {
		t.Errorf("%v %q", elements, text)
	}
}

// TestTestResultIsTheDecision: whatever the cases are, the result is what was decided,
// and no statement that is not FAILED lists a failed test.
func TestTestResultIsTheDecision(t *testing.T) {
	latency := gate.Result{Tag: "*", Metric: bench.P95LatencyMS, Threshold: 5}
	for _, tt := range []struct {
		decision gate.Decision
		want     string
	}{
		{gate.Decision{Met: true, Results: []gate.Result{{Tag: "*", Metric: bench.SolveRate, Met: true}}}, "PASSED"},
		{gate.Decision{Undecided: true, Results: []gate.Result{{Tag: "*", Metric: bench.SolveRate, Undecided: true}}}, "WARNED"},
		{gate.Decision{Results: []gate.Result{latency}}, "FAILED"},
		{gate.Decision{}, "FAILED"},
	} {
		a := attempt(1)
		a.Decision = tt.decision
		for n := range len(a.Samples) {
			b := *a
			b.Samples = a.Samples[:n+1]
			made := b.testResult()
			if failed := made["failedTests"].([]string); made["result"] != tt.want || tt.want != "FAILED" && len(failed) > 0 {
				t.Errorf("%+v with %d cases: %v", tt.decision, n+1, made)
			}
		}
	}
	if claim := gateClaim(latency); claim["comparator"] != "<=" || claim["threshold"] != "5" || claim["passed"] != false {
		t.Errorf("%v", claim)
	}
}
