package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/browser"
)

const hostile = `<script>alert(1)</script>"'>` + "\u202e\u2066 \x1b[31m <svg onload=x> {{.}} </td>"

// A shownRegistry has a proposal of every fate, by judges who do not agree.
type shownRegistry struct {
	*place
	judges                                               map[string]member
	runner                                               member
	dissented, rejected, withdrawn, lapsed, open, sealed string
}

// browse asks as a browser does.
func (p *place) browse(target string) answer {
	return p.get(target, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

func newShownRegistry(t *testing.T) *shownRegistry {
	p := newPlace(t, func(_ string, s *registry.Settings) { s.Judges, s.Quorum = 3, 2 })
	s := &shownRegistry{place: p, judges: map[string]member{}, runner: p.register()}
	for i := range 3 {
		m, who := p.register(), fmt.Sprintf("judge-%d", i)
		s.judges[who] = m
		if err := p.reg.AdmitJudge(context.Background(), who, []string{m.id}); err != nil {
			t.Fatal(err)
		}
	}
	accept := []string{"accept", "accept"}
	for kind, path := range map[string]string{"model": modelPath, "eval-harness": harnessPath, "dataset": datasetPath} {
		s.vote(s.propose("/api/knowledge/"+kind+"/propose", `{"path":"`+path+`"}`), accept, "")
	}
	// A dissent comes before the vote that decides.
	s.dissented = s.eval(`{"accuracy":0.738,"accuracy_stderr":0.0041,"f\u003cb\u003e1":0.5}`)
	s.vote(s.dissented, []string{"reject", "accept", "accept"}, hostile)
	s.rejected = s.eval(`{"accuracy":0.99}`)
	s.vote(s.rejected, []string{"accept", "reject", "reject"}, "too good")
	s.withdrawn = s.eval(`{"accuracy":0.4}`)
	p.post("/api/agent/v1/withdraw", s.runner.key, `{"proposalId":"`+s.withdrawn+`"}`).is(200)
	s.lapsed = s.eval(`{"accuracy":0.41}`)
	s.tick()
	p.later(30 * 24 * time.Hour)
	s.tick()
	s.sealed = s.observed("00000000-0000-4000-8000-000000000000", "0.75", map[string]any{"level": "reproducible", "number": 2, "of": 5})
	s.vote(s.sealed, accept, "")
	s.open = s.eval(`{"accuracy":0.42}`)
	return s
}

func (s *shownRegistry) tick() {
	s.t.Helper()
	if err := s.reg.Tick(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shownRegistry) propose(route, body string) string {
	s.t.Helper()
	return s.post(route, s.runner.key, body).is(201).has("proposalId")
}

func (s *shownRegistry) eval(metrics string) string {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"artifactPath": modelPath, "evalHarnessPath": harnessPath, "datasetPath": datasetPath, "metrics": json.RawMessage(metrics),
		"runDetails": map[string]string{"runner": hostile}})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.propose("/api/knowledge/eval/propose", string(text))
}

// vote has the drawn judges vote in order.
func (s *shownRegistry) vote(id string, verdicts []string, reason string) {
	s.t.Helper()
	full := s.get("/proposal/" + id).is(200)
	for end := time.Now().Add(time.Minute); full.has("judges.drawn") == "0" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.tick() // draws judges, and the index has them in its own time
		full = s.get("/proposal/" + id).is(200)
	}
	var drawn []string
	if err := json.Unmarshal([]byte(full.has("judges.persons")), &drawn); err != nil {
		s.t.Fatal(err)
	}
	for i, verdict := range verdicts {
		m := s.judges[drawn[i]]
		s.post("/api/agent/v1/judge", m.key, judgementBody(s.t.(*testing.T), id, verdict, reason, m.sign(s.t.(*testing.T), full, verdict, reason))).is(200)
	}
}

// observed proposes a credential of an attempt that its issuer says to have observed:
// what it says of it, and its rate over 400 cases.
func (s *shownRegistry) observed(run, accuracy string, says map[string]any) string {
	s.t.Helper()
	return s.attested(run, accuracy, map[string]any{"observed": says})
}

func (s *shownRegistry) attested(run, accuracy string, extra map[string]any) string {
	s.t.Helper()
	key, err := seal.NewKey(bytes.NewReader(s.runner.private.Seed()))
	if err != nil {
		s.t.Fatal(err)
	}
	did := s.get("/api/agents/" + s.runner.id).is(200).has("publicKey")
	var body map[string]any
	if err := json.Unmarshal([]byte(exampleBody), &body); err != nil {
		s.t.Fatal(err)
	}
	results := `{"accuracy":` + accuracy + `,"total":400}`
	body["results"] = json.RawMessage(results)
	if body["resultsHash"], err = attest.ResultsHash([]byte(results)); err != nil {
		s.t.Fatal(err)
	}
	body["runnerDid"], body["samplingParams"] = did, map[string]any{"nSamples": 400}
	body["contaminationCheck"] = map[string]any{"method": "13-gram " + "<i>overlap</i>", "overlapRatio": 0.025}
	body["runId"], body["extra"] = run, extra
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := attest.Issue(attest.Draft{Issuer: did, Body: text, Status: []attest.StatusEntry{attest.NewStatusEntry("https://lab.example/status/1", 5, attest.Revocation)}}, attest.Signer{Key: key})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.propose("/api/knowledge/eval/propose", `{"credential":`+string(signed)+`,"artifactPath":"`+modelPath+`","evalHarnessPath":"`+harnessPath+`","datasetPath":"`+datasetPath+`"}`)
}

// cells are the values of a page that say where they come from.
var cells = regexp.MustCompile(`<span(?: class="[^"]*")? data-entry="([0-9]+)"(?: data-blob="([^"]*)")? data-field="([^"]*)" data-as="([^"]*)">([^<]*)</span>`)

// checkCells does what check.js does: every value that names an entry is made again
// of it.
func (p *place) checkCells(target, body string) (checked int) {
	p.t.Helper()
	for _, m := range cells.FindAllStringSubmatch(body, -1) {
		entry, err := layout.Decode([]byte(p.get("/pages/receipt/" + m[1]).is(200).has("entry")))
		if err != nil {
			p.t.Fatal(err)
		}
		doc, _ := layout.At(entry, "/body")
		if m[2] != "" {
			name, _ := layout.Shown(doc, m[2], "text")
			if doc, err = layout.Decode(p.get("/pages/blob/" + name).is(200).Body.Bytes()); err != nil {
				p.t.Fatal(err)
			}
		}
		want, there := layout.Shown(doc, html.UnescapeString(m[3]), browser.Format(m[4]))
		if got := html.UnescapeString(m[5]); !there || got != want {
			p.t.Errorf("%s shows %q for %s of entry %s, which has %q", target, got, m[3], m[1], want)
		}
		checked++
	}
	if n := strings.Count(body, "data-entry="); n != checked {
		p.t.Errorf("%s has %d values that name an entry, %d were found", target, n, checked)
	}
	return checked
}

func TestPagesOfARegistry(t *testing.T) {
	s := newShownRegistry(t)
	board := "/leaderboard?dataset=" + datasetPath
	for target, want := range map[string][]string{
		"/":                          {"Newest evaluations", "imported, not observed", "observed, says its issuer", ">rejected<", ">withdrawn<", ">lapsed<", ">pending<", `type="search"`},
		"/?q=TINY+rejected":          {s.rejected, "<h2>Found</h2>"},
		"/?q=nobody":                 {"Nothing has all these words"},
		"/artifact/artifacts":        {"models", "datasets", "Below it"},
		"/artifact" + modelPath:      {"<svg", "Over time", s.dissented, s.withdrawn, "0.738", "0.750", "attempt 2 of 5"},
		"/artifact" + datasetPath:    {"leaderboard?dataset=%2Fartifacts%2Fdatasets%2Fmmlu-pro"},
		"/evaluation/" + s.dissented: {"1 dissented", "dissent</span>", "judge-", "2 for it, 1 against", "imported, not observed", "/receipt/", "tally registry monitor", "curl -s " + base + "/receipt/", "registry.test/log&#43;", "There are none."},
		"/evaluation/" + s.rejected:  {"The judges rejected it", ">rejected<", "too good", "There were <span"},
		"/evaluation/" + s.withdrawn: {"Its proposer withdrew it"},
		"/evaluation/" + s.lapsed:    {"It lapsed", "Drawn and silent"},
		"/evaluation/" + s.open:      {"not decided yet"},
		"/evaluation/" + s.sealed:    {"observed, says its issuer", "did:key:", "reproducible", "2 of 5", "13-gram &lt;i&gt;overlap", "2.5 %", "tally attest verify credential.json", ">unchecked</span>: the issuer’s status list was not at hand"},
		"/leaderboard":               {datasetPath, "Leaderboards"},
		board:                        {"0.738", "0.750", "1 to 2", "stated standard error", "Wilson, 400 samples", "do not come from paired tests", "level reproducible", "signed by its own runner", "attempt 2 of 5", "13-gram"},
		board + "&metric=f%3Cb%3E1":  {"Without an interval", "no interval", "f&lt;b&gt;1"},
		board + "&metric=none":       {"No published evaluation of this dataset has"},
		board + "&better=lower":      {"Smaller is taken as better"},
	} {
		a := s.browse(target).is(200)
		body := a.Body.String()
		for _, w := range append(want, `<div id="mark" role="status">`, `src="/pages/assets/check.js"`, `href="/pages/assets/style.css"`, "<h1>", `<html lang="en">`, `name="viewport"`) {
			if !strings.Contains(body, w) {
				t.Errorf("%s has no %q", target, w)
			}
		}
		for _, bad := range []string{"<script>", "<b>1", "<i>over", "<svg onload", "\u202e", "\x1b", "onclick", "style="} {
			bad = strings.NewReplacer(`\u202e`, "\u202e", `\x1b`, "\x1b").Replace(bad)
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q", target, bad)
			}
		}
		if strings.Count(body, "<script") != 2 || a.Header().Get("Content-Security-Policy") != layout.Policy {
			t.Errorf("%s: %d scripts, policy %q", target, strings.Count(body, "<script"), a.Header().Get("Content-Security-Policy"))
		}
		s.checkCells(target, body)
	}
	for target, least := range map[string]int{"/": 8, "/evaluation/" + s.dissented: 12, board: 2} {
		if n := s.checkCells(target, s.browse(target).Body.String()); n < least {
			t.Errorf("%s has %d values that can be checked, want %d", target, n, least)
		}
	}
	// A leaderboard has what is published and nothing else.
	body := s.browse(board).Body.String()
	for _, id := range []string{s.rejected, s.withdrawn, s.lapsed, s.open} {
		if strings.Contains(body, id) {
			t.Errorf("%s is on the leaderboard", id)
		}
	}
}

// Runs on the same cases are told apart although their intervals meet.
func TestLeaderboardPairsRuns(t *testing.T) {
	s := newShownRegistry(t)
	board := "/leaderboard?dataset=" + datasetPath
	for i, passed := range []int{312, 328} {
		id := s.observed(fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", i+1), fmt.Sprint(float64(passed)/400),
			map[string]any{"level": "signed", "number": 1, "of": 1, "outcomes": strings.Repeat("1", passed) + strings.Repeat("0", 400-passed)})
		s.vote(id, []string{"accept", "accept"}, "")
	}
	body := s.browse(board).Body.String()
	for _, want := range []string{"<strong>1 to 2</strong>", "<strong>2 to 4</strong>", "compared case by case with 1 row<", "-4.0 points from the first row (-6.1 to -2.0); it alone passed 0 cases, the first row alone 16", "McNemar"} {
		if !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("no %q on the leaderboard:\n%s", want, body)
		}
	}
	if strings.Contains(body, "do not come from paired tests") {
		t.Error("the page says that nothing was paired")
	}
}

// What a credential says against its own numbers stands beside them.
func TestPagesTellWhatAnImportContradicted(t *testing.T) {
	s := newShownRegistry(t)
	id := s.attested("00000000-0000-4000-8000-000000000009", "0.99",
		map[string]any{"imported": map[string]any{"checks": map[string]any{"fail": 1, "failed": []string{"metric accuracy: stated 0.99, recomputed <b>0.3</b>"}}}})
	s.vote(id, []string{"accept", "accept"}, "")
	for target, want := range map[string]string{
		"/evaluation/" + id:                   "says its credential: metric accuracy: stated 0.99, recomputed &lt;b&gt;0.3&lt;/b&gt;",
		"/leaderboard?dataset=" + datasetPath: "its files contradicted themselves",
	} {
		if body := s.browse(target).Body.String(); !strings.Contains(body, want) {
			t.Errorf("no %q on %s", want, target)
		}
	}
}

// Every link of every page leads somewhere.
func TestLinksOfPages(t *testing.T) {
	s := newShownRegistry(t)
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	seen, todo := map[string]bool{}, []string{"/"}
	for len(todo) > 0 {
		target := todo[0]
		todo = todo[1:]
		a := s.browse(target)
		if a.Code != 200 {
			t.Errorf("%s: %d", target, a.Code)
		}
		if !strings.HasPrefix(a.Header().Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range links.FindAllStringSubmatch(a.Body.String(), -1) {
			link := html.UnescapeString(m[1])
			if strings.HasPrefix(link, "#") || link == "data:," || seen[link] {
				continue
			}
			if !strings.HasPrefix(link, "/") {
				t.Errorf("%s leads to %s", target, link)
			}
			seen[link] = true
			todo = append(todo, link)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d links", len(seen))
	}
}

func TestPagesSayWhatIsNotThere(t *testing.T) {
	p := newPlace(t, nil)
	for target, want := range map[string]int{"/evaluation/nonsense": 404, "/artifact/artifacts/models/none/x": 404, "/leaderboard?better=worse": 400, "/leaderboard?x=1": 400, "/pages/assets/none.js": 404, "/pages/assets/layout.html": 404, "/pages/receipt/999": 404} {
		a := p.browse(target).is(want)
		page := strings.HasPrefix(a.Header().Get("Content-Type"), "text/html")
		if page == strings.HasPrefix(target, "/pages/") {
			t.Errorf("%s is answered with %s", target, a.Header().Get("Content-Type"))
		}
		if page && (!strings.Contains(a.Body.String(), a.Header().Get("X-Request-Id")) || a.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v %s", target, a.Header(), a.Body)
		}
	}
	// The same address answers programs as before.
	a := p.get("/").is(200)
	if a.Header().Get("Content-Type") != typeJSON || a.Header().Get("Vary") != "Accept" || p.browse("/").Header().Get("Vary") != "Accept" {
		t.Errorf("%v", a.Header())
	}
	if a := p.get("/", "Accept", "text/html;q=0, application/json").is(200); a.Header().Get("Content-Type") != typeJSON {
		t.Errorf("%v", a.Header())
	}
}

// A text that the operator took down is gone from the pages too, which say so.
func TestPagesAfterATakedown(t *testing.T) {
	s := newShownRegistry(t)
	page := "/evaluation/" + s.rejected
	full := s.get("/proposal/" + s.rejected).is(200)
	for _, d := range []string{full.has("judgements.0.reasonDigest"), s.entryBlob(full.has("entry"))} {
		blob, err := digest.ParseContent(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.reg.TakeDown(context.Background(), blob, "privacy"); err != nil {
			t.Fatal(err)
		}
	}
	body := s.browse(page).is(200).Body.String()
	if strings.Contains(body, "too good") || strings.Contains(body, "0.99") || !strings.Contains(body, "took the reason down") || !strings.Contains(body, "took the manifest down") {
		t.Errorf("%s", body)
	}
	s.checkCells(page, body)
	s.browse("/").is(200)
	s.browse("/artifact" + modelPath).is(200)
}

// Below a path, as a proxy may put it, every address of a page begins with that path.
func TestPagesBelowAPath(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	id := p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.75")).is(201).has("proposalId")
	server, err := New(Config{Writer: p.reg, PublicURL: "https://r.example/deep/", Now: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/", "/artifact" + modelPath, "/evaluation/" + id, "/leaderboard", "/leaderboard?dataset=" + datasetPath} {
		body := ask(server, "GET", target, "", "Accept", "text/html").Body.String()
		for _, m := range regexp.MustCompile(`(?:href|src|action)="(/[^"]*)"`).FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(m[1], "/deep/") {
				t.Errorf("%s leads to %s", target, m[1])
			}
		}
	}
}

// A checkpoint from before a rotation verifies with the key of then, so pages give it.
func TestPagesGiveEveryKeyThatSealed(t *testing.T) {
	p := newPlace(t, func(string, *registry.Settings) {})
	keys := func() (all []string) {
		var said struct{ Keys []pageKey }
		if err := json.Unmarshal(p.get("/pages/keys").Body.Bytes(), &said); err != nil {
			t.Fatal(err)
		}
		for _, k := range said.Keys {
			all = append(all, k.Public)
		}
		return all
	}
	first := keys()
	if len(first) != 1 {
		t.Fatalf("keys: %v", first)
	}
	if _, err := p.reg.RotateKey(context.Background(), registry.OperatorPurpose); err != nil {
		t.Fatal(err)
	}
	if now := keys(); len(now) != 2 || now[0] == first[0] || now[1] != first[0] {
		t.Errorf("after a rotation the keys are %v; before it was %v", now, first)
	}
}
