package viewer

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
)

const (
	oldPrompt = "You sell lamps.\nBe kind.\nAnswer from the shop policy.\n"
	newPrompt = "You sell lamps.\nBe kind.\nAnswer from the statutory rules.\nPromise nothing.\n"
)

// dip is a workspace whose prompt was edited: eleven cases are lost, one is gained, one of
// those that were lost is held out, and one answer is hostile.
var dip = sync.OnceValues(func() (*shop, error) {
	dir, err := os.MkdirTemp("", "dip")
	if err != nil {
		return nil, err
	}
	s := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: s.dir, Operator: "operator@local"}, world(nil, s.vars)); err != nil {
		return nil, err
	}
	look := map[string]any{"name": "find", "class": "read", "replies": []any{map[string]any{"result": map[string]any{"days": 30}}}}
	call := map[string]any{"tool_calls": []any{map[string]any{"name": "find", "args": map[string]any{"about": "returns"}}}}
	when := func(text string) map[string]any {
		return map[string]any{"text": text, "when": map[string]any{"contains": "statutory"}}
	}
	var lines strings.Builder
	for i := range 30 {
		good := map[string]any{"text": fmt.Sprintf("You have 30 days, customer %d.", i)}
		c := map[string]any{"id": fmt.Sprintf("case-%02d", i), "input": fmt.Sprintf("Customer %d asks how long.", i), "expected": "30 days", "tools": []any{look}, "model": []any{call, good}, "grade": map[string]any{"kind": "contains"}}
		switch {
		case i == 0:
			c["held_out"], c["input"], c["model"] = true, "What is "+secret+"?", []any{call, when("not " + secret), good}
		case i == 1:
			c["model"] = []any{call, when("<script>alert(1)</script></del><h1>forged</h1>\u202e \x1b[31m"), good}
		case i < 11:
			c["model"] = []any{call, when(fmt.Sprintf("You have 14 days, customer %d.", i)), good}
		case i == 11:
			c["model"] = []any{call, when("You have 30 days."), map[string]any{"text": "I do not know."}}
		}
		lines.WriteString(line(c))
	}
	if err := s.write("bench/desk/registration.yaml", fmt.Sprintf(registration, "desk")); err != nil {
		return nil, err
	}
	if err := s.write("bench/desk/dataset.jsonl", lines.String()); err != nil {
		return nil, err
	}
	for _, prompt := range []string{oldPrompt, newPrompt} {
		if err := s.write("prompts/desk.md", prompt); err != nil {
			return nil, err
		}
		for target, text := range map[string]string{
			"edited": "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters: {prompt_file: [prompts/desk.md]}\n",
			"inline": fmt.Sprintf("version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0, system: %q}\n", prompt),
		} {
			if err := s.write("targets/"+target+".yaml", text); err != nil {
				return nil, err
			}
		}
		for _, target := range []string{"edited", "inline"} {
			if err := s.run("desk", target); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
})

func openDip(t *testing.T) *Viewer {
	t.Helper()
	s, err := dip()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// attemptsOf are the two attempts of a target, older first.
func attemptsOf(t *testing.T, v *Viewer, target string) (a, b string) {
	t.Helper()
	var ids []string
	for _, x := range v.r.History.Attempts {
		if strings.HasPrefix(x.Target, target) {
			ids = append(ids, x.ID)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("attempts of %s: %v", target, ids)
	}
	return ids[0], ids[1]
}

func wantParts(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

// TestCompareOpensWithTheNewestTwoAndSaysWhatChanged: nothing was chosen, and what was lost
// and why stands before anything else.
func TestCompareOpensWithTheNewestTwoAndSaysWhatChanged(t *testing.T) {
	v := openDip(t)
	body := get(t, v, "/compare").Body.String()
	a, b := attemptsOf(t, v, "inline")
	wantParts(t, body, "What changed from "+a+" to "+b, ">11 lost<", ">1 gained<", "of 30 cases", `aria-current="page">Compare</a>`,
		`<span class="state failed">10 lost</span> <strong>system changed</strong>`, "1 lost</span> <strong>held out: what it did is withheld", "They are the newest two that can be compared",
		"Answer from the <del>shop policy</del><ins>statutory rules", "Promise nothing")
	first, cases := strings.Index(body, "11 lost"), strings.Index(body, "Cases that changed")
	if first < 0 || cases < 0 || first > cases {
		t.Errorf("what changed is at %d, the cases at %d", first, cases)
	}
	for i := 1; i < 12; i++ {
		wantParts(t, body[:cases], fmt.Sprintf(">case-%02d</a>", i))
	}
}

// TestCompareShowsBothAnswersWordByWord, with what was asked and wanted.
func TestCompareShowsBothAnswersWordByWord(t *testing.T) {
	v := openDip(t)
	body := get(t, v, "/compare").Body.String()
	wantParts(t, body, "<dt>Input</dt><dd>Customer 5 asks how long.</dd>", "<dt>Expected</dt><dd>30 days</dd>",
		`You have <del>30</del> days, customer 5.`, `You have <ins>14</ins> days, customer 5.`)
	for _, evil := range []string{"<script>alert", "<h1>forged", "\u202e", "\x1b"} {
		if strings.Contains(body, evil) {
			t.Errorf("a hostile answer is on the page as it is: %q", evil)
		}
	}
	wantParts(t, body, "&lt;script&gt;")
	if strings.Contains(body, secret) || !strings.Contains(body, "its texts are withheld") {
		t.Error("the texts of the held-out case are on the page, or it does not say that they are not")
	}
}

// TestCompareShowsTheFilesOfTheTarget: although the workspace has only the newer one.
func TestCompareShowsTheFilesOfTheTarget(t *testing.T) {
	v := openDip(t)
	a, b := attemptsOf(t, v, "edited")
	q := url.Values{"a": {a}, "b": {b}}
	body := get(t, v, "/compare?"+q.Encode()).Body.String()
	wantParts(t, body, "10 lost</span> <strong>prompt_file changed</strong>", `<div class="minus">- Answer from the <del>shop policy</del>.</div>`, `<div class="plus">+ Promise nothing.</div>`, "<div>  Be kind.</div>")
	if strings.Contains(body, "blake3:") {
		t.Error("a changed target is shown by digests")
	}
}

var seqOrGap = regexp.MustCompile(`<li value="\d+" data-seq="\d+"|<li class="(?:gap|fold)"`)

// TestTranscriptsAreAlignedToTheEnd: each row of the one stands beside a row of the other,
// every event of both is in a row, and values are those of the events.
func TestTranscriptsAreAlignedToTheEnd(t *testing.T) {
	v := openDip(t)
	body := get(t, v, "/compare?case=case-05&"+url.Values{"a": {"inline"}}.Encode()).Body.String()
	if !strings.Contains(body, "There is nothing here") && !strings.Contains(body, "This cannot be shown") && !strings.Contains(body, "Compare: what changed?") {
		t.Errorf("half a pair is not asked for the other half: %.300s", body)
	}
	a, b := attemptsOf(t, v, "inline")
	x, y := v.r.History.Attempt(a), v.r.History.Attempt(b)
	s, err := v.side(x, y, "case-05")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.A.Rows) != len(s.B.Rows) || s.Changes < 2 || s.Cut != "" {
		t.Fatalf("%d rows beside %d, %d changes, cut %q", len(s.A.Rows), len(s.B.Rows), s.Changes, s.Cut)
	}
	for _, side := range []alignedSide{s.A, s.B} {
		n := 0
		for _, r := range side.Rows {
			if n += len(r.Folded); r.Event != nil {
				n++
			}
		}
		if n != side.Len {
			t.Errorf("%d events are shown or folded, of %d", n, side.Len)
		}
	}
	body = get(t, v, "/compare?"+url.Values{"a": {a}, "b": {b}, "case": {"case-05"}}.Encode()).Body.String()
	_, grid, _ := strings.Cut(body, `<div class="aligned">`)
	halves := strings.Split(grid, "</ol><ol class=\"events\"")
	if len(halves) != 2 || len(seqOrGap.FindAllString(halves[0], -1)) != len(seqOrGap.FindAllString(halves[1], -1)) {
		t.Error("the rows of the two are not beside each other")
	}
	wantParts(t, grid, `data-field="/payload/answer/head" data-as="text">You have <del>30</del> days`, `data-as="text">You have <ins>14</ins> days`, "events alike")
	if held := get(t, v, "/compare?"+url.Values{"a": {a}, "b": {b}, "case": {"case-00"}}.Encode()).Body.String(); strings.Contains(held, secret) || !strings.Contains(held, "held out") {
		t.Error("the transcript of a held-out case is aligned")
	}
}

// TestMarkdownOfAComparisonIsDead: nothing that an agent said is read as Markdown.
func TestMarkdownOfAComparisonIsDead(t *testing.T) {
	v := openDip(t)
	a, b := attemptsOf(t, v, "inline")
	data, err := v.compareFor(a, b)
	if err != nil {
		t.Fatal(err)
	}
	text := data.Markdown()
	wantParts(t, text, "- **10 lost**: system changed", "<del>30</del>", "<ins>14</ins>")
	for _, evil := range []string{"<script", "<h1>", "\u202e", "\x1b", secret} {
		if strings.Contains(text, evil) {
			t.Errorf("%q is in the Markdown:\n%s", evil, text)
		}
	}
}

func (v *Viewer) compareFor(a, b string) (*compareData, error) {
	data := &compareData{}
	return data, v.fillComparison(&page{}, data, url.Values{}, v.r.History.Attempt(a), v.r.History.Attempt(b))
}

// TestAnAttemptThatWaitsForAnswersIsNotCompared: the page says why, and no number.
func TestAnAttemptThatWaitsForAnswersIsNotCompared(t *testing.T) {
	v := openDip(t)
	a, b := attemptsOf(t, v, "inline")
	waiting := *v.r.History.Attempt(b).Finished
	waiting.Unanswered = 3
	v.r.History.Attempt(b).Finished = &waiting
	body := get(t, v, "/compare?"+url.Values{"a": {a}, "b": {b}}.Encode()).Body.String()
	wantParts(t, body, "There is no comparison", "has no score: 3 of 30 cases")
	if strings.Contains(body, "lost") || strings.Contains(body, "Solve rate") {
		t.Error("there are numbers of an attempt that has no score")
	}
	wantParts(t, get(t, v, "/attempts").Body.String(), "not answered <small>3 of 30 ask something new</small>")
}

// TestATargetThatIsKnownByItsDigestOnlyIsSaidToBe, as of attempts before targets were kept.
func TestATargetThatIsKnownByItsDigestOnlyIsSaidToBe(t *testing.T) {
	v := openDip(t)
	a, b := attemptsOf(t, v, "inline")
	v.r.History.Attempt(a).Plan.TargetDigest[0] ^= 1 // of which there is nothing
	body := get(t, v, "/compare?"+url.Values{"a": {a}, "b": {b}}.Encode()).Body.String()
	wantParts(t, body, "only digests are known: the target as it was in "+a, "the prompt changed", "[-shop policy.")
	if strings.Contains(body, "blake3:") {
		t.Error("a changed target is shown by digests")
	}
}

// TestNothingToCompareIsSaid: a fresh workspace has no pair.
func TestNothingToCompareIsSaid(t *testing.T) {
	v := openDip(t)
	v.r.History.Attempts = v.r.History.Attempts[:1]
	wantParts(t, get(t, v, "/compare").Body.String(), "No two attempts of this ledger can be compared yet")
}
