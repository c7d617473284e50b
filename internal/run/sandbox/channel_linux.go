package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/firstprocess"
)

// A channel is our end of the socket to the first process.
type channel struct {
	conn   *os.File
	theirs *os.File // the other end, until the sandbox has it

	mu      sync.Mutex // a room gets these with its case: see give
	gateway *Gateway
	// onRoom and onUse are told what a room says of itself; nil ignores it.
	onRoom func(name string)
	onUse  func(bytes int64, tasks int)

	services []Service
	dialer   *dialer // of a world; nil for other programs

	serving bool
	done    chan struct{} // closed when the other end is, or we are
	ready   chan struct{} // closed when the sandbox is built

	// Set by serve, to be read after done.
	listener   int // -1 for none; the caller that takes it closes it
	err        error
	notStarted string
}

// maxGatewayConns bounds the connections of one agent that are open at once;
// one more waits.
const maxGatewayConns = 128

// openChannel makes a channel and puts the plan into it. The socket keeps it
// until the sandbox runs; packets keep messages apart.
func openChannel(gateway *Gateway, p firstprocess.Plan) (*channel, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	c := &channel{conn: os.NewFile(uintptr(fds[0]), "sandbox"), theirs: os.NewFile(uintptr(fds[1]), "sandbox"), gateway: gateway,
		done: make(chan struct{}), ready: make(chan struct{}), listener: -1}
	if err := c.send(p); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// give gives a room what belongs to its case. Before, it has no gateway.
func (c *channel) give(g *Gateway, onRoom func(name string), onUse func(bytes int64, tasks int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gateway, c.onRoom, c.onUse = g, onRoom, onUse
}

func (c *channel) given() (*Gateway, func(name string), func(bytes int64, tasks int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gateway, c.onRoom, c.onUse
}

// send sends a plan, or a task.
func (c *channel) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > firstprocess.MaxPlanBytes {
		return fmt.Errorf("its command and environment take %d bytes, at most %d fit", len(b), firstprocess.MaxPlanBytes)
	}
	if err := unix.Sendto(int(c.conn.Fd()), b, unix.MSG_NOSIGNAL, nil); err != nil {
		return fmt.Errorf("sending the plan: %w", err)
	}
	return nil
}

// start begins to answer the first process, which has its end by now. The zero
// channel, of a sandbox whose first process is not ours, has no process to
// answer.
func (c *channel) start() {
	if c.conn == nil {
		return
	}
	c.theirs.Close()
	c.serving = true
	if c.dialer != nil {
		c.dialer.serve(c.enter)
	}
	go c.serve()
}

// started reports whether start was called.
func (c *channel) started() bool { return c.serving }

// serve answers the first process until it is gone.
func (c *channel) serve() {
	defer close(c.done)
	slots := make(chan struct{}, maxGatewayConns)
	fd := int(c.conn.Fd())
	for {
		kind, text, rights, err := firstprocess.Receive(fd)
		if err != nil {
			return
		}
		switch kind {
		case firstprocess.SaysReady:
			if c.listener < 0 && len(rights) == 1 {
				c.listener, rights = rights[0], nil
			}
			select {
			case <-c.ready:
			default:
				close(c.ready)
			}
		case firstprocess.SaysFailed:
			if c.err == nil {
				c.err = errors.New(firstprocess.HeadString([]byte(text)))
			}
		case firstprocess.SaysNotStarted:
			c.notStarted = firstprocess.HeadString([]byte(text))
		case firstprocess.SaysRoom:
			if _, onRoom, _ := c.given(); onRoom != nil {
				onRoom(text)
			}
			if unix.Sendto(fd, []byte{firstprocess.KnowsRoom}, unix.MSG_NOSIGNAL, nil) != nil {
				return
			}
		case firstprocess.SaysUse:
			var bytes int64
			var tasks int
			if _, _, onUse := c.given(); onUse != nil {
				if _, err := fmt.Sscan(text, &bytes, &tasks); err == nil {
					onUse(bytes, tasks)
				}
			}
		case firstprocess.WantsConn:
			if c.grant(fd, text, slots) != nil {
				return
			}
		}
		for _, r := range rights {
			unix.Close(r)
		}
	}
}

// close ends what start began, if the other side did not. It may be called
// again.
func (c *channel) close() {
	if c.dialer != nil {
		c.dialer.serve(nil)
	}
	if c.serving {
		unix.Shutdown(int(c.conn.Fd()), unix.SHUT_RDWR)
		<-c.done
		c.serving = false
	}
	c.theirs.Close()
	c.conn.Close()
}

// connects gives the inside further ports, and a dialer its way in; before start.
func (c *channel) connects(services []Service, d *dialer) { c.services, c.dialer = services, d }

// wanted is what gets a connection: the gateway, or the service whose port is named; nil
// if there is none.
func (c *channel) wanted(port string) *Gateway {
	if port == "" {
		gateway, _, _ := c.given()
		return gateway
	}
	for _, s := range c.services {
		if strconv.Itoa(s.Port) == port {
			return s.To
		}
	}
	return nil
}

// enter makes a connection and hands one end to the inside, for a port in there.
func (c *channel) enter(port int) (net.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	message := append([]byte{firstprocess.TakesConn}, strconv.Itoa(port)...)
	err = unix.Sendmsg(int(c.conn.Fd()), message, unix.UnixRights(pair[1]), nil, unix.MSG_NOSIGNAL)
	unix.Close(pair[1])
	file := os.NewFile(uintptr(pair[0]), "world")
	defer file.Close() // FileConn has its own
	if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// grant makes a connection, hands one end to the inside and offers the other
// to what is wanted.
func (c *channel) grant(fd int, port string, slots chan struct{}) error {
	gateway := c.wanted(port)
	if gateway == nil {
		return unix.Sendto(fd, []byte{firstprocess.RefusesConn}, unix.MSG_NOSIGNAL, nil)
	}
	select {
	case <-gateway.closed:
		return unix.Sendto(fd, []byte{firstprocess.RefusesConn}, unix.MSG_NOSIGNAL, nil)
	case slots <- struct{}{}:
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		<-slots
		return unix.Sendto(fd, []byte{firstprocess.RefusesConn}, unix.MSG_NOSIGNAL, nil)
	}
	err = unix.Sendmsg(fd, []byte{firstprocess.GrantsConn}, unix.UnixRights(pair[1]), nil, unix.MSG_NOSIGNAL)
	unix.Close(pair[1])
	file := os.NewFile(uintptr(pair[0]), "gateway")
	defer file.Close() // FileConn has its own
	if err != nil {
		<-slots
		return err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		<-slots
		return err
	}
	go gateway.offer(&gatewayConn{UnixConn: conn.(*net.UnixConn), release: sync.OnceFunc(func() { <-slots })}, c.done)
	return nil
}

// A gatewayConn gives its place back when it is closed.
type gatewayConn struct {
	*net.UnixConn
	release func()
}

// Close closes the connection.
func (c *gatewayConn) Close() error {
	err := c.UnixConn.Close()
	c.release()
	return err
}
