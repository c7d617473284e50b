package cassette

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// planted are secrets by their shape. They are put together so that this file
// holds none that a scanner would report.
var planted = map[string]string{
	"openai-key":    "sk-" + "proj-Ab3dE5gH9jK1mN3pQ5rS7tU9",
	"anthropic-key": "sk-" + "ant-api03-Ab3dE5gH9jK1mN3pQ5",
	"aws-key":       "AKI" + "AIOSFODNN7EXAMPLE",
	"github-token":  "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a",
	"jwt":           "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"private-key":   "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\nx0+/=\n-----END RSA PRIVATE KEY-----",
	"slack-token":   "xox" + "b-123456789012-abcdefghij",
	"google-key":    "AIz" + "aSyA1234567890abcdefghijklmnopqrstu",
}

func TestTextLosesItsSecrets(t *testing.T) {
	for kind, secret := range planted {
		got, n := (*Redactor)(nil).Text("before " + secret + " after")
		if want := "before [redacted:" + kind + "] after"; got != want || n != 1 {
			t.Errorf("%s: got %q (%d), want %q", kind, got, n, want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"Authorization: Bearer abcdefghij0123456789", "Authorization: Bearer [redacted:bearer]"},
		{"authorization: basic dXNlcjpodW50ZXIy", "authorization: basic [redacted:basic]"},
		{"postgres://bob:hunter2@db.example/x", "postgres://[redacted:url-credentials]@db.example/x"},
		{"git clone https://" + strings.Repeat("a1", 12) + "@example.com/r", "git clone https://[redacted:url-credentials]@example.com/r"},
		{"export API_KEY=abc123def", "export API_KEY=[redacted:field]"},
		{"https://x.example/?page=2&access_token=abc123def&x=1", "https://x.example/?page=2&access_token=[redacted:field]&x=1"},
		{`{"password": "hunter2", "user": "bob"}`, `{"password": "[redacted:field]", "user": "bob"}`},
		{`{\"apiKey\":\"a\\\"b\",\"n\":1}`, `{\"apiKey\":\"[redacted:field]\",\"n\":1}`},
		{`{"client_secret":"cut of`, `{"client_secret":"[redacted:field]`},
		{"-----BEGIN " + "PRIVATE KEY-----\nMIIE", "[redacted:private-key]"},
		{"x-api-key: abc123def456", "x-api-key: [redacted:field]"},
	} {
		got, _ := (*Redactor)(nil).Text(tt.in)
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

// What looks like a secret to a careless pattern is what agents write all day.
func TestOrdinaryTextStays(t *testing.T) {
	for _, s := range []string{
		"use sk-learn-compatible-estimators-everywhere", "risk-free", "task-0123456789abcdefghij",
		"a bearer authentication scheme", "Basic authentication", "basic understanding",
		"ssh://git@example.com/repo", "mailto:bob@example.com", "https://example.com/@user/x",
		"token = parse(input)", "if password == expected:", "password: required", "token: string",
		`password = sha256(x)`, `"token": {"type": "string"}`, "next_page_token=abc123def", "max_tokens=1000", "cache_key=abc123def",
		"eyJust a word", "AKIA", "-----BEGIN CERTIFICATE-----", "a == b", "://", "=", ":", "",
		"[redacted:field]", "password=[redacted:field]", `{"password":"[redacted:field]"}`, "https://[redacted:url-credentials]@x",
	} {
		if got, n := (*Redactor)(nil).Text(s); got != s || n != 0 {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestFieldsAreSecretByName(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"password":"x"}`, `{"password":"[redacted:field]"}`},
		{`{"db_password":1234}`, `{"db_password":"[redacted:field]"}`},
		{`{"Authorization":"x"}`, `{"Authorization":"[redacted:field]"}`},
		{`{"apiKey":"x","api_key":"x","X-Api-Key":"x","apikey":"x"}`, `{"X-Api-Key":"[redacted:field]","apiKey":"[redacted:field]","api_key":"[redacted:field]","apikey":"[redacted:field]"}`},
		{`{"token":["a","b"]}`, `{"token":["[redacted:field]","[redacted:field]"]}`},
		{`{"password":{"type":"string"},"required":["password"]}`, `{"password":{"type":"string"},"required":["password"]}`},
		{`{"password":"","secret":null,"token":true,"max_tokens":5,"prompt_tokens":7}`, `{"max_tokens":5,"password":"","prompt_tokens":7,"secret":null,"token":true}`},
		{`{"bytes":[65],"logprob":-1,"token":"A"}`, `{"bytes":[65],"logprob":-1,"token":"A"}`},
		{`{"next_page_token":"abc","cache_key":"k","key":"v"}`, `{"cache_key":"k","key":"v","next_page_token":"abc"}`},
	} {
		got, _, err := (*Redactor)(nil).document([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestSecretsAsNamesStayApart(t *testing.T) {
	a, b := planted["openai-key"], planted["openai-key"]+"x"
	got, n, err := (*Redactor)(nil).document([]byte(`{"` + a + `":1,"` + b + `":2,"a":3}`))
	if want := `{"[redacted:openai-key]":1,"[redacted:openai-key]#2":2,"a":3}`; err != nil || string(got) != want || n != 2 {
		t.Errorf("got %s, %d, %v", got, n, err)
	}
	// A renamed member moves, and the request must still be canonical.
	requireStable(t, wire.OpenAIChat, `{"`+a+`":1,"Z":2,"m":3}`)
}

// literal has a character for every encoding to change.
const literal = `Tr0ub4dor&3/<"x"> ü+key`

// encodings are ways in which a secret may be in traffic.
func encodings(s string) map[string]string {
	escaped := string(canon.AppendString(nil, s))
	return map[string]string{
		"plain":           s,
		"base64":          base64.StdEncoding.EncodeToString([]byte(s)),
		"base64 url":      base64.URLEncoding.EncodeToString([]byte(s)),
		"base64 inside 1": base64.StdEncoding.EncodeToString([]byte("u:" + s + "@host")),
		"base64 inside 2": base64.RawURLEncoding.EncodeToString([]byte("user:" + s + "...")),
		"base64 inside 3": base64.StdEncoding.EncodeToString([]byte("abc" + s)),
		"hex":             hex.EncodeToString([]byte(s)),
		"query":           url.QueryEscape(s),
		"path":            url.PathEscape(s),
		"JSON":            escaped[1 : len(escaped)-1],
	}
}

// leaks lists the encodings of a secret that are found in text, by decoding
// nothing: a search for bytes that the redactor has no part in.
func leaks(text, secret string) (found []string) {
	for name, e := range encodings(secret) {
		if strings.HasPrefix(name, "base64 inside") {
			e = e[8 : len(e)-8] // without what depends on neighbours
		}
		if strings.Contains(text, e) {
			found = append(found, name)
		}
	}
	return found
}

// plantEverywhere records traffic with secret in every place there is.
func plantEverywhere(t *testing.T, r *Recorder, secret string) {
	t.Helper()
	q := func(s string) string { return string(canon.AppendString(nil, s)) }
	text := q("the key is " + secret + " .")
	must := func(_ *Interaction, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	headers := map[string]string{"content-type": "text/plain; k=" + strings.ReplaceAll(secret, "\n", " "), "Authorization": "Bearer " + secret, "Set-Cookie": secret, "retry-after": "1"}

	// Requests: every part of a body, as value and as name.
	for _, body := range []string{
		`{"model":` + text + `,"messages":[]}`,
		`{"messages":[{"role":"user","content":` + text + `}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":` + text + `}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":` + text + `,"function":{"name":"f","arguments":` + q(`{"k":`+text+`}`) + `}}]},{"role":"tool","tool_call_id":` + text + `}]}`,
		`{"tools":[{"function":{"description":` + text + `,"parameters":{"default":` + text + `}}}]}`,
		`{` + text + `:1}`,
		`{"metadata":{"k":` + text + `},"user":` + text + `}`,
	} {
		must(r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(body), Status: 200, Headers: headers, Body: []byte(`{"choices":[{"message":{"content":` + text + `}}],` + text + `:0}`)}))
	}
	// Responses that are not JSON, or errors.
	must(r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 401, Body: []byte(`{"error":{"message":` + text + `}}`)}))
	must(r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 502, Body: []byte("<html>" + secret + " </html>")}))

	// Streams: in one event, in a comment, and cut at every place.
	for cut := range len(secret) {
		a, b := "say "+secret[:cut], secret[cut:]+" ."
		if strings.ToValidUTF8(a, "") != a {
			continue
		}
		must(r.Model(ModelTraffic{API: wire.AnthropicMessages, Request: []byte(`{}`), Status: 200, Streamed: true, Body: []byte(
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n" +
				"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":" + q(a) + "}}\n\n" +
				"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":" + q(b) + "}}\n\n" +
				"data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_stop\"}\n\n")}))
		must(r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 200, Streamed: true, Body: []byte(
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":" + q(a) + "}}]}}]}\n\n" +
				"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n" +
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":" + q(b) + "}}]}}]}\n\n" +
				"data: [DONE]\n\n")}))
		must(r.Model(ModelTraffic{API: wire.OpenAIResponses, Request: []byte(`{}`), Status: 200, Streamed: true, Body: []byte(
			"data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":" + q(a) + "}\n\n" +
				"data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":" + q(b) + "}\n\n" +
				"data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":" + q(a+b) + "}]}]}}\n\n")}))
	}
	must(r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 200, Streamed: true, Body: []byte(": " + strings.ReplaceAll(secret, "\n", " ") + " \n\ndata: not JSON " + strings.ReplaceAll(secret, "\n", " ") + " \n\n")}))

	// Tools and MCP.
	must(r.Tool(ToolTraffic{Name: "f", Arguments: []byte(`{"a":` + text + `,` + text + `:1}`), Result: []byte(`[` + text + `]`)}))
	must(r.Tool(ToolTraffic{Name: "name " + secret + " .", Err: "failed with " + secret + " ."}))
	must(r.MCP(MCPTraffic{Server: "s", Method: "tools/call", Params: []byte(`{"a":` + text + `}`), Result: []byte(`{"r":` + text + `}`),
		Notifications: [][]byte{[]byte(`{"params":` + text + `}`)}}))
	must(r.MCP(MCPTraffic{Server: "server " + secret + " .", Method: "method " + secret + " .", Error: []byte(`{"message":` + text + `}`)}))
}

func TestNoPlantedSecretRemains(t *testing.T) {
	for kind, secret := range planted {
		t.Run(kind, func(t *testing.T) {
			r := mustRecorder(t, RecorderOptions{})
			plantEverywhere(t, r, secret)
			requireNoLeak(t, r, secret)
		})
	}
}

func TestNoLiteralSecretRemainsInAnyEncoding(t *testing.T) {
	for name, spelled := range encodings(literal) {
		t.Run(name, func(t *testing.T) {
			redactor, err := NewRedactor(literal)
			if err != nil {
				t.Fatal(err)
			}
			r := mustRecorder(t, RecorderOptions{Redactor: redactor})
			plantEverywhere(t, r, spelled)
			requireNoLeak(t, r, literal)
		})
	}
}

// requireNoLeak looks in the lines, and in what clients would be answered: a
// stream shows a secret only when put together.
func requireNoLeak(t *testing.T, r *Recorder, secret string) {
	t.Helper()
	c := mustCassette(t, r)
	texts := []string{mustLines(t, c)}
	for i := range c.Interactions {
		if m := c.Interactions[i].Model; m != nil {
			if reply, err := m.Reply(wire.Delivery{}); err == nil {
				texts = append(texts, string(reply.Body))
			}
		}
	}
	for _, text := range texts {
		if found := leaks(text, secret); found != nil {
			t.Fatalf("%q is left in\n%.2000s", found, text)
		}
	}
	if c.Header.Redactions < int64(len(c.Interactions)) {
		t.Errorf("%d redactions in %d interactions", c.Header.Redactions, len(c.Interactions))
	}
}

func TestAPasswordStreamedInPiecesIsFoundByItsName(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{})
	var stream strings.Builder
	for _, piece := range []string{`{"pass`, `word": "hun`, `ter`, `2", "user": "bob"}`} {
		stream.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":` + string(canon.AppendString(nil, piece)) + "}}]}}]}\n\n")
	}
	stream.WriteString("data: [DONE]\n\n")
	it, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(`{}`), Status: 200, Streamed: true, Body: []byte(stream.String())})
	if err != nil {
		t.Fatal(err)
	}
	body, err := wire.BodyOfStream(wire.OpenAIChat, it.Model.Response.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{\"password\": \"[redacted:field]\", \"user\": \"bob\"}`; !strings.Contains(string(body), want) {
		t.Errorf("got %s, want %s in it", body, want)
	}
	// The event without a part of the secret keeps its bytes.
	if first := it.Model.Response.Stream[0]; !strings.HasPrefix(stream.String(), first) {
		t.Errorf("the first event changed: %s", first)
	}
}

// The forger here is a redactor that overlooks something: the last look must
// refuse to keep it.
func TestRecorderKeepsNothingWithALiteralLeft(t *testing.T) {
	redactor, err := NewRedactor(literal)
	if err != nil {
		t.Fatal(err)
	}
	r := mustRecorder(t, RecorderOptions{Redactor: redactor})
	_, err = r.keep(Interaction{Tool: &ToolCall{Name: "f", Arguments: []byte(`{}`), Error: literal}}, 0, 0)
	requireRefusal(t, err, refusal.Failed, "still there")
	m := &ModelCall{API: wire.OpenAIChat, Response: Response{Stream: []string{
		`data: {"choices":[{"index":0,"delta":{"content":` + string(canon.AppendString(nil, literal[:9])) + "}}]}\n\n",
		`data: {"choices":[{"index":0,"delta":{"content":` + string(canon.AppendString(nil, literal[9:])) + "}}]}\n\n", "data: [DONE]\n\n"}}}
	_, err = r.assembled(m)
	requireRefusal(t, err, refusal.Failed, "still there")
	if c := mustCassette(t, r); len(c.Interactions) != 0 {
		t.Errorf("%d interactions were kept", len(c.Interactions))
	}
}

// Of base64 the whole word goes: its edges hold bits of the secret as well.
func TestBase64AroundALiteralGoesWithIt(t *testing.T) {
	redactor, err := NewRedactor("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"correct horse", "u:correct horse", "us:correct horse", "user:correct horse and more"} {
		in := "key " + base64.StdEncoding.EncodeToString([]byte(text)) + " end"
		if got, n := redactor.Text(in); got != "key [redacted:literal] end" || n != 1 {
			t.Errorf("%q in base64: %q", text, got)
		}
	}
}

func TestShortLiteralsAreRefused(t *testing.T) {
	for _, s := range []string{"", "hunter2", "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "[redacted:field]"} {
		_, err := NewRedactor("long enough", s)
		requireRefusal(t, err, refusal.Malformed, "secret 2")
	}
}

// A replay has no key of the provider, and must still ask the same question.
func TestRedactedRequestsMatchAtReplay(t *testing.T) {
	r := mustRecorder(t, RecorderOptions{})
	body := `{"messages":[{"content":"call it with Authorization: Bearer abcdefghij0123456789"}]}`
	if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(body), Status: 200, Body: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	p := NewPlayer(mustCassette(t, r))
	if _, err := p.Next(mustModel(t, wire.OpenAIChat, strings.ReplaceAll(body, "abcdefghij0123456789", "dummy-token-0000"))); err != nil {
		t.Error(err)
	}
}

// TestRedactingTakesTimeInProportion: each of these took seconds to minutes for
// a few megabytes, and no limit of a case ends it (trials S8). Without the
// memory of barren runs this test times out.
func TestRedactingTakesTimeInProportion(t *testing.T) {
	var r *Redactor
	for _, unit := range []string{"-----BEGIN ", "-----BEGIN PRIVATE KEY", "sk-", "sk-ant-", "xoxb-", "github_pat_", "sk_live_", "ghp_", "key=", "password=", "token:", "secret: ", "api_key=\"",
		"Bearer ", "Basic ", "basic a", "eyJ", "eyJhbGciOi.", "eyJhbGciOi.eyJ", "://", "://a:", "a:@", "AKIA", "AIza", `\"token\":`, `"password":"`, `\\\\"`, "=", ":", " :", "- ", "_"} {
		text := strings.Repeat(unit, (4<<20)/len(unit))
		if got, _ := r.Text(text); len(got) == 0 {
			t.Errorf("%q: everything is gone", unit)
		}
	}
	// What the memory skips is not a secret, and what follows still is.
	text := strings.Repeat("sk-", 1000) + " password=" + strings.Repeat("key=", 1000) + "; password=hunter2hunter2 sk-proj1234567890abcdefghij"
	got, n := r.Text(text)
	if n != 2 || strings.Contains(got, "hunter2") || strings.Contains(got, "proj1234567890") {
		t.Errorf("%d secrets found: …%s", n, got[len(got)-80:])
	}
}

// spelledTwice are ways in which an agent that hides a secret would write it.
func spelledTwice(s string) map[string]string {
	turned := func(s string) string {
		b := []byte(s)
		slices.Reverse(b)
		return string(b)
	}
	b64, b32 := base64.StdEncoding.EncodeToString, base32.StdEncoding.EncodeToString
	return map[string]string{
		"reversed":                  turned(s),
		"base32":                    b32([]byte(s)),
		"base32 in small letters":   strings.ToLower(b32([]byte(s))),
		"base32 inside 1":           b32([]byte("u" + s + "h")),
		"base32 inside 2":           b32([]byte("us" + s + "ho")),
		"base32 inside 3":           b32([]byte("use" + s + "hos")),
		"base32 inside 4":           b32([]byte("user" + s + "host")),
		"base64 of base64":          b64([]byte(b64([]byte(s)))),
		"base64 of base64, inside":  b64([]byte("k=" + b64([]byte("u:"+s+"@h")) + ";")),
		"base64 of base64, url":     base64.URLEncoding.EncodeToString([]byte(base64.URLEncoding.EncodeToString([]byte("a" + s)))),
		"hex of base64":             hex.EncodeToString([]byte(b64([]byte(s)))),
		"base64 of hex":             b64([]byte(hex.EncodeToString([]byte(s)))),
		"hex of hex":                hex.EncodeToString([]byte(hex.EncodeToString([]byte(s)))),
		"hex in capitals of base32": strings.ToUpper(hex.EncodeToString([]byte(b32([]byte(s))))),
		"base32 of base64":          b32([]byte(b64([]byte(s)))),
		"percent-encoded twice":     url.QueryEscape(url.QueryEscape(s)),
		"base64 of percent-encoded": b64([]byte(url.PathEscape(s))),
		"percent-encoded base64":    url.QueryEscape(b64([]byte(s))),
		"base64 of it reversed":     b64([]byte(turned(s))),
		"base64, reversed":          turned(b64([]byte(s))),
		"hex, reversed":             turned(hex.EncodeToString([]byte(s))),
		"hex of it reversed":        hex.EncodeToString([]byte(turned(s))),
		"base32 of it reversed":     b32([]byte(turned(s))),
	}
}

func TestRedactorFindsHiddenSpellings(t *testing.T) {
	for _, secret := range []string{"sk-proj-aB3/dE6+gH9_jK2", "correct horse", "12345678", "tally-0123456789abcdef0123456789abcdef"} {
		r, err := NewRedactor("another-secret-altogether", secret)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range spelledTwice(secret) {
			got, n := r.Text("it is " + text + " and no more")
			if n == 0 || strings.Contains(got, text[1:len(text)-1]) || !strings.HasPrefix(got, "it is ") || !strings.HasSuffix(got, " and no more") {
				t.Errorf("%s of %s: %q", name, secret, got)
			}
			if again, n := r.Text(got); n != 0 || again != got {
				t.Errorf("%s of %s: redacted twice: %q", name, secret, again)
			}
		}
	}
}

// A text of many spellings is walked through once: what was found is not looked
// at again, and beside what is found nothing is looked at twice.
func TestLiteralsAreFoundInOnePass(t *testing.T) {
	r, err := NewRedactor("sk-proj-aB3/dE6+gH9_jK2", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"sk-proj-", "AAAAAAAA", "QUFBQUFBQUFB", "c2stcHJvai1hQjM", "4141414141414141"} {
		text, last, found := strings.Repeat(piece, 1<<14), 0, 0
		r.literals.find(text, func(at int, f literalForm) (int, bool) {
			if at < last {
				t.Fatalf("%q: found at %d after %d", piece, at, last)
			}
			found, last = found+1, at+len(f.text)
			return last, true
		})
		if found > len(text)/minLiteralBytes {
			t.Errorf("%q: %d found in %d bytes", piece, found, len(text))
		}
	}
}
