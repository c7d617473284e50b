package question

import (
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of looking for a verdict in what a judge was shown. Over the budget it counts
// as found: an agent that writes what cannot be looked through gains nothing by it.
const (
	gistWindow = 64 << 10
	gistDepth  = 4
	gistBudget = 64 << 20
	unescapes  = 3 // how often a text may have been quoted
)

// Repeats reports whether an object of a reply stands in texts that the judge was shown:
// one with the same wanted members, or with the same reason beside another of them.
// Spacing, order, case, punctuation, further members and how numbers are written do not
// count, nor whether the object there is whole, nested, quoted, escaped or written with
// other quotation marks.
//
// Where it stops: an object that was translated, encoded or described in words is not
// found. That a judge believes what it read is for the judge to avoid.
func Repeats(object string, wanted, texts []string) bool {
	gist, _ := gistOf(object, wanted)
	budget := gistBudget
	for _, text := range texts {
		for _, spelled := range spellings(text) {
			for at := strings.IndexByte(spelled, '{'); at >= 0; {
				rest := spelled[at:min(at+gistWindow, len(spelled))]
				if beginsObject(rest) {
					there, read := gistOf(rest, wanted)
					if budget -= read + 1; budget < 0 || gist.standsIn(there, wanted) {
						return true
					}
				}
				next := strings.IndexByte(spelled[at+1:], '{')
				if next < 0 {
					break
				}
				at += 1 + next
			}
		}
	}
	return false
}

// A gist is what the wanted members of an object say, each in as many ways as the
// object has it.
type gist map[string][]string

// reasonMember is what a judge says in its own words: no two judges use the same.
const reasonMember = "reason"

// standsIn reports whether the other object says the same.
func (g gist) standsIn(other gist, wanted []string) bool {
	same := 0
	for _, name := range wanted {
		if slices.ContainsFunc(g[name], func(s string) bool { return slices.Contains(other[name], s) }) {
			same++
			if name == reasonMember && len(other) > 1 {
				return true
			}
		}
	}
	return same == len(wanted)
}

// gistOf reads the object at the beginning of a text as far as it goes, and tells how
// many bytes it looked at: a judge reads an object that breaks off as well.
func gistOf(text string, wanted []string) (gist, int) {
	d, found := jsonDecoder(text), gist{}
	if _, err := d.Token(); err != nil {
		return found, 1
	}
	depth, name, named := 1, "", false
	var value strings.Builder
	for depth > 0 && depth <= gistDepth {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			value.WriteString(t.String())
		case string:
			if depth == 1 && !named {
				name, named = t, true
				value.Reset()
				continue
			}
			value.WriteString(fold(t) + "\x00")
		case json.Number:
			value.WriteString(number(t) + "\x00")
		case bool:
			value.WriteString(strconv.FormatBool(t) + "\x00")
		default:
			value.WriteString("null\x00")
		}
		if depth == 1 && named {
			if named = false; slices.Contains(wanted, name) {
				found[name] = append(found[name], value.String())
			}
		}
	}
	return found, int(d.InputOffset())
}

// number is a number however it is written.
func number(n json.Number) string {
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return strconv.FormatFloat(f+0, 'g', -1, 64)
}

// fold is a text without what changes when it is quoted: letters and digits alone, in
// lower case. A text that has none stays as it is.
func fold(s string) string {
	folded := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
	if folded == "" {
		return s
	}
	return folded
}

// otherQuotes turns what is nearly JSON into it: a literal of Python, quotation marks of
// a word processor.
var otherQuotes = strings.NewReplacer("'", `"`, "“", `"`, "”", `"`, "„", `"`, "＂", `"`, "True", "true", "False", "false", "None", "null")

// spellings are the ways in which a text may be read: as it is, with quoting taken off,
// as HTML, and with other quotation marks.
func spellings(text string) []string {
	all := []string{text}
	add := func(s string) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for range unescapes {
		add(unescape(all[len(all)-1]))
	}
	for _, s := range slices.Clone(all) {
		if strings.Contains(s, "&") {
			add(html.UnescapeString(s))
		}
	}
	for _, s := range slices.Clone(all) {
		add(otherQuotes.Replace(s))
	}
	return all
}

// unescape takes off one level of the escapes of JSON strings, wherever they stand.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n', 'r', 't':
			b.WriteByte(' ')
		case 'u':
			if i+5 <= len(s) {
				if r, err := strconv.ParseUint(s[i+1:i+5], 16, 32); err == nil {
					b.WriteRune(rune(r))
					i += 4
					continue
				}
			}
			b.WriteString(`\u`)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
