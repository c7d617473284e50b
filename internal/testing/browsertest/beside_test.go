package browsertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	listPage   = "/attempt/" + attempt
	besidePage = listPage + "?show=says-hello"
)

// A reader walks through what did not pass with the keyboard, and every case that comes
// beside the list is checked anew.
func TestWalkingThroughTheCasesOfAnAttempt(t *testing.T) {
	w := workspace(t)
	url := serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, listPage)
	b.waitFor(marked)
	origin, _, _ := strings.Cut(w.key, "+")
	b.js(`localStorage.setItem(` + quote("tallystick-keys "+origin) + `, ` + quote(w.key) + `)`)
	good := func(place string) {
		t.Helper()
		b.waitFor(`location.search.includes(` + quote(place) + `) && document.getElementById("mark")?.dataset.state === "good"`)
		b.clean()
	}
	b.goTo(base + listPage)
	good("")
	b.accessible()
	b.press("f")
	good("state=failing")
	b.press("?")
	b.waitFor(`document.getElementById("keys")?.textContent.includes("only what did not pass")`)
	b.press("Escape")
	if state := b.state(); state != "good" {
		t.Errorf("the list of keys makes the page %s", state)
	}
	b.press("j")
	b.js(`document.activeElement.click()`)
	good("show=")
	first := b.text(".one h2")
	b.press("j")
	b.waitFor(`!document.querySelector(".one h2")?.textContent.includes(` + quote(first) + `)`)
	good("show=")
	if at := b.text("tr.current"); !strings.Contains(at, b.text(".one h2")) {
		t.Errorf("beside %s the list is at %s", b.text(".one h2"), at)
	}
	b.waitFor(`/ and [0-9]+ events on this page/.test(document.getElementById("mark").textContent)`) // of the transcript
	b.accessible()
	b.look("light", 390, 844)
	if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
		t.Error("the case beside its list is wider than a phone")
	}
	if shown := b.js(`document.querySelector(".split .cases").checkVisibility()`); shown != false {
		t.Error("on a phone the list stands above the case")
	}
	b.look("light", 1280, 900)
	b.press("k")
	b.waitFor(`document.querySelector(".one h2")?.textContent.includes(` + quote(first) + `)`)
	good("show=")
	b.press("f") // and back to all
	b.waitFor(`!location.search.includes("state=")`)
	good("")
}

// What stands beside the list is covered like the rest of the page: a forger changes it in
// no way that stays green.
func TestAForgedCaseBesideTheListRaisesTheAlarm(t *testing.T) {
	replace := func(old, now string) func(string) string {
		return func(page string) string { return strings.Replace(page, old, now, 1) }
	}
	for _, tt := range []struct {
		name, page string
		forge      func(string) string
		says       string
	}{
		{"the answer in the row", listPage, replace(`data-field="/checks/0/extracted/head" data-as="text">hello<`, `data-field="/checks/0/extracted/head" data-as="text">bye<`), "shows “bye”, signed is “hello”"},
		{"an answer without a place in the row", listPage, replace(`<span data-field="/checks/0/extracted/head" data-as="text">hello</span>`, `bye`), "bye"},
		{"the reason in the narrow list", besidePage, replace(`</div></th>`, ` it passed</div></th>`), "it passed"},
		{"the outcome of the case", besidePage, replace(`in <a href="/attempt/chat.default.1">`, `passed in <a href="/attempt/chat.default.1">`), "passed in"},
		{"which case is next", besidePage, replace(`data-key="j" href="`, `data-key="j" href="/attempt/chat.default.1?show=finds-it#split" data-was="`), "its href"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done := false
			forge := func(path string, body []byte) []byte {
				if path != listPage {
					return body
				}
				forged := tt.forge(string(body))
				done = done || forged != string(body)
				return []byte(forged)
			}
			b := visit(t, serve(t, forge), tt.page)
			b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
			if got := b.text("#tallystick-alarm"); !done || !strings.Contains(got, tt.says) {
				t.Errorf("forged: %v; the banner does not say %q: %s", done, tt.says, got)
			}
		})
	}
}

// A server that answers with another case than the one that was asked for has a page with
// a good signature, and of another address.
func TestAnotherCaseBesideTheListIsNotTakenForTheOneAskedFor(t *testing.T) {
	w := workspace(t)
	other := ""
	url := w.serveOn(t, "elsewhere", func(req *http.Request, answer *httptest.ResponseRecorder) []byte {
		body := answer.Body.Bytes()
		switch req.URL.Query().Get("show") {
		case "finds-it":
			other = string(body)
		case "says-hello":
			return []byte(other)
		}
		return body
	})
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, listPage+"?show=finds-it")
	b.waitFor(marked)
	b.goTo(base + besidePage)
	b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
	if got := b.text("#tallystick-alarm"); !strings.Contains(got, "the signature is of the page") {
		t.Errorf("the banner says %s", got)
	}
}
