package cli

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/gate"
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
func verdictText(ok bool, yes, no string) string {
	if ok {
		return good.of(yes)
	}
	return bad.of(no)
}

// stateText is the word for what was decided, in its colour, in capitals unless all is
// well.
func stateText(d interface {
	State() gate.State
	Word() string
}) string {
	loud := strings.ToUpper(d.Word())
	return stateWord(d.State(), d.Word(), loud, loud)
}

// stateWord is the word for a state, in its colour.
func stateWord(s gate.State, met, notMet, notDecided string) string {
	switch s {
	case gate.IsMet:
		return good.of(met)
	case gate.IsNotDecided:
		return doubtful.of(notDecided)
	}
	return bad.of(notMet)
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

// wholeWords is a line up to i, without a word with digits that would be cut there: a
// part of a number or of an id reads as another one. A word that fills the line is cut.
func wholeWords(line string, i int) string {
	begin := strings.LastIndexByte(line[:i], ' ')
	word, _, _ := strings.Cut(line[begin+1:], " ")
	if begin < 0 || i-begin-1 >= len(word) || !strings.ContainsAny(word, "0123456789") {
		return line[:i]
	}
	return line[:begin]
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
			line = strings.TrimRight(wholeWords(line, i), " ") + "…"
			if open {
				line += string(endOfStyle)
			}
			return line
		}
	}
	return line
}
