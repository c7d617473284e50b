package wire

import "slices"

// CountMessages counts the messages of a request, which the responses API calls
// input and takes as one text too.
func CountMessages(n *Node) int {
	if list := n.Items("messages"); len(list) > 0 {
		return len(list)
	}
	input := n.Get("input")
	switch {
	case input == nil:
		return 0
	case input.Kind == '[':
		return len(input.List)
	}
	return 1
}

// Canonicalize drops what does not count for the match of a request, and
// renumbers ids, in place. A field that nobody here has heard of counts. The
// API must be known.
func Canonicalize(api API, n *Node) {
	d := api.must()
	list := d.irrelevant()
	n.Drop(func(name string, value *Node) bool {
		if value.Kind == 'n' {
			return true // an SDK spells "not set" either way
		}
		for _, unwanted := range list {
			if name == unwanted {
				return true
			}
		}
		return false
	})
	for _, list := range []string{"messages", "input"} {
		for i := range n.Items(list) {
			n.Items(list)[i].Drop(isNull)
		}
	}
	d.strip(n)
	renumber(d, n)
}

// NotMatched lists what the match of a request ignores: members that do not
// count, and the beginnings of ids that are drawn at random. The API must be
// known.
func NotMatched(api API) []string {
	d := api.must()
	return slices.Concat(d.irrelevant(), d.idPrefixes())
}

func isNull(_ string, value *Node) bool { return value.Kind == 'n' }
