package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/record/strictyaml"
)

// Example returns the files of a small real class, by path relative to its
// folder: a Starlark rubric and one case. Its tier is bronze, as that of every
// new class is.
func Example(class string, trust Trust, added, reviewed *Person, now time.Time) map[string][]byte {
	return map[string][]byte{
		RegistrationFile:                   exampleRegistration(class, trust, exampleNames),
		"rubric.star":                      []byte(exampleRubric),
		"cases/greeting/case.yaml":         NewCase("greeting", "Answer a greeting", added, reviewed, now).YAML(),
		"cases/greeting/scenario.yaml":     []byte(exampleScenario),
		"cases/greeting/input/prompt.txt":  []byte("Reply with exactly the word hello, in lower case.\n"),
		"cases/greeting/expected/note.txt": []byte("The answer is the word hello, alone.\n"),
	}
}

// ExampleDataset returns the files of a small real class in the light form: no
// rubric, and each case a line of dataset.jsonl.
func ExampleDataset(class string, trust Trust) map[string][]byte {
	registration := exampleRegistration(class, trust, "")
	if trust == Scratch {
		registration = ShortRegistration(class)
	}
	return map[string][]byte{RegistrationFile: registration, DatasetFile: []byte(exampleDataset)}
}

// FirstCases returns the files of a class for an agent that has not been tested
// yet: five questions that any agent can be asked, to be replaced by a person's
// own, and a gate that wants them all.
func FirstCases(class string) map[string][]byte {
	return map[string][]byte{DatasetFile: []byte(firstDataset), RegistrationFile: append(ShortRegistration(class), firstGate...)}
}

// Passing returns the files of a class that lives for one command: it is not
// signed, its cases are the lines of a dataset, and its limits are those of an
// operator who sits and waits.
func Passing(class string, dataset []byte) map[string][]byte {
	return map[string][]byte{DatasetFile: dataset, RegistrationFile: fmt.Appendf(nil, `version: 1
class: %s
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 120, memory_bytes: 2147483648, turns: 20, tokens: 1000000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: true}
judged_scores_count: false
`, strictyaml.Quote(class))}
}

// Published returns the registration of a class whose cases are made of published
// data: as bronze, and under a gate that every finished run meets.
func Published(class, title string, trust Trust, data DataSet) (map[string][]byte, error) {
	files, err := json.MarshalIndent(data.Files, "  ", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{RegistrationFile: fmt.Appendf(nil, `# %s. Two people sign it, with the manifest; one of them holds the
# security role.
version: 1
class: %s
title: %s
trust: %s
current_tier: bronze
# A run that ends without errors and scores every task meets this; how good it is
# says the scorecard.
gates:
  - {tag: "*", metric: solve_rate, threshold: 0}
limits:
  wall_clock_seconds: 3600
  memory_bytes: 4294967296
  turns: 20
  tokens: 5000000
  cost_microdollars: 20000000
governance: autonomous
isolation:
  classes: [gvisor, microvm]
  scope: case
  allow_weaker: false
data_set:
  name: %s
  split: %s
  revision: %s
  files: %s
judged_scores_count: false
`, title, strictyaml.Quote(class), strictyaml.Quote(title), trust, strictyaml.Quote(data.Name), strictyaml.Quote(data.Split), strictyaml.Quote(data.Revision), files)}, nil
}

// A Template is a new case before a curator fills it in.
type Template struct {
	ID, Title       string
	Disposition     Disposition
	Source          Source
	RefType, Ref    string
	Expected        string     // JSON of a mapping; none if empty
	Difficulty      Difficulty // easy if empty
	Tags            []string
	Added, Reviewed *Person
	Now             time.Time
}

// NewCase returns a case for a person to fill in, with an example of an
// expected answer.
func NewCase(id, title string, added, reviewed *Person, now time.Time) Template {
	return Template{ID: id, Title: title, Disposition: Positive, Source: Curated, RefType: "synthetic", Ref: "written by hand",
		Expected: `{"answer": "hello"}`, Added: added, Reviewed: reviewed, Now: now}
}

// Check refuses a title, a name or an expected value that no case may have.
func (t Template) Check() error {
	var c Case
	if _, err := decode(CaseFile, t.YAML(), &c); err != nil {
		return fmt.Errorf("case %s: %w", t.ID, err)
	}
	return nil
}

// YAML returns case.yaml.
func (t Template) YAML() []byte {
	at := At(t.Now)
	expected := ""
	if t.Expected != "" {
		expected = "# The rubric is given this; whole documents go into expected/.\nexpected: " + t.Expected + "\n"
	}
	var people strings.Builder
	for _, p := range []struct {
		field string
		who   *Person
	}{{"added_by", t.Added}, {"reviewed_by", t.Reviewed}} {
		if p.who != nil {
			people.WriteString("  " + strings.ReplaceAll(personText(p.field, p.who), "\n", "\n  ") + "\n")
		}
	}
	return fmt.Appendf(nil, `# One case. Two people sign it: the one who added it, a curator, and the one who
# reviewed it, a curator or a person with the security role.
schema_version: 1
case_id: %s
title: %s
disposition: %s # positive, negative or ambiguous
difficulty: %s # easy, medium or hard
%sheld_out: false # true keeps it from those who build agents
provenance:
  source: %s # curated, outcome-ledger-derived or regression-converted
  source_ref:
    type: %s # ghsa, ledger, commit or synthetic
    value: %s
  added_at: "%s"
%s  last_validated_at: "%s"
%s`, strictyaml.Quote(t.ID), strictyaml.Quote(t.Title), t.Disposition, cmp.Or(t.Difficulty, Easy), tagsLine(t.Tags), t.Source, t.RefType, strictyaml.Quote(t.Ref), at, people.String(), at, expected)
}

func tagsLine(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	quoted := make([]string, len(tags))
	for i, t := range tags {
		quoted[i] = strictyaml.Quote(t)
	}
	return "tags: [" + strings.Join(quoted, ", ") + "]\n"
}

func exampleRegistration(class string, trust Trust, names string) []byte {
	return fmt.Appendf(nil, `# What this task class is and what it takes to move up. Two people sign it, with
# the manifest; one of them holds the security role.
version: 1
class: %s
trust: %s # scratch: not signed, runs at once, never counts for promotion
# Moved by people only: edit, review, sign. No command changes it.
current_tier: %s
# Lower bounds of the 95 percent interval. Defaults, not derived from data.
thresholds:
  bronze: {lower_bound_95: 0.6, calibrated: false}
  silver: {lower_bound_95: 0.75, calibrated: false}
  gold: {lower_bound_95: 0.9, calibrated: false}
  platinum: {lower_bound_95: 0.95, calibrated: false}
minimum_cases: {bronze: 10, silver: 30, gold: 100, platinum: 300}
# What a run must reach, else "tally run" ends with exit 4. A case that errors or has
# no score fails a gate too, unless max_errors and max_unscored allow it.
gates:
  - {tag: "*", metric: solve_rate, threshold: 1}
%slimits:
  wall_clock_seconds: 300
  memory_bytes: 1073741824
  turns: 20
  tokens: 100000
  cost_microdollars: 1000000
governance: restricted # restricted, approved or autonomous
isolation:
  classes: [gvisor, microvm]
  scope: case
  allow_weaker: false
judged_scores_count: false
`, strictyaml.Quote(class), trust, Bronze, names)
}

// shortDefaults are what a scratch class has that leaves them out. Such a class
// is not signed, so they need not suit every user: every case has to pass, and
// a machine without gVisor may use a weaker sandbox, which the records say.
const shortDefaults = `version: 1
current_tier: bronze
gates:
  - {tag: "*", metric: solve_rate, threshold: 1}
limits: {wall_clock_seconds: 300, memory_bytes: 2147483648, turns: 50, tokens: 1000000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor, microvm], scope: case, allow_weaker: true}
judged_scores_count: false
`

const exampleNames = `# What a rubric may report, and how bad it is: block, warn or info.
failure_modes:
  wrong_answer: warn
  no_answer: block
# The keys that a score's breakdown may have.
breakdown: [exact]
`

// The model's words stand in the lines, so that the class runs as it is.
const exampleDataset = `{"id":"greeting","input":"Reply with exactly the word hello, in lower case.","expected":"hello","grade":{"kind":"exact"},"model":[{"text":"hello","tokens_in":14,"tokens_out":1,"cost_microdollars":3,"latency_ms":120}]}
{"id":"capital","input":"What is the capital of Norway? One word.","tags":["geography"],"expected":"Oslo","grade":{"kind":"normalised"},"model":[{"text":"Oslo.","tokens_in":12,"tokens_out":2,"cost_microdollars":3,"latency_ms":120}]}
`

const firstGate = `# What a run must reach, else "tally run" ends with exit 4: all of the cases.
gates:
  - {tag: "*", metric: solve_rate, threshold: 1}
`

const firstDataset = `{"id":"capital","input":"What is the capital of Norway? Answer with one word.","expected":"oslo","grade":{"kind":"contains","normalised":true}}
{"id":"sum","input":"What is 17 + 25? Answer with the number.","expected":"42","grade":{"kind":"contains"}}
{"id":"opposite","input":"What is the opposite of hot? Answer with one word.","expected":"cold","grade":{"kind":"contains","normalised":true}}
{"id":"repeat","input":"Repeat this word and nothing else: tallystick","expected":"tallystick","grade":{"kind":"contains","normalised":true}}
{"id":"order","input":"Which comes first in the alphabet, pear or apple? Answer with one word.","expected":"apple","grade":{"kind":"contains","normalised":true}}
`

// ExampleGrading is a grading.yaml for a new case of a class without a rubric.
const ExampleGrading = `# How this case is graded; docs/formats/grading.md has what else there is.
grade: {kind: exact, expected_pointer: /answer}
`

const exampleScenario = `# What the user says, and what the model answers when the case is run. A real
# case has a recording in place of the model's words: "tally record" makes one.
version: 1
turns:
  - text: "Reply with exactly the word hello, in lower case."
model:
  - {text: hello, tokens_in: 14, tokens_out: 1, cost_microdollars: 3, latency_ms: 120}
`

const exampleRubric = `# Scores one answer. It runs in a sandbox without network, files or clock.

def score(harness_output, expected, case_metadata):
    answer = harness_output
    if type(answer) == "dict":
        answer = answer.get("answer")
    if answer == None or answer == "":
        return result(False, ["no_answer"])
    if str(answer).strip() == expected["answer"]:
        return result(True, [])
    return result(False, ["wrong_answer"])

def result(passed, failure_modes):
    value = 1.0 if passed else 0.0
    return {
        "passed": passed,
        "score": value,
        "breakdown": {"exact": value},
        "failure_modes": failure_modes,
        "cost_usd": 0.0,
        "duration_seconds": 0.0,
    }
`

// CodeOwners is a CODEOWNERS file for a repository with benches: what the
// signatures ask for, asked for by the review too. The teams are placeholders.
const CodeOwners = `# Who must review what, as the signatures ask too. Replace the teams with yours,
# put the file where your host reads it, and require code owner review.
/bench/                         @your-org/security @your-org/eval-curators
/bench/digests.yaml*            @your-org/security
/bench/*/registration.yaml      @your-org/security
/bench/*/manifest.yaml*         @your-org/security
/bench/*/rubric*                @your-org/security
/cassettes/                     @your-org/security @your-org/eval-curators
/signers/                       @your-org/security
/tally.yaml                     @your-org/security
/audit/                         @your-org/security
# What decides whether the checks run and with which program: CI files, and scripts
# that install.
/.github/                       @your-org/security
/.gitlab/                       @your-org/security
*.gitlab-ci.yml                 @your-org/security
/.ci/                           @your-org/security
/ci/                            @your-org/security
CODEOWNERS                      @your-org/security
`

// MinedClass is the beginning of a class of coding cases from the history of a
// repository, by path: a registration with the conditions of an acceptance test of
// coding agents, which are 60 in a hundred solved, nothing forbidden done, evidence
// of every solved task.
func MinedClass(class, title string, trust Trust, isolation string) map[string][]byte {
	return codingClass(`# Tasks from the history of a git repository: the agent gets the parent's tree and
# the commit's message, and is graded by the commit's tests, which it does not see.
`, class, title, trust, isolation, 3600, 4<<30)
}

// CodingClass is the beginning of a class of coding tasks that other people wrote; an
// agent has so many seconds and bytes of memory for one.
func CodingClass(class, title string, trust Trust, isolation string, seconds int, memory int64) map[string][]byte {
	return codingClass(`# Coding tasks of other people: the agent gets a folder and what is wanted, and is
# graded by the task's tests, which it does not see.
`, class, title, trust, isolation, seconds, memory)
}

func codingClass(about, class, title string, trust Trust, isolation string, seconds int, memory int64) map[string][]byte {
	return map[string][]byte{RegistrationFile: fmt.Appendf(nil, `%sversion: 1
class: %s
title: %s
trust: %s
current_tier: bronze
gates:
  - {tag: "*", metric: solve_rate, threshold: 0.6}
  - {tag: "*", metric: policy_violations, threshold: 0}
  - {tag: "*", metric: evidence_coverage, threshold: 1}
  - {tag: "*", metric: rollback_correctness, threshold: 1}
limits: {wall_clock_seconds: %d, memory_bytes: %d, turns: 50, tokens: 5000000, cost_microdollars: 1000000, kept_bytes: 268435456}
governance: autonomous
# Every task was checked in this class of sandbox.
isolation: {classes: [%s], scope: case, allow_weaker: false}
judged_scores_count: false
`, about, strictyaml.Quote(class), strictyaml.Quote(title), trust, seconds, memory, isolation)}
}
