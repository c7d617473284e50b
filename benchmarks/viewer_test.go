package benchmarks

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	pagesToTime = flag.String("pages", "", "file of pages to time in Chromium: name, address and a text that ends the wait, by tabs")
	enterFirst  = flag.String("enter", "", "address to open before them, such as the one with the token")
	rounds      = flag.Int("rounds", 3, "how often each page is timed, in turns")
	textWait    = flag.Duration("wait", 20*time.Second, "how long a page may take until its text is there")
)

// timed is when a page had something to see and what was waited for, in milliseconds
// after the browser began to ask; and what happened while it was scrolled.
type timed struct {
	Server float64 // until the last byte of the answer
	Paint  float64 // first contentful paint; -1 if there was none
	Text   float64 // until the text was there; -1 if it never was
	Bytes  float64
	Scroll scrolled
}

// scrolled is how frames came while a script scrolled through the page, in milliseconds.
type scrolled struct {
	Pixels float64
	P95    float64 // 95 of 100 frames came within this time after the one before
	Worst  float64 // the longest time between two frames
	Tasks  float64 // the longest task of the page's own programs; 0 if none took 50 ms
}

// when waits for a text, however the page makes it, then scrolls what can be scrolled
// by 120 pixels a frame for at most FRAMES, and gives the times.
const when = `new Promise((done) => {
  const begun = performance.now();
  let longest = 0;
  new PerformanceObserver((l) => { for (const e of l.getEntries()) longest = Math.max(longest, e.duration); }).observe({ type: "longtask" });
  const high = (e) => e.scrollHeight - e.clientHeight;
  const scrollable = () => [document.scrollingElement, ...document.querySelectorAll("*")]
    .filter((e) => high(e) > 200 && (e === document.scrollingElement || /auto|scroll/.test(getComputedStyle(e).overflowY)))
    .sort((a, b) => high(b) - high(a))[0];
  const scroll = (then) => {
    const box = scrollable(), gaps = [];
    if (!box || FRAMES === 0) return then({ Pixels: 0, P95: 0, Worst: 0, Tasks: 0 });
    let last = 0, from = box.scrollTop;
    longest = 0;
    const step = (now) => {
      if (last) gaps.push(now - last);
      last = now;
      const was = box.scrollTop;
      box.scrollTop += 120;
      if (gaps.length < FRAMES && box.scrollTop > was) return requestAnimationFrame(step);
      gaps.sort((a, b) => a - b);
      setTimeout(() => then({ Pixels: box.scrollTop - from, P95: gaps[Math.floor(gaps.length * 0.95)] ?? 0, Worst: gaps.at(-1) ?? 0, Tasks: longest }), 100);
    };
    requestAnimationFrame(step);
  };
  const look = () => {
    const there = document.body?.innerText.includes(TEXT);
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if ((!there || !paint) && performance.now() - begun < WAIT) return setTimeout(look, 10);
    const n = performance.getEntriesByType("navigation")[0];
    const out = { Server: n.responseEnd, Paint: paint?.startTime ?? -1, Text: there ? performance.now() : -1, Bytes: n.decodedBodySize };
    scroll((Scroll) => done(JSON.stringify({ ...out, Scroll })));
  };
  look();
})`

// files gives the page and what it loads, as its server sent them.
const filesOf = `Promise.all([location.href, ...[...document.querySelectorAll("link[rel=stylesheet], script[src]")].map((x) => x.href || x.src)]
  .map(async (u) => [new URL(u).pathname, await (await fetch(u)).text()])).then((all) => JSON.stringify(all))`

// A timedPage is a page and its times, one for each round.
type timedPage struct {
	name, url, text string
	times           []timed
	floor           *timedPage // the same bytes from memory; nil for what a program of the page makes
	frames          int        // that are scrolled
	failed          error      // what ended the last look
}

// TestPagesInABrowser prints how long pages take in Chromium, in turns, each beside a
// server that sends the same bytes from memory and does nothing else. A page that is not
// there in time is told, and left out of the turns. benchmarks/viewer_browser.sh calls it.
func TestPagesInABrowser(t *testing.T) {
	if *pagesToTime == "" {
		t.Skip("no -pages")
	}
	ctx := startChromium(t)
	pages := loadPages(t)
	if *enterFirst != "" {
		enter := &timedPage{name: "entering, the first page of all", url: *enterFirst, text: pages[0].text}
		enter.firstLook(ctx)
	}
	for _, p := range pages {
		p.firstLook(ctx)
		if p.failed == nil && *rounds > 0 && p.times[0].Bytes > 20_000 {
			p.floor = floorOf(t, ctx, p)
		}
		p.times = nil
	}
	for range *rounds {
		for _, p := range pages {
			p.time(ctx)
			if p.floor != nil {
				p.floor.time(ctx)
			}
		}
	}
	for _, p := range pages {
		if len(p.times) > 0 {
			fmt.Println(p.summary())
		}
	}
}

func loadPages(t *testing.T) (pages []*timedPage) {
	t.Helper()
	list, err := os.ReadFile(*pagesToTime)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		part := strings.Split(strings.TrimSpace(line), "\t")
		if len(part) != 3 {
			t.Fatalf("%q: expected a name, an address and a text", line)
		}
		pages = append(pages, &timedPage{name: part[0], url: part[1], text: part[2], frames: 150})
	}
	return pages
}

// firstLook is what a server has remembered nothing for.
func (p *timedPage) firstLook(ctx context.Context) {
	p.time(ctx)
	switch {
	case p.failed != nil:
		fmt.Printf("%s: the first look: %v\n", p.name, p.failed)
	case p.times[0].Text < 0:
		fmt.Printf("%s: the first look: first paint %.0f ms, “%.30s” was not there after %v\n", p.name, p.times[0].Paint, p.text, *textWait)
		p.failed = errNotThere
	default:
		x := p.times[0]
		fmt.Printf("%s: the first look: first paint %.0f ms, “%.30s” after %.0f ms, answer %.0f ms, %.0f bytes\n", p.name, x.Paint, p.text, x.Text, x.Server, x.Bytes)
	}
}

var errNotThere = errors.New("the text was not there in time")

func (p *timedPage) time(ctx context.Context) {
	if p.failed != nil {
		return
	}
	var x timed
	if x, p.failed = timePage(ctx, p.url, p.text, p.frames); p.failed == nil {
		p.times = append(p.times, x)
	}
}

// sorted are the times, the shortest first.
func (p *timedPage) sorted(of func(timed) float64) (all []float64) {
	for _, x := range p.times {
		all = append(all, of(x))
	}
	slices.Sort(all)
	return all
}

func (p *timedPage) best(of func(timed) float64) float64 { return p.sorted(of)[0] }

func (p *timedPage) median(of func(timed) float64) float64 { return p.sorted(of)[len(p.times)/2] }

func (p *timedPage) summary() string {
	paint, text := func(x timed) float64 { return x.Paint }, func(x timed) float64 { return x.Text }
	s := fmt.Sprintf("%s: best and median of %d: first paint %.0f and %.0f ms, text %.0f and %.0f ms", p.name, len(p.times), p.best(paint), p.median(paint), p.best(text), p.median(text))
	if f := p.floor; f != nil && len(f.times) > 0 {
		s += fmt.Sprintf("; of the same bytes from memory (first paint %.0f and %.0f ms) %.2f × and %.2f ×, text %.2f × and %.2f ×", f.best(paint), f.median(paint),
			p.best(paint)/f.best(paint), p.median(paint)/f.median(paint), p.best(text)/f.best(text), p.median(text)/f.median(text))
	}
	if px := p.median(func(x timed) float64 { return x.Scroll.Pixels }); px > 0 {
		s += fmt.Sprintf("; scrolled %.0f pixels: 95 of 100 frames within %.0f ms, the longest %.0f ms, longest task of a script %.0f ms (medians)", px,
			p.median(func(x timed) float64 { return x.Scroll.P95 }), p.median(func(x timed) float64 { return x.Scroll.Worst }), p.median(func(x timed) float64 { return x.Scroll.Tasks }))
	}
	if p.failed != nil {
		s += fmt.Sprintf("; then %v", p.failed)
	}
	return s
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

// evaluate opens an address in a tab of its own and gives what a promise comes to. A
// page that crashes or hangs is an error after a while.
func evaluate(browser context.Context, url, promise string) (string, error) {
	tab, cancel := chromedp.NewContext(browser)
	defer cancel()
	// The first Run makes the tab, which ends with the context that it is given.
	if _, err := chromedp.Run(tab, chromedp.Navigate("about:blank")); err != nil {
		return "", fmt.Errorf("%s: opening a tab: %w", url, err)
	}
	patience, cancel := context.WithTimeout(tab, *textWait+30*time.Second)
	defer cancel()
	if _, err := chromedp.Run(patience, chromedp.Navigate(url)); err != nil {
		return "", fmt.Errorf("%s did not load: %w", url, err)
	}
	text, err := chromedp.Run(patience, chromedp.Evaluate[string](promise, chromedp.EvalAwaitPromise))
	if err != nil {
		return "", fmt.Errorf("%s did not answer, or its tab crashed: %w", url, err)
	}
	return text, nil
}

func timePage(browser context.Context, url, text string, frames int) (out timed, err error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return out, err
	}
	answer, err := evaluate(browser, url, strings.NewReplacer("TEXT", string(quoted), "WAIT", fmt.Sprint(textWait.Milliseconds()), "FRAMES", fmt.Sprint(frames)).Replace(when))
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal([]byte(answer), &out)
}

// floorOf is the page from memory.
func floorOf(t *testing.T, browser context.Context, p *timedPage) *timedPage {
	t.Helper()
	files, err := evaluate(browser, p.url, filesOf)
	if err != nil {
		t.Fatal(err)
	}
	return &timedPage{url: serveSame(t, files), text: p.text}
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
