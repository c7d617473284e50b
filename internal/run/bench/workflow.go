package bench

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// The files that run the fence. Workflow is a GitHub workflow with jobs 1 and 2,
// WorkflowRan one with job 3, which belongs into a file of its own, and
// GitLabPipeline has jobs 1 and 2 for GitLab.
var (
	//go:embed workflows/bench.yml
	Workflow string
	//go:embed workflows/bench-ran.yml
	WorkflowRan string
	//go:embed workflows/fence.gitlab-ci.yml
	GitLabPipeline string
)

// Where the files belong.
const (
	WorkflowFile    = ".github/workflows/bench.yml"
	WorkflowRanFile = ".github/workflows/bench-ran.yml"
	GitLabFile      = ".gitlab-ci.yml"
)

const fenceHint = `write the file as "tally bench fence --workflow" prints it, put other jobs into another file, and pin it with "tally bench digest CLASS --ci FILE"`

// A fenceShape is the one form in which a CI file runs the fence. A reader of
// shell, or of every setting that a CI system has, would always miss one; so the
// whole file is compared with a template, value by value, and what the template
// does not have is refused: another job could leave a marker of its own, an
// earlier step could put another program in the place of tally.
type fenceShape struct {
	template func() (*strictyaml.Document, error)
	file     string // as the template names itself
	// free are the places where a project writes something of its own, by a
	// pattern of their path: what is expected there, "" if the value is that.
	free map[string]func(*strictyaml.Node) string
	// optional are the members that may be left out, by a pattern of their path.
	optional []string
}

var githubShape = fenceShape{
	template: parsedTemplate(&Workflow),
	file:     WorkflowFile,
	free: map[string]func(*strictyaml.Node) string{
		"on":                     expectTriggers,
		"jobs/*/runs-on":         expectRunner,
		"jobs/*/timeout-minutes": expectMinutes,
		"jobs/*/steps/0/uses":    expectCheckout,
	},
	optional: []string{"jobs/fence-unchanged", "jobs/*/timeout-minutes"},
}

var gitlabShape = fenceShape{
	template: parsedTemplate(&GitLabPipeline),
	file:     GitLabFile,
	free:     map[string]func(*strictyaml.Node) string{"*/timeout": expectDuration},
	optional: []string{"fence-unchanged", "*/timeout"},
}

func parsedTemplate(text *string) func() (*strictyaml.Document, error) {
	return sync.OnceValues(func() (*strictyaml.Document, error) {
		return strictyaml.Parse("the template", []byte(*text), workflowRules)
	})
}

// Where a CI system looks for its files: one that lies elsewhere is never run.
var (
	githubFile = lazily(`^\.github/workflows/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.ya?ml$`)
	gitlabFile = lazily(`^([A-Za-z0-9_.-]+/)*[A-Za-z0-9_.-]*\.gitlab-ci\.yml$`)
)

// blanks are the parts of a template's text that each project fills in. None can
// hold a character that a shell or a CI system reads as more than itself. The
// digest decides which program runs, so the address may be any.
var blanks = []struct{ text, pattern string }{
	{"https://example.com/tally_VERSION_linux_amd64.tar.gz", `https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9_.~+%-]+)+`},
	{"registry.example.com/tally@sha256:", `[a-z0-9][a-z0-9_.:/-]*@sha256:`},
	{unfilledDigest, `[0-9a-f]{64}`},
	{"${{ vars.TALLY_TRUST_ROOT }}", `(\$\{\{ vars\.TALLY_TRUST_ROOT \}\}|sha256:[0-9a-f]{64})`},
	{`"$TALLY_TRUST_ROOT"`, `("\$TALLY_TRUST_ROOT"|sha256:[0-9a-f]{64})`},
}

// unfilledDigest stands in the templates for the digest of the program. No file
// has it, so a job that still does fails.
var unfilledDigest = strings.Repeat("0", 64)

// LacksProgram reports whether a CI file has the template's digest still in place
// of that of a program.
func LacksProgram(data []byte) bool { return strings.Contains(string(data), unfilledDigest) }

var workflowRules = strictyaml.Rules{
	Hint:        fenceHint,
	MaxBytes:    maxCIBytes,
	PlainKeys:   []string{"on"},
	PlainDigits: true,
}

// CheckCalls refuses a CI file that is not the fence, in its one shape, or that
// lies where no CI system looks for it.
func CheckCalls(name string, data []byte) error {
	shape := gitlabShape
	switch {
	case githubFile().MatchString(name):
		shape = githubShape
	case !gitlabFile().MatchString(name):
		return refusal.Newf(refusal.FenceMissing, "%s: no CI system runs a file of this name; expected .github/workflows/NAME.yml, %s or NAME%s", name, GitLabFile, GitLabFile).
			WithHint(fenceHint)
	}
	doc, err := strictyaml.Parse(name, data, workflowRules)
	if err != nil {
		return refusal.Newf(refusal.FenceMissing, "the CI file cannot be read: %w", err).WithHint(fenceHint)
	}
	want, err := shape.template()
	if err != nil {
		return err
	}
	return workflowFile{name, shape}.compare("", doc.Top.Line, doc.Top, want.Top)
}

// A workflowFile is a CI file that is compared with a shape.
type workflowFile struct {
	name  string
	shape fenceShape
}

// compare finds the first value that is not as the template has it. Where is its
// path, "" for the whole file.
func (f workflowFile) compare(where string, line int, found, want *strictyaml.Node) error {
	for pattern, expect := range f.shape.free {
		if matches(pattern, where) {
			if expected := expect(found); expected != "" {
				return f.refuse(line, where, found, expected)
			}
			return nil
		}
	}
	if found.Kind != want.Kind {
		return f.refuse(line, where, found, want.Describe())
	}
	switch want.Kind {
	case strictyaml.Mapping:
		return f.compareMembers(where, line, found, want)
	case strictyaml.List:
		return f.compareItems(where, line, found, want)
	case strictyaml.Text:
		return f.compareText(where, line, found, want)
	}
	if found.Text != want.Text {
		return f.refuse(line, where, found, want.Describe())
	}
	return nil
}

func (f workflowFile) compareMembers(where string, line int, found, want *strictyaml.Node) error {
	var known []string
	for _, m := range want.Members {
		known = append(known, m.Key)
	}
	for _, m := range found.Members {
		w := want.Member(m.Key)
		if w == nil {
			return f.refusef(m.Line, where, "found the setting %.80q, expected only %s", m.Key, strings.Join(known, ", "))
		}
		if err := f.compare(path.Join(where, m.Key), m.Line, m.Value, w.Value); err != nil {
			return err
		}
	}
	for _, key := range known {
		optional := slices.ContainsFunc(f.shape.optional, func(pattern string) bool { return matches(pattern, path.Join(where, key)) })
		if found.Member(key) == nil && !optional {
			return f.refusef(line, where, "found no setting %q, expected %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

func (f workflowFile) compareItems(where string, line int, found, want *strictyaml.Node) error {
	for i, item := range found.Items {
		if i >= len(want.Items) {
			return f.refusef(item.Line, where, "found item %d, expected %d and no more", i+1, len(want.Items))
		}
		if err := f.compare(path.Join(where, strconv.Itoa(i)), item.Line, item, want.Items[i]); err != nil {
			return err
		}
	}
	if len(found.Items) < len(want.Items) {
		return f.refusef(line, where, "found %d items, expected %d", len(found.Items), len(want.Items))
	}
	return nil
}

// compareText compares line by line, so that a refusal names the line of a script.
func (f workflowFile) compareText(where string, line int, found, want *strictyaml.Node) error {
	// Job 2 names the file that it is in.
	text := strings.ReplaceAll(want.Text, "--ci "+f.shape.file+" ", "--ci "+f.name+" ")
	lines, wanted := strings.Split(found.Text, "\n"), strings.Split(text, "\n")
	for i, text := range lines {
		if i >= len(wanted) {
			return f.refusef(line, where, "found %.200q after the last line, expected nothing more", text)
		}
		if !filledIn(wanted[i], text) {
			return f.refusef(line, where, "found %.200q, expected %q", text, wanted[i])
		}
	}
	if len(lines) < len(wanted) {
		return f.refusef(line, where, "found the end of the text, expected %q", wanted[len(lines)])
	}
	return nil
}

// filledIn reports whether a text is that of the template with its blanks filled.
func filledIn(template, text string) bool {
	pattern := regexp.QuoteMeta(template)
	for _, blank := range blanks {
		pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(blank.text), blank.pattern)
	}
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(text)
}

func (f workflowFile) refuse(line int, where string, found *strictyaml.Node, expected string) error {
	return f.refusef(line, where, "found %s, expected %s", found.Describe(), expected)
}

func (f workflowFile) refusef(line int, where, format string, args ...any) error {
	if where == "" {
		where = "the file"
	}
	return refusal.Newf(refusal.FenceMissing, "%s:%d: %s: %s", f.name, line, where, fmt.Sprintf(format, args...)).WithHint(fenceHint)
}

func matches(pattern, where string) bool {
	ok, err := path.Match(pattern, where)
	return ok && err == nil
}

// expectTriggers asks for every pull request: a filter would leave out the ones
// that it names, and pull_request_target looks at the base in place of the change.
func expectTriggers(n *strictyaml.Node) string {
	const expected = "pull_request, and besides it only push and merge_group, each without a filter"
	var names []string
	switch n.Kind {
	case strictyaml.Text:
		names = []string{n.Text}
	case strictyaml.List:
		for _, item := range n.Items {
			if item.Kind != strictyaml.Text {
				return expected
			}
			names = append(names, item.Text)
		}
	case strictyaml.Mapping:
		for _, m := range n.Members {
			if m.Value.Kind != strictyaml.Null {
				return expected
			}
			names = append(names, m.Key)
		}
	}
	others := slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains([]string{"pull_request", "push", "merge_group"}, name)
	})
	if others || !slices.Contains(names, "pull_request") {
		return expected
	}
	return ""
}

// expectRunner asks for one of GitHub's own machines by a label that exists: a job
// for another waits for ever, or runs where another job has been before.
func expectRunner(n *strictyaml.Node) string {
	hosted := []string{"ubuntu-24.04", "ubuntu-22.04", "ubuntu-24.04-arm", "ubuntu-22.04-arm", "ubuntu-latest"}
	if n.Kind == strictyaml.Text && slices.Contains(hosted, n.Text) {
		return ""
	}
	return "one of " + strings.Join(hosted, ", ")
}

func expectMinutes(n *strictyaml.Node) string {
	if n.Kind == strictyaml.Number && minutes().MatchString(n.Text) {
		return ""
	}
	return "a whole number from 1 to 60"
}

func expectDuration(n *strictyaml.Node) string {
	number, ok := strings.CutSuffix(n.Text, " minutes")
	if n.Kind == strictyaml.Text && ok && minutes().MatchString(number) {
		return ""
	}
	return `the text "N minutes" with N from 1 to 60`
}

var minutes = lazily(`^([1-9]|[1-5][0-9]|60)$`)

// expectCheckout asks for a commit of a release. Another commit of that name may
// be one that a stranger pushed to a fork: GitHub finds those too.
func expectCheckout(n *strictyaml.Node) string {
	releases := []string{
		"actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683", // v4.2.2
		"actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8", // v5.0.0
	}
	if n.Kind == strictyaml.Text && slices.Contains(releases, n.Text) {
		return ""
	}
	return "one of " + strings.Join(releases, ", ")
}
