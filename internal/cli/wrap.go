package cli

import (
	"bytes"
	"io"
	"strings"

	"tallystick/internal/read/outline"
)

// onTerminal breaks the lines of text between words if w is a terminal on which they
// would break anyway: a terminal breaks inside of numbers, ids and digests, and then
// "desk.1" over "4" reads as another attempt. In a pipe nothing changes.
func onTerminal(w io.Writer, text []byte) []byte {
	if !isTerminal(w) {
		return text
	}
	_, columns := terminalSize(w)
	return wrap(text, columns)
}

// wrap breaks lines that have more columns between words. What follows is indented to
// where the words of its line began. A word is never broken: a command or a text in
// quotes is one, unless it fills a line, and a word that is longer than a line is left to
// the terminal.
func wrap(text []byte, columns int) []byte {
	if columns < 20 {
		return text
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		body, hasEnd := strings.CutSuffix(line, "\n")
		if width(body) <= columns {
			out.WriteString(line)
			continue
		}
		wrapLine(&out, body, columns)
		if hasEnd {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func wrapLine(out *bytes.Buffer, line string, columns int) {
	margin := strings.Repeat(" ", hanging(line, columns))
	at := 0
	for len(line) > 0 {
		gap := line[:len(line)-len(strings.TrimLeft(line, " "))]
		line = line[len(gap):]
		word := line[:wordEnd(line, columns-len(margin))]
		line = line[len(word):]
		switch {
		case word == "":
		case at == 0, at+len(gap)+width(word) <= columns:
			out.WriteString(gap)
			at += len(gap)
		default:
			out.WriteString("\n" + margin)
			at = len(margin)
		}
		out.WriteString(word)
		at += width(word)
	}
}

// hanging is how far what follows a line is indented: to where the words behind its
// label begin, or two further than the line itself.
func hanging(line string, columns int) int {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	if label, rest, found := strings.Cut(line[begin:], "  "); found && width(label) <= 16 {
		if to := begin + width(label) + 2 + len(rest) - len(strings.TrimLeft(rest, " ")); to <= columns/2 {
			return to
		}
	}
	if label, _, found := strings.Cut(line[begin:], " "); found && width(label) == labelWidth-1 {
		return begin + labelWidth
	}
	return min(begin+2, columns/2)
}

// labelWidth is that of the labels of answers, such as "attempt  ".
const labelWidth = 9

// wordEnd is where the first word of a text ends: at a space outside of quotes.
func wordEnd(text string, most int) int {
	end := strings.IndexByte(text, ' ')
	if end < 0 {
		return len(text)
	}
	open := strings.IndexByte(text[:end], '"')
	if open < 0 || strings.Count(text[:end], `"`)%2 == 0 {
		return end
	}
	shut := strings.IndexByte(text[end:], '"')
	if shut < 0 {
		return end
	}
	whole := end + shut + 1
	if next := strings.IndexByte(text[whole:], ' '); next >= 0 {
		whole += next
	} else {
		whole = len(text)
	}
	if width(text[:whole]) > most {
		return end
	}
	return whole
}

// width counts the columns of a text, without the characters that are styles.
func width(text string) int {
	n := 0
	for _, r := range text {
		if !isStyle(r) {
			n += outline.Width(string(r))
		}
	}
	return n
}
