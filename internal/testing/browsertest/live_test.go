package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A slowModel is a provider that answers when the test lets it.
type slowModel struct {
	*httptest.Server
	may chan struct{} // one for each answer
}

func newSlowModel(t *testing.T) *slowModel {
	t.Helper()
	m := &slowModel{may: make(chan struct{}, 100)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-m.may:
		case <-req.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(object{"id": "1", "object": "chat.completion", "model": "fake-1", "created": 1,
			"choices": []object{{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": "two"}}},
			"usage":   object{"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}})
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *slowModel) answer(n int) {
	for range n {
		m.may <- struct{}{}
	}
}

// figure is the number under a heading of the part that moves.
func (b *tab) figure(name string) string {
	b.t.Helper()
	s, _ := b.js(`[...document.querySelectorAll(".figures div")].find((d) => d.querySelector("dt").textContent === ` + quote(name) + `)?.querySelector("dd").textContent.trim() ?? ""`).(string)
	return s
}

// The page of an attempt that is really running: its numbers move, its cases appear, it
// becomes final by itself, and it is checked all the while.
func TestThePageOfARunningAttemptFollowsIt(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	const cases, live = 6, "sums.bot.1"
	model := newSlowModel(t)
	w, err := newWorld("init")
	check(t, err)
	w.env = map[string]string{"MODEL_KEY": "sk-proj-0123456789abcdef"}
	var dataset strings.Builder
	for i := range cases {
		dataset.WriteString(jsonLine(object{"id": fmt.Sprintf("sum-%d", i+1), "input": fmt.Sprintf("What is %d minus %d?", i+2, i), "grade": object{"kind": "contains", "expected": "two"}}))
	}
	check(t, w.write(map[string]string{
		"bench/sums/registration.yaml": registration("sums"),
		"bench/sums/dataset.jsonl":     dataset.String(),
		"targets/bot.yaml":             "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n",
		"providers.yaml":               "version: 1\nopenai: {base_url: " + model.URL + ", key_env: MODEL_KEY, prices: {fake-1: {input: 1000000, output: 4000000}}}\n",
	}))
	ended := make(chan error, 1)
	go func() {
		_, err := w.tally(0, "--workspace", w.dir, "run", "sums", "--target", "bot", "--live", "--max-cost", "1", "--jobs", "1")
		ended <- err
	}()

	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	for b.text("#running") == "" { // until it is registered
		select {
		case err := <-ended:
			t.Fatalf("it ended before the model answered: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		b.goTo(base + "/attempt/" + live)
	}
	b.js(`window.stayed = true`) // a page that is loaded again loses this
	if got := b.figure("Done"); !strings.HasPrefix(got, "0 of 6") {
		t.Errorf("done: %q", got)
	}
	type moving struct{ done, rate, cost, left string }
	look := func(done int) moving {
		t.Helper()
		b.waitFor(fmt.Sprintf(`[...document.querySelectorAll(".figures dd")].some((d) => d.textContent.startsWith("%d of 6"))`, done))
		m := moving{b.figure("Done"), b.figure("Cases a minute"), b.figure("Cost so far"), b.figure("Time left, at this rate")}
		if shown := b.js(`[...document.querySelectorAll("tr[data-entry] .state")].filter((x) => x.textContent === "Passed").length`); shown != float64(done) {
			t.Errorf("with %d done, %v of the cases are shown as passed", done, shown)
		}
		b.waitFor(`document.getElementById("mark")?.dataset.state === "unknown"`)
		return m
	}
	// The keyboard is in a row, and stays in it wherever the row goes meanwhile.
	b.press("j")
	b.press("j")
	model.answer(1)
	b.waitFor(`[...document.querySelectorAll(".figures dd")].some((d) => d.textContent.startsWith("1 of 6"))`)
	const marked = `[...document.querySelectorAll("[data-row].at th")].map((x) => x.textContent.trim()).join()`
	if at := b.js(marked); at != "sum-2" {
		t.Errorf("after the page was replaced the keyboard is in %q, expected sum-2", at)
	}
	if b.press("j"); b.js(marked) != "sum-3" {
		t.Errorf("j leads from there to %q, expected sum-3", b.js(marked))
	}
	if b.press("?"); b.text("#keys") == "" {
		t.Error("? lists no keys after the page was replaced")
	}
	b.press("Escape")
	one := look(1)
	model.answer(2)
	three := look(3)
	b.picture("viewer-running")
	for _, m := range []moving{one, three} {
		if m.rate == "–" || m.left == "–" || m.cost == "$0.00" {
			t.Errorf("nothing is known of %+v", m)
		}
	}
	if one.cost == three.cost || one.done == three.done || one.rate == three.rate {
		t.Errorf("nothing moved: %+v, then %+v", one, three)
	}
	if b.js(`window.stayed`) != true {
		t.Error("the page was loaded again while the attempt ran")
	}
	b.clean()

	// It ends, and the page is that of a finished attempt.
	model.answer(cases)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.waitFor(`document.querySelector("body:not([data-live]) .figures")`)
	b.waitFor(`document.getElementById("mark")?.dataset.state === "unknown"`)
	if b.text("#running") != "" || !strings.Contains(b.text(".figures"), "6 of 6") {
		t.Errorf("the page is not final: %s", b.text(".figures"))
	}
	b.give(w.keyOf(t, live))
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	if b.js(`document.querySelectorAll("[data-entry][data-as='cost']").length`) == 0.0 {
		t.Error("the cost of the finished attempt names no entry")
	}
	b.clean()
}
