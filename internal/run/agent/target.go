package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/gateway"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/vantage"
)

// TargetsDir is the folder of the targets in a workspace.
const TargetsDir = "targets"

// DefaultTarget is the target of a run that names none.
const DefaultTarget = "default"

// A Kind says how a target is driven.
type Kind string

// The kinds.
const (
	KindBuiltin Kind = "builtin" // the reference agent, in this process
	KindCommand Kind = "command" // a program of any language, in a sandbox, behind the gateway
	KindHTTP    Kind = "http"    // an agent behind a URL
)

// A Target is an agent under test and how to drive it. Exactly one of the
// three is set.
type Target struct {
	Name    string
	Kind    Kind
	Digest  digest.Content // of the settings, and of the files of a command
	Builtin *Builtin
	Command *Command
	HTTP    *HTTP

	// Parameters are those of a variant, whose name has them too; none of a
	// target without any.
	Parameters []Parameter

	// Normalise names what does not count when its model calls are looked up in
	// its recordings, beside what the class names.
	Normalise []evidence.Normaliser

	// Egress are the servers that a command may ask besides the gateway.
	Egress egress.Rules

	base string       // the name without parameters
	tree *digest.Tree // of the files of a command, as they were hashed
	root string       // of the workspace

	hosts []string // where its mounts are, of a target that was carried; nil of others

	// What is installed for a command, nil where it names none.
	venv    *venv
	modules *modules
}

// Files are those of a command, as they were hashed; none of other targets.
func (t *Target) Files() []digest.File {
	if t.tree == nil {
		return nil
	}
	return t.tree.Files
}

// targetFile is targets/NAME.yaml.
type targetFile struct {
	Version int      `json:"version"`
	Kind    Kind     `json:"kind"`
	Builtin *Builtin `json:"builtin,omitempty"`
	Command *Command `json:"command,omitempty"`
	HTTP    *HTTP    `json:"http,omitempty"`

	Parameters parameters            `json:"parameters,omitempty"`
	Normalise  []evidence.Normaliser `json:"normalise,omitempty"`
	Egress     egress.Rules          `json:"egress,omitempty"`
}

var targetRules = strictyaml.Rules{PlainDigits: true, Hint: "docs/agents.md has the format of a target"}

// LoadAll reads a target of the workspace: every variant, of which there is at least
// one, or, given NAME[PARAMETER=VALUE,…], those that this chooses. Files that a
// command brings along are read and hashed now; what was hashed is what runs.
func LoadAll(root *os.Root, text string) ([]*Target, error) {
	// No target has a "~" in its name: what follows is the short form of a variant.
	base, _, isShort := strings.Cut(text, "~")
	if isShort && !strings.Contains(base, "[") {
		all, err := LoadAll(root, base)
		if err != nil {
			return nil, err
		}
		return shortVariant(all, text)
	}
	name, choice, err := ParseChoice(text)
	if err != nil {
		return nil, err
	}
	if err := bench.CheckTarget(name); err != nil {
		return nil, refusal.Newf(refusal.Usage, "target: %w", err)
	}
	file := path.Join(TargetsDir, name+".yaml")
	data, err := readTarget(root, file)
	if err != nil {
		return nil, err
	}
	all, err := parse(root, name, file, data)
	if err != nil {
		return nil, err
	}
	return choice.Of(all)
}

// shortVariant gives the variant whose short form is the text.
func shortVariant(all []*Target, text string) ([]*Target, error) {
	var found []*Target
	var known []string
	for _, t := range all {
		short := bench.ShortTarget(t.Name)
		if known = append(known, short); short == text {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return nil, refusal.Newf(refusal.UnknownName, "no variant %q of target %s", text, all[0].base).Suggest(text, known, "there are %s", strings.Join(known, ", "))
	case 1:
		return found, nil
	}
	return nil, refusal.Newf(refusal.Usage, "%s could be %d variants: %s", text, len(found), found[0].Name+", "+found[1].Name).WithHint("name its parameters, as in --target %s", plain.ShellWord(found[0].Name))
}

// open reads what a command brings along.
func (t *Target) open(root *os.Root) (err error) {
	t.root = root.Name()
	if t.Command == nil {
		return nil
	}
	if t.tree, err = t.Command.readFiles(root); err != nil {
		return err
	}
	if name := t.Command.Venv; name != "" {
		if t.venv, err = openVenv(t.root, name); err != nil {
			return err
		}
	}
	if name := t.Command.NodeModules; name != "" {
		t.modules, err = openModules(t.root, name)
	}
	return err
}

func readTarget(root *os.Root, file string) ([]byte, error) {
	f, err := store.OpenIn(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknownTarget(root, file)
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", file, err)
	}
	return data, nil
}

// unknownTarget says which targets there are, and which one may be meant.
func unknownTarget(root *os.Root, file string) error {
	err := refusal.Newf(refusal.UnknownName, "there is no target %s", file)
	names := Names(root)
	if len(names) > 0 {
		return err.Suggest(strings.TrimSuffix(path.Base(file), ".yaml"), names, "give --target one of %s; docs/agents.md shows how to write another", strings.Join(names, ", "))
	}
	return err.WithHint(`"tally init --agent python:PATH" writes one for an agent that you have; docs/agents.md shows one of each kind`)
}

// Names lists the targets of a workspace, in order.
func Names(root *os.Root) []string {
	files, err := fs.Glob(root.FS(), path.Join(TargetsDir, "*.yaml"))
	if err != nil {
		return nil
	}
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(path.Base(file), ".yaml"); bench.CheckID(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// Parse reads the text of a target without parameters, and without files.
func Parse(name, file string, data []byte) (*Target, error) {
	all, err := parse(nil, name, file, data)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 || len(all[0].Parameters) > 0 {
		return nil, refusal.Newf(refusal.Usage, "%s has parameters, which it cannot have here", file)
	}
	return all[0], nil
}

// parse reads the text of a target, with the files that it names unless root is
// nil, and makes its variants.
func parse(root *os.Root, name, file string, data []byte) ([]*Target, error) {
	var f targetFile
	doc, err := strictyaml.Decode(file, data, targetRules, &f)
	if err != nil {
		return nil, err
	}
	if err := f.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	base := &Target{Name: name, base: name, Kind: f.Kind, Builtin: f.Builtin, Command: f.Command, HTTP: f.HTTP, Normalise: f.Normalise, Egress: f.Egress}
	if root != nil {
		if err := base.open(root); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	sets, err := f.Parameters.product()
	if err != nil {
		return nil, doc.Refuse(err)
	}
	var all []*Target
	for _, set := range sets {
		if err := readParameters(root, set); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		t, err := base.vary(set)
		if err == nil {
			err = t.validate()
		}
		if err != nil {
			return nil, doc.Refuse(err)
		}
		if err := t.computeDigest(); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// validate checks what parameters may have changed.
func (t *Target) validate() error {
	var err error
	switch {
	case t.Builtin != nil:
		err = t.Builtin.Validate()
	case t.Command != nil:
		err = t.Command.validate()
	}
	if err != nil {
		return strictyaml.At([]string{string(t.Kind)}, err)
	}
	return nil
}

func (f *targetFile) validate() error {
	if f.Version != 1 {
		return strictyaml.At([]string{"version"}, fmt.Errorf("found %d, this program knows 1", f.Version))
	}
	given := map[Kind]bool{KindBuiltin: f.Builtin != nil, KindCommand: f.Command != nil, KindHTTP: f.HTTP != nil}
	if _, known := given[f.Kind]; !known {
		return strictyaml.At([]string{"kind"}, fmt.Errorf("found %q, expected %s, %s or %s", f.Kind, KindBuiltin, KindCommand, KindHTTP))
	}
	for kind, is := range given {
		if is != (kind == f.Kind) {
			return strictyaml.At([]string{string(kind)}, fmt.Errorf("the kind is %s, expected a section of that name and no other", f.Kind))
		}
	}
	if at, err := evidence.CheckNormalisers(f.Normalise); err != nil {
		return strictyaml.At([]string{"normalise", strconv.Itoa(at)}, err)
	}
	if err := f.checkEgress(); err != nil {
		return err
	}
	if f.Kind != KindHTTP {
		return nil // with its parameters
	}
	if err := f.HTTP.validate(); err != nil {
		return strictyaml.At([]string{string(f.Kind)}, err)
	}
	return nil
}

func (f *targetFile) checkEgress() error {
	at := func(format string, args ...any) error {
		return strictyaml.At([]string{"egress"}, fmt.Errorf(format, args...))
	}
	switch {
	case len(f.Egress) == 0:
		return nil
	case f.Kind != KindCommand:
		return at("a target of the kind %s has none: the proxy is for the sandbox of a command", f.Kind)
	case f.Command.Warm != "":
		return at("a preloaded command has none: each case has a proxy and certificates of its own; take out command: warm:")
	}
	return f.Egress.Validate()
}

// computeDigest names everything that decides how the target behaves and that
// we can see.
func (t *Target) computeDigest() error {
	data, err := t.Settings()
	t.Digest = digest.ContentOf(data)
	return err
}

// Settings is what the digest of a target is of, in canonical JSON: all that
// decides how a built-in or an HTTP one behaves, and of a command the digests of
// its files.
func (t *Target) Settings() ([]byte, error) {
	settings := map[string]any{"kind": t.Kind}
	if len(t.Parameters) > 0 {
		given := map[string]any{}
		for _, p := range t.Parameters {
			given[p.Name] = p.settings()
		}
		settings["parameters"] = given
	}
	switch {
	case t.Builtin != nil:
		settings["builtin"] = t.Builtin
	case t.Command != nil:
		settings["command"] = t.Command
		if t.tree != nil {
			d, err := t.tree.Digest()
			if err != nil {
				return nil, err
			}
			settings["files"] = d
		}
		if t.venv != nil {
			settings["venv"] = t.venv.digest
		}
		if t.modules != nil {
			settings["node_modules"] = t.modules.digest
		}
	case t.HTTP != nil:
		settings["http"] = t.HTTP
	}
	if len(t.Normalise) > 0 {
		settings["normalise"] = t.Normalise
	}
	if len(t.Egress) > 0 {
		settings["egress"] = t.Egress
	}
	return canon.Marshal(settings)
}

// A DriveResult is what came of one case.
type DriveResult struct {
	Outcome
	Scope     string // "attempt" for a command that was preloaded
	Preload   *sandbox.Preload
	Isolation string          // of the agent: "" for the built-in one, a sandbox class, "none" for one that ran bare, "remote"
	Vantage   vantage.Vantage // what could be seen of it
}

// Options say how a case is driven.
type Options struct {
	// Unsafe runs a command without a sandbox. Such a case never counts.
	Unsafe bool
	// Hidden are folders that the agent must not see: the workspace and the
	// state of this machine.
	Hidden []string
	// Accept are the isolation classes that a command may run in.
	Accept  []sandbox.Class
	Timeout time.Duration // of one start of a command
	Live    bool          // replies come from real models
	Shown   *Shown        // what a command finds of this machine, as [Target.Show] digested it
	// Services are the ports of the case's world that a command may reach.
	Services []sandbox.Service
	Warm     *Warm    // the sandbox of a preloaded command; nil starts the program for every turn
	Models   []string // that the recording has, for agents that ask for a list
	// Steps reads the spans of an agent; see [gateway.Config].
	Steps func(contentType string, body []byte) ([]gateway.Step, error)
}

// Drive takes the agent through one case.
func (t *Target) Drive(ctx context.Context, s *session.Session, c *scenario.Scenario, o Options) (DriveResult, error) {
	switch {
	case t.Builtin != nil:
		out, err := t.Builtin.Drive(ctx, s, c)
		return DriveResult{Outcome: out, Vantage: t.Vantage()}, err
	case t.Command != nil:
		return t.driveCommand(ctx, s, c, o)
	case t.HTTP != nil:
		out, err := t.HTTP.drive(ctx, s, c, t.told(false))
		return DriveResult{Outcome: out, Isolation: t.HTTP.Isolation(), Vantage: t.Vantage()}, err
	}
	return DriveResult{}, refusal.Newf(refusal.Failed, "target %s has no kind", t.Name)
}

// Vantage is what can be seen of the agent's work, as run_started and the record
// of a case have it.
func (t *Target) Vantage() vantage.Vantage {
	switch {
	case t.Command != nil:
		return vantage.Gateway
	case t.HTTP != nil && t.HTTP.InProcess:
		return vantage.Reported
	case t.HTTP != nil:
		return vantage.Answers
	}
	return vantage.Inside
}

// File is where its settings stand in a workspace; variants share one.
func (t *Target) File() string { return path.Join(TargetsDir, cmp.Or(t.base, t.Name)+".yaml") }

// NeedsFolder reports whether the agent works on files.
func (t *Target) NeedsFolder() bool { return t.Command != nil }

// OfCommand makes a target of a program that no file describes.
func OfCommand(name string, c Command) (*Target, error) {
	if err := c.validate(); err != nil {
		return nil, refusal.Newf(refusal.Usage, "%w", err)
	}
	t := &Target{Name: name, base: name, Kind: KindCommand, Command: &c}
	return t, t.computeDigest()
}
