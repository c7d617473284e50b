package chaostest

import (
	"net"
	"sync"
	"testing"
)

// The ways that bytes go on a line.
const (
	up   = iota // to the coordinator
	down        // to the worker
)

// A line is the network between one worker and the coordinator: a port of the test that
// passes everything on until it is told not to.
type line struct {
	address string // where the worker connects
	to      string // where the coordinator listens

	mu      sync.Mutex
	changed *sync.Cond
	held    [2]bool // bytes that go this way wait, and so does the end of a connection
	refused bool    // no client can connect
	over    bool
	links   map[*link]bool
}

// A link is one connection over a line.
type link struct {
	near, far net.Conn
	closed    bool
	forgotten bool // nothing gets through any more, and neither end is told
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{address: listener.Addr().String(), to: to, links: map[*link]bool{}}
	l.changed = sync.NewCond(&l.mu)
	var carriers sync.WaitGroup
	carriers.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			carriers.Go(func() { l.carry(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.set(func() { l.over = true })
		l.cut()
		carriers.Wait()
	})
	return l
}

// set changes something and tells those who wait for it.
func (l *line) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.changed.Broadcast()
}

// hold has bytes of these ways wait from now on, those of new connections too.
func (l *line) hold(ways ...int) {
	l.set(func() {
		for _, way := range ways {
			l.held[way] = true
		}
	})
}

// cut closes every connection; what was under way is lost.
func (l *line) cut() {
	l.set(func() {
		for k := range l.links {
			k.close()
		}
	})
}

// refuse is a cut after which no client can connect.
func (l *line) refuse() {
	l.set(func() { l.refused = true })
	l.cut()
}

// forget has the connections of now lead nowhere for ever, as when a router in between
// was started again. New ones work.
func (l *line) forget() {
	l.set(func() {
		for k := range l.links {
			k.forgotten = true
		}
	})
}

// heal lets everything through, and first what was held.
func (l *line) heal() { l.set(func() { l.held, l.refused = [2]bool{}, false }) }

// close closes both ends. The lock of the line is held.
func (k *link) close() {
	k.closed = true
	k.near.Close()
	k.far.Close()
}

// carry serves one connection of a worker.
func (l *line) carry(near net.Conn) {
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		near.Close()
		return
	}
	k := &link{near: near, far: far}
	l.set(func() {
		if l.links[k] = true; l.over || l.refused {
			k.close()
		}
	})
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(k, far, near, up) })
	pumps.Go(func() { l.pump(k, near, far, down) })
	pumps.Wait()
	l.set(func() { delete(l.links, k) })
}

// pump passes on what comes, and the end of it.
func (l *line) pump(k *link, to, from net.Conn, way int) {
	defer l.set(k.close)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.wait(k, way)
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// wait waits until bytes may go that way.
func (l *line) wait(k *link, way int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for (l.held[way] || k.forgotten) && !l.over && !k.closed {
		l.changed.Wait()
	}
}
