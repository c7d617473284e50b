package viewer

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/read/conversation"
	"tallystick/internal/read/history"
	"tallystick/internal/run/trajectory"
)

var (
	seqs = regexp.MustCompile(`data-seqs="([0-9 ]+)"`)
	alls = regexp.MustCompile(`data-all="([0-9]+) ([0-9]+)"`)
)

// Every event of every window is told by exactly one item of the conversation.
func TestAConversationTellsEveryEvent(t *testing.T) {
	looked := 0
	for at, body := range crawl(t, openShop(t)) {
		if !strings.Contains(body, `class="talk"`) {
			continue
		}
		looked++
		told, from, to := map[string]int{}, 0, 0
		for _, m := range seqs.FindAllStringSubmatch(body, -1) {
			for _, n := range strings.Fields(m[1]) {
				told[n]++
			}
		}
		fmt.Sscan(alls.FindStringSubmatch(body)[1], &from)
		fmt.Sscan(alls.FindStringSubmatch(body)[2], &to)
		if from < 1 || to < from || len(told) != to-from+1 {
			t.Errorf("%s: %d events are told, from %d to %d", at, len(told), from, to)
		}
		for n := from; n <= to; n++ {
			if told[fmt.Sprint(n)] != 1 {
				t.Errorf("%s: event %d is told %d times", at, n, told[fmt.Sprint(n)])
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d conversations", looked)
	}
}

func TestAHeldOutConversationIsRefused(t *testing.T) {
	v := openShop(t)
	const held = "/attempt/hostile.default.1/case/kept-secret"
	w := get(t, v, held+"/conversation.md")
	if w.Code == http.StatusOK || strings.Contains(w.Body.String(), secret) || !strings.Contains(w.Body.String(), "held out") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, tab := range []string{"", "/log", "/evidence", "/history"} {
		w := get(t, v, held+tab)
		if body := w.Body.String(); w.Code != http.StatusOK || strings.Contains(body, secret) || strings.Contains(body, "data-trajectory") {
			t.Errorf("%s: %d", tab, w.Code)
		}
	}
}

func TestAConversationIsGivenAsMarkdown(t *testing.T) {
	v := openShop(t)
	w := get(t, v, "/attempt/hostile.default.1/case/hostile-close/conversation.md")
	body := w.Body.String()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/markdown; charset=utf-8" {
		t.Fatalf("%d %s", w.Code, w.Header())
	}
	for _, want := range []string{"# hostile-close in hostile.default.1\n", "## Turn 1\n", "**User** (event 2)\n", "> </pre></li></ol><h1>forged</h1>\n", "**Assistant** "} {
		if !strings.Contains(body, want) {
			t.Errorf("it does not say %q:\n%s", want, body)
		}
	}
	// What an agent said stays in its quotation and out of a terminal.
	body = get(t, v, "/attempt/hostile.default.1/case/hostile-terminal/conversation.md").Body.String()
	if strings.ContainsAny(body, "\x1b\x07\x00") || !strings.Contains(body, "> \\x1b[31mred") {
		t.Errorf("terminal codes: %q", body)
	}
}

func TestEveryCaseLeadsToTheNext(t *testing.T) {
	v := openShop(t)
	next := regexp.MustCompile(`<a rel="next" href="([^"]+)" title`)
	at, seen := "", map[string]bool{}
	rows := regexp.MustCompile(`[?;]show=([^"&#]+)`)
	list := rows.FindAllStringSubmatch(get(t, v, "/attempt/hostile.default.1").Body.String(), -1)
	for at = "/attempt/hostile.default.1/case/" + list[0][1]; !seen[at]; {
		seen[at] = true
		m := next.FindStringSubmatch(get(t, v, at).Body.String())
		if m == nil {
			break
		}
		at = m[1]
	}
	if len(seen) != len(hostile)+2 {
		t.Errorf("%d cases follow each other, the attempt has %d", len(seen), len(hostile)+2)
	}
}

func TestTheHistoryOfACaseHasAllItsRuns(t *testing.T) {
	v := openShop(t)
	body := get(t, v, "/attempt/hostile.default.1/case/plain-one/history").Body.String()
	wants := []string{"this one"}
	// Other tests of the shop add attempts to it.
	var runs []*history.Attempt
	for _, a := range v.r.History.Attempts {
		if a.Class == "hostile" {
			runs = append(runs, a)
		}
	}
	if len(runs) < 2 {
		t.Fatalf("%d attempts", len(runs))
	}
	for k, a := range runs {
		wants = append(wants, fmt.Sprintf(`href="/attempt/%s/case/plain-one"`, a.ID), fmt.Sprintf("%d of %d", k+1, len(runs)))
	}
	for _, want := range wants {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestEventsAreFilteredByKind(t *testing.T) {
	v := openShop(t)
	const page = "/attempt/hostile.default.1/case/plain-one/log"
	all, some := get(t, v, page).Body.String(), get(t, v, page+"?kind=model").Body.String()
	if !strings.Contains(all, "Run started") || !strings.Contains(all, "data-all=") || strings.Contains(some, "<strong>Run started") || !strings.Contains(some, "The model answered") || strings.Contains(some, "data-all=") {
		t.Error("the filter does not leave the events of one kind")
	}
}

func TestTheOutlineNamesWhateverWentWrong(t *testing.T) {
	items := []conversation.Item{
		{Speech: &conversation.Speech{Role: conversation.User}}, {Speech: &conversation.Speech{Role: conversation.Assistant}},
		{Exchange: &conversation.Exchange{}}, {Call: &conversation.Call{Name: "look"}}, {Memory: &conversation.Memory{Key: "k"}},
		{Files: &conversation.Files{}}, {Note: &conversation.Note{Type: trajectory.ErrorType}},
	}
	for i := range items {
		items[i].Bad, items[i].Events = true, []int{i + 1}
	}
	s := &talk{Conversation: &conversation.Conversation{Turns: []conversation.Turn{{N: 1, Items: items}}}}
	var said []string
	for _, l := range s.outlineItems(1) {
		said = append(said, l.Text)
	}
	if got, want := strings.Join(said, "; "), "User; Model, no answer; look; memory k; 0 files; "+titles[trajectory.ErrorType]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
