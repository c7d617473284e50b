package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// A crowded provider allows some calls at once, says 429 to all others, and has
// bad moments: errors, time-outs, connections without an answer, streams and
// bodies that break off. A client's own patience is tested elsewhere: how long an
// answer takes here is this machine's business.
type crowded struct {
	allows int

	mu                       sync.Mutex
	under, most, asked, full int
	whole                    map[string]int // answers that came whole, by case
	billed                   int            // answers that were begun
}

func (c *crowded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Content string }
		Stream   bool
	}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.asked++
	nth := c.asked
	busy := c.under >= c.allows
	if busy {
		c.full++
	} else {
		c.under++
		c.most = max(c.most, c.under)
	}
	c.mu.Unlock()
	if busy {
		w.Header().Set("Retry-After-Ms", "20")
		http.Error(w, `{"error":{"message":"too many"}}`, http.StatusTooManyRequests)
		return
	}
	defer func() {
		c.mu.Lock()
		c.under--
		c.mu.Unlock()
	}()
	time.Sleep(5 * time.Millisecond)
	switch {
	case nth%31 == 0:
		http.Error(w, `{"error":{"message":"oh"}}`, http.StatusInternalServerError)
		return
	case nth%211 == 0:
		http.Error(w, `{"error":{"message":"it took too long"}}`, http.StatusGatewayTimeout)
		return
	case nth%97 == 0:
		panic(http.ErrAbortHandler) // as a server that gives up does
	}
	reply, err := wire.Body(wire.OpenAIChat, &wire.Answer{ID: "x", Model: "fake-1", Text: q.Messages[0].Content, InputTokens: 10, OutputTokens: 5})
	if err != nil {
		panic(err)
	}
	kind, pieces := "application/json", []string{string(reply)}
	if q.Stream {
		kind = "text/event-stream"
		if pieces, err = wire.StreamOfBody(wire.OpenAIChat, reply, true); err != nil {
			panic(err)
		}
	}
	c.mu.Lock()
	c.billed++
	c.mu.Unlock()
	w.Header().Set("Content-Type", kind)
	cut := nth%47 == 0
	for i, piece := range pieces {
		if cut && i == len(pieces)-1 {
			io.WriteString(w, piece[:len(piece)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, piece)
	}
	c.mu.Lock()
	c.whole[q.Messages[0].Content]++
	c.mu.Unlock()
}

// A thousand cases at once get one answer each, whatever the provider's mood, and
// nothing that it answered whole is asked again.
func TestAThousandCasesAgainstACrowdedProvider(t *testing.T) {
	for _, tt := range []struct{ name, limits string }{
		{"with the limit in the settings", "{calls_at_once: 50, retries: 20}"},
		{"learning the limit", "{retries: 50}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const cases, limit = 1000, 20_000_000
			server := &crowded{allows: 50, whole: map[string]int{}}
			listens := httptest.NewUnstartedServer(server)
			listens.Config.ErrorLog = nil
			listens.Start()
			defer listens.Close()
			s := parseSettings(t, "version: 1\nopenai:\n  base_url: "+listens.URL+"/v1\n  key_env: TEST_KEY\n  limits: "+tt.limits+testPrices)
			access := openAccess(t, s, map[string]string{"TEST_KEY": testKey})
			budget := NewBudget(limit)
			var group sync.WaitGroup
			problems := make(chan string, cases)
			for i := range cases {
				group.Go(func() {
					name := fmt.Sprintf("case %d", i)
					if err := askOnce(access, budget, name, i%2 == 0); err != nil {
						problems <- name + ": " + err.Error()
					}
				})
			}
			group.Wait()
			close(problems)
			for p := range problems {
				t.Error(p)
			}
			for name, n := range server.whole {
				if n != 1 {
					t.Errorf("%s was answered whole %d times", name, n)
				}
			}
			if len(server.whole) != cases || server.most > server.allows {
				t.Errorf("%d cases answered, %d calls at once", len(server.whole), server.most)
			}
			if spent := budget.Spent(); spent < int64(server.billed)*30 || spent > limit {
				t.Errorf("spent %d of %d, the provider billed %d answers", spent, limit, server.billed)
			}
			t.Logf("%d requests, %d of them too many, at most %d at once, %d billed, %d micro-dollars", server.asked, server.full, server.most, server.billed, budget.Spent())
			if strings.Contains(tt.limits, "calls_at_once") && server.full > 0 {
				t.Errorf("%d calls came to a full provider", server.full)
			}
		})
	}
}

// askOnce is one case: it asks one question and must have one recorded answer.
func askOnce(access *Access, budget *Budget, name string, stream bool) error {
	side, err := access.Case(CaseOptions{Budget: budget, Now: time.Unix(0, 0)})
	if err != nil {
		return err
	}
	defer side.Close()
	body := fmt.Sprintf(`{"max_tokens":10,"messages":[{"content":%q,"role":"user"}],"model":"fake-1","stream":%t}`, name, stream)
	it, err := side.Call(context.Background(), wire.OpenAIChat, []byte(body), nil)
	if err != nil {
		return err
	}
	reply, err := it.Model.Reply(wire.Delivery{})
	if err != nil || it.Model.Response.Status != 200 || !strings.Contains(string(reply.Body), `"`+name+`"`) {
		return fmt.Errorf("status %d, %s, %v", it.Model.Response.Status, reply.Body, err)
	}
	file, err := side.Cassette()
	if err != nil {
		return err
	}
	tape, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		return err
	}
	if n := len(tape.Interactions); n != 1 {
		return fmt.Errorf("%d recorded", n)
	}
	return nil
}

func TestALaneKeepsItsLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	laneOf := func(l Limits) *lane {
		n := newLane(l)
		n.now = func() time.Time { return now }
		return n
	}
	taken := func(l *lane, tokens int64) (n int) {
		for range 100 {
			if wait, freed := l.take(tokens); wait > 0 || freed != nil {
				break
			}
			n++
		}
		return n
	}
	if n := taken(laneOf(Limits{RequestsPerMinute: 30}), 5); n != 30 {
		t.Errorf("%d requests at once of 30 a minute", n)
	}
	tokens := laneOf(Limits{TokensPerMinute: 1000})
	if n := taken(tokens, 300); n != 3 {
		t.Errorf("%d calls of 300 tokens, of 1000 a minute", n)
	}
	if wait, _ := tokens.take(300); wait != 12*time.Second {
		t.Errorf("the next waits %v, want the fifth of a minute in which 200 more fit", wait)
	}
	now = now.Add(12 * time.Second)
	if n := taken(tokens, 300); n != 1 {
		t.Errorf("then %d fit", n)
	}
	if n := taken(laneOf(Limits{TokensPerMinute: 100}), 5000); n != 1 {
		t.Errorf("%d calls larger than the limit, want 1: it must not wait for ever", n)
	}
	crowd := laneOf(Limits{CallsAtOnce: 8})
	if n := taken(crowd, 1); n != 8 {
		t.Errorf("%d calls at once of 8", n)
	}
	p := &pass{crowd, 1}
	full := &reply{sent: true, status: http.StatusTooManyRequests, header: http.Header{"Retry-After": {"7"}}}
	for range 8 {
		p.leave(full)
	}
	if wait, _ := crowd.take(1); wait != 7*time.Second || crowd.allowed != 4 {
		t.Errorf("after 429 it waits %v and allows %v, want 7s and half", wait, crowd.allowed)
	}
	now = now.Add(7 * time.Second)
	if n := taken(crowd, 1); n != 4 {
		t.Errorf("then %d at once", n)
	}
	for range 4 {
		p.leave(&reply{sent: true, status: 200})
	}
	if crowd.allowed < 4.9 || crowd.allowed > 8 {
		t.Errorf("after a round of answers it allows %v, want one more", crowd.allowed)
	}
}

// Runs that ask one provider at the same time share its limits: each class gets an
// equal part, however many runs it has. What has ended, or was killed, has none.
func TestRunsShareTheLimitsOfAProvider(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "asking")
	clock := time.Unix(1000, 0)
	run := func(key, class string) *lane {
		s := parseSettings(t, "version: 1\nopenai: {key_env: "+key+", limits: {calls_at_once: 40, requests_per_minute: 80}}")
		a := openAccess(t, s, nil)
		a.Among(dir, class)
		l := a.lanes["openai"]
		l.now, l.company.now = func() time.Time { return clock }, func() time.Time { return clock }
		return l
	}
	free := func(l *lane) (n int) {
		if _, wait := l.company.share(); wait > 0 {
			if w, _ := l.take(1); w != recount {
				t.Errorf("it does not wait until the others know of it, but %v", w)
			}
			clock = clock.Add(wait)
		}
		for range 100 {
			if wait, freed := l.take(1); wait > 0 || freed != nil {
				break
			}
			n++
		}
		for range n {
			l.inside++
			(&pass{l, 1}).leave(nil)
		}
		l.rest.Stop()
		clock = clock.Add(recount)
		return n
	}
	want := func(l *lane, n int) {
		t.Helper()
		if got := free(l); got != n {
			t.Errorf("%d calls at once, want %d", got, n)
		}
	}
	sums := run("KEY", "sums")
	want(sums, 40)
	words, again, other := run("KEY", "words"), run("KEY", "words"), run("OTHER_KEY", "words")
	want(words, 20)
	want(sums, 20)
	want(again, 10)
	want(words, 10)
	want(sums, 20)
	want(other, 40)
	again.company.leave()
	want(words, 20)
	words.company.lock.Close() // as if it was killed: its file is still there
	words.company.lock = nil
	want(sums, 40)
	// What cannot be a run is none: a folder, a name of another form.
	for _, name := range []string{sums.company.prefix + strings.Repeat("0", 32) + "-x", "x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		want(sums, 40)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left %v, %v", left, err)
	}
	// The requests of a minute are shared too.
	words = run("KEY", "words")
	words.company.share()
	sums.limits.CallsAtOnce, sums.allowed = 0, math.Inf(1)
	clock = clock.Add(time.Minute)
	want(sums, 40)
}

// Runs that ask more than one provider allows at once never meet a full one, though
// each of them alone is told that it may ask as much.
func TestTwoRunsTogetherKeepTheLimit(t *testing.T) {
	server := &crowded{allows: 8, whole: map[string]int{}}
	listens := httptest.NewServer(server)
	defer listens.Close()
	dir := filepath.Join(t.TempDir(), "asking")
	var runs [2]*Access
	for i := range runs {
		s := parseSettings(t, "version: 1\nopenai:\n  base_url: "+listens.URL+"/v1\n  key_env: TEST_KEY\n  limits: {calls_at_once: 8, retries: 20}"+testPrices)
		runs[i] = openAccess(t, s, map[string]string{"TEST_KEY": testKey})
		runs[i].Among(dir, fmt.Sprint(i))
	}
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			if err := askOnce(runs[i%2], NewBudget(1_000_000), fmt.Sprint(i), false); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if server.full > 0 || len(server.whole) != 100 {
		t.Errorf("%d calls came to a full provider, %d were answered", server.full, len(server.whole))
	}
}

// A provider that is down is not asked by every case as often as one call may be.
func TestRetriesHaveABudget(t *testing.T) {
	l := newLane(Limits{})
	down := &reply{sent: true, status: 503}
	n := 0
	for range 1000 {
		p, err := l.enter(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		p.leave(down)
		if l.mayRetry(down) {
			n++
		}
	}
	if n != spareRetries+1000/callsPerRetry {
		t.Errorf("%d retries for 1000 calls", n)
	}
	if !l.mayRetry(&reply{status: 429}) || !math.IsInf(l.allowed, 1) {
		t.Error("a provider that says 429 is waited for")
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"{calls_at_once: -1}":   "expected 1 to",
		"{retries: 51}":         "expected 0 to 50",
		"{tokens_a_minute: 10}": "is not a known key",
	} {
		_, err := ParseSettings("providers.yaml", []byte("version: 1\nopenai: {limits: "+text+"}"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "providers.yaml:2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if s := parseSettings(t, "version: 1\nopenai: {limits: {retries: 0}}"); s.Endpoints[0].Limits.Retries != 0 {
		t.Errorf("%+v", s.Endpoints[0].Limits)
	}
}

const bedrockSettings = "version: 1\nbedrock:\n  region: eu-west-1\n  prices: {\"m:0\": {input: 1000000, output: 1000000, max_output_tokens: 50}}\n"

// The vectors are what botocore 1.44.3 signs.
func TestRequestsAreSignedAsTheSDKSigns(t *testing.T) {
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date%s, Signature=%s"
	for _, tt := range []struct{ session, header, signature string }{
		{"", "", "87a3d3326ff5b133448b8c8b20646aed71b4a07ce730bf587e4d7db404abd7e6"},
		{"SESSION-TOKEN-0123456789", ";x-amz-security-token", "30dc5f974ad296ab4b7a612f908a216d85f6f7c03c1c9dc493d66ad7e0d79cef"},
	} {
		body := `{"messages":[]}`
		req, err := http.NewRequest("POST", "https://bedrock-runtime.eu-west-1.amazonaws.com/model/us.maker.model-v1%3A0/converse", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		s := &signer{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", tt.session, "eu-west-1", signedService}
		s.sign(req, []byte(body), time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
		if got := req.Header.Get("Authorization"); got != fmt.Sprintf(want, tt.header, tt.signature) {
			t.Errorf("signed\n%s\nwant\n%s", got, fmt.Sprintf(want, tt.header, tt.signature))
		}
	}
}

func TestSignedRequestsGoOutWithTheOperatorsKeys(t *testing.T) {
	server := fakemodel.New(t, fakemodel.Reply{Text: "hi"}, fakemodel.Reply{Text: "hi"})
	s := parseSettings(t, bedrockSettings+"  base_url: "+server.URL+"\n  access_key_env: A_KEY\n  secret_key_env: A_SECRET\n")
	access := openAccess(t, s, map[string]string{"A_KEY": "AKIDEXAMPLE", "A_SECRET": "a-secret-of-twenty-bytes"})
	side, err := access.Case(CaseOptions{Budget: NewBudget(1_000_000), Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	for _, stream := range []string{"", `,"stream":true`} {
		it, err := side.Call(context.Background(), wire.BedrockConverse, []byte(`{"messages":[{"content":[{"text":"hello"}],"role":"user"}],"model":"m:0"`+stream+`}`), nil)
		if err != nil || it.Model.CostMicrodollars == nil || *it.Model.CostMicrodollars != 15 {
			t.Fatalf("%+v, %v", it, err)
		}
	}
	for i, path := range []string{"/model/m%3A0/converse", "/model/m%3A0/converse-stream"} {
		q := server.Requests()[i]
		if a := q.Header.Get("Authorization"); q.Path != path || !strings.HasPrefix(a, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(a, "/eu-west-1/bedrock/aws4_request") {
			t.Errorf("sent to %s with %s", q.Path, a)
		}
	}
	// Without keys nothing is sent, and the message says what is missing.
	access = openAccess(t, parseSettings(t, bedrockSettings), nil)
	requireRefusal(t, access.CheckModel(wire.BedrockConverse, "m:0", 10), refusal.NotFound, "AWS_ACCESS_KEY_ID is not set")
	for text, want := range map[string]string{
		"bedrock: {}":                            "one such as us-east-1",
		"bedrock: {region: \"x.evil.example/\"}": "one such as us-east-1",
		"bedrock: {region: us-east-1, key_env: A, access_key_env: B}":             "expected a key or the names",
		"bedrock: {region: us-east-1, access_key_env: AKIAIOSFODNN7EXAMPLE}":      "secret_key_env: is not the name of a variable",
		"bedrock: {region: us-east-1, access_key_env: A, secret_key_env: abc/+=}": "the key itself never stands here",
		"openai: {region: us-east-1}":                                             "is for providers whose requests are signed",
		"azure: {key_env: A}":                                                     "base_url: is missing",
	} {
		if _, err := ParseSettings("providers.yaml", []byte("version: 1\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
