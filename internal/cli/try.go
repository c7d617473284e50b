package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/bench"
	"tallystick/internal/canon"
	"tallystick/internal/ceremony"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/harness"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/store"
	"tallystick/internal/strictyaml"
)

type tryOptions struct {
	command []string
	file    string
	cases   []string
	mounts  []string
	unsafe  bool
}

func newTry(env *Env) *cobra.Command {
	var o tryOptions
	cmd := &cobra.Command{
		Use:   "try [-f FILE | --case 'INPUT=EXPECTED']... -- COMMAND [ARG...]",
		Short: "Try any program on a handful of cases; nothing is signed or recorded",
		Long: `Run a program on a few cases and say which answers are right. The program gets the
input on standard input and answers on standard output; it runs in a sandbox that
shows it the current folder, read-only, and a working folder of its own.

  tally try --case 'ping=ping' -- cat
  tally try -f cases.yaml -- python3 agent.py

cases.yaml:

  cases:
    - {input: "What is 2 plus 2?", expect: "4"}
    - {input: "Name a prime above 10", matches: "1[1379]"}
    - {input: "Greet me", contains: hello, model: [{text: "hello"}]}

"expect" compares without regard to case, white space and punctuation, "contains" and
"matches" look inside the answer; "grade" takes any grader. "model" answers the
program's model calls. A result of this command is scratch: it counts for nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			return runTry(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "YAML `FILE` with the cases")
	f.StringArrayVar(&o.cases, "case", nil, "a case as `INPUT=EXPECTED`; may be given several times")
	f.StringArrayVar(&o.mounts, "mount", nil, "a further `FOLDER` that the program may read")
	f.BoolVar(&o.unsafe, "unsafe-agent", false, "run the program without a sandbox")
	return cmd
}

// tryFile is the small YAML of a try.
type tryFile struct {
	Cases []tryCase `json:"cases"`
}

type tryCase struct {
	ID       string            `json:"id,omitempty"`
	Input    string            `json:"input"`
	Expect   string            `json:"expect,omitempty"`
	Contains string            `json:"contains,omitempty"`
	Matches  string            `json:"matches,omitempty"`
	Grade    canon.RawMessage  `json:"grade,omitempty"`
	Model    canon.RawMessage  `json:"model,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
}

type tryAnswer struct {
	Level  string      `json:"level"` // always scratch
	Total  int         `json:"total"`
	Passed int         `json:"passed"`
	Cases  []triedCase `json:"cases"`
}

type triedCase struct {
	Case     string  `json:"case"`
	Input    string  `json:"input"`
	Outcome  string  `json:"outcome"`
	Answer   string  `json:"answer"`
	Expected string  `json:"expected,omitempty"`
	Why      string  `json:"why,omitempty"`
	Seconds  float64 `json:"seconds"`
	Agent    string  `json:"agent_isolation"`
}

func runTry(ctx context.Context, env *Env, o tryOptions) error {
	lines, err := o.lines()
	if err != nil {
		return err
	}
	target, err := o.target(env)
	if err != nil {
		return err
	}
	dir, remove, err := store.TempDir("tally-try-")
	if err != nil {
		return err
	}
	defer remove()
	if err := ceremony.WriteFiles(filepath.Join(dir, bench.Dir, "try"), bench.Passing("try", lines)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the temporary folder: %w", err)
	}
	defer root.Close()
	v, err := bench.Verify(root, "try", bench.Options{Now: env.Now()})
	if err != nil {
		return err
	}
	a := &tryAnswer{Level: string(bench.Scratch), Cases: []triedCase{}}
	cfg := harness.Config{Bench: v, Target: target, Now: env.Now, Version: thisBuild().Version, Unsafe: o.unsafe, Image: findRubricImage}
	err = harness.Rehearse(ctx, cfg, func(h harness.Rehearsal) error {
		c := triedOf(h)
		a.Cases = append(a.Cases, c)
		a.Total++
		if c.Outcome == string(evidence.Passed) {
			a.Passed++
		}
		if !env.JSON && !env.Quiet {
			c.print(env.Stdout)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.neverStarted() && !o.unsafe {
		env.Note("the sandbox shows the program /usr and the current folder; give it more with --mount FOLDER, or none of the isolation with --unsafe-agent")
	}
	if err := env.Answer(a, a.print); err != nil || a.Passed == a.Total {
		return err
	}
	return refusal.Newf(refusal.GateNotMet, "%d of %d cases did not pass", a.Total-a.Passed, a.Total)
}

// lines makes a dataset of what the flags or the file say.
func (o *tryOptions) lines() ([]byte, error) {
	var f tryFile
	if o.file != "" {
		data, err := store.ReadFile(store.OS{}, o.file, 4<<20)
		if err != nil {
			return nil, err
		}
		if _, err := strictyaml.Decode(o.file, data, strictyaml.Rules{PlainDigits: true, Hint: `"tally help try" shows an example`}, &f); err != nil {
			return nil, err
		}
	}
	for _, c := range o.cases {
		input, expect, ok := strings.Cut(c, "=")
		if !ok || input == "" || expect == "" {
			return nil, refusal.Newf(refusal.Usage, "--case %q: expected INPUT=EXPECTED", c)
		}
		f.Cases = append(f.Cases, tryCase{Input: input, Expect: expect})
	}
	if len(f.Cases) == 0 {
		return nil, refusal.Newf(refusal.Usage, "there are no cases").
			WithHint(`give some: tally try --case 'ping=ping' -- cat, or -f FILE`)
	}
	var out []byte
	for i, c := range f.Cases {
		line, err := c.line(i)
		if err != nil {
			return nil, fmt.Errorf("case %d: %w", i+1, err)
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// line writes a case as a line of a dataset.
func (c *tryCase) line(i int) ([]byte, error) {
	id := c.ID
	if id == "" {
		id = fmt.Sprintf("case-%d", i+1)
	}
	doc := map[string]any{"id": id, "input": c.Input}
	given := 0
	for _, g := range []struct {
		value string
		grade map[string]any
	}{
		{c.Expect, map[string]any{"kind": grade.Normalised, "expected": c.Expect}},
		{c.Contains, map[string]any{"kind": grade.Contains, "expected": []string{c.Contains}, "normalised": true}},
		{c.Matches, map[string]any{"kind": grade.Regex, "pattern": c.Matches, "match": "anywhere"}},
	} {
		if g.value != "" {
			doc["grade"] = g.grade
			given++
		}
	}
	if len(c.Grade) > 0 {
		doc["grade"] = c.Grade
		given++
	}
	if given != 1 {
		return nil, refusal.Newf(refusal.Malformed, "expected exactly one of expect, contains, matches and grade")
	}
	if len(c.Model) > 0 {
		doc["model"] = c.Model
	}
	if len(c.Files) > 0 {
		doc["files"] = c.Files
	}
	return canon.Marshal(doc)
}

// target makes a target of the command line. The program may read the current
// folder, where its files usually are, and what it is started from.
func (o *tryOptions) target(env *Env) (*agent.Target, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "finding the current folder: %w", err)
	}
	command := append([]string{}, o.command...)
	for i, arg := range command {
		if path := filepath.Join(here, arg); !filepath.IsAbs(arg) && fileExists(path) && (i > 0 || strings.Contains(arg, "/")) {
			command[i] = path
		}
	}
	c := agent.Command{Mounts: []agent.CommandMount{{Host: here}}}
	for _, m := range o.mounts {
		abs, err := filepath.Abs(m)
		if err != nil {
			return nil, refusal.Newf(refusal.Usage, "--mount %s: %w", m, err)
		}
		c.Mounts = append(c.Mounts, agent.CommandMount{Host: abs})
	}
	command[0] = o.program(env, command[0], c.Mounts)
	c.Command = command
	return agent.OfCommand("try", c)
}

// program finds the program as a shell would. One that the sandbox does not
// show, such as the shim of a version manager in a home folder, is left to the
// sandbox's own search path if /usr has one of that name.
func (o *tryOptions) program(env *Env, name string, mounts []agent.CommandMount) string {
	found, err := exec.LookPath(name)
	if err != nil {
		return name
	}
	if found, err = filepath.Abs(found); err != nil {
		return name
	}
	shown := []string{"/usr", "/bin", "/sbin"}
	for _, m := range mounts {
		shown = append(shown, m.Host)
	}
	if o.unsafe || strings.Contains(name, "/") || slices.ContainsFunc(shown, func(dir string) bool { return strings.HasPrefix(found, dir+"/") }) {
		return found
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin"} {
		if inside := filepath.Join(dir, name); fileExists(inside) {
			env.Note("the program is %s: the sandbox does not show %s", inside, found)
			return inside
		}
	}
	return found
}

// triedOf says in a few words what came of a case.
func triedOf(h harness.Rehearsal) triedCase {
	c := triedCase{Case: h.Case.ID, Input: h.Case.Scenario.Turns[0].Text, Outcome: string(h.Record.Outcome), Answer: h.Answer, Why: h.Record.Reason,
		Seconds: h.Record.FinishedAt.Go().Sub(h.Record.StartedAt.Go()).Seconds(), Agent: h.Record.AgentIsolation}
	if h.Files.Grading == nil || h.Record.Outcome == evidence.Passed {
		return c
	}
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if json.Unmarshal(h.Pieces[*h.Files.Grading], &doc) == nil {
		for _, d := range doc.Checks {
			if d.Outcome == grade.Passed {
				continue
			}
			c.Why = d.Why
			if d.Expected != nil {
				c.Expected = d.Expected.Head
			}
		}
	}
	return c
}

func (c *triedCase) print(out io.Writer) {
	if c.Outcome == string(evidence.Passed) {
		fmt.Fprintf(out, "ok    %-12s %s -> %s\n", plain.Line(c.Case), plain.Line(short(c.Input)), plain.Line(short(c.Answer)))
		return
	}
	fmt.Fprintf(out, "FAIL  %-12s %s -> %s\n", plain.Line(c.Case), plain.Line(short(c.Input)), plain.Line(short(c.Answer)))
	if c.Why != "" {
		fmt.Fprintf(out, "      %s\n", plain.Line(c.Why))
	}
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

func (a *tryAnswer) neverStarted() bool {
	return slices.ContainsFunc(a.Cases, func(c triedCase) bool { return strings.Contains(c.Why, "could not be started") })
}

func (a *tryAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "%d of %d passed. SCRATCH: nothing was signed or recorded.\n", a.Passed, a.Total)
	if len(a.Cases) > 0 && a.Cases[0].Agent == string(sandbox.Namespace) {
		fmt.Fprintln(out, "The program ran in the weaker class namespace: gvisor does not start here.")
	}
	fmt.Fprintln(out, `Next: "tally init" makes a workspace whose results can be proved`)
}
