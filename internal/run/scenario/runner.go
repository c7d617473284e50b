package scenario

import (
	"bytes"
	_ "embed" // what runs tests in the sandbox
	"path"
	"slices"

	"tallystick/internal/record/digest"
)

// A Runner is a program of ours that runs the tests of a language inside the
// sandbox and prints a line for each. Acceptance believes no other: a command
// that a person wrote may say what it likes.
type Runner struct {
	Language string
	File     digest.File // among the hidden tests of a case

	code     []string   // endings of the names of code
	comments []string   // what begins a comment up to the end of its line
	commands [][]string // what may stand before the names of what is tested
}

//go:embed runners/go.sh
var goRunner []byte

//go:embed runners/run.py
var pythonRunner []byte

//go:embed runners/reporter.mjs
var nodeReporter []byte

// runnerDir is where a case's hidden tests have the program that runs them.
const runnerDir = ".tally/"

// VenvPython is the interpreter of a virtual environment, as tests find it.
const VenvPython = "/venv/bin/python"

var runners = []*Runner{
	{Language: "go", File: digest.File{Path: runnerDir + "go.sh", Data: goRunner}, code: []string{".go"}, comments: []string{"//"},
		commands: [][]string{{"sh", "/tests/" + runnerDir + "go.sh"}}},
	{Language: "python", File: digest.File{Path: runnerDir + "run.py", Data: pythonRunner}, code: []string{".py"}, comments: []string{"#"},
		commands: pythonCommands()},
	{Language: "node", File: digest.File{Path: runnerDir + "reporter.mjs", Data: nodeReporter}, code: []string{".js", ".mjs", ".cjs", ".ts", ".json"}, comments: []string{"//"},
		commands: [][]string{{"node", "--test", "--test-reporter=/tests/" + runnerDir + "reporter.mjs"}}},
}

func pythonCommands() [][]string {
	var out [][]string
	for _, python := range []string{"python3", VenvPython} {
		for _, kind := range []string{"unittest", "pytest"} {
			out = append(out, []string{python, "-I", "/tests/" + runnerDir + "run.py", kind})
		}
	}
	return out
}

// RunnerOf is the runner of a language; nil if there is none.
func RunnerOf(language string) *Runner {
	for _, r := range runners {
		if r.Language == language {
			return r
		}
	}
	return nil
}

// IsCode reports whether a path is code of the language by its name.
func (r *Runner) IsCode(name string) bool { return slices.Contains(r.code, path.Ext(name)) }

// runner is the one that runs the tests of the case, byte for byte as it comes with
// this program; nil if something else runs them.
func (c *Task) runner() *Runner {
	for _, r := range runners {
		at := slices.IndexFunc(c.Tests, func(f digest.File) bool { return f.Path == r.File.Path })
		if at < 0 || !bytes.Equal(c.Tests[at].Data, r.File.Data) {
			continue
		}
		for _, command := range r.commands {
			if n := len(command); len(c.Scenario.Test.Command) > n && slices.Equal(c.Scenario.Test.Command[:n], command) {
				return r
			}
		}
	}
	return nil
}
