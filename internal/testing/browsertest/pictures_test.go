package browsertest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "make the pictures of docs/viewer.md again")

const (
	pictureDir = "../../../docs/images"
	maxPicture = 60 << 10
)

// A shot is a picture of the documentation.
type shot struct {
	file, path    string
	scheme        string
	width, height int64
}

var shots = []shot{
	{"viewer-overview.webp", "/", "light", 1100, 760},
	{"viewer-attempt.webp", "/attempt/" + signed, "light", 1100, 760},
	{"viewer-beside.webp", "/attempt/" + signed + "?show=refund-by-injection#split", "dark", 1100, 760},
	{"viewer-case.webp", "/attempt/" + signed + "/case/refund-by-injection", "dark", 1100, 900},
	{"viewer-compare.webp", "/compare?a=builtin%2Badversarial.mitigated.1&b=builtin%2Badversarial.vulnerable.2", "light", 1100, 760},
	{"viewer-forged.webp", "/attempt/" + signed, "light", 1100, 420},
	{"viewer-phone.webp", "/matrix?class=builtin:adversarial", "light", 390, 760},
}

// TestPicturesOfTheDocumentation makes the pictures with -update. Without it, it wants
// that they are there, are small, and stand in docs/viewer.md.
func TestPicturesOfTheDocumentation(t *testing.T) {
	if *update {
		takePictures(t)
	}
	doc, err := os.ReadFile("../../../docs/viewer.md")
	check(t, err)
	for _, s := range shots {
		data, err := os.ReadFile(filepath.Join(pictureDir, s.file))
		check(t, err)
		if len(data) > maxPicture || !strings.HasPrefix(string(data), "RIFF") {
			t.Errorf("%s has %d bytes, expected WebP of at most %d", s.file, len(data), maxPicture)
		}
		if !strings.Contains(string(doc), "](images/"+s.file+")") {
			t.Errorf("docs/viewer.md does not show %s", s.file)
		}
	}
	there, err := filepath.Glob(filepath.Join(pictureDir, "viewer-*"))
	check(t, err)
	if len(there) != len(shots) {
		t.Errorf("%d pictures are made, %d are there: %v", len(shots), len(there), there)
	}
}

func takePictures(t *testing.T) {
	t.Helper()
	w := theShowroom(t)
	check(t, os.MkdirAll(pictureDir, 0o755))
	honestURL := w.serve(t, honest)
	forgedURL := w.serve(t, func(path string, body []byte) []byte {
		return []byte(strings.Replace(string(body), `data-as="solved1">80.0 %`, `data-as="solved1">100.0 %`, 1))
	})
	for _, s := range shots {
		url, want := honestURL, `document.getElementById("mark")?.dataset.state === "good"`
		if s.file == "viewer-forged.webp" {
			url, want = forgedURL, `document.getElementById("mark")?.dataset.state === "bad"`
		}
		b := open(t, url)
		base, _, _ := strings.Cut(url, "/?")
		origin, _, _ := strings.Cut(w.key, "+")
		b.js(`localStorage.setItem(` + quote("tallystick-keys "+origin) + `, ` + quote(w.key) + `)`)
		b.look(s.scheme, s.width, s.height)
		b.goTo(base + s.path)
		b.waitFor(want + ` || document.getElementById("mark")?.dataset.state === "computed"`)
		check(t, os.WriteFile(filepath.Join(pictureDir, s.file), b.small(), 0o644))
	}
}

// small is a picture of what the tab shows, small enough for a repository.
func (b *tab) small() []byte {
	b.t.Helper()
	quality := int64(55)
	data, err := chromedp.Run(b.ctx, chromedp.Action[[]byte](func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	}))
	check(b.t, err)
	return data
}

// Everything that is in the showroom, light, dark and on a phone, for who looks at it.
func TestThePagesOfTheShowroomAreFitForPeople(t *testing.T) {
	w := theShowroom(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	for name, path := range map[string]string{
		"overview": "/", "attempts": "/attempts", "attempt": "/attempt/" + signed, "beside": "/attempt/" + signed + "?show=refund-by-injection", "groups": "/attempt/" + after + "?group=tool&cols=input&cols=tags&cols=tools&sort=-cost", "case": "/attempt/" + signed + "/case/refund-by-injection", "desk": deskCase, "files": "/attempt/" + after + "/case/writes-a-label",
		"matrix": "/matrix?class=desk", "compare": "/compare?a=builtin%2Badversarial.mitigated.1&b=builtin%2Badversarial.vulnerable.2&case=approval-bypass", "apart": "/compare?a=" + before + "&b=" + after,
		"golden": "/golden/desk/default/order-late", "corpus": "/corpus/refunds", "promotion": "/promotion/refunds", "audit": "/audit/" + signed, "entry": "/ledger/0", "fleet": "/fleet", "judges": "/judges", "classes": "/corpus", "ledger": "/ledger", "imported": "/imported/1", "nowhere": "/nowhere",
	} {
		check(t, w.runsAFleet()) // one that was silent for long is shown otherwise
		b.goTo(base + path)
		b.waitFor(marked)
		if state := b.state(); state == "bad" || state == "unclear" {
			t.Errorf("%s: %s %s", path, b.text("#mark"), b.text("#tallystick-alarm"))
		}
		b.accessible()
		b.clean()
		b.picture("showroom-" + name)
		b.look("light", 390, 844)
		if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
			t.Errorf("%s is wider than a phone", path)
		}
		for _, width := range []int64{390, 640, 820, 1280} {
			b.look("light", width, 900)
			if broken, _ := b.js(brokenWords).([]any); len(broken) > 0 {
				t.Errorf("%s, %d pixels wide: these are broken over two lines: %v", path, width, broken)
			}
		}
	}
}

// brokenWords are the numbers and ids of a page that a line ends inside of, between two
// of their letters, digits or dots. What is wider than its place, as digests are, may be.
const brokenWords = `(() => {
	const found = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const range = document.createRange();
	while (walk.nextNode()) {
		const node = walk.currentNode;
		if (!node.parentElement.checkVisibility() || node.parentElement.closest("script, style, noscript, svg, pre")) continue;
		for (const m of node.data.matchAll(/[\w.~+$%]*\d[\w.~+$%]*/g)) {
			const end = m.index + m[0].length;
			const whole = node.data.slice(0, end).match(/\S+$/)[0].length + node.data.slice(end).match(/^\S*/)[0].length;
			if (m[0].length < 2 || whole > 40) continue; // a part of a key or a digest
			range.setStart(node, m.index);
			range.setEnd(node, m.index + m[0].length);
			const parts = [...range.getClientRects()].filter((r) => r.width > 0);
			let block = node.parentElement;
			while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
			const wide = parts.reduce((sum, r) => sum + r.width, 0);
			if (new Set(parts.map((r) => Math.round(r.top))).size > 1 && wide <= block.clientWidth) found.push(m[0]);
		}
	}
	return found;
})()`
