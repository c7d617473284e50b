package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/tape"
	"tallystick/internal/testing/terminal"
)

const recordKey = "sk-proj-Recording/Key+0123456789"

// A studio is a workspace with a class of two cases and a fake provider.
type studio struct {
	t      *testing.T
	dir    string
	vars   map[string]string
	server *fakemodel.Server
	cancel func() // of the context of the next recording

	screen string // what the person saw
	out    string
}

func newStudio(t *testing.T, server *fakemodel.Server) *studio {
	t.Helper()
	s := &studio{t: t, dir: filepath.Join(t.TempDir(), "w"), server: server}
	s.vars = map[string]string{"XDG_STATE_HOME": t.TempDir(), "HOME": t.TempDir(), "STUDIO_KEY": recordKey}
	if code := s.plainly("init", s.dir); code != 0 {
		t.Fatalf("init: %s", s.out)
	}
	s.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n")
	s.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+server.OpenAI()+"\n  key_env: STUDIO_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n")
	s.write("bench/hello/registration.yaml", `version: 1
class: hello
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`)
	for _, id := range []string{"a", "b"} {
		s.writeCase(id, "version: 1\nturns:\n  - text: say hello, "+id+"\n")
	}
	return s
}

func (s *studio) writeCase(id, scenario string) {
	s.write("bench/hello/cases/"+id+"/case.yaml", `schema_version: 1
case_id: `+id+`
title: Say hello
disposition: positive
difficulty: easy
provenance:
  source: curated
  source_ref: {type: synthetic, value: a test}
  added_at: "2026-05-01T09:00:00Z"
  last_validated_at: "2026-05-01T09:00:00Z"
`)
	s.write("bench/hello/cases/"+id+"/scenario.yaml", scenario)
	s.write("bench/hello/cases/"+id+"/grading.yaml", "version: 1\ngrade: {kind: exact, expected: hello}\n")
	s.write("bench/hello/cases/"+id+"/input/note.txt", "nothing\n")
}

func (s *studio) write(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *studio) getenv(name string) string { return s.vars[name] }

// plainly runs a command without a terminal.
func (s *studio) plainly(args ...string) int {
	s.t.Helper()
	var out bytes.Buffer
	env := newEnv(strings.NewReader("record\n"), &out, &out, s.getenv)
	if args[0] != "init" {
		args = append(args, "--workspace", s.dir)
	}
	code := newProgram(env).main(args)
	s.out = out.String()
	return code
}

// record runs "tally record hello" at a terminal whose person gives an answer.
func (s *studio) record(answer string, flags ...string) int {
	s.t.Helper()
	person, program := terminal.Open(s.t, 40, 200)
	var out bytes.Buffer
	env := newEnv(program, &out, program, s.getenv)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel = cancel

	var seen bytes.Buffer
	var mu sync.Mutex
	go func() {
		buffer := make([]byte, 4096)
		asked := false
		for {
			n, err := person.Read(buffer)
			mu.Lock()
			seen.Write(buffer[:n])
			if !asked && strings.Contains(seen.String(), "to go on: ") {
				asked = true
				io.WriteString(person, answer)
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	p := newProgram(env)
	err := p.run(ctx, append([]string{"record", "hello", "--workspace", s.dir}, flags...))
	if err != nil {
		env.printError(err)
	}
	// The last bytes are on their way through the terminal.
	for range 100 {
		mu.Lock()
		s.screen = seen.String()
		mu.Unlock()
		if err == nil || strings.Contains(s.screen, "tally: error: ") || strings.Contains(s.screen, `{"error"`) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.out = out.String()
	return refusal.ExitCode(err)
}

// entries lists the recordings in the ledger, after verifying it.
func (s *studio) entries() []string {
	s.t.Helper()
	env := newEnv(nil, io.Discard, io.Discard, s.getenv)
	env.WorkspaceDir = s.dir
	var found []string
	_, _, err := verifiedLedger(env, func(r ledger.Record) error {
		if b, ok := r.Body.(*evidence.CassetteRecorded); ok {
			found = append(found, fmt.Sprintf("%s %s kept=%v calls=%d cost=%d", b.CaseID, b.Provenance, b.Kept, b.Calls, b.CostMicro))
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func (s *studio) cassette(id string) *cassette.Cassette {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "cassettes", "hello", "default", id+".cassette.zst"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := cassette.Parse(data, cassette.Limits{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *studio) requireEntries(want ...string) {
	s.t.Helper()
	if got := s.entries(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("the ledger has %q, want %q", got, want)
	}
}

func saysHello(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: "hello"} }

func TestRecordRefusesWhereNobodyAnswersForIt(t *testing.T) {
	s := newStudio(t, fakemodel.New(t))
	if code := s.plainly("record", "hello", "--unsafe-record", "--json"); code != 1 || !strings.Contains(s.out, `"RecordingNotConfirmed"`) {
		t.Errorf("without a terminal: %d, %s", code, s.out)
	}
	if code := s.record("record\n", "--yes"); code != 2 || !strings.Contains(s.screen, "there is no limit") {
		t.Errorf("agreed beforehand without a limit: %d, %s", code, s.screen)
	}
	for _, answer := range []string{"\n", "yes\n", "Record\n", "record it\n", "\x04"} {
		if code := s.record(answer, "--unsafe-record"); code != 1 || !strings.Contains(s.screen, "the answer was not") {
			t.Errorf("answer %q: %d, %s", answer, code, s.screen)
		}
	}
	s.vars["CI"] = "true"
	if code := s.record("record\n", "--unsafe-record", "--json"); code != 1 || !strings.Contains(s.screen, `"RecordingInCI"`) {
		t.Errorf("in CI: %d, %s", code, s.screen)
	}
	if n := len(s.server.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	s.requireEntries()
}

func TestRecordShowsAsksWritesAndReplays(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		// The provider repeats the key in a header, and in the answer to b.
		if q.Header.Get("Authorization") != "Bearer "+recordKey {
			t.Error("the provider did not get the key")
		}
		r := fakemodel.Reply{Text: "hello", Headers: map[string]string{"openai-version": recordKey}}
		if strings.Contains(string(q.Body), "hello, b") {
			r.Text = "hello " + recordKey
		}
		return r
	}))
	if code := s.record("record\n", "--unsafe-record"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	for _, part := range []string{"model    fake-1", "calls    openai at " + s.server.OpenAI() + ", key from STUDIO_KEY", "cases    2: a, b", "costs    at most $2.00", "writes   cassettes/hello/"} {
		if !strings.Contains(s.screen, part) {
			t.Errorf("the screen does not show %q:\n%s", part, s.screen)
		}
	}
	if !strings.Contains(s.out, "replay them: tally run hello --target default") {
		t.Errorf("the answer does not say what is next: %s", s.out)
	}
	s.requireEntries("a recorded kept=true calls=1 cost=30", "b recorded kept=true calls=1 cost=30")
	for _, id := range []string{"a", "b"} {
		text, err := s.cassette(id).Lines()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), recordKey) || !strings.Contains(string(text), "[redacted:literal]") {
			t.Errorf("case %s: %s", id, text)
		}
	}
	if strings.Contains(s.screen+s.out, recordKey) {
		t.Errorf("the key is on the screen: %s %s", s.screen, s.out)
	}
	requireNowhere(t, s.dir, recordKey)

	// Pinned, it replays without the provider, at the recorded cost.
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	sent := len(s.server.Requests())
	if code := s.plainly("run", "hello", "--json"); code != 0 {
		t.Fatalf("run: %s", s.out)
	}
	var answer struct {
		Passed, Failed int
		CostUSD        float64 `json:"cost_usd"`
	}
	line := s.out[strings.Index(s.out, "{"):]
	if err := json.NewDecoder(strings.NewReader(line)).Decode(&answer); err != nil {
		t.Fatalf("%v: %s", err, s.out)
	}
	if answer.Passed != 1 || answer.Failed != 1 || answer.CostUSD != 0.00006 || len(s.server.Requests()) != sent {
		t.Errorf("%+v, %d requests in a replay", answer, len(s.server.Requests())-sent)
	}
}

// requireNowhere looks for a text in every file of a folder.
func requireNowhere(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s holds it", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordDiscardLeavesOnlyTheEntry(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	if code := s.record("record\n", "--unsafe-record", "--discard", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	if s.cassette("a") != nil {
		t.Error("a cassette was written")
	}
	s.requireEntries("a recorded kept=false calls=1 cost=30")
}

func TestRecordOfAFailedCaseIsThrownAwayAndRecorded(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(q.Body), "hello, a") {
			return fakemodel.Reply{Status: 400, Body: `{"error":{"message":"no"}}`}
		}
		return fakemodel.Reply{Text: "hello"}
	}))
	if code := s.record("record\n", "--unsafe-record"); code != 1 || !strings.Contains(s.screen, "1 of 2 recordings were not kept") {
		t.Errorf("%d: %s", code, s.screen)
	}
	if s.cassette("a") != nil || s.cassette("b") == nil {
		t.Error("the failed case has a cassette, or the other has none")
	}
	s.requireEntries("a recorded kept=false calls=1 cost=0", "b recorded kept=true calls=1 cost=30")
}

func TestRecordStopsAtTheLimitOfItsCost(t *testing.T) {
	s := newStudio(t, fakemodel.New(t))
	if code := s.record("record\n", "--unsafe-record", "--max-cost", "0.0001", "--case", "a"); code != 1 || !strings.Contains(s.out, "LimitReached") {
		t.Errorf("%d: %s\n%s", code, s.screen, s.out)
	}
	if !strings.Contains(s.screen, "at most $0.0001 ") {
		t.Errorf("the limit is not shown: %s", s.screen)
	}
	s.requireEntries("a recorded kept=false calls=0 cost=0")
}

func TestRecordInterruptedLeavesItsEntry(t *testing.T) {
	var s *studio
	s = newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(q.Body), "hello, b") {
			s.cancel() // Ctrl-C while the provider is at work
			return fakemodel.Reply{Body: "{", Hang: true}
		}
		return fakemodel.Reply{Text: "hello"}
	}))
	if code := s.record("record\n", "--unsafe-record"); code != 1 || !strings.Contains(s.screen, "stopped by a signal") {
		t.Errorf("%d: %s", code, s.screen)
	}
	if s.cassette("a") == nil || s.cassette("b") != nil {
		t.Error("the finished case lost its cassette, or the other has one")
	}
	s.requireEntries("a recorded kept=true calls=1 cost=30", "b recorded kept=false calls=0 cost=0")
}

func TestRecordOnlyMissingAddsToWhatIsThere(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	// The case has a second turn now; the first is in the cassette.
	s.write("bench/hello/cases/a/scenario.yaml", "version: 1\nturns:\n  - text: say hello, a\n  - text: and again\n")
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	sent := len(s.server.Requests())
	if code := s.record("record\n", "--unsafe-record", "--only-missing", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	if n := len(s.server.Requests()) - sent; n != 1 || len(s.cassette("a").Interactions) != 2 {
		t.Errorf("%d requests, %d interactions", n, len(s.cassette("a").Interactions))
	}
	s.requireEntries("a recorded kept=true calls=1 cost=30", "a recorded kept=true calls=2 cost=60")
}

func TestRecordKeepsLiveToolsWithTheModel(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(q.Body), `"role":"tool"`) {
			return fakemodel.Reply{Text: "hello"}
		}
		return fakemodel.Reply{ToolCalls: []fakemodel.ToolCall{{Name: "look_up", Arguments: `{"word":"tally"}`}}}
	}))
	tools := &fakemodel.MCP{Secret: recordKey}
	web := httptest.NewServer(tools)
	defer web.Close()
	settings, err := os.ReadFile(filepath.Join(s.dir, "providers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("providers.yaml", string(settings)+"mcp:\n  wiki: {url: \""+web.URL+"\", key_env: STUDIO_KEY}\n")
	s.writeCase("a", "version: 1\nturns:\n  - text: look it up\ntools:\n  - {name: look_up, remote: echo, class: read, source: \"mcp:wiki\"}\n")
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s\n%s", code, s.screen, s.out)
	}
	if !strings.Contains(s.screen, "MCP server wiki, if a case uses it: "+web.URL) {
		t.Errorf("the server is not shown: %s", s.screen)
	}
	// The handshake is two exchanges, the call is one.
	s.requireEntries("a recorded kept=true calls=5 cost=60")
	if begun, ended := tools.Sessions(); begun != 1 || ended != 1 {
		t.Errorf("%d sessions begun, %d ended", begun, ended)
	}
	requireNowhere(t, s.dir, recordKey)

	web.Close()
	sent := len(s.server.Requests())
	if code := s.plainly("run", "hello", "--case", "a"); code != 0 || !strings.Contains(s.out, "1 passed") || len(s.server.Requests()) != sent {
		t.Errorf("replay: %d, %s", code, s.out)
	}
}

func TestRecordLeavesAloneWhatWasWrittenByHand(t *testing.T) {
	s := newStudio(t, fakemodel.New(t))
	s.writeCase("a", "version: 1\nturns:\n  - text: hi\nmodel:\n  - text: hello\n")
	authored, err := tape.FromYAML("a.yaml", []byte("format: tallystick-cassette/1-draft\ninteractions:\n  - tool: {name: f, result: bait}\n"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := authored.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s.write("cassettes/hello/b.cassette.zst", string(file))
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	if code := s.record("record\n", "--unsafe-record"); code != 1 || !strings.Contains(s.screen, "has no case to record") || !strings.Contains(s.screen, "written by hand") {
		t.Errorf("%d: %s", code, s.screen)
	}
	s.requireEntries()
}

func TestRecordOnlyMissingRefusesACassetteOfAnotherVersion(t *testing.T) {
	s := newStudio(t, fakemodel.New(t))
	s.write("cassettes/hello/a.cassette.zst", otherVersion(t))
	if code := s.plainly("bench", "digest", "hello"); code == 0 {
		if code := s.record("record\n", "--unsafe-record", "--only-missing", "--case", "a"); code != 1 || !strings.Contains(s.screen, "by a newer tally") {
			t.Errorf("%d: %s", code, s.screen)
		}
	} else if !strings.Contains(s.out, "by a newer tally") {
		t.Errorf("digest: %s", s.out)
	}
	if n := len(s.server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// otherVersion is a cassette file whose header says v2: one zstd frame with a
// raw block (RFC 8878).
func otherVersion(t *testing.T) string {
	t.Helper()
	c, err := cassette.New(cassette.Recorded, nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Lines()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Replace(string(text), "tallystick-cassette/1-draft", "tallystick-cassette/2", 1)
	n := len(lines)
	if n > 255 {
		t.Fatalf("%d bytes do not fit into this frame", n)
	}
	size := n<<3 | 1 // the last block, raw
	return "\x28\xb5\x2f\xfd\x20" + string([]byte{byte(n)}) + string([]byte{byte(size), byte(size >> 8), byte(size >> 16)}) + lines
}

// The limit of a live attempt is the attempt's: going on with it does not begin
// again at nothing. Each call sets 500 micro-dollars aside and costs 30, and the one
// that was interrupted counts with 500; what is given is enough for the third case
// only if the first had been free.
func TestResumedLiveAttemptHasSpentItsMoney(t *testing.T) {
	const limit = "0.001059"
	ctx, interrupt := context.WithCancel(context.Background())
	s := newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(q.Body), "hello, b") && ctx.Err() == nil {
			interrupt() // Ctrl-C while the provider is at work
			return fakemodel.Reply{Body: "{", Hang: true}
		}
		return fakemodel.Reply{Text: "hello"}
	}))
	s.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+s.server.OpenAI()+"\n  key_env: STUDIO_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000, max_input_tokens: 100}\n")
	s.writeCase("c", "version: 1\nturns:\n  - text: say hello, c\n")
	var out, resumed bytes.Buffer
	p := newProgram(newEnv(nil, &out, &out, s.getenv))
	if err := p.run(ctx, []string{"run", "hello", "--live", "--jobs", "1", "--max-cost", limit, "--workspace", s.dir}); err == nil {
		t.Fatalf("it was not interrupted: %s", &out)
	}
	if err := newProgram(newEnv(nil, &resumed, io.Discard, s.getenv)).run(context.Background(), []string{"run", "hello", "--live", "--jobs", "1", "--max-cost", limit, "--resume", "--json", "--workspace", s.dir}); !refusal.Is(err, refusal.GateNotMet) {
		t.Fatalf("a truncated case let the run pass: %v", err)
	}
	var answer struct {
		Passed    int  `json:"passed"`
		Truncated int  `json:"truncated"`
		Finished  bool `json:"finished"`
	}
	if err := json.Unmarshal(resumed.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, &resumed)
	}
	if answer.Passed != 2 || answer.Truncated != 1 || !answer.Finished {
		t.Errorf("%+v, want two passed and one that there was no money for\n%s", answer, s.out)
	}
}

// TestRecordCutOffBeforeItSaysDone: the machine dies after a recording is written and
// before the journal says so. The same command makes the same recording again, from the
// journal, and asks no provider.
func TestRecordCutOffBeforeItSaysDone(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: "hello"} }))
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	sent, kept := len(s.server.Requests()), s.cassette("a").Interactions
	dir := filepath.Join(s.dir, ".tally", "recordings", "hello", "default", "1")
	file := filepath.Join(dir, "paid.jsonl")
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
	if !bytes.Contains(lines[cut:], []byte(`"kind":"done"`)) {
		t.Fatalf("the last line is %s", lines[cut:])
	}
	if err := os.WriteFile(file, lines[:cut], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "finished")); err != nil {
		t.Fatal(err)
	}
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code != 0 || !strings.Contains(s.screen, "are not paid again") {
		t.Fatalf("%d: %s", code, s.screen)
	}
	if n := len(s.server.Requests()); n != sent || len(s.cassette("a").Interactions) != len(kept) {
		t.Errorf("%d calls were made again", n-sent)
	}
	// That one is over: the next would overwrite, and says so.
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code == 0 || !strings.Contains(s.screen, "would overwrite") {
		t.Errorf("%d: %s", code, s.screen)
	}
}
