package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exported writes the report of the attempt.
func exported(t *testing.T) (path, page, key string) {
	t.Helper()
	w := workspace(t)
	path = filepath.Join(t.TempDir(), "report.html")
	w.do(t, 0, "export", attempt, "--format", "html", "-o", path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data), w.key
}

const marked = `document.getElementById("mark").dataset.state && document.getElementById("mark").dataset.state !== "checking"`

func (b *tab) state() string {
	s, _ := b.js(`document.getElementById("mark").dataset.state ?? ""`).(string)
	return s
}

// give types a key into the page as a person does.
func (b *tab) give(key string) {
	b.t.Helper()
	b.js(`document.querySelector("#mark details").open = true`)
	b.js(`document.getElementById("key-given").focus()`)
	b.js(`document.getElementById("key-given").value = ` + quote(key))
	b.js(`document.querySelector(".key-form button").click()`)
}

func TestAReportChecksItselfAndIsGreenOnlyForATypedKey(t *testing.T) {
	path, _, key := exported(t)
	b := openFile(t, path)
	b.waitFor(marked)
	for _, want := range []string{"finds-it", "says-hello", "hostile-20", "has 18 of 18 planned records"} {
		if !strings.Contains(b.text("main"), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if b.state() != "unknown" {
		t.Fatalf("before a key was typed the mark says %s: %s", b.state(), b.text("#mark"))
	}
	b.picture("report")
	b.give("nonsense")
	if got := b.text("#key-problem"); !strings.Contains(got, "NAME+ID+KEY") {
		t.Errorf("not a key: %q", got)
	}
	b.give(key)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	b.js(`document.querySelectorAll("details").forEach(d => d.open = true)`)
	b.picture("report-verified")
	b.accessible()
	b.clean()
	if n := b.js(`document.querySelectorAll("#mark").length`); n != 1.0 {
		t.Errorf("the page has %v marks", n)
	}
	if got := b.text("main"); strings.Contains(got, "swordfish") || strings.Contains(got, "the secret of") || !strings.Contains(got, "the case is held out") {
		t.Error("the held-out case is not left out, or the page does not say so")
	}
	// Nothing that an agent said became an element.
	if n := b.js(`document.querySelectorAll("main script, main img, main svg:not(.shares), main svg.shares > :not(rect), main iframe, main a[href^=javascript], main style, main link, main base, main meta").length`); n != 0.0 {
		t.Errorf("%v elements of an agent's making", n)
	}
}

func TestAReportOfAnotherKeyIsRefused(t *testing.T) {
	path, _, _ := exported(t)
	b := openFile(t, path)
	b.waitFor(marked)
	b.give("example.com/evals+bfcc5eb5+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c")
	b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
	if got := b.text("#tallystick-alarm"); !strings.Contains(got, "signed by no key that was named") {
		t.Errorf("the banner says %q", got)
	}
	b.clean()
}

// forgeries are changes of a report that a forger could make who wants it to
// look better.
func forgeries(t *testing.T, page string) map[string]string {
	t.Helper()
	change := func(old, now string) string {
		if !strings.Contains(page, old) {
			t.Fatalf("the page does not contain %q", old)
		}
		return strings.Replace(page, old, now, 1)
	}
	return map[string]string{
		"a score":             change(`data-field="/score/score" data-as="number3">0.000<`, `data-field="/score/score" data-as="number3">1.000<`),
		"an outcome":          change(`data-as="outcome">Failed<`, `data-as="outcome">Passed<`),
		"a total":             change(`data-field="/mean_score" data-as="number3">`, `data-field="/mean_score" data-as="number3">1`),
		"a transcript":        change(`data-field="/payload/output/head" data-as="text">hello<`, `data-field="/payload/output/head" data-as="text">bye<`),
		"what was compared":   change(`data-field="/checks/0/extracted/head" data-as="text">hello<`, `data-field="/checks/0/extracted/head" data-as="text">bye<`),
		"an entry":            change(`\"outcome\":\"failed\"`, `\"outcome\":\"passed\"`),
		"evidence":            change(`\"head\":\"hello\"`, `\"head\":\"jello\"`),
		"an event left out":   change(`<li data-seq="2">`, `<li data-seq="3">`),
		"an entry of no case": change(`data-field="/mean_score"`, `data-entry="1" data-field="/attempt"`),
	}
}

func TestAForgedReportRaisesTheAlarm(t *testing.T) {
	_, page, key := exported(t)
	for name, forged := range forgeries(t, page) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "forged.html")
			if err := os.WriteFile(path, []byte(forged), 0o600); err != nil {
				t.Fatal(err)
			}
			b := openFile(t, path)
			b.waitFor(marked)
			if b.state() != "bad" || b.text("#tallystick-alarm") == "" {
				t.Errorf("the mark says %s: %s", b.state(), b.text("#mark"))
			}
			if b.js(`document.getElementById("key-given") !== null`) == true { // evidence that does not verify shows nothing
				b.give(key)
			}
			if b.state() != "bad" {
				t.Errorf("with the right key the mark says %s", b.state())
			}
			if name == "a score" {
				b.picture("report-forged")
				if got := b.text("#tallystick-alarm"); !strings.Contains(got, "shows “1.000”, signed is “0.000”") {
					t.Errorf("the banner does not say what differs: %q", got)
				}
			}
			b.clean()
			// The program sees it from outside, as does verify.html.
			workspace(t).do(t, 3, "verify", "--key", key, path)
		})
	}
}

// What the page's own script cannot notice, because it is words of ours or the script
// itself, the program does.
func TestAReportWithOtherWordsOrAnotherScriptIsRefusedFromOutside(t *testing.T) {
	_, page, key := exported(t)
	for name, forged := range map[string]string{
		"words":             strings.Replace(page, "<h2>Cases</h2>", "<h2>Cases</h2><p>All cases passed.</p>", 1),
		"a style":           strings.Replace(page, "<style>", "<style>.failed{display:none}", 1),
		"a script":          strings.Replace(page, `"use strict";`, `"use strict";document.title="x";`, 1),
		"an unmarked value": strings.Replace(page, ` data-field="/mean_score" data-as="number3">`, `>1.000 `, 1),
		"the end":           page + "<p>and more</p>",
	} {
		t.Run(name, func(t *testing.T) {
			if forged == page {
				t.Fatal("nothing was changed")
			}
			path := filepath.Join(t.TempDir(), "forged.html")
			if err := os.WriteFile(path, []byte(forged), 0o600); err != nil {
				t.Fatal(err)
			}
			workspace(t).do(t, 3, "verify", "--key", key, path)
		})
	}
}
