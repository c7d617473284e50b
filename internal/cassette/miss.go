package cassette

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"tallystick/internal/plain"
	"tallystick/internal/refusal"
)

// headBytes is how much of a value a message shows.
const headBytes = 120

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
	what := plain.Line(m.Request.it.Describe())
	switch {
	case m.Equal > 0:
		return fmt.Sprintf("%s: asked for time %d, recorded %d times (replay does not go to the network)", what, m.Equal+1, m.Equal)
	case m.Nearest < 0:
		return fmt.Sprintf("%s: no call of this kind is recorded (replay does not go to the network)", what)
	}
	return fmt.Sprintf("%s: not recorded; nearest is interaction %d, %s, which differs first at %s: asked %s, recorded %s (replay does not go to the network)",
		what, m.Nearest+1, plain.Line(m.nearest.Describe()), m.Path, m.Asked, m.Recorded)
}

// Unwrap gives the refusal, so that refusal.Of and errors.As find it.
func (m *Miss) Unwrap() error {
	hint := `make the agent ask as it did when the cassette was recorded, or record the missing call with "tally record --only-missing --unsafe-record"`
	if m.Equal > 0 {
		hint = `the agent repeats a call more often than when the cassette was recorded; find out why, or record the further calls with "tally record --only-missing --unsafe-record"`
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
	asked := r.it.fields()
	best := -1
	for i := range p.cassette.Interactions {
		it := &p.cassette.Interactions[i]
		if !it.sameKind(&r.it) {
			continue
		}
		recorded := it.fields()
		if score := likeness(&asked, &recorded); score > best {
			best, m.Nearest, m.nearest = score, i, it
		}
	}
	if m.nearest != nil {
		recorded := m.nearest.fields()
		m.Path, m.Asked, m.Recorded = firstDifference("", &asked, &recorded)
	}
	return m
}

func (it *Interaction) sameKind(other *Interaction) bool {
	return (it.Model != nil) == (other.Model != nil) && (it.Tool != nil) == (other.Tool != nil)
}

// fields is the canonical request as a tree, with what else is in the key.
func (it *Interaction) fields() node {
	switch {
	case it.Model != nil:
		n := parseCanonical(string(it.Model.Request))
		n.set("api", stringNode(string(it.Model.API)))
		return n
	case it.Tool != nil:
		return objectNode("name", stringNode(it.Tool.Name), "arguments", parseCanonical(string(it.Tool.Arguments)))
	}
	n := objectNode("server", stringNode(it.MCP.Server), "method", stringNode(it.MCP.Method))
	if it.MCP.Params != nil {
		n.set("params", parseCanonical(string(it.MCP.Params)))
	}
	return n
}

// likeness counts what two requests share: a point for each equal field, and
// for lists, such as messages, one for each equal element from the start.
func likeness(a, b *node) int {
	score := 0
	for i := range a.members() {
		mine := &a.list[i]
		name := mine.name
		other := b.get(name)
		switch {
		case other == nil:
		case mine.kind == '[' && other.kind == '[':
			for j := 0; j < min(len(mine.list), len(other.list)) && equalNodes(&mine.list[j], &other.list[j]); j++ {
				score++
			}
			if len(mine.list) == len(other.list) {
				score++
			}
		case mine.kind == '{' && other.kind == '{':
			score += likeness(mine, other)
		case equalNodes(mine, other):
			score++
			if name == "name" || name == "method" || name == "api" || name == "model" {
				score += 3 // the same tool with other arguments is nearer than the reverse
			}
		}
	}
	return score
}

func equalNodes(a, b *node) bool {
	if a.kind != b.kind || a.text != b.text || len(a.list) != len(b.list) {
		return false
	}
	for i := range a.list {
		if a.kind == '{' && a.list[i].name != b.list[i].name || !equalNodes(&a.list[i], &b.list[i]) {
			return false
		}
	}
	return true
}

// firstDifference finds the first place, in the order of the canonical text,
// where two requests differ.
func firstDifference(path string, asked, recorded *node) (where, a, r string) {
	if asked == nil || recorded == nil || asked.kind != recorded.kind || asked.kind != '{' && asked.kind != '[' {
		a, r = heads(asked, recorded)
		return path, a, r
	}
	if asked.kind == '[' {
		for i := range max(len(asked.list), len(recorded.list)) {
			var mine, theirs *node
			if i < len(asked.list) {
				mine = &asked.list[i]
			}
			if i < len(recorded.list) {
				theirs = &recorded.list[i]
			}
			if mine == nil || theirs == nil || !equalNodes(mine, theirs) {
				return firstDifference(path+"["+strconv.Itoa(i)+"]", mine, theirs)
			}
		}
		return path, "", ""
	}
	for i := range asked.list {
		mine := &asked.list[i]
		if theirs := recorded.get(mine.name); theirs == nil || !equalNodes(mine, theirs) {
			return firstDifference(joinPath(path, mine.name), mine, theirs)
		}
	}
	for i := range recorded.list {
		if theirs := &recorded.list[i]; asked.get(theirs.name) == nil {
			return firstDifference(joinPath(path, theirs.name), nil, theirs)
		}
	}
	return path, "", ""
}

func joinPath(path, name string) string {
	name = head(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

// heads shows two values that differ. Of long texts it shows where they begin
// to differ, since their beginnings may be the same for pages.
func heads(a, b *node) (string, string) {
	if a == nil || b == nil || a.kind != '"' || b.kind != '"' {
		return headOf(a), headOf(b)
	}
	same := 0
	for same < min(len(a.text), len(b.text)) && a.text[same] == b.text[same] {
		same++
	}
	if same <= headBytes/2 {
		return headOf(a), headOf(b)
	}
	from := same - headBytes/4
	for !utf8.RuneStart(a.text[from]) {
		from--
	}
	cut := func(n *node) string {
		return fmt.Sprintf("…%s (from byte %d)", quoteHead(n.text[from:]), from)
	}
	return cut(a), cut(b)
}

func headOf(n *node) string {
	switch {
	case n == nil:
		return "nothing"
	case n.kind == '"':
		return quoteHead(n.text)
	}
	return head(string(n.appendJSON(nil)))
}

// head shortens a text and makes it safe to print.
func head(s string) string {
	if len(s) > headBytes {
		cut := headBytes
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return plain.Line(s)
}

func quoteHead(s string) string { return `"` + head(s) + `"` }
