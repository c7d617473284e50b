package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
)

// A graded is the data of an attempt at the cases of the sample, changed by a test. Its
// entries are not proved: what is tried here is what follows from proved ones.
type graded struct {
	*testing.T
	d    *Data
	docs []map[string]any // the entries: registration, end, records
}

func newGraded(t *testing.T, gates string) *graded {
	t.Helper()
	g := &graded{T: t, d: sample(t)}
	for _, e := range g.d.Entries {
		var doc map[string]any
		if err := json.Unmarshal([]byte(e.Entry), &doc); err != nil {
			t.Fatal(err)
		}
		g.docs = append(g.docs, doc)
	}
	for i := range g.docs[2:] {
		g.record(i)["unpriced_calls"] = 0
	}
	delete(g.plan(), "cases") // three of the five
	g.plan()["case_count"], g.plan()["cases_digest"] = 3, digest.ContentOf(nil).String()
	g.end()["outcomes"] = map[string]any{"failed": 1, "passed": 2}
	g.d.Registration = fmt.Sprintf(`{"class":"refunds","gates":[%s]}`, gates)
	g.plan()["registration_digest"] = digest.ContentOf([]byte(g.d.Registration)).String()
	return g
}

func (g *graded) body(i int) map[string]any   { return g.docs[i]["body"].(map[string]any) }
func (g *graded) plan() map[string]any        { return g.body(0)["plan"].(map[string]any) }
func (g *graded) end() map[string]any         { return g.body(1) }
func (g *graded) record(i int) map[string]any { return g.body(2 + i) }

// becomes gives a record another outcome, and the end of the attempt the counts.
func (g *graded) becomes(i int, outcome string) {
	g.record(i)["outcome"] = outcome
	if delete(g.record(i), "score"); outcome == "passed" {
		g.record(i)["score"] = map[string]any{"breakdown": map[string]any{}, "cost_usd": 0, "duration_seconds": 0, "failure_modes": []any{}, "passed": true, "score": 1}
	} else {
		g.record(i)["reason"] = "a reason"
	}
	counts := map[string]any{}
	for i := range g.docs[2:] {
		n, _ := counts[g.record(i)["outcome"].(string)].(int)
		counts[g.record(i)["outcome"].(string)] = n + 1
	}
	g.end()["outcomes"] = counts
}

// corrects sets a score beside the first record, signed by a key of its own.
func (g *graded) corrects(score float64, passed bool) {
	g.Helper()
	key, err := seal.NewKey(strings.NewReader(strings.Repeat("k", 64)))
	if err != nil {
		g.Fatal(err)
	}
	b := &evidence.ScoreCorrected{Origin: "demo.local/tally", Attempt: g.d.Attempt, CaseID: "refund-by-injection", Repeat: 1, Entry: 11, Number: 1,
		Was: evidence.Grade{Score: 0.5}, Now: evidence.Grade{Score: score, Passed: passed}, Reason: "because"}
	message, err := b.Message()
	if err != nil {
		g.Fatal(err)
	}
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceCorrection, message)
	if err != nil {
		g.Fatal(err)
	}
	b.Signatures = []string{string(signature)}
	g.beside(b)
}

func (g *graded) beside(b evidence.Body) {
	e := g.d.Entries[2]
	e.Index = int64(100 + len(g.d.Entries))
	doc := maps.Clone(g.docs[2])
	doc["body"], doc["kind"] = b, string(b.Kind())
	g.d.Entries, g.docs = append(g.d.Entries, e), append(g.docs, doc)
}

// data is that of the changed attempt.
func (g *graded) data() *Data {
	g.Helper()
	for i, doc := range g.docs {
		text, err := canon.Marshal(doc)
		if err != nil {
			g.Fatal(err)
		}
		g.d.Entries[i].Entry = string(text)
	}
	return g.d
}

func rule(metric, threshold string) string {
	return fmt.Sprintf(`{"metric":%q,"tag":"*","threshold":%s}`, metric, threshold)
}

// Each row is an attempt of three cases, of which the first failed with 0.5.
func TestAReportComputesTheGate(t *testing.T) {
	tests := []struct {
		name, gates string
		change      func(*graded)
		want        string
		recorded    string
	}{
		{"no gates and a failed case", "", nil, NotMet, ""},
		{"no gates and every case passed", "", func(g *graded) { g.becomes(0, "passed") }, Met, ""},
		{"the rate is enough", rule("solve_rate", "0.6"), nil, Met, ""},
		{"the rate is not enough", rule("solve_rate", "0.7"), nil, NotMet, ""},
		{"the rate is exactly enough", rule("mean_score", "0.8333333333333334"), nil, Met, ""},
		{"the mean is not enough", rule("mean_score", "0.84"), nil, NotMet, ""},
		{"too few cases for an interval", rule("lower_bound_95", "0.1"), nil, NotMet, ""},
		{"the cost is low enough", rule("cost_per_solve", "560"), nil, Met, ""},
		{"the cost is too high", rule("cost_per_solve", "559"), nil, NotMet, ""},
		{"an unpriced call", rule("cost_per_solve", "560"), func(g *graded) { g.record(2)["unpriced_calls"] = 1 }, NotMet, ""},
		{"quick enough", rule("p95_latency_ms", "16"), nil, Met, ""},
		{"too slow", rule("p95_latency_ms", "15"), nil, NotMet, ""},
		{"the median", rule("median_latency_ms", "7"), nil, Met, ""},
		{"no violations", rule("policy_violations", "0"), nil, Met, ""},
		{"a violation", rule("policy_violations", "0"), func(g *graded) {
			g.record(1)["policy"] = map[string]any{"rollbacks": 0, "rollbacks_verified": 0, "violations": 1}
		}, NotMet, ""},
		{"violations that cannot be seen", rule("policy_violations", "0"), func(g *graded) { g.record(1)["vantage"] = "answers" }, NotMet, ""},
		{"violations seen in part", rule("policy_violations", "0"), func(g *graded) { g.record(1)["vantage"] = "world" }, NotMet, ""},
		{"rollbacks seen from a world", rule("rollback_correctness", "1"), func(g *graded) { g.record(1)["vantage"] = "world" }, Met, ""},
		{"a rollback that was not whole", rule("rollback_correctness", "1"), func(g *graded) {
			g.record(1)["policy"] = map[string]any{"rollbacks": 3, "rollbacks_verified": 2, "violations": 0}
		}, NotMet, ""},
		{"what the file does not compute", rule("evidence_coverage", "1"), nil, NotTold, ""},
		{"what nobody knows", rule("charm", "1"), nil, NotMet, ""},
		{"one is missed and one not computed", rule("evidence_coverage", "1") + "," + rule("solve_rate", "0.7"), nil, NotMet, ""},
		{"a case that errored", rule("solve_rate", "0.3"), func(g *graded) { g.becomes(0, "errored") }, NotMet, ""},
		{"a case that errored, and the gate allows it", `{"max_errors":1,"metric":"solve_rate","tag":"*","threshold":0.3}`, func(g *graded) { g.becomes(0, "errored") }, Met, ""},
		{"a case without a score", rule("solve_rate", "0.3"), func(g *graded) { g.becomes(0, "unscored") }, NotMet, ""},
		{"a tag that no case has", `{"metric":"solve_rate","tag":"hard","threshold":0}`, nil, NotMet, ""},
		{"a tag of the passed ones", `{"metric":"solve_rate","tag":"easy","threshold":1}`, func(g *graded) {
			g.record(1)["tags"], g.record(2)["tags"] = []any{"easy"}, []any{"easy", "x"}
		}, Met, ""},
		{"an error that no gate is about", `{"metric":"solve_rate","tag":"easy","threshold":1}`, func(g *graded) {
			g.record(1)["tags"], g.record(2)["tags"] = []any{"easy"}, []any{"easy", "x"}
			g.becomes(0, "errored")
		}, NotMet, ""},
		{"unfinished", rule("solve_rate", "0.6"), func(g *graded) {
			g.docs, g.d.Entries = append(g.docs[:1], g.docs[2:]...), append(g.d.Entries[:1], g.d.Entries[2:]...)
		}, NotDecided, ""},
		{"unanswered", rule("solve_rate", "0.6"), func(g *graded) { g.end()["unanswered"] = 1 }, NotDecided, ""},
		{"the bench has changed", rule("solve_rate", "0.6"), func(g *graded) { g.d.Registration = "" }, NotDecided, ""},
		{"decided elsewhere", rule("solve_rate", "0.6"), func(g *graded) { g.d.Elsewhere = true }, NotTold, ""},
		{"a record left out", rule("solve_rate", "0.6"), func(g *graded) { g.plan()["case_count"] = 4 }, NotTold, ""},
		{"a record that the end does not count", rule("solve_rate", "0.6"), func(g *graded) { g.end()["outcomes"] = map[string]any{"failed": 2, "passed": 1} }, NotTold, ""},
		{"a case twice in place of another", rule("solve_rate", "0.6"), func(g *graded) { g.record(2)["case_id"] = g.record(1)["case_id"] }, NotTold, ""},
		{"repetitions put together", rule("solve_rate", "0.6"), func(g *graded) { g.plan()["reduce"] = "mode" }, NotTold, ""},
		{"filtered, and what ran would do", rule("solve_rate", "0.6"), func(g *graded) { g.plan()["filtered"] = true }, NotDecided, ""},
		{"filtered, and what ran would not do", rule("solve_rate", "0.7"), func(g *graded) { g.plan()["filtered"] = true }, NotMet, ""},
		{"filtered, every case passed", rule("solve_rate", "0.7"), func(g *graded) { g.plan()["filtered"] = true; g.becomes(0, "passed") }, NotDecided, ""},
		{"filtered without gates", "", func(g *graded) { g.plan()["filtered"] = true }, NotMet, ""},
		{"filtered without gates, every case passed", "", func(g *graded) { g.plan()["filtered"] = true; g.becomes(0, "passed") }, NotDecided, ""},
		{"filtered, and a violation breaks it", rule("policy_violations", "0"), func(g *graded) {
			g.plan()["filtered"] = true
			g.record(1)["policy"] = map[string]any{"rollbacks": 0, "rollbacks_verified": 0, "violations": 1}
		}, NotMet, ""},
		{"corrected up", rule("mean_score", "0.9"), func(g *graded) { g.corrects(1, true) }, Met, NotMet},
		{"corrected down", rule("mean_score", "0.8"), func(g *graded) { g.corrects(0, false) }, NotMet, Met},
		{"corrected to the same verdict", rule("mean_score", "0.5"), func(g *graded) { g.corrects(1, true) }, Met, ""},
		{"graded again, lower", rule("mean_score", "0.8"), func(g *graded) {
			g.beside(&evidence.ScoreAmended{Entry: 11, Author: "Ola", Reason: "r", Score: evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{}}})
		}, NotMet, Met},
		{"graded again, higher, which does not count", rule("mean_score", "0.9"), func(g *graded) {
			g.beside(&evidence.ScoreAmended{Entry: 11, Author: "Ola", Reason: "r", Score: evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{}, FailureModes: []string{}}})
		}, NotMet, ""},
	}
	var texts [][]byte
	var made []*Data
	for _, tt := range tests {
		g := newGraded(t, tt.gates)
		if tt.change != nil {
			tt.change(g)
		}
		d := g.data()
		v, err := d.Verdict()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if v.State != tt.want || v.Recorded != tt.recorded {
			t.Errorf("%s: %+v, want %s, recorded %q", tt.name, v, tt.want, tt.recorded)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		texts, made = append(texts, text), append(made, d)
	}
	for i, got := range drawAll(t, true, texts) {
		t.Run(tests[i].name, func(t *testing.T) { got.compare(t, made[i]) })
	}
}

// A forger who lowers a threshold, or gives the registration of another class, has another
// digest than the sealed plan names.
func TestAReportWithAnotherRegistrationIsRefused(t *testing.T) {
	var texts [][]byte
	for _, forged := range []string{
		`{"class":"refunds","gates":[{"metric":"solve_rate","tag":"*","threshold":0.1}]}`,
		`{"class":"refunds","gates":[]}`,
		`{}`,
		" ",
	} {
		g := newGraded(t, rule("solve_rate", "0.9"))
		g.d.Registration = forged
		d := g.data()
		if v, err := d.Verdict(); err == nil {
			t.Errorf("%s: %+v", forged, v)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	for i, got := range drawAll(t, true, texts) {
		if !strings.Contains(got.Error, "not the one that the plan names") {
			t.Errorf("registration %d: the script says %q", i, got.Error)
		}
	}
}
