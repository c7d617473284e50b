package sandbox

import (
	"bytes"
	"fmt"
	"strings"

	"tallystick/internal/run/sandbox/firstprocess"
)

// What is kept of a program's standard error: what led to a failure stands at the
// beginning, and the exception of a traceback at its end.
const (
	stderrHeadBytes = 4 << 10
	stderrTailBytes = 4 << 10
	maxStderr       = stderrHeadBytes + stderrTailBytes + 100 // with what says how much is missing
)

// looseEnd is how much is dropped on each side of a cut that is not between two
// lines. Half of a secret has no shape by which it could be redacted; no secret
// that we know of is longer or goes over a line.
const looseEnd = 512

// ends joins the beginning and the end of a text of total bytes. Where something
// is missing between them, lines that are not whole are dropped.
func ends(head, tail []byte, total int64) string {
	if missing := total - int64(len(head)) - int64(len(tail)); missing <= 0 {
		return firstprocess.HeadString(append(bytes.Clone(head), tail...))
	}
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		head = head[:i]
	} else {
		head = head[:max(0, len(head)-looseEnd)]
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < len(tail)-1 {
		tail = tail[i+1:]
	} else {
		tail = tail[min(len(tail), looseEnd):]
	}
	missing := total - int64(len(head)) - int64(len(tail))
	return firstprocess.HeadString(head) + fmt.Sprintf("\n… %d bytes left out …\n", missing) + strings.ToValidUTF8(string(tail), "\uFFFD")
}

// A lastBytes keeps the end of what is written to it.
type lastBytes struct {
	keep  int
	bytes []byte
}

func (l *lastBytes) write(p []byte) {
	l.bytes = append(l.bytes, p...)
	if n := len(l.bytes); n > 4*l.keep {
		l.bytes = append([]byte(nil), l.bytes[n-l.keep:]...)
	}
}

func (l *lastBytes) end() []byte { return l.bytes[max(0, len(l.bytes)-l.keep):] }
