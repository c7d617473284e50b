package cli

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A style is how a word of ours is shown on a terminal. In the text that a command
// writes it is a control character before the word and one after it; [paint], at
// the one place where answers leave, makes colours of them or takes them out.
// Whatever comes from outside went through package plain, which leaves no control
// character, so only we can colour anything.
type style rune

// The styles. The numbers must not be those of tabs and line breaks.
const (
	good style = iota + 1
	bad
	doubtful
	heading
	unstyled        // for a word in a column in which others have a style
	endOfStyle rune = 0x0e
)

// codes are those of ECMA-48 that every terminal of forty years knows.
var codes = [...]string{good: "\x1b[32m", bad: "\x1b[31m", doubtful: "\x1b[33m", heading: "\x1b[1m", unstyled: ""}

const plainAgain = "\x1b[0m"

// of puts text into a style.
func (s style) of(text string) string {
	if text == "" {
		return ""
	}
	return string(rune(s)) + text + string(endOfStyle)
}

// paint makes colours of styles, or takes them out.
func paint(text []byte, color bool) []byte {
	if !bytes.ContainsFunc(text, isStyle) {
		return text
	}
	out := make([]byte, 0, len(text)+256)
	for _, c := range text { // no byte of a longer character is one of these
		switch {
		case !isStyle(rune(c)):
			out = append(out, c)
		case !color:
		case rune(c) == endOfStyle:
			out = append(out, plainAgain...)
		default:
			out = append(out, codes[c]...)
		}
	}
	return out
}

func isStyle(r rune) bool { return r == endOfStyle || r >= rune(good) && r <= rune(unstyled) }

// outcomeText is an outcome in the colour that people expect.
func outcomeText(outcome string) string {
	switch evidence.Outcome(outcome) {
	case evidence.Passed:
		return good.of(outcome)
	case evidence.Failed, evidence.Errored:
		return bad.of(outcome)
	}
	return doubtful.of(outcome)
}

// verdictText is one of two words, in its colour.
func verdictText(met bool, yes, no string) string {
	if met {
		return good.of(yes)
	}
	return bad.of(no)
}

// divergenceText writes a divergence: what was expected behind a minus, what came
// behind a plus, as in a diff.
func divergenceText(out io.Writer, divergence, margin string) {
	for line := range strings.Lines(divergence) {
		line = plain.Line(strings.TrimRight(line, "\n"))
		switch rest := strings.TrimLeft(line, " "); {
		case strings.HasPrefix(rest, "- "):
			line = bad.of(line)
		case strings.HasPrefix(rest, "+ "):
			line = good.of(line)
		}
		io.WriteString(out, margin+line+"\n")
	}
}

// fit writes text to out, and shortens lines that would break on the terminal
// that the answer goes to. In a pipe nothing is left out.
func fit(env *Env, out io.Writer, text string) {
	if !isTerminal(env.Stdout) {
		io.WriteString(out, text)
		return
	}
	_, columns := terminalSize(env.Stdout)
	for line := range strings.Lines(text) {
		io.WriteString(out, shorten(strings.TrimSuffix(line, "\n"), columns)+"\n")
	}
}

// shorten cuts a line to so many columns. It counts characters: what takes two
// columns, as in Chinese, may still break.
func shorten(line string, columns int) string {
	shown, open := 0, false
	for i, r := range line {
		switch {
		case r == endOfStyle:
			open = false
			continue
		case isStyle(r):
			open = true
			continue
		}
		if shown++; shown == columns && strings.TrimRight(line[i+utf8.RuneLen(r):], " \x0e") != "" {
			line = strings.TrimRight(line[:i], " ") + "…"
			if open {
				line += string(endOfStyle)
			}
			return line
		}
	}
	return line
}
