package browsertest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/recompute"
	"tallystick/internal/serve/registry/web"
	"tallystick/internal/share/attest"
)

// A catalogue is a registry in which three judges vote.
type catalogue struct {
	t      *testing.T
	reg    *registry.Registry
	server *web.Server
	agent  *registry.Registered
	key    string // of the ledger
	judges map[string]*registry.Registered
	now    time.Time
}

func newCatalogue(t *testing.T) *catalogue {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, ctx := filepath.Join(t.TempDir(), "registry"), context.Background()
	s := registry.Default()
	s.Origin, s.Operator, s.PublicURL = "registry.test/log", "olga", "https://r.example"
	made, err := registry.Init(ctx, dir, s)
	check(t, err)
	c := &catalogue{t: t, key: made.LogKey, judges: map[string]*registry.Registered{}, now: time.Now()}
	c.reg, err = registry.Open(ctx, registry.Options{Dir: dir, Now: func() time.Time { c.now = c.now.Add(time.Second); return c.now }})
	check(t, err)
	t.Cleanup(func() { c.reg.Close() })
	c.server, err = web.New(web.Config{Writer: c.reg, PublicURL: "https://r.example"})
	check(t, err)
	c.agent, err = c.reg.Register(ctx, registry.SignUp{})
	check(t, err)
	for _, who := range []string{"jo", "kim", "lee"} {
		c.judges[who], err = c.reg.Register(ctx, registry.SignUp{})
		check(t, err)
		check(t, c.reg.AdmitJudge(ctx, who, []string{c.judges[who].Agent.ID}))
	}
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// propose proposes something and has the judges vote on it in order.
func (c *catalogue) propose(thing registry.Thing, body string, reason string, verdicts ...string) string {
	c.t.Helper()
	ctx := context.Background()
	p, err := c.reg.Propose(ctx, &c.agent.Agent, thing, []byte(body), "")
	check(c.t, err)
	// The index has the draw in its own time.
	for end := time.Now().Add(time.Minute); len(verdicts) > 0 && p.Judges.Drawn == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		check(c.t, c.reg.Tick(ctx))
		p, err = c.reg.Proposal(ctx, p.ID)
		check(c.t, err)
	}
	for i, verdict := range verdicts {
		judge := c.judges[p.Judges.Persons[i]]
		seed, err := hex.DecodeString(judge.PrivateKey)
		check(c.t, err)
		signed := recompute.Judgement{Content: p.Content, Proposal: p.ID, Registry: "registry.test/log", Verdict: verdict}
		if reason != "" {
			d := digest.ContentOf([]byte(reason))
			signed.Reason = &d
		}
		message, err := signed.Message()
		check(c.t, err)
		_, err = c.reg.Judge(ctx, &judge.Agent, registry.Judgement{Proposal: p.ID, Verdict: verdict, Reason: reason, Signature: hex.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), message))})
		check(c.t, err)
	}
	return p.ID
}

const (
	shownDataset = "/artifacts/datasets/mmlu-pro"
	shownHarness = "/artifacts/eval-harnesses/lm-eval-harness/v0.4.5"
)

func manifestOf(model, metrics string) string {
	return fmt.Sprintf(`{"artifactPath":"/artifacts/models/%s","evalHarnessPath":"%s","datasetPath":"%s","metrics":%s,"runDetails":{"runner":"<img src=x onerror=pwned=1>"}}`, model, shownHarness, shownDataset, metrics)
}

// fill makes a catalogue worth looking at, and gives the proposals by name.
func (c *catalogue) fill() map[string]string {
	c.t.Helper()
	ids := map[string]string{}
	both := []string{"accept", "accept"}
	c.propose(registry.EvalHarness, `{"path":"`+shownHarness+`"}`, "", both...)
	c.propose(registry.Dataset, `{"path":"`+shownDataset+`"}`, "", both...)
	for i, model := range []string{"acme/tiny", "acme/large", "birch/seven", "cedar/base", "dune/one"} {
		c.propose(registry.Model, `{"path":"/artifacts/models/`+model+`"}`, "", both...)
		ids[model] = c.propose(registry.Eval, manifestOf(model, fmt.Sprintf(`{"accuracy":%g,"stderr":%g}`, 0.48+0.08*float64(i), 0.02+0.01*float64(i%2))), "the logs agree with the totals", both...)
		c.now = c.now.Add(9 * 24 * time.Hour)
	}
	for i, accuracy := range []float64{0.55, 0.61, 0.6} {
		ids[fmt.Sprint("tiny", i)] = c.propose(registry.Eval, manifestOf("acme/tiny", fmt.Sprintf(`{"accuracy":%g,"accuracy_stderr":0.02,"f1":0.5}`, accuracy)), "<script>pwned=1</script>\u202e the seed is not stated", "reject", "accept", "accept")
		c.now = c.now.Add(13 * 24 * time.Hour)
	}
	ids["rejected"] = c.propose(registry.Eval, manifestOf("acme/tiny", `{"accuracy":0.97}`), "the logs were not shown", "accept", "reject", "reject")
	ids["withdrawn"] = c.propose(registry.Eval, manifestOf("acme/tiny", `{"accuracy":0.2}`), "")
	_, err := c.reg.Withdraw(context.Background(), &c.agent.Agent, ids["withdrawn"], registry.Once{})
	check(c.t, err)
	ids["none"] = c.propose(registry.Eval, manifestOf("dune/one", `{"accuracy":0.83}`), "", both...)
	ids["observed"] = c.propose(registry.Eval, c.observed(), "", both...)
	ids["pending"] = c.propose(registry.Eval, manifestOf("cedar/base", `{"accuracy":0.7}`), "")
	return ids
}

// observed is a credential that its issuer signed.
func (c *catalogue) observed() string {
	c.t.Helper()
	seed, err := hex.DecodeString(c.agent.PrivateKey)
	check(c.t, err)
	key, err := seal.NewKey(bytes.NewReader(seed))
	check(c.t, err)
	results := []byte(`{"accuracy":0.64,"total":500}`)
	hash, err := attest.ResultsHash(results)
	check(c.t, err)
	zeros := strings.Repeat("0", 64)
	body, err := json.Marshal(map[string]any{
		"schemaVersion": "1.0.0", "runId": "00000000-0000-4000-8000-000000000000", "harnessId": "lm-eval-harness", "harnessVersionSha": zeros, "evalCodeSha": zeros, "datasetSha": zeros,
		"modelId": "acme/large", "runnerDid": c.agent.Agent.PublicKey, "submittedAt": 1747000000000, "results": json.RawMessage(results), "resultsHash": hash,
		"samplingParams": map[string]any{"nSamples": 500}, "contaminationCheck": map[string]any{"method": "13-gram overlap", "overlapRatio": 0.021},
		"extra": map[string]any{"observed": map[string]any{"level": "reproducible", "number": 2, "of": 3}},
	})
	check(c.t, err)
	signed, err := attest.Issue(attest.Draft{Issuer: c.agent.Agent.PublicKey, Body: body}, attest.Signer{Key: key})
	check(c.t, err)
	return fmt.Sprintf(`{"credential":%s,"artifactPath":"/artifacts/models/acme/large","evalHarnessPath":"%s","datasetPath":"%s"}`, signed, shownHarness, shownDataset)
}

// serve puts a forger between the registry and the browser.
func (c *catalogue) serve(forge forger) string {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		answer := httptest.NewRecorder()
		c.server.ServeHTTP(answer, req)
		for name, values := range answer.Header() {
			rw.Header()[name] = values
		}
		rw.Header().Del("Content-Length")
		rw.WriteHeader(answer.Code)
		rw.Write(forge(req.URL.Path, answer.Body.Bytes()))
	}))
	c.t.Cleanup(server.Close)
	return server.URL
}

func TestPagesOfTheRegistryCheckThemselves(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	c := newCatalogue(t)
	ids := c.fill()
	base := c.serve(honest)
	b := open(t, base+"/")
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.give(c.key)
	b.waitFor(`document.getElementById("mark").dataset.state === "matched"`)
	b.js(`document.querySelector("#mark details").open = true`)
	b.js(`[...document.querySelectorAll("#mark button")].find((x) => x.textContent.startsWith("Trust this key")).click()`)
	for name, path := range map[string]string{
		"home": "/", "search": "/?q=tiny", "catalogue": "/artifact/artifacts", "artifact": "/artifact/artifacts/models/acme/tiny", "dataset": "/artifact" + shownDataset,
		"evaluation": "/evaluation/" + ids["tiny2"], "rejected": "/evaluation/" + ids["rejected"], "withdrawn": "/evaluation/" + ids["withdrawn"], "pending": "/evaluation/" + ids["pending"], "observed": "/evaluation/" + ids["observed"],
		"leaderboards": "/leaderboard", "leaderboard": "/leaderboard?dataset=" + shownDataset + "&metric=accuracy", "missing": "/evaluation/none",
	} {
		b.goTo(base + path)
		b.waitFor(marked)
		values := b.js(`document.querySelectorAll("[data-entry]").length`).(float64)
		if want := map[bool]string{true: "matched", false: "computed"}[values > 0]; want == "matched" {
			b.waitFor(`document.getElementById("mark").dataset.state === "matched"`)
		} else if got := b.state(); got != want {
			t.Errorf("%s: the mark says %s: %s", name, got, b.text("#mark"))
		}
		if alarm := b.text("#tallystick-alarm"); alarm != "" {
			t.Errorf("%s: %s", name, alarm)
		}
		b.accessible()
		b.clean()
		b.picture("registry-" + name)
		b.look("light", 390, 844)
		if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
			t.Errorf("%s is wider than a phone", name)
		}
		b.look("light", 1280, 900)
	}
}

// What a proxy, a cache or a changed database makes of a registry's pages.
func TestChangedPagesOfTheRegistryAreNoticed(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	c := newCatalogue(t)
	ids := c.fill()
	replaced := func(prefix, old, with string) forger {
		return func(path string, body []byte) []byte {
			if !strings.HasPrefix(path, prefix) {
				return body
			}
			return bytes.ReplaceAll(body, []byte(old), []byte(with))
		}
	}
	both := func(a, b forger) forger {
		return func(path string, body []byte) []byte { return b(path, a(path, body)) }
	}
	page, board := "/evaluation/"+ids["tiny2"], "/leaderboard?dataset="+shownDataset+"&metric=accuracy"
	for name, tt := range map[string]struct {
		path, says string
		forge      forger
	}{
		"a metric":                          {page, "0.900", replaced("/evaluation", ">0.600<", ">0.900<")},
		"a metric of the leaderboard":       {board, "0.900", replaced("/leaderboard", ">0.600<", ">0.900<")},
		"an outcome":                        {"/evaluation/" + ids["rejected"], "published", replaced("/evaluation", ">rejected<", ">published<")},
		"a verdict":                         {page, "accept", replaced("/evaluation", ">reject<", ">accept<")},
		"a metric and the manifest with it": {page, "not the one that the entry names", both(replaced("/evaluation", ">0.600<", ">0.900<"), replaced("/pages/blob", `"accuracy":0.6`, `"accuracy":0.9`))},
		"an entry":                          {page, "", replaced("/pages/receipt", `/artifacts/models/acme/tiny`, `/artifacts/models/acme/tidy`)},
	} {
		b := open(t, c.serve(tt.forge)+tt.path)
		b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
		if alarm := b.text("#tallystick-alarm"); alarm == "" || !strings.Contains(alarm, tt.says) {
			t.Errorf("%s: %q", name, alarm)
		}
	}
}
