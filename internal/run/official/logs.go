package official

import (
	"encoding/json"
	"errors"
	"strings"
)

// compileTerminalBench scores the log of a task's tests. The case expects nothing but
// that they pass.
func compileTerminalBench(expected []byte) (func(string) Verdict, error) {
	var want string
	if err := json.Unmarshal(expected, &want); err != nil || want != "resolved" {
		return nil, errors.New(`expected the text "resolved"`)
	}
	return func(log string) Verdict { return terminalBench(log) }, nil
}

var pytestSummary = lazily(`(?i)=+` + pythonSpace + `*short test summary info` + pythonSpace + `*=+`)

// terminalBench reads the lines behind the first summary of pytest. Lines that it does
// not understand are dropped, so that a summary without any, or in colour, is resolved.
func terminalBench(log string) Verdict {
	at := pytestSummary().FindStringIndex(log)
	if at == nil {
		return Verdict{false, "", "the log has no short test summary info"}
	}
	results := map[string]bool{}
	for _, line := range splitLines(log[at[1]:]) {
		if strings.HasPrefix(line, "FAILED") {
			if i := strings.LastIndex(line, " - "); i >= 0 {
				line = line[:i]
			}
		}
		status, rest := cutWord(line)
		name := pythonStrip(rest)
		if _, after, ok := strings.Cut(name, "::"); ok {
			name = after
		}
		if name == "" {
			continue
		}
		switch strings.Trim(status, ":") {
		case "PASSED", "XFAIL", "SKIPPED":
			results[name] = true
		case "FAILED", "XPASS", "ERROR":
			results[name] = false
		}
	}
	for name, ok := range results {
		if !ok {
			return Verdict{false, "", "the test " + quote(name) + " did not pass"}
		}
	}
	if len(results) == 0 {
		return Verdict{true, "", "the summary names no test, which counts as resolved"}
	}
	return Verdict{true, "", "all tests of the summary pass"}
}

// splitLines cuts as Python's splitlines does.
func splitLines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
	})
}

// cutWord cuts off the first word, as Python's split does with one cut.
func cutWord(line string) (word, rest string) {
	line = strings.TrimLeftFunc(line, isPythonSpace)
	i := strings.IndexFunc(line, isPythonSpace)
	if i < 0 {
		return line, ""
	}
	return line[:i], line[i:]
}

// simpleQAReply reads the reply of the grader of SimpleQA: the first A, B or C anywhere,
// and C if there is none. "CORRECT" is therefore C, not attempted.
func simpleQAReply(reply string) string {
	if i := strings.IndexAny(reply, "ABC"); i >= 0 {
		return reply[i : i+1]
	}
	return "C"
}

func compileSimpleQA(expected []byte) (func(string) Verdict, error) {
	want, err := textOf(expected)
	if err != nil || want != "A" && want != "B" && want != "C" {
		return nil, errors.New("expected A, B or C")
	}
	return func(reply string) Verdict {
		took := simpleQAReply(reply)
		return verdict(took, took == want)
	}, nil
}
