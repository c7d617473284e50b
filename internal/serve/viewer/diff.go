package viewer

import (
	"strings"
	"unicode"
)

// A change is a run of words or lines that both texts have ("same"), or only the
// first ("minus") or the second ("plus").
type change struct{ Class, Text string }

// maxEdits bounds the search for the shortest way from one text to the other. What
// differs more is shown as all gone and all new.
const maxEdits = 600

// diff finds a short way from a to b: Myers, "An O(ND) Difference Algorithm" (1986).
func diff(a, b []string) []change {
	pre := 0
	for pre < len(a) && pre < len(b) && a[pre] == b[pre] {
		pre++
	}
	post := 0
	for post < len(a)-pre && post < len(b)-pre && a[len(a)-1-post] == b[len(b)-1-post] {
		post++
	}
	var out []change
	add := func(class string, parts []string) {
		for _, p := range parts {
			out = append(out, change{class, p})
		}
	}
	add("same", a[:pre])
	out = append(out, shortest(a[pre:len(a)-post], b[pre:len(b)-post])...)
	add("same", a[len(a)-post:])
	return out
}

func shortest(a, b []string) []change {
	var trail [][]int
	limit := min(len(a)+len(b), maxEdits)
	v := make([]int, 2*limit+3)
	for d := 0; d <= limit; d++ {
		trail = append(trail, append([]int(nil), v...))
		for k := -d; k <= d; k += 2 {
			x := step(v, k, d, limit)
			for y := x - k; x < len(a) && y < len(b) && a[x] == b[y]; y++ {
				x++
			}
			if v[limit+1+k] = x; x >= len(a) && x-k >= len(b) {
				return walkBack(a, b, trail, limit)
			}
		}
	}
	var out []change
	for _, s := range a {
		out = append(out, change{"minus", s})
	}
	for _, s := range b {
		out = append(out, change{"plus", s})
	}
	return out
}

// step is where the path on diagonal k goes on from: down from the one above, or
// right from the one below.
func step(v []int, k, d, limit int) int {
	if k == -d || k != d && v[limit+k] < v[limit+2+k] {
		return v[limit+2+k]
	}
	return v[limit+k] + 1
}

func walkBack(a, b []string, trail [][]int, limit int) []change {
	var back []change
	x, y := len(a), len(b)
	for d := len(trail) - 1; d >= 0; d-- {
		v, k := trail[d], x-y
		before := k - 1
		if k == -d || k != d && v[limit+k] < v[limit+2+k] {
			before = k + 1
		}
		px := v[limit+1+before]
		py := px - before
		for x > px && y > py && x > 0 && y > 0 && a[x-1] == b[y-1] {
			x, y = x-1, y-1
			back = append(back, change{"same", a[x]})
		}
		if d == 0 {
			break
		}
		if before == k+1 {
			y--
			back = append(back, change{"plus", b[y]})
		} else {
			x--
			back = append(back, change{"minus", a[x]})
		}
	}
	out := make([]change, len(back))
	for i, c := range back {
		out[len(back)-1-i] = c
	}
	return out
}

// wordDiff compares two texts word by word, and joins neighbours.
func wordDiff(a, b string) []change {
	var out []change
	for _, c := range diff(splitWords(Text(a)), splitWords(Text(b))) {
		if n := len(out); n > 0 && out[n-1].Class == c.Class {
			out[n-1].Text += c.Text
			continue
		}
		out = append(out, c)
	}
	return out
}

// splitWords cuts a text into words and what stands between them.
func splitWords(s string) []string {
	var out []string
	start, inWord := 0, false
	for i, r := range s {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		if i > start && (word != inWord || !word) {
			out = append(out, s[start:i])
			start = i
		}
		inWord = word
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// contextLines is how many lines around a change are shown.
const contextLines = 4

// lineDiff compares two texts line by line, and leaves out what is far from a
// change.
func lineDiff(a, b string) []diffLine {
	all := diff(strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n"))
	near := make([]bool, len(all))
	for i, c := range all {
		if c.Class != "same" {
			for k := max(0, i-contextLines); k <= min(len(all)-1, i+contextLines); k++ {
				near[k] = true
			}
		}
	}
	sign := map[string]string{"same": "  ", "plus": "+ ", "minus": "- "}
	var out []diffLine
	for i, c := range all {
		switch {
		case len(out) == maxDiffLines:
			return append(out, diffLine{"", "… more"})
		case near[i]:
			class := c.Class
			if class == "same" {
				class = ""
			}
			out = append(out, diffLine{class, sign[c.Class] + Text(c.Text)})
		case i > 0 && near[i-1]:
			out = append(out, diffLine{"", "…"})
		}
	}
	return out
}
