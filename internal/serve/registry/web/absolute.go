package web

import (
	"bytes"
	"slices"
	"sync"
)

// linked are the members of a row that hold an address. The registry keeps
// addresses without a host, since it may move; answers have them in full.
var linked = []string{`"credential"`, `"decisionReceipt"`, `"receipt"`}

// absoluteRows writes rows as one array, with full addresses. Only the members of
// the rows themselves are touched, never what an agent proposed inside of them.
func absoluteRows[T ~[]byte](rows []T, base string) []byte {
	size := 2
	for _, row := range rows {
		size += len(row) + 1 + len(linked)*len(base)
	}
	out := append(make([]byte, 0, size), '[')
	for i, row := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendAbsolute(out, row, base)
	}
	return append(out, ']', '\n')
}

// appendAbsolute copies the canonical JSON of an object. Canonical JSON has no
// white space, so a name of the object itself begins right after its { or one of
// its commas.
func appendAbsolute(out, row []byte, base string) []byte {
	depth, copied := 0, 0
	for i := 0; i < len(row); i++ {
		switch row[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := endOfString(row, i)
			isName := depth == 1 && end < len(row) && row[end] == ':'
			if isName && slices.Contains(linked, string(row[i:end])) && bytes.HasPrefix(row[end:], []byte(`:"/`)) {
				out = append(append(out, row[copied:end+2]...), base...)
				copied = end + 2
			}
			i = end - 1
		}
	}
	return append(out, row[copied:]...)
}

// endOfString gives where a string ends that begins at i.
func endOfString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// maxPages bounds how many rendered pages are kept.
const maxPages = 256

// pages keeps rendered pages of lists, by address and tag: a tag that has changed
// is another page.
type pages struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (p *pages) get(name string, render func() []byte) []byte {
	p.mu.Lock()
	body := p.kept[name]
	p.mu.Unlock()
	if body != nil {
		return body
	}
	body = render()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.kept) >= maxPages || p.kept == nil {
		p.kept = make(map[string][]byte, maxPages) // what is asked for often is soon back
	}
	p.kept[name] = body
	return body
}
