package wire

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
)

// DrawnPrefixes begin the ids that providers draw at random.
func DrawnPrefixes() []string { return slices.Clone(drawnPrefixes) }

// notTexts are members of messages whose strings are not what a party said:
// names and kinds, and bytes in another spelling.
var notTexts = map[string]bool{"role": true, "type": true, "name": true, "id": true, "model": true, "status": true, "phase": true,
	"call_id": true, "tool_call_id": true, "tool_use_id": true, "item_id": true, "approval_request_id": true, "server_label": true,
	"data": true, "file_data": true, "file_id": true, "media_type": true, "signature": true, "encrypted_content": true, "image_url": true, "url": true}

// VisitTexts shows every text of a request that a party said or wrote: those of
// the messages, of the system prompt, and the descriptions of tools. Model names,
// roles, ids, schemas and sampling are not among them. The API must be known.
func VisitTexts(api API, n *Node, visit func(text *Node)) {
	r := api.must()
	spoken := r.spoken()
	for i := range n.Members() {
		switch m := &n.List[i]; {
		case slices.Contains(spoken, m.Name):
			r.visitTexts(m, visit)
		case m.Name == cmp.Or(r.toolOwner, "tools"):
			visitDescriptions(m, visit)
		}
	}
}

func (r *row) visitTexts(n *Node, visit func(*Node)) {
	if n.Kind == '"' && !strings.HasPrefix(n.Text, "data:") {
		visit(n)
	}
	for i := range n.List {
		if name := n.List[i].Name; n.Kind != '{' || !notTexts[name] && !slices.Contains(r.notTexts, name) {
			r.visitTexts(&n.List[i], visit)
		}
	}
}

func visitDescriptions(n *Node, visit func(*Node)) {
	for i := range n.List {
		m := &n.List[i]
		if n.Kind == '{' && m.Name == "description" && m.Kind == '"' {
			visit(m)
		} else {
			visitDescriptions(m, visit)
		}
	}
}

// A parallel is a list of calls, or of results, that stand side by side in one
// turn: their order says nothing. ID is the member that joins them.
type parallel struct {
	items  []Node
	id     string
	inside string // the member of an item that has the id and the rest; "" if the item has
}

// of is what an item says, and where its id stands.
func (p *parallel) of(item *Node) *Node {
	if p.inside != "" {
		if m := item.Get(p.inside); m != nil {
			return m
		}
	}
	return item
}

// SortParallel brings the calls of each turn, and the results of these, into one
// order, and numbers ids anew by it. Calls are ordered by what they say and what
// came of them, as key spells that; results follow their calls. The API must be
// known.
func SortParallel(api API, n *Node, key func(text string) string) {
	r := api.must()
	if r.parallel == nil {
		return
	}
	calls, results := r.parallel(n)
	// Hashes, so that many calls may share one large result.
	hash := func(item *Node, id string) [32]byte { return sha256.Sum256([]byte(key(without(item, id)))) }
	came := map[string][32]byte{}
	for _, p := range results {
		for i := range p.items {
			if it := p.of(&p.items[i]); came[it.Str(p.id)] == [32]byte{} {
				came[it.Str(p.id)] = hash(it, p.id)
			}
		}
	}
	rank := map[string]int{}
	for _, p := range calls {
		sortBy(p.items, func(item *Node) [2][32]byte {
			it := p.of(item)
			return [2][32]byte{hash(it, p.id), came[it.Str(p.id)]}
		})
		for i := range p.items {
			if id := p.of(&p.items[i]).Str(p.id); rank[id] == 0 {
				rank[id] = len(rank) + 1
			}
		}
	}
	for _, p := range results {
		slices.SortStableFunc(p.items, func(a, b Node) int {
			return cmp.Compare(rank[p.of(&a).Str(p.id)], rank[p.of(&b).Str(p.id)])
		})
	}
	renumber(r, n)
}

// sortBy orders nodes by a key that is made once for each.
func sortBy(items []Node, key func(*Node) [2][32]byte) {
	if len(items) < 2 {
		return
	}
	type keyed struct {
		key  [2][32]byte
		node Node
	}
	list := make([]keyed, len(items))
	for i := range items {
		list[i] = keyed{key(&items[i]), items[i]}
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		return cmp.Or(bytes.Compare(a.key[0][:], b.key[0][:]), bytes.Compare(a.key[1][:], b.key[1][:]))
	})
	for i := range items {
		items[i] = list[i].node
	}
}

// without is the JSON of an object without its ids.
func without(n *Node, name string) string {
	c := *n
	c.List = slices.Clone(n.List)
	c.Drop(func(member string, _ *Node) bool { return member == name || member == "id" })
	return string(c.AppendJSON(nil))
}

// runsOf cuts out the parts of a list, of two or more, of which is says yes.
func runsOf(items []Node, id string, is func(*Node) bool) (runs []parallel) {
	for i := 0; i < len(items); {
		end := i
		for end < len(items) && is(&items[end]) {
			end++
		}
		if end > i {
			runs = append(runs, parallel{items: items[i:end:end], id: id})
		}
		i = end + 1
	}
	return runs
}

// typed reports whether a node is of one of the types.
func typed(types ...string) func(*Node) bool {
	return func(n *Node) bool { return slices.Contains(types, n.Str("type")) }
}
