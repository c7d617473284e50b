package wire

import (
	"strconv"
	"strings"
)

// drawnPrefixes begin the ids that the providers of the first three APIs, and
// their SDKs, draw at random. Clients mix them, so the three share the list; it
// is part of the match key, and does not grow. An API that draws ids of another
// kind has its own list. An id with another beginning is renumbered as "id_".
var drawnPrefixes = []string{"call_", "chatcmpl-", "fc_", "mcp_", "mcpr_", "msg_", "resp_", "rs_", "srvtoolu_", "toolu_"}

// minVolatileLen is how long an id must be to be replaced inside text, too. A
// short one such as call_1 may be a word of the text.
const minVolatileLen = 12

// renumber replaces the ids of messages, calls and replies by numbers in the
// order of first appearance, so that two requests that differ in nothing but
// drawn ids are equal, and a result still belongs to its call. Ids are known
// by where they stand. Long ones that are mentioned in text as well are
// replaced there; a text that merely looks like an id is left alone.
func renumber(r *row, n *Node) {
	places := r.ids(n)
	if len(places) == 0 {
		return
	}
	ids := numbering{prefixes: r.idPrefixes}
	before := make([]string, len(places))
	for i, id := range places {
		ids.add(id)
		before[i] = id.Text
	}
	ids.replaceInText(n)
	// By the id that was there before: a number may be another id's old text.
	for i, id := range places {
		id.Text = ids.numbers[before[i]]
	}
}

// appendMembers adds the strings under some names.
func appendMembers(list []*Node, owner *Node, names ...string) []*Node {
	for _, name := range names {
		if id := owner.Get(name); id != nil && id.Kind == '"' && id.Text != "" {
			list = append(list, id)
		}
	}
	return list
}

// A numbering maps each id to its number, counted for each prefix apart.
type numbering struct {
	prefixes []string
	numbers  map[string]string
	used     map[string]int
}

func (ids *numbering) add(id *Node) {
	if _, known := ids.numbers[id.Text]; known {
		return
	}
	if ids.numbers == nil {
		ids.numbers, ids.used = map[string]string{}, map[string]int{}
	}
	prefix := ids.prefix(id.Text)
	ids.used[prefix]++
	ids.numbers[id.Text] = prefix + strconv.Itoa(ids.used[prefix])
}

func (ids *numbering) prefix(id string) string {
	for _, p := range ids.prefixes {
		if strings.HasPrefix(id, p) {
			return p
		}
	}
	return "id_"
}

// replaceInText rewrites mentions of long ids in every string.
func (ids *numbering) replaceInText(n *Node) {
	long := map[string]bool{} // prefixes of ids that may be replaced in text
	for id := range ids.numbers {
		if p := ids.prefix(id); p != "id_" && len(id) >= minVolatileLen && isIDText(id) {
			long[p] = true
		}
	}
	for _, p := range ids.prefixes {
		if long[p] {
			ids.replacePrefix(n, p)
		}
	}
}

func (ids *numbering) replacePrefix(n *Node, prefix string) {
	if n.Kind == '"' {
		n.Text = ids.replaceAll(n.Text, prefix)
		return
	}
	for i := range n.List {
		ids.replacePrefix(&n.List[i], prefix)
	}
}

func (ids *numbering) replaceAll(text, prefix string) string {
	var out strings.Builder
	rest := text
	for {
		at := strings.Index(rest, prefix)
		if at < 0 {
			break
		}
		end := at + len(prefix)
		for end < len(rest) && isIDByte(rest[end]) {
			end++
		}
		id := rest[at:end]
		number, known := ids.numbers[id]
		if !known || len(id) < minVolatileLen || at > 0 && isIDByte(rest[at-1]) {
			number = id
		}
		out.WriteString(rest[:at])
		out.WriteString(number)
		rest = rest[end:]
	}
	if out.Len() == 0 {
		return text
	}
	out.WriteString(rest)
	return out.String()
}

func isIDText(s string) bool {
	for i := range len(s) {
		if !isIDByte(s[i]) {
			return false
		}
	}
	return true
}

func isIDByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
