package cassette

import (
	"strconv"
	"strings"
)

// idPrefixes begin the ids that providers and SDKs draw at random. An id with
// another beginning is renumbered as "id_".
var idPrefixes = []string{"call_", "chatcmpl-", "fc_", "mcp_", "mcpr_", "msg_", "resp_", "rs_", "srvtoolu_", "toolu_"}

// minVolatileLen is how long an id must be to be replaced inside text, too. A
// short one such as call_1 may be a word of the text.
const minVolatileLen = 12

// renumber replaces the ids of messages, calls and replies by numbers in the
// order of first appearance, so that two requests that differ in nothing but
// drawn ids are equal, and a result still belongs to its call. Ids are known
// by where they stand. Long ones that are mentioned in text as well are
// replaced there; a text that merely looks like an id is left alone.
func renumber(api API, n *node) {
	var ids numbering
	type place struct {
		node *node
		id   string
	}
	var places []place
	visitIDs(api, n, func(id *node) {
		ids.add(id)
		places = append(places, place{id, id.text})
	})
	if len(places) == 0 {
		return
	}
	ids.replaceInText(n)
	// By the id that was there before: a number may be another id's old text.
	for _, p := range places {
		p.node.text = ids.numbers[p.id]
	}
}

// visitIDs calls f for every string of a request that stands where an id
// stands.
func visitIDs(api API, n *node, f func(*node)) {
	visit := func(owner *node, names ...string) {
		for _, name := range names {
			if id := owner.get(name); id != nil && id.kind == '"' && id.text != "" {
				f(id)
			}
		}
	}
	switch api {
	case OpenAIChat:
		for i := range n.items("messages") {
			m := &n.items("messages")[i]
			visit(m, "id")
			for j := range m.items("tool_calls") {
				visit(&m.items("tool_calls")[j], "id")
			}
			visit(m, "tool_call_id")
		}
	case OpenAIResponses:
		for i := range n.items("input") {
			visit(&n.items("input")[i], "id", "call_id", "approval_request_id")
		}
		visit(n, "previous_response_id")
	case AnthropicMessages:
		for i := range n.items("messages") {
			m := &n.items("messages")[i]
			for j := range m.items("content") {
				visit(&m.items("content")[j], "id", "tool_use_id")
			}
		}
	}
}

// A numbering maps each id to its number, counted for each prefix apart.
type numbering struct {
	numbers map[string]string
	used    map[string]int
}

func (ids *numbering) add(id *node) {
	if _, known := ids.numbers[id.text]; known {
		return
	}
	if ids.numbers == nil {
		ids.numbers, ids.used = map[string]string{}, map[string]int{}
	}
	prefix := idPrefix(id.text)
	ids.used[prefix]++
	ids.numbers[id.text] = prefix + strconv.Itoa(ids.used[prefix])
}

func idPrefix(id string) string {
	for _, p := range idPrefixes {
		if strings.HasPrefix(id, p) {
			return p
		}
	}
	return "id_"
}

// replaceInText rewrites mentions of long ids in every string.
func (ids *numbering) replaceInText(n *node) {
	long := map[string]bool{} // prefixes of ids that may be replaced in text
	for id := range ids.numbers {
		if p := idPrefix(id); p != "id_" && len(id) >= minVolatileLen && isIDText(id) {
			long[p] = true
		}
	}
	for _, p := range idPrefixes {
		if long[p] {
			ids.replacePrefix(n, p)
		}
	}
}

func (ids *numbering) replacePrefix(n *node, prefix string) {
	if n.kind == '"' {
		n.text = ids.replaceAll(n.text, prefix)
		return
	}
	for i := range n.list {
		ids.replacePrefix(&n.list[i], prefix)
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
