package cassette

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gapToken stands for a run of white space, however long. A single blank becomes
// one too, so that white space that the case gives stays different from it.
const gapToken = "␣"

// A gap is white space between two words.
type gap struct{ before, space, after string }

// withoutGaps makes all white space the same, and drops it at both ends, except
// where the case has the same white space between the same words: there the
// indentation of a program may be what is asked about.
func (g *given) withoutGaps(s string) string {
	var out strings.Builder
	kept := 0
	eachGap(s, func(start, end int, x gap) {
		if g.gaps[x] {
			return
		}
		out.WriteString(s[kept:start])
		if start > 0 && end < len(s) {
			out.WriteString(gapToken)
		}
		kept = end
	})
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

func (g *given) noteGaps(s string) {
	eachGap(s, func(_, _ int, x gap) { g.gaps[x] = true })
}

// eachGap finds runs of white space with the words beside them. A gap that was
// replaced before ends a word as well.
func eachGap(s string, found func(start, end int, x gap)) {
	word := 0 // where the word before began
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case strings.HasPrefix(s[i:], gapToken):
			i += size
			word = i
		case !unicode.IsSpace(r):
			i += size
		default:
			end := i + size
			for end < len(s) {
				r, size := utf8.DecodeRuneInString(s[end:])
				if !unicode.IsSpace(r) {
					break
				}
				end += size
			}
			found(i, end, gap{s[word:i], s[i:end], wordAt(s, end)})
			word, i = end, end
		}
	}
}

// wordAt is the word that begins at i. Each byte is looked at once more here than
// in the walk: what follows a gap is the word before the next.
func wordAt(s string, i int) string {
	for end := i; end < len(s); {
		r, size := utf8.DecodeRuneInString(s[end:])
		if unicode.IsSpace(r) || strings.HasPrefix(s[end:], gapToken) {
			return s[i:end]
		}
		end += size
	}
	return s[i:]
}
