package otel

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"tallystick/internal/share/foreign"
)

// A spanTree is the spans of one trace.
type spanTree struct {
	id    [16]byte
	nodes []*node // in the order of their start
	begin uint64
}

// storiesOf groups spans: those of one conversation together, whichever trace they
// are in, and apart from those of another conversation in the same trace; those of
// which nothing says to which conversation they belong by their trace. Stories are in
// the order in which they begin. Log records go to their spans; stray is how many have
// none.
func storiesOf(in *Batch) (list []*story, stray int) {
	trees, stray := treesOf(in)
	byKey := map[string]*story{}
	for _, tree := range trees {
		for _, n := range tree.nodes {
			// A zero byte keeps a conversation apart from a trace of the same name.
			key, id := "\x00"+string(tree.id[:]), hex.EncodeToString(tree.id[:])
			if n.traceName != "" {
				id = n.traceName
			}
			if n.conversation != "" {
				key, id = n.conversation, n.conversation
			}
			t := byKey[key]
			if t == nil {
				t = &story{id: id}
				byKey[key] = t
				list = append(list, t)
			}
			t.last = tree.id
			t.nodes = append(t.nodes, n)
			if p := n.parentNode; p != nil && p.conversation != n.conversation {
				n.parentNode = nil // of another story
			}
		}
	}
	for _, t := range list {
		slices.SortStableFunc(t.nodes, func(a, b *node) int { return cmp.Compare(a.start, b.start) })
		t.begin = firstStart(t.nodes)
	}
	slices.SortStableFunc(list, func(a, b *story) int { return cmp.Compare(a.begin, b.begin) })
	return list, stray
}

// firstStart is the first time that is known.
func firstStart(nodes []*node) uint64 {
	for _, n := range nodes {
		if n.start > 0 {
			return n.start
		}
	}
	return 0
}

// treesOf groups spans by trace, in the order in which the traces begin, and finds
// parents and conversations.
func treesOf(in *Batch) (list []*spanTree, stray int) {
	byID := map[[16]byte]*spanTree{}
	type key struct {
		trace [16]byte
		span  [8]byte
	}
	bySpan := map[key]*node{}
	for i := range in.spans {
		s := &in.spans[i]
		t := byID[s.trace]
		if t == nil {
			t = &spanTree{id: s.trace}
			byID[s.trace] = t
			list = append(list, t)
		}
		k := key{s.trace, s.id}
		if known := bySpan[k]; known != nil {
			known.twice++
			continue
		}
		n := &node{span: s}
		bySpan[k] = n
		t.nodes = append(t.nodes, n)
	}
	for i := range in.logs {
		l := &in.logs[i]
		n := bySpan[key{l.trace, l.span}]
		if n == nil {
			stray++
			continue
		}
		n.events = append(n.events, l.event)
	}
	for _, t := range list {
		slices.SortStableFunc(t.nodes, func(a, b *node) int { return cmp.Compare(a.start, b.start) })
		t.begin = firstStart(t.nodes)
		for _, n := range t.nodes {
			p := bySpan[key{t.id, n.parent}]
			n.orphan = p == nil && n.parent != [8]byte{}
			n.circular = p == n
			if p != nil && p != n {
				n.parentNode = p
				p.children = append(p.children, n)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *spanTree) int { return cmp.Compare(a.begin, b.begin) })
	next := 0
	for _, t := range list {
		next = t.grow(next)
		t.findConversations()
	}
	return list, stray
}

// grow numbers the tree. Spans that name each other as parents hang from no root;
// the first of them becomes one.
func (t *spanTree) grow(next int) int {
	plant := func(n *node) {
		// A stack of its own: a hostile file can be as deep as it is long.
		type frame struct {
			n     *node
			child int
		}
		stack := []frame{{n, 0}}
		n.visited, n.enter = true, next
		next++
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.child == len(f.n.children) {
				f.n.leave = next
				next++
				stack = stack[:len(stack)-1]
				continue
			}
			c := f.n.children[f.child]
			f.child++
			if !c.visited {
				c.visited, c.enter = true, next
				next++
				stack = append(stack, frame{c, 0})
			}
		}
	}
	for _, n := range t.nodes {
		if n.parentNode == nil {
			plant(n)
		}
	}
	for _, n := range t.nodes {
		if !n.visited {
			n.circular = true
			n.parentNode = nil
			plant(n)
		}
	}
	return next
}

// findConversations says of each span to which conversation it belongs. Exporters put
// the id on every span, on the first, or on some: a span belongs to the conversation
// that it names, else to that of the nearest span around it that names one, else to
// the only one that is named within the nearest span around it that has some.
func (t *spanTree) findConversations() {
	named := t.namedConversations()
	if named == nil {
		return
	}
	down := slices.SortedFunc(slices.Values(t.nodes), func(a, b *node) int { return a.enter - b.enter })
	// What is named within a span: nothing, one conversation, or several.
	const several = "\x00"
	within := map[*node]string{}
	join := func(a, b string) string {
		switch {
		case a == "" || a == b:
			return b
		case b == "":
			return a
		}
		return several
	}
	whole := ""
	for _, n := range slices.Backward(down) {
		within[n] = join(within[n], named[n])
		if p := n.parentNode; p != nil {
			within[p] = join(within[p], within[n])
		} else {
			whole = join(whole, within[n])
		}
	}
	nearest := map[*node]string{}
	for _, n := range down {
		n.conversation, nearest[n] = named[n], within[n]
		if p := n.parentNode; p != nil {
			if n.conversation == "" && named[p] != "" {
				// Below a span that names one, others may be named, and stay apart.
				named[n], n.conversation = named[p], named[p]
			}
			if nearest[n] == "" {
				nearest[n] = nearest[p]
			}
		}
		if nearest[n] == "" {
			nearest[n] = whole
		}
		if n.conversation == "" && nearest[n] != several {
			n.conversation = nearest[n]
		}
	}
}

// namedConversations reads the ids of the conversations of a trace by span, nil if it
// has none. A blank id is none.
func (t *spanTree) namedConversations() map[*node]string {
	for _, name := range foreign.ConversationNames {
		var named map[*node]string
		for _, n := range t.nodes {
			if id := n.attrs.text(name); strings.TrimSpace(id) != "" {
				if named == nil {
					named = map[*node]string{}
				}
				named[n] = id
			}
		}
		if named != nil {
			return named
		}
	}
	return nil
}
