package schema

import (
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// knownFormats lists the values of format that are checked.
const knownFormats = "date, date-time, email, ipv4, ipv6, time, uri, uuid"

// formatCheck returns the check of a format, nil if there is none.
func formatCheck(name string) func(string) bool {
	switch name {
	case "date":
		return func(s string) bool { return isTime(time.DateOnly, s) }
	case "date-time":
		return isDateTime
	case "email":
		return isEmail
	case "ipv4":
		return func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }
	case "ipv6":
		return func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() && a.Zone() == "" }
	case "time":
		return func(s string) bool { return isDateTime("2006-01-02T" + s) }
	case "uri":
		return isURI
	case "uuid":
		return isUUID
	}
	return nil
}

func isTime(layout, s string) bool {
	_, err := time.Parse(layout, s)
	return err == nil
}

// isDateTime wants RFC 3339, without leap seconds.
func isDateTime(s string) bool {
	s = strings.ToUpper(s)
	// The library takes a comma for the point, and an offset of any size.
	if strings.Contains(s, ",") || !isTime(time.RFC3339Nano, s) {
		return false
	}
	if i := strings.LastIndexAny(s, "+-"); i > len(time.DateOnly) {
		return s[i+1:] < "24:00"
	}
	return true
}

// isEmail wants what people write: one @ between a name without blanks or
// quotes and a domain of labels.
func isEmail(s string) bool {
	name, domain, ok := strings.Cut(s, "@")
	if !ok || name == "" || len(name) > 64 || len(domain) > 255 || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	const marks = "!#$%&'*+-/=?^_`{|}~."
	if !made(name, marks) {
		return false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !made(label, "-") {
			return false
		}
	}
	return true
}

// made reports whether s has only ASCII letters, digits and the given marks.
func made(s, marks string) bool {
	for _, r := range s {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r)) {
			return false
		}
	}
	return true
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && made(s, "-._~:/?#[]@!$&'()*+,;=%")
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !strings.Contains("0123456789abcdefABCDEF", s[i:i+1]) {
			return false
		}
	}
	return true
}
