package browsertest

import (
	"strings"
	"testing"
	"time"
)

// A question is one that a person opens the pages with, where they look for the answer,
// and what of it they must see at once.
type question struct {
	asks, path string
	click      string // what leads there from the page of the question before
	sees       []string
}

// questions are the three of issue 32, and what changed, in the order in which a person
// asks them.
var questions = []question{
	{"What got worse?", "/", "", []string{"1 of", "got worse: billing by clerk", "14 lost, 0 gained of 40", "−35.0 points", "Worse", "Not met"}},
	{"What changed?", "/compare?a=billing.clerk.1&b=" + worse, `main a[href^="/compare"]`, []string{"14 lost", "0 gained", "100.0 % → 65.0 %", "system changed", "invoice-00"}},
	{"Which cases, and what do they share?", "/attempt/" + worse, `main a[href="/attempt/` + worse + `"]`, []string{"14 of 40 did not pass", "failure mode wrong-unit (all 14)", "tag invoices (all 14)", "tool find_invoice (all 14)", "Not met", "invoice-00"}},
	{"What was asked, what came, why is it wrong?", worseCase, `main a[href$="/case/invoice-03"], main a[href*="show=invoice-03"]`, []string{"How much is open on invoice 2003?", "The amount is **1550**.", "€ 15.50", "wrong-unit", "does not contain"}},
}

// screens are a laptop, and a phone.
var screens = [][2]int64{{1280, 800}, {390, 844}}

// TestEachQuestionIsAnsweredAboveTheFold goes the way of a person who begins at the first
// page and only clicks: each answer is on the first screen, on a laptop and on a phone,
// with scripts and without.
func TestEachQuestionIsAnsweredAboveTheFold(t *testing.T) {
	w := theCompany(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b, bare := open(t, url), openWithoutScripts(t, url)
	look := func(b *tab, q question, screen [2]int64) {
		t.Helper()
		seen, _ := b.js(visibleAt).(string)
		for _, part := range q.sees {
			if !strings.Contains(seen, part) {
				t.Errorf("%s (%s, %d by %d): %q is not on the first screen: %s", q.asks, q.path, screen[0], screen[1], part, seen)
			}
		}
	}
	b.whenRead(base + "/attempt/" + worse)
	for _, screen := range screens {
		b.look("light", screen[0], screen[1])
		bare.look("light", screen[0], screen[1])
		for _, q := range questions {
			if q.click != "" {
				link := b.js(`document.querySelector(` + quote(q.click) + `)?.href ?? ""`)
				if href, _ := link.(string); href == "" {
					t.Errorf("%s: nothing on the page before leads to %s", q.asks, q.path)
				}
			}
			b.goTo(base + q.path)
			b.waitFor(marked)
			if state := b.state(); state == "bad" || state == "unclear" {
				t.Errorf("%s: %s %s", q.path, b.text("#mark"), b.text("#tallystick-alarm"))
			}
			look(b, q, screen)
			b.clean()
			bare.goTo(base + q.path)
			look(bare, q, screen)
		}
	}
}

// whenRead goes to the page of an attempt, again and again until its transcripts were read:
// what they have in common is known then.
func (b *tab) whenRead(address string) {
	b.t.Helper()
	for range 400 {
		b.goTo(address)
		if !strings.Contains(b.text("main"), "transcripts are being read") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.t.Fatal("the transcripts are never read")
}

// companyPages are all kinds of pages, at the size of a company.
var companyPages = map[string]string{
	"overview": "/", "attempts": "/attempts", "class": "/attempts?class=support", "attempt": "/attempt/" + worse, "beside": "/attempt/" + worse + "?show=invoice-03", "groups": "/attempt/" + worse + "?group=tag&cols=input&cols=tags&cols=cost&sort=-cost",
	"many": "/attempt/sums.default.1", "many-found": "/attempt/sums.default.1?q=4999&state=failing", "search": "/attempt/" + worse + "?q=cents",
	"case": worseCase, "events": worseCase + "/log", "evidence": worseCase + "/evidence", "history": "/attempt/" + dip + "/case/return-05/history", "long": "/attempt/lift.default.1/case/long-visit", "long-end": "/attempt/lift.default.1/case/long-visit?from=401", "image": "/attempt/charts.plotter.1/case/draws-a-chart",
	"compare": "/compare", "dip": "/compare?a=" + beforeTheDip + "&b=" + dip, "side": "/compare?a=" + beforeTheDip + "&b=" + dip + "&case=return-05", "matrix": "/matrix?class=support", "golden": "/golden/support/desk/return-05",
	"corpus": "/corpus", "bench": "/corpus/support", "bench-many": "/corpus/sums", "bench-case": "/corpus/support/case/return-05", "review": "/review", "judges": "/judges", "promotion": "/promotion/support", "audit": "/audit/" + worse, "ledger": "/ledger", "entry": "/ledger/20",
	"imported": "/imported", "imported-run": "/imported/1", "fleet": "/fleet", "nowhere": "/nowhere",
}

// TestEveryPageOfTheCompany looks at each for what keeps people out, for what is wider than
// a phone, for broken words and for a layout that moves; with TALLY_SCREENSHOTS it leaves
// pictures for who looks.
func TestEveryPageOfTheCompany(t *testing.T) {
	w := theCompany(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	b.countsShifts()
	for name, path := range companyPages {
		for _, width := range []int64{390, 1280} {
			b.look("light", width, 844)
			b.goTo(base + path)
			b.waitFor(marked)
			if state := b.state(); state == "bad" || state == "unclear" {
				t.Errorf("%s: %s %s", path, b.text("#mark"), b.text("#tallystick-alarm"))
			}
			b.stands(path, width)
			if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
				t.Errorf("%s is wider than %d pixels", path, width)
			}
			if broken, _ := b.js(brokenWords).([]any); len(broken) > 0 {
				t.Errorf("%s, %d pixels wide: these are broken over two lines: %v", path, width, broken)
			}
		}
		b.accessible()
		b.clean()
		b.picture("company-" + name)
	}
}

// The table of the overview stands whole on a laptop: no column is behind its edge.
func TestTheOverviewShowsAllItsColumns(t *testing.T) {
	b := visit(t, theCompany(t).serve(t, honest), "/")
	b.waitFor(marked)
	b.look("light", 1280, 800)
	if hidden := b.js(`[...document.querySelectorAll(".wide")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 40))`); len(hidden.([]any)) > 0 {
		t.Errorf("at 1280 pixels a part is behind the edge: %v", hidden)
	}
}
