package web

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
)

// What all requests together may take. Rates bound how often a client asks; these bound
// what is being worked on at one moment.
const (
	// maxValues bounds the members and items of one body: what a body costs to read as
	// JSON grows with them and not with its bytes.
	maxValues = 50_000
	// maxHeld bounds the bytes of all bodies that are being read or worked on.
	maxHeld = 64 << 20
	// workEach bounds the long documents of one agent, or of one address without an API key,
	// that are worked on at a time.
	workEach = 2
	// workWait is how long a document waits for others before the client is told to come
	// again.
	workWait = 5 * time.Second
	// bodyChunk is how much of a body is read before it is looked at.
	bodyChunk = 32 << 10
)

// A budget is what all requests together have taken.
type budget struct {
	mu   sync.Mutex
	held int64          // bytes of bodies
	work map[string]int // documents being worked on, by who sent them

	slots chan struct{} // one for each document being worked on
}

func newBudget() *budget {
	// A processor stays free for readers, where there is more than one.
	return &budget{work: map[string]int{}, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// hold takes bytes, and reports whether there is room for them.
func (b *budget) hold(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > maxHeld {
		return false
	}
	b.held += n
	return true
}

func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}

var (
	errCrowded = refusal.Newf(nameBusy, "the bodies of other requests take all the memory that there is for them")
	errWaited  = refusal.Newf(nameBusy, "other documents are being worked on")
	errAtOnce  = refusal.Newf(refusal.RateLimited, "at most %d documents of one sender are worked on at a time", workEach).WithHint("wait for the answer to one before sending the next")
)

// begin waits for its turn to work on a document. Done ends the work.
func (b *budget) begin(ctx context.Context, who string) (done func(), err error) {
	b.mu.Lock()
	if b.work[who] >= workEach {
		b.mu.Unlock()
		return nil, errAtOnce
	}
	b.work[who]++
	b.mu.Unlock()
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.work[who]--; b.work[who] == 0 {
			delete(b.work, who)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, workWait)
	defer cancel()
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, errWaited
	}
}

// readBody reads a body piece by piece and refuses it as soon as it is too much: before
// the rest of it is read, and before any of it is decoded.
func (c *call) readBody(w http.ResponseWriter) error {
	from := http.MaxBytesReader(w, c.r.Body, c.route.maxBody())
	values := valueCounter{}
	chunk := make([]byte, bodyChunk)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			if !c.s.budget.hold(int64(n)) {
				return errCrowded
			}
			c.held += int64(n)
			if values.count(chunk[:n]); values.n > maxValues {
				return refusal.Newf(refusal.TooLarge, "the body has more than %d members and items", maxValues)
			}
			c.body = append(c.body, chunk[:n]...)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A valueCounter counts the members and items of JSON as it comes: what opens an object
// or a list, and every comma. Whether it is JSON is found out later.
type valueCounter struct {
	n                 int
	inString, escaped bool
}

func (v *valueCounter) count(piece []byte) {
	for _, b := range piece {
		switch {
		case v.escaped:
			v.escaped = false
		case v.inString:
			switch b {
			case '\\':
				v.escaped = true
			case '"':
				v.inString = false
			}
		case b == '"':
			v.inString = true
		case b == ',' || b == '{' || b == '[':
			v.n++
		}
	}
}
