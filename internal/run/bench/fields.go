package bench

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/seal"
)

// timeLayout is the one spelling of a time in these files: UTC, to the second.
const timeLayout = "2006-01-02T15:04:05Z"

// Time is a point in time in a case: UTC, whole seconds, one spelling.
type Time struct{ t time.Time }

// At returns t in UTC, cut to whole seconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Second)} }

// Go returns the time as the standard library has it.
func (t Time) Go() time.Time { return t.t }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t.t.Before(u.t) }

func (t Time) String() string { return t.t.Format(timeLayout) }

// MarshalText writes the one accepted spelling.
func (t Time) MarshalText() ([]byte, error) {
	if y := t.t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("year %d has no spelling of four digits", y)
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads the one accepted spelling.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(timeLayout, string(text))
	if err != nil || parsed.Format(timeLayout) != string(text) {
		return fmt.Errorf("found %.40q, expected a time as in 2026-05-12T14:00:00Z", text)
	}
	t.t = parsed.UTC()
	return nil
}

// oneOf checks a word from a closed list.
func oneOf[T ~string](path string, found T, allowed ...T) error {
	if slices.Contains(allowed, found) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	return badField(path, "found %.80q, expected %s", string(found), strings.Join(words, ", "))
}

func fieldAt(list string, i int) string { return fmt.Sprintf("%s.%d", list, i) }

func bannedError(name, word string) error {
	return fmt.Errorf("the name %q contains %q, which no score may claim", name, word)
}

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// checkRunnerKey accepts an SSH public key as in a .pub file.
func checkRunnerKey(k string) error {
	_, err := seal.ParsePublicKey([]byte(k))
	return err
}
