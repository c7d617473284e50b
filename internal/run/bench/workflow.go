package bench

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// Workflow is a GitHub workflow with jobs 1 and 2 of the fence, and WorkflowRan
// one with job 3, which belongs into a file of its own.
var (
	//go:embed workflows/bench.yml
	Workflow string
	//go:embed workflows/bench-ran.yml
	WorkflowRan string
)

// The one shape in which a CI file calls the fence. A reader of shell, or of
// every setting that a CI system has, would always miss one; so nothing is read
// but this, and everything else is refused:
//
//   - the file is YAML, and runs for every pull request or every push;
//   - a job of its own has a step of its own;
//   - the step's command is "tally bench verify --all" and nothing else;
//   - the job and the step have only settings that cannot switch them off, go
//     on after a refusal, or read the command in another way.
const fenceHint = `write the job as "tally bench fence --workflow" prints it: a step of its own whose command is tally bench verify --all`

// fenceRun is the command. A trust root may be a digest or one variable.
var fenceRun = lazily(`^(?:[A-Za-z0-9_.-]*/)*tally bench verify --all(?: --json| --quiet| --trust-root (?:sha256:[0-9a-f]{64}|"?\$\{?[A-Z_][A-Z0-9_]*\}?"?|"?\$\{\{ ?vars\.[A-Za-z_][A-Za-z0-9_]* ?\}\}"?))*$`)

// What a GitHub workflow, its job and the step may say besides. Each was chosen
// because it cannot keep the step from running or its answer from counting.
var (
	workflowKeys = []string{"name", "on", "permissions", "jobs"}
	jobKeys      = []string{"name", "runs-on", "timeout-minutes", "permissions", "steps"}
	stepKeys     = []string{"name", "run"}
	gitlabKeys   = []string{"image", "script", "stage", "tags", "timeout"}
)

var workflowRules = strictyaml.Rules{
	Hint:      fenceHint,
	MaxBytes:  maxCIBytes,
	PlainKeys: []string{"on"},
}

// A workflowFile is a CI file that is read for the fence.
type workflowFile struct {
	name string
	doc  *strictyaml.Document
}

func (f workflowFile) refuse(line int, format string, args ...any) error {
	return refusal.Newf(refusal.FenceMissing, "%s:%d: %s", f.name, line, fmt.Sprintf(format, args...)).WithHint(fenceHint)
}

// CheckCalls refuses a CI file that does not call "tally bench verify --all" in
// the one shape that cannot ignore its answer. What else the file does is for
// the two people who pin it: an earlier step may still put another program in
// the place of tally.
func CheckCalls(name string, data []byte) error {
	doc, err := strictyaml.Parse(name, data, workflowRules)
	if err != nil {
		return refusal.Newf(refusal.FenceMissing, "no CI file that can be read: %w", err).WithHint(fenceHint)
	}
	f := workflowFile{name, doc}
	if doc.Top.Kind != strictyaml.Mapping {
		return f.refuse(1, "found %s, expected a workflow", doc.Top.Describe())
	}
	if jobs := doc.Top.Member("jobs"); jobs != nil {
		return f.checkWorkflow(jobs)
	}
	return f.checkGitLab()
}

// checkWorkflow reads a workflow of GitHub's form.
func (f workflowFile) checkWorkflow(jobs *strictyaml.Member) error {
	if err := f.only(f.doc.Top, workflowKeys, "a workflow with the fence"); err != nil {
		return err
	}
	if err := f.checkTriggers(); err != nil {
		return err
	}
	for _, job := range jobs.Value.Members {
		steps := job.Value.Member("steps")
		if steps == nil {
			continue
		}
		for i, step := range steps.Value.Items {
			run := step.Member("run")
			if run == nil || !fenceRun().MatchString(oneLine(run.Value)) {
				continue
			}
			if err := f.only(job.Value, jobKeys, "the job "+job.Key); err != nil {
				return err
			}
			return f.checkSteps(steps.Value.Items[:i+1])
		}
	}
	return f.refuse(jobs.Line, "no step is the command tally bench verify --all")
}

// checkSteps reads the fence's step, the last, and those before it, which must
// not be able to be skipped or to fail unnoticed either.
func (f workflowFile) checkSteps(steps []*strictyaml.Node) error {
	for _, step := range steps {
		for _, m := range step.Members {
			switch m.Key {
			case "if", "continue-on-error", "shell", "working-directory":
				return f.refuse(m.Line, "found %s: in a step up to the fence, which may change whether or where the fence runs", m.Key)
			}
		}
	}
	return f.only(steps[len(steps)-1], stepKeys, "the step of the fence")
}

// checkTriggers asks that the workflow runs for every pull request or push: a
// filter would leave out the ones that it names.
func (f workflowFile) checkTriggers() error {
	on := f.doc.Top.Member("on")
	if on == nil {
		return f.refuse(1, "nothing says when it runs; expected on: with pull_request or push")
	}
	always := func(name string) bool { return name == "pull_request" || name == "push" }
	switch v := on.Value; v.Kind {
	case strictyaml.Text:
		if always(v.Text) {
			return nil
		}
	case strictyaml.List:
		for _, item := range v.Items {
			if item.Kind == strictyaml.Text && always(item.Text) {
				return nil
			}
		}
	case strictyaml.Mapping:
		for _, m := range v.Members {
			if always(m.Key) && m.Value.Kind == strictyaml.Null {
				return nil
			}
		}
	}
	return f.refuse(on.Line, "it does not run for every pull request or every push; expected pull_request or push without a filter")
}

// checkGitLab reads a pipeline of GitLab's form: its jobs are members of the
// file.
func (f workflowFile) checkGitLab() error {
	for _, job := range f.doc.Top.Members {
		script := job.Value.Member("script")
		if script == nil {
			if !slices.Contains([]string{"stages", "image"}, job.Key) {
				return f.refuse(job.Line, "found %s: which may change what the fence's job does", job.Key)
			}
			continue
		}
		commands := script.Value.Items
		if script.Value.Kind == strictyaml.Text {
			commands = []*strictyaml.Node{script.Value}
		}
		// Lines of a script share a shell, so the fence is its first.
		if len(commands) > 0 && fenceRun().MatchString(oneLine(commands[0])) {
			return f.only(job.Value, gitlabKeys, "the job "+job.Key)
		}
	}
	return f.refuse(1, "no job begins with the command tally bench verify --all")
}

// only refuses settings that are not known to be harmless.
func (f workflowFile) only(n *strictyaml.Node, known []string, what string) error {
	for _, m := range n.Members {
		if !slices.Contains(known, m.Key) {
			return f.refuse(m.Line, "%s has the setting %s:, expected only %s", what, m.Key, strings.Join(known, ", "))
		}
	}
	return nil
}

// oneLine is a command as one line; "" if it is not text.
func oneLine(n *strictyaml.Node) string {
	if n.Kind != strictyaml.Text {
		return ""
	}
	return strings.TrimSuffix(n.Text, "\n")
}
