package evidence

import (
	"fmt"
	"strings"
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
// Every entry that is verified comes here, and the standard library's reader of
// any layout took a sixth of the time of all the rest.
func ParseTime(s string) (Time, error) {
	if t, ok := readTime(s); ok {
		return Time{t}, nil
	}
	// A copy, so that who reads a time that is right needs no memory for it.
	return Time{}, fmt.Errorf("%q is not a time as in 2026-05-12T14:00:00.000Z", strings.Clone(s))
}

func readTime(s string) (t time.Time, ok bool) {
	if len(s) != timeTextLen || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' || s[23] != 'Z' {
		return t, false
	}
	year, month, day := digits(s[0:4]), digits(s[5:7]), digits(s[8:10])
	hour, minute, second, milli := digits(s[11:13]), digits(s[14:16]), digits(s[17:19]), digits(s[20:23])
	if year < 1 || month < 1 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || milli < 0 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, milli*int(time.Millisecond), time.UTC)
	return t, int(t.Month()) == month && t.Day() == day // or there is no such day
}

// digits reads a number; -1 if something in it is not a digit.
func digits(s string) int {
	v := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		v = v*10 + int(c-'0')
	}
	return v
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
