package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

func TestOnlyTheTokenOfTheCaseIsAdmitted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"bearer", []string{"Authorization", "Bearer " + token}, 200},
		{"bearer in other letters", []string{"Authorization", "bEARER  " + token}, 200},
		{"x-api-key", []string{"Authorization", "", "X-Api-Key", token}, 200},
		{"api-key", []string{"Authorization", "", "Api-Key", token}, 200},
		{"beside a key of the agent's own", []string{"Authorization", "Bearer " + foreignKey, "X-Api-Key", token}, 200},
		{"none", []string{"Authorization", ""}, 401},
		{"empty bearer", []string{"Authorization", "Bearer "}, 401},
		{"another key", []string{"Authorization", "Bearer " + foreignKey}, 401},
		{"the beginning", []string{"Authorization", "Bearer " + token[:len(token)-1]}, 401},
		{"more than it", []string{"Authorization", "Bearer " + token + "0"}, 401},
		{"in other letters", []string{"Authorization", "Bearer " + strings.ToUpper(token)}, 401},
		{"without a scheme", []string{"Authorization", token}, 401},
		{"basic", []string{"Authorization", "Basic " + token}, 401},
	} {
		for _, path := range []string{"/v1/models", "/v1/messages", "/mcp", "/nothing"} {
			c := newCase(t, caseOptions{})
			got := c.send(t, "GET", path, "", tt.headers...)
			if path == "/v1/models" && got.status != tt.status || (got.status == 401) != (tt.status == 401) {
				t.Errorf("%s, %s: status %d, want %d", tt.name, path, got.status, tt.status)
			}
			if strings.Contains(got.body, token) || strings.Contains(got.body, foreignKey) {
				t.Errorf("%s, %s: a key is in the answer: %s", tt.name, path, got.body)
			}
			v := c.end(t)
			if tt.status == 200 {
				continue
			}
			want := "run_started security_event policy_violation transport_request run_completed"
			if tt.name == "none" || tt.name == "empty bearer" {
				want = "run_started security_event transport_request run_completed"
			}
			if got := types(v); got != want {
				t.Errorf("%s, %s: events %s", tt.name, path, got)
			}
			if e := eventsOf[*trajectory.SecurityEvent](v)[0]; e.Name != "gateway.token_refused" || e.Severity != evidence.Warn {
				t.Errorf("%s, %s: %+v", tt.name, path, e)
			}
			if e := eventsOf[*trajectory.TransportRequest](v)[0]; e.Status != 401 || e.Path != path || e.Error != "TokenRefused" {
				t.Errorf("%s, %s: %+v", tt.name, path, e)
			}
		}
	}
}

// A token that is not the case's is a violation, in whatever form it is shown;
// so is an MCP session of another case, and one of an earlier turn is not.
func TestForeignTokensAndSessionsAreViolations(t *testing.T) {
	earlier, other := newCase(t, caseOptions{}), newCase(t, caseOptions{token: strings.Replace(token, "0", "9", 1)})
	begin := func(c *caseRun, key string) string {
		return c.send(t, "POST", "/mcp", initialize("2025-06-18"), "Authorization", "Bearer "+key).header.Get(sessionHeader)
	}
	own, foreign := begin(earlier, token), begin(other, strings.Replace(token, "0", "9", 1))
	if own == "" || foreign == "" {
		t.Fatal("no session was begun")
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		rule               string
	}{
		{"a forged token", "POST", "/mcp", []string{"Authorization", "Bearer sk-tally-forged"}, "gateway:token"},
		{"a forged token as a password", "POST", "/mcp", []string{"Authorization", "Basic dTpw"}, "gateway:token"},
		{"a forged token in the address", "POST", "/mcp?key=abc", []string{"Authorization", ""}, "gateway:token"},
		{"another case's token", "POST", "/v1/messages", []string{"Authorization", "", "X-Api-Key", strings.Replace(token, "0", "9", 1)}, "gateway:token"},
		{"another case's session", "POST", "/mcp", []string{sessionHeader, foreign}, "gateway:route"},
		{"another case's session, to end it", "DELETE", "/mcp", []string{sessionHeader, foreign}, "gateway:route"},
		{"a made-up session", "POST", "/mcp", []string{sessionHeader, "1"}, "gateway:route"},
		{"a session of an earlier turn", "POST", "/mcp", []string{sessionHeader, own}, ""},
		{"no token", "POST", "/mcp", []string{"Authorization", ""}, ""},
		{"a path that is not there", "GET", "/v1/cases/other", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, shared := range []bool{false, true} {
				c := newCase(t, caseOptions{shared: shared})
				if got := c.send(t, tt.method, tt.path, list, tt.headers...); got.status < 400 {
					t.Errorf("answered with %d", got.status)
				}
				rules := ""
				for _, e := range eventsOf[*trajectory.PolicyViolation](c.end(t)) {
					rules += e.Rule
				}
				if want := tt.rule; !shared && rules != want || shared && rules != "" {
					t.Errorf("shared %v: violates %q, want %q", shared, rules, want)
				}
			}
		})
	}
}

// What was tried is recorded and counted when the case has been stopped, too.
func TestAForgedTokenCountsAfterAStop(t *testing.T) {
	c := newCase(t, caseOptions{cassette: []byte(emptyTape)})
	c.send(t, "POST", "/v1/chat/completions", chatHello)
	if c.session.Stopped() == nil {
		t.Fatal("not stopped")
	}
	c.send(t, "POST", "/mcp", "{}", "Authorization", "Bearer sk-tally-forged")
	if r := c.session.Fail(nil); r.Counts.Violations != 1 {
		t.Errorf("%d violations, want 1", r.Counts.Violations)
	}
}

// Without a sandbox every user of the machine can knock. The record of the case is
// the same as if they had not, however they knock, and however often.
func TestRequestsOfStrangersLeaveNothing(t *testing.T) {
	record := func(knock bool) string {
		c := newCase(t, caseOptions{shared: true})
		if knock {
			for _, key := range [][]string{
				{"Authorization", ""}, {"Authorization", "Bearer sk-tally-forged"}, {"Authorization", "Basic dTpw"}, {"Authorization", "", "X-Api-Key", "x"},
				{"Authorization", "", "X-Goog-Api-Key", "x"}, {"Authorization", "", "Api-Key", "x"}, {"Authorization", "", "Proxy-Authorization", "Bearer x"},
				{"Authorization", "", sessionHeader, "1"},
			} {
				for _, at := range [][2]string{{"POST", "/v1/chat/completions"}, {"POST", "/v1/messages"}, {"POST", "/mcp"}, {"DELETE", "/mcp"}, {"GET", "/v1/models"}, {"GET", "/nowhere?key=x&token=y"}, {"PUT", "/mcp"}, {"GET", "/v1/messages/count_tokens"}} {
					if got := c.send(t, at[0], at[1], chatHello, key...); got.status < 400 {
						t.Errorf("%v %v: answered with %d", at, key, got.status)
					}
				}
			}
			for range maxRefusedEvents + 10 {
				c.send(t, "POST", "/mcp", "{}", "Authorization", "")
			}
		}
		return types(c.end(t))
	}
	if quiet, knocked := record(false), record(true); quiet != knocked {
		t.Errorf("the record says %q, and without the knocks %q", knocked, quiet)
	}
}

func TestWithoutTheTokenNothingReachesTheSession(t *testing.T) {
	c := newCase(t, caseOptions{})
	for _, r := range [][2]string{{"/v1/chat/completions", chatHello}, {"/v1/messages", messagesHello}, {"/mcp", initialize("2025-06-18")}} {
		if got := c.send(t, "POST", r[0], r[1], "Authorization", ""); got.status != 401 || got.header.Get("X-Should-Retry") != "false" || got.header.Get(sessionHeader) != "" {
			t.Errorf("%s: %+v", r[0], got)
		}
	}
	if got := types(c.end(t)); strings.Contains(got, "model_call") {
		t.Errorf("events %s", got)
	}
}

func TestUnknownPathsGetAnErrorInJSONAndAnEvent(t *testing.T) {
	c := newCase(t, caseOptions{})
	for _, method := range []string{"GET", "POST", "PUT", "HEAD", "BREW"} {
		got := c.send(t, method, "/v1/audio/speech", "")
		if got.status != 404 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %+v", method, got)
		}
		if method != "HEAD" {
			if kind, message := readFailure(t, "openai", got.body); kind != "not_found_error" || !strings.Contains(message, "/v1/messages") {
				t.Errorf("%s: got %s", method, got.body)
			}
		}
	}
	events := eventsOf[*trajectory.TransportRequest](c.end(t))
	if len(events) != 5 || events[4].Method != "BREW" || events[4].Protocol != "http" || events[4].Status != 404 || events[4].Path != "/v1/audio/speech" {
		t.Errorf("events %+v", events)
	}
}

func TestKeysInAPathOrHostStayOutOfTheEvents(t *testing.T) {
	c := newCase(t, caseOptions{})
	c.send(t, "GET", "/v1/models/"+foreignKey+"?key="+foreignKey, "")
	c.send(t, "GET", "/v1/"+token, "")
	c.send(t, "GET", "/long/"+strings.Repeat("é", 2000), "")
	c.send(t, "GET", "/%ff%00/x", "")
	c.raw(t, "GET / HTTP/1.1\r\nHost: "+foreignKey+"\r\nX-Api-Key: "+token+"\r\nConnection: close\r\n\r\n")
	c.raw(t, "GET / HTTP/1.0\r\nX-Api-Key: "+token+"\r\n\r\n")
	c.raw(t, "GET http://api.openai.com/v1/x HTTP/1.1\r\nHost: ignored\r\nX-Api-Key: "+token+"\r\nConnection: close\r\n\r\n")
	events := eventsOf[*trajectory.TransportRequest](c.end(t)) // looks for keys
	var hosts []string
	for _, e := range events {
		if len(e.Path) > 512 {
			t.Errorf("a path of %d bytes", len(e.Path))
		}
		hosts = append(hosts, e.Host)
	}
	if want := "127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 [redacted:openai-key] unknown api.openai.com"; strings.Join(hosts, " ") != want {
		t.Errorf("hosts %s, want %s", hosts, want)
	}
}

// raw sends bytes and reads the answer's status line.
func (c *caseRun) raw(t testing.TB, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return line
}

func TestBodiesAreBoundedAndPlain(t *testing.T) {
	c := newCase(t, caseOptions{maxBody: 1000})
	big := strings.Repeat(" ", 1001)
	for path, protocol := range map[string]string{"/v1/chat/completions": "openai", "/v1/messages": "anthropic", "/mcp": "mcp"} {
		got := c.send(t, "POST", path, big)
		if _, message := readFailure(t, protocol, got.body); got.status != 413 || !strings.Contains(message, "more than 1000 bytes") {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
		// A body without a stated length.
		got = c.send(t, "POST", path, strings.Repeat("x", 5000), "Content-Encoding", "gzip")
		if got.status != 415 {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	chunked := "POST /v1/messages HTTP/1.1\r\nHost: h\r\nX-Api-Key: " + token + "\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 5000, strings.Repeat("x", 5000))
	if got := c.raw(t, chunked); !strings.Contains(got, "413") {
		t.Errorf("chunked: got %q", got)
	}
	if got := c.send(t, "POST", "/v1/chat/completions", chatHello); got.status != 200 {
		t.Errorf("after that: got %d %s", got.status, got.body)
	}
}

func TestAFloodAtTheDoorIsCountedAndDoesNotFillTheTrajectory(t *testing.T) {
	c := newCase(t, caseOptions{})
	for range maxRefusedEvents + 25 {
		r, _ := http.NewRequest("GET", "/", nil)
		c.ServeHTTP(discard{}, r)
	}
	if got := c.send(t, "POST", "/v1/chat/completions", chatHello); got.status != 200 {
		t.Errorf("the agent itself gets %d %s", got.status, got.body)
	}
	v := c.end(t)
	security := eventsOf[*trajectory.SecurityEvent](v)
	if last := security[len(security)-1]; len(security) != maxRefusedEvents+1 || last.Name != "gateway.requests_not_recorded" || !strings.HasPrefix(last.Detail, "25 refused requests") {
		t.Errorf("%d security events, the last is %+v", len(security), last)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func TestALimitStopsTheAgent(t *testing.T) {
	c := newCase(t, caseOptions{limits: session.Limits{Tokens: 10}})
	if got := c.send(t, "POST", "/v1/chat/completions", chatHello); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	got := c.send(t, "POST", "/v1/messages", messagesHello)
	if _, message := readFailure(t, "anthropic", got.body); got.status != 400 || !strings.Contains(message, "LimitReached: the case has ended (truncated)") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if c.session.Stopped() == nil {
		t.Error("the session goes on")
	}
}

func TestManyAtOnceGetTheirOwnReplies(t *testing.T) {
	var tape bytes.Buffer
	tape.WriteString("format: tallystick-cassette/1-draft\ninteractions:\n")
	request := func(i int) string { return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, i) }
	const n = 100
	for i := range n {
		fmt.Fprintf(&tape, "  - model: {api: openai.chat, request: %s, reply: {message: {text: \"reply %d.\"}}}\n", request(i), i)
	}
	c := newCase(t, caseOptions{cassette: tape.Bytes()})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if got := c.send(t, "POST", "/v1/chat/completions", request(i)); !strings.Contains(got.body, fmt.Sprintf("reply %d.", i)) {
				t.Errorf("%d: got %d %s", i, got.status, got.body)
			}
		})
	}
	wg.Wait()
	if got := len(eventsOf[*trajectory.TransportRequest](c.end(t))); got != n {
		t.Errorf("%d events, want %d", got, n)
	}
}

// What is not recorded did not happen.
func TestWhatCannotBeRecordedIsNotAnswered(t *testing.T) {
	for _, end := range []func(c *caseRun){
		func(c *caseRun) { c.session.Complete("", false) },
		func(c *caseRun) { c.end(t) },
	} {
		c := newCase(t, caseOptions{})
		h := c.connect(t, "2025-06-18")
		end(c)
		for _, a := range apis {
			if got := c.send(t, "POST", a.path, a.request); got.status < 400 || got.header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: got %d %s", a.path, got.status, got.body)
			}
		}
		if got := c.send(t, "GET", "/v1/models", ""); got.status < 400 {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := c.send(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h...); got.status < 400 || strings.Contains(got.body, "get_weather") {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
}

// A straggler of one turn must not act in the next.
func TestNothingReachesTheSessionAfterClose(t *testing.T) {
	c := newCase(t, caseOptions{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, headers := range [][]string{nil, {"Authorization", ""}} {
		for range 5 {
			if got := c.send(t, "POST", "/v1/chat/completions", chatHello, headers...); got.status != 503 || got.header.Get("X-Should-Retry") != "false" {
				t.Errorf("got %d %s", got.status, got.body)
			}
		}
	}
	if got := types(c.end(t)); got != "run_started run_completed" {
		t.Errorf("events %s", got)
	}
}

func TestCloseEndsCallsAndWaitsForThem(t *testing.T) {
	entered := make(chan struct{})
	c := newCase(t, caseOptions{live: true, models: liveFunc(func(ctx context.Context, _ func(string) error) (*cassette.Interaction, error) {
		close(entered)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})})
	answered := make(chan answer)
	go func() { answered <- c.send(t, "POST", "/v1/messages", streamed(messagesHello)) }()
	<-entered
	if err := c.Close(); err != nil && c.session.Stopped() == nil {
		t.Fatal(err)
	}
	// The call has left its last event when Close returns.
	before := c.session.Fail(nil).Trajectory
	if got := <-answered; got.status != 400 || !strings.Contains(got.body, "context canceled") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if !bytes.Contains(before, []byte(`"type":"error"`)) {
		t.Errorf("the call goes on after Close:\n%s", before)
	}
}

// An agent that hangs up has made its call all the same.
func TestHangingUpDoesNotUndoACall(t *testing.T) {
	entered, release := make(chan context.Context), make(chan struct{})
	c := newCase(t, caseOptions{live: true, models: liveFunc(func(ctx context.Context, _ func(string) error) (*cassette.Interaction, error) {
		entered <- ctx
		<-release
		return liveInteractionOf(t, wire.AnthropicMessages, messagesHello), nil
	})})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", c.url+"/v1/messages", strings.NewReader(messagesHello))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", token)
	gone := make(chan error)
	go func() { _, err := http.DefaultClient.Do(r); gone <- err }()
	if call := <-entered; call.Value(http.ServerContextKey) != nil {
		t.Error("the call ends with the request")
	}
	cancel()
	if <-gone == nil {
		t.Fatal("the client did not hang up")
	}
	close(release)
	if got := types(c.end(t)); got != "run_started model_call_started model_call_completed transport_request run_completed" {
		t.Errorf("events %s", got)
	}
}

func TestNewRefusesAWeakToken(t *testing.T) {
	c := newCase(t, caseOptions{})
	for _, bad := range []string{"", "short", strings.Repeat(" ", 20), strings.Repeat("é", 20)} {
		if _, err := New(context.Background(), Config{Session: c.session, Token: bad}); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestATokenIsNewEachTimeAndLooksLikeAKey(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != len(token) {
		t.Errorf("%s and %s", a, b)
	}
	var byShape *cassette.Redactor
	if safe, n := byShape.Text("key " + a + " here"); n != 1 || safe != "key [redacted:openai-key] here" {
		t.Errorf("recordings would keep it: %s", safe)
	}
}

// A client that begins with HTTP/2, without asking, is served.
func TestTheGatewaySpeaksHTTP2(t *testing.T) {
	c := newCase(t, caseOptions{})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	for body, want := range map[string]string{chatHello: `"Hello from the tape."`, streamed(chatHello): "data: [DONE]"} {
		r, err := http.NewRequest("POST", c.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 || !strings.Contains(string(data), want) {
			t.Errorf("%s %d %s, %v", resp.Proto, resp.StatusCode, data, err)
		}
	}
}

func TestTheEnvironmentNamesTheGateway(t *testing.T) {
	got := strings.Join(Environment("http://127.0.0.1:4000/", "T"), "\n")
	want := `OPENAI_BASE_URL=http://127.0.0.1:4000/v1
OPENAI_API_BASE=http://127.0.0.1:4000/v1
OPENAI_API_KEY=T
ANTHROPIC_BASE_URL=http://127.0.0.1:4000
ANTHROPIC_API_KEY=T
GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000
GEMINI_API_KEY=T
AZURE_OPENAI_ENDPOINT=http://127.0.0.1:4000
AZURE_OPENAI_API_KEY=T
OPENAI_API_TYPE=openai
AWS_ENDPOINT_URL_BEDROCK_RUNTIME=http://127.0.0.1:4000
AWS_ACCESS_KEY_ID=T
AWS_SECRET_ACCESS_KEY=T
AWS_REGION=us-east-1
AWS_DEFAULT_REGION=us-east-1
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4000/v1/traces
OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=Bearer%20T
OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
TALLY_GATEWAY=http://127.0.0.1:4000
TALLY_MCP_URL=http://127.0.0.1:4000/mcp
TALLY_TOKEN=T`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
