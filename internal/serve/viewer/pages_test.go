package viewer

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tallystick/internal/run/trajectory"
)

var (
	hrefs      = regexp.MustCompile(` (?:href|src|action|data-trajectory|data-evidence|data-grading|data-piece)="([^"]*)"`)
	values     = regexp.MustCompile(`<span[^>]*? data-entry="(\d+)" data-field="([^"]*)" data-as="([^"]*)">([^<]*)</span>`)
	eventField = regexp.MustCompile(`data-field="(/payload[^"]*)"`)
)

// crawled are the pages, by address; all tests look at the same.
var crawled map[string]string

// crawl follows the links of every page, from the overview on. Of addresses that
// differ only in the values of their queries it follows a few, and of those with many
// values none.
func crawl(t *testing.T, v *Viewer) map[string]string {
	t.Helper()
	if crawled != nil {
		return crawled
	}
	pages, like := map[string]string{}, map[string]int{}
	queue := []string{"/"}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if _, seen := pages[at]; seen {
			continue
		}
		w := get(t, v, at)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d\n%.600s", at, w.Code, w.Body)
		}
		pages[at] = w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		base, _ := url.Parse(at)
		for _, m := range hrefs.FindAllStringSubmatch(pages[at], -1) {
			to, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil || to.Host != "" || to.Scheme == "data" {
				if to == nil || to.Scheme != "data" {
					t.Errorf("%s links to %s", at, m[1])
				}
				continue
			}
			to.Fragment = ""
			if len(to.Query()) > 3 { // filters together: there are as many pages as combinations
				continue
			}
			kind := to.Path + "?" + strings.Join(slices.Sorted(maps.Keys(to.Query())), "&")
			if like[kind]++; like[kind] <= 3 || to.RawQuery == "" {
				queue = append(queue, to.String())
			}
		}
		if len(pages) > 3000 {
			t.Fatal("the crawl does not end")
		}
	}
	crawled = pages
	return pages
}

func TestEveryPageReadsAndEveryLinkLeadsSomewhere(t *testing.T) {
	v := openShop(t)
	pages := crawl(t, v)
	seen := map[string]bool{}
	for at, body := range pages {
		if !strings.Contains(body, "<!doctype html>") {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		first, _, _ = strings.Cut(first, "?")
		seen[first] = true
		for _, want := range []string{`<div id="mark" role="status">`, `<a class="skip"`, `<h1>`, `<html lang="en">`, `src="/assets/check.js"`, `name="viewport"`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s", at, want)
			}
		}
		for _, bad := range []string{" style=", " onclick=", " onload=", "<script>", "javascript:"} {
			if strings.Contains(tags(body), bad) {
				t.Errorf("%s: has %s in a tag", at, bad)
			}
		}
		if len(body) > 4<<20 {
			t.Errorf("%s: %d bytes", at, len(body))
		}
	}
	for _, want := range []string{"", "attempts", "attempt", "matrix", "compare", "golden", "corpus", "judges", "promotion", "audit", "ledger", "imported"} {
		if !seen[want] {
			t.Errorf("no link leads to /%s; seen: %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// tags are the tags of a page without what stands between them.
func tags(body string) string {
	return strings.Join(regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1), "\n")
}

// TestEveryValueIsThatOfItsEntry does what the script in the browser does: it makes
// each text again from the entry that the page names.
func TestEveryValueIsThatOfItsEntry(t *testing.T) {
	v := openShop(t)
	n := 0
	for at, body := range crawl(t, v) {
		for _, m := range values.FindAllStringSubmatch(body, -1) {
			index, _ := strconv.ParseInt(m[1], 10, 64)
			e, err := v.entry(index)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := shown(e.body, html.UnescapeString(m[2]), Format(m[3]))
			if !ok {
				want = none
			}
			if got := html.UnescapeString(m[4]); got != want {
				t.Errorf("%s: entry %s%s as %s is %q, the page shows %q", at, m[1], m[2], m[3], want, got)
			}
			n++
		}
	}
	if n < 200 {
		t.Errorf("only %d values", n)
	}
}

func TestTranscriptsShowEveryTypeOfEvent(t *testing.T) {
	v := openShop(t)
	all, fields := "", map[string]bool{}
	for _, body := range crawl(t, v) {
		for _, m := range eventField.FindAllStringSubmatch(body, -1) {
			fields[m[1]] = true
		}
		all += body
	}
	for _, want := range []trajectory.Type{"run_started", "turn_started", "context_compiled", "model_call_started", "model_call_completed", "tool_proposed", "tool_executed", "policy_decision", "memory_written", "run_completed"} {
		if !strings.Contains(all, "<strong>"+titles[want]+"</strong>") && !strings.Contains(all, `class="bad">`+titles[want]+`</strong>`) {
			t.Errorf("no %s", want)
		}
	}
	for _, typ := range trajectory.Types() {
		if titles[typ] == "" {
			t.Errorf("the type %s has no title", typ)
		}
	}
	for _, want := range []string{"/payload/prompt/head", "/payload/output/head", "/payload/verdict"} {
		if !fields[want] {
			t.Errorf("no event shows %s", want)
		}
	}
}

func TestHostileTextsStayText(t *testing.T) {
	v := openShop(t)
	for at, body := range crawl(t, v) {
		isPage := strings.Contains(body, "<!doctype html>")
		for name, texts := range hostile {
			for _, bad := range texts[1:] {
				if isPage && strings.Contains(body, bad) {
					t.Errorf("%s: holds the %s text as it is: %q", at, name, bad)
				}
			}
		}
	}
	body := get(t, v, "/attempt/hostile.default.1/case/hostile-bidi").Body.String()
	if !strings.Contains(body, `abc\u{202e}txt.exe`) {
		t.Error("what reverses the reading order is not shown")
	}
	if body := get(t, v, "/attempt/hostile.default.1/case/hostile-terminal").Body.String(); !strings.Contains(body, `\x1b[31mred`) {
		t.Error("terminal codes are not shown")
	}
}

func TestHeldOutCasesAreNotTold(t *testing.T) {
	v := openShop(t)
	pages := crawl(t, v)
	if _, ok := pages["/attempt/hostile.default.1/case/kept-secret"]; !ok {
		t.Fatal("the page of the held-out case was not looked at")
	}
	for at, body := range pages {
		if strings.Contains(body, secret) {
			t.Errorf("%s tells the held-out answer", at)
		}
	}
	case1 := "/attempt/hostile.default.1/case/kept-secret"
	a := v.r.History.Attempt("hostile.default.1")
	c := recordOf(a, "kept-secret")
	for _, path := range []string{case1 + "/events", case1 + "/piece/" + c.Evidence[0].String(), "/blob/" + c.Evidence[0].String() + "?attempt=hostile.default.1&case=kept-secret"} {
		if w := get(t, v, path); w.Code == http.StatusOK || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	// The same by way of a case that is not held out.
	if w := get(t, v, "/attempt/hostile.default.1/case/hostile-svg/piece/"+c.Evidence[0].String()); w.Code == http.StatusOK {
		t.Error("the evidence of the held-out case is given as that of another")
	}
}

func TestFiltersAreInTheAddress(t *testing.T) {
	v := openShop(t)
	for _, tt := range []struct{ path, has, hasNot string }{
		{"/attempts?class=hostile", "hostile.default.1", "builtin+adversarial.mitigated.1<"},
		{"/attempts?q=vulner", "builtin+adversarial.vulnerable.2", ">hostile.default.1<"},
		{"/attempts?tag=long", ">hostile.default.1<", ">builtin+adversarial.mitigated.1<"},
		{"/attempts?tag=no-attempt-has-it", "No attempt fits", ">hostile.default.1<"},
		{"/attempts?state=unfinished", "No attempt fits", ">hostile.default.1<"},
		{"/attempt/hostile.default.1?state=passed", "plain-one", ">hostile-svg<"},
		{"/attempt/hostile.default.1?tag=svg", ">hostile-svg<", ">hostile-bidi<"},
		{"/attempt/hostile.default.1?q=hostile-s", ">hostile-script<", ">hostile-bidi<"},
		{"/attempt/hostile.default.1?page=999", ">hostile-svg<", "No case fits"},
		{"/matrix?class=builtin:adversarial&show=different", "approval-bypass", "hostile-svg"},
		{"/corpus/builtin:adversarial?q=handoff", "handoff-deputy", "transfer-replay"},
	} {
		w := get(t, v, tt.path)
		if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, tt.has) || strings.Contains(body, tt.hasNot) {
			t.Errorf("%s: %d; has %q: %v, has %q: %v", tt.path, w.Code, tt.has, strings.Contains(body, tt.has), tt.hasNot, strings.Contains(body, tt.hasNot))
		}
	}
	// What did not pass comes first.
	body := get(t, v, "/attempt/hostile.default.1").Body.String()
	if strings.Index(body, ">hostile-svg<") > strings.Index(body, "plain-one") {
		t.Error("a case that passed stands before one that failed")
	}
}

func TestUnknownNamesAreNotFound(t *testing.T) {
	v := openShop(t)
	for _, path := range []string{"/nowhere", "/attempt/none", "/attempt/hostile.default.1/case/none", "/attempt/hostile.default.1/case/hostile-svg?repeat=7", "/ledger/99999", "/ledger/-1", "/ledger/x",
		"/receipt/99999", "/corpus/none", "/corpus/..%2f..%2fetc", "/golden/..%2f..%2fx/default/hostile-svg", "/golden/hostile/default/..%2f..%2fx", "/promotion/none", "/audit/none", "/imported/1", "/compare?a=none&b=none",
		"/assets/none.js", "/assets/..%2fviewer.go", "/blob/blake3:00", "/attempt/hostile.default.1/case/hostile-svg/events?from=x"} {
		if w := get(t, v, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
}
