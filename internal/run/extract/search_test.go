package extract

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
	"tallystick/internal/run/bounded"
)

// TestMain lets the test binary search in a process of its own, as tally does.
func TestMain(m *testing.M) {
	bounded.Reexec()
	os.Exit(m.Run())
}

// A search is the same here and in a process of its own, and one that is too dear is not
// begun, whatever makes it dear.
func TestSearchesAreBounded(t *testing.T) {
	long := strings.Repeat("ab\xff\u00e9 ", 100_000)
	for _, tt := range []struct {
		pattern, text string
		dear          bool
	}{
		{`b(c)`, long + "bc" + long, false}, {`(ab){1,20}x`, long, false}, {`\A(?:[^x])*(.)\z`, long, false},
		{`(.{0,30}){0,30}x`, long[:200_000], true}, {`(a|b|ab|ba|aab|abb){0,200}x`, long, true}, {`([\pL\pM]?[\pL\pN]?){0,300}!`, long, true}, {`(?i)(\pL?){900}x`, long, true},
	} {
		p, err := pattern.Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Search(t.Context(), p, tt.text)
		var dear *DearError
		if errors.As(err, &dear) != tt.dear || !tt.dear && err != nil {
			t.Errorf("%s: %v, %v", tt.pattern, got, err)
		}
		if !tt.dear && (p.Work(len(tt.text)) <= pattern.Soon || !reflect.DeepEqual(got, p.Find(tt.text))) {
			t.Errorf("%s: in a process %v, here %v", tt.pattern, got, p.Find(tt.text))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := pattern.Compile(`(ab){1,20}x`)
	if _, err := Search(ctx, p, long); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// A pointer costs one reading of the document, however deep it leads: with one reading
// for each level this would take minutes of the tests.
func TestDeepPointersReadOnce(t *testing.T) {
	const depth = canon.MaxDepth - 2
	doc := strings.Repeat(`[{"a":`, depth/2) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`}]`, depth/2)
	names, err := ParsePointer(strings.Repeat("/0/a", depth/2))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if value, ok := Lookup(canon.RawMessage(doc), names); !ok || len(value) != 1<<20+2 {
			t.Fatal(len(value), ok)
		}
	}
	for _, missing := range []string{"/1", "/00", "/-1", "/0/b", "/0/a/0/a/x", "/a", "/0/a/-"} {
		names, err := ParsePointer(missing)
		if value, ok := Lookup(canon.RawMessage(doc), names); ok || err != nil {
			t.Errorf("%s: %.20s, %v", missing, value, err)
		}
	}
}
