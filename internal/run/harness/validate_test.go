package harness

import (
	"testing"
	"time"

	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
)

// A case may ask for no more and no less than the sandbox gives: what verifies
// must not be refused in the middle of an attempt.
func TestLimitsOfACaseAreThoseOfTheSandbox(t *testing.T) {
	for _, tt := range []struct {
		name           string
		bench, sandbox int64
	}{
		{"longest", bench.MaxRubricSeconds, int64(sandbox.MaxTimeout / time.Second)},
		{"default time", bench.DefaultRubricSeconds, int64(sandbox.DefaultTimeout / time.Second)},
		{"least memory", bench.MinRubricMemoryBytes, sandbox.MinMemoryBytes},
		{"most memory", bench.MaxRubricMemoryBytes, sandbox.MaxMemoryBytes},
		{"default memory", bench.DefaultRubricMemoryBytes, sandbox.DefaultMemoryBytes},
	} {
		if tt.bench != tt.sandbox {
			t.Errorf("%s: a case has %d, the sandbox %d", tt.name, tt.bench, tt.sandbox)
		}
	}
}
