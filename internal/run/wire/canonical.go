package wire

// CountMessages counts the messages of a request. One text in their place is
// one. The API must be known.
func CountMessages(api API, n *Node) int {
	list := n.Get(api.must().list)
	switch {
	case list == nil || list.Kind == 'n':
		return 0
	case list.Kind == '[':
		return len(list.List)
	}
	return 1
}

// Canonicalize drops what does not count for the match of a request, and
// renumbers ids, in place. An unknown field counts. The
// API must be known.
func Canonicalize(api API, n *Node) {
	r := api.must()
	n.Drop(func(name string, value *Node) bool {
		if value.Kind == 'n' {
			return true // an SDK spells "not set" either way
		}
		for _, unwanted := range r.irrelevant {
			if name == unwanted {
				return true
			}
		}
		return false
	})
	for _, list := range []string{"messages", "input", r.list} {
		for i := range n.Items(list) {
			n.Items(list)[i].Drop(isNull)
		}
	}
	if r.strip != nil {
		r.strip(n)
	}
	renumber(r, n)
}

func isNull(_ string, value *Node) bool { return value.Kind == 'n' }
