package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a request.
const (
	maxHeadBytes   = 64 << 10
	maxHeaderCount = 256
	maxTargetBytes = 16 << 10
	// MaxBodyBytes bounds a body, of a request and of a reply: with what JSON makes of
	// it, a line of a cassette holds it.
	MaxBodyBytes = 4 << 20
)

// A message is the head of a request as it came, of which there is one reading only.
type message struct {
	method, target string
	minor          int // of HTTP/1
	headers        map[string][]string
	length         int64 // of the body; -1 if it is chunked
}

// A malformedError says what is wrong with a request. What stands behind such a head
// cannot be told, so the connection ends.
type malformedError struct{ text string }

func (e *malformedError) Error() string { return e.text }

func bad(format string, args ...any) error { return &malformedError{fmt.Sprintf(format, args...)} }

// readHead reads the head of a request. It is stricter than RFC 9112: what two
// programs could read in two ways is refused, since one of them would be here and the
// other at the server.
func readHead(r *bufio.Reader) (*message, error) {
	first, err := readLine(r, maxTargetBytes+32)
	if err != nil {
		return nil, err
	}
	m := &message{headers: map[string][]string{}}
	if err := m.requestLine(first); err != nil {
		return nil, err
	}
	for total := len(first); ; {
		line, err := readLine(r, maxHeadBytes)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if line == "" {
			return m, m.framing()
		}
		if total += len(line) + 2; total > maxHeadBytes || len(m.headers) >= maxHeaderCount {
			return nil, bad("the head has more than %d bytes or %d headers", maxHeadBytes, maxHeaderCount)
		}
		if err := m.header(line); err != nil {
			return nil, err
		}
	}
}

// readLine reads a line that ends in CR LF, without these.
func readLine(r *bufio.Reader, most int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return "", bad("a line of the head has more than %d bytes", most)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			if len(line) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		break
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return "", bad("a line of the head ends in LF without CR")
	}
	if i := bytes.IndexFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
		return "", bad("the head has the control character %#x", text[i])
	}
	return string(text), nil
}

func (m *message) requestLine(line string) error {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || parts[1] == "" {
		return bad("the first line is %.80q, expected METHOD TARGET HTTP/1.1", line)
	}
	m.method, m.target = parts[0], parts[1]
	switch parts[2] {
	case "HTTP/1.1":
		m.minor = 1
	case "HTTP/1.0":
	default:
		return bad("the first line has the version %.20q; HTTP/1.1 is spoken here, and HTTP/2 is not", parts[2])
	}
	if !isToken(strings.ToLower(m.method)) || strings.ToUpper(m.method) != m.method {
		return bad("the method is %.40q, expected one such as GET", m.method)
	}
	return nil
}

// header reads one line. One that goes on in a second line has no name there.
func (m *message) header(line string) error {
	name, value, ok := strings.Cut(line, ":")
	lower := strings.ToLower(name)
	if !ok || !isToken(lower) {
		return bad("the head has the line %.80q, expected NAME: VALUE", line)
	}
	m.headers[lower] = append(m.headers[lower], strings.Trim(value, " \t"))
	return nil
}

// once gives the value of a header that may be there once at most.
func (m *message) once(name string) (string, error) {
	switch values := m.headers[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", bad("the header %s is there %d times", name, len(m.headers[name]))
}

// framing finds where the body ends.
func (m *message) framing() error {
	length, err := m.once("content-length")
	if err != nil {
		return err
	}
	coding, err := m.once("transfer-encoding")
	if err != nil {
		return err
	}
	if host, err := m.once("host"); err != nil {
		return err
	} else if host == "" && m.minor == 1 {
		return bad("there is no Host")
	}
	switch _, hasLength := m.headers["content-length"]; {
	case coding != "" && hasLength:
		return bad("there are Content-Length and Transfer-Encoding, of which a server could follow either")
	case coding != "" && (m.minor == 0 || !strings.EqualFold(coding, "chunked")):
		return bad("the transfer encoding is %.40q, expected chunked in HTTP/1.1", coding)
	case coding != "":
		m.length = -1
	case hasLength:
		n, err := strconv.ParseUint(length, 10, 62)
		if err != nil || strconv.FormatUint(n, 10) != length {
			return bad("the length is %.40q, expected a number", length)
		}
		m.length = int64(n)
	}
	return nil
}

// body reads the whole body.
func (m *message) body(r *bufio.Reader) ([]byte, error) {
	if m.length > MaxBodyBytes {
		return nil, bad("the body has %d bytes, at most %d are sent", m.length, MaxBodyBytes)
	}
	if m.length >= 0 {
		data := make([]byte, m.length)
		_, err := io.ReadFull(r, data)
		return data, err
	}
	data, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(r), MaxBodyBytes+1))
	if err != nil {
		return nil, bad("the chunks of the body: %v", err)
	}
	if len(data) > MaxBodyBytes {
		return nil, bad("the body has more than %d bytes", MaxBodyBytes)
	}
	// The chunked reader leaves the trailer section. None is passed on.
	if rest, err := readLine(r, maxHeadBytes); err != nil || rest != "" {
		return nil, bad("the body has trailers")
	}
	return data, nil
}

// upgrades reports whether the connection is to become another protocol.
func (m *message) upgrades() bool {
	if len(m.headers["upgrade"]) > 0 || len(m.headers["http2-settings"]) > 0 {
		return true
	}
	return slices.Contains(m.connection(), "upgrade")
}

// connection lists the options of the connection.
func (m *message) connection() []string {
	var options []string
	for _, name := range []string{"connection", "proxy-connection"} {
		for _, value := range m.headers[name] {
			for _, option := range strings.Split(value, ",") {
				options = append(options, strings.ToLower(strings.Trim(option, " \t")))
			}
		}
	}
	return options
}

// persists reports whether another request may follow on the connection.
func (m *message) persists() bool {
	return m.minor == 1 && !slices.Contains(m.connection(), "close")
}

// isToken reports whether a text is a token of RFC 9110 in lower case, as the names of
// headers are.
func isToken(s string) bool {
	return s != "" && len(s) <= 256 && strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	}) < 0
}
