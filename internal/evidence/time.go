package evidence

import (
	"fmt"
	"time"
)

// timeLayout has exactly three decimals and always the letter Z, so that equal
// times have equal bytes and the text sorts as the times do.
const timeLayout = "2006-01-02T15:04:05.000Z"

const timeTextLen = len(timeLayout)

// Time is a point in time in hashed documents: UTC, whole milliseconds.
type Time struct{ t time.Time }

// At returns t in UTC, cut to whole milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// ParseTime reads the one accepted spelling, as in 2026-05-12T14:00:00.000Z.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil || t.Format(timeLayout) != s {
		return Time{}, fmt.Errorf("%q is not a time as in 2026-05-12T14:00:00.000Z", s)
	}
	return Time{t.UTC()}, nil
}

// Go returns the time as the standard library has it.
func (t Time) Go() time.Time { return t.t }

// IsZero reports whether no time was set.
func (t Time) IsZero() bool { return t.t.IsZero() }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t.t.Before(u.t) }

// Date is the UTC day, as in 2026-05-12.
func (t Time) Date() string { return t.t.Format(time.DateOnly) }

func (t Time) String() string { return t.t.Format(timeLayout) }

func (t Time) appendText(dst []byte) []byte { return t.t.AppendFormat(dst, timeLayout) }

// MarshalText writes the one accepted spelling.
func (t Time) MarshalText() ([]byte, error) {
	if y := t.t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("year %d has no spelling of four digits", y)
	}
	return t.appendText(nil), nil
}

// UnmarshalText reads the one accepted spelling.
func (t *Time) UnmarshalText(text []byte) error {
	var err error
	*t, err = ParseTime(string(text))
	return err
}
