package plain

import (
	"fmt"
	"strings"
)

// Entities spells everything of a text that HTML or Markdown could read as an order, a
// link or a mention as an entity, which is text in both; a line's end becomes <br>. The
// text is made visible by [Line] or [Block] before.
func Entities(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString("<br>")
		case strings.ContainsRune(" ,()-", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}
