//go:build unix

package bench

import (
	"syscall"
	"testing"

	"tallystick/internal/record/refusal"
)

// A named pipe would make a reader wait for ever.
func TestVerifyRefusesPipes(t *testing.T) {
	for _, name := range []string{"bench/greet/cases/hard/input/pipe", "cassettes/greet/greeting.cassette.zst"} {
		f := newFixture(t)
		f.must(syscall.Mkfifo(f.path(name), 0o644))
		f.refuses(refusal.BenchTreeInvalid, "greet", "pipe")
	}
}
