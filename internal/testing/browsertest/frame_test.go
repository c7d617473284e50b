package browsertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
)

// countShifts adds up how far what is shown moves by itself, as Chromium measures it
// (cumulative layout shift).
const countShifts = `window.shifted = 0; window.shifts = [];
new PerformanceObserver((list) => { for (const e of list.getEntries()) { shifted += e.value; for (const s of e.sources) shifts.push(s.node?.outerHTML?.slice(0, 80) ?? s.node?.textContent?.slice(0, 40)); } }).observe({type: "layout-shift", buffered: true});`

// maxShift is what Chromium's authors call good, halved.
const maxShift = 0.05

// countsShifts has the tab count on every page that it goes to.
func (b *tab) countsShifts() {
	b.t.Helper()
	b.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: countShifts}))
}

// stands wants that the page did not move since it was loaded.
func (b *tab) stands(path string, width int64) {
	b.t.Helper()
	b.js(`new Promise((go) => setTimeout(go, 300))`)
	if moved, _ := b.js("shifted").(float64); moved >= maxShift {
		b.t.Errorf("%s, %d pixels wide: what is shown moves by %.3f: %v", path, width, moved, b.js("shifts"))
	}
}

// A page is read while it is checked: its head must not grow when the result is there.
func TestNothingMovesWhenAPageWasChecked(t *testing.T) {
	w := theShowroom(t)
	asIs := func(_ *http.Request, answer *httptest.ResponseRecorder) []byte { return answer.Body.Bytes() }
	for _, state := range []string{"state", "elsewhere"} { // its owner's machine, and another
		url := w.serveOn(t, state, asIs)
		base, _, _ := strings.Cut(url, "/?")
		b := open(t, url)
		b.countsShifts()
		for _, width := range []int64{390, 1280} {
			b.look("light", width, 844)
			for _, path := range []string{"/", "/attempts", "/attempt/" + signed, deskCase, "/corpus", "/compare", "/matrix?class=desk"} {
				b.goTo(base + path)
				b.waitFor(marked)
				b.stands(path+", "+state, width)
				wide, _ := b.js(`document.getElementById("mark").getBoundingClientRect().width`).(float64)
				if summary, _ := b.js(`document.querySelector("#mark summary").getBoundingClientRect().width`).(float64); wide < 30 || wide > 40 || summary > wide+0.5 {
					t.Errorf("%s: the lock is %.1f wide, in a place of %.1f", path, summary, wide)
				}
			}
		}
	}
}

// inks are the colours that a page would give a lock, and the one that it has.
const inks = `(() => {
	const ink = (name) => { const e = document.createElement("i"); e.style.color = "var(--" + name + ")"; document.createElement("div").append(e); document.documentElement.append(e); const c = getComputedStyle(e).color; e.remove(); return c; };
	const has = getComputedStyle(document.querySelector("#mark .lock")).color;
	return ["passed", "truncated", "failed", "soft"].find((name) => ink(name) === has) ?? has;
})()`

// Proof is quiet. On the machine that made the key nothing is amber; nobody's bench is
// neither green nor called verified; amber is for a key that nobody named, red for what
// does not verify.
func TestTheLockIsQuiet(t *testing.T) {
	w := coverWorld(t)
	asIs := func(_ *http.Request, answer *httptest.ResponseRecorder) []byte { return answer.Body.Bytes() }
	forged := func(req *http.Request, answer *httptest.ResponseRecorder) []byte {
		return []byte(strings.Replace(answer.Body.String(), `data-as="number3">0.`, `data-as="number3">9.`, 1))
	}
	for _, tt := range []struct {
		name, state, path string
		send              func(*http.Request, *httptest.ResponseRecorder) []byte
		want, says, not   string
	}{
		{"the owner, a bench that nobody signed", "state", "/attempt/" + attempt, asIs, "soft", "no signer vouches for the bench", "Verified"},
		{"the owner, an entry", "state", "/ledger/0", asIs, "passed", "Verified with the key of this machine", "no signer"},
		{"the owner, many entries", "state", "/attempts", asIs, "", "", "not known"},
		{"another machine", "elsewhere", "/attempt/" + attempt, asIs, "truncated", "signer not known to you", "Verified"},
		{"a forged number", "state", "/attempt/" + attempt, forged, "failed", "Does not verify", "Verified"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := visit(t, w.serveOn(t, tt.state, tt.send), tt.path)
			b.waitFor(marked)
			ink, words := b.js(inks), b.text("#mark summary")
			if tt.want != "" && ink != tt.want || !strings.Contains(words, tt.says) || strings.Contains(words, tt.not) || ink == "truncated" && tt.state == "state" {
				t.Errorf("the lock is %v and says %q", ink, words)
			}
			if title := b.js(`document.querySelector("#mark summary").title`); title != words {
				t.Errorf("it says %q to who cannot see it, and %q to who can", words, title)
			}
			b.clean()
		})
	}
}

// The navigation fits a phone in one line, and what is behind "More" opens over the page.
func TestTheNavigationFitsAPhone(t *testing.T) {
	b := visit(t, theShowroom(t).serve(t, honest), "/ledger")
	b.waitFor(marked)
	for _, width := range []int64{360, 1280} {
		b.look("light", width, 800)
		lines := b.js(`new Set([...document.querySelectorAll(".top nav > ul > li")].map((e) => Math.round(e.getBoundingClientRect().top))).size`)
		if lines != 1.0 {
			t.Errorf("%d pixels wide the navigation has %v lines", width, lines)
		}
		before := b.js(`document.querySelector("main").getBoundingClientRect().top`)
		b.js(`document.querySelector(".rest summary").click()`)
		var names []string
		for _, name := range b.js(`[...document.querySelectorAll(".top nav > ul > li > a, .top nav summary, .rest a")].filter((e) => e.checkVisibility()).map((e) => e.textContent)`).([]any) {
			names = append(names, name.(string))
		}
		if got := strings.Join(names, " "); got != "Overview Attempts Compare Corpus Ledger Matrix Review Judges Ledger Imported Fleet" {
			t.Errorf("the navigation is %s", got)
		}
		if wide := b.js(`document.documentElement.scrollWidth > innerWidth`); wide != false {
			t.Errorf("%d pixels wide: what opens is wider than the screen", width)
		}
		if after := b.js(`document.querySelector("main").getBoundingClientRect().top`); after != before {
			t.Errorf("the page moves from %v to %v when the rest is opened", before, after)
		}
		b.press("Escape")
		if open := b.js(`document.querySelectorAll(".top details[open]").length`); open != 0.0 {
			t.Error("Escape leaves it open")
		}
	}
	b.clean()
}

// Who comes without a token is asked for it, by a page that looks like the others, and is
// led where they wanted to go.
func TestTheDoorAsksForTheToken(t *testing.T) {
	url := workspace(t).serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, base+"/attempts?class=chat")
	b.accessible()
	b.clean()
	b.picture("door")
	b.js(`(document.getElementById("token").value = "not-the-token", document.forms[0].submit())`)
	b.waitFor(`document.querySelector("[role=alert]")?.textContent.includes("not the token")`)
	b.js(`(document.getElementById("token").value = ` + quote(token) + `, document.forms[0].submit())`)
	b.waitFor(`location.pathname + location.search === "/attempts?class=chat" && document.querySelector("h1")?.textContent === "Attempts"`)
	b.clean()
}
