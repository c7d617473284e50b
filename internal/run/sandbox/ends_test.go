package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

func TestEndsKeepBeginningAndException(t *testing.T) {
	var long strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&long, "line %d of a long log\n", i)
	}
	long.WriteString("ValueError: the exception\n")
	secret := strings.Repeat("s", 300)
	for _, tt := range []struct{ name, text, want, never string }{
		{"nothing", "", "", "left out"},
		{"short", "oops\n", "oops\n", "left out"},
		{"just fits", strings.Repeat("x", 8<<10), strings.Repeat("x", 8<<10), "left out"},
		{"long", long.String(), "line 0 of a long log\n", ""},
		{"its end", long.String(), "\nValueError: the exception\n", ""},
		{"says what is missing", long.String(), " bytes left out …\nline ", ""},
		{"a secret across the cut", strings.Repeat("a", 4<<10-150) + secret + strings.Repeat("b", 20<<10), "bytes left out", "ss"},
		{"a secret across the other", strings.Repeat("a", 20<<10) + secret + strings.Repeat("b", 4<<10-150), "bytes left out", "ss"},
		{"not text", strings.Repeat("\xff\n", 9<<10), "\uFFFD", "\xff"},
	} {
		head := []byte(tt.text)[:min(len(tt.text), stderrHeadBytes)]
		last := lastBytes{keep: stderrTailBytes}
		for rest := []byte(tt.text)[len(head):]; len(rest) > 0; {
			n := min(len(rest), 1000)
			last.write(rest[:n])
			rest = rest[n:]
		}
		got := ends(head, last.end(), int64(len(tt.text)))
		if !strings.Contains(got, tt.want) || len(got) > 3*maxStderr || tt.never != "" && strings.Contains(got, tt.never) {
			t.Errorf("%s: %d bytes: %.200q", tt.name, len(got), got)
		}
	}
}
