package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/wire"
	"tallystick/internal/share/verify"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/scripttest"
)

var update = flag.Bool("update", false, "rewrite the expected output inside the scripts")

func TestMain(m *testing.M) {
	if os.Getenv("TALLY_TEST_NO_VERSION") == "" {
		programVersion = "v0.0.0-test"
	}
	testscript.Main(cleaning{m}, map[string]func(){
		"tally":        main,
		"egressagent":  egressAgent,
		"tally-verify": func() { os.Exit(verify.Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// cleaning removes the program that tests of the sandbox built.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	code := c.M.Run()
	if staticDir != "" {
		os.RemoveAll(staticDir)
	}
	return code
}

// TestScripts runs testdata/script/*.txtar against the real main. Scripts are
// named for the command first, then for what happens.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           condition,
		Setup:               isolate,
		Cmds:                scriptCommands(t),
	})
}

func scriptCommands(t *testing.T) map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"calls":  cmdCalls,
		"edit":   cmdEdit,
		"events": cmdEvents,
		"exit":   scripttest.Exit,
		"fetch":  cmdFetch,
		"flip":   cmdFlip,
		"gnupg":  cmdGnuPG,

		"gaiadata":    cmdGAIAData,
		"gaiareplies": cmdGAIAReplies,
		"forge":       cmdForge,
		"hide":        cmdHide,
		"keeper":      cmdKeeper,
		"reforge":     cmdReforge,
		"sameaudit":   cmdSameAudit,
		"second":      cmdSecond,
		"statictally": cmdStaticTally,
		"unzipped":    cmdUnzipped,
		"stranger":    cmdStranger,
		"agree":       cmdAgree,
		"shorten":     cmdShorten,
		"ledgerkey":   cmdLedgerKey,

		"json":   cmdJSON,
		"lines":  cmdLines,
		"mode":   cmdMode,
		"people": cmdPeople,

		"registry": cmdRegistry,
		"website":  startWebsite(t),
		"provider": func(ts *testscript.TestScript, neg bool, args []string) {
			startProvider(t, ts, neg, args)
		},
	}
}

// people DIR makes people whose keys do not come with "tally init": olga, an
// operator; alice, a curator; bob, a curator with the security role; and rita, who
// has no role yet. DIR gets their keys and the file allowed_signers, for
// "tally init --signers".
func cmdPeople(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: people DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	var entries []seal.Entry
	for _, p := range []struct {
		name  string
		roles []seal.Role
	}{{"olga", []seal.Role{seal.Operator}}, {"rita", nil}, {"alice", []seal.Role{seal.Curator}}, {"bob", []seal.Role{seal.Curator, seal.Security}}} {
		key, err := seal.NewKey(rand.Reader)
		ts.Check(err)
		private, err := key.MarshalPEM(p.name)
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(dir, p.name), private, 0o600))
		ts.Check(os.WriteFile(filepath.Join(dir, p.name+".pub"), []byte(key.Public().String()+"\n"), 0o644))
		if p.roles != nil {
			entries = append(entries, seal.Entry{Principals: p.name, Key: key.Public(), Roles: p.roles})
		}
	}
	signers, err := seal.Compose(1, digest.ID{}, entries)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, "allowed_signers"), signers, 0o644))
}

// provider FILE starts a model provider on this machine, at $PROVIDER, that
// answers a request with the second column of the first line of FILE whose first
// column the request contains. A script can record from it as from a real one. After
// "body:" or "events:" the column is the body or the stream itself. After
// "together:N:" nothing is answered before N such requests wait at the same time.
func startProvider(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: provider FILE")
	}
	var answers [][2]string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		asked, reply, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			ts.Fatalf("provider: %s: %q has no tab", args[0], line)
		}
		answers = append(answers, [2]string{asked, reply})
	}
	var served atomic.Int64
	waiting, all := 0, make(chan struct{})
	server := fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		for _, a := range answers {
			if strings.Contains(string(q.Body), a[0]) {
				if body, ok := strings.CutPrefix(a[1], "body:"); ok {
					return fakemodel.Reply{Body: body}
				}
				if events, ok := strings.CutPrefix(a[1], "events:"); ok {
					return fakemodel.Reply{Events: []string{strings.ReplaceAll(events, `\n`, "\n")}}
				}
				if rest, ok := strings.CutPrefix(a[1], "together:"); ok {
					number, text, _ := strings.Cut(rest, ":")
					if waiting++; strconv.Itoa(waiting) == number {
						close(all)
					}
					return fakemodel.Reply{Text: text, Wait: all}
				}
				return fakemodel.Reply{Text: strings.ReplaceAll(a[1], "{n}", strconv.FormatInt(served.Add(1), 10))}
			}
		}
		return fakemodel.Reply{Status: 400, Body: `{"error":{"message":"no answer to that"}}`}
	})
	ts.Setenv("PROVIDER", server.OpenAI())
	providers.Store(server.OpenAI(), &counted{server: server})
}

// A counted is a provider and how many of its calls were told.
type counted struct {
	server *fakemodel.Server
	told   int
}

// providers are those that scripts have started, by address.
var providers sync.Map

// calls N says that the provider got so many calls since it was last asked.
func cmdCalls(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: calls N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	found, ok := providers.Load(ts.Getenv("PROVIDER"))
	if !ok {
		ts.Fatalf("calls: no provider is there")
	}
	c := found.(*counted)
	all := len(c.server.Requests())
	if got := all - c.told; got != want {
		ts.Fatalf("the provider got %d calls, want %d", got, want)
	}
	c.told = all
}

// condition knows what a script may ask of the machine it runs on.
func condition(name string) (bool, error) {
	if name == "root" {
		return os.Getuid() == 0, nil
	}
	if name == "sandbox" {
		return sandboxStarts()
	}
	if name == "vectors" { // the gateway has them for agents
		_, has := wire.RouteOfEndpoint("/embeddings")
		return has, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// isolate keeps a script from the person's own keys, settings and ledgers, and
// sends whatever would leave the machine over HTTP to a port where no server
// listens.
func isolate(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, ".home")
	state := filepath.Join(env.WorkDir, ".state")
	for _, dir := range []string{home, state} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	env.Values[servedRegistry{}] = &servedRegistry{}
	env.Setenv("HOME", home)
	env.Setenv("XDG_STATE_HOME", state)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	env.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
	env.Setenv("SEGMENT", filepath.Join(".tally", "ledger", "segments", "0000000000000000.log"))
	abs, err := filepath.Abs(examples)
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", abs)
	env.Setenv("INSTALL", filepath.Join(filepath.Dir(abs), "install.sh"))
	env.Setenv("ESC", "\n::error::\x1b[31m\u202e") // what a script file cannot hold
	const unreachable = "http://127.0.0.1:1"
	env.Setenv("HTTP_PROXY", unreachable)
	env.Setenv("HTTPS_PROXY", unreachable)
	env.Setenv("NO_PROXY", "127.0.0.1,localhost")
	return nil
}

// edit FILE OLD NEW is the forger: it replaces the one occurrence of OLD. A
// forgery that hits nothing, or more than meant, would prove nothing.
func cmdEdit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if n := strings.Count(text, args[1]); n != 1 {
		ts.Fatalf("edit: %q occurs %d times in %s, want once", args[1], n, args[0])
	}
	overwrite(ts, args[0], []byte(strings.Replace(text, args[1], args[2], 1)))
}

// flip FILE BYTE BIT changes one bit. A negative BYTE counts from the end.
func cmdFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: flip FILE BYTE BIT")
	}
	data := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	bit, err := strconv.Atoi(args[2])
	ts.Check(err)
	if at < 0 {
		at += len(data)
	}
	if at < 0 || at >= len(data) || bit < 0 || bit > 7 {
		ts.Fatalf("flip: %s has %d bytes of 8 bits, there is no byte %s bit %s", args[0], len(data), args[1], args[2])
	}
	data[at] ^= 1 << bit
	overwrite(ts, args[0], data)
}

// lines FILE N... keeps the named lines of a file, counted from 1, in the order
// given: what drops, moves and repeats them.
func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: lines FILE N...")
	}
	all := strings.SplitAfter(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	all[len(all)-1] += "\n"
	var kept strings.Builder
	for _, arg := range args[1:] {
		n, err := strconv.Atoi(arg)
		ts.Check(err)
		if n < 1 || n > len(all) {
			ts.Fatalf("lines: %s has %d lines, there is no line %d", args[0], len(all), n)
		}
		kept.WriteString(all[n-1])
	}
	overwrite(ts, args[0], []byte(kept.String()))
}

// mode PERM PATH... requires the permissions of files and folders.
func cmdMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode PERM PATH...")
	}
	for _, name := range args[1:] {
		st, err := os.Lstat(ts.MkAbs(name))
		ts.Check(err)
		if got := fmt.Sprintf("%04o", st.Mode().Perm()); got != args[0] {
			ts.Fatalf("mode: %s has %s, want %s", name, got, args[0])
		}
	}
}

// overwrite keeps the file's mode: a forger changes bytes, not permissions.
func overwrite(ts *testscript.TestScript, name string, data []byte) {
	path := ts.MkAbs(name)
	st, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, data, st.Mode().Perm()))
}

// events LOG CODE COMMAND... is "exit CODE COMMAND..." that adds to LOG which
// events the command left: in the ledger, among the alarms, in the lists of runs.
func cmdEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: events LOG CODE COMMAND...")
	}
	before := eventLines(ts)
	scripttest.Exit(ts, false, args[1:])
	var log strings.Builder
	fmt.Fprintf(&log, "%s\n", strings.Join(args[2:], " "))
	for _, where := range []string{"ledger", "alarms", "run"} {
		left := eventLines(ts)[where][len(before[where]):]
		for i, line := range left {
			if i == 0 || line != left[i-1] {
				fmt.Fprintf(&log, "  %s: %s\n", where, line)
			}
		}
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = f.WriteString(log.String())
	ts.Check(err)
	ts.Check(f.Close())
}

// eventLines reads every event of a workspace, without checking anything: severity,
// boundary and name.
func eventLines(ts *testscript.TestScript) map[string][]string {
	all := map[string][]string{}
	for where, pattern := range map[string]string{"ledger": ".tally/ledger/segments/*.log", "alarms": ".tally/alarms.jsonl", "run": ".tally/runs/*/events.jsonl"} {
		names, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			ts.Check(err)
			for line := range strings.Lines(string(data)) {
				if where == "ledger" && !strings.Contains(line, `"kind":"integrity.event"`) {
					continue
				}
				var found struct {
					Body, Event struct{ Boundary, Name, Severity string }
				}
				if start := strings.IndexByte(line, '{'); start >= 0 && json.Unmarshal([]byte(line[start:]), &found) == nil {
					e := found.Event
					if where == "ledger" {
						e = found.Body
					}
					all[where] = append(all[where], e.Severity+" "+e.Boundary+" "+e.Name)
				}
			}
		}
	}
	return all
}

// json FILE PATH VALUE requires that FILE (or stdout, stderr) is exactly one
// JSON document whose field PATH, with dots between names and positions, is
// VALUE: the text of a string, the JSON of anything else. "json FILE PATH" asks
// only that the field is there, "! json FILE PATH" that it is not.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 && (neg || len(args) != 3) {
		ts.Fatalf("usage: json FILE PATH [VALUE], or ! json FILE PATH")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		ts.Fatalf("json: %s is not JSON: %v", args[0], err)
	}
	if _, err := dec.Token(); err != io.EOF {
		ts.Fatalf("json: %s holds more than one JSON document", args[0])
	}

	value, found := field(doc, args[1])
	switch {
	case neg && found:
		ts.Fatalf("json: %s has a field %s: %s", args[0], args[1], show(value))
	case !neg && !found:
		ts.Fatalf("json: %s has no field %s", args[0], args[1])
	case len(args) == 3 && show(value) != args[2]:
		ts.Fatalf("json: %s field %s is %s, want %s", args[0], args[1], show(value), args[2])
	}
}

func field(doc any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[name]
			if !ok {
				return nil, false
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(d) {
				return nil, false
			}
			doc = d[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
