package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// Signing says with which keys requests are signed, and for which region. What
// the agent signed with its placeholders is not passed on.
type Signing struct {
	Region                                 string
	AccessKeyEnv, SecretKeyEnv, SessionEnv string // names of variables
}

// variables are those that are read; of these a session's need not be set.
func (s *Signing) variables() []string {
	if s == nil {
		return nil
	}
	return []string{s.AccessKeyEnv, s.SecretKeyEnv, s.SessionEnv}
}

// signing reads how requests to a provider are signed; nil if they are not. As
// with other keys, the usual ones go to the usual servers only.
func (f *endpointFile) signing(p *wire.Provider) (*Signing, error) {
	at := func(field, format string, args ...any) error {
		return strictyaml.At([]string{p.Name, field}, fmt.Errorf(format, args...))
	}
	named := f.AccessKeyEnv != "" || f.SecretKeyEnv != "" || f.SessionEnv != ""
	if !p.Signed {
		switch {
		case f.Region != "":
			return nil, at("region", "is for providers whose requests are signed, which %s is not", p.Name)
		case named:
			return nil, at("access_key_env", "is for providers whose requests are signed, which %s is not", p.Name)
		}
		return nil, nil
	}
	if !isRegion(f.Region) {
		return nil, at("region", "is %.40q, expected one such as us-east-1", f.Region)
	}
	hasKey := f.KeyEnv != "" || f.KeyFile != ""
	if hasKey && named {
		return nil, at("access_key_env", "found a key as well, expected a key or the names of two variables")
	}
	if hasKey || !named && f.BaseURL != "" {
		return nil, nil
	}
	s := &Signing{Region: f.Region, AccessKeyEnv: f.AccessKeyEnv, SecretKeyEnv: f.SecretKeyEnv, SessionEnv: f.SessionEnv}
	if !named {
		s.AccessKeyEnv, s.SecretKeyEnv, s.SessionEnv = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
	}
	for _, v := range []struct{ field, name string }{{"access_key_env", s.AccessKeyEnv}, {"secret_key_env", s.SecretKeyEnv}} {
		if !isVariable(v.name) {
			return nil, at(v.field, "is not the name of a variable, expected one such as AWS_ACCESS_KEY_ID; the key itself never stands here")
		}
	}
	if s.SessionEnv != "" && !isVariable(s.SessionEnv) {
		return nil, at("session_token_env", "is not the name of a variable, expected one such as AWS_SESSION_TOKEN; the token itself never stands here")
	}
	return s, nil
}

// isRegion accepts what can be a part of a host's name.
func isRegion(name string) bool {
	for i := range len(name) {
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && i > 0) {
			return false
		}
	}
	return name != "" && len(name) <= 40
}

// credentials are what a request shows: a key, or a signature, or nothing.
type credentials struct {
	key    string
	signer *signer
}

func (a *Access) credentials(e *Endpoint) (credentials, error) {
	if e.Signing == nil {
		key, err := a.key(e.Provider, e.KeyEnv, e.KeyFile)
		return credentials{key: key}, err
	}
	s := &signer{region: e.Signing.Region, service: signedService, session: a.keys[e.Signing.SessionEnv]}
	var err error
	if s.access, err = a.key(e.Provider, e.Signing.AccessKeyEnv, ""); err == nil {
		s.secret, err = a.key(e.Provider, e.Signing.SecretKeyEnv, "")
	}
	if err != nil {
		return credentials{}, refusal.Newf(refusal.NotFound, "%w", err).
			WithHint("set %s and %s, or name an API key as key_env in %s", e.Signing.AccessKeyEnv, e.Signing.SecretKeyEnv, SettingsFile)
	}
	return credentials{signer: s}, nil
}

// signedService is the name under which requests are signed.
const signedService = "bedrock"

// A signer signs requests as AWS Signature Version 4 says.
type signer struct{ access, secret, session, region, service string }

// sign adds the headers. All that says what is asked for is signed: method, path,
// query, host and body.
func (s *signer) sign(req *http.Request, body []byte, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	req.Header.Set("X-Amz-Date", stamp)
	headers := [][2]string{}
	if kind := req.Header.Get("Content-Type"); kind != "" {
		headers = append(headers, [2]string{"content-type", kind})
	}
	headers = append(headers, [2]string{"host", req.URL.Host}, [2]string{"x-amz-date", stamp})
	if s.session != "" {
		req.Header.Set("X-Amz-Security-Token", s.session)
		headers = append(headers, [2]string{"x-amz-security-token", s.session})
	}
	var lines strings.Builder
	names := make([]string, len(headers))
	for i, h := range headers {
		names[i] = h[0]
		lines.WriteString(h[0] + ":" + strings.TrimSpace(h[1]) + "\n")
	}
	signed := strings.Join(names, ";")
	sum := sha256.Sum256(body)
	canonical := strings.Join([]string{req.Method, doubleEscaped(req.URL.EscapedPath()), req.URL.RawQuery, lines.String(), signed, hex.EncodeToString(sum[:])}, "\n")
	scope := strings.Join([]string{stamp[:8], s.region, s.service, "aws4_request"}, "/")
	sum = sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + s.secret)
	for _, part := range []string{stamp[:8], s.region, s.service, "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.access+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(key))
}

// doubleEscaped escapes a path once more, segment by segment: all services but S3
// sign it so.
func doubleEscaped(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}
