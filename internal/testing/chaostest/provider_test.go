package chaostest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// A provider of models counts what it is asked, holds that against the journal of the
// attempt at once, and answers while its gate is open.
type provider struct {
	t       *testing.T
	url     string
	journal string // file of the attempt
	models  *fakemodel.Server

	unwatched bool          // the journal is read in the end only
	slow      time.Duration // the most that an answer takes

	mu    sync.Mutex
	gate  chan struct{} // closed while the provider answers
	calls map[digest.ID]int
	total int
	under int // calls that wait for an answer, and the most of them at a time
	most  int
	last  int // the gate shuts when this many calls came; 0 for never
}

func newProvider(t *testing.T, journal string) *provider {
	p := &provider{t: t, journal: journal, gate: make(chan struct{}), calls: map[digest.ID]int{}}
	close(p.gate)
	p.models = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: fmt.Sprintf("turn %d", strings.Count(string(r.Body), `"user"`)), InputTokens: 1000, OutputTokens: 5}
	})
	server := httptest.NewServer(p)
	p.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// shut has calls wait from now on, and open answers them.
func (p *provider) shut() { p.mu.Lock(); defer p.mu.Unlock(); p.gate = make(chan struct{}) }
func (p *provider) open() { p.mu.Lock(); defer p.mu.Unlock(); close(p.gate) }

// shutAt has the nth call wait, and those after it.
func (p *provider) shutAt(n int) { p.mu.Lock(); defer p.mu.Unlock(); p.last = n }

// counted is how many calls came.
func (p *provider) counted() int { p.mu.Lock(); defer p.mu.Unlock(); return p.total }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	gate := p.count(body)
	defer func() { p.mu.Lock(); p.under--; p.mu.Unlock() }()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	if p.slow > 0 {
		time.Sleep(rand.N(p.slow))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.models.ServeHTTP(w, r)
}

// count counts a call, which must be in the journal by now, and gives the gate that it
// waits for.
func (p *provider) count(body []byte) <-chan struct{} {
	q, err := cassette.ModelRequest(wire.OpenAIChat, body, nil)
	if err != nil {
		p.t.Errorf("the provider was asked %s: %v", body, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under++
	p.most = max(p.most, p.under)
	if p.total++; p.total == p.last {
		p.gate = make(chan struct{})
	}
	p.calls[q.Key]++
	if p.unwatched {
		return p.gate
	}
	written := 0
	for _, l := range readJournal(p.t, p.journal) {
		if l.Kind == journal.Intent && *l.Request == q.Key {
			written++
		}
	}
	if written < p.calls[q.Key] {
		p.t.Errorf("call %s came %d times and is in the journal %d times", q.Key, p.calls[q.Key], written)
	}
	return p.gate
}

// readJournal reads the whole lines of a journal.
func readJournal(t *testing.T, file string) (lines []journal.Line) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for line := range bytes.Lines(data) {
		var l journal.Line
		if line[len(line)-1] != '\n' { // it is being written
			break
		}
		if err := canon.Unmarshal(bytes.TrimSpace(line), &l); err != nil {
			t.Error(err)
		}
		lines = append(lines, l)
	}
	return lines
}
