package tools

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/schema"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/policy"
)

// Bounds of the definitions of a case.
const (
	maxTools     = 128
	maxNameBytes = 64
	maxReplies   = 1_000 // of one tool

	// maxDescription is what a model is shown. A description of the bench may
	// not be longer; one from outside is cut, unless it is longer than
	// maxForeignDescription and refused.
	maxDescription        = 4 << 10
	maxForeignDescription = 64 << 10

	maxSchemaBytes = 64 << 10

	// maxStateBytes bounds the state of a case, however often an agent makes
	// it grow.
	maxStateBytes = 1 << 20
)

// Validate checks the definitions of a case. What is wrong carries its path,
// which begins with "tools", so that a document that has them under this key
// reports line and column.
func Validate(defs []Definition) error {
	_, err := compile(defs)
	return err
}

// A tool is a [Definition] ready to be called.
type tool struct {
	def      Definition // as it was given, with what was left out filled in
	shown    Definition // as the model sees it
	schema   *schema.Schema
	replies  []*reply
	fallback *reply
	calls    string // under which the state counts calls
	findings []Finding
}

// server is the MCP server that answers, "" if none does.
func (t *tool) server() string {
	name, ok := strings.CutPrefix(t.def.Source, MCPPrefix)
	if !ok {
		return ""
	}
	return name
}

// compiled is the definitions of a case, ready to be called.
type compiled struct {
	tools  []*tool // by name
	byName map[string]*tool
	state  map[string]any // at the beginning
}

func compile(defs []Definition) (*compiled, error) {
	at := func(i int, keys ...string) []string { return append([]string{"tools", strconv.Itoa(i)}, keys...) }
	if len(defs) > maxTools {
		return nil, strictyaml.At([]string{"tools"}, fmt.Errorf("found %d tools, expected at most %d", len(defs), maxTools))
	}
	out := &compiled{byName: map[string]*tool{}, state: map[string]any{}}
	alike := map[string]string{}
	owner := map[string]string{}
	for i := range defs {
		d := &defs[i]
		if !isName(d.Name, "_.-") {
			return nil, strictyaml.At(at(i, "name"), fmt.Errorf("found %.80q, expected 1 to %d of A-Z a-z 0-9 _ . -", d.Name, maxNameBytes))
		}
		if other, ok := alike[plain.Fold(d.Name)]; ok {
			return nil, strictyaml.At(at(i, "name"), sameName(d.Name, other))
		}
		alike[plain.Fold(d.Name)] = d.Name
		t, err := compileTool(d, at(i))
		if err != nil {
			return nil, err
		}
		out.tools = append(out.tools, t)
		out.byName[d.Name] = t
		for _, key := range sortedKeys(d.State) {
			if err := out.declare(key, d, owner); err != nil {
				return nil, strictyaml.At(at(i, "state", key), err)
			}
		}
	}
	if n := stateBytes(out.state); n > maxStateBytes {
		return nil, strictyaml.At([]string{"tools"}, fmt.Errorf("the state has %d bytes, expected at most %d", n, maxStateBytes))
	}
	for i, t := range out.tools {
		if err := t.checkStateKeys(out.state, at(i)); err != nil {
			return nil, err
		}
	}
	sort.Slice(out.tools, func(i, j int) bool { return out.tools[i].def.Name < out.tools[j].def.Name })
	return out, nil
}

func sameName(name, other string) error {
	if name == other {
		return fmt.Errorf("there are two tools called %q", name)
	}
	return fmt.Errorf("the tool %q looks like the tool %q; names must differ in more than case and letters that look alike", name, other)
}

// declare enters a value that the case starts with.
func (out *compiled) declare(key string, d *Definition, owner map[string]string) error {
	if !isName(key, "_-") {
		return fmt.Errorf("found the name %.80q, expected 1 to %d letters, digits, _ and -", key, maxNameBytes)
	}
	if other, ok := owner[key]; ok {
		return fmt.Errorf("the tool %q has a value of this name already, and all tools share one state", other)
	}
	var v any
	if err := canon.Unmarshal(d.State[key], &v); err != nil {
		return err
	}
	owner[key], out.state[key] = d.Name, v
	return nil
}

// stateBytes is about how much memory a state takes: the bytes of its texts and
// 16 for every value. It is counted at every change, so it must be quick.
func stateBytes(v any) int {
	switch v := v.(type) {
	case string:
		return 16 + len(v)
	case []any:
		n := 16
		for _, item := range v {
			n += stateBytes(item)
		}
		return n
	case map[string]any:
		n := 16
		for name, item := range v {
			n += len(name) + stateBytes(item)
		}
		return n
	}
	return 16
}

// checkStateKeys refuses a reply that uses a value which no tool starts with:
// most likely its name is misspelled.
func (t *tool) checkStateKeys(state map[string]any, at []string) error {
	check := func(r *reply, at []string) error {
		return r.stateKeys(func(where, key string) error {
			if _, ok := state[key]; ok {
				return nil
			}
			return strictyaml.At(append(slices.Clone(at), where), fmt.Errorf("uses %.80q of the state, which no tool of the case starts with; add it to a state", key))
		})
	}
	for i, r := range t.replies {
		if err := check(r, append(slices.Clone(at), "replies", strconv.Itoa(i))); err != nil {
			return err
		}
	}
	if t.fallback != nil {
		return check(t.fallback, append(slices.Clone(at), "default"))
	}
	return nil
}

func compileTool(given *Definition, at []string) (*tool, error) {
	t := &tool{def: *given, calls: "call " + given.Name}
	d := &t.def
	bad := func(key string, format string, args ...any) error {
		return strictyaml.At(append(slices.Clone(at), key), fmt.Errorf(format, args...))
	}
	if err := t.fillSource(bad); err != nil {
		return nil, err
	}
	if !d.Class.Known() {
		return nil, bad("class", "found %.40q, expected one of %s", d.Class, classList())
	}
	switch most := maxForeignDescription; {
	case d.Trust == Bench && len(d.Description) > maxDescription:
		return nil, bad("description", "found %d bytes, expected at most %d", len(d.Description), maxDescription)
	case len(d.Description) > most:
		return nil, bad("description", "found %d bytes, expected at most %d", len(d.Description), most)
	}
	for _, use := range []struct {
		key string
		n   int64
	}{{"latency_ms", d.LatencyMS}, {"cost_microdollars", d.CostMicroUSD}, {"tokens", d.Tokens}} {
		if err := checkUse(use.n); err != nil {
			return nil, bad(use.key, "%w", err)
		}
	}
	if err := t.compileSchema(); err != nil {
		return nil, bad("schema", "%w", err)
	}
	if err := t.compileReplies(at, bad); err != nil {
		return nil, err
	}
	t.show()
	return t, nil
}

// fillSource checks where the answers come from and fills in what follows from
// it.
func (t *tool) fillSource(bad func(string, string, ...any) error) error {
	d := &t.def
	if d.Source == "" {
		d.Source = Fixture
	}
	server := t.server()
	isMCP := strings.HasPrefix(d.Source, MCPPrefix)
	remote := isMCP || d.Source == World
	switch {
	case isMCP && bench.CheckID(server) != nil:
		return bad("source", "found %.120q, expected the name of an MCP server after %s: %w", d.Source, MCPPrefix, bench.CheckID(server))
	case !remote && d.Source != Fixture && d.Source != Cassette && d.Source != Folder:
		return bad("source", "found %.80q, expected fixture, cassette, folder, world or mcp:SERVER", d.Source)
	case d.Operation != "" && d.Source != Folder:
		return bad("operation", "only tools of the source folder have one")
	case d.Remote != "" && !remote:
		return bad("remote", "only tools of an MCP server or a world have one")
	case d.Pinned != "" && !isMCP:
		return bad("pinned", "only tools of an MCP server have one")
	case d.Pinned != "" && !isDigest(d.Pinned):
		return bad("pinned", "found %.80q, expected the digest of what the server says of the tool, blake3: and 64 hexadecimal digits", d.Pinned)
	case len(d.Remote) > 256:
		return bad("remote", "found %d bytes, expected at most 256", len(d.Remote))
	}
	switch {
	case d.Trust == "" && isMCP:
		d.Trust = Outside
	case d.Trust == "":
		d.Trust = Bench
	case d.Trust != Bench && d.Trust != Outside:
		return bad("trust", "found %.40q, expected bench or outside", d.Trust)
	case d.Trust == Bench && isMCP:
		return bad("trust", "found bench, but what an MCP server says comes from outside")
	}
	if remote && d.Remote == "" {
		d.Remote = d.Name
	}
	if d.Source == Folder {
		return t.fillFolder(bad)
	}
	return nil
}

func isDigest(text string) bool {
	_, err := digest.ParseContent(text)
	return err == nil
}

func (t *tool) compileSchema() (err error) {
	d := &t.def
	if d.Schema == nil {
		return nil
	}
	if len(d.Schema) > maxSchemaBytes {
		return fmt.Errorf("found %d bytes, expected at most %d", len(d.Schema), maxSchemaBytes)
	}
	if d.Schema, err = canon.Canonicalize(d.Schema); err != nil {
		return err
	}
	if d.Schema[0] != '{' {
		return errors.New("expected an object")
	}
	if t.server() == "" && d.Source != World {
		t.schema, err = schema.Compile(d.Schema)
	} else {
		t.schema, err = schema.CompileForeign(d.Schema)
	}
	if err != nil {
		return err
	}
	return checkVisibleNames(d.Schema)
}

func (t *tool) compileReplies(at []string, bad func(string, string, ...any) error) error {
	d := &t.def
	if d.Source != Fixture {
		switch {
		case d.Replies != nil:
			return bad("replies", "only fixtures have replies; this tool answers from its source, %s", d.Source)
		case d.Default != nil:
			return bad("default", "only fixtures have replies; this tool answers from its source, %s", d.Source)
		}
		return nil
	}
	switch {
	case len(d.Replies) > maxReplies:
		return bad("replies", "found %d, expected at most %d", len(d.Replies), maxReplies)
	case len(d.Replies) == 0 && d.Default == nil:
		return bad("replies", "found none and no default, so that the tool could never answer")
	}
	for i := range d.Replies {
		r, err := compileReply(&d.Replies[i], d, append(slices.Clone(at), "replies", strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if r.times != 0 {
			r.given = fmt.Sprintf("reply %s %d", d.Name, i)
		}
		t.replies = append(t.replies, r)
	}
	if d.Default == nil {
		return nil
	}
	if f := d.Default; f.Args != nil || f.Has != nil || f.Where != nil || f.If != nil || f.Call != 0 || f.Times != 0 {
		return bad("default", "the default answers every call that is left; conditions belong into replies")
	}
	var err error
	t.fallback, err = compileReply(d.Default, d, append(slices.Clone(at), "default"))
	return err
}

func classList() string {
	var names []string
	for _, c := range policy.Classes() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
