package viewer

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
)

// The table of judges has what the verdicts in the evidence give: how far the votes of
// one judge spread, how far the judges of a panel differ, and what all of them cost.
func TestTheJudgesTableIsWhatTheVerdictsGive(t *testing.T) {
	dir := t.TempDir()
	s := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: s.dir, Operator: "operator@local"}, world(t, s.vars)); err != nil {
		t.Fatal(err)
	}
	said := func(model string, score float64) map[string]any {
		return map[string]any{"when": map[string]any{"agent": model}, "text": fmt.Sprintf(`{"score":%v,"passed":%v,"reason":"so"}`, score, score >= 0.5), "cost_microdollars": 250}
	}
	for name, text := range map[string]string{
		"targets/default.yaml":         "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n",
		"judge.yaml":                   "version: 1\nmodel: one\napi: openai.chat\njudges:\n  second: {model: two, api: openai.chat}\n",
		"bench/tone/registration.yaml": fmt.Sprintf(registration, "tone"),
		"bench/tone/dataset.jsonl": line(map[string]any{"id": "voted", "input": "x", "model": []any{map[string]any{"text": "hi"}, said("one", 1), said("one", 0.25), said("one", 1)},
			"grade": map[string]any{"kind": "judge", "criteria": "Kind?", "votes": 3}}) +
			line(map[string]any{"id": "panel", "input": "x", "model": []any{map[string]any{"text": "hi"}, said("one", 1), said("two", 0)},
				"grade": map[string]any{"kind": "judge", "criteria": "Kind?", "panel": []string{"default", "second"}, "combine": "mean"}}),
	} {
		if err := s.write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.run("tone", "default"); err != nil {
		t.Fatal(err)
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	made, err := v.judges(httptest.NewRequest("GET", "/judges", nil))
	if err != nil {
		t.Fatal(err)
	}
	data := made.Data.(*judgesData)
	if len(data.Judged) != 1 {
		t.Fatalf("%d attempts, expected 1", len(data.Judged))
	}
	j := data.Judged[0]
	if j.Attempt != "tone.default.1" || j.Checks != 2 || j.Unscored != 0 || j.Standing != history.Uncalibrated || j.LeftOut != 0 {
		t.Errorf("%+v", j)
	}
	if j.Votes != 1 || j.Split != 1 || j.Spread != 0.75 {
		t.Errorf("votes: %d, %d split, spread %v; expected 1, 1, 0.75", j.Votes, j.Split, j.Spread)
	}
	if j.Panels != 1 || j.Differ != 1 || j.Range != 1 || len(j.Members) != 2 || j.Members[0].Mean != 1 || j.Members[1].Judge != "second" || j.Members[1].Mean != 0 {
		t.Errorf("panel: %+v", j)
	}
	if j.CostMicroUSD != 5*250 || j.Unpriced != 0 {
		t.Errorf("cost %d, %d without a price; expected 1250 and 0", j.CostMicroUSD, j.Unpriced)
	}
	page := get(t, v, "/judges").Body.String()
	for _, want := range []string{"differ in 1 of 1, by 0.750 at most", "1.000 of the pairs differ, range 1.000", "$0.00125", "the judge is not calibrated"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
