package browsertest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"tallystick/internal/run/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Reexec() // the test binary stands for tally, which starts itself again
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

var stopBrowser = func() {}

// browser is one Chromium for all tests, started when it is first needed.
var browser = sync.OnceValue(func() context.Context {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(2*time.Minute))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own, which root cannot have
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	first, cancel := chromedp.NewContext(allocator)
	if _, err := chromedp.Run(first, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil
	}
	before := stopBrowser
	stopBrowser = func() { cancel(); stop(); before() }
	return first
})

// A tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// watch notes what the page's own script throws and what its policy refuses.
const watch = `window.noted = [];
addEventListener("error", (e) => noted.push("threw: " + e.message));
addEventListener("unhandledrejection", (e) => noted.push("threw: " + e.reason));
addEventListener("securitypolicyviolation", (e) => noted.push("the policy refused " + e.blockedURI + " " + e.violatedDirective));`

func open(t *testing.T, url string) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	if browser() == nil {
		t.Skip("Chromium is not installed or does not start: no page is looked at; .ci/setup installs it")
	}
	ctx, cancel := chromedp.NewContext(browser())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	b.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}))
	b.run(chromedp.Navigate(url))
	return b
}

// call is a command of the protocol whose answer is not needed.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// goTo goes to another page in the same tab.
func (b *tab) goTo(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
}

// openFile opens a file as a person does who double-clicks it.
func openFile(t *testing.T, path string) *tab {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, "file://"+absolute)
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		if _, err := chromedp.Run(b.ctx, action); err != nil {
			b.t.Fatal(err)
		}
	}
}

// js evaluates an expression; of a promise it gives what that comes to.
func (b *tab) js(expression string) any {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then((x) => JSON.stringify(x ?? null))", chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	quoted, _ := json.Marshal(selector)
	s, _ := b.js(`document.querySelector(` + string(quoted) + `)?.textContent ?? ""`).(string)
	return strings.Join(strings.Fields(s), " ")
}

// waitFor waits until an expression is true.
func (b *tab) waitFor(expression string) {
	b.t.Helper()
	for range 2400 { // two minutes: machines that test are slow
		if done, _ := b.js("Boolean(" + expression + ")").(bool); done {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.t.Fatalf("never true: %s\nthe page says: %.2000s", expression, b.text("body"))
}

// clean wants that nothing ran that is not ours, and that ours did not fail.
func (b *tab) clean() {
	b.t.Helper()
	if ran := b.js("window.pwned ?? window.parent?.pwned ?? null"); ran != nil {
		b.t.Errorf("a script ran that an agent wrote: %v", ran)
	}
	if noted, _ := b.js("window.noted").([]any); len(noted) > 0 {
		b.t.Errorf("the page: %v", noted)
	}
}

// press presses a key, as a person does.
func (b *tab) press(key string) {
	b.t.Helper()
	quoted, _ := json.Marshal(key)
	b.js(`(document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", {key: ` + string(quoted) + `, bubbles: true, cancelable: true}))`)
}

// look sets how the page is looked at.
func (b *tab) look(scheme string, width, height int64) {
	b.t.Helper()
	b.run(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}))
}

// picture keeps screenshots of the whole page, if they are asked for.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("TALLY_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for _, look := range []struct {
		name, scheme  string
		width, height int64
	}{{"light", "light", 1280, 900}, {"dark", "dark", 1280, 900}, {"phone", "light", 390, 844}} {
		b.look(look.scheme, look.width, look.height)
		all, _ := b.js("document.documentElement.scrollHeight").(float64)
		b.look(look.scheme, look.width, min(max(int64(all), look.height), 8000))
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+look.name+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	b.look("light", 1280, 900)
}

// axeVersion is the release of axe-core that .ci/setup fetches.
const axeVersion = "4.14.0"

// accessible asks axe-core for what keeps people out.
func (b *tab) accessible() {
	b.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		b.t.Log("no cache folder, so axe-core was not asked")
		return
	}
	source, err := os.ReadFile(filepath.Join(cache, "tallystick", "axe-core-"+axeVersion, "package", "axe.min.js"))
	if err != nil {
		b.t.Logf("axe-core %s is not there (.ci/setup fetches it), so it was not asked", axeVersion)
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		b.look(scheme, 1280, 900)
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](string(source)+"; true")); err != nil {
			b.t.Fatal(err)
		}
		data, err := json.Marshal(b.js(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Where: v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.html.slice(0, 200)).join(" | ")})))`))
		if err != nil {
			b.t.Fatal(err)
		}
		var found []struct{ ID, Impact, Help, Where string }
		if err := json.Unmarshal(data, &found); err != nil {
			b.t.Fatal(err)
		}
		for _, v := range found {
			b.t.Errorf("%s: axe %s (%s): %s: %s", scheme, v.ID, v.Impact, v.Help, v.Where)
		}
	}
	b.look("light", 1280, 900)
}
