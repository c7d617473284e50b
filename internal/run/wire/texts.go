package wire

import "strconv"

// A TextPiece is one piece of a text that grows over several events.
type TextPiece struct {
	Event int
	Leaf  *Node
	Place string // which text it is a piece of
}

// GrowingTexts groups the strings of all events by where they stand: the type
// of the event, the indexes that it names, the path. Strings of one group are
// pieces of one text, in a stream of any of the APIs.
func GrowingTexts(events []Event) [][]TextPiece {
	groups := map[string]int{}
	var texts [][]TextPiece
	var walk func(event int, n *Node, place string)
	walk = func(event int, n *Node, place string) {
		switch n.Kind {
		case '"':
			at, ok := groups[place]
			if !ok {
				at = len(texts)
				groups[place] = at
				texts = append(texts, nil)
			}
			texts[at] = append(texts[at], TextPiece{event, n, place})
		case '[':
			for i := range n.List {
				index := strconv.Itoa(i)
				if v := n.List[i].Get("index"); v != nil {
					index = v.Text
				}
				walk(event, &n.List[i], place+"/"+index)
			}
		case '{':
			for i := range n.List {
				name := n.List[i].Name
				if !isNaming(name) && name != "item_id" && name != "model" && name != "object" && name != "obfuscation" {
					walk(event, &n.List[i], place+"/"+name)
				}
			}
		}
	}
	for i := range events {
		data := &events[i].Data
		place := data.Str("type")
		for _, name := range []string{"index", "output_index", "content_index", "summary_index"} {
			if v := data.Get(name); v != nil {
				place += "," + v.Text
			} else {
				place += ","
			}
		}
		walk(i, data, place)
	}
	return texts
}
