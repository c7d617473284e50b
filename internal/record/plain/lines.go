package plain

import (
	"strconv"
	"strings"
)

// Lines returns s as it is written, line by line, each made safe: the first as
// [Line] has it, the others behind margin. With a margin of our own no line of s
// can pose as one of ours.
func Lines(s, margin string) string {
	first, rest, more := strings.Cut(strings.TrimRight(s, "\n"), "\n")
	if !more {
		return Line(first)
	}
	var b strings.Builder
	b.WriteString(Line(first))
	for line := range strings.SplitSeq(rest, "\n") {
		b.WriteByte('\n')
		b.WriteString(margin)
		// Tracebacks of some languages are indented with tabs.
		b.WriteString(Line(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "    ")))
	}
	return b.String()
}

// Shorter leaves out lines in the middle of s, so that the first and the last few
// are left, and says how many. It makes nothing safe.
func Shorter(s string, last int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	missing := len(lines) - 1 - last
	if missing < 2 {
		return s
	}
	return lines[0] + "\n… " + strconv.Itoa(missing) + " lines left out …\n" + strings.Join(lines[1+missing:], "\n")
}

// Gist returns s as one line: all of it if it is one, else its first line and its
// last. Those of a traceback are what happened and the exception.
func Gist(s string) string {
	s = strings.TrimSpace(s)
	first, rest, more := strings.Cut(s, "\n")
	if !more {
		return Line(s)
	}
	return Line(strings.TrimSpace(first)) + " … " + Line(strings.TrimSpace(rest[strings.LastIndexByte(rest, '\n')+1:]))
}
