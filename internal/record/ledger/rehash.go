package ledger

import (
	"bytes"

	"tallystick/internal/record/digest"
)

// Rehash does what a forger without a key can do: it edits entries and
// recomputes every check value that is a plain hash. Demos and tests use it to
// show that the seals still refuse the result.
func Rehash(origin string, lines [][]byte, edit func(entry []byte) []byte) [][]byte {
	chain := NewChain(origin)
	out := make([][]byte, 0, len(lines))
	for _, l := range lines {
		_, text, err := splitLine(bytes.TrimSuffix(l, []byte{'\n'}))
		if err != nil {
			out = append(out, l)
			continue
		}
		if isSeal(text) {
			line := append(appendSealCheck(nil, chain.head, text), ' ')
			out = append(out, append(append(line, text...), '\n'))
			continue
		}
		entry := edit(bytes.Clone(text))
		pos := chain.Append(digest.ContentOf(entry))
		out = append(out, AppendEntryLine(nil, entry, pos.Head))
	}
	return out
}
