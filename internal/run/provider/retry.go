package provider

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of trying again, those of the official clients but for the number.
const (
	maxRetries = 4 // of one call, unless the settings say
	firstWait  = 500 * time.Millisecond
	longWait   = 8 * time.Second
	maxWait    = time.Minute // a provider that asks for more is not waited for
)

// A Retry is one try that did not succeed and is made again.
type Retry struct {
	Number int // of this call, from 1
	Reason string
	Wait   time.Duration
}

// retryable reports whether a status may be another one at the next try. 529 is
// one provider's "overloaded". The provider has the last word.
func retryable(status int, h http.Header) bool {
	switch h.Get("x-should-retry") {
	case "true":
		return status >= 400
	case "false":
		return false
	}
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

// waitFor is how long to wait before a try, and false if that is too long. The
// provider's own wish comes first: Retry-After in seconds or as a date (RFC
// 9110 section 10.2.3), or retry-after-ms.
func waitFor(number int, h http.Header, now time.Time) (time.Duration, bool) {
	if wish, ok := wished(h, now); ok {
		return wish, wish <= maxWait
	}
	return min(firstWait<<(number-1), longWait), true
}

func wished(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("retry-after-ms")), 64); err == nil && ms >= 0 {
		return saturated(ms, time.Millisecond), true
	}
	text := strings.TrimSpace(h.Get("retry-after"))
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 {
		return saturated(s, time.Second), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

// saturated keeps an absurd number from becoming a negative duration.
func saturated(n float64, unit time.Duration) time.Duration {
	if n > float64(24*time.Hour/unit) {
		return 24 * time.Hour
	}
	return time.Duration(n * float64(unit))
}

// sleep waits, or returns early with the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
