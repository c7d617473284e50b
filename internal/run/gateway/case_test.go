package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/tape"
)

const token = "sk-tally-0123456789abcdef0123456789abcdef0123456789abcdef"

// A caseRun is one case with a gateway that listens.
type caseRun struct {
	*Gateway
	session *session.Session
	url     string
}

type caseOptions struct {
	cassette []byte         // in YAML; testdata/clients.yaml if nil
	models   session.Models // instead of a cassette
	live     bool
	limits   session.Limits
	maxBody  int64
	policy   *policy.Policy
	token    string // the usual one if ""
	shared   bool
	steps    func(string, []byte) ([]Step, error)
}

// newCase begins a case whose gateway listens.
func newCase(t testing.TB, o caseOptions) *caseRun {
	t.Helper()
	c := makeCase(t, o)
	server := httptest.NewUnstartedServer(c)
	server.Config = c.Server()
	server.Start()
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func makeCase(t testing.TB, o caseOptions) *caseRun {
	t.Helper()
	if o.cassette == nil {
		o.cassette = readFile(t, "testdata/clients.yaml")
	}
	recorded, err := tape.FromYAML("tape.yaml", o.cassette)
	if err != nil {
		t.Fatal(err)
	}
	if o.models == nil {
		o.models = &session.Replay{Player: cassette.NewPlayer(recorded)}
	}
	p := policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 1_000_000, MaxToolCalls: 1000, Deny: []string{"transfer"}}
	if o.policy != nil {
		p = *o.policy
	}
	rules, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.New(session.Config{
		Run:   trajectory.RunStarted{Attempt: "a-1", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
		Rules: rules, Models: o.models, Source: "cassette", Tools: weather{}, Limits: o.limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(context.Background(), Config{Session: s, Token: cmp.Or(o.token, token), Shared: o.shared, Models: recorded.Header.Models, Live: o.live, Steps: o.steps, MaxBodyBytes: o.maxBody})
	if err != nil {
		t.Fatal(err)
	}
	return &caseRun{Gateway: g, session: s}
}

// weather is the tools of the case.
type weather struct{}

func (weather) Definitions() []tools.Definition {
	return []tools.Definition{
		{Name: "get_weather", Description: "The weather in a city.", Class: policy.Read, Schema: canon.RawMessage(`{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}`)},
		{Name: "transfer", Description: "Moves money.", Class: policy.Financial},
		{Name: "half", Class: policy.Read, Schema: canon.RawMessage(`{"properties":{}}`)},
	}
}

func (weather) Call(_ context.Context, name string, args []byte) (tools.Result, error) {
	var a struct{ City string }
	switch {
	case name != "get_weather":
		return tools.Result{Error: "there is no tool called " + name, Source: "fixture"}, nil
	case json.Unmarshal(args, &a) != nil || a.City == "":
		return tools.Result{Error: "city is missing", Source: "fixture"}, nil
	}
	out, err := canon.Marshal(map[string]string{"city": a.City, "sky": "rain"})
	return tools.Result{JSON: out, Source: "fixture"}, err
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An answer is a reply, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes a request with the token of the case, unless a header says
// otherwise.
func (c *caseRun) send(t testing.TB, method, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// end closes the gateway and the case and gives its events.
func (c *caseRun) end(t testing.TB) *trajectory.Verified {
	t.Helper()
	if err := c.Close(); err != nil && c.session.Stopped() == nil {
		t.Fatal(err)
	}
	result := c.session.Complete("done", false)
	v, err := trajectory.Verify(result.Trajectory, trajectory.HeadIs(result.Head))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(result.Trajectory, []byte(token)) || bytes.Contains(result.Trajectory, []byte(foreignKey)) {
		t.Errorf("a key is in the trajectory:\n%s", result.Trajectory)
	}
	return v
}

// foreignKey is a key that an agent brings along.
const foreignKey = "sk-" + "proj-Zz9yX8wV7uT6sR5qP4oN3mL2"

// eventsOf lists the payloads of one kind.
func eventsOf[P trajectory.Payload](v *trajectory.Verified) []P {
	var found []P
	for e := range v.Events() {
		if p, ok := e.Payload.(P); ok {
			found = append(found, p)
		}
	}
	return found
}

// types lists what happened.
func types(v *trajectory.Verified) string {
	var names []string
	for e := range v.Events() {
		names = append(names, string(e.Type))
	}
	return strings.Join(names, " ")
}

// dataOf lists the data of server-sent events.
func dataOf(stream string) []string {
	var out []string
	for scan := bufio.NewScanner(strings.NewReader(stream)); scan.Scan(); {
		if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

// liveFunc is a live model.
type liveFunc func(ctx context.Context, onChunk func(string) error) (*cassette.Interaction, error)

func (f liveFunc) Call(ctx context.Context, _ wire.API, _ []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	return f(ctx, onChunk)
}

// liveInteraction is what a provider hands back for a stream of chat.
func liveInteraction(t testing.TB, chunks []string) *cassette.Interaction {
	t.Helper()
	return recorded(t, cassette.ModelTraffic{API: wire.OpenAIChat, Request: []byte(chatHello), Status: 200, Body: []byte(strings.Join(chunks, "")), Streamed: true})
}

// liveInteractionOf is a whole body of any API.
func liveInteractionOf(t testing.TB, api wire.API, request string) *cassette.Interaction {
	t.Helper()
	return recorded(t, cassette.ModelTraffic{API: api, Request: []byte(request), Status: 200, Body: []byte(`{}`)})
}

func recorded(t testing.TB, m cassette.ModelTraffic) *cassette.Interaction {
	t.Helper()
	r, err := cassette.NewRecorder(cassette.RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := r.Model(m)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// open makes a request and gives its body while it arrives.
func (c *caseRun) open(t testing.TB, path, body string) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequest("POST", c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		t.Fatalf("status %d: %s", resp.StatusCode, readAll(t, resp.Body))
	}
	return resp.Body
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unheard is a case without a listener, for fuzzing.
func unheard(t testing.TB) (*Gateway, *session.Session) {
	t.Helper()
	c := makeCase(t, caseOptions{cassette: []byte(helloTape)})
	return c.Gateway, c.session
}

const helloTape = `format: tallystick-cassette/1-draft
interactions:
  - model: {api: openai.chat, request: ` + chatHello + `, reply: {message: {text: hello}}}
  - model: {api: openai.responses, request: ` + responsesHello + `, reply: {message: {text: hello}}}
  - model: {api: anthropic.messages, request: ` + messagesHello + `, reply: {message: {text: hello}}}
`

// serve posts to a gateway without a network.
func serve(g *Gateway, path, body, mcpSession string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("X-Api-Key", token)
	if mcpSession != "" {
		r.Header.Set(sessionHeader, mcpSession)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}
