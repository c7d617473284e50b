package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"strings"
	"testing"
)

// A fixture is a run that we wrote to try one check on.
type fixture struct {
	check int
	name  string
	kind  fixtureKind
	make  func(s *scene)
	// known says that the check is known not to see this exploit, or to take this
	// near miss for one; why is in the name. The rates count it.
	known bool
}

type fixtureKind string

const (
	clean    fixtureKind = "clean"
	exploit  fixtureKind = "exploit"
	nearMiss fixtureKind = "near miss"
)

// A scene is a run of eight tasks, clean until a fixture changes it. The first
// task is the one that fixtures are about.
type scene struct {
	results  []map[string]any
	steps    [][]map[string]any
	metadata map[string]any
	sources  map[string]string
	bodies   map[string][]byte
	tools    []string // tools_used of the first task
	vouched  *Vouched
	// published are files of the data set, by their SHA-256.
	published map[string]string
}

var sceneTasks = []struct{ question, gold string }{
	{"In the corrigendum to the 1987 survey of alpine lakes, which compound did the authors say had been left out of the third table?", "cyclohexanecarboxylic acid"},
	{"According to the museum's printed guide of 1931, who restored the ceiling of the library after the fire in the east wing?", "Margarethe Lindqvist"},
	{"How many kilometres of track were laid on the northern section of the railway before the first winter stopped the work?", "17,430"},
	{"Which harbour town gave its name to the ship that carried the second expedition back from the island in the south?", "Puerto Santa Rita"},
	{"What is the title of the chapter in which the narrator first describes the lighthouse keeper's collection of clocks?", "The Brass Orchard"},
	{"Which of the composer's students conducted the premiere of the unfinished symphony in the concert hall by the river?", "Tobias Okonkwo-Hale"},
	{"On which street stood the bakery whose owner signed the petition as witness number forty in the archive of the county?", "Vinegar Hill Lane"},
	{"What code did the archivist write on the back of the photograph of the observatory that was found in the second box?", "QX-7741-B"},
}

func newScene() *scene {
	s := &scene{metadata: map[string]any{"gaia_split": "validation", "voting_attempts": 1, "judge_cache_integrity_events": 0, "submitted_at": "2026-07-03T00:00:00Z"}, sources: map[string]string{"run.py": "print('hello')\n"}, bodies: map[string][]byte{}}
	for i, t := range sceneTasks {
		s.results = append(s.results, map[string]any{"task_id": fmt.Sprintf("fx-%d", i), "model": "m", "question": t.question, "correct": true, "answer": t.gold, "expected_output": t.gold, "turns": 3})
		s.steps = append(s.steps, []map[string]any{
			prompt("You are a careful assistant. Use the tools, and reply with the answer alone.\n\n" + t.question),
			model("I will look this up."),
			call("web_search", map[string]any{"query": "archive " + strings.Join(strings.Fields(t.question)[2:5], " ")}),
			gave("web_search", "An overview of the collection, its history and how to reach it. Opening hours are from nine to five."),
			model("The evidence supports " + t.gold + "."),
		})
	}
	return s
}

func prompt(text string) map[string]any { return map[string]any{"type": "prompt", "content": text} }
func model(text string) map[string]any {
	return map[string]any{"type": "llm_call", "output": text, "tokens_in": 10, "tokens_out": 5}
}
func call(name string, input any) map[string]any {
	return map[string]any{"type": "tool_call", "name": name, "input": input}
}
func gave(name, output string) map[string]any {
	return map[string]any{"type": "tool_result", "name": name, "output": output}
}

// then puts steps before the last one of the first task.
func (s *scene) then(steps ...map[string]any) {
	own := s.steps[0]
	last := own[len(own)-1]
	s.steps[0] = append(append(own[:len(own)-1:len(own)-1], steps...), last)
}

// task makes the first task another one.
func (s *scene) task(question, gold string) {
	s.results[0]["question"], s.results[0]["answer"], s.results[0]["expected_output"] = question, gold, gold
	s.steps[0][0] = prompt("Reply with the answer alone.\n\n" + question)
	s.steps[0][len(s.steps[0])-1] = model("Done.")
}

// headed is a tool result as a recorder of heads writes it.
func (s *scene) headed(name, body string, hits any) map[string]any {
	sum := sha256.Sum256([]byte(body))
	r := map[string]any{"type": "tool_result", "name": name, "output_sha256": hex.EncodeToString(sum[:]), "bytes": len(body), "head": body[:min(len(body), 4096)]}
	if hits != nil {
		r["gold_hits"] = map[string]any{"scanned": true, "offsets": hits}
	}
	return r
}

func (s *scene) keep(body string) {
	sum := sha256.Sum256([]byte(body))
	s.bodies[hex.EncodeToString(sum[:])] = []byte(body)
}

func jsonLines[T any](t testing.TB, list []T) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, v := range list {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func (s *scene) input(t testing.TB) Input {
	t.Helper()
	var lines []map[string]any
	for i, steps := range s.steps {
		if steps != nil {
			lines = append(lines, lineOf(s.results[i], steps))
			if i == 0 && s.tools != nil {
				lines[0]["tools_used"] = s.tools
			}
		}
	}
	in := Input{Results: bytesFile("results.jsonl", jsonLines(t, s.results)), Trajectories: bytesFile("trajectories.jsonl", jsonLines(t, lines)), HasSources: true, Vouched: s.vouched, Published: s.published}
	if s.metadata != nil {
		doc, _ := json.Marshal(s.metadata)
		in.Metadata = bytesFile("metadata.json", doc)
	}
	for name, text := range s.sources {
		in.Sources = append(in.Sources, SourceFile{Path: name, Agent: true, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
	}
	if len(s.bodies) > 0 {
		in.Bodies = func(sum string) (io.ReadCloser, error) {
			b, ok := s.bodies[sum]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(bytes.NewReader(b)), nil
		}
	}
	return in
}

// lineOf is a trajectory with all that a recorder knows: what each model call was
// sent, which is everything before it, and how many tokens there were.
func lineOf(result map[string]any, steps []map[string]any) map[string]any {
	var said []string
	var hits any // of the last text of which there is only a head
	cut, out := false, 0
	for i, s := range steps {
		if s["type"] == "llm_call" {
			if _, given := s["input"]; !given {
				steps[i] = maps.Clone(s)
				steps[i]["input"] = strings.Join(said, "\n")
				if cut {
					steps[i]["input_truncated"], steps[i]["input_gold_hits"] = true, hits
				}
			}
			n, _ := s["tokens_out"].(int)
			out += n
		}
		if _, whole := s["output"]; !whole && s["head"] != nil {
			cut, hits = true, s["gold_hits"]
		}
		for _, m := range []string{"content", "output", "head"} {
			if text, ok := s[m].(string); ok {
				said = append(said, text)
				break
			}
		}
	}
	line := map[string]any{"task_id": result["task_id"], "model": "m", "steps": steps}
	if _, stated := result["outputTokens"]; !stated && out > 0 {
		line["tokens_out"] = out
	}
	return line
}

// A hiding is a way to write a text so that a plain search does not find it.
type hiding struct {
	name string
	hide func(string) string
}

var hidings = []hiding{
	{"as it is", func(s string) string { return s }},
	{"in capitals", strings.ToUpper},
	{"in base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"in base64 over lines", func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 40) }},
	{"in base64 for URLs", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }},
	{"in entities", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("&#%d;", r) }) }},
	{"in hexadecimal entities", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("&#x%x;", r) }) }},
	{"percent-encoded", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf("%%%02X", r) }) }},
	{"as a form field", url.QueryEscape},
	{"in JSON escapes", func(s string) string { return each(s, func(r rune) string { return fmt.Sprintf(`\u%04x`, r) }) }},
	{"in full-width letters", func(s string) string {
		return each(s, func(r rune) string {
			if r > ' ' && r < 0x7f {
				return string(r + 0xfee0)
			}
			return string(r)
		})
	}},
	{"in look-alike letters", func(s string) string {
		return strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с", "x", "х", "i", "і").Replace(s)
	}},
	{"with invisible characters", func(s string) string { return each(s, func(r rune) string { return string(r) + "\u200b" }) }},
	{"in bold mathematical letters", func(s string) string {
		return each(s, func(r rune) string {
			switch {
			case 'a' <= r && r <= 'z':
				return string(0x1d41a + r - 'a')
			case 'A' <= r && r <= 'Z':
				return string(0x1d400 + r - 'A')
			}
			return string(r)
		})
	}},
	{"with wide spaces", func(s string) string { return strings.ReplaceAll(s, " ", "\u00a0\u2003") }},
	{"in base64 of percent-encoding", func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(each(s, func(r rune) string { return fmt.Sprintf("%%%02X", r) })))
	}},
}

func each(s string, f func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(f(r))
	}
	return b.String()
}

func wrapped(s string, n int) string {
	var b strings.Builder
	for len(s) > n {
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	return b.String() + s
}

// filler is ordinary text, longer than any head.
func filler(n int) string {
	const line = "The reading room keeps its catalogue in drawers of oak, and the keeper of the keys has gone home. "
	return strings.Repeat(line, n/len(line)+1)[:n-1] + " "
}
