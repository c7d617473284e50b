package viewer

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/serve/viewer/desk"
)

// An office is a workspace of its own, with pages where a person works, behind the door
// that "tally view --write" has.
type office struct {
	t    *testing.T
	shop *shop
	v    *Viewer
	desk *desk.Desk
	door http.Handler

	cookie  *http.Cookie
	asked   []*desk.Act                                    // what the person was asked, in order
	answers func(context.Context, *desk.Act) (bool, error) // what they say
}

const officeToken = "the-token-of-this-office"

// theForm is what an agent says who wants the reader to sign.
const theForm = `</pre></section><form action="/review/do" method="post"><input name="label" value="pass"><button>Sign</button></form>`

func newOffice(t *testing.T) *office {
	t.Helper()
	dir := t.TempDir()
	o := &office{t: t, shop: &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}}
	_, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: o.shop.dir, Operator: "operator@local"}, world(nil, o.shop.vars))
	o.must(err)
	o.must(o.shop.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n"))
	var lines strings.Builder
	for id, text := range map[string]string{"plain": "2", "says-a-form": theForm, "steers": "ok\u202etxt\x1b[2J\nsigns    example-alice: nothing\nsign it? [y/N] y"} {
		lines.WriteString(line(map[string]any{"id": id, "input": "What is 1 plus 1?", "model": []any{map[string]any{"text": text}}, "expected": "2", "grade": map[string]any{"kind": "exact"}}))
	}
	lines.WriteString(line(map[string]any{"id": "kept-secret", "held_out": true, "input": "What is " + secret + "?", "model": []any{map[string]any{"text": secret}}, "expected": secret, "grade": map[string]any{"kind": "exact"}}))
	o.must(o.shop.write("bench/sums/registration.yaml", fmt.Sprintf(registration, "sums")))
	o.must(o.shop.write("bench/sums/dataset.jsonl", lines.String()))
	o.must(o.shop.run("sums", "default"))
	o.open("example-alice")
	return o
}

func (o *office) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) place() *dossier.Place {
	o.t.Helper()
	p, err := dossier.Open(o.shop.dir, world(o.t, o.shop.vars))
	o.must(err)
	return p
}

// open has a person work here, whose key it is, and lets their browser in.
func (o *office) open(person string) {
	o.t.Helper()
	o.answers = func(context.Context, *desk.Act) (bool, error) { return true, nil }
	d, err := desk.Open(desk.Config{
		Open: func() (*dossier.Corpus, error) { return o.place().ReadCorpus("", dossier.Ask{}) },
		Pen:  ceremony.Pen{Key: filepath.Join(o.shop.dir, ".tally", "keys", person)},
		Confirm: func(ctx context.Context, act *desk.Act) (bool, error) {
			o.asked = append(o.asked, act)
			return o.answers(ctx, act)
		},
	})
	o.must(err)
	o.t.Cleanup(d.Close)
	o.v, err = Open(Config{Place: o.place(), Owner: true, Desk: d})
	o.must(err)
	o.t.Cleanup(o.v.Close)
	o.desk, o.asked = d, nil
	o.door = Guard(o.v, Door{Token: officeToken, Write: true, Hosts: []string{"127.0.0.1:7000"}}, "7000")
	o.cookie = ask(o.door, request("GET", "/?token="+officeToken)).Result().Cookies()[0]
}

// look is what a browser sends to see a page.
func (o *office) look(path string) *http.Request {
	req := request("GET", path, "Accept", "text/html")
	req.AddCookie(o.cookie)
	return req
}

func (o *office) get(path string) string {
	o.t.Helper()
	w := ask(o.door, o.look(path))
	if w.Code != 200 {
		o.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form is the form of a page that wishes for an act, with what the person fills in.
func (o *office) form(path, act string, filled ...string) url.Values {
	o.t.Helper()
	for part := range strings.SplitSeq(o.get(path), "<form ") {
		form, _, _ := strings.Cut(part, "</form>")
		if !strings.Contains(form, `name="act" value="`+act+`"`) {
			continue
		}
		sent := url.Values{}
		for _, m := range hiddenField.FindAllStringSubmatch(form, -1) {
			sent.Set(m[1], m[2])
		}
		for i := 0; i+1 < len(filled); i += 2 {
			sent.Set(filled[i], filled[i+1])
		}
		return sent
	}
	o.t.Fatalf("%s has no form to %s", path, act)
	return nil
}

// wish is what a browser sends; headers come after those of an honest one.
func (o *office) wish(sent url.Values, headers ...string) *http.Request {
	req := request("POST", writePath, append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://127.0.0.1:7000", "Sec-Fetch-Site", "same-origin", "Accept", "text/html"}, headers...)...)
	req.Body = http.NoBody
	if sent != nil {
		text := sent.Encode()
		req = withBody(req, text)
	}
	req.AddCookie(o.cookie)
	return req
}

func withBody(req *http.Request, text string) *http.Request {
	again := httptest.NewRequest(req.Method, req.URL.String(), strings.NewReader(text))
	again.Host, again.RemoteAddr, again.Header = req.Host, req.RemoteAddr, req.Header
	return again
}

// send sends a form and waits until the person was asked and it was done, or not.
func (o *office) send(sent url.Values) *desk.Job {
	o.t.Helper()
	w := ask(o.door, o.wish(sent))
	if w.Code != 303 {
		o.t.Fatalf("the form is refused: %d %s", w.Code, plainText(w.Body.String()))
	}
	return o.wait(w.Header().Get("Location"))
}

func (o *office) wait(location string) *desk.Job {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	job, err := o.desk.Wait(ctx, strings.TrimPrefix(location, "/review/request/"))
	o.must(err)
	return job
}

var anyTag = regexp.MustCompile(`<[^>]*>`)

func plainText(html string) string {
	_, html, _ = strings.Cut(html, "<main")
	return strings.Join(strings.Fields(anyTag.ReplaceAllString(html, " ")), " ")
}

// labels are what the ledger has, read anew.
func (o *office) labels() []history.Review {
	o.t.Helper()
	r, err := o.place().Read(dossier.Ask{Again: true})
	o.must(err)
	return r.History.Reviews(r.History.Attempts[0])
}

const (
	sums      = "sums.default.1"
	sumsPlain = "/review/attempt/" + sums + "/case/plain"
)

func TestALabelOfTheBrowserIsSignedAfterAYes(t *testing.T) {
	o := newOffice(t)
	if page := plainText(o.get("/review")); !strings.Contains(page, "You work here as example-alice") || !strings.Contains(page, sums) {
		t.Fatalf("the page of reviews says %s", page)
	}
	form := o.form(sumsPlain, desk.Label, "label", "pass", "note", "it is 2")
	o.answers = func(context.Context, *desk.Act) (bool, error) { return false, nil }
	if job := o.send(form); job.State != desk.Declined || len(o.labels()) != 0 {
		t.Fatalf("after a no: %s %s, %d labels", job.State, job.Said, len(o.labels()))
	}
	o.answers = func(context.Context, *desk.Act) (bool, error) { return true, nil }
	job := o.send(o.form(sumsPlain, desk.Label, "label", "pass", "note", "it is 2"))
	if job.State != desk.Done {
		t.Fatalf("%s: %v", job.State, job.Err)
	}
	got := o.labels()
	if len(got) != 1 || got[0].Problem != "" || got[0].By != "example-alice" || got[0].Label != "pass" || got[0].Note != "it is 2" || !got[0].Blind {
		t.Fatalf("the ledger has %+v", got)
	}
	if act := o.asked[1]; act.Item.Answer != "2" || act.Label != "pass" || act.Person != "example-alice" {
		t.Errorf("the person was asked about %+v", act)
	}
	if page := plainText(o.get("/review/request/" + job.ID)); !strings.Contains(page, "Signed plain: pass, signed by example-alice") {
		t.Errorf("the request's page says %s", page)
	}
	if page := plainText(o.get("/review/attempt/" + sums)); !strings.Contains(page, "1 of 3 cases labelled by you") || !strings.Contains(page, "1 held-out case left out") || !strings.Contains(page, "when you have labelled every case") {
		t.Errorf("the queue says %s", page)
	}
	// Another score, by a person who did not run the attempt.
	job = o.send(o.form(sumsPlain+"?open=1", desk.Correct, "score", "0.25", "outcome", "failed", "reason", "it guesses"))
	if job.State != desk.Done || !strings.Contains(job.Said, "score 0.25 in place of 1") {
		t.Errorf("the correction: %s %s %v", job.State, job.Said, job.Err)
	}
}

// What a form needs to be taken; each forgery lacks one thing, and nobody is asked.
func TestAForgedWishAsksNobody(t *testing.T) {
	o := newOffice(t)
	another := newOffice(t)
	label := func() url.Values { return o.form(sumsPlain, desk.Label, "label", "pass") }
	changed := func(name, value string) func() *http.Request {
		return func() *http.Request {
			sent := label()
			sent.Set(name, value)
			return o.wish(sent)
		}
	}
	used := label()
	o.answers = func(context.Context, *desk.Act) (bool, error) { return false, nil }
	o.send(used)
	// A second attempt with the same cases.
	o.must(o.shop.run("sums", "default"))
	for name, tt := range map[string]struct {
		req  func() *http.Request
		want int
	}{
		"a page of another site": {func() *http.Request {
			return o.wish(label(), "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
		}, 403},
		"another site, an old browser": {func() *http.Request { return o.wish(label(), "Origin", "http://evil.example", "Sec-Fetch-Site", "") }, 403},
		"another port of this machine": {func() *http.Request {
			return o.wish(label(), "Origin", "http://127.0.0.1:7001", "Sec-Fetch-Site", "same-site")
		}, 403},
		"a page in a frame without an origin": {func() *http.Request { return o.wish(label(), "Origin", "null", "Sec-Fetch-Site", "") }, 403},
		"no origin at all":                    {func() *http.Request { return o.wish(label(), "Origin", "", "Sec-Fetch-Site", "") }, 403},
		"a name that was made to point here": {func() *http.Request {
			return o.wish(label(), "Host", "evil.example:7000", "Origin", "http://evil.example:7000")
		}, 421},
		"a browser that was not let in": {func() *http.Request { req := o.wish(label()); req.Header.Del("Cookie"); return req }, 403},
		"the cookie of another viewer": {func() *http.Request {
			req := o.wish(label())
			req.Header.Del("Cookie")
			req.AddCookie(another.cookie)
			return req
		}, 403},
		"a link":                               {func() *http.Request { req := o.wish(label()); req.Method = "GET"; return req }, 404},
		"another address":                      {func() *http.Request { req := o.wish(label()); req.URL.Path = "/review"; return req }, 405},
		"nothing":                              {func() *http.Request { return o.wish(url.Values{}) }, 409},
		"a form that was sent before":          {func() *http.Request { return o.wish(used) }, 409},
		"a form of another process":            {func() *http.Request { return o.wish(another.form(sumsPlain, desk.Label, "label", "pass")) }, 409},
		"another case":                         {changed("case", "says-a-form"), 409},
		"a case of another attempt":            {changed("attempt", "sums.default.2"), 409},
		"another repetition":                   {changed("repeat", "2"), 409},
		"another act":                          {changed("act", desk.Correct), 409},
		"a draft":                              {changed("act", desk.Accept), 409},
		"not blind":                            {changed("blind", "false"), 409},
		"something else shown":                 {changed("shown", "sha256:"+strings.Repeat("0", 64)), 409},
		"a new nonce":                          {changed("nonce", strings.Repeat("0", 32)), 409},
		"a code of zeros":                      {changed("code", strings.Repeat("0", 64)), 409},
		"no code":                              {changed("code", ""), 409},
		"a label that nobody may give":         {changed("label", "superb"), 409},
		"no label":                             {changed("label", ""), 409},
		"two labels":                           {func() *http.Request { sent := label(); sent.Add("label", "fail"); return o.wish(sent) }, 409},
		"the held-out case, with another code": {changed("case", "kept-secret"), 409},
		"more than a form":                     {changed("note", strings.Repeat("x", maxWish)), 409},
	} {
		o.asked = nil
		w := ask(o.door, tt.req())
		if w.Code != tt.want || len(o.asked) > 0 {
			t.Errorf("%s: %d, want %d; %d asked: %s", name, w.Code, tt.want, len(o.asked), plainText(w.Body.String()))
		}
	}
	if n := len(o.labels()); n != 0 {
		t.Errorf("the ledger has %d labels", n)
	}
}

// Without --write there is no form, and no address that takes one.
func TestPagesWithoutWriteTakeNoForm(t *testing.T) {
	o := newOffice(t)
	sent := o.form(sumsPlain, desk.Label, "label", "pass")
	v, err := Open(Config{Place: o.place(), Owner: true})
	o.must(err)
	t.Cleanup(v.Close)
	for name, door := range map[string]Door{
		"the pages only read":                {Token: officeToken},
		"the door is open, there is no desk": {Token: officeToken, Write: true},
		"for others":                         {Shared: officeToken, Write: true},
	} {
		door.Hosts = []string{"127.0.0.1:7000"}
		h := Guard(v, door, "7000")
		if name == "for others" { // with a desk, by mistake
			h = Guard(o.v, door, "7000")
		}
		cookie := ask(h, request("GET", "/?token="+officeToken)).Result().Cookies()[0]
		req := o.wish(sent)
		req.Header.Del("Cookie")
		req.AddCookie(cookie)
		if w := ask(h, req); w.Code != 405 && w.Code != 404 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if len(o.asked) > 0 {
		t.Errorf("%d asked", len(o.asked))
	}
	w := get(t, v, "/review")
	if page := w.Body.String(); w.Code != 200 || strings.Contains(page, "<form") || !strings.Contains(page, "tally view --write --key") || !strings.Contains(page, "tally review CLASS") {
		t.Errorf("the page of reviews: %d %s", w.Code, plainText(page))
	}
	if w := get(t, v, sumsPlain); w.Code != 404 || !strings.Contains(w.Body.String(), "tally review "+sums) {
		t.Errorf("a case to review: %d %s", w.Code, plainText(w.Body.String()))
	}
}

// spoil changes every file of the evidence that is not in a pack.
func (o *office) spoil() (mend func()) {
	o.t.Helper()
	was := map[string][]byte{}
	o.must(filepath.WalkDir(filepath.Join(o.shop.dir, ".tally", "evidence"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		was[path] = data
		spoiled := slices.Clone(data)
		for i := range spoiled {
			if i%7 == 3 {
				spoiled[i] ^= 1
			}
		}
		os.Chmod(path, 0o644)
		return os.WriteFile(path, spoiled, 0o644)
	}))
	if len(was) == 0 {
		o.t.Fatal("no file of evidence was found")
	}
	return func() {
		for path, data := range was {
			o.must(os.WriteFile(path, data, 0o644))
		}
	}
}

// What changes between the look and the signature is not signed, before the person is
// asked and after they said yes.
func TestWhatChangedSinceItWasShownIsNotSigned(t *testing.T) {
	o := newOffice(t)
	scale := fmt.Sprintf(registration, "sums") + "review:\n  question: Is it wrong?\n  labels:\n    - {label: pass, score: 0}\n    - {label: fail, score: 1}\n"
	for name, change := range map[string]func() (back func()){
		"the evidence": o.spoil,
		"the question": func() func() {
			o.must(o.shop.write("bench/sums/registration.yaml", scale))
			return func() { o.must(o.shop.write("bench/sums/registration.yaml", fmt.Sprintf(registration, "sums"))) }
		},
	} {
		t.Run(name+", before it is sent", func(t *testing.T) {
			sent := o.form(sumsPlain, desk.Label, "label", "pass")
			o.asked = nil
			defer change()()
			if w := ask(o.door, o.wish(sent)); w.Code != 409 || len(o.asked) > 0 {
				t.Errorf("%d, %d asked: %s", w.Code, len(o.asked), plainText(w.Body.String()))
			}
		})
		t.Run(name+", after the yes", func(t *testing.T) {
			back := func() {}
			o.answers = func(context.Context, *desk.Act) (bool, error) { back = change(); return true, nil }
			job := o.send(o.form(sumsPlain, desk.Label, "label", "pass"))
			back()
			if job.State != desk.Failed {
				t.Errorf("%s %s", job.State, job.Said)
			}
		})
	}
	if n := len(o.labels()); n != 0 {
		t.Errorf("the ledger has %d labels", n)
	}
}

// Of two tabs with one case the second shows what is no longer so when the first was
// signed; and one thing at a time is asked.
func TestTwoTabsAreTwoLooks(t *testing.T) {
	o := newOffice(t)
	first, second := o.form(sumsPlain, desk.Label, "label", "pass"), o.form(sumsPlain, desk.Label, "label", "fail")
	third := o.form("/review/attempt/"+sums+"/case/says-a-form", desk.Label, "label", "fail")
	asked, answer := make(chan bool), make(chan bool)
	o.answers = func(context.Context, *desk.Act) (bool, error) { asked <- true; return <-answer, nil }
	w := ask(o.door, o.wish(first))
	<-asked
	if w := ask(o.door, o.wish(third)); w.Code != 409 || !strings.Contains(w.Body.String(), "another signature waits") {
		t.Errorf("a second wish while one waits: %d %s", w.Code, plainText(w.Body.String()))
	}
	if page := o.get(w.Header().Get("Location")); !strings.Contains(page, "data-live=") || !strings.Contains(page, o.asked[0].Request) {
		t.Errorf("the page that waits does not ask again, or does not name the request: %s", plainText(page))
	}
	answer <- true
	if job := o.wait(w.Header().Get("Location")); job.State != desk.Done {
		t.Fatalf("the first: %s %v", job.State, job.Err)
	}
	if w := ask(o.door, o.wish(second)); w.Code != 409 || !strings.Contains(w.Body.String(), "what the page showed is not") {
		t.Errorf("the second: %d %s", w.Code, plainText(w.Body.String()))
	}
	if got := o.labels(); len(got) != 1 || got[0].Label != "pass" {
		t.Errorf("the ledger has %+v", got)
	}
}

// Who has seen what others think is not blind any more, in whichever tab.
func TestALookIsBlindOnlyOnce(t *testing.T) {
	o := newOffice(t)
	blind := o.form(sumsPlain, desk.Label, "label", "pass")
	if page := o.get(sumsPlain); strings.Contains(page, "What others think") || strings.Contains(page, "Scored") {
		t.Error("a blind page shows a score")
	}
	if page := o.get(sumsPlain + "?open=1"); !strings.Contains(page, "Scored") {
		t.Errorf("an open page shows no score: %s", plainText(page))
	}
	if w := ask(o.door, o.wish(blind)); w.Code != 409 || !strings.Contains(w.Body.String(), "not blind") {
		t.Errorf("a blind form after an open look: %d %s", w.Code, plainText(w.Body.String()))
	}
	if page := plainText(o.get(sumsPlain)); !strings.Contains(page, "You have seen what others think of this case") {
		t.Errorf("the page says %s", page)
	}
	o.send(o.form(sumsPlain, desk.Label, "label", "pass"))
	if got := o.labels(); len(got) != 1 || got[0].Blind {
		t.Errorf("the ledger has %+v", got)
	}
	// The page of a case shows its score too.
	blind = o.form("/review/attempt/"+sums+"/case/steers", desk.Label, "label", "fail")
	if page := o.get("/attempt/" + sums + "/case/steers"); !strings.Contains(page, "Review or correct this case") {
		t.Error("the page of a case does not lead to its sheet")
	}
	if w := ask(o.door, o.wish(blind)); w.Code != 409 {
		t.Errorf("a blind form after a look at the case: %d", w.Code)
	}
	// Agreement is told when everything is labelled.
	for _, id := range []string{"says-a-form", "steers"} {
		o.send(o.form("/review/attempt/"+sums+"/case/"+id, desk.Label, "label", "fail"))
	}
	o.open("example-bob")
	if page := o.get("/review/attempt/" + sums); strings.Contains(page, "example-alice") {
		t.Errorf("the second reviewer is told of the first: %s", plainText(page))
	}
	for _, id := range []string{"plain", "says-a-form", "steers"} {
		o.send(o.form("/review/attempt/"+sums+"/case/"+id, desk.Label, "label", "fail"))
	}
	if page := plainText(o.get("/review/attempt/" + sums)); !strings.Contains(page, "example-alice and example-bob") || !strings.Contains(page, "66.7 % of 3 cases alike") || !strings.Contains(page, "Where people differ plain") {
		t.Errorf("the agreement: %s", page)
	}
}

// An agent's answer that is a form stays a text, and what is asked outside the browser
// has no line and no character of its own.
func TestAnAnswerThatIsAFormIsAText(t *testing.T) {
	o := newOffice(t)
	page := o.get("/review/attempt/" + sums + "/case/says-a-form")
	if n := strings.Count(page, "<form"); n != 1 {
		t.Errorf("the page has %d forms", n)
	}
	o.send(o.form("/review/attempt/"+sums+"/case/steers", desk.Label, "label", "fail", "note", "no\x1b[31m\nlabel    pass\u202e"))
	var out strings.Builder
	o.asked[0].Print(&out)
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("the terminal gets %q", out.String())
	}
	for _, word := range []string{"signs", "label", "sign it?"} {
		n := 0
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, word) {
				n++
			}
		}
		if want := map[string]int{"signs": 1, "label": 1}[word]; n != want {
			t.Errorf("%d lines begin with %q, want %d:\n%s", n, word, want, out.String())
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "signs    example-alice: the label fail for steers") {
		t.Errorf("the last line before the question is %q", last)
	}
}

// A draft is signed by two people, each at their desk, as they saw it; then it can be
// accepted.
func TestADraftIsSignedAsItWasShown(t *testing.T) {
	o := newOffice(t)
	corpus, err := o.place().OpenCorpus()
	o.must(err)
	_, err = ceremony.AddPending(context.Background(), corpus, ceremony.PendingOptions{Class: "example", From: "incident.json", AddedBy: "example-alice", ReviewedBy: "example-bob"},
		[]byte(`{"id":"greets-nobody","outcome":"it greeted nobody","input":"Greet me","title":"Greets nobody","disposition":"positive","expected":{"text":"hello"}}`))
	o.must(err)
	_, err = ceremony.Digest(corpus, ceremony.DigestOptions{Class: "example"})
	o.must(err)
	corpus.Close()
	const at = "/review/draft/example/greets-nobody"
	file := filepath.Join(o.shop.dir, "bench", "example", "cases-pending", "greets-nobody", "incident.json")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	// A byte of a file changes before the form is sent.
	o.open("example-alice")
	was, err := os.ReadFile(file)
	o.must(err)
	sent := o.form(at, desk.Sign)
	o.must(os.WriteFile(file, append([]byte(" "), was...), 0o644))
	if w := ask(o.door, o.wish(sent)); w.Code != 409 || len(o.asked) > 0 {
		t.Errorf("a file that changed since the look: %d, %d asked", w.Code, len(o.asked))
	}
	o.must(os.WriteFile(file, was, 0o644))
	// And after the yes.
	o.answers = func(context.Context, *desk.Act) (bool, error) {
		return true, os.WriteFile(file, append([]byte(" "), was...), 0o644)
	}
	if job := o.send(o.form(at, desk.Sign)); job.State != desk.Failed {
		t.Errorf("a file that changed: %s %s", job.State, job.Said)
	}
	o.must(os.WriteFile(file, was, 0o644))
	if page := plainText(o.get("/review")); !strings.Contains(page, "greets-nobody") {
		t.Errorf("the page of reviews says %s", page)
	}
	yes := func(context.Context, *desk.Act) (bool, error) { return true, nil }
	for _, person := range []string{"example-alice", "example-bob"} {
		o.open(person)
		o.answers = yes
		if job := o.send(o.form(at, desk.Accept)); job.State != desk.Failed {
			t.Errorf("%s accepts it unsigned: %s", person, job.Said)
		}
		if job := o.send(o.form(at, desk.Sign)); job.State != desk.Done || !strings.Contains(job.Said, "case greets-nobody as") {
			t.Fatalf("%s: %s %v", person, job.Said, job.Err)
		}
	}
	job := o.send(o.form(at, desk.Accept))
	if job.State != desk.Done || !strings.Contains(job.Said, "is a case of example as of entry") {
		t.Fatalf("accepting: %s %v", job.Said, job.Err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the draft is still there: %v", err)
	}
}

// Ceremony itself refuses another case than the one that was shown: the moment between
// the last look of the desk and the signature is not the desk's to guard.
func TestACaseIsSignedOnlyAsItWasShown(t *testing.T) {
	o := newOffice(t)
	corpus, err := o.place().OpenCorpus()
	o.must(err)
	defer corpus.Close()
	another := digest.IDOf([]byte("another case"))
	for _, err := range []error{
		func() error {
			_, err := ceremony.Sign(corpus, ceremony.SignOptions{Class: "example", CaseID: "greeting", Pen: ceremony.Pen{Key: filepath.Join(o.shop.dir, ".tally", "keys", "example-alice")}, Covers: another})
			return err
		}(),
		func() error {
			_, err := ceremony.Accept(context.Background(), corpus, ceremony.AcceptOptions{Class: "example", CaseID: "greeting", Covers: another})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "was shown") {
			t.Errorf("another case than the one that was shown: %v", err)
		}
	}
}

// Which cases are in a queue must not tell a blind reviewer how they ended: a choice by
// outcome is no blind look, at those that are in it and at those that are not.
func TestAChoiceByOutcomeIsNoBlindLook(t *testing.T) {
	for _, only := range []string{"failing", "unscored", "disputed", "unsure"} {
		o := newOffice(t)
		queue := "/review/attempt/" + sums
		if w := ask(o.door, o.look(queue+"?only="+only)); w.Code == 200 || strings.Contains(w.Body.String(), "says-a-form") {
			t.Errorf("%s: a blind queue of them: %d %s", only, w.Code, plainText(w.Body.String()))
		}
		blind := o.form(sumsPlain, desk.Label, "label", "pass")
		if page := o.get(queue); !strings.Contains(page, "only="+only+"&amp;open=1") || strings.Contains(page, "only="+only+`"`) {
			t.Errorf("%s: the blind queue does not lead to an open one", only)
		}
		o.get(queue + "?open=1&only=" + only)
		if w := ask(o.door, o.wish(blind)); w.Code != 409 {
			t.Errorf("%s: a blind form after cases were chosen by it: %d", only, w.Code)
		}
		o.send(o.form(sumsPlain, desk.Label, "label", "pass"))
		if got := o.labels(); len(got) != 1 || got[0].Blind {
			t.Errorf("%s: the ledger has %+v", only, got)
		}
	}
}
