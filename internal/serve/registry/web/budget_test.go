package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A counted reader tells how much of a body was taken.
type counted struct {
	io.Reader
	taken int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.taken += n
	return n, err
}

// manyMembers is a body of half a million members: seven megabytes.
func manyMembers() []byte {
	text := []byte(`{"kind":"eval.run.attestation.v1","body":{"results":{"m":0`)
	for i := range 500_000 {
		text = fmt.Appendf(text, `,"m%d":%d`, i, i%10)
	}
	return append(text, `}}}`...)
}

// Six bodies of 500,000 members at once are refused while they are being read, and all
// of them together take less than 20 MB.
func TestABodyOfManyMembersIsRefusedWhileItIsRead(t *testing.T) {
	p := newPlace(t, nil)
	text := manyMembers()
	bodies := make([]*counted, 6)
	codes := make([]int, len(bodies))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for i := range bodies {
		bodies[i] = &counted{Reader: bytes.NewReader(text)}
		all.Go(func() {
			r := httptest.NewRequest("POST", "/api/credentials/dry-run", bodies[i])
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			p.web.ServeHTTP(rec, r)
			codes[i] = rec.Code
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	for i, b := range bodies {
		if codes[i] != http.StatusRequestEntityTooLarge {
			t.Errorf("body %d: answered %d", i, codes[i])
		}
		if b.taken > 2<<20 {
			t.Errorf("body %d: %d bytes were read before it was refused", i, b.taken)
		}
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 20<<20 {
		t.Errorf("it took %d bytes in all", took)
	}
	if p.web.budget.held != 0 {
		t.Errorf("%d bytes are still counted", p.web.budget.held)
	}
	// Commas and brackets in texts are no members, wherever a piece ends.
	texts := `{"kind":"eval.run.attestation.v1","body":{"runId":"` + strings.Repeat(`,{[\"`, 40_000) + `"}}`
	p.post("/api/credentials/dry-run", "", texts).is(200)
	// In other spellings it is the same.
	for name, body := range map[string]string{
		"a list":         `{"kind":"x","body":[` + strings.Repeat("0,", 60_000) + `0]}`,
		"empty objects":  `[` + strings.Repeat("{},", 30_000) + `{}]`,
		"spaced":         `{"results":[` + strings.Repeat(" 1 ,\n", 60_000) + `1]}`,
		"never closed":   strings.Repeat(`{"a":`, 60_000),
		"not JSON":       strings.Repeat(`,`, 60_000),
		"after a string": `"\\"` + strings.Repeat(`,`, 60_000),
	} {
		if a := p.post("/api/credentials/dry-run", "", body); a.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: answered %d", name, a.Code)
		}
	}
}

// A slow body does not hold a turn, and one sender does not hold all of them.
func TestDocumentsTakeTurns(t *testing.T) {
	b := newBudget()
	ctx := context.Background()
	b.slots = make(chan struct{}, 3)
	one := must2(b.begin(ctx, "a"))
	two := must2(b.begin(ctx, "a"))
	if _, err := b.begin(ctx, "a"); !isNamed(err, errAtOnce.Name) {
		t.Errorf("a third document of one sender: %v", err)
	}
	three := must2(b.begin(ctx, "b"))
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := b.begin(short, "c"); !isNamed(err, nameBusy) {
		t.Errorf("no turn is free: %v", err)
	}
	one()
	two()
	three()
	if len(b.work) != 0 || len(b.slots) != 0 {
		t.Errorf("%v %d", b.work, len(b.slots))
	}
	if !b.hold(maxHeld) || b.hold(1) {
		t.Error("the bytes of bodies are not bounded")
	}
	b.release(maxHeld)

	// The server tells both, the first of a document that is long.
	p := newPlace(t, nil)
	long := strings.Replace(envelope(exampleBody), `"runnerDid"`, `"extra":{"note":"`+strings.Repeat("x", maxForm)+`"},"runnerDid"`, 1)
	p.post("/api/credentials/dry-run", "", long).is(200)
	p.web.budget.work["192.0.2.1"] = workEach
	p.post("/api/credentials/dry-run", "", envelope(exampleBody)).is(200)
	a := p.post("/api/credentials/dry-run", "", long)
	if a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", a.Code, a.Header())
	}
	p.web.budget.held = maxHeld
	a = p.post("/api/credentials/dry-run", "", envelope(exampleBody))
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" || !bytes.Contains(a.Body.Bytes(), []byte("Busy")) {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	p.web.budget.held = 0
}

func must2(done func(), err error) func() {
	if err != nil {
		panic(err)
	}
	return done
}
