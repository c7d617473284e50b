package browsertest

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/serve/viewer"
)

// A forger changes answers of an honest viewer on their way to the browser.
type forger func(path string, body []byte) []byte

const token = "for-the-test"

func honest(_ string, body []byte) []byte { return body }

// serve starts the viewer of the workspace behind a forger, with its real door.
func serve(t *testing.T, forge forger) string {
	t.Helper()
	return workspace(t).serve(t, forge)
}

// serve starts a viewer behind a forger, with its real door, on a machine that did not
// make the keys of the workspace.
func (w *world) serve(t *testing.T, forge forger) string {
	t.Helper()
	return w.serveOn(t, "elsewhere", func(req *http.Request, answer *httptest.ResponseRecorder) []byte {
		return forge(req.URL.Path, answer.Body.Bytes())
	})
}

// serveOn starts a viewer for the owner of the machine that has this state folder. send
// says what is sent in place of an answer.
func (w *world) serveOn(t *testing.T, state string, send func(*http.Request, *httptest.ResponseRecorder) []byte) string {
	t.Helper()
	env := map[string]string{"HOME": w.home, "XDG_STATE_HOME": filepath.Join(w.home, state)}
	place, err := dossier.Open(w.dir, dossier.World{Getenv: func(name string) string { return env[name] }, Now: time.Now, Note: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	v, err := viewer.Open(viewer.Config{Place: place, Files: w.imported, Owner: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	guarded := viewer.Guard(v, viewer.Door{Token: token, Shared: token, Hosts: []string{listener.Addr().String()}, CORS: true}, port)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		answer := httptest.NewRecorder()
		guarded.ServeHTTP(answer, req)
		body := send(req, answer)
		for name, values := range answer.Header() {
			rw.Header()[name] = values
		}
		rw.Header().Del("Content-Length")
		rw.WriteHeader(answer.Code)
		rw.Write(body)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + "/?token=" + token
}

// visit enters with the token and goes to a page.
func visit(t *testing.T, url, path string) *tab {
	t.Helper()
	b := open(t, url)
	base, _, _ := strings.Cut(url, "/?")
	b.goTo(base + path)
	return b
}

const (
	casePage = "/attempt/" + attempt + "/case/says-hello"
	toolPage = "/attempt/" + attempt + "/case/finds-it"
)

func TestPagesOfTheViewerCheckThemselves(t *testing.T) {
	w := workspace(t)
	url := serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, "/attempt/"+attempt)
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.picture("viewer-attempt")
	b.clean()

	// A key of another ledger is refused where it is typed; the right one makes it green.
	b.give("example.com/evals+bfcc5eb5+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c")
	if got := b.text("#key-problem"); !strings.Contains(got, "that is a key of example.com/evals") {
		t.Errorf("a key of another ledger: %q", got)
	}
	b.give(w.key)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	b.picture("viewer-attempt-verified")

	// A typed key is good for the page; a pinned one for the pages after it.
	b.goTo(base + casePage)
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.js(`document.querySelector("#mark details").open = true`)
	b.js(`[...document.querySelectorAll("#mark button")].find((x) => x.textContent.startsWith("Trust this key")).click()`)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	b.waitFor(`/ and [0-9]+ events on this page/.test(document.getElementById("mark").textContent)`)
	b.picture("viewer-case")
	b.clean()

	for _, path := range []string{"/", "/attempts", "/matrix", "/attempts?class=chat", "/corpus", "/corpus/chat", "/corpus/chat/case/says-hello", "/corpus/chat/case/held-out", "/judges", "/ledger", "/ledger/3", "/audit/" + attempt, "/attempt/" + attempt + "/case/held-out", toolPage, toolPage + "/log", toolPage + "/log?kind=tools", toolPage + "/evidence", toolPage + "/history"} {
		b.goTo(base + path)
		b.waitFor(marked)
		if state := b.state(); state != "good" && state != "computed" {
			t.Errorf("%s: the mark says %s: %s %s", path, state, b.text("#mark"), b.text("#tallystick-alarm"))
		}
		b.accessible()
		b.clean()
		name := strings.Trim(strings.NewReplacer("/", "-", ".", "-").Replace(path), "-")
		b.picture("viewer-" + map[bool]string{true: "overview", false: name}[name == ""])
	}
	for i := range hostile {
		b.goTo(base + "/attempt/" + attempt + "/case/hostile-" + number(i+20))
		b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
		b.clean()
		if n := b.js(`document.querySelectorAll("main script, main img, main iframe, main a[href^=javascript], main style, main link, main base, main meta, [onerror], [onload]").length`); n != 0.0 {
			t.Errorf("hostile text %d became %v elements", i, n)
		}
	}
}

// unsigned takes the signature of the page away too, so that only its values are compared.
func unsigned(forge forger) forger {
	return func(path string, body []byte) []byte {
		body = forge(path, body)
		if before, after, found := bytes.Cut(body, []byte(` data-signed="`)); found {
			_, after, _ = bytes.Cut(after, []byte(`"`))
			body = append(bytes.Clone(before), after...)
		}
		return body
	}
}

// always answers every question for a receipt with the first, which is a good one.
func always() forger {
	var mu sync.Mutex
	var first []byte
	return func(path string, body []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(path, "/receipt/") {
			return body
		}
		if first == nil {
			first = bytes.Clone(body)
		}
		return first
	}
}

func number(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }

func TestAForgedPageOfTheViewerRaisesTheAlarm(t *testing.T) {
	replace := func(where, old, now string) forger {
		return func(path string, body []byte) []byte {
			if path != where {
				return body
			}
			return bytes.Replace(body, []byte(old), []byte(now), 1)
		}
	}
	attemptPage := "/attempt/" + attempt
	for _, tt := range []struct {
		name, page string
		forge      forger
		says       string
	}{
		{"a score", attemptPage, replace(attemptPage, `data-field="/score/score" data-as="number3">0.000<`, `data-field="/score/score" data-as="number3">0.900<`), "shows “0.900”, signed is “0.000”"},
		{"a total", attemptPage, replace(attemptPage, `data-field="/mean_score" data-as="number3">0.1`, `data-field="/mean_score" data-as="number3">0.9`), "/mean_score"},
		{"a rate", attemptPage, replace(attemptPage, `data-as="solved1">11.1 %`, `data-as="solved1">91.1 %`), "shows “91.1 %”, signed is “11.1 %”"},
		{"an interval", attemptPage, replace(attemptPage, `data-as="interval1">3.1 %`, `data-as="interval1">43.1 %`), "shows “43.1 % – 32.8 %”, signed is “3.1 % – 32.8 %”"},
		{"how many there were", attemptPage, replace(attemptPage, `data-as="total">18<`, `data-as="total">2<`), "shows “2”, signed is “18”"},
		{"a rate of the overview", "/", replace("/", `data-as="solved1">11.1 %`, `data-as="solved1">91.1 %`), "shows “91.1 %”, signed is “11.1 %”"},
		{"a cell of the matrix", "/matrix", replace("/matrix", `data-as="outcome">Failed<`, `data-as="outcome">Passed<`), "shows “Passed”, signed is “Failed”"},
		{"what a check found", casePage, replace(casePage, `data-field="/checks/0/extracted/head" data-as="text">hello<`, `data-field="/checks/0/extracted/head" data-as="text">bye<`), "/checks/0/extracted/head: the page shows “bye”, signed is “hello”"},
		{"the score of a check", casePage, replace(casePage, `data-field="/checks/0/score" data-as="number3">0.000<`, `data-field="/checks/0/score" data-as="number3">1.000<`), "shows “1.000”, signed is “0.000”"},
		{"the document of the checks", casePage, func(path string, body []byte) []byte {
			if strings.Contains(path, "/piece/") {
				return bytes.Replace(body, []byte(`"outcome":"mismatch"`), []byte(`"outcome":"passed"`), 1)
			}
			return body
		}, "the scoring is not the one that the record names"},
		{"an outcome", casePage, replace(casePage, `data-as="outcome">Failed<`, `data-as="outcome">Passed<`), "shows “Passed”, signed is “Failed”"},
		{"a cell of the transcript", casePage, replace(casePage, `data-as="text"><p>hello<`, `data-as="text"><p>bye<`), "shows “bye”, signed is “hello”"},
		{"a word that is hidden", casePage, unsigned(replace(casePage, `data-as="text"><p>hello</p>`, `data-as="text"><p><span class="md">hel</span>lo</p>`)), "hidden"},
		{"a word that a style hides", casePage, unsigned(replace(casePage, `data-as="text"><p>hello</p>`, `data-as="text"><p><span class="skip">hel</span>lo</p>`)), "an element <span class=\"skip\"> in it"},
		{"a word of another event", casePage, replace(casePage, `data-event="2" data-field="/payload/input/head"`, `data-event="5" data-field="/payload/output/head"`), "signed is"},
		{"an item that is left out", casePage, unsigned(func(path string, body []byte) []byte {
			if path != casePage {
				return body
			}
			begin := bytes.Index(body, []byte(`<li id="e2"`))
			end := begin + bytes.Index(body[begin:], []byte(`<li id="e3"`))
			return append(bytes.Clone(body[:begin]), body[end:]...)
		}), "event 2: the page shows “nothing”, signed is “an event”"},
		{"a policy that allowed it", toolPage, replace(toolPage, `data-field="/payload/verdict" data-as="text">allow<`, `data-field="/payload/verdict" data-as="text">deny<`), "shows “deny”, signed is “allow”"},
		{"an argument", toolPage, replace(toolPage, `data-field="/payload/args/values/what" data-as="text">it<`, `data-field="/payload/args/values/what" data-as="text">at<`), "shows “at”, signed is “it”"},
		{"an event", casePage, replace(casePage+"/events", `"hello"`, `"jello"`), "event"},
		{"the head", casePage, replace(casePage, `data-head="sha256:`, `data-head="sha256:0`), "head"},
		{"another index of the evidence", casePage, replace(casePage, `data-evidence="`, `data-evidence="/keys" data-was="`), "its data-evidence: the page shows “/keys”"},
		{"a receipt of another entry", attemptPage, always(), "the receipt is of entry"},
		{"an entry", attemptPage, func(path string, body []byte) []byte {
			if strings.HasPrefix(path, "/receipt/") {
				return bytes.ReplaceAll(body, []byte(`\"outcome\":\"failed\"`), []byte(`\"outcome\":\"passed\"`))
			}
			return body
		}, "the entry given is not the one in the receipt"},
		{"a second mark", casePage, replace(casePage, `<main id="content">`, `<main id="content"><div id="mark" data-state="good">Verified with a key you gave</div>`), "the page shows “<div> Verified with a key you gave”"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, tt.forge)
			base, _, _ := strings.Cut(url, "/?")
			b := visit(t, url, tt.page)
			b.waitFor(`document.getElementById("tallystick-alarm")`)
			b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
			if got := b.text("#tallystick-alarm"); !strings.Contains(got, tt.says) {
				t.Errorf("the banner does not say %q: %s", tt.says, got)
			}
			if tt.name == "a score" {
				b.picture("viewer-forged")
			}
			// It stays on other pages of the tab.
			b.goTo(base + "/ledger")
			b.waitFor(`document.getElementById("tallystick-alarm")?.textContent.includes("Another page")`)
			b.clean()
		})
	}
}

// A page of numbers from which everything that can be checked was taken does not pass
// for one that has none: that it says so is not enough.
func TestAPageThatIsStrippedDoesNotSayThatNothingIsToBeChecked(t *testing.T) {
	page := "/attempt/" + attempt
	url := serve(t, func(path string, body []byte) []byte {
		if path != page {
			return body
		}
		if !bytes.Contains(body, []byte("data-entry=")) {
			t.Error("the page has nothing to check as it is")
		}
		body = bytes.Replace(body, []byte(`<main id="content">`), []byte(`<main id="content" data-outside>`), 1)
		for _, name := range []string{"data-entry=", "data-field=", "data-trajectory=", "data-grading="} {
			body = bytes.ReplaceAll(body, []byte(name), []byte("data-was="))
		}
		return body
	})
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, page)
	b.waitFor(marked)
	if got := b.text("#mark"); b.state() == "good" || strings.Contains(got, "Nothing to check") || strings.Contains(got, "shows no value") {
		t.Errorf("%s: the mark says %s", b.state(), got)
	}
	b.goTo(base + "/corpus")
	b.waitFor(marked)
	if got := b.text("#mark"); !strings.Contains(got, "Nothing to check") {
		t.Errorf("the corpus: the mark says %s", got)
	}
}

// A server that was honest once and then signs with another key is found out by who
// pinned the first.
func TestAnotherKeyThanThePinnedOneRaisesTheAlarm(t *testing.T) {
	url := serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, "/attempt/"+attempt)
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.js(`Object.keys(localStorage).length`)
	origin, _, _ := strings.Cut(workspace(t).key, "+")
	// As if another key of this ledger's name had been pinned before.
	b.js(`localStorage.setItem(` + quote("tallystick-keys "+origin) + `, ` + quote(otherKey(origin)) + `)`)
	b.goTo(base + "/attempt/" + attempt)
	b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
	if got := b.text("#tallystick-alarm"); !strings.Contains(got, "signed by no key that was named") {
		t.Errorf("the banner says %q", got)
	}
	b.clean()
}

// A server that lies sends a script that says yes. Its own pages cannot tell; verify.html
// from disk can.
func TestALyingScriptIsFoundOutByVerifyPage(t *testing.T) {
	w := workspace(t)
	attemptPage := "/attempt/" + attempt
	var entry string
	url := serve(t, func(path string, body []byte) []byte {
		switch path {
		case "/assets/check.js":
			return []byte(`const m = document.getElementById("mark"); m.dataset.state = "good"; m.textContent = "Verified with a key you gave";`)
		case attemptPage:
			const score = `data-field="/score/score" data-as="number3">`
			before, _, _ := bytes.Cut(body, []byte(`" `+score+`0.000<`))
			entry = string(before[bytes.LastIndexByte(before, '"')+1:])
			return bytes.Replace(body, []byte(score+"0.000<"), []byte(score+"1.000<"), 1)
		}
		return body
	})
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, attemptPage)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`) // not noticed here

	b = openVerify(t, w.key)
	b.js(`document.getElementById("server").value = ` + quote(base))
	b.js(`document.getElementById("entries").value = ` + quote(entry))
	b.js(`document.getElementById("token").value = ` + quote(token))
	b.js(`document.querySelector("#ask button").click()`)
	got := b.verdicts(0)[0]
	if got.State != "good" || !strings.Contains(got.Text, "Outcomefailed") || !strings.Contains(got.Text, "Score0") {
		t.Errorf("verify.html does not show what was signed: %s: %.500s", got.State, got.Text)
	}
	b.clean()
}
