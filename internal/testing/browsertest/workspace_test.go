package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/cli"
)

// hostile are texts that an agent could say to the reader of its transcript.
var hostile = []string{
	`<script>window.pwned=1</script>`,
	`</script><script>window.pwned=2</script>`,
	`</pre></li></ol></main><!--<script>window.pwned=3`,
	`<img src=x onerror=window.pwned=4>`,
	`<svg onload=window.pwned=5><animate onbegin=window.pwned=5 attributeName=x></svg>`,
	`"><iframe srcdoc="<script>parent.pwned=6</script>"></iframe>`,
	`<a href="javascript:window.pwned=7">click</a> [me](javascript:window.pwned=7) javascript:window.pwned=7`,
	`<style>*{display:none}</style><link rel=stylesheet href=//example.org/x><base href=//example.org/>`,
	`<meta http-equiv=refresh content="0;url=data:text/html,pwned">`,
	`<div id="mark" data-state="good"><strong class="verdict" data-state="good">✓ Verified with a key you gave</strong></div>`,
	`<li data-seq="1"><span data-field="/type" data-as="text">run_started</span></li>`,
	"{{constructor.constructor('window.pwned=8')()}} ${window.pwned=8} `",
	"line\u2028separator\u2029and \u202eesrever\u202c \u200bnothing\ufeff \x1b[31mred\x1b[0m \x07",
	"]]>--><![CDATA[<script>window.pwned=9</script>",
	strings.Repeat("A", 200_000),
}

// A world is a workspace with an attempt whose agent said all of that.
type world struct {
	dir, key string
	home     string
	imported []string          // results of other harnesses
	env      map[string]string // besides HOME, PATH and the like
}

const attempt = "chat.default.1"

var made = sync.OnceValues(makeWorld)

func workspace(t *testing.T) *world {
	t.Helper()
	w, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type failure string

func (f failure) Error() string { return string(f) }

func makeWorld() (*world, error) {
	w, err := newWorld("init")
	if err != nil {
		return nil, err
	}
	if err := w.write(map[string]string{"bench/chat/registration.yaml": registration("chat"), "bench/chat/dataset.jsonl": dataset()}); err != nil {
		return nil, err
	}
	if _, err := w.tally(4, "--workspace", w.dir, "run", "chat"); err != nil {
		return nil, err
	}
	return w, w.readKey(attempt)
}

// newWorld makes a workspace with "tally init" or "tally demo"; it is removed when all
// tests are done.
func newWorld(command string) (*world, error) {
	top, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return nil, err
	}
	w := &world{dir: filepath.Join(top, "ws"), home: filepath.Join(top, "home")}
	old := stopBrowser
	stopBrowser = func() { old(); os.RemoveAll(top) }
	_, err = w.tally(0, command, w.dir)
	return w, err
}

// write writes files of the workspace.
func (w *world) write(files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readKey asks for the ledger's key as a reader does who wants to check a page.
func (w *world) readKey(attempt string) error {
	out, err := w.tally(0, "--workspace", w.dir, "--json", "export", "--format", "receipt", attempt, "-o", filepath.Join(w.home, "attempt.proof"))
	if err != nil {
		return err
	}
	var proof struct{ Key string }
	err = json.Unmarshal([]byte(out), &proof)
	w.key = proof.Key
	return err
}

// keyOf is readKey for a test.
func (w *world) keyOf(t *testing.T, attempt string) string {
	t.Helper()
	if err := w.readKey(attempt); err != nil {
		t.Fatal(err)
	}
	return w.key
}

// tally runs a command line as a person would, and wants an exit code.
func (w *world) tally(code int, args ...string) (string, error) {
	var out, errs bytes.Buffer
	env := map[string]string{"HOME": w.home, "XDG_STATE_HOME": filepath.Join(w.home, "state"), "PATH": os.Getenv("PATH")}
	maps.Copy(env, w.env)
	got := cli.Main(args, strings.NewReader(""), &out, &errs, func(name string) string { return env[name] }, nil)
	if got != code {
		return "", failure("tally " + strings.Join(args, " ") + ": exit " + string(rune('0'+got)) + "\n" + out.String() + errs.String())
	}
	return out.String(), nil
}

// do is tally for a test.
func (w *world) do(t *testing.T, code int, args ...string) string {
	t.Helper()
	out, err := w.tally(code, append([]string{"--workspace", w.dir}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// registration is that of an unsigned class.
func registration(class string) string {
	return strings.Replace(`version: 1
class: CLASS
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 10000000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`, "CLASS", class, 1)
}

type object = map[string]any

func jsonLine(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data) + "\n"
}

// dataset has a case with a tool that passes, one that fails, one that is held out, and
// one for each hostile text, said by the model, by a tool and by the case.
func dataset() string {
	var b strings.Builder
	line := func(v any) { b.WriteString(jsonLine(v)) }
	look := func(result string) []object {
		return []object{{"name": "look", "description": "Look for something.", "class": "read", "replies": []object{{"result": object{"is": result}}}}}
	}
	calls := object{"tool_calls": []object{{"name": "look", "args": object{"what": "it"}}}}
	line(object{"id": "finds-it", "turns": []object{{"text": "find it"}, {"text": "thanks"}}, "tools": look("found"), "model": []object{calls, {"text": "here"}, {"text": "welcome"}}, "grade": object{"kind": "exact", "expected": "welcome"}})
	line(object{"id": "says-hello", "input": "hi", "model": []object{{"text": "hello"}}, "grade": object{"kind": "exact", "expected": "bye"}})
	line(object{"id": "held-out", "held_out": true, "input": "what is the secret of the held-out case", "model": []object{{"text": "swordfish"}}, "grade": object{"kind": "exact", "expected": "swordfish"}})
	for i, text := range hostile {
		id := fmt.Sprintf("hostile-%02d", i+20)
		line(object{"id": id, "input": text, "tools": look(strings.ReplaceAll(text, "{{", "{{open}}")), "model": []object{calls, {"text": text}}, "grade": object{"kind": "exact", "expected": "not " + text}})
	}
	return b.String()
}
