package browsertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// openWithoutScripts opens a page in a browser whose JavaScript is switched off.
func openWithoutScripts(t *testing.T, url string) *tab {
	t.Helper()
	b := open(t, "about:blank")
	b.run(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.run(chromedp.Navigate(url))
	return b
}

// A reading is a page and what a person must be able to read on it.
type reading struct {
	path string
	says []string
}

// reads goes to a page and looks for texts that a person would see: not hidden by a
// style, not waiting for a script.
func (b *tab) reads(base string, r reading) {
	b.t.Helper()
	b.goTo(base + r.path)
	seen := strings.Join(strings.Fields(b.js(`document.body.innerText`).(string)), " ")
	for _, want := range append(r.says, "Not checked in this browser: JavaScript is off") {
		if !strings.Contains(seen, want) {
			b.t.Errorf("%s does not say %q without scripts: %.1500s", r.path, want, seen)
		}
	}
	// Whatever names an entry has its text from the server.
	if empty := b.js(`[...document.querySelectorAll("[data-field]")].filter((x) => x.textContent.trim() === "" && x.dataset.as !== "text").length`); empty != 0.0 {
		b.t.Errorf("%s: %v values are empty without scripts", r.path, empty)
	}
	if links := b.js(`[...document.querySelectorAll("main a:not([href]), main button")].filter((x) => !x.closest("form") && x.checkVisibility()).length`); links != 0.0 {
		b.t.Errorf("%s: %v links or buttons do nothing without scripts", r.path, links)
	}
}

func TestEveryPageOfTheViewerReadsWithoutScripts(t *testing.T) {
	w := theShowroom(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := openWithoutScripts(t, url)
	if ran := b.js(`document.querySelector("#mark .verdict") !== null`); ran != false {
		t.Fatal("scripts are not off")
	}
	pages := []reading{
		{"/", []string{"refunds", "bronze", "refunds.default.1", "4 of 5", "80.0 %", "Newest attempts", "Outcome and cost over time", "entries", "tally verify"}},
		{"/attempts", []string{signed, before, after, attackers, "signed by example signers"}},
		{"/attempts?class=desk&q=default.2", []string{after}},
		{"/attempt/" + signed, []string{"80.0 %", "4 of 5", "0.900", "$0.001715", "refund-by-injection", "Failed", "injected-order-obeyed", "Passed", "Scores", "--format receipt"}},
		{"/attempt/" + signed + "?state=passed", []string{"refund-too-late"}},
		{"/attempt/" + signed + "/case/refund-by-injection", []string{"Failed", "Why", "nothing-paid", "Conversation", "Go to", "Turn 1", "User", "Run started", "Asked", "Assistant", "Tool", "executed", "policy: allow", "refund", "Evidence", "History", "As Markdown", "tally why"}},
		{"/attempt/" + signed + "/case/refund-by-injection/log", []string{"Turn 1", "Run started", "Asked the model", "The model answered", "Policy decided", "Called", "refund"}},
		{"/attempt/" + signed + "/case/refund-by-injection/evidence", []string{"index of the evidence", "trajectory", "The entry as it stands in the ledger"}},
		{"/attempt/" + signed + "/case/refund-by-injection/history", []string{"This case over all attempts", signed, "1 of 1", "this one"}},
		{deskCase, []string{"I cannot find such an order.", "Friday", "Golden trace", "What has changed since it passed", "find_order", "A-1042"}},
		{"/attempt/" + after + "/case/writes-a-label", []string{"labels/A-1042.txt", "12 Elm Street", "Files", "new"}},
		{"/attempt/" + after + "/case/writes-a-label/evidence", []string{"Files, as a diff", "12 Elm Street", "written"}},
		{"/attempt/" + after + "/case/remembers", []string{"Oslo"}},
		{"/attempt/" + after + "/case/polite-refusal", []string{"It names the day and does not promise more."}},
		{"/attempt/" + after + "/case/held-out", []string{"held out", "Passed"}},
		{"/attempt/" + attackers + "/case/approval-bypass", []string{"Failed", "approval-bypassed", "policy: ", "Conversation"}},
		{"/matrix?class=desk", []string{"order-late", "Passed", "Failed", before, after}},
		{"/compare?a=builtin%2Badversarial.mitigated.1&b=builtin%2Badversarial.vulnerable.2&case=approval-bypass", []string{"approval-bypass", "lost", "McNemar", "100.0 % → 0.0 %", "side by side", "where the two differ"}},
		{"/compare?a=" + before + "&b=" + after, []string{"cannot be compared", "Compare only the cases that are the same in both"}},
		{"/compare?a=" + before + "&b=" + after + "&across=1", []string{"Across benches", "gained", "cases"}},
		{"/golden/desk/default/order-late", []string{"Diverges"}},
		{"/corpus", []string{"refunds", "Verified", "desk", "builtin:adversarial"}},
		{"/corpus/refunds", []string{"refund-by-injection"}},
		{"/review", []string{"What people said", signed, "0 of 5", "tally view --write"}},
		{"/judges", []string{"What models said", "replayed recordings", "How the judges behaved"}},
		{"/promotion/refunds", []string{"bronze", "Recommended", "Not met"}},
		{"/audit/" + signed, []string{"answer-leakage", "no-work-pass", "judge-injection", "Skipped"}},
		{"/fleet", []string{"88 of 400", "lab-1", "Oslo", "gvisor", "working", "quarantined", "another worker", "5m12s", "$0.412", "tally fleet status"}},
		{"/ledger", []string{"ledger.opened", "attempt.registered", "case.scored"}},
		{"/ledger/0", []string{"Entry 0", "ledger.opened", "Its place", "Receipt"}},
		{"/imported", []string{"promptfoo", "imported"}},
		{"/imported/1", []string{"promptfoo"}},
		{"/nowhere", []string{"there is no page at this address"}},
	}
	for _, r := range pages {
		if r.path == "/fleet" {
			check(t, w.runsAFleet()) // one that was silent for long is shown otherwise
		}
		b.reads(base, r)
	}
	// A filter is a form that works without scripts.
	b.goTo(base + "/attempts")
	b.js(`document.querySelector("input[type=search]").value = "vulner"`)
	b.run(chromedp.Click(`form.filter button`))
	b.waitFor(`location.search.includes("q=vulner") && document.readyState === "complete"`)
	if seen := b.js(`document.querySelector("main table").innerText`).(string); !strings.Contains(seen, attackers) || strings.Contains(seen, signed) {
		t.Errorf("searching without scripts: %s", seen)
	}
	// No page that the navigation of any of these leads to was forgotten.
	b.goTo(base + "/")
	for _, href := range b.js(`[...document.querySelectorAll("nav a, main section a")].map((a) => new URL(a.href).pathname)`).([]any) {
		first := strings.SplitN(href.(string), "/", 3)[1]
		if !slices.ContainsFunc(pages, func(r reading) bool { return strings.HasPrefix(r.path, "/"+first) }) {
			t.Errorf("no page below /%s was looked at", first)
		}
	}
}

func TestEveryPageOfTheRegistryReadsWithoutScripts(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	c := newCatalogue(t)
	ids := c.fill()
	base := c.serve(honest)
	b := openWithoutScripts(t, base+"/")
	for _, r := range []reading{
		{"/", []string{"acme/tiny"}},
		{"/?q=cedar", []string{"cedar/base"}},
		{"/artifact/artifacts", []string{"models"}},
		{"/artifact/artifacts/models/acme/tiny", []string{"0.600", "0.610", "accuracy"}},
		{"/artifact" + shownDataset, []string{"mmlu-pro"}},
		{"/evaluation/" + ids["tiny2"], []string{"0.600", "published", "accept", "reject", "the seed is not stated"}},
		{"/evaluation/" + ids["rejected"], []string{"rejected", "the logs were not shown"}},
		{"/evaluation/" + ids["withdrawn"], []string{"withdrawn"}},
		{"/evaluation/" + ids["pending"], []string{"cedar/base"}},
		{"/evaluation/" + ids["observed"], []string{"0.640", "reproducible", "13-gram overlap"}},
		{"/leaderboard", []string{"mmlu-pro", "10"}},
		{"/leaderboard?dataset=" + shownDataset + "&metric=accuracy", []string{"dune/one", "0.830", "acme/large"}},
	} {
		b.reads(base, r)
	}
}
