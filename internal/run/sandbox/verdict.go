package sandbox

import (
	"strings"
	"unicode"
)

// verdictOf judges how a rubric ended. What we did to it comes first, then
// what its status says.
func verdictOf(e ending, python bool) Result {
	r := Result{Verdict: e.verdict, ExitCode: e.exit, Stdout: e.stdout, StderrHead: e.stderr, MaxRSS: e.maxRSS}
	switch {
	case r.Verdict != "":
	case e.exit == 0:
		r.Verdict = OK
	case python && diedOfMemory(e.stderr):
		r.Verdict = OOM
	case !python && (e.exit == starlarkNoMemory || goDiedOfMemory(e)):
		r.Verdict = OOM
	case !python && e.exit == starlarkNoSteps:
		r.Verdict = Timeout
	case e.exit > 128:
		r.Verdict = Killed
	default:
		r.Verdict = Failed
	}
	return r
}

// diedOfMemory recognises Python's last words after a refused allocation. A
// rubric could print them itself; it would fail either way.
func diedOfMemory(stderr string) bool {
	lines := strings.Split(strings.TrimRightFunc(stderr, unicode.IsSpace), "\n")
	return strings.HasPrefix(lines[len(lines)-1], "MemoryError")
}

// goDiedOfMemory recognises the end of our interpreter when the system
// refused it memory before it noticed by itself. Status 2 is the runtime's
// own; the rubric cannot choose a status.
func goDiedOfMemory(e ending) bool {
	return e.exit == 2 && (strings.Contains(e.stderr, "out of memory") || strings.Contains(e.stderr, "cannot allocate memory"))
}
