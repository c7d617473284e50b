package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
)

// folderRegistration is that of a class whose agents run in one isolation class.
func folderRegistration(class, isolation string) string {
	return fmt.Sprintf(`version: 1
class: %s
trust: scratch
current_tier: bronze
failure_modes: {touched: warn}
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 10000000}
governance: autonomous
policy: {mode: autonomous, max_cost_microdollars: 1000, max_tool_calls: 40}
isolation: {classes: [%s], scope: case, allow_weaker: false}
judged_scores_count: false
`, class, isolation)
}

// touchedRubric fails an agent that changed anything.
const touchedRubric = `def score(harness_output, expected, case_metadata):
    touched = len(harness_output["files"]) > 0 or len(harness_output["changes"]) > 0
    return {"passed": not touched, "score": 0.0 if touched else 1.0, "breakdown": {}, "failure_modes": ["touched"] if touched else [], "cost_usd": 0.0, "duration_seconds": 0.0}
`

// mcp says a few lines of MCP to the gateway: one call of a tool.
func mcp(tool string) string {
	return `printf '%s\n' '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' ` +
		`'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}' | /tally/tally mcp-stdio >/dev/null`
}

// TestTheFolderInEveryClass: what an agent does to its folder is known, a
// rollback leaves it where it works, and too many files end its case and not the
// attempt. The agents do what they are told.
func TestTheFolderInEveryClass(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	pay := []any{map[string]any{"name": "pay", "class": "financial", "default": map[string]any{"result": "paid", "cost_microdollars": 2000}}}
	cases := []struct {
		id, agent string
		grading   map[string]any
		outcome   evidence.Outcome
		reason    string
		diff      string
	}{
		{"quiet", "cat a.txt", map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Passed, "", ""},
		{"link", "ln -s /etc/passwd l", map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Failed, "", "new link l -> /etc/passwd\n"},
		{"mode", "chmod 755 a.txt", map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Failed, "", "mode of file a.txt: 0755, was 0644\n"},
		{"folder", "mkdir new", map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Failed, "", "new folder new, mode 0755\n"},
		{"odd", `printf x >"$(printf 'b\377')"`, map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Failed, "", `+++ b/b\xff`},
		{"binary", `printf '\377' >x`, map[string]any{"grade": map[string]any{"kind": "rubric"}}, evidence.Failed, "", "+++ b/x"},
		{"deep", `i=0; while [ $i -lt 25 ]; do mkdir ` + strings.Repeat("x", 100) + ` && cd ` + strings.Repeat("x", 100) + `; i=$((i+1)); done; echo x >y`, map[string]any{"expect": map[string]any{"files_written": 0}},
			evidence.Failed, "FolderUnreadable: ", ""},
		{"rolled-back", "umask 077; echo mine >b.txt; mkdir d; cd d; " + mcp("pay") + " && cat ../a.txt && echo more >>../b.txt && echo new >../c.txt && ls .. >/dev/null && echo x >here", map[string]any{"expect": map[string]any{"rollbacks": 1, "files_written": 3, "errors": 0}},
			evidence.Passed, "", "+more"},
		{"many", "mkdir m; cd m; seq 1 200000 | xargs touch; sleep 30", map[string]any{"expect": map[string]any{"turns": 1}}, evidence.Truncated, "LimitReached: the limit of 20000 files is reached", ""},
		{"after", "cat a.txt", map[string]any{"expect": map[string]any{"files_written": 0, "files_deleted": 0}}, evidence.Passed, "", ""},
	}
	lines := map[string]*strings.Builder{"gvisor": {}, "namespace": {}}
	for _, c := range cases {
		line := map[string]any{"id": c.id, "input": c.agent, "files": map[string]any{"a.txt": "one\n"}, "tools": pay}
		for k, v := range c.grading {
			line[k] = v
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		for isolation, list := range lines {
			if c.id != "many" || isolation != "gvisor" { // which takes its time; the sandbox's own test has fewer
				list.Write(append(text, '\n'))
			}
		}
	}
	w.write("targets/told.yaml", "version: 1\nkind: command\ncommand: {command: [/bin/sh]}\n")
	for _, isolation := range []string{"gvisor", "namespace"} {
		class := "in-" + isolation
		w.write("bench/"+class+"/registration.yaml", folderRegistration(class, isolation))
		w.write("bench/"+class+"/rubric.star", touchedRubric)
		w.write("bench/"+class+"/dataset.jsonl", lines[isolation].String())
		records, _ := w.run(class, "--target", "told")
		for _, c := range cases {
			r := records[c.id]
			if c.id == "many" && isolation == "gvisor" {
				continue
			}
			if r == nil || r.Outcome != c.outcome || !strings.HasPrefix(r.Reason, c.reason) || r.AgentIsolation != isolation {
				t.Errorf("%s, %s: %+v", isolation, c.id, r)
				continue
			}
			files, read := w.evidenceOf(r)
			if diff := read(files.Diff); !strings.Contains(diff, c.diff) || c.outcome == evidence.Passed && c.diff == "" && diff != "" {
				t.Errorf("%s, %s: the diff is %q", isolation, c.id, diff)
			}
			if lost := strings.HasPrefix(c.reason, "FolderUnreadable"); lost != (files.Diff == nil) && c.outcome != evidence.Truncated {
				t.Errorf("%s, %s: there is a diff: %v", isolation, c.id, files.Diff != nil)
			}
			if c.id == "rolled-back" && (r.Policy.Rollbacks != 1 || r.Policy.RollbacksVerified != 1) {
				t.Errorf("%s: %+v", isolation, r.Policy)
			}
		}
	}
}

// TestFilesOfAnAgentElsewhereAreUnscored: only its answers are seen, so no grader
// can say that it wrote nothing.
func TestFilesOfAnAgentElsewhereAreUnscored(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		json.NewEncoder(out).Encode(map[string]string{"answer": "done"})
	}))
	defer server.Close()
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("targets/far.yaml", "version: 1\nkind: http\nhttp: {url: \""+server.URL+"\"}\n")
	w.write("bench/agents/dataset.jsonl", `{"id":"counted","input":"x","files":{"a.txt":"one"},"expect":{"files_written":0}}
{"id":"absent","input":"x","files":{"a.txt":"one"},"extract":{"kind":"file","path":"evil.txt"},"grade":{"kind":"absent"}}
{"id":"expression","input":"x","extract":{"kind":"cel","expression":"events.filter(e, e.type == 'file_written').size() == 0"},"grade":{"kind":"exact","expected":true}}
{"id":"condition","input":"x","grade":{"kind":"cel","expression":"events.filter(e, e.type == 'file_written').size() == 0","always":true}}
`)
	records, _ := w.run("agents", "--target", "far")
	for _, id := range []string{"counted", "absent", "expression", "condition"} {
		if r := records[id]; r == nil || r.Outcome != evidence.Unscored || !strings.Contains(r.Reason, "seen") {
			t.Errorf("%s: %+v", id, r)
		}
	}
}
