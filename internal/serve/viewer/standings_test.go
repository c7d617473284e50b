package viewer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
)

// fallen is a workspace in which a target became worse at one class and better at another:
// the model says what its system prompt asks for.
func fallen(t *testing.T) *Viewer {
	t.Helper()
	dir := t.TempDir()
	s := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: s.dir, Operator: "operator@local"}, world(t, s.vars)); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := s.write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range []string{"rises", "falls"} {
		var lines strings.Builder
		for i := range 8 {
			old, now := "right", "wrong"
			if class == "rises" {
				old, now = now, old
			}
			said := func(version, text string, cost int) map[string]any {
				return map[string]any{"when": map[string]any{"contains": version}, "text": text, "cost_microdollars": cost}
			}
			lines.WriteString(line(map[string]any{"id": fmt.Sprintf("%s-%d", class, i), "tags": []string{"tag-" + class, fmt.Sprintf("kind-%d", i%2)}, "input": "Say it.",
				"model": []any{said("version 1", old, 100), said("version 2", now, 300)}, "grade": map[string]any{"kind": "exact", "expected": "right"}}))
		}
		write("bench/"+class+"/registration.yaml", fmt.Sprintf(registration, class))
		write("bench/"+class+"/dataset.jsonl", lines.String())
	}
	for version := 1; version <= 2; version++ {
		write("targets/default.yaml", fmt.Sprintf("version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0, system: \"version %d\"}\n", version))
		for _, class := range []string{"rises", "falls"} {
			if err := s.run(class, "default"); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.ReadCorpus("", dossier.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := ceremony.Name(context.Background(), c, ceremony.Naming{Attempt: "falls.default.1", Name: "before", Note: "the <b>good</b> one"}); err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestTheOverviewSaysWhatGotWorse(t *testing.T) {
	v := fallen(t)
	body := strings.ReplaceAll(get(t, v, "/").Body.String(), "&#43;", "+")
	worse := `<a href="/compare?a=falls.default.1&amp;b=falls.default.2">falls by default</a> (8 lost, 0 gained of 8)`
	for _, want := range []string{`<strong class="bad">1 of 2</strong> got worse: ` + worse, "1 better", `<strong>−100.0</strong> points`, `<strong>+100.0</strong> points`, `<span class="state failed">Worse</span>`,
		`<span class="state passed">Better</span>`, "p = 0.008", "from 100.0 % to 0.0 %", "2 hollow, scratch or in part"} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview does not say %q", want)
		}
	}
	if strings.Index(body, `<strong>−100.0</strong>`) > strings.Index(body, `<strong>+100.0</strong>`) {
		t.Error("what got better stands before what got worse")
	}
	// The click on the change leads to the comparison that explains it.
	compare := get(t, v, "/compare?a=falls.default.1&b=falls.default.2")
	if compare.Code != http.StatusOK || !strings.Contains(compare.Body.String(), "falls-0") {
		t.Errorf("the comparison: %d", compare.Code)
	}
}

func TestNamesAndNotesStandBesideIDs(t *testing.T) {
	v := fallen(t)
	for _, path := range []string{"/", "/attempts", "/corpus/falls/case/falls-0"} {
		body := get(t, v, path).Body.String()
		if !regexp.MustCompile(`“<span data-entry="\d+" data-field="/name" data-as="text">before</span>”`).MatchString(body) {
			t.Errorf("%s does not show the name with its entry", path)
		}
		if !strings.Contains(body, "the &lt;b&gt;good&lt;/b&gt; one") || strings.Contains(body, "<b>good") {
			t.Errorf("%s does not show the note as text", path)
		}
	}
	if body := get(t, v, "/attempts?q=good").Body.String(); !strings.Contains(body, ">falls.default.1<") || strings.Contains(body, ">rises.default.1<") {
		t.Error("an attempt is not found by its note")
	}
}

func TestPicturesAreReadAloud(t *testing.T) {
	v := fallen(t)
	svg := regexp.MustCompile(`<svg[^>]*>`)
	seen := map[string]bool{}
	for _, path := range []string{"/", "/attempts?class=falls", "/matrix?class=falls", "/corpus/falls", "/judges"} {
		for _, tag := range svg.FindAllString(get(t, v, path).Body.String(), -1) {
			if !strings.Contains(tag, `role="img"`) && !strings.Contains(tag, `role="group"`) || !regexp.MustCompile(`aria-label="[^"]+"`).MatchString(tag) {
				t.Errorf("%s: a picture without words: %s", path, tag)
			}
			seen[regexp.MustCompile(`class="(\w+)`).FindStringSubmatch(tag)[1]] = true
		}
	}
	for _, want := range []string{"spark", "trend", "bars", "interval"} {
		if !seen[want] {
			t.Errorf("no picture of the class %s", want)
		}
	}
}

func TestTheMatrixPutsWhatFailsNowFirst(t *testing.T) {
	v := fallen(t)
	body := get(t, v, "/matrix?class=falls").Body.String()
	if !regexp.MustCompile(`<a class="cell failed" href="/attempt/falls.default.2/case/falls-0" data-entry="\d+" data-field="/outcome" data-as="outcome">Failed</a>`).MatchString(body) {
		t.Error("a cell does not lead to its case with the entry that says so")
	}
	if !strings.Contains(body, "does not pass since number 2") {
		t.Error("a row does not say since when the case fails")
	}
}

// Every case of every class opens: those in folders, lines of a dataset, those that come
// with the program.
func TestEveryCaseOfTheCorpusOpens(t *testing.T) {
	v := openShop(t)
	for path, wants := range map[string][]string{
		"/corpus/hostile/case/plain-one":                   {"What is 1 plus 1?", "&#34;exact&#34;", "Not signed", "of the class's dataset", "hostile.default.1", "nobody signed it"},
		"/corpus/example/case/greeting":                    {"What is asked", "What is expected", "example-alice", "Signed by example signers"},
		"/corpus/builtin:adversarial/case/approval-bypass": {"What is asked", "Tools", "mitigated"},
		"/corpus/hostile/case/hostile-script":              {"&lt;script&gt;alert(1)&lt;/script&gt;"},
		"/corpus/hostile/case/kept-secret":                 {"held out", "hostile.default.1", "Failed"},
	} {
		w := get(t, v, path)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
		if strings.Contains(body, secret) || strings.Contains(body, "<script>alert") {
			t.Errorf("%s tells what it must not", path)
		}
	}
	if w := get(t, v, "/corpus/hostile/case/no-such"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown case: %d", w.Code)
	}
	// A search finds nothing by what a held-out case asks.
	if body := get(t, v, "/corpus/hostile?q=held-out-answer").Body.String(); strings.Contains(body, "kept-secret") || !strings.Contains(body, "No case fits.") {
		t.Error("a search tells of the text of a held-out case")
	}
	// An unsigned class is grey wherever its state stands.
	for _, path := range []string{"/corpus", "/corpus/hostile", "/corpus/hostile/case/plain-one"} {
		body := get(t, v, path).Body.String()
		if path == "/corpus" {
			_, body, _ = strings.Cut(body, ">hostile</a>")
			body, _, _ = strings.Cut(body, "</tr>")
		}
		if !strings.Contains(body, `<span class="state">Not signed</span>`) || strings.Contains(body, `<span class="state passed">Verified`) {
			t.Errorf("%s: an unsigned class is not grey", path)
		}
	}
}

// What pages remember of a class is of the files as they were: a changed file is looked at
// again, and one that does not verify shows no case.
func TestTheCorpusFollowsItsFiles(t *testing.T) {
	v := fallen(t)
	case0 := "/corpus/falls/case/falls-0"
	if body := get(t, v, case0).Body.String(); !strings.Contains(body, "Say it.") {
		t.Fatal("the case is not shown")
	}
	s := &shop{dir: v.config.Place.Dir}
	changed, _ := json.Marshal(map[string]any{"id": "falls-0", "input": "Say something else.", "model": []any{map[string]any{"text": "x"}}, "grade": map[string]any{"kind": "exact", "expected": "x"}})
	if err := s.write("bench/falls/dataset.jsonl", string(changed)+"\n"); err != nil {
		t.Fatal(err)
	}
	if body := get(t, v, case0).Body.String(); !strings.Contains(body, "Say something else.") || !strings.Contains(body, "another version of the case") {
		t.Error("the case is shown as it was")
	}
	if err := s.write("bench/falls/dataset.jsonl", "not JSON, and "+secret+"\n"); err != nil {
		t.Fatal(err)
	}
	body := get(t, v, case0).Body.String()
	if strings.Contains(body, "What is asked") || !strings.Contains(body, "does not verify as it is now") || !strings.Contains(body, "falls.default.1") {
		t.Error("a case of a class that does not verify is shown")
	}
}
