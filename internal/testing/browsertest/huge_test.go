package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// huge are texts of ten megabytes, each of one line, that an agent leaves as a file and
// prints as far as answers may go.
var huge = map[string]string{
	"one-line":  "A",
	"markdown":  "> **[![<details>](http://example.org/`",
	"bidi":      "\u202eabc\u2066\u200b\u2069",
	"terminal":  "\x1b[31m\x1b]0;title\a\x1b[2J",
	"nested":    "<div><script>window.pwned=10</script><svg onload=window.pwned=11>",
	"combining": "a\u0301\u0302\u0303\u0304",
}

const tenMegabytes = 10 << 20

// hose is an agent that writes a text of its case again and again, ten megabytes into a
// file and nearly four, which is what an answer may have, as its answer.
const hose = `LC_ALL=C awk -v piece="$(cat piece.txt)" 'BEGIN {
	while (length(chunk) < 4096) chunk = chunk piece
	for (i = 0; i < 2560; i++) { printf "%s", chunk > "big.txt"; if (i < 900) printf "%s", chunk }
}'
`

func TestTextsOfTenMegabytesAreCutAndGivenWhole(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	w, err := newWorld("init")
	check(t, err)
	var dataset strings.Builder
	for name, piece := range huge {
		dataset.WriteString(jsonLine(object{"id": name, "input": "go on", "files": object{"piece.txt": piece}, "grade": object{"kind": "exact", "expected": "enough"}}))
	}
	w.imported = []string{filepath.Join(w.home, "imported.json")}
	check(t, w.write(map[string]string{
		"bench/huge/registration.yaml": registration("huge"),
		"bench/huge/dataset.jsonl":     dataset.String(),
		"targets/hose.yaml":            "version: 1\nkind: command\ncommand: {command: [sh, /agent/hose.sh], source: hose.sh}\n",
		"hose.sh":                      hose,
	}))
	check(t, os.MkdirAll(w.home, 0o755))
	check(t, os.WriteFile(w.imported[0], []byte(strings.Replace(promptfoo, `"output":"b"`, `"output":"`+strings.Repeat("B", tenMegabytes)+`"`, 1)), 0o644))
	w.do(t, 4, "run", "huge", "--target", "hose", "--sandbox", "none")

	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	pages := []string{"/imported/1", "/attempt/huge.hose.1", "/matrix"}
	for name := range huge {
		pages = append(pages, "/attempt/huge.hose.1/case/"+name, "/attempt/huge.hose.1/case/"+name+"/evidence")
	}
	for _, path := range pages {
		b.goTo(base + path)
		b.waitFor(marked)
		b.clean()
		size := b.js(`performance.getEntriesByType("navigation")[0].decodedBodySize`).(float64)
		longest := b.js(`Math.max(...[...document.querySelectorAll("main *")].filter((x) => x.children.length === 0).map((x) => x.textContent.length))`).(float64)
		t.Logf("%s: %.0f bytes, longest text %.0f, first contentful paint after %v ms", path, size, longest, b.js(`Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime)`))
		if size > 1<<20 || longest > 90_000 {
			t.Errorf("%s: %.0f bytes, a text of %.0f characters", path, size, longest)
		}
		if state := b.state(); state == "bad" {
			t.Errorf("%s: %s", path, b.text("#tallystick-alarm"))
		}
		if n := b.js(`document.querySelectorAll("main script, main style, main iframe, main svg[onload]").length`); n != 0.0 {
			t.Errorf("%s: a text became %v elements", path, n)
		}
	}
	// What is cut is said, and the whole is one link away.
	for name, piece := range huge {
		var links []any
		for _, tab := range []string{"", "/evidence"} {
			b.goTo(base + "/attempt/huge.hose.1/case/" + name + tab)
			b.waitFor(marked)
			links = append(links, b.js(`[...document.querySelectorAll("main p a, main .diff + p a")].filter((a) => a.textContent.startsWith("The whole ")).map((a) => a.parentElement.textContent.slice(0, 60) + "|" + a.href)`).([]any)...)
		}
		if len(links) < 2 { // of the diff, and of the answer in the transcript or what was compared
			t.Errorf("%s: what was cut is not linked: %v", name, links)
		}
		for _, l := range links {
			says, href, _ := strings.Cut(l.(string), "|")
			if !strings.HasPrefix(says, "Cut: ") {
				t.Errorf("%s: %q", name, says)
			}
			got := b.js(`fetch(` + quote(href) + `).then(async (r) => [r.status, r.headers.get("content-type"), r.headers.get("content-security-policy"), (await r.text()).length])`).([]any)
			if got[0] != 200.0 || got[1] != "text/plain; charset=utf-8" || !strings.Contains(got[2].(string), "sandbox") || got[3].(float64) < 1_000_000 {
				t.Errorf("%s: %s gives %v", name, href, got)
			}
		}
		file := b.js(`fetch([...document.querySelectorAll("main th a")].find((a) => a.textContent === "big.txt").href).then(async (r) => { const s = await r.text(); return [s.length, s.slice(0, 200)]; })`).([]any)
		if file[0].(float64) < 3_000_000 || !strings.HasPrefix(file[1].(string), piece) {
			t.Errorf("%s: the file is given as %v", name, file)
		}
	}
	b.goTo(base + "/imported/1")
	if got := b.text("main"); !strings.Contains(got, "cut: the beginning of 10.0 MB") {
		t.Error("the imported page does not say that an answer is cut")
	}
}
