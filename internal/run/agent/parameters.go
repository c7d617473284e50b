package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
)

// Bounds of parameters.
const (
	maxVariants       = 64
	maxParameterBytes = 200     // of a value that is not a file
	maxParameterFile  = 1 << 20 // of a file
)

// paramsInside is where a program finds the files of its parameters, and
// paramsVariable how the names of the variables with its parameters begin.
const (
	paramsInside   = "/params"
	paramsVariable = "TALLY_PARAM_"
)

// A Parameter is one setting of a variant of a target.
type Parameter struct {
	Name  string
	Value any    // a text, a number or a truth value; nil of a file
	Text  string // the value, or the path of the file, as a text
	// Data are the bytes of a file of the workspace, read when the target was:
	// what was hashed is what the agent gets.
	Data   []byte
	Digest *digest.Content // of these; nil of anything but a file
	file   bool
}

// settings is what the digest of a target covers.
func (p *Parameter) settings() map[string]any {
	if p.file {
		return map[string]any{"file": p.Text, "digest": p.Digest}
	}
	return map[string]any{"value": p.Value}
}

// inside is what a program gets for the parameter.
func (p *Parameter) inside() string {
	if p.file {
		return path.Join(paramsInside, p.Name, path.Base(p.Text))
	}
	return p.Text
}

// parameters of a target's file: a name and the values that it takes.
type parameters map[string][]canon.RawMessage

// product gives every choice of one value for each name: names in the order of
// letters, values in that of the file, the last name changing fastest.
func (ps parameters) product() ([][]Parameter, error) {
	all, n := [][]Parameter{nil}, 1
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		if err := checkParameter(name); err != nil {
			return nil, strictyaml.At([]string{"parameters", name}, err)
		}
		if len(ps[name]) == 0 {
			return nil, strictyaml.At([]string{"parameters", name}, errors.New("is empty; expected a list of values"))
		}
		if n *= len(ps[name]); n > maxVariants {
			return nil, strictyaml.At([]string{"parameters", name}, fmt.Errorf("there are %d variants or more, at most %d are run; give fewer values", n, maxVariants))
		}
		values, err := parseValues(name, ps[name])
		if err != nil {
			return nil, err
		}
		var next [][]Parameter
		for _, before := range all {
			for _, v := range values {
				next = append(next, append(slices.Clip(before), v))
			}
		}
		all = next
	}
	return all, nil
}

// checkParameter refuses a name that is not small letters, digits and underscores,
// as variables and paths are made of it.
func checkParameter(name string) error {
	ok := name != "" && len(name) <= 32 && 'a' <= name[0] && name[0] <= 'z'
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_')
	}
	if !ok {
		return fmt.Errorf("found the name %.60q, expected 1 to 32 of a-z 0-9 _, a letter first", name)
	}
	return nil
}

func parseValues(name string, raws []canon.RawMessage) ([]Parameter, error) {
	var values []Parameter
	for i, raw := range raws {
		p, err := parseValue(name, raw)
		if err == nil && slices.ContainsFunc(values, func(o Parameter) bool { return o.Text == p.Text }) {
			err = fmt.Errorf("%q is listed twice", p.Text)
		}
		if err != nil {
			return nil, strictyaml.At([]string{"parameters", name, fmt.Sprint(i)}, err)
		}
		values = append(values, p)
	}
	return values, nil
}

// parseValue reads one value: a text, a number, true or false, or {file: PATH}. The
// text of a parameter whose name ends in _file is a path too.
func parseValue(name string, raw canon.RawMessage) (Parameter, error) {
	p := Parameter{Name: name}
	var file struct {
		File string `json:"file"`
	}
	if err := canon.Unmarshal(raw, &p.Value); err != nil {
		return p, err
	}
	switch v := p.Value.(type) {
	case string:
		p.Text, p.file = v, strings.HasSuffix(name, "_file")
	case bool:
		p.Text = fmt.Sprint(v)
	case map[string]any:
		if err := canon.Unmarshal(raw, &file); err != nil {
			return p, errors.New("expected a text, a number, true, false or {file: PATH}")
		}
		p.Text, p.file = file.File, true
	case nil, []any:
		return p, errors.New("expected a text, a number, true, false or {file: PATH}")
	default:
		p.Text = string(raw)
	}
	if p.file {
		p.Value = nil
		return p, checkParameterFile(p.Text)
	}
	if p.Text == "" || len(p.Text) > maxParameterBytes || plain.Line(p.Text) != p.Text {
		return p, fmt.Errorf("found %.60q, expected 1 to %d visible characters; a longer text, or one with several lines, belongs in a file: {file: PATH}", p.Text, maxParameterBytes)
	}
	return p, nil
}

// checkParameterFile refuses what is not a file of the workspace that an agent may
// see: the folders of the workspace itself hold answers and keys.
func checkParameterFile(name string) error {
	if !isWorkspaceFile(name) || len(name) > maxParameterBytes || plain.Line(name) != name {
		return fmt.Errorf("found %.60q, expected the path of a file in the workspace, with no step up or to itself", name)
	}
	first, _, _ := strings.Cut(name, "/")
	if strings.HasPrefix(first, ".") || slices.Contains(ours, first) && first != TargetsDir {
		return fmt.Errorf("found %q: an agent is shown nothing of %s; put the file elsewhere, as in prompts/", name, first)
	}
	return nil
}

func isWorkspaceFile(name string) bool {
	return name != "" && name != "." && path.Clean(name) == name && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\\x00")
}

// read reads the file of a parameter. Nothing on the way to it may be a link: one
// could lead to what the agent must not see.
func (p *Parameter) read(root *os.Root) error {
	refused := func(format string, args ...any) error {
		return refusal.Newf(refusal.Malformed, "parameter %s: %s %s", p.Name, p.Text, fmt.Sprintf(format, args...)).WithHint("name a file of the workspace, as it is")
	}
	for dir := p.Text; dir != "."; dir = path.Dir(dir) {
		info, err := root.Lstat(dir)
		switch {
		case err != nil:
			return refusal.Newf(refusal.NotFound, "parameter %s: %s: %w", p.Name, p.Text, refusal.WithoutPath(err)).WithHint("paths of parameters begin at the workspace")
		case dir == p.Text && !info.Mode().IsRegular(), dir != p.Text && !info.IsDir():
			return refused("is not a file that lies in the workspace itself: %s is a link or something else", dir)
		case dir == p.Text && info.Size() > maxParameterFile:
			return refused("has %d bytes, at most %d are read", info.Size(), maxParameterFile)
		}
	}
	data, err := root.ReadFile(p.Text)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "parameter %s: %w", p.Name, err)
	}
	if len(data) > maxParameterFile || !utf8.Valid(data) {
		return refused("is not UTF-8 text of at most %d bytes", maxParameterFile)
	}
	d := digest.ContentOf(data)
	p.Data, p.Digest = data, &d
	return nil
}

// readParameters reads the files of some parameters.
func readParameters(root *os.Root, ps []Parameter) error {
	for i := range ps {
		if !ps[i].file {
			continue
		}
		if root == nil {
			return refusal.Newf(refusal.Usage, "parameter %s names a file, and there is no workspace", ps[i].Name)
		}
		if err := ps[i].read(root); err != nil {
			return err
		}
	}
	return nil
}

// variantName is the name of a variant: the target's, and its parameters in
// brackets. No target's own name has a bracket.
func variantName(name string, ps []Parameter) string {
	if len(ps) == 0 {
		return name
	}
	var parts []string
	for _, p := range ps {
		parts = append(parts, p.Name+"="+quoteValue(p.Text))
	}
	return name + "[" + strings.Join(parts, ",") + "]"
}

// quoteValue spells a value so that it ends where it seems to.
func quoteValue(text string) string {
	for _, c := range []byte(text) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._/:@+-", c) >= 0) {
			quoted, err := canon.Marshal(text)
			if err != nil {
				return "?" // not UTF-8, which no value is
			}
			return string(quoted)
		}
	}
	return text
}

// A Choice is some values of parameters, by name: of several for one name, any.
type Choice map[string][]string

// ParseChoice reads NAME[PARAMETER=VALUE,…]; without brackets it chooses all.
func ParseChoice(text string) (name string, c Choice, err error) {
	name, rest, found := strings.Cut(text, "[")
	c = Choice{}
	if !found {
		return name, c, nil
	}
	wrong := refusal.Newf(refusal.Usage, "target %q: expected NAME[PARAMETER=VALUE,...]", text)
	inside, closed := strings.CutSuffix(rest, "]")
	for closed && inside != "" {
		key, value, ok := strings.Cut(inside, "=")
		if !ok {
			return "", nil, wrong
		}
		if strings.HasPrefix(value, `"`) {
			end := closingQuote(value)
			if end < 0 || canon.Unmarshal([]byte(value[:end+1]), &inside) != nil {
				return "", nil, wrong
			}
			value, inside = inside, value[end+1:]
		} else if at := strings.IndexByte(value, ','); at >= 0 {
			value, inside = value[:at], value[at:]
		} else {
			inside = ""
		}
		if inside != "" {
			if inside, ok = strings.CutPrefix(inside, ","); !ok || inside == "" {
				return "", nil, wrong
			}
		}
		c[key] = append(c[key], value)
	}
	if !closed || len(c) == 0 {
		return "", nil, wrong
	}
	return name, c, nil
}

// closingQuote is where the JSON string that text begins with ends, or -1.
func closingQuote(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// Of gives the variants that have one of the chosen values for each name. It
// refuses names and values that none of them has, and suggests others.
func (c Choice) Of(variants []*Target) ([]*Target, error) {
	known := map[string][]string{}
	for _, t := range variants {
		for _, p := range t.Parameters {
			known[p.Name] = append(known[p.Name], p.Text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if known[name] == nil {
			return nil, unknownOf(fmt.Sprintf("target %s has no parameter %q", variants[0].base, name), name, slices.Sorted(maps.Keys(known)))
		}
		for _, value := range c[name] {
			if !slices.Contains(known[name], value) {
				return nil, unknownOf(fmt.Sprintf("parameter %s of target %s is never %q", name, variants[0].base, value), value, known[name])
			}
		}
	}
	var chosen []*Target
	for _, t := range variants {
		if !slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return c[p.Name] != nil && !slices.Contains(c[p.Name], p.Text) }) {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

func unknownOf(message, name string, known []string) error {
	err := refusal.Newf(refusal.UnknownName, "%s", message)
	if len(known) == 0 {
		return err.WithHint("the target has no parameters; docs/agents.md says how to give it some")
	}
	slices.Sort(known)
	known = slices.Compact(known)
	return err.Suggest(name, known, "there are %s", strings.Join(known, ", "))
}

// vary makes the variant of a target with some parameters.
func (t *Target) vary(ps []Parameter) (*Target, error) {
	v := *t
	v.Name, v.base, v.Parameters = variantName(t.Name, ps), t.Name, ps
	if err := bench.CheckVariant(v.Name); err != nil {
		return nil, strictyaml.At([]string{"parameters"}, err)
	}
	var err error
	switch {
	case t.Builtin != nil:
		v.Builtin, err = t.Builtin.with(ps)
	case t.Command != nil:
		v.Command, err = t.Command.with(ps)
	}
	return &v, err
}

// with puts parameters in the place of settings.
func (b *Builtin) with(ps []Parameter) (*Builtin, error) {
	v := *b
	for _, p := range ps {
		ok := true
		switch p.Name {
		case "model":
			v.Model, ok = p.Value.(string)
		case "temperature":
			var f float64
			f, ok = p.Value.(float64)
			v.Temperature = &f
		case "system":
			v.System, ok = p.Value.(string)
		case "prompt_file":
			v.System = string(p.Data)
		default:
			return nil, strictyaml.At([]string{"parameters", p.Name}, errors.New("the built-in agent has no such parameter; expected model, temperature, system or prompt_file"))
		}
		if !ok {
			return nil, strictyaml.At([]string{"parameters", p.Name}, fmt.Errorf("found %s, expected %s", p.Text, map[bool]string{true: "a number", false: "a text"}[p.Name == "temperature"]))
		}
	}
	return &v, nil
}

// with puts parameters into the arguments and the environment.
func (c *Command) with(ps []Parameter) (*Command, error) {
	v := *c
	v.Command, v.Env = slices.Clone(c.Command), maps.Clone(c.Env)
	for i, word := range v.Command {
		var err error
		if v.Command[i], err = substitute(word, ps); err != nil {
			return nil, strictyaml.At([]string{"command", "command", fmt.Sprint(i)}, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Env)) {
		var err error
		if v.Env[name], err = substitute(v.Env[name], ps); err == nil && len(ps) > 0 && strings.HasPrefix(name, paramsVariable) {
			err = fmt.Errorf("variables that begin with %s are those of the parameters", paramsVariable)
		}
		if err != nil {
			return nil, strictyaml.At([]string{"command", "env", name}, err)
		}
	}
	return &v, nil
}

// substitute replaces ${param.NAME}. What stands in a value is not replaced again.
func substitute(word string, ps []Parameter) (string, error) {
	const open = "${param."
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(word, open)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		i := slices.IndexFunc(ps, func(p Parameter) bool { return p.Name == name })
		if !closed || i < 0 {
			return "", fmt.Errorf("%s%.40s is not a parameter of the target: its names stand under parameters", open, rest)
		}
		b.WriteString(ps[i].inside())
		word = after
	}
}

// variables are the parameters as a program finds them in its environment.
func (t *Target) variables() []string {
	var out []string
	for _, p := range t.Parameters {
		out = append(out, paramsVariable+strings.ToUpper(p.Name)+"="+p.inside())
	}
	return out
}

// parameterFiles are the files of the parameters, as they lie in paramsInside.
func (t *Target) parameterFiles() []digest.File {
	var files []digest.File
	for _, p := range t.Parameters {
		if p.file {
			files = append(files, digest.File{Path: path.Join(p.Name, path.Base(p.Text)), Data: p.Data})
		}
	}
	return files
}

// told are the parameters as an agent reads them in JSON: of a file its text, or,
// for a program that can open it, its path.
func (t *Target) told(paths bool) map[string]any {
	if len(t.Parameters) == 0 {
		return nil
	}
	all := map[string]any{}
	for _, p := range t.Parameters {
		switch {
		case !p.file:
			all[p.Name] = p.Value
		case paths:
			all[p.Name] = p.inside()
		default:
			all[p.Name] = string(p.Data)
		}
	}
	return all
}
