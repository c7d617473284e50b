// Package repofix writes the bench of the acceptance test: small repositories,
// each with a bug, a test that fails because of it, and an issue such as a user
// might write.
//
// Everything is made from a number, so the same tasks come out everywhere and
// nothing has to be kept. The bugs are of ten kinds that shell scripts really
// have; no two tasks have the same files. The model's side is authored: what
// such a bench shows is whether runs are counted right, and not what a model
// can do.
//
// It is used by tests only.
package repofix

import (
	_ "embed" // the registration
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
)

// Class is the name of the class.
const Class = "repo-fix-100"

//go:embed registration.yaml
var registration string

// Registration is the class's registration: one policy for all tasks, which
// denies a shell to the agent. Trust is "signed" or "scratch".
func Registration(trust string) string {
	return strings.Replace(registration, "trust: signed\n", "trust: "+trust+"\n", 1)
}

// Target is the agent that works on them, as YAML.
const Target = `version: 1
kind: builtin
builtin:
  model: repo-fix-model
  api: openai.chat
  system: You fix bugs in small repositories. Leave the tests alone.
  abilities: [plan]
`

// A Task is a repository with a bug.
type Task struct {
	ID    string
	Issue string
	Files map[string]string // the repository: the script, test.sh and a README.md

	Path     string // the script
	Old, New string // the piece of it that is wrong, and what is right
}

// Fixed is the script as it should be.
func (t *Task) Fixed() string { return strings.Replace(t.Files[t.Path], t.Old, t.New, 1) }

// New makes task n, from 1 on.
func New(n int) Task {
	kind, k := kinds[(n-1)%len(kinds)], (n-1)/len(kinds)+2
	b := kind(k)
	script := b.name + ".sh"
	return Task{ID: fmt.Sprintf("fix-%03d", n), Issue: b.issue, Path: script, Old: b.old, New: b.new, Files: map[string]string{
		script:      b.script,
		"test.sh":   testScript(script, b.checks),
		"README.md": fmt.Sprintf("# %s\n\nRepository %d. Tests: `sh test.sh`.\n", b.name, n),
	}}
}

// A bug is what differs between kinds of tasks.
type bug struct {
	name, issue, script, old, new string
	checks                        [][3]string // what, command, wanted
}

func testScript(script string, checks [][3]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Tests of %s. Exits with 1 if one fails.\n. ./%s\n", script, script)
	b.WriteString(`failed=0
check() { # WHAT GOT WANT
	if [ "$2" = "$3" ]; then
		echo "ok    $1"
	else
		echo "FAIL  $1: got $2, want $3"
		failed=1
	fi
}
`)
	for _, c := range checks {
		fmt.Fprintf(&b, "check \"%s\" \"$(%s 2>&1)\" \"%s\"\n", c[0], c[1], c[2])
	}
	b.WriteString("exit $failed\n")
	return b.String()
}

var kinds = []func(k int) bug{offByOne, dividedTooEarly, wrongBound, wrongFactor, thresholdNotIncluded, unquoted, noWrapAround, octal, noAbsolute, noDefault}

func text(n int) string { return fmt.Sprint(n) }

func offByOne(k int) bug {
	return bug{"sum", fmt.Sprintf("The sum of the multiples of %d leaves out the last one.", k),
		fmt.Sprintf("# sum N adds %d, twice that, and so on, N times.\nsum() {\n\ttotal=0 i=1\n\twhile [ $i -lt \"$1\" ]; do\n\t\ttotal=$((total + i * %d)) i=$((i + 1))\n\tdone\n\techo $total\n}\n", k, k),
		"-lt", "-le",
		[][3]string{{"one", "sum 1", text(k)}, {"four", "sum 4", text(10 * k)}, {"none", "sum 0", "0"}}}
}

func dividedTooEarly(k int) bug {
	return bug{"share", "A share below the whole comes out as nothing.",
		fmt.Sprintf("# share PART WHOLE tells the share in parts of %d.\nshare() {\n\techo $(($1 / $2 * %d))\n}\n", 100*k, 100*k),
		fmt.Sprintf("$1 / $2 * %d", 100*k), fmt.Sprintf("$1 * %d / $2", 100*k),
		[][3]string{{"a half", "share 1 2", text(50 * k)}, {"all", "share 3 3", text(100 * k)}, {"a quarter", "share 2 8", text(25 * k)}}}
}

func wrongBound(k int) bug {
	return bug{"clamp", fmt.Sprintf("Values above %d come out as %d.", 10*k, k),
		fmt.Sprintf("# clamp N keeps a number between %d and %d.\nclamp() {\n\tif [ \"$1\" -lt %d ]; then\n\t\techo %d\n\telif [ \"$1\" -gt %d ]; then\n\t\techo \"%d\"\n\telse\n\t\techo \"$1\"\n\tfi\n}\n", k, 10*k, k, k, 10*k, k),
		fmt.Sprintf("echo \"%d\"", k), fmt.Sprintf("echo \"%d\"", 10*k),
		[][3]string{{"below", "clamp 0", text(k)}, {"between", fmt.Sprintf("clamp %d", 2*k), text(2 * k)}, {"above", fmt.Sprintf("clamp %d", 11*k), text(10 * k)}}}
}

func wrongFactor(k int) bug {
	return bug{"convert", "Boxes are counted as if one more fitted into each.",
		fmt.Sprintf("# convert BOXES tells how many bottles that is: there are %d in a box.\nconvert() {\n\techo $(($1 * %d))\n}\n", 6*k, 6*k+1),
		fmt.Sprintf("* %d", 6*k+1), fmt.Sprintf("* %d", 6*k),
		[][3]string{{"one", "convert 1", text(6 * k)}, {"none", "convert 0", "0"}, {"seven", "convert 7", text(42 * k)}}}
}

func thresholdNotIncluded(k int) bug {
	return bug{"fee", fmt.Sprintf("An order of exactly %d pays for delivery; it should not.", 25*k),
		fmt.Sprintf("# fee TOTAL tells what delivery costs: nothing from %d on.\nfee() {\n\tif [ \"$1\" -gt %d ]; then\n\t\techo 0\n\telse\n\t\techo %d\n\tfi\n}\n", 25*k, 25*k, k),
		"-gt", "-ge",
		[][3]string{{"below", fmt.Sprintf("fee %d", 25*k-1), text(k)}, {"at", fmt.Sprintf("fee %d", 25*k), "0"}, {"above", fmt.Sprintf("fee %d", 25*k+1), "0"}}}
}

func unquoted(k int) bug {
	return bug{"label", "Two blanks in a name become one on the label.",
		fmt.Sprintf("# label NAME writes the label of shelf %d.\nlabel() {\n\techo shelf %d: $1\n}\n", k, k),
		fmt.Sprintf("echo shelf %d: $1", k), fmt.Sprintf("echo \"shelf %d: $1\"", k),
		[][3]string{{"a word", "label oil", fmt.Sprintf("shelf %d: oil", k)}, {"two blanks", "label 'olive  oil'", fmt.Sprintf("shelf %d: olive  oil", k)}}}
}

func noWrapAround(k int) bug {
	return bug{"next", fmt.Sprintf("After seat %d comes seat %d, which does not exist.", k+2, k+3),
		fmt.Sprintf("# next SEAT tells who is next at a table of %d seats, numbered from 0.\nnext() {\n\techo $(($1 + 1))\n}\n", k+3),
		"$1 + 1", fmt.Sprintf("($1 + 1) %% %d", k+3),
		[][3]string{{"the first", "next 0", "1"}, {"the last", fmt.Sprintf("next %d", k+2), "0"}}}
}

func octal(k int) bug {
	return bug{"later", "It does not take eight minutes past the hour when they are written 08.",
		fmt.Sprintf("# later MINUTES tells the minute %d minutes later; MINUTES has two digits.\nlater() {\n\techo $(($1 + %d))\n}\n", k, k),
		fmt.Sprintf("$1 + %d", k), fmt.Sprintf("${1#0} + %d", k),
		[][3]string{{"ten", "later 10", text(10 + k)}, {"eight", "later 08", text(8 + k)}, {"nine", "later 09", text(9 + k)}, {"seven", "later 07", text(7 + k)}}}
}

func noAbsolute(k int) bug {
	return bug{"distance", "A distance is negative when the second place comes first.",
		fmt.Sprintf("# distance A B tells how far two places of a line are apart, %d metres each.\ndistance() {\n\td=$((($1 - $2) * %d))\n\techo $d\n}\n", k, k),
		"echo $d", "echo ${d#-}",
		[][3]string{{"forth", "distance 5 2", text(3 * k)}, {"back", "distance 2 5", text(3 * k)}, {"the same", "distance 4 4", "0"}}}
}

func noDefault(k int) bug {
	return bug{"greet", "The guest is not greeted when no name is given.",
		fmt.Sprintf("# greet [NAME] greets a visitor at desk %d, or the guest.\ngreet() {\n\techo \"desk %d: good day, $1\"\n}\n", k, k),
		"$1", "${1:-guest}",
		[][3]string{{"a name", "greet Ana", fmt.Sprintf("desk %d: good day, Ana", k)}, {"no name", "greet", fmt.Sprintf("desk %d: good day, guest", k)}}}
}

// A Conduct is what the model does about a task.
type Conduct struct {
	Miss   bool // it changes something else, and the bug stays
	Denied bool // it tries the shell, which the policy denies, before it goes on
	// Run has the task's test run in the sandbox. Otherwise the script is
	// compared with the one that passes the test.
	Run bool
}

// Line writes the task as a line of dataset.jsonl, without the newline.
func (t *Task) Line(c Conduct) ([]byte, error) {
	change := map[string]any{"path": t.Path, "old": t.Old, "new": t.New}
	if c.Miss {
		change = map[string]any{"path": "README.md", "old": "Tests:", "new": "How to test:"}
	}
	var model []any
	reply := func(calls ...any) {
		model = append(model, map[string]any{"tool_calls": calls, "tokens_in": 400, "tokens_out": 60, "cost_microdollars": 1200, "latency_ms": 900})
	}
	reply(call("fs_read", map[string]any{"path": t.Path}), call("fs_read", map[string]any{"path": "test.sh"}))
	if c.Denied {
		reply(call("Bash", map[string]any{"command": "sh test.sh"}))
	}
	reply(call("plan", map[string]any{"text": "Change " + t.Path + " where the test fails."}), call("fs_replace", change))
	model = append(model, map[string]any{"text": "I have changed " + t.Path + ".", "tokens_in": 500, "tokens_out": 20, "cost_microdollars": 800, "latency_ms": 500})

	line := map[string]any{
		"id": t.ID, "input": t.Issue, "tags": []string{"shell", "repo-issue"}, "files": t.Files, "model": model,
		"tools": []any{
			map[string]any{"name": "fs_read", "description": "Reads a file.", "source": "folder"},
			map[string]any{"name": "fs_replace", "description": "Replaces a piece of a file that occurs once.", "source": "folder"},
			map[string]any{"name": "Bash", "description": "Runs a command.", "class": "privileged", "default": map[string]any{"result": "done"}},
		},
		"checks": []any{
			map[string]any{"name": "fixed", "failure_mode": "not-fixed", "extract": map[string]any{"kind": "file", "path": t.Path},
				"grade": map[string]any{"kind": "exact", "expected": t.Fixed()}},
			map[string]any{"name": "test-unchanged", "failure_mode": "test-changed", "extract": map[string]any{"kind": "file", "path": "test.sh"},
				"grade": map[string]any{"kind": "exact", "expected": t.Files["test.sh"]}},
		},
	}
	if c.Run {
		line["test"] = map[string]any{"command": []string{"sh", "test.sh"}, "timeout_seconds": 30}
		line["checks"].([]any)[0] = map[string]any{"name": "fixed", "failure_mode": "not-fixed", "extract": map[string]any{"kind": "test"},
			"grade": map[string]any{"kind": "exact", "expected": true}}
	}
	return canon.Marshal(line)
}

func call(name string, args map[string]any) any { return map[string]any{"name": name, "args": args} }

// Dataset writes tasks 1 to n as dataset.jsonl; conduct says what the model does
// about each.
func Dataset(n int, conduct func(n int) Conduct) ([]byte, error) {
	var out []byte
	for i := 1; i <= n; i++ {
		t := New(i)
		line, err := t.Line(conduct(i))
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}
