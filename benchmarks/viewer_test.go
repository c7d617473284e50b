package benchmarks

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	pagesToTime = flag.String("pages", "", "file of pages to time in Chromium: name, address and a text that ends the wait, by tabs")
	enterFirst  = flag.String("enter", "", "address to open before them, such as the one with the token")
)

// timed is when a page had something to see and what was waited for, in milliseconds
// after the browser began to ask.
type timed struct {
	Server float64 // until the last byte of the answer
	Paint  float64 // first contentful paint
	Text   float64 // until the text was there
	Bytes  float64
}

// when waits for a text, however the page makes it, and gives the times.
const when = `new Promise((done) => {
  const begun = performance.now();
  const look = () => {
    const there = document.body?.innerText.includes(TEXT);
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if ((!there || !paint) && performance.now() - begun < 20000) return setTimeout(look, 10);
    const n = performance.getEntriesByType("navigation")[0];
    done(JSON.stringify({ Server: n.responseEnd, Paint: paint?.startTime ?? -1, Text: there ? performance.now() : -1, Bytes: n.decodedBodySize }));
  };
  look();
})`

// files gives the page and what it loads, as its server sent them.
const filesOf = `Promise.all([location.href, ...[...document.querySelectorAll("link[rel=stylesheet], script[src]")].map((x) => x.href || x.src)]
  .map(async (u) => [new URL(u).pathname, await (await fetch(u)).text()])).then((all) => JSON.stringify(all))`

// TestPagesInABrowser prints how long pages take in Chromium, each beside a server that
// sends the same bytes from memory and does nothing else. benchmarks/viewer_browser.sh calls it.
func TestPagesInABrowser(t *testing.T) {
	if *pagesToTime == "" {
		t.Skip("no -pages")
	}
	list, err := os.ReadFile(*pagesToTime)
	if err != nil {
		t.Fatal(err)
	}
	ctx := startChromium(t)
	if *enterFirst != "" {
		evaluate(t, ctx, *enterFirst, "Promise.resolve('')")
	}
	for line := range strings.Lines(string(list)) {
		part := strings.Split(strings.TrimSpace(line), "\t")
		if len(part) != 3 {
			t.Fatalf("%q: expected a name, an address and a text", line)
		}
		ours := timePage(t, ctx, part[1], part[2])
		fmt.Printf("%s: first paint %.0f ms, “%.30s” after %.0f ms, answer %.0f ms, %.0f bytes", part[0], ours.Paint, part[2], ours.Text, ours.Server, ours.Bytes)
		if ours.Bytes > 20_000 { // what a program of the page makes has no floor of this kind
			floor := timePage(t, ctx, serveSame(t, evaluate(t, ctx, part[1], filesOf)), part[2])
			fmt.Printf("; the same bytes from memory %.0f and %.0f ms: %.2f × and %.2f ×", floor.Paint, floor.Text, ours.Paint/floor.Paint, ours.Text/floor.Text)
		}
		fmt.Println()
	}
}

func startChromium(t *testing.T) context.Context {
	t.Helper()
	found, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found), chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(2*time.Minute))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// evaluate opens an address in a tab of its own and gives what a promise comes to.
func evaluate(t *testing.T, browser context.Context, url, promise string) string {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	defer cancel()
	if _, err := chromedp.Run(tab, chromedp.Navigate(url)); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	text, err := chromedp.Run(tab, chromedp.Evaluate[string](promise, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return text
}

func timePage(t *testing.T, browser context.Context, url, text string) timed {
	t.Helper()
	quoted, _ := json.Marshal(text)
	var out timed
	if err := json.Unmarshal([]byte(evaluate(t, browser, url, strings.Replace(when, "TEXT", string(quoted), 1))), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// serveSame answers with files from memory; the first is the page.
func serveSame(t *testing.T, files string) string {
	t.Helper()
	var list [][2]string
	if err := json.Unmarshal([]byte(files), &list); err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	for _, f := range list {
		by[f[0]] = f[1]
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, ok := by[req.URL.Path]
		if !ok {
			http.NotFound(w, req)
			return
		}
		kind := mime.TypeByExtension(path.Ext(req.URL.Path))
		if !strings.Contains(kind, "css") && !strings.Contains(kind, "javascript") {
			kind = "text/html; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL + list[0][0]
}
