package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Host gives the one spelling of a host: a name in lower case without the dot at its
// end, or an address as netip writes it. Whatever an URL library somewhere takes for an
// address, as 0x7f.1, 2130706433 or 0177.0.0.1, is not a name, and is refused.
func Host(text string) (string, error) {
	host := strings.ToLower(text)
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return "", fmt.Errorf("the host %.80q is not an address", text)
		}
		host = inner
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", fmt.Errorf("the host %.80q has a zone", text)
		}
		return addr.Unmap().String(), nil
	}
	host = strings.TrimSuffix(host, ".")
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", fmt.Errorf("the host %.80q is not a name of letters, digits and dashes; write one of other letters in its xn-- form", text)
		}
	}
	if len(host) > 253 || isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("the host %.80q is neither a name nor an address as it is written, four numbers of 0 to 255 or IPv6", text)
	}
	return host, nil
}

func isLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// isNumber reports whether a label makes an address of a host, by the rule of the WHATWG:
// the last one is decimal, or hexadecimal behind 0x.
func isNumber(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// Path gives the one spelling of a path: letters, digits, dashes, dots, underscores and
// tildes are not escaped, and escapes are in upper case. One that servers could take for
// another path is refused.
func Path(text string) (string, error) {
	if text == "" || text[0] != '/' {
		return "", errors.New("the path does not begin with a slash")
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '%':
			v, err := strconv.ParseUint(text[min(i+1, len(text)):min(i+3, len(text))], 16, 8)
			if err != nil || i+3 > len(text) {
				return "", errors.New("the path has a % that begins no escape")
			}
			c, i = byte(v), i+2
			switch {
			case c == '/' || c == '\\' || c == 0 || c == '%':
				return "", fmt.Errorf("the path hides %q in an escape", c)
			case isUnreserved(c):
				b.WriteByte(c)
			default:
				fmt.Fprintf(&b, "%%%02X", c)
			}
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"<>^`{|}#?", c) >= 0:
			return "", fmt.Errorf("the path has %q, which is not written as it is", c)
		default:
			b.WriteByte(c)
		}
	}
	clean := b.String()
	for _, segment := range strings.Split(clean, "/") {
		// Servers of Java take what follows a semicolon off a segment.
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return "", errors.New("the path has a . or .. segment")
		}
	}
	return clean, nil
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// HostPort reads HOST:PORT, in which the port may be left out.
func HostPort(text string, usual int) (host string, port int, err error) {
	hostText, portText := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && i > strings.LastIndexByte(text, ']') {
		hostText, portText = text[:i], text[i+1:]
		if strings.Contains(hostText, ":") && !strings.HasPrefix(hostText, "[") {
			return "", 0, fmt.Errorf("the host %.80q is an IPv6 address without brackets", text)
		}
		if portText == "" {
			return "", 0, fmt.Errorf("%.80q has an empty port", text)
		}
	}
	port = usual
	if portText != "" {
		n, err := strconv.ParseUint(portText, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != portText {
			return "", 0, fmt.Errorf("%.80q has no port of 1 to 65535", text)
		}
		port = int(n)
	}
	host, err = Host(hostText)
	return host, port, err
}

// Place is a host with its port, unless that is the usual one of the scheme.
func Place(scheme, host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == usualPort[scheme] {
		return host
	}
	return host + ":" + strconv.Itoa(port)
}

// URL writes where a request goes, without its query.
func URL(scheme, host string, port int, path string) string {
	return scheme + "://" + Place(scheme, host, port) + path
}
