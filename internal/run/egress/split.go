package egress

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// A conn is a connection of which the beginning was looked at.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func newConn(c net.Conn) *conn { return &conn{c, bufio.NewReaderSize(c, 16<<10)} }

func (c *conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// A Split is the listener of a gateway that shares its address with the proxy: it keeps
// what is sent to a server and gives the proxy what is sent to a proxy.
type Split struct {
	net.Listener
	proxy *Proxy

	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	err   error // of the listener, once done
}

// NewSplit listens where l does. Accept has the connections of the gateway.
func NewSplit(l net.Listener, proxy *Proxy) *Split {
	s := &Split{Listener: l, proxy: proxy, conns: make(chan net.Conn), done: make(chan struct{})}
	proxy.gateway = s.give
	go s.accept()
	return s
}

func (s *Split) accept() {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			s.stop(err)
			return
		}
		go s.sort(c)
	}
}

func (s *Split) stop(err error) {
	s.once.Do(func() { s.err = err; close(s.done) })
}

// Accept waits for a connection to the gateway.
func (s *Split) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, s.err
	}
}

// Close ends both.
func (s *Split) Close() error {
	s.stop(net.ErrClosed)
	return s.Listener.Close()
}

// sort finds out whom a connection is for.
func (s *Split) sort(raw net.Conn) {
	c := newConn(raw)
	_ = raw.SetReadDeadline(time.Now().Add(headTimeout))
	proxied := isProxied(c.r)
	_ = raw.SetReadDeadline(time.Time{})
	if proxied {
		s.proxy.Serve(c)
		return
	}
	s.give(c)
}

// give hands the gateway a connection.
func (s *Split) give(c net.Conn) {
	select {
	case s.conns <- c:
	case <-s.done:
		c.Close()
	}
}

// isProxied looks at the first line: what follows the method is a path if a server is
// meant. What cannot be read is the gateway's to refuse.
func isProxied(r *bufio.Reader) bool {
	const mostMethod = 16
	for n := 1; n <= mostMethod; n++ {
		head, err := r.Peek(n)
		if err != nil {
			return false
		}
		if head[n-1] == ' ' {
			target, err := r.Peek(n + 1)
			return err == nil && target[n] != '/' && target[n] != '*'
		}
	}
	return false
}
