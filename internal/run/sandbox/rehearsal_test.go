//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// rehearses is an agent that does what helper says, and then what it is told. For
// the preloader, what lies beside it is installed.
func rehearses(code string) map[string]string {
	return map[string]string{
		"agent.py":  "import sys, os, helper\ntold = sys.stdin.read()\nif told == 'rehearsal':\n    helper.rehearse()\nelse:\n    exec(compile(told, 'told', 'exec'))\n",
		"helper.py": "import os, sys\nstate = []\nsys.prefix = '/agent'\ndef rehearse():\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\n",
		"plain.py":  "",
		"spins.py":  "import _thread, time\n_thread.start_new_thread(time.sleep, (600,))\n",
		"sleeps.py": "import os, sys\nif 'TALLY_TOKEN' not in os.environ:\n    while True: pass\n",
		"ends.py":   "import os\nif 'TALLY_TOKEN' not in os.environ:\n    os._exit(3)\n",
		"calls.py":  "import os, socket\nif 'TALLY_TOKEN' not in os.environ:\n    try: socket.create_connection(('192.0.2.1', 80), 1)\n    except OSError: pass\n",
		"fails.py":  "import os\nos.environ['TALLY_TOKEN']\n",
	}
}

func newRehearsedAgent(t *testing.T, class Class, code string) *warmAgent {
	t.Helper()
	a := newWarmAgent(t, class, rehearses(code))
	a.box.options.Patience = 5 * time.Second
	a.box.options.Agent.Limits.Timeout = 5 * time.Second
	a.box.options.Agent.Limits.Tasks = 64
	a.box.options.Rehearsal = &Rehearsal{Env: slices.Concat(a.env, []string{"TALLY_TOKEN=made-up"}), Stdin: "rehearsal", Gateway: NewGateway()}
	return a
}

// What a rehearsal imported, cases find imported; what else it did is gone.
func TestRehearsalLeavesNothingButModules(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		a := newRehearsedAgent(t, class, "import plain, fails, xml.dom.minidom\nplain.seen = state.append(1)\nos.environ['MARK'] = '1'\nopen('/tmp/mark', 'w'); open('mark', 'w'); open('/dev/shm/mark', 'w')\nif os.fork() == 0:\n    __import__('time').sleep(600)\nopen('/etc/shadow')")
		r := a.ok(t, `
loaded = set(sys.modules)
import plain
assert "plain" in loaded and "xml.dom.minidom" in loaded and "fails" not in loaded and not hasattr(plain, "seen"), loaded
assert helper.state == [] and "MARK" not in os.environ and "TALLY_TOKEN" not in os.environ
assert not os.listdir("/tmp") and not os.listdir("/dev/shm") and not os.listdir("/work") and os.listdir("/tally/cases") == []
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
assert not others, others
print("ok")`)
		if len(r.Attempted) > 0 {
			t.Errorf("the case is said to have attempted %v", r.Attempted)
		}
		p, attempts, err := a.box.Preload(context.Background())
		if err != nil || p.Rehearsed < 3 || p.Unrehearsed != "" || p.Modules <= p.Rehearsed || len(p.Digest) != 64 || len(attempts) > 0 {
			t.Errorf("%+v, %v, %v", p, attempts, err)
		}
		if left, _ := filepath.Glob(filepath.Join(a.folders, "rehearsal-*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

// Whatever a rehearsal does, it ends, and cases run as without it.
func TestRehearsalsThatAreOfNoUse(t *testing.T) {
	for name, tt := range map[string]struct{ code, because string }{
		"never ends":                    {"while True: pass", "was ended: timeout"},
		"forks without end":             {"while True: os.fork()", "the rehearsal"},
		"takes all memory":              {"x = []\nwhile True: x.append(bytearray(1 << 24))", "the rehearsal"},
		"ends at once":                  {"os._exit(0)", "left no names"},
		"kills its group":               {"os.kill(0, 9)", "left no names"},
		"becomes another program":       {"os.execv('/bin/true', ['true'])", "left no names"},
		"imports nothing":               {"pass", "imports nothing more"},
		"leaves a link":                 {"os.symlink('/etc/passwd', '.tally-modules'); os._exit(0)", "not a regular file"},
		"leaves a folder":               {"os.mkdir('.tally-modules'); os._exit(0)", "not a regular file"},
		"leaves 10 MB":                  {"open('.tally-modules', 'w').write('plain\\n' * 2_000_000); os._exit(0)", "more than 65536 bytes"},
		"names what is not a module":    {"open('.tally-modules', 'w').write('../x\\nos; import sys\\n.plain\\nplain.\\npl\\u00e4in\\n' + 'a' * 300); os._exit(0)", "imports nothing more"},
		"names what starts a thread":    {"import spins", "starts a thread"},
		"names what never ends":         {"import sleeps", "takes more than"},
		"names what ends the preloader": {"import ends", "ends the preloader"},
		"names what reaches out":        {"import calls", "attempts {network connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newRehearsedAgent(t, GVisor, tt.code)
			r := a.ok(t, "assert 'plain' not in sys.modules and 'spins' not in sys.modules\nprint('ok')")
			p, attempts, err := a.box.Preload(context.Background())
			if err != nil || p.Rehearsed != 0 || !strings.Contains(p.Unrehearsed, tt.because) || len(attempts)+len(r.Attempted) > 0 {
				t.Errorf("%+v, %v, %v", p, attempts, err)
			}
		})
	}
}

func TestNamesOfModules(t *testing.T) {
	for name, want := range map[string]bool{
		"os": true, "os.path": true, "_ssl": true, "81d243bd2c585b0f4821__mypyc": true, "a.b_c.D1": true, strings.Repeat("a", maxNameBytes): true,
		"": false, ".": false, ".os": false, "os.": false, "a..b": false, "../x": false, "os; import sys": false, "a b": false, "a\n": false, "a-b": false, "é": false,
		"a/b": false, "a\x00": false, strings.Repeat("a", maxNameBytes+1): false,
	} {
		if got := isModuleName(name); got != want {
			t.Errorf("%.40q: %v", name, got)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, namesFile), []byte(strings.Repeat("a\n", maxNames+5)), 0o644); err != nil {
		t.Fatal(err)
	}
	if names, err := readNames(dir); err != nil || len(names) != maxNames {
		t.Errorf("%d names, %v", len(names), err)
	}
}
