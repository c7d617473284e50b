package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	ours "tallystick/internal/share/browser"
)

// Green covers what is read: whatever a forger changes of a page that a reader sees, in
// the file or on the way, the page is not green. The edits are made from the page itself,
// so that a new word on it is tried without a new test.

// fewCases is a workspace whose pages are short: each of their texts is edited.
var fewCases = sync.OnceValues(func() (*world, error) {
	w, err := newWorld("init")
	if err != nil {
		return nil, err
	}
	dataset := jsonLine(object{"id": "finds-it", "input": "find it", "model": []object{{"text": "here <b>it</b> is"}}, "grade": object{"kind": "exact", "expected": "here <b>it</b> is"}}) +
		jsonLine(object{"id": "says-hello", "input": "hi", "model": []object{{"text": "hello"}}, "grade": object{"kind": "exact", "expected": "bye"}})
	if err := w.write(map[string]string{"bench/chat/registration.yaml": registration("chat"), "bench/chat/dataset.jsonl": dataset}); err != nil {
		return nil, err
	}
	if _, err := w.tally(4, "--workspace", w.dir, "run", "chat"); err != nil {
		return nil, err
	}
	return w, w.readKey(attempt)
})

func coverWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	w, err := fewCases()
	check(t, err)
	return w
}

// An edit is a change of one place of a page: from and to count UTF-16, as scripts do.
type edit struct {
	What     string
	From, To int
	Now      string
}

var (
	// pieces are a script or style with what is in it, a tag, or a text.
	pieces     = regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>|<[^>]*>|[^<]+`)
	attributes = regexp.MustCompile(` ([a-zA-Z-]+)="([^"]+)"`)
)

// editsOf are one edit of each text of a page, and of one attribute of each kind.
func editsOf(page string) []edit {
	var all []edit
	at := 0 // in UTF-16
	size := func(s string) int { return len(utf16.Encode([]rune(s))) }
	tried := map[string]int{}
	for _, piece := range pieces.FindAllString(page, -1) {
		from := at
		at += size(piece)
		switch {
		case strings.HasPrefix(piece, "<script") || strings.HasPrefix(piece, "<style") || strings.HasPrefix(piece, "<meta") || strings.HasPrefix(piece, "<!"):
		case strings.HasPrefix(piece, "<"):
			name, _, _ := strings.Cut(strings.Trim(piece, "</>"), " ")
			for _, m := range attributes.FindAllStringSubmatchIndex(piece, -1) {
				attribute, value := piece[m[2]:m[3]], piece[m[4]:m[5]]
				if kind := name + " " + attribute; tried[kind] < 1 {
					tried[kind]++
					begin := from + size(piece[:m[4]])
					all = append(all, edit{fmt.Sprintf("the attribute %s=%q", kind, value), begin, begin + size(value), value + "x"})
				}
			}
		case strings.TrimSpace(piece) != "":
			all = append(all, edit{fmt.Sprintf("the text %.60q", strings.TrimSpace(piece)), from, at, changed(piece)})
		}
	}
	return all
}

// changed is a text in which the first digit or letter is another.
func changed(text string) string {
	for i, r := range text {
		switch {
		case '0' <= r && r <= '8' || 'a' <= r && r <= 'y' || 'A' <= r && r <= 'Y':
			return text[:i] + string(r+1) + text[i+1:]
		case r == '&':
			return text[:i] + "x" + text[i:]
		}
	}
	return text + "9"
}

func (e edit) of(page string) string {
	units := utf16.Encode([]rune(page))
	return string(utf16.Decode(units[:e.From])) + e.Now + string(utf16.Decode(units[e.To:]))
}

// inFrames opens many pages in one: each in a frame, several at once. It gives the state
// of each mark, after a key was typed where a page asks for one.
const inFrames = `(async (sources, key) => {
  const pause = (ms) => new Promise((go) => setTimeout(go, ms));
  const states = new Array(sources.length);
  let next = 0;
  const settled = async (doc) => {
    for (let i = 0; i < 200; i++) {
      const state = doc()?.getElementById("mark")?.dataset.state;
      if (state && state !== "checking") return state;
      await pause(25);
    }
    return "none";
  };
  const one = async () => {
    while (next < sources.length) {
      const i = next++, frame = document.createElement("iframe");
      const loaded = new Promise((go) => frame.addEventListener("load", go, { once: true }));
      frame.width = 1000; frame.height = 3000;
      if (sources[i].src) frame.src = sources[i].src;
      else frame.srcdoc = sources[i].html;
      document.body.append(frame);
      await loaded;
      let state = await settled(() => frame.contentDocument);
      const input = frame.contentDocument?.getElementById("key-given");
      if (input && state !== "bad") {
        input.value = key;
        input.form.querySelector("button").click();
        for (let n = 0; n < 8 && state !== "bad"; n++) { // a check that goes on may still find something
          await pause(sources[i].src ? 60 : 1);
          state = await settled(() => frame.contentDocument);
        }
      }
      states[i] = state;
      frame.remove();
    }
  };
  await Promise.all([one(), one(), one(), one()]);
  return states;
})`

func (b *tab) states(sources any, key string) []string {
	b.t.Helper()
	data, err := json.Marshal(sources)
	check(b.t, err)
	var out []string
	for _, s := range b.js(inFrames + "(" + string(data) + ", " + quote(key) + ")").([]any) {
		out = append(out, s.(string))
	}
	return out
}

// framed are the states of pages that are given as text, after the honest one.
func (b *tab) framed(honest string, edits []edit, key string) []string {
	b.t.Helper()
	var states []string
	b.js(`(window.honest = ` + quote(honest) + `, true)`)
	for len(edits) > 0 {
		n := min(len(edits), 60)
		data, err := json.Marshal(edits[:n])
		check(b.t, err)
		found := b.js(inFrames + `(` + string(data) + `.map((e) => ({html: honest.slice(0, e.From) + e.Now + honest.slice(e.To)})), ` + quote(key) + `)`).([]any)
		for _, s := range found {
			states = append(states, s.(string))
		}
		edits = edits[n:]
	}
	return states
}

// never wants that the honest page is green, which comes first, and no other.
func never(t *testing.T, what string, edits []edit, states []string) {
	t.Helper()
	if len(states) != len(edits) || len(edits) < 20 {
		t.Fatalf("%s: %d states of %d edits", what, len(states), len(edits))
	}
	counts := map[string]int{}
	for i, state := range states {
		counts[state]++
		switch {
		case i == 0 && state != "good":
			t.Errorf("%s: the honest page is %s", what, state)
		case state == "none" && strings.Contains(edits[i].What, `id="mark"`): // there is no mark to be green
		case i > 0 && state != "bad" && state != "unclear" && state != "matched" && state != "unknown":
			t.Errorf("%s: %s was edited, and the mark is %s", what, edits[i].What, state)
		}
	}
	t.Logf("%s: %v", what, counts)
}

var unedited = edit{What: "nothing"}

// smallReport is a report of the small workspace.
func smallReport(t *testing.T) (*world, string) {
	t.Helper()
	w := coverWorld(t)
	path := filepath.Join(t.TempDir(), "report.html")
	w.do(t, 0, "export", attempt, "--format", "html", "-o", path)
	return w, readFile(t, path)
}

func TestNoEditOfAReportIsGreen(t *testing.T) {
	w, page := smallReport(t)
	edits := append([]edit{unedited}, editsOf(page)...)
	b := open(t, "about:blank")
	states := b.framed(page, edits, w.key)
	never(t, "the report", edits, states)
	for i, state := range states[1:] {
		if state != "bad" {
			t.Errorf("%s was edited, and the mark is %s", edits[i+1].What, state)
		}
	}

	// The same files, given to verify.html.
	v := openVerify(t, w.key)
	v.js(`(window.honest = ` + quote(page) + `, true)`)
	data, err := json.Marshal(edits)
	check(t, err)
	v.js(`(() => {
  const given = new DataTransfer();
  ` + string(data) + `.forEach((e, i) => given.items.add(new File([honest.slice(0, e.From) + e.Now + honest.slice(e.To)], "edit-" + i + ".html")));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
})()`)
	v.waitFor(fmt.Sprintf(`document.querySelectorAll("#results > li").length === %d`, len(edits)))
	found := make([]string, len(edits))
	for _, r := range v.js(`[...document.querySelectorAll("#results > li")].map((li) => [li.querySelector("h3").textContent, li.dataset.state])`).([]any) {
		pair := r.([]any)
		i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(pair[0].(string), "edit-"), ".html"))
		check(t, err)
		found[i] = pair[1].(string)
	}
	never(t, "verify.html", edits, found)
}

// spelling is a way to show another number that is not the edit of one text.
type spelling struct {
	name     string
	old, now string
}

// spellings of a better mean score in a page that has the value in a cell: cell is how
// the element begins.
func spellings(cell, value string) []spelling {
	was := cell + value
	return []spelling{
		{"plain text in place of the cell", `<dd>` + was + `</span>`, `<dd>1.000`},
		{"data-field elsewhere", was, strings.Replace(cell, `data-field="/mean_score"`, `data-field="/outcomes/passed"`, 1) + "1"},
		{"another format", was, strings.Replace(cell, `data-as="number3"`, `data-as="text"`, 1) + value},
		{"no data-field", was, strings.Replace(cell, "data-field", "data-was", 1) + "1.000"},
		{"a second cell of the same field", was, was + `</span>` + was},
		{"real hidden, fake shown", was, `1.000<span hidden>` + was + `</span>`},
		{"real in a closed details", was, `1.000<details><summary></summary>` + was + `</span></details><span>`},
		{"an element over the number", was, was + `</span><span style="position:relative;left:-3em">1.000`},
		{"a style", "</head>", "<style>dd>span{font-size:0}dd::before{content:'1.000'}</style></head>"},
		{"a style in the body", "</main>", "<style>dd{display:none}</style></main>"},
		{"a style sheet from elsewhere", "</head>", `<link rel="stylesheet" href="data:text/css,dd{display:none}"></head>`},
		{"an open shadow tree", `<h1>`, `<h1><template shadowrootmode="open">All passed</template>`},
		{"a closed shadow tree", `<h1>`, `<h1><template shadowrootmode="closed">All passed</template>`},
		{"a frame", "</main>", `<iframe srcdoc="1.000"></iframe></main>`},
		{"an object", "</main>", `<object data="data:text/html,1.000"></object></main>`},
		{"a picture", "</main>", `<img alt="mean score 1.000" src="data:image/gif;base64,R0lGODlhAQABAAAAACw="></main>`},
		{"a drawing", "</main>", `<svg width="90" height="20"><text y="15">1.000</text></svg></main>`},
		{"a script", "</main>", `<script>document.querySelector("dd").textContent = "1.000"</script></main>`},
		{"a handler", `<h1>`, `<h1 onclick="this.textContent='1.000'">`},
		{"an input", "</main>", `<input value="mean score 1.000"></main>`},
		{"a title", `<h1>`, `<h1 title="mean score 1.000">`},
		{"digits that look alike", was, cell + strings.Replace(value, "0", "\uff11", 1)},
		{"a Cyrillic letter", "Cases<", "C\u0430ses<"},
		{"a bidi control", was, cell + "\u202e" + value},
		{"a direction", `<h1>`, `<h1 dir="rtl">`},
		{"a space that cannot be seen", was, cell + "\u200b" + value},
		{"a comment", "</main>", "<!-- 1.000 --></main>"},
		{"words after the end", "</html>", "</html><p>All cases passed.</p>"},
		{"words before the page", "<!doctype html>", "<!doctype html><p>All cases passed.</p>"},
		{"without a doctype", "<!doctype html>", ""},
		{"a base", "<head>", `<head><base href="https://example.org/">`},
		{"another title", "<title>", "<title>All passed "},
		{"a mark of its own", "</main>", `<div id="mark" data-state="good"><strong class="verdict" data-state="good">✓ Verified with a key you gave</strong></div></main>`},
		{"a mark before the mark", `<main id="content">`, `<strong class="verdict" data-state="good">✓ Verified with a key you gave</strong><main id="content">`},
		{"no word of a signature", ` data-signed="`, ` data-was="`},
		{"hidden cases", `<tbody>`, `<tbody hidden>`},
		{"a case that is not shown", `<tr data-entry`, `<tr hidden data-entry`},
		{"an editable page", `<main id="content"`, `<main id="content" contenteditable`},
		{"another language, which changes quotes", `<html lang="en">`, `<html lang="de" style="zoom:0.5">`},
		{"a link elsewhere", `href="#content"`, `href="https://example.org/"`},
	}
}

const meanCell = `data-field="/mean_score" data-as="number3">`

// cellBefore is the beginning of the element that shows the mean score, and its text.
func cellBefore(t *testing.T, page string) (cell, value string) {
	t.Helper()
	at := strings.Index(page, meanCell)
	if at < 0 {
		t.Fatal("the page shows no mean score")
	}
	value, _, _ = strings.Cut(page[at+len(meanCell):], "<")
	return page[strings.LastIndex(page[:at], "<"):at] + meanCell, value
}

func spelled(t *testing.T, page string) (names []string, forged []string) {
	t.Helper()
	cell, value := cellBefore(t, page)
	for _, s := range spellings(cell, value) {
		if !strings.Contains(page, s.old) {
			if strings.HasPrefix(s.old, "<dd>") { // the cell stands elsewhere
				s.old, s.now = s.old[4:], s.now[4:]
			}
			if !strings.Contains(page, s.old) {
				continue
			}
		}
		names, forged = append(names, s.name), append(forged, s.of(page))
	}
	if len(names) < 30 {
		t.Fatalf("only %d spellings fit the page", len(names))
	}
	return names, forged
}

// of is a page in this spelling. The end of a page may stand in its script, too.
func (s spelling) of(page string) string {
	if s.old != "</html>" {
		return strings.Replace(page, s.old, s.now, 1)
	}
	at := strings.LastIndex(page, s.old)
	return page[:at] + s.now + page[at+len(s.old):]
}

func TestNoOtherSpellingOfAForgedReportIsGreen(t *testing.T) {
	w, page := smallReport(t)
	names, forged := spelled(t, page)
	b := open(t, "about:blank")
	var sources []map[string]string
	for _, html := range forged {
		sources = append(sources, map[string]string{"html": html})
	}
	for i, state := range b.states(sources, w.key) {
		if state != "bad" && state != "unclear" {
			t.Errorf("the report, %s: the mark is %s", names[i], state)
		}
	}
	v := openVerify(t, w.key)
	for i, html := range forged {
		if got := v.drop(write(t, "forged.html", html))[0]; got.State != "bad" && got.State != "unclear" {
			t.Errorf("verify.html, %s: %s", names[i], got.State)
		}
	}
}

// What is shown of a forged report is what the evidence says, and the banner says what the
// file showed: nobody has to find the forged word among honest ones.
func TestAForgedReportShowsWhatTheEvidenceSays(t *testing.T) {
	_, page := smallReport(t)
	cell, value := cellBefore(t, page)
	b := openFile(t, write(t, "forged.html", strings.Replace(page, cell+value+"</span>", `<em style="color:green">1.000</em>`, 1)))
	b.waitFor(marked)
	if b.state() != "bad" || !strings.Contains(b.text("#tallystick-alarm"), "1.000") {
		t.Errorf("%s: %s", b.state(), b.text("#tallystick-alarm"))
	}
	if got := b.text(".figures"); strings.Contains(got, "1.000") || !strings.Contains(got, value) {
		t.Errorf("the page shows %q", got)
	}
}

// A page that is changed after it was checked is looked at again.
func TestAReportThatIsChangedInTheBrowserIsNotGreen(t *testing.T) {
	w, page := smallReport(t)
	b := openFile(t, write(t, "report.html", page))
	b.waitFor(marked)
	b.give(w.key)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	b.js(`document.querySelectorAll("details").forEach((d) => (d.open = true))`) // a reader may
	found := b.js(`(async () => {
  const pause = () => new Promise((go) => setTimeout(go, 0));
  const state = () => document.getElementById("mark").dataset.state;
  const bad = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let tried = 0;
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.nodeValue.trim() && !walker.currentNode.parentElement.closest("#mark")) texts.push(walker.currentNode);
  for (const node of texts) {
    const was = node.nodeValue;
    node.nodeValue = was + "9";
    await pause();
    if (state() !== "bad") bad.push("not noticed: " + was);
    node.nodeValue = was;
    await pause();
    if (state() !== "good") { bad.push("not green again: " + was); break; }
    tried++;
  }
  return [tried, bad];
})()`).([]any)
	if tried, bad := found[0].(float64), found[1].([]any); tried < 50 || len(bad) > 0 {
		t.Errorf("%v texts were tried: %v", tried, bad)
	}
	b.js(`(document.querySelector("#mark .verdict").textContent = "✓ Verified by everybody")`)
	b.waitFor(`!document.getElementById("mark").textContent.includes("everybody")`)
	b.js(`document.getElementById("mark").remove()`)
	b.waitFor(`document.getElementById("mark")?.dataset.state`)
}

// Every word of verify.html itself: beside a changed one no result is green.
func TestNoEditOfVerifyPageIsGreen(t *testing.T) {
	w := coverWorld(t)
	page := string(ours.VerifyPage())
	proof := filepath.Join(t.TempDir(), "a.proof")
	w.do(t, 0, "export", "--format", "receipt", attempt, "-o", proof)
	edits := append([]edit{unedited}, editsOf(page)...)
	names, forged := []string{}, []string{}
	for _, s := range [][2]string{{"</main>", "<p>Verified</p></main>"}, {`<ol id="results" aria-live="polite">`, `<ol id="results" aria-live="polite"><li class="box result" data-state="good">✓ Verified with a key you gave</li>`}, {"<style>", "<style>.verdict{color:green}"}, {"</html>", "</html><p>more</p>"}, {"<h1>", `<h1><template shadowrootmode="closed">Proved</template>`}} {
		names, forged = append(names, s[1]), append(forged, spelling{"", s[0], s[1]}.of(page))
	}
	b := open(t, "about:blank")
	b.js(`(window.honest = ` + quote(page) + `, window.proof = ` + quote(readFile(t, proof)) + `, window.key = ` + quote(w.key) + `, true)`)
	const results = `(async (pages) => {
  const pause = (ms) => new Promise((go) => setTimeout(go, ms));
  const out = [];
  for (const html of pages) {
    const frame = document.createElement("iframe");
    const loaded = new Promise((go) => frame.addEventListener("load", go, { once: true }));
    frame.srcdoc = html;
    document.body.append(frame);
    await loaded;
    const doc = frame.contentDocument, view = frame.contentWindow;
    let state = "none";
    if (doc.documentElement.hasAttribute("data-ready") && doc.getElementById("keys")) {
      doc.getElementById("keys").value = key;
      const given = new DataTransfer();
      given.items.add(new File([proof], "a.proof"));
      doc.dispatchEvent(new view.DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
      for (let i = 0; i < 100 && !doc.querySelector("#results > li"); i++) await pause(5);
      await pause(0);
      state = doc.querySelector("#results > li")?.dataset.state ?? "none";
    }
    out.push(state);
    frame.remove();
  }
  return out;
})`
	var states []string
	for rest := edits; len(rest) > 0; {
		n := min(len(rest), 60)
		data, err := json.Marshal(rest[:n])
		check(t, err)
		for _, s := range b.js(results + `(` + string(data) + `.map((e) => honest.slice(0, e.From) + e.Now + honest.slice(e.To)))`).([]any) {
			states = append(states, s.(string))
		}
		rest = rest[n:]
	}
	never(t, "verify.html's own words", edits, states)
	data, err := json.Marshal(forged)
	check(t, err)
	for i, s := range b.js(results + `(` + string(data) + `)`).([]any) {
		if s != "bad" && s != "unclear" && s != "none" {
			t.Errorf("with %s a result is %v", names[i], s)
		}
	}
}

// editing sends the page with the edit that the address asks for, and everything else as
// it is: the honest page, too, to a script that asks for it.
type editing struct{}

func (editing) send(req *http.Request, page string) string {
	switch q := req.URL.Query(); {
	case q.Has("edit"):
		n, _ := strconv.Atoi(q.Get("edit"))
		all := append([]edit{unedited}, editsOf(page)...)
		if n < len(all) {
			return all[n].of(page)
		}
	case q.Has("spelling"):
		cell, value := "", ""
		if at := strings.Index(page, meanCell); at >= 0 {
			value, _, _ = strings.Cut(page[at+len(meanCell):], "<")
			cell = page[strings.LastIndex(page[:at], "<"):at] + meanCell
		}
		if n, _ := strconv.Atoi(q.Get("spelling")); n < len(spellings(cell, value)) {
			s := spellings(cell, value)[n]
			if !strings.Contains(page, s.old) && strings.HasPrefix(s.old, "<dd>") {
				s.old, s.now = s.old[4:], s.now[4:]
			}
			return s.of(page)
		}
	}
	return page
}

// tryAll opens a page with each edit and each spelling, in frames of a page of the site.
func (editing) tryAll(t *testing.T, b *tab, what, address, honest string, key string) {
	t.Helper()
	edits := append([]edit{unedited}, editsOf(honest)...)
	source := func(name string, n int) map[string]string {
		return map[string]string{"src": fmt.Sprintf("%s?%s=%d", address, name, n)}
	}
	var sources []map[string]string
	for i := range edits {
		sources = append(sources, source("edit", i))
	}
	never(t, what, edits, b.states(sources, key))
	cell, value := cellBefore(t, honest)
	var names []string
	sources = nil
	for i, s := range spellings(cell, value) {
		if strings.Contains(honest, strings.TrimPrefix(s.old, "<dd>")) {
			names, sources = append(names, s.name), append(sources, source("spelling", i))
		}
	}
	if len(names) < 30 {
		t.Fatalf("only %d spellings fit the page", len(names))
	}
	for i, state := range b.states(sources, key) {
		if state == "good" || state == "checking" || state == "computed" {
			t.Errorf("%s, %s: the mark is %s", what, names[i], state)
		}
	}
}

// frames is the page of a site in which its other pages are opened.
const frames = "<!doctype html><title>frames</title><body></body>"

// keepAssets lets the browser keep scripts and styles from one frame to the next.
func keepAssets(req *http.Request, header http.Header) {
	if strings.Contains(req.URL.Path, "/assets/") {
		header.Set("Cache-Control", "max-age=3600")
	}
}

func TestNoEditOfASiteOfFilesIsGreen(t *testing.T) {
	w := coverWorld(t)
	top := t.TempDir()
	w.do(t, 0, "view", "--bundle", filepath.Join(top, "evals"))
	e := editing{}
	files := http.FileServer(http.Dir(top))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/frames" {
			rw.Write([]byte(frames))
			return
		}
		if req.URL.RawQuery == "" {
			keepAssets(req, rw.Header())
			files.ServeHTTP(rw, req)
			return
		}
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(req.URL.Path), "index.html"))
		if err != nil {
			t.Error(err)
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Write([]byte(e.send(req, string(data))))
	}))
	t.Cleanup(server.Close)
	b := open(t, server.URL+"/frames")
	page := filepath.Join(top, "evals", "attempt", attempt, "index.html")
	e.tryAll(t, b, "the site", server.URL+"/evals/attempt/"+attempt+"/", readFile(t, page), w.key)
	// A file that is changed where it lies is another than the list has.
	check(t, os.WriteFile(page, []byte(strings.Replace(readFile(t, page), "Mean score", "Mean  score", 1)), 0o644))
	b.goTo(server.URL + "/evals/attempt/" + attempt + "/")
	b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
	if got := b.text("#tallystick-alarm"); !strings.Contains(got, "is not the file that was signed") {
		t.Errorf("the banner says %q", got)
	}
}

func TestNoEditOfAServedPageIsGreen(t *testing.T) {
	w := coverWorld(t)
	e := editing{}
	honestPage := ""
	url := w.serveOn(t, "elsewhere", func(req *http.Request, answer *httptest.ResponseRecorder) []byte {
		answer.Header().Del("Content-Security-Policy") // frames, for the test
		answer.Header().Del("X-Frame-Options")
		keepAssets(req, answer.Header())
		body := answer.Body.String()
		if req.URL.Path == "/frames" {
			return []byte(frames)
		}
		if req.URL.Path == "/attempt/"+attempt {
			if req.URL.RawQuery == "" {
				honestPage = body
			}
			body = e.send(req, body)
		}
		return []byte(body)
	})
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, "/attempt/"+attempt)
	b.waitFor(marked)
	b.goTo(base + "/frames")
	e.tryAll(t, b, "the served page", base+"/attempt/"+attempt, honestPage, w.key)
}

// On the machine that made the key its owner need not type it; with the workspace alone,
// on another machine, the key is as foreign as the workspace.
func TestOnlyTheMachineThatMadeTheKeyTrustsIt(t *testing.T) {
	w := coverWorld(t)
	asIs := func(_ *http.Request, answer *httptest.ResponseRecorder) []byte { return answer.Body.Bytes() }
	for state, want := range map[string]string{"state": "good", "elsewhere": "unknown"} {
		url := w.serveOn(t, state, asIs)
		b := visit(t, url, "/attempt/"+attempt)
		b.waitFor(marked)
		if b.state() != want {
			t.Errorf("with the state folder %s: %s: %s", state, b.state(), b.text("#mark"))
		}
		if want == "good" && !strings.Contains(b.text("#mark"), "the key of this machine; no signer vouches for the bench") {
			t.Errorf("the mark says %s", b.text("#mark"))
		}
		if want == "good" { // what a reader does to a page leaves it green
			b.press("j")
			b.press("?")
			b.waitFor(`document.getElementById("keys")`)
			b.js(`new Promise((go) => setTimeout(go, 300))`)
			if b.state() != "good" || b.text("#tallystick-alarm") != "" {
				t.Errorf("after j and ?: %s %s", b.state(), b.text("#tallystick-alarm"))
			}
		}
		b.clean()
	}
	// The word of a server that is not on this machine does not count, nor that of files.
	dir := filepath.Join(t.TempDir(), "site")
	w.do(t, 0, "view", "--bundle", dir)
	keys := filepath.Join(dir, "keys")
	check(t, os.WriteFile(keys, []byte(strings.Replace(readFile(t, keys), `{"keys"`, `{"own":[`+quote(w.key)+`],"keys"`, 1)), 0o644))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	b := open(t, server.URL+"/attempt/"+attempt+"/")
	b.waitFor(marked)
	if b.state() == "good" {
		t.Errorf("files that say a key is this machine's are green: %s", b.text("#mark"))
	}
}
