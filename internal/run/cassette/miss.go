package cassette

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// A Miss is a request that no recording answers. It is an error, and a refusal
// of the name CassetteMiss.
type Miss struct {
	Request Request

	// Equal is how many recordings have exactly this request. If it is not
	// zero, all of them have been used, and the fields below are empty.
	Equal int

	// Nearest is the recording most like the request, -1 if there is none of
	// its kind. Path is the first field in which they differ, as in
	// messages[2].content; Asked and Recorded are the beginnings of both
	// values from where they differ, safe to print, "nothing" for a field that
	// is not there.
	Nearest         int
	Path            string
	Asked, Recorded string

	nearest *Interaction
}

// Error says what was asked, what is recorded, and that nothing else will be
// tried.
func (m *Miss) Error() string {
	what := m.Request.Describe()
	switch {
	case m.Equal > 0:
		return fmt.Sprintf("%s: asked for time %d, recorded %d times (replay does not go to the network)", what, m.Equal+1, m.Equal)
	case m.Nearest < 0:
		return fmt.Sprintf("%s: no call of this kind is recorded (replay does not go to the network)", what)
	}
	return fmt.Sprintf("%s: not recorded; nearest is interaction %d, %s, which differs first at %s: asked %s, recorded %s (replay does not go to the network)",
		what, m.Nearest+1, plain.Line(m.nearest.Describe()), m.Path, m.Asked, m.Recorded)
}

// Told is what the caller may be told. It has nothing of what is recorded: a
// caller that may see a recording gets it by asking as it was asked.
func (m *Miss) Told() string {
	return m.Request.Describe() + ": not recorded, and a replay does not go to the network"
}

// Unwrap gives the refusal, so that refusal.Of and errors.As find it.
func (m *Miss) Unwrap() error {
	hint := `make the agent ask as it did when the cassette was recorded, or record the missing call with "tally record CLASS --target TARGET --only-missing"`
	if m.Equal > 0 {
		hint = `the agent repeats a call more often than when the cassette was recorded; find out why, or record the further calls with "tally record CLASS --target TARGET --only-missing"`
	}
	return refusal.Newf(refusal.CassetteMiss, "%s", m.Error()).WithHint("%s", hint)
}

// miss explains why nothing was found. Time does not matter any more: the case
// is over.
func (p *Player) miss(r Request) *Miss {
	m := &Miss{Request: r, Equal: len(p.byKey[r.Key]), Nearest: -1}
	if m.Equal > 0 {
		return m
	}
	// What normalisers leave out is not what they differ in.
	var n *normaliser
	if p.matching != nil && len(p.matching.All()) > 0 {
		n = newNormaliser(p.matching.All(), p.matching.given())
	}
	asked := r.it.fields(n)
	best := -1
	for i := range p.own.interactions {
		it := &p.own.interactions[i]
		if !it.sameKind(&r.it) {
			continue
		}
		recorded := it.fields(n)
		if score := likeness(&asked, &recorded); score > best {
			best, m.Nearest, m.nearest = score, p.own.places[i], it
		}
	}
	if m.nearest != nil {
		recorded := m.nearest.fields(n)
		m.Path, m.Asked, m.Recorded = firstDifference("", &asked, &recorded)
	}
	return m
}

func (it *Interaction) sameKind(other *Interaction) bool {
	return (it.Model != nil) == (other.Model != nil) && (it.Tool != nil) == (other.Tool != nil) && (it.HTTP != nil) == (other.HTTP != nil)
}

// fields is the canonical request as a tree, with what else is in the key.
func (it *Interaction) fields(by *normaliser) wire.Node {
	switch {
	case it.Model != nil:
		n := wire.ParseCanonical(string(it.Model.Request))
		if by != nil {
			by.request(it.Model.API, &n)
		}
		n.Set("api", wire.StringNode(string(it.Model.API)))
		return n
	case it.HTTP != nil:
		return wire.ParseCanonical(string(it.HTTP.Request))
	case it.Tool != nil:
		return wire.ObjectNode("name", wire.StringNode(it.Tool.Name), "arguments", wire.ParseCanonical(string(it.Tool.Arguments)))
	}
	n := wire.ObjectNode("server", wire.StringNode(it.MCP.Server), "method", wire.StringNode(it.MCP.Method))
	if it.MCP.Params != nil {
		n.Set("params", wire.ParseCanonical(string(it.MCP.Params)))
	}
	return n
}

// likeness counts what two requests share: a point for each equal field, and
// for lists, such as messages, one for each equal element from the start.
func likeness(a, b *wire.Node) int {
	score := 0
	for i := range a.Members() {
		mine := &a.List[i]
		name := mine.Name
		other := b.Get(name)
		switch {
		case other == nil:
		case mine.Kind == '[' && other.Kind == '[':
			for j := 0; j < min(len(mine.List), len(other.List)) && equalNodes(&mine.List[j], &other.List[j]); j++ {
				score++
			}
			if len(mine.List) == len(other.List) {
				score++
			}
		case mine.Kind == '{' && other.Kind == '{':
			score += likeness(mine, other)
		case equalNodes(mine, other):
			score++
			if name == "name" || name == "method" || name == "host" || name == "path" || name == "api" || name == "model" {
				score += 3 // the same tool with other arguments is nearer than the reverse
			}
		}
	}
	return score
}

func equalNodes(a, b *wire.Node) bool {
	if a.Kind != b.Kind || a.Text != b.Text || len(a.List) != len(b.List) {
		return false
	}
	for i := range a.List {
		if a.Kind == '{' && a.List[i].Name != b.List[i].Name || !equalNodes(&a.List[i], &b.List[i]) {
			return false
		}
	}
	return true
}

// firstDifference finds the first place, in the order of the canonical text,
// where two requests differ.
func firstDifference(path string, asked, recorded *wire.Node) (where, a, r string) {
	if asked == nil || recorded == nil || asked.Kind != recorded.Kind || asked.Kind != '{' && asked.Kind != '[' {
		a, r = heads(asked, recorded)
		return path, a, r
	}
	if asked.Kind == '[' {
		for i := range max(len(asked.List), len(recorded.List)) {
			var mine, theirs *wire.Node
			if i < len(asked.List) {
				mine = &asked.List[i]
			}
			if i < len(recorded.List) {
				theirs = &recorded.List[i]
			}
			if mine == nil || theirs == nil || !equalNodes(mine, theirs) {
				return firstDifference(path+"["+strconv.Itoa(i)+"]", mine, theirs)
			}
		}
		return path, "", ""
	}
	for i := range asked.List {
		mine := &asked.List[i]
		if theirs := recorded.Get(mine.Name); theirs == nil || !equalNodes(mine, theirs) {
			return firstDifference(joinPath(path, mine.Name), mine, theirs)
		}
	}
	for i := range recorded.List {
		if theirs := &recorded.List[i]; asked.Get(theirs.Name) == nil {
			return firstDifference(joinPath(path, theirs.Name), nil, theirs)
		}
	}
	return path, "", ""
}

func joinPath(path, name string) string {
	name = wire.Head(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

// heads shows two values that differ. Of long texts it shows where they begin
// to differ, since their beginnings may be the same for pages.
func heads(a, b *wire.Node) (string, string) {
	if a == nil || b == nil || a.Kind != '"' || b.Kind != '"' {
		return headOf(a), headOf(b)
	}
	same := 0
	for same < min(len(a.Text), len(b.Text)) && a.Text[same] == b.Text[same] {
		same++
	}
	if same <= wire.HeadBytes/2 {
		return headOf(a), headOf(b)
	}
	from := same - wire.HeadBytes/4
	for !utf8.RuneStart(a.Text[from]) {
		from--
	}
	cut := func(n *wire.Node) string {
		return fmt.Sprintf("…%s (from byte %d)", quoteHead(n.Text[from:]), from)
	}
	return cut(a), cut(b)
}

func headOf(n *wire.Node) string {
	switch {
	case n == nil:
		return "nothing"
	case n.Kind == '"':
		return quoteHead(n.Text)
	}
	return wire.Head(string(n.AppendJSON(nil)))
}

func quoteHead(s string) string { return `"` + wire.Head(s) + `"` }
