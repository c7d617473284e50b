package cassette

import (
	"encoding/base64"
	"strings"
)

// marker begins what stands in place of a secret: [redacted:kind].
const marker = "[redacted:"

func isMarked(s string) bool { return strings.HasPrefix(s, marker) }

// findShapes finds secrets that can be told by how they look. It is one pass
// over the text, written by hand: every request of a replay goes through it,
// and regular expressions would take longer than everything else.
func findShapes(s string, names bool) []span {
	var found []span
	for i := 0; i < len(s); {
		f, ok := shapeAt(s, i, names)
		if !ok {
			i++
			continue
		}
		found = append(found, f)
		i = max(f.end, i+1)
	}
	return found
}

// shapeAt looks for a secret that is announced by the byte at i.
func shapeAt(s string, i int, names bool) (span, bool) {
	switch s[i] {
	case 's', 'r', 'g', 'x', 'h', 'A', 'n', 'p':
		return prefixedAt(s, i)
	case '-':
		return privateKeyAt(s, i)
	case 'e':
		return jwtAt(s, i)
	case 'b', 'B':
		return schemeAt(s, i)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return userinfoAt(s, i+3)
		}
		if names {
			return namedAt(s, i)
		}
	case '=':
		if names {
			return namedAt(s, i)
		}
	}
	return span{}, false
}

// A prefixed is a kind of key that begins with a word of its own.
type prefixed struct {
	prefix string
	kind   string
	least  int // characters after the prefix
	exact  bool
	dashes bool // the key may hold - and _
}

// Longer prefixes stand before their own beginnings.
var prefixes = []prefixed{
	{"sk-ant-", "anthropic-key", 12, false, true},
	{"sk-", "openai-key", 16, false, true},
	{"sk_live_", "stripe-key", 12, false, false},
	{"sk_test_", "stripe-key", 12, false, false},
	{"rk_live_", "stripe-key", 12, false, false},
	{"AKIA", "aws-key", 16, true, false},
	{"ASIA", "aws-key", 16, true, false},
	{"AIza", "google-key", 30, false, true},
	{"ghp_", "github-token", 20, false, false},
	{"gho_", "github-token", 20, false, false},
	{"ghu_", "github-token", 20, false, false},
	{"ghs_", "github-token", 20, false, false},
	{"ghr_", "github-token", 20, false, false},
	{"github_pat_", "github-token", 20, false, true},
	{"glpat-", "gitlab-token", 16, false, true},
	{"xoxb-", "slack-token", 10, false, true},
	{"xoxp-", "slack-token", 10, false, true},
	{"xoxa-", "slack-token", 10, false, true},
	{"hf_", "huggingface-token", 20, false, false},
	{"npm_", "npm-token", 30, false, false},
	{"pypi-", "pypi-token", 30, false, true},
}

func prefixedAt(s string, i int) (span, bool) {
	if i > 0 && isAlphanumeric(s[i-1]) {
		return span{}, false
	}
	for _, p := range prefixes {
		if p.prefix[0] != s[i] || !strings.HasPrefix(s[i:], p.prefix) {
			continue
		}
		start := i + len(p.prefix)
		end := start
		digit := false
		for end < len(s) && (isAlphanumeric(s[end]) || p.dashes && (s[end] == '-' || s[end] == '_')) {
			digit = digit || isDigit(s[end])
			end++
		}
		// A word such as sk-learn-compatible-estimators is not a key.
		if n := end - start; n < p.least || p.exact && n != p.least || !digit && !p.exact {
			return span{}, false
		}
		return span{i, end, p.kind}, true
	}
	return span{}, false
}

// privateKeyAt finds a PEM private key. Without its end everything that
// follows may belong to it.
func privateKeyAt(s string, i int) (span, bool) {
	const begin, dashes = "-----BEGIN ", "PRIVATE KEY-----"
	if !strings.HasPrefix(s[i:], begin) {
		return span{}, false
	}
	label := strings.Index(s[i:], dashes)
	if label < 0 || label > 60 {
		return span{}, false
	}
	body := i + label + len(dashes)
	if end := strings.Index(s[body:], "-----END "); end >= 0 {
		if close := strings.Index(s[body+end:], dashes); close >= 0 && close < 60 {
			return span{i, body + end + close + len(dashes), "private-key"}, true
		}
	}
	return span{i, len(s), "private-key"}, true
}

// jwtAt finds three base64url parts of which the first two are JSON objects.
func jwtAt(s string, i int) (span, bool) {
	if !strings.HasPrefix(s[i:], "eyJ") || i > 0 && isIDByte(s[i-1]) {
		return span{}, false
	}
	end := i
	for part := range 3 {
		start := end
		for end < len(s) && (isAlphanumeric(s[end]) || s[end] == '-' || s[end] == '_') {
			end++
		}
		if part < 2 && (end-start < 8 || end == len(s) || s[end] != '.') {
			return span{}, false
		}
		if part == 1 && !strings.HasPrefix(s[start:], "eyJ") {
			return span{}, false
		}
		if part < 2 {
			end++
		}
	}
	return span{i, end, "jwt"}, true
}

// schemeAt finds what follows "Bearer " and "Basic ".
func schemeAt(s string, i int) (span, bool) {
	if i > 0 && isAlphanumeric(s[i-1]) {
		return span{}, false
	}
	word := ""
	for _, w := range []string{"bearer", "basic"} {
		if len(s) > i+len(w) && strings.EqualFold(s[i:i+len(w)], w) {
			word = w
		}
	}
	start := i + len(word)
	if word == "" || s[start] != ' ' {
		return span{}, false
	}
	for start < len(s) && s[start] == ' ' {
		start++
	}
	end := start
	digit := false
	for end < len(s) && isTokenByte(s[end]) {
		digit = digit || isDigit(s[end])
		end++
	}
	token := s[start:end]
	switch {
	case word == "basic":
		plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(token, "="))
		if err != nil || len(plain) < 6 || !strings.Contains(string(plain), ":") {
			return span{}, false
		}
	case len(token) < 12 || !digit && len(token) < 32:
		return span{}, false // prose: "a bearer authentication scheme"
	}
	return span{start, end, word}, true
}

// userinfoAt finds user and password in the authority of a URL.
func userinfoAt(s string, start int) (span, bool) {
	if isMarked(s[start:]) {
		return span{}, false
	}
	end := start
	for end < len(s) && s[end] > ' ' && strings.IndexByte(`/?#"'<>\`+"`", s[end]) < 0 {
		end++
	}
	at := strings.LastIndexByte(s[start:end], '@')
	if at < 1 {
		return span{}, false
	}
	colon := strings.IndexByte(s[start:start+at], ':')
	if colon < 0 && at < 20 || colon == at-1 {
		return span{}, false // a user alone, as in ssh://git@example.com
	}
	return span{start, start + at, "url-credentials"}, true
}

// namedAt finds the value of a field with a telling name inside text: at is
// the place of the colon or equals sign between them. A quoted value behind a
// quoted name, as in JSON, is always taken. Otherwise, since programs are text
// as well, it must look drawn: six characters, a digit and a letter among them.
func namedAt(s string, at int) (span, bool) {
	name, quote := nameBefore(s, at)
	if name == "" || !isSecretName(name) {
		return span{}, false
	}
	start := at + 1
	for start < len(s) && (s[start] == ' ' || s[start] == '\t') {
		start++
	}
	if isMarked(s[start:]) {
		return span{}, false
	}
	if quote != "" && s[at] == ':' {
		return quotedValue(s, start, quote)
	}
	if start < len(s) && (s[start] == '"' || s[start] == '\'') {
		start++
	}
	end := start
	var digit, letter bool
	for end < len(s) && (isTokenByte(s[end]) || strings.IndexByte("%!@$^*#", s[end]) >= 0) {
		digit = digit || isDigit(s[end])
		letter = letter || isAlphanumeric(s[end]) && !isDigit(s[end])
		end++
	}
	if end-start < 6 || !digit || !letter || end < len(s) && strings.IndexByte("([{", s[end]) >= 0 {
		return span{}, false
	}
	return span{start, end, "field"}, true
}

// nameBefore reads the name in front of a separator and how it is quoted. In
// JSON inside JSON a quote is escaped, and so it may be several times over.
func nameBefore(s string, at int) (name, quote string) {
	end := at
	for end > 0 && s[end-1] == ' ' {
		end--
	}
	if end > 0 && s[end-1] == '"' {
		open := end - 1
		for open > 0 && s[open-1] == '\\' {
			open--
		}
		quote, end = s[open:end], open
	}
	start := end
	for start > 0 && end-start < 64 && isIDByte(s[start-1]) {
		start--
	}
	return s[start:end], quote
}

// quotedValue finds the text up to the next quote of the same depth.
func quotedValue(s string, start int, quote string) (span, bool) {
	if !strings.HasPrefix(s[start:], quote) {
		return span{}, false
	}
	start += len(quote)
	if isMarked(s[start:]) {
		return span{}, false
	}
	end := start
	for {
		i := strings.IndexByte(s[end:], '"')
		if i < 0 {
			end = len(s) // cut off: all of it may be the secret
			break
		}
		end += i
		slashes := 0
		for end-slashes > start && s[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes <= len(quote)-1 {
			end -= slashes
			break
		}
		end++
	}
	return span{start, end, "field"}, end > start
}

// isTokenByte tells the characters of tokens as HTTP carries them (token68,
// RFC 9110 section 11.2).
func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("-._~+/=", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isSecretName tells the names of fields whose value is secret. The last word
// decides, except for tokens and keys, of which most are harmless: a page
// token and a cache key must survive, or a replay would go elsewhere.
func isSecretName(name string) bool {
	if len(name) < 3 || len(name) > 64 || strings.IndexByte("dnteylsrDNTEYLSR", name[len(name)-1]) < 0 {
		return false
	}
	last, before := lastWords(name)
	switch last {
	case "password", "passwd", "pwd", "passphrase", "secret",
		"authorization", "cookie", "credential", "credentials", "apikey", "bearer":
		return true
	case "token":
		switch before {
		case "", "access", "refresh", "id", "auth", "session", "bearer", "api", "security", "secret", "oauth",
			"github", "gitlab", "slack", "bot", "private", "npm", "hf", "webhook", "csrf", "xsrf", "jwt":
			return true
		}
	case "key":
		switch before {
		case "api", "secret", "access", "private", "signing", "encryption", "master", "account":
			return true
		}
	}
	return false
}

// isPasswordName tells the names whose value is secret even as a number.
func isPasswordName(name string) bool {
	last, _ := lastWords(name)
	switch last {
	case "password", "passwd", "pwd", "passphrase", "secret":
		return true
	}
	return false
}

// lastWords returns the last word of a name and the one before it, in lower
// case: "X-Api-Key", "api_key" and "apiKey" all give "key", "api".
func lastWords(name string) (last, before string) {
	words := [2]string{}
	end := len(name)
	for i := range words {
		for end > 0 && !isAlphanumeric(name[end-1]) {
			end--
		}
		start := end
		for start > 0 && isAlphanumeric(name[start-1]) {
			start--
			// An upper-case letter behind a lower-case one begins a word.
			if start > 0 && isUpper(name[start]) && !isUpper(name[start-1]) {
				break
			}
		}
		words[i] = strings.ToLower(name[start:end])
		end = start
	}
	return words[0], words[1]
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
