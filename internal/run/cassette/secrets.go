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
//
// It takes time in proportion to the text, whatever an agent writes: a run of
// letters that turned out to be no secret is not walked through again from
// each of its later beginnings.
func findShapes(s string, names bool) []span {
	var found []span
	var barren barren
	for i, done := 0, 0; i < len(s); i++ {
		if !announces[s[i]] {
			continue
		}
		if f, ok := barren.shapeAt(s, i, names); ok && f.start >= done {
			found = append(found, f)
			done = f.end
			i = max(f.end-1, i)
		}
	}
	return found
}

// announces are the bytes at which it pays to look for a secret: each shape
// has one that is rare in text.
var announces = func() (table [256]bool) {
	for _, c := range []byte("-_AJ :=") {
		table[c] = true
	}
	return table
}()

// A barren remembers up to where runs of characters are known to hold no key
// and no value of a field: what a run lacks, its end lacks as well.
type barren struct{ key, value int }

// shapeAt looks for a secret that is announced by the byte at i.
func (b *barren) shapeAt(s string, i int, names bool) (span, bool) {
	switch s[i] {
	case '-':
		if f, ok := privateKeyAt(s, i); ok {
			return f, true
		}
		return b.prefixedAt(s, i)
	case '_':
		return b.prefixedAt(s, i)
	case 'A':
		return cloudKeyAt(s, i)
	case 'J':
		return jwtAt(s, i-2)
	case ' ':
		return schemeAt(s, i)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return userinfoAt(s, i+3)
		}
		if names {
			return b.namedAt(s, i)
		}
	case '=':
		if names {
			return b.namedAt(s, i)
		}
	}
	return span{}, false
}

// A prefixed is a kind of key that begins with a word of its own.
type prefixed struct {
	prefix string
	at     int // of the first dash or underscore
	kind   string
	least  int  // characters after the prefix
	dashes bool // the key may hold - and _
}

// Longer prefixes stand before their own beginnings.
var prefixes = []prefixed{
	{"sk-ant-", 2, "anthropic-key", 12, true},
	{"sk-", 2, "openai-key", 16, true},
	{"sk_live_", 2, "stripe-key", 12, false},
	{"sk_test_", 2, "stripe-key", 12, false},
	{"rk_live_", 2, "stripe-key", 12, false},
	{"ghp_", 3, "github-token", 20, false},
	{"gho_", 3, "github-token", 20, false},
	{"ghu_", 3, "github-token", 20, false},
	{"ghs_", 3, "github-token", 20, false},
	{"ghr_", 3, "github-token", 20, false},
	{"github_pat_", 6, "github-token", 20, true},
	{"glpat-", 5, "gitlab-token", 16, true},
	{"xoxb-", 4, "slack-token", 10, true},
	{"xoxp-", 4, "slack-token", 10, true},
	{"xoxa-", 4, "slack-token", 10, true},
	{"hf_", 2, "huggingface-token", 20, false},
	{"npm_", 3, "npm-token", 30, false},
	{"pypi-", 4, "pypi-token", 30, true},
}

// prefixedAt finds a key whose prefix has its first dash or underscore at i.
func (b *barren) prefixedAt(s string, i int) (span, bool) {
	for _, p := range prefixes {
		start := i - p.at
		if start < 0 || s[start] != p.prefix[0] || !strings.HasPrefix(s[start:], p.prefix) {
			continue
		}
		if start > 0 && isAlphanumeric(s[start-1]) || start < b.key {
			return span{}, false
		}
		end, digit := start+len(p.prefix), false
		for end < len(s) && (isAlphanumeric(s[end]) || p.dashes && (s[end] == '-' || s[end] == '_')) {
			digit = digit || isDigit(s[end])
			end++
		}
		if !digit && p.dashes {
			b.key = end
		}
		// A word such as sk-learn-compatible-estimators is not a key.
		if end-start-len(p.prefix) < p.least || !digit {
			return span{}, false
		}
		return span{start, end, p.kind}, true
	}
	return span{}, false
}

// cloudKeyAt finds keys of AWS and of Google.
func cloudKeyAt(s string, i int) (span, bool) {
	if i > 0 && isAlphanumeric(s[i-1]) || len(s) < i+4 {
		return span{}, false
	}
	end := i + 4
	switch s[i:end] {
	case "AKIA", "ASIA":
		for end < len(s) && isAlphanumeric(s[end]) {
			end++
		}
		return span{i, end, "aws-key"}, end-i == 20
	case "AIza":
		for end < len(s) && isNameByte(s[end]) {
			end++
		}
		return span{i, end, "google-key"}, end-i >= 34
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
	label := strings.Index(s[i:min(len(s), i+60+len(dashes))], dashes)
	if label < 0 {
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
	if i < 0 || !strings.HasPrefix(s[i:], "eyJ") || i > 0 && isNameByte(s[i-1]) {
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

// schemeAt finds what follows "Bearer " and "Basic "; i is the place of the
// space.
func schemeAt(s string, i int) (span, bool) {
	if i < 5 || s[i-1]|0x20 != 'r' && s[i-1]|0x20 != 'c' {
		return span{}, false
	}
	word := ""
	for _, w := range []string{"bearer", "basic"} {
		if at := i - len(w); at >= 0 && strings.EqualFold(s[at:i], w) && (at == 0 || !isAlphanumeric(s[at-1])) {
			word = w
		}
	}
	if word == "" {
		return span{}, false
	}
	start := i
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
func (b *barren) namedAt(s string, at int) (span, bool) {
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
	// Inside JSON a quote is escaped, and so it may be several times over.
	open := start
	for open < len(s) && s[open] == '\\' {
		open++
	}
	if open < len(s) && (s[open] == '"' || s[open] == '\'') {
		start = open + 1
	}
	if start < b.value {
		return span{}, false
	}
	end := start
	var digit, letter bool
	for end < len(s) && (isTokenByte(s[end]) || strings.IndexByte("%!@$^*#", s[end]) >= 0) {
		digit = digit || isDigit(s[end])
		letter = letter || isAlphanumeric(s[end]) && !isDigit(s[end])
		end++
	}
	if end-start < 6 || !digit || !letter || end < len(s) && strings.IndexByte("([{", s[end]) >= 0 {
		b.value = end
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
	for start > 0 && end-start < 64 && isNameByte(s[start-1]) {
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

// isNameByte tells the characters of keys, tokens and names of fields.
func isNameByte(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '-' }

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
