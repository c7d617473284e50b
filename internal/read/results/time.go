package results

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Moment writes a time in RFC 3339 where its zone is known, and without a zone
// where it is not. Text that is not a time is not known.
func Moment(s string) Known {
	s = strings.TrimSpace(s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999-0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return Known(t.Format(time.RFC3339Nano))
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return Known(t.Format("2006-01-02T15:04:05.999999999"))
		}
	}
	return ""
}

// Epoch is a moment in seconds since 1970, which some files have as a number and
// some in a string.
func Epoch(s string) Known {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f <= 0 || f > 1e11 { // milliseconds would be more
		return ""
	}
	whole, part := math.Modf(f)
	return Known(time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC().Format(time.RFC3339Nano))
}
