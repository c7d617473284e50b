package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/journal"
	"tallystick/internal/testing/fakemodel"
)

// A clerk is a live MCP server with effects: it counts how often each case called.
type clerk struct {
	fakemodel.MCP
	mu    sync.Mutex
	calls map[string]int
}

var clerkFor = regexp.MustCompile(`"word":"case-(\d+)"`)

func (c *clerk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m := clerkFor.FindSubmatch(body); m != nil && bytes.Contains(body, []byte(`"tools/call"`)) {
		c.mu.Lock()
		c.calls[string(m[1])]++
		c.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
	}
	c.MCP.ServeHTTP(w, r)
}

// TestKilledLiveRunCallsNoToolTwice kills a live run whose cases use a tool with
// effects, and resumes it. No case calls its tool twice, whatever the moment; a call of
// which it is not known what became of it ends its case as an error and is in the books.
func TestKilledLiveRunCallsNoToolTwice(t *testing.T) {
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("TALLY_JOURNAL_KILLS")); err == nil {
		kills = n
	}
	cases := 4 + kills*2
	w := newPaidWorkspace(t, 0)
	asked := regexp.MustCompile(`Note (\d+)\.`)
	models := fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		w.more <- struct{}{}
		time.Sleep(2 * time.Millisecond)
		if strings.Contains(string(r.Body), `"tool"`) {
			return fakemodel.Reply{Text: "noted"}
		}
		return fakemodel.Reply{ToolCalls: []fakemodel.ToolCall{{Name: "note", Arguments: fmt.Sprintf(`{"word":"case-%s"}`, asked.FindSubmatch(r.Body)[1])}}}
	})
	tool := &clerk{calls: map[string]int{}}
	web := httptest.NewServer(tool)
	t.Cleanup(web.Close)
	var lines bytes.Buffer
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"case-%d","turns":[{"text":"Note %d."}],"tools":[{"name":"note","remote":"echo","class":"write","source":"mcp:clerk"}],"expected":"noted","grade":{"kind":"exact"}}`+"\n", i, i)
	}
	for name, text := range map[string]string{
		"bench/paid/dataset.jsonl": lines.String(),
		"providers.yaml":           "version: 1\nopenai:\n  base_url: " + models.OpenAI() + "\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\nmcp:\n  clerk: {url: \"" + web.URL + "\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(w.dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	random := rand.New(rand.NewPCG(15, 1))
	args := []string{}
	for killed := range kills {
		if w.liveRun(1+random.IntN(5), time.Duration(random.IntN(8000))*time.Microsecond, args...) {
			t.Fatalf("the run came to its end after %d kills", killed)
		}
		args = []string{"--resume"}
	}
	w.liveRun(-1, 0, "--resume")

	const attempt = "paid.default.1"
	intents := 0
	for _, l := range w.journal(attempt) {
		if l.Kind == journal.Intent && l.Pays == journal.Tool {
			intents++
		}
	}
	b := w.books(attempt)
	errored := 0
	for _, s := range b.scores {
		if s.Outcome == evidence.Errored {
			errored++
		}
	}
	for id, n := range tool.calls {
		if n > 1 {
			t.Errorf("case-%s called its tool %d times", id, n)
		}
	}
	if len(b.scores) != cases || len(tool.calls) > intents || errored > b.finished.Unknown {
		t.Errorf("%d of %d cases, %d calls reached the tool and %d are in the journal, %d errors and %d unknown", len(b.scores), cases, len(tool.calls), intents, errored, b.finished.Unknown)
	}
	t.Logf("%d kills: %d cases called their tool once; %d ended as errors, because it is not known what became of the call", kills, len(tool.calls), errored)
}
