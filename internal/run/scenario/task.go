package scenario

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/tools"
)

// The folders of a case.
const (
	inputDir    = "input/"
	expectedDir = "expected/"
	testsDir    = "tests/"
	worldDir    = "world/"
	graderDir   = "grader/"
)

// A Task is everything of one case that a run needs, however it was written.
type Task struct {
	ID       string
	Digest   digest.Content
	Tags     []string
	HeldOut  bool
	Scenario Scenario

	// Files are what the working folder holds at the start.
	Files []digest.File

	// Tests are hidden: they are shown to the test alone, while it runs.
	Tests []digest.File

	// World is shown to the case's world alone.
	World []digest.File

	// Grader is shown to the programs alone that grade the case.
	Grader []digest.File
	tree   func(digest.Content) ([]digest.File, error) // nil of a line of a dataset

	// after is the tree of the recorded change, and named the commit that the
	// provenance names, of a case that says what repository it is of.
	after []digest.File
	named string

	// Expected is a JSON object or nothing; ExpectedFiles are the documents in
	// expected/. Only graders see them.
	Expected      canon.RawMessage
	ExpectedFiles map[string][]byte

	// Grading says how the case is graded, as JSON. Nothing means the class's
	// rubric.
	Grading canon.RawMessage
	written written // where that is said

	// Metadata is what a rubric is told about the case.
	Metadata canon.RawMessage
	Rubric   bench.RubricLimits

	Cassette   *bench.Cassette // nil without one
	Provenance bench.CassetteProvenance
}

// A written is the text in which a case says how it is graded: grading.yaml, or
// its line of the dataset.
type written struct {
	yaml []byte
	line int // of the dataset, from 1; 0 for grading.yaml
	json []byte
}

// RefuseGrading says that something is wrong with how the case is graded, and
// where that stands: member is the path to it.
func (c *Task) RefuseGrading(member []string, err error) error {
	if c.written.line == 0 {
		doc, parseErr := strictyaml.Parse(path.Join(c.ID, bench.GradingFile), c.written.yaml, gradingRules)
		if parseErr != nil {
			return parseErr
		}
		return doc.Refuse(strictyaml.At(member, err))
	}
	return refuseLine(c.written.line, c.written.json, strictyaml.At(member, err), gradingRules.Hint)
}

// OfDataset reports whether the case is a line of a dataset.
func (c *Task) OfDataset() bool { return c.written.line > 0 }

var gradingRules = strictyaml.Rules{PlainDigits: true, Hint: "docs/formats/grading.md has the format"}

// A Set is the cases of a verified bench: those in folders, then the lines of
// the dataset. A case is taken apart when it is asked for, so a large dataset
// takes little more memory than its bytes.
type Set struct {
	bench   *bench.Verified
	target  string
	folders []bench.VerifiedCase
	lines   []bench.DatasetLine
}

// A Ref is what the plan of an attempt says about a case.
type Ref struct {
	ID       string
	Digest   digest.Content
	Cassette *digest.Content
}

// Of returns the cases of a bench, with what a target replays of them.
func Of(v *bench.Verified, target string) *Set {
	s := &Set{bench: v, target: target, folders: v.Cases()}
	if d := v.Dataset(); d != nil {
		s.lines = d.Lines
	}
	return s
}

// Len is the number of cases.
func (s *Set) Len() int { return len(s.folders) + len(s.lines) }

// Ref returns what a plan says about case i.
func (s *Set) Ref(i int) Ref {
	if i < len(s.folders) {
		c := s.folders[i]
		ref := Ref{ID: c.Case().CaseID, Digest: c.Digest()}
		if cassette, _ := c.CassetteFor(s.target); cassette != nil {
			ref.Cassette = &cassette.Digest
		}
		return ref
	}
	line := s.lines[i-len(s.folders)]
	ref := Ref{ID: line.ID, Digest: digest.ContentOf(line.JSON)}
	if cassette, _ := s.bench.LineCassette(s.target, line.ID); cassette != nil {
		ref.Cassette = &cassette.Digest
	}
	return ref
}

// Case takes case i apart.
func (s *Set) Case(i int) (*Task, error) {
	if i < len(s.folders) {
		return fromFolder(s.folders[i], s.target)
	}
	n := i - len(s.folders)
	c, err := fromLine(n+1, s.lines[n].JSON)
	if err == nil {
		c.Cassette, c.Provenance = s.bench.LineCassette(s.target, c.ID)
	}
	return c, err
}

func fromFolder(v bench.VerifiedCase, target string) (*Task, error) {
	about := v.Case()
	c := &Task{ID: about.CaseID, Digest: v.Digest(), Tags: about.Tags, HeldOut: about.IsHeldOut(), Expected: about.Expected,
		Rubric: about.Limits()}
	c.tree = v.Tree
	c.Cassette, c.Provenance = v.CassetteFor(target)
	var said, grading, script []byte
	for _, f := range v.Files() {
		switch name := f.Path; {
		case name == bench.ScenarioFile:
			said = f.Data
		case name == bench.GradingFile:
			grading = f.Data
		case name == UserFile:
			script = f.Data
		case strings.HasPrefix(name, inputDir):
			c.Files = append(c.Files, digest.File{Path: name[len(inputDir):], Data: f.Data})
		case strings.HasPrefix(name, testsDir):
			c.Tests = append(c.Tests, digest.File{Path: name[len(testsDir):], Data: f.Data})
		case strings.HasPrefix(name, worldDir):
			c.World = append(c.World, digest.File{Path: name[len(worldDir):], Data: f.Data})
		case strings.HasPrefix(name, graderDir):
			c.Grader = append(c.Grader, digest.File{Path: name[len(graderDir):], Data: f.Data})
		case strings.HasPrefix(name, expectedDir):
			if c.ExpectedFiles == nil {
				c.ExpectedFiles = map[string][]byte{}
			}
			c.ExpectedFiles[name[len(expectedDir):]] = f.Data
		}
	}
	if err := c.readScenario(said, script); err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	if c.Scenario.Tree != nil {
		tree, err := v.Tree(*c.Scenario.Tree)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		c.Files = append(tree, c.Files...)
		if _, err := (&digest.Tree{Files: c.Files}).Digest(); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "case %s: its tree and its input/ together: %w", c.ID, err)
		}
	}
	if world := c.Scenario.World; world != nil && world.Tree != nil {
		tree, err := v.Tree(*world.Tree)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		c.World = append(tree, c.World...)
	}
	if err := c.checkWorld(); err != nil {
		return nil, fmt.Errorf("case %s: %w", c.ID, err)
	}
	if repo := c.Scenario.Repository; repo != nil {
		var err error
		if c.after, err = v.Tree(repo.After); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		if ref := about.Provenance.SourceRef; ref.Type == "commit" {
			c.named = ref.Value
		}
	}
	if grading != nil {
		doc, err := strictyaml.Parse(path.Join(c.ID, bench.GradingFile), grading, gradingRules)
		if err != nil {
			return nil, err
		}
		c.Grading, c.written = doc.JSON, written{yaml: grading}
	}
	return c, c.describe(string(about.Disposition), string(about.Difficulty), about.Title, about.Metadata)
}

// readScenario reads scenario.yaml, or makes one turn of the prompt.
func (c *Task) readScenario(data, script []byte) error {
	if data == nil {
		prompt, err := c.prompt()
		if err != nil {
			return err
		}
		c.Scenario = Scenario{Version: 1, Turns: []Turn{{Text: prompt}}}
		return nil
	}
	doc, err := strictyaml.Decode(path.Join(c.ID, bench.ScenarioFile), data,
		strictyaml.Rules{PlainDigits: true, MaxBytes: 4 << 20, MaxLines: 100_000, Hint: "docs/formats/scenario.md has the format"}, &c.Scenario)
	if err != nil {
		return err
	}
	switch u := c.Scenario.User; {
	case script != nil && u == nil:
		return doc.Refuse(field("user", "it is missing, and there is a %s: say what the user wants", UserFile))
	case script != nil && u.Script != "":
		return doc.Refuse(strictyaml.At([]string{"user", "script"}, fmt.Errorf("there is a %s too, expected one of the two", UserFile)))
	case script != nil:
		u.Script = string(script)
	}
	if err := c.Scenario.Validate(); err != nil {
		return doc.Refuse(err)
	}
	return nil
}

// prompt is what the user says in a case without a scenario.
func (c *Task) prompt() (string, error) {
	for _, f := range c.Files {
		if f.Path == "prompt.txt" || f.Path == "prompt.md" || len(c.Files) == 1 {
			text := strings.TrimRight(string(f.Data), "\n")
			if text == "" {
				break
			}
			return text, nil
		}
	}
	return "", refusal.Newf(refusal.BenchIncomplete, "there is no %s and no input/prompt.txt, so the agent has no instructions", bench.ScenarioFile).
		WithHint("add input/prompt.txt, or a scenario; docs/formats/scenario.md has the format")
}

// describe writes what a rubric is told about the case.
func (c *Task) describe(disposition, difficulty, title string, free canon.RawMessage) error {
	var err error
	c.Metadata, err = canon.Marshal(struct {
		CaseID      string           `json:"case_id"`
		Difficulty  string           `json:"difficulty,omitempty"`
		Disposition string           `json:"disposition,omitempty"`
		Metadata    canon.RawMessage `json:"metadata,omitempty"`
		Tags        []string         `json:"tags"`
		Title       string           `json:"title,omitempty"`
	}{c.ID, difficulty, disposition, free, c.Tags, title})
	return err
}

// A line is one line of dataset.jsonl.
type line struct {
	ID        string             `json:"id"`
	Title     string             `json:"title,omitempty"`
	Tags      []string           `json:"tags,omitempty"`
	HeldOut   bool               `json:"held_out,omitempty"`
	Metadata  canon.RawMessage   `json:"metadata,omitempty"` // an object of anything, for people and rubrics
	Input     string             `json:"input,omitempty"`    // one turn, in place of turns
	Turns     []Turn             `json:"turns,omitempty"`
	Approvals []Approval         `json:"approvals,omitempty"`
	Start     string             `json:"start,omitempty"`
	Memory    []Memory           `json:"memory,omitempty"`
	Tools     []tools.Definition `json:"tools,omitempty"`
	OwnTools  []string           `json:"agent_tools,omitempty"`
	Model     []Reply            `json:"model,omitempty"`
	Test      *Test              `json:"test,omitempty"`
	User      *User              `json:"user,omitempty"`
	Files     map[string]string  `json:"files,omitempty"`
	Tests     map[string]string  `json:"tests,omitempty"`
	World     *World             `json:"world,omitempty"`
	Worlds    map[string]string  `json:"world_files,omitempty"`
	Graders   map[string]string  `json:"grader_files,omitempty"`

	Expected canon.RawMessage `json:"expected,omitempty"`
	Extract  canon.RawMessage `json:"extract,omitempty"`
	Grade    canon.RawMessage `json:"grade,omitempty"`
	Checks   canon.RawMessage `json:"checks,omitempty"`
	Expect   canon.RawMessage `json:"expect,omitempty"`
	Context  canon.RawMessage `json:"context,omitempty"`
}

func fromLine(n int, text []byte) (*Task, error) {
	var l line
	if err := canon.Unmarshal(text, &l); err != nil {
		return nil, refuseLine(n, text, err, lineHint)
	}
	c := &Task{ID: l.ID, Digest: digest.ContentOf(text), Tags: l.Tags, HeldOut: l.HeldOut, Expected: l.Expected, written: written{line: n, json: text},
		Rubric: bench.RubricLimits{WallClockSeconds: bench.DefaultRubricSeconds, MemoryBytes: bench.DefaultRubricMemoryBytes},
		Scenario: Scenario{Version: 1, Turns: l.Turns, Approvals: l.Approvals, Start: l.Start, Memory: l.Memory, Tools: l.Tools, AgentTools: l.OwnTools,
			Model: l.Model, Test: l.Test, User: l.User, World: l.World}}
	if l.Input != "" {
		c.Scenario.Turns = []Turn{{Text: l.Input}}
	}
	c.Files, c.Tests, c.World = filesOf(l.Files), filesOf(l.Tests), filesOf(l.Worlds)
	c.Grader = filesOf(l.Graders)
	if err := l.validate(c); err != nil {
		return nil, refuseLine(n, text, err, lineHint)
	}
	var err error
	if c.Grading, err = l.grading(); err != nil {
		return nil, err
	}
	return c, c.describe("", "", l.Title, l.Metadata)
}

// filesOf sorts files by path.
func filesOf(texts map[string]string) []digest.File {
	var files []digest.File
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		files = append(files, digest.File{Path: name, Data: []byte(texts[name])})
	}
	return files
}

// lineHint is what an author with a mistake in a line should do.
const lineHint = "docs/formats/scenario.md has the format of a line"

// refuseLine says where in the dataset a mistake is: at the byte at which the
// text could not be read, or at the member that the error names.
func refuseLine(n int, text []byte, err error, hint string) error {
	at, ok := canon.Offset(err)
	if !ok {
		at = canon.OffsetOf(text, strictyaml.PathOf(err))
	}
	if canon.IsUnknownName(err) {
		hint = refusal.Of(err).Hint + "; " + hint
	}
	return refusal.Newf(refusal.Malformed, "%s: %w", bench.DatasetPlace(n, text, at), err).WithHint("%s", hint)
}

// validate checks what the types do not say, of the line and of the case that
// was made of it.
func (l *line) validate(c *Task) error {
	if (l.Input == "") == (len(l.Turns) == 0) {
		return errors.New(`expected "input" or "turns", and not both`)
	}
	if l.Metadata != nil && l.Metadata[0] != '{' {
		return field("metadata", "expected an object")
	}
	for i, tag := range l.Tags {
		if err := bench.CheckID(tag); err != nil {
			return fieldAt("tags", i, err)
		}
	}
	if err := c.Scenario.Validate(); err != nil {
		return err
	}
	if len(c.Files) > 0 {
		if _, err := (&digest.Tree{Files: c.Files}).Digest(); err != nil {
			return field("files", "%w", err)
		}
	}
	if len(c.Tests) > 0 {
		if _, err := (&digest.Tree{Files: c.Tests}).Digest(); err != nil {
			return field("tests", "%w", err)
		}
	}
	if l.World != nil && l.World.Tree != nil {
		return strictyaml.At([]string{"world", "tree"}, errors.New("a line of a dataset has no trees; its world's files stand in world_files"))
	}
	return c.checkWorld()
}

// grading gathers the members of a line that say how it is graded, as the
// document that grading.yaml would be.
func (l *line) grading() (canon.RawMessage, error) {
	parts := struct {
		Checks  canon.RawMessage `json:"checks,omitempty"`
		Context canon.RawMessage `json:"context,omitempty"`
		Expect  canon.RawMessage `json:"expect,omitempty"`
		Extract canon.RawMessage `json:"extract,omitempty"`
		Grade   canon.RawMessage `json:"grade,omitempty"`
	}{l.Checks, l.Context, l.Expect, l.Extract, l.Grade}
	if len(l.Checks)+len(l.Context)+len(l.Expect)+len(l.Extract)+len(l.Grade) == 0 {
		return nil, nil
	}
	return canon.Marshal(parts)
}
