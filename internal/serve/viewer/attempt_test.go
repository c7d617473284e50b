package viewer

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/survey"
)

// surveyed waits for the survey of an attempt.
func surveyed(t *testing.T, v *Viewer, id string) *surveying {
	t.Helper()
	a := v.r.History.Attempt(id)
	s := v.surveyOf(a)
	if s == nil {
		t.Fatalf("there is no survey of %s", id)
	}
	<-s.ended
	if s.done.Load() == nil {
		t.Fatalf("the survey of %s was given up", id)
	}
	return s
}

func TestTranscriptsAreSearched(t *testing.T) {
	v := openShop(t)
	const at = "/attempt/hostile.default.1"
	surveyed(t, v, "hostile.default.1")
	for _, tt := range []struct{ q, has, hasNot string }{
		{"what is 1 PLUS 1", ">plain-one<", ">hostile-svg<"},
		{"svg onload=alert(2)", ">hostile-svg<", ">plain-one<"},
		{"hostile-b", ">hostile-bidi<", ">plain-one<"}, // an id
		{"nobody said this", "No case fits", ">plain-one<"},
		{secret, "No case fits", ">kept-secret<"},
		{"held-out-answer", "No case fits", ">kept-secret<"},
	} {
		body := get(t, v, at+"?q="+url.QueryEscape(tt.q)).Body.String()
		if !strings.Contains(body, tt.has) || strings.Contains(body, tt.hasNot) {
			t.Errorf("%q: has %q: %v, has %q: %v", tt.q, tt.has, strings.Contains(body, tt.has), tt.hasNot, strings.Contains(body, tt.hasNot))
		}
	}
}

// A case that was not held out when it ran, and whose texts were read, is not found by
// them once it is.
func TestWhatIsHeldOutLaterIsNotFound(t *testing.T) {
	v := openShop(t)
	s := surveyed(t, v, "hostile.default.1").done.Load()
	a := v.r.History.Attempt("hostile.default.1")
	f := caseFilter{Text: "what is 1 plus 1"}
	if got := f.choose(a, func(*history.Case) bool { return false }, s); len(got) != 1 {
		t.Fatalf("%d cases are found, expected 1", len(got))
	}
	if got := f.choose(a, func(c *history.Case) bool { return c.ID == "plain-one" }, s); len(got) != 0 {
		t.Errorf("a held-out case is found by its texts")
	}
	if got := (caseFilter{Text: "plain-one"}).choose(a, func(*history.Case) bool { return true }, s); len(got) != 1 {
		t.Errorf("a held-out case is not found by its id")
	}
}

func TestUntilTranscriptsAreReadThePageSaysSo(t *testing.T) {
	v := openShop(t)
	a := v.r.History.Attempt("hostile.default.1")
	v.surveys.turn.Lock() // as if another were made
	s := v.surveyOf(a)
	body := get(t, v, "/attempt/hostile.default.1?q=nobody+said+this").Body.String()
	if !strings.Contains(body, "The transcripts are being read: 0.0 %") || !strings.Contains(body, "this list is not whole") {
		t.Error("the page does not say that the search is not whole")
	}
	v.surveys.turn.Unlock()
	<-s.ended
	if body := get(t, v, "/attempt/hostile.default.1?q=nobody+said+this").Body.String(); strings.Contains(body, "being read") {
		t.Error("the page says that the search is not whole, and it is")
	}
}

func TestRowsTellWhatWasWrong(t *testing.T) {
	v := openShop(t)
	body := get(t, v, "/attempt/hostile.default.1").Body.String()
	for _, want := range []string{`What is 1 plus 1?`, `data-field="/checks/0/extracted/head"`, `data-field="/checks/0/expected/head"`, `data-grading="/attempt/hostile.default.1/case/plain-one/piece/blake3:`, "nothing of the kind"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	row := regexp.MustCompile(`(?s)<tr data-row[^>]*>(?:[^<]|<[^t]|<t[^r])*kept-secret.*?</tr>`).FindString(body)
	if row == "" || strings.Contains(row, "data-grading") || strings.Contains(row, "data-field=\"/checks") {
		t.Errorf("the row of the held-out case: %s", row)
	}
}

func TestColumnsAreChosenAndOrdered(t *testing.T) {
	v := openShop(t)
	const at = "/attempt/hostile.default.1"
	body := get(t, v, at+"?cols=tokens&cols=took&sort=tokens").Body.String()
	head, _, _ := strings.Cut(body, "</thead>")
	for want, is := range map[string]bool{">Tokens": true, ">Took": true, ">Answer<": false, `aria-sort="descending"`: true, `href="?cols=tokens&amp;cols=took&amp;sort=-tokens#cases"`: true} {
		if strings.Contains(head, want) != is {
			t.Errorf("%s: %v, expected %v", want, !is, is)
		}
	}
	up, down := get(t, v, at+"?sort=case").Body.String(), get(t, v, at+"?sort=-case").Body.String()
	first := func(body string) string {
		return regexp.MustCompile(`data-field="/case_id" data-as="text">([^<]*)<`).FindStringSubmatch(body)[1]
	}
	if first(up) != "hostile-bidi" || first(down) != "plain-one" {
		t.Errorf("in order the first is %s, the other way round %s", first(up), first(down))
	}
}

func TestCasesAreGrouped(t *testing.T) {
	v := openShop(t)
	surveyed(t, v, "builtin+adversarial.vulnerable.2")
	for _, tt := range []struct{ path, want string }{
		{"/attempt/hostile.default.1?group=tag", `<tr class="group"><th colspan="7" scope="colgroup">svg <span class="soft">1 case, 1 not passed</span>`},
		{"/attempt/hostile.default.1?group=tag", `scope="colgroup">no tag <span`},
		{"/attempt/builtin%2Badversarial.vulnerable.2?group=tool", `<tr class="group">`},
		{"/attempt/builtin%2Badversarial.vulnerable.2", `id="by-tool"`},
	} {
		if body := get(t, v, tt.path).Body.String(); !strings.Contains(body, tt.want) {
			t.Errorf("%s: no %s", tt.path, tt.want)
		}
	}
	a := v.r.History.Attempt("builtin+adversarial.vulnerable.2")
	s := v.surveyOf(a).done.Load()
	groups := v.groupsOf(a, groupingOf("tool"), s)
	if len(groups) == 0 {
		t.Fatal("no tool was called")
	}
	got := (caseFilter{Tool: groups[0].Label}).choose(a, func(*history.Case) bool { return false }, s)
	if len(got) != groups[0].N {
		t.Errorf("%d cases called %s, the group says %d", len(got), groups[0].Label, groups[0].N)
	}
}

func TestACaseStandsBesideTheList(t *testing.T) {
	v := openShop(t)
	const at = "/attempt/hostile.default.1"
	body := get(t, v, at+"?state=failing&sort=case&show=hostile-close").Body.String()
	own := get(t, v, at+"/case/hostile-close").Body.String()
	for _, want := range []string{
		`data-trajectory="` + at + `/case/hostile-close/events`, `id="transcript"`, // the case, as on its own page
		`rel="prev" data-key="k" href="/attempt/hostile.default.1?show=hostile-bidi&amp;sort=case&amp;state=failing#split"`,
		`rel="next" data-key="j" href="/attempt/hostile.default.1?show=hostile-link&amp;sort=case&amp;state=failing#split"`,
		`2 of `, `class="current" aria-current="true"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if !strings.Contains(own, `id="transcript"`) {
		t.Error("the case's own page has no transcript: this test looks for the wrong thing")
	}
	if w := get(t, v, at+"?show=none"); w.Code != 404 {
		t.Errorf("a case that is not there: %d", w.Code)
	}
	if body := get(t, v, at+"?show=kept-secret").Body.String(); strings.Contains(body, secret) || !strings.Contains(body, "held out") {
		t.Error("the held-out case is told beside the list")
	}
}

func TestLinksOfTheCaseStayBesideTheList(t *testing.T) {
	own, _ := url.Parse("/attempt/a+b/case/one")
	q := url.Values{"sort": {"cost"}, "show": {"one"}, "page": {"3"}}
	for in, want := range map[string]string{
		` href="#e5"`:         ` href="#e5"`,
		` href="?tab=events"`: ` href="/attempt/a+b?show=one&amp;sort=cost&amp;tab=events#split"`,
		` href="/attempt/a&#43;b/case/one?from=201#e210"`:  ` href="/attempt/a+b?from=201&amp;show=one&amp;sort=cost#e210"`,
		` href="/attempt/a&#43;b/case/t%2Fwo"`:             ` href="/attempt/a+b?show=t%2Fwo&amp;sort=cost#split"`,
		` href="/attempt/a&#43;b/case/one/piece/blake3:0"`: ` href="/attempt/a&#43;b/case/one/piece/blake3:0"`,
		` href="/attempt/other/case/one"`:                  ` href="/attempt/other/case/one"`,
		` href="/ledger/3"`:                                ` href="/ledger/3"`,
		` href="?q=text"`:                                  ` href="/attempt/a+b/case/one?q=text"`,
		` href="//example.org/attempt/a+b/case/one"`:       ` href="//example.org/attempt/a+b/case/one"`,
		`text href=&#34;?tab=x&#34;`:                       `text href=&#34;?tab=x&#34;`,
	} {
		if got := strings.ReplaceAll(string(insideOf(template.HTML(in), own, "a+b", q)), "&#43;", "+"); got != strings.ReplaceAll(want, "&#43;", "+") {
			t.Errorf("%s\nis  %s\nnot %s", in, got, want)
		}
	}
}

// A page is signed for the address that its browser has. A browser leaves out a question
// mark that nothing comes after; the link that takes the last filter away has one.
func TestPagesAreSignedForTheAddressOfTheBrowser(t *testing.T) {
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p, Owner: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	for path, want := range map[string]string{
		"/attempt/hostile.default.1?":                         "/attempt/hostile.default.1",
		"/attempt/hostile.default.1?state=failed":             "/attempt/hostile.default.1?state=failed",
		"/attempt/builtin+adversarial.mitigated.1?q=%3F&tag=": "/attempt/builtin+adversarial.mitigated.1?q=%3F&tag=",
	} {
		m := regexp.MustCompile(`data-signed="(page/[0-9a-f]+)"`).FindStringSubmatch(get(t, v, path).Body.String())
		if m == nil {
			t.Fatalf("%s is not signed", path)
		}
		var answer signedPageAnswer
		if err := json.Unmarshal(get(t, v, "/"+m[1]).Body.Bytes(), &answer); err != nil || !strings.Contains(answer.Statement, `"address":"`+want+`"`) {
			t.Errorf("%s is signed as %s, %v; expected %s", path, answer.Statement, err, want)
		}
	}
}

// A target that gets a window too small for what it is asked leaves its earlier run at the
// same step in every case.
func TestCasesAreGroupedByWhereTheyLeftAnEarlierRun(t *testing.T) {
	dir := t.TempDir()
	s := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := ceremony.Init(t.Context(), ceremony.InitOptions{Dir: s.dir, Operator: "operator@local"}, world(t, s.vars))
	check(err)
	var cases strings.Builder
	for _, id := range []string{"one", "two", "three"} {
		cases.WriteString(line(map[string]any{"id": id, "input": strings.Repeat("Where is my order? ", 20), "model": []any{map[string]any{"text": "here"}}, "expected": "here", "grade": map[string]any{"kind": "exact"}}))
	}
	check(s.write("bench/desk/registration.yaml", fmt.Sprintf(registration, "desk")))
	check(s.write("bench/desk/dataset.jsonl", cases.String()))
	for _, window := range []string{"", ", context: {window: 200, budget: 60}"} {
		check(s.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0"+window+"}\n"))
		check(s.run("desk", "default"))
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	check(err)
	v, err := Open(Config{Place: p})
	check(err)
	t.Cleanup(v.Close)
	const left = "replaced: error context_over_budget"
	a := v.r.History.Attempt("desk.default.2")
	groups := v.groupsOf(a, groupingOf("left"), surveyed(t, v, a.ID).done.Load())
	if len(groups) != 1 || groups[0].Label != left || groups[0].N != 3 {
		t.Fatalf("the groups are %+v", groups)
	}
	body := get(t, v, "/attempt/desk.default.2?left="+url.QueryEscape(left)).Body.String()
	if !strings.Contains(body, ">three<") || !strings.Contains(body, "First divergence: <strong>"+left) {
		t.Error("the page does not list the cases of the group")
	}
	first := v.r.History.Attempt("desk.default.1")
	if groups := v.groupsOf(first, groupingOf("left"), surveyed(t, v, first.ID).done.Load()); len(groups) != 0 {
		t.Errorf("the first run left an earlier one: %+v", groups)
	}
}

// What is kept of an attempt is bounded, and what was left out is said.
func TestASurveyIsBounded(t *testing.T) {
	v := openShop(t)
	d, err := v.r.Attempt("hostile.default.1")
	if err != nil {
		t.Fatal(err)
	}
	b := survey.Begin(d)
	done, _ := b.Read(func() bool { return false })
	if done.Size() > survey.MaxBytes || done.Cut != 1 || done.Unread != 0 { // of the long text there are 900 kB
		t.Errorf("%d bytes, %d cases cut, %d unread; expected one that is cut", done.Size(), done.Cut, done.Unread)
	}
	found := 0
	for _, is := range done.Find("xxxxxxxx") {
		if is {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the beginning of the long text is found in %d cases", found)
	}
}

// Held-out texts are not even in memory: whoever asks a survey finds none.
func TestASurveyHasNoTextOfAHeldOutCase(t *testing.T) {
	v := openShop(t)
	s := surveyed(t, v, "hostile.default.1").done.Load()
	for _, text := range []string{secret, "What is " + secret} {
		for place, is := range s.Find(text) {
			if is {
				t.Errorf("%q is found in case %d", text, place)
			}
		}
	}
	found := false
	for _, is := range s.Find("What is 1 plus 1") {
		found = found || is
	}
	if !found {
		t.Error("nothing is found at all")
	}
}
