package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A recorded is a run as its files are written, of which pieces can be taken away.
type recorded struct {
	results, lines []map[string]any
	metadata       map[string]any
	in             Input
	noTrajectories bool
}

// recordedOf is a scene with all of its evidence.
func recordedOf(t *testing.T, s *scene) recorded {
	r := recorded{in: s.input(t), metadata: maps.Clone(s.metadata)}
	for i, result := range s.results {
		r.results = append(r.results, maps.Clone(result))
		if s.steps[i] != nil {
			r.lines = append(r.lines, lineOf(result, s.steps[i]))
		}
	}
	return r
}

// copied is a deep copy, by way of JSON.
func copied(t *testing.T, v map[string]any) map[string]any {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r recorded) audit(t *testing.T) (*Report, error) {
	in := r.in
	in.Results = bytesFile("results.jsonl", jsonLines(t, r.results))
	in.Trajectories = bytesFile("trajectories.jsonl", jsonLines(t, r.lines))
	if r.noTrajectories {
		in.Trajectories = Source{}
	}
	in.Metadata = Source{}
	if r.metadata != nil {
		doc, _ := json.Marshal(r.metadata)
		in.Metadata = bytesFile("metadata.json", doc)
	}
	return Run(context.Background(), in)
}

// A removal takes one piece of evidence away.
type removal struct {
	name string
	from recorded
}

// removals are all pieces of the first task's evidence, and the files.
func removals(t *testing.T, r recorded) []removal {
	var list []removal
	add := func(name string, change func(*recorded)) {
		c := r
		c.results, c.lines = slices.Clone(r.results), slices.Clone(r.lines)
		c.metadata = maps.Clone(r.metadata)
		change(&c)
		list = append(list, removal{name, c})
	}
	add("trajectories.jsonl", func(c *recorded) { c.noTrajectories = true })
	add("all lines of trajectories.jsonl", func(c *recorded) { c.lines = nil })
	add("metadata.json", func(c *recorded) { c.metadata = nil })
	add("the sources", func(c *recorded) { c.in.Sources, c.in.HasSources = nil, false })
	add("the bodies", func(c *recorded) { c.in.Bodies = nil })
	for name := range r.metadata {
		add("metadata.json: "+name, func(c *recorded) { delete(c.metadata, name) })
	}
	for i := range r.lines {
		add(fmt.Sprintf("trajectory %d", i), func(c *recorded) { c.lines = slices.Delete(c.lines, i, i+1) })
	}
	for _, i := range []int{0, len(r.results) - 1} {
		for name := range r.results[i] {
			if name != "task_id" {
				add(fmt.Sprintf("results %d: %s", i, name), func(c *recorded) { c.results[i] = maps.Clone(c.results[i]); delete(c.results[i], name) })
			}
		}
	}
	if len(r.lines) == 0 {
		return list
	}
	for name := range r.lines[0] {
		if name != "task_id" {
			add("the trajectory's "+name, func(c *recorded) { c.lines[0] = maps.Clone(c.lines[0]); delete(c.lines[0], name) })
		}
	}
	steps, _ := copied(t, r.lines[0])["steps"].([]any)
	within := func(name string, change func(steps []any) []any) {
		add(name, func(c *recorded) {
			c.lines[0] = copied(t, c.lines[0])
			c.lines[0]["steps"] = change(c.lines[0]["steps"].([]any))
		})
	}
	for i, s := range steps {
		within(fmt.Sprintf("step %d", i), func(steps []any) []any { return slices.Delete(steps, i, i+1) })
		for name, v := range s.(map[string]any) {
			within(fmt.Sprintf("step %d: %s", i, name), func(steps []any) []any { delete(steps[i].(map[string]any), name); return steps })
			within(fmt.Sprintf("step %d: %s, which is null", i, name), func(steps []any) []any { steps[i].(map[string]any)[name] = nil; return steps })
			if inner, ok := v.(map[string]any); ok && strings.HasSuffix(name, "gold_hits") {
				for m := range inner {
					within(fmt.Sprintf("step %d: %s.%s", i, name, m), func(steps []any) []any {
						delete(steps[i].(map[string]any)[name].(map[string]any), m)
						return steps
					})
				}
			}
		}
	}
	return list
}

// stands says that a check found nothing and missed nothing.
func stands(c Check) bool { return c.Status != Fail && c.HarnessGap == "" }

// optional says that the evidence may lack a piece without anything missing: an
// address stands only in what tools fetched, and where a recorder says that it
// looked its word counts, until a body shows more.
func optional(f *fixture, what string) bool {
	return strings.HasSuffix(what, ": url") || strings.HasSuffix(what, ": url, which is null") ||
		(strings.HasPrefix(f.name, "a recorder that") || f.name == "beyond the head, shown by the body") && (what == "the bodies" || strings.Contains(what, "sha256"))
}

// TestLessEvidenceIsNeverBetter takes each piece of evidence away from honest and
// cheating runs. No check that failed, or that missed something, then passes
// without a gap.
func TestLessEvidenceIsNeverBetter(t *testing.T) {
	n := 0
	for _, f := range someFixtures() {
		s := newScene()
		f.make(s)
		full := recordedOf(t, s)
		more, err := full.audit(t)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		for _, less := range removals(t, full) {
			n++
			r, err := less.from.audit(t)
			if err != nil || optional(&f, less.name) {
				continue // no report at all is not a better one
			}
			for k := range r.Checks {
				if stands(r.Checks[k]) && !stands(more.Checks[k]) {
					t.Errorf("%s/%s/%s: without %s %s is %s and has no gap; with it %s, %q, gap %q", checkNames[f.check].id, f.kind, f.name, less.name,
						r.Checks[k].ID, r.Checks[k].Status, more.Checks[k].Status, more.Checks[k].Evidence, more.Checks[k].HarnessGap)
				}
			}
			if best(r) && !best(more) {
				t.Errorf("%s: without %s the report is clean and complete", f.name, less.name)
			}
		}
	}
	if n < 1000 {
		t.Errorf("only %d pieces were taken away", n)
	}
}

// someFixtures are up to three exploits and one honest run of each check, those
// with heads besides, and not one of them twice in another spelling: there are a
// hundred pieces of each.
func someFixtures() []fixture {
	var list []fixture
	had := map[string]int{}
	for _, f := range allFixtures() {
		base, _, _ := strings.Cut(f.name, ", ")
		kind := fmt.Sprint(f.check, f.kind == exploit)
		few := had[kind] < 3 && (f.kind == exploit || had[kind] < 1) || strings.HasPrefix(f.name, "beyond the head")
		if few && had[kind+base] == 0 {
			had[kind]++
			had[kind+base]++
			list = append(list, f)
		}
	}
	return list
}

func best(r *Report) bool { return r.Attestation.StrictClean && r.Attestation.Complete }

// TestMissingEvidenceIsAGap has what is left of evidence, and the check that must
// not pass on it.
func TestMissingEvidenceIsAGap(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		name  string
		check int
		make  func(s *scene)
	}{
		{"a tool result by its digest", aud1, func(s *scene) {
			s.then(call("web_fetch", 1), map[string]any{"type": "tool_result", "name": "web_fetch", "output_sha256": digest, "bytes": 900})
		}},
		{"a tool result by its digest, and the recorder's word", aud1, func(s *scene) {
			s.then(call("web_fetch", 1), map[string]any{"type": "tool_result", "name": "web_fetch", "output_sha256": digest, "bytes": 900, "gold_hits": map[string]any{"scanned": true, "offsets": []int{}}})
		}},
		{"a head that may not be the whole", aud1, func(s *scene) {
			s.then(call("web_fetch", 1), map[string]any{"type": "tool_result", "name": "web_fetch", "output_sha256": digest, "head": "An overview"})
		}},
		{"a cut head without gold_hits", aud1, func(s *scene) {
			s.then(call("web_fetch", 1), s.headed("web_fetch", filler(9000), nil))
		}},
		{"no result of a call", aud1, func(s *scene) { s.then(call("web_fetch", 1)) }},
		{"no call of a result", aud4, func(s *scene) { s.then(gave("web_fetch", "x")) }},
		{"a prompt by its digest", aud3, func(s *scene) {
			s.steps[0][0] = map[string]any{"type": "prompt", "content_sha256": digest, "bytes": 900}
		}},
		{"a model call without what it was sent", aud3, func(s *scene) { s.steps[0][1]["input"] = nil }},
		{"model calls that were sent the steps before, and no prompt", aud3, func(s *scene) {
			s.steps[0] = []map[string]any{{"type": "llm_call", "input": "", "output": "Hm.", "tokens_out": 5}}
		}},
		{"a model call without what it said", aud10, func(s *scene) { delete(s.steps[0][1], "output") }},
		{"a step of another type", aud1, func(s *scene) { s.then(map[string]any{"type": "observation", "content": record(0)}) }},
		{"no steps", aud1, func(s *scene) { s.steps[0] = []map[string]any{} }},
		{"a missing trajectory", aud8, func(s *scene) { s.steps[0] = nil }},
		{"a missing trajectory of a wrong answer", aud1, func(s *scene) { s.steps[0] = nil; s.results[0]["correct"] = false }},
		{"two of three executions", aud1, func(s *scene) { s.metadata["voting_attempts"] = 3 }},
		{"a tool that was used and not called", aud4, func(s *scene) { s.tools = []string{"web_search", "shell"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.make(s)
			r := run(t, s.input(t))
			c := r.Checks[tt.check]
			if c.HarnessGap == "" || r.Attestation.Complete {
				t.Errorf("%s: %s without a gap; complete %t", c.ID, c.Status, r.Attestation.Complete)
			}
			if told := tt.name == "a model call without what it was sent" || tt.name == "a step of another type"; (tt.check == aud1 || tt.check == aud3) && c.Status == Pass && !told {
				t.Errorf("%s passes with the gap %q", c.ID, c.HarnessGap)
			}
		})
	}
}

// TestEmptyTrajectoriesAreNotAPass: a file that is there and has nothing in it.
func TestEmptyTrajectoriesAreNotAPass(t *testing.T) {
	for _, empty := range []string{"", "\n\n"} {
		in := newScene().input(t)
		in.Trajectories = textFile("t", empty)
		r := run(t, in)
		for _, i := range trajectoryChecks {
			if c := r.Checks[i]; c.HarnessGap == "" {
				t.Errorf("%q: %s is %s without a gap", empty, c.ID, c.Status)
			}
		}
		var out bytes.Buffer
		r.Print(&out)
		if last := lastLine(out.String()); !strings.HasPrefix(last, "not complete: ") {
			t.Errorf("the report ends with %q", last)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
