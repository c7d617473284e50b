package trajectory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// A Trace is a trajectory in canonical form: without what differs between two
// runs that did the same. It is what golden files hold and [Compare] compares.
type Trace struct {
	Steps []Step
}

// A Step is one event of a trace.
type Step struct {
	Turn   int
	Number int // within the turn, from 1
	Type   Type
	Fields []Field
}

// A Field is one value of a payload: the names that lead to it, joined by
// dots, and the value in canonical JSON. Objects are taken apart, lists and
// empty objects are not.
type Field struct {
	Path  string
	Value string
}

// Options of the canonical form.
type Options struct {
	// KeepCost keeps what calls cost. Recorded costs do not change from
	// replay to replay; live ones do.
	KeepCost bool
}

// A golden says how events of one type stand in golden traces.
type golden struct {
	// line has the members that stand beside the type in the file, where a
	// reader of a diff looks first.
	line []string

	// without has the members that canonical form leaves out, besides
	// latency_ms and cost_microdollars. They say which run it was, how fast,
	// where the reply came from, or they are digests of things that hold times
	// or paths.
	without []string

	// of is the member that tells two events of the type apart, such as the
	// tool: with another value it is another event and not a changed one.
	of string

	// changes name what it means when members differ. The first that fits is
	// meant; without one the change is [ChangedFields].
	changes []change
}

// A change has a name if one of the members differs, or anything in them.
type change struct {
	name    Change
	members []string
}

// anything stands for all members of a payload.
var anything []string

// named are the members that are names of something within the case, and of
// what. They are numbered in the order in which they first appear.
var named = map[string]string{
	"call":       "call",
	"entry":      "entry",
	"entries":    "entry",
	"admitted":   "entry",
	"supersedes": "entry",
	"checkpoint": "checkpoint",
	"id":         "id",
	"judged":     "call",
}

// Canonical gives the canonical form of a trajectory.
func Canonical(v *Verified, opt Options) (*Trace, error) {
	c := canonicalizer{opt: opt, numbers: map[string]map[string]int{}}
	t := &Trace{Steps: make([]Step, 0, len(v.events))}
	for i := range v.events {
		fields, err := c.fields(&v.events[i])
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", v.events[i].Seq, err)
		}
		t.add(v.events[i].Turn, v.events[i].Type, fields)
	}
	return t, nil
}

func (t *Trace) add(turn int, typ Type, fields []Field) {
	number := 1
	if n := len(t.Steps); n > 0 && t.Steps[n-1].Turn == turn {
		number = t.Steps[n-1].Number + 1
	}
	t.Steps = append(t.Steps, Step{turn, number, typ, fields})
}

type canonicalizer struct {
	opt     Options
	numbers map[string]map[string]int // by what is named, then by name

	dec     jsontext.Decoder
	scratch []Field
}

// fields takes a payload apart. The members on the line come first.
func (c *canonicalizer) fields(e *Event) ([]Field, error) {
	shape := rows[e.Type].golden
	c.dec.Reset(bytes.NewBuffer(e.payload), jsontext.AllowDuplicateNames(true)) // canon has looked for them
	w := walker{dec: &c.dec, fields: c.scratch[:0]}
	w.skip = func(name string) bool {
		return name == "latency_ms" || name == "cost_microdollars" && !c.opt.KeepCost || slices.Contains(shape.without, name)
	}
	// Content and arguments are recognised by where they stand: what an agent
	// writes into an argument may look like anything.
	if err := w.members(""); err != nil {
		return nil, err
	}
	c.scratch = w.fields
	fields := make([]Field, 0, len(w.fields))
	for _, name := range shape.line {
		if i := slices.IndexFunc(w.fields, func(f Field) bool { return f.Path == name }); i >= 0 {
			fields = append(fields, w.fields[i])
		}
	}
	for _, f := range w.fields {
		if !slices.Contains(shape.line, f.Path) {
			fields = append(fields, f)
		}
	}
	for i := range fields {
		if kind := named[fields[i].Path]; kind != "" {
			value, err := c.renumber(kind, fields[i].Value)
			if err != nil {
				return nil, err
			}
			fields[i].Value = value
		}
	}
	return fields, nil
}

// renumber replaces a name, or each of a list of names.
func (c *canonicalizer) renumber(kind, value string) (string, error) {
	number := func(name string) string {
		if c.numbers[kind] == nil {
			c.numbers[kind] = map[string]int{}
		}
		if c.numbers[kind][name] == 0 {
			c.numbers[kind][name] = len(c.numbers[kind]) + 1
		}
		return kind + "-" + strconv.Itoa(c.numbers[kind][name])
	}
	if value[0] == '"' && !strings.Contains(value, `\`) {
		return strconv.Quote(number(value[1 : len(value)-1])), nil
	}
	var one string
	if canon.Unmarshal([]byte(value), &one) == nil {
		return strconv.Quote(number(one)), nil
	}
	var many []string
	if err := canon.Unmarshal([]byte(value), &many); err != nil {
		return "", err
	}
	for i := range many {
		many[i] = number(many[i])
	}
	text, err := canon.Marshal(many)
	return string(text), err
}

// A walker reads a canonical payload and collects its values.
type walker struct {
	dec    *jsontext.Decoder
	fields []Field
	skip   func(member string) bool // of the payload itself
}

// members reads an object of the payload's own schema.
func (w *walker) members(path string) error {
	if _, err := w.dec.ReadToken(); err != nil { // the brace
		return err
	}
	begin := len(w.fields)
	for w.dec.PeekKind() != '}' {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		at := join(path, name)
		switch {
		case path == "" && w.skip(name):
			err = w.dec.SkipValue()
		case at == "args.values":
			err = w.value(at)
		case w.dec.PeekKind() == '{':
			err = w.members(at)
		default:
			err = w.value(at)
		}
		if err != nil {
			return err
		}
	}
	w.simplify(begin, path)
	_, err := w.dec.ReadToken()
	return err
}

// simplify drops from the object just read what says nothing new: the digest
// and length of a text that is all there, and those of a text with secrets,
// which a reader cannot check and which change with the secret. Arguments are
// all there or have digests for each part.
func (w *walker) simplify(begin int, path string) {
	isArgs := path == "args"
	if path == "" {
		return
	}
	is := func(f *Field, name string) bool {
		return len(f.Path) == len(path)+1+len(name) && f.Path[len(path)+1:] == name
	}
	has := func(name string) bool {
		for i := begin; i < len(w.fields); i++ {
			if is(&w.fields[i], name) {
				return true
			}
		}
		return false
	}
	isContent := has("head") && has("digest")
	if !isArgs && (!isContent || !has("redacted") && (has("lossy") || has("truncated"))) {
		return
	}
	kept := slices.DeleteFunc(w.fields[begin:], func(f Field) bool { return is(&f, "bytes") || is(&f, "digest") })
	w.fields = w.fields[:begin+len(kept)]
}

// value reads any value and takes objects apart.
func (w *walker) value(path string) error {
	if w.dec.PeekKind() != '{' {
		value, err := w.dec.ReadValue()
		if err == nil {
			w.fields = append(w.fields, Field{path, string(value)})
		}
		return err
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if w.dec.PeekKind() == '}' {
		w.fields = append(w.fields, Field{path, "{}"})
	}
	for w.dec.PeekKind() != '}' {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := w.value(join(path, token.String())); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// join adds a name to a path. A name that is not a plain word is quoted, so
// that a dot in it does not look like two names.
func join(path, name string) string {
	if !isWord(name) {
		quoted, err := canon.Marshal(name)
		if err != nil {
			quoted = []byte(strconv.Quote(name))
		}
		name = string(plain.JSON(quoted))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func isWord(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

const goldenHeader = "tallystick golden trace v1\n"

// Format writes the trace as text for people to review: a line for each event,
// its values indented below it, long texts line by line. What
// cannot be seen is escaped, so a diff hides nothing.
func (t *Trace) Format() []byte {
	out := []byte(goldenHeader)
	turn := -1
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Turn != turn {
			turn = s.Turn
			out = fmt.Appendf(out, "\nturn %d\n", turn)
		}
		out = s.format(out)
	}
	return out
}

func (s *Step) format(out []byte) []byte {
	out = append(out, s.Type...)
	rest, line := s.Fields, rows[s.Type].golden.line
	for len(rest) > 0 && slices.Contains(line, rest[0].Path) {
		out = append(out, ' ')
		out = append(out, rest[0].Path...)
		out = append(out, '=')
		out = append(out, plain.JSON([]byte(rest[0].Value))...)
		rest = rest[1:]
	}
	out = append(out, '\n')
	for _, f := range rest {
		out = append(out, "    "...)
		out = append(out, f.Path...)
		out = append(out, ':')
		out = appendValue(out, f.Value)
	}
	return out
}

// appendValue writes a value on the same line, or a text of several lines as
// one quoted text for each.
func appendValue(out []byte, value string) []byte {
	const newline = `\n`
	end := len(value) - len(`"`)
	if value[0] != '"' || !strings.Contains(value[:max(0, end-len(newline))], newline) {
		return append(append(append(out, ' '), plain.JSON([]byte(value))...), '\n')
	}
	out = append(out, '\n')
	start := 1
	for i := 1; i < end; i++ {
		if value[i] != '\\' {
			continue
		}
		i++ // an escape has at least one more character
		if value[i] == 'n' {
			out = appendPiece(out, value[start:i+1])
			start = i + 1
		}
	}
	if start < end {
		out = appendPiece(out, value[start:end])
	}
	return out
}

func appendPiece(out []byte, piece string) []byte {
	return append(append(append(out, `      "`...), plain.JSON([]byte(piece))...), '"', '\n')
}

const goldenHint = "write golden files with the program and review them; do not edit them by hand"

// ParseGolden reads what [Trace.Format] wrote, and nothing else.
func ParseGolden(text []byte) (*Trace, error) {
	if len(text) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "golden trace: %d bytes, at most %d are accepted", len(text), MaxBytes)
	}
	if at := bytes.Index(text, []byte("\r\n")); at >= 0 {
		return nil, refusal.Newf(refusal.Malformed, "golden trace: line %d: it ends in CR LF, expected LF", 1+bytes.Count(text[:at], []byte("\n"))).
			WithHint(`git or an editor changed the line ends; "/golden/** -text" in .gitattributes stops git from it`)
	}
	t, at, err := parseGolden(text)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "golden trace: line %d: %w", at, err).WithHint(goldenHint)
	}
	// One trace has one text, or a diff could show changes that did not happen.
	if again := t.Format(); !bytes.Equal(again, text) {
		n := 0
		for n < min(len(again), len(text)) && again[n] == text[n] {
			n++
		}
		return nil, refusal.Newf(refusal.Malformed, "golden trace: line %d: not as the program writes it", 1+bytes.Count(text[:n], []byte("\n"))).WithHint(goldenHint)
	}
	return t, nil
}

func parseGolden(text []byte) (*Trace, int, error) {
	body, ok := bytes.CutPrefix(text, []byte(goldenHeader))
	if !ok {
		return nil, 1, fmt.Errorf("expected %q", strings.TrimSpace(goldenHeader))
	}
	t, turn, at := &Trace{}, -1, 1
	for raw := range bytes.Lines(body) {
		at++
		l := strings.TrimSuffix(string(raw), "\n")
		var err error
		switch {
		case l == "":
		case strings.HasPrefix(l, "turn "):
			turn, err = strconv.Atoi(l[len("turn "):])
		case strings.HasPrefix(l, `      "`):
			err = t.addPiece(l[len("      "):])
		case strings.HasPrefix(l, "    "):
			err = t.addField(l[len("    "):])
		default:
			err = t.addLine(turn, l)
		}
		if err != nil {
			return nil, at, err
		}
	}
	return t, at, nil
}

func (t *Trace) addLine(turn int, l string) error {
	name, rest, _ := strings.Cut(l, " ")
	typ := Type(name)
	row, known := rows[typ]
	if !known {
		return fmt.Errorf("no event type is called %.80q", name)
	}
	if turn < 0 || turn > MaxEvents {
		return errors.New("an event stands before the first turn")
	}
	var fields []Field
	for rest != "" {
		path, after, ok := strings.Cut(rest, "=")
		if !ok || !slices.Contains(row.golden.line, path) {
			return fmt.Errorf("%.80q cannot stand beside %s", rest, typ)
		}
		value, err := jsontext.NewDecoder(strings.NewReader(after)).ReadValue()
		if err != nil {
			return err
		}
		f, err := newField(path, value)
		if err != nil {
			return err
		}
		fields = append(fields, f)
		rest = strings.TrimPrefix(after[len(value):], " ")
	}
	t.add(turn, typ, fields)
	return nil
}

func (t *Trace) last() (*Step, error) {
	if len(t.Steps) == 0 {
		return nil, errors.New("a value stands before the first event")
	}
	return &t.Steps[len(t.Steps)-1], nil
}

func (t *Trace) addField(l string) error {
	s, err := t.last()
	if err != nil {
		return err
	}
	end := pathEnd(l)
	if end < 0 {
		return fmt.Errorf("expected a path and a colon, found %.80q", l)
	}
	path, value := l[:end], l[end+1:]
	if value == "" {
		s.Fields = append(s.Fields, Field{path, `""`}) // pieces follow
		return nil
	}
	f, err := newField(path, []byte(value))
	s.Fields = append(s.Fields, f)
	return err
}

// addPiece adds a line to the text that is the last value.
func (t *Trace) addPiece(piece string) error {
	s, err := t.last()
	if err != nil || len(s.Fields) == 0 {
		return errors.New("a text stands before its path")
	}
	f, err := newField("", []byte(piece))
	if err != nil {
		return err
	}
	value := &s.Fields[len(s.Fields)-1].Value
	if !strings.HasSuffix(*value, `"`) {
		return errors.New("a text continues a value that is not a text")
	}
	*value = strings.TrimSuffix(*value, `"`) + f.Value[1:]
	return nil
}

func newField(path string, value []byte) (Field, error) {
	text, err := canon.Canonicalize(value)
	return Field{path, string(text)}, err
}

// pathEnd finds the colon after a path, whose names may be quoted.
func pathEnd(l string) int {
	quoted := false
	for i := 0; i < len(l); i++ {
		switch {
		case quoted && l[i] == '\\':
			i++
		case l[i] == '"':
			quoted = !quoted
		case !quoted && l[i] == ':':
			return i
		}
	}
	return -1
}
