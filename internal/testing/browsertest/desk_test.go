package browsertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/serve/viewer"
	reviewing "tallystick/internal/serve/viewer/desk"
)

const deskAttempt = "/review/attempt/sums.default.1"

// aDesk is a workspace where a person works in the browser, served behind the door of
// "tally view --write". answers says yes or no in the person's place.
func aDesk(t *testing.T, answers func(*reviewing.Act) bool) (url string, w *world) {
	t.Helper()
	w, err := newWorld("init")
	check(t, err)
	var lines strings.Builder
	for _, c := range [][2]string{{"adds", "2"}, {"asks-for-it", `</pre><form action="/review/do" method="post"><button>Sign</button></form><script>window.pwned=1</script>`}, {"explains", strings.Repeat("One and one are two, because counting on from one by one gives two. ", 40)}} {
		lines.WriteString(jsonLine(object{"id": c[0], "input": "What is 1 plus 1?", "model": []object{{"text": c[1]}}, "expected": "2", "grade": object{"kind": "exact"}}))
	}
	check(t, w.write(map[string]string{"bench/sums/registration.yaml": registration("sums"), "bench/sums/dataset.jsonl": lines.String(),
		"incident.json": `{"id":"greets-nobody","outcome":"it greeted nobody","input":"Greet me","title":"Greets nobody","disposition":"positive","expected":{"text":"hello"}}`}))
	w.do(t, 4, "run", "sums")
	w.do(t, 0, "bench", "pending", "example", "--from", filepath.Join(w.dir, "incident.json"), "--added-by", "example-alice", "--reviewed-by", "example-bob")
	w.do(t, 0, "bench", "digest", "example")

	env := map[string]string{"HOME": w.home, "XDG_STATE_HOME": filepath.Join(w.home, "state")}
	place := func() *dossier.Place {
		p, err := dossier.Open(w.dir, dossier.World{Getenv: func(name string) string { return env[name] }, Now: time.Now, Note: t.Logf})
		check(t, err)
		return p
	}
	d, err := reviewing.Open(reviewing.Config{
		Open:    func() (*dossier.Corpus, error) { return place().ReadCorpus("", dossier.Ask{}) },
		Pen:     ceremony.Pen{Key: filepath.Join(w.dir, ".tally", "keys", "example-alice")},
		Confirm: func(_ context.Context, act *reviewing.Act) (bool, error) { return answers(act), nil },
	})
	check(t, err)
	t.Cleanup(d.Close)
	v, err := viewer.Open(viewer.Config{Place: place(), Owner: true, Desk: d})
	check(t, err)
	t.Cleanup(v.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: viewer.Guard(v, viewer.Door{Token: token, Write: true, Hosts: []string{listener.Addr().String()}}, port)}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, w
}

// A person works in the browser as in any other page: chooses, sends, answers elsewhere,
// and goes on to the next case.
func TestAPersonReviewsInTheBrowser(t *testing.T) {
	asked, answer := make(chan *reviewing.Act, 10), make(chan bool, 10)
	base, w := aDesk(t, func(act *reviewing.Act) bool { asked <- act; return <-answer })
	b := open(t, base+"/?token="+token)
	for name, path := range map[string]string{"home": "/review", "queue": deskAttempt, "case": deskAttempt + "/case/asks-for-it", "open": deskAttempt + "/case/explains?open=1", "draft": "/review/draft/example/greets-nobody"} {
		b.goTo(base + path)
		b.waitFor(marked)
		if state := b.state(); state == "bad" || state == "unclear" {
			t.Errorf("%s: %s %s", path, b.text("#mark"), b.text("#tallystick-alarm"))
		}
		b.accessible()
		b.clean()
		b.picture("review-" + name)
		b.look("light", 390, 844)
		if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
			t.Errorf("%s is wider than a phone", path)
		}
		b.look("light", 1280, 900)
	}
	b.goTo(base + deskAttempt + "/case/adds")
	b.waitFor(marked)
	b.js(`(document.querySelector("input[value=pass]").click(), document.querySelector("textarea[name=note]").value = "it is 2", document.querySelector(".wish button").click())`)
	act := <-asked
	b.waitFor(`document.querySelector(".waits")`)
	if code := b.text(".waits .code"); code != act.Request || act.Label != "pass" || act.Note != "it is 2" || act.Item.Answer != "2" {
		t.Errorf("the page says %s, asked is %+v", code, act)
	}
	b.accessible()
	b.picture("review-waits")
	answer <- true
	b.waitFor(`document.querySelector("main .state.passed")?.textContent === "Signed"`) // the page asks by itself
	b.picture("review-done")
	b.clean()
	if out := w.do(t, 0, "review", "sums.default.1", "--report"); !strings.Contains(out, "labelled   1 of 3") {
		t.Errorf("the report says %s", out)
	}
	// On to the next one, and a no.
	b.js(`[...document.querySelectorAll("main a")].find((a) => a.textContent.startsWith("Next case")).click()`)
	b.waitFor(`document.querySelector("input[value=fail]")`)
	b.waitFor(marked)
	b.js(`(document.querySelector("input[value=fail]").click(), document.querySelector(".wish button").click())`)
	<-asked
	answer <- false
	b.waitFor(`document.querySelector("main .state")?.textContent === "Not signed"`)
	b.clean()
}

// A page of another port of this machine is of the same site for a browser, which sends
// the cookie with its forms. Nobody is asked.
func TestAPageOfAnotherPortSignsNothing(t *testing.T) {
	asked := 0
	base, _ := aDesk(t, func(*reviewing.Act) bool { asked++; return true })
	b := open(t, base+"/?token="+token)
	b.goTo(base + deskAttempt + "/case/adds")
	b.waitFor(marked)
	// The attacker knows everything that the form says, as if it had been read over a shoulder.
	fields := b.js(`[...document.querySelectorAll(".wish form:first-child input[type=hidden]")].map((e) => e.outerHTML).join("")`)
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, `<form method="post" action="%s/review/do">%v<input name="label" value="pass"></form><script>document.forms[0].submit()</script>`, base, fields)
	}))
	t.Cleanup(evil.Close)
	b.goTo(evil.URL)
	b.waitFor(`document.body.textContent.includes("another site asked")`)
	if asked > 0 {
		t.Error("a page of another port had the person asked")
	}
	// The same fields from a page of the server are taken: it was the origin that was wrong.
	b.goTo(base + deskAttempt + "/case/adds")
	b.waitFor(marked)
	b.js(`(document.querySelector("input[value=pass]").click(), document.querySelector(".wish button").click())`)
	b.waitFor(`document.querySelector("main .state.passed")`)
	if asked != 1 {
		t.Errorf("%d asked", asked)
	}
}
