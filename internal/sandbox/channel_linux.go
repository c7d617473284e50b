package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A plan is what the harness tells the first process of a sandbox, if that is
// ours.
type plan struct {
	Command []string
	Env     []string
	Dir     string
	Stay    bool // be the parent of the program; otherwise become it
	Port    int  // of the gateway; 0 for none
	Keep    bool // be the keeper of a warm sandbox
	// Room is what to make of the namespaces that this process was started in:
	// see room. Hold says to stay, as the first process of a case's.
	Room *room `json:",omitempty"`
	Hold bool  `json:",omitempty"`
	// Build is set when the process must build the sandbox itself; in gVisor
	// it is there already.
	Build *build
}

// maxPlanBytes fits into one message of the channel.
const maxPlanBytes = 128 << 10

// What goes over the channel after the plan; a message is its first byte and
// what follows. The first process is in an agent's hands, at the worst, so
// nothing that it says is believed beyond what it could do anyway.
const (
	saysReady      = 'R' // to us; in namespaces with the kernel's listener
	saysFailed     = 'E' // to us: the sandbox could not be built
	saysNotStarted = 'S' // to us: the program could not be started
	wantsConn      = 'C' // to us: one for the gateway
	grantsConn     = 'G' // from us, with the connection
	saysRoom       = 'M' // to us: the name of a room's mount namespace
	knowsRoom      = 'K' // from us: we know it
	saysUse        = 'U' // to us: memory and tasks of a room
	refusesConn    = 'N' // from us: no gateway, or it is closed
)

// A channel is our end of the socket to the first process.
type channel struct {
	conn   *os.File
	theirs *os.File // the other end, until the sandbox has it

	mu      sync.Mutex // a room gets these with its case: see give
	gateway *Gateway
	// onRoom and onUse are told what a room says of itself; nil for nobody.
	onRoom func(name string)
	onUse  func(bytes int64, tasks int)

	serving bool
	done    chan struct{} // closed when the other end is, or we are
	ready   chan struct{} // closed when the sandbox is built

	// Set by serve, to be read after done.
	listener   int // -1 for none; whoever takes it closes it
	err        error
	notStarted string
}

// maxGatewayConns bounds the connections of one agent that are open at once;
// one more waits.
const maxGatewayConns = 128

// openChannel makes a channel and puts the plan into it. The socket keeps it
// until the sandbox runs; packets keep messages apart.
func openChannel(gateway *Gateway, p plan) (*channel, error) {
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
	if len(b) > maxPlanBytes {
		return fmt.Errorf("its command and environment take %d bytes, at most %d fit", len(b), maxPlanBytes)
	}
	if err := unix.Sendto(int(c.conn.Fd()), b, unix.MSG_NOSIGNAL, nil); err != nil {
		return fmt.Errorf("sending the plan: %w", err)
	}
	return nil
}

// start begins to answer the first process, which has its end by now. The zero
// channel, of a sandbox whose first process is not ours, has nobody to answer.
func (c *channel) start() {
	if c.conn == nil {
		return
	}
	c.theirs.Close()
	c.serving = true
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
		kind, text, rights, err := receive(fd)
		if err != nil {
			return
		}
		switch kind {
		case saysReady:
			if c.listener < 0 && len(rights) == 1 {
				c.listener, rights = rights[0], nil
			}
			select {
			case <-c.ready:
			default:
				close(c.ready)
			}
		case saysFailed:
			if c.err == nil {
				c.err = errors.New(headString([]byte(text)))
			}
		case saysNotStarted:
			c.notStarted = headString([]byte(text))
		case saysRoom:
			if _, onRoom, _ := c.given(); onRoom != nil {
				onRoom(text)
			}
			if unix.Sendto(fd, []byte{knowsRoom}, unix.MSG_NOSIGNAL, nil) != nil {
				return
			}
		case saysUse:
			var bytes int64
			var tasks int
			if _, _, onUse := c.given(); onUse != nil {
				if _, err := fmt.Sscan(text, &bytes, &tasks); err == nil {
					onUse(bytes, tasks)
				}
			}
		case wantsConn:
			if c.grant(fd, slots) != nil {
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
	if c.serving {
		unix.Shutdown(int(c.conn.Fd()), unix.SHUT_RDWR)
		<-c.done
		c.serving = false
	}
	c.theirs.Close()
	c.conn.Close()
}

// grant makes a connection, hands one end to the inside and offers the other
// to the gateway.
func (c *channel) grant(fd int, slots chan struct{}) error {
	gateway, _, _ := c.given()
	if gateway == nil {
		return unix.Sendto(fd, []byte{refusesConn}, unix.MSG_NOSIGNAL, nil)
	}
	select {
	case <-gateway.closed:
		return unix.Sendto(fd, []byte{refusesConn}, unix.MSG_NOSIGNAL, nil)
	case slots <- struct{}{}:
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		<-slots
		return unix.Sendto(fd, []byte{refusesConn}, unix.MSG_NOSIGNAL, nil)
	}
	err = unix.Sendmsg(fd, []byte{grantsConn}, unix.UnixRights(pair[1]), nil, unix.MSG_NOSIGNAL)
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

// receive reads one message and what descriptors came with it.
func receive(fd int) (kind byte, text string, rights []int, err error) {
	msg, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	var n, on int
	for {
		n, on, _, _, err = unix.Recvmsg(fd, msg, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, "", nil, err
	}
	if n == 0 {
		return 0, "", nil, errors.New("the other side is gone")
	}
	if cmsgs, err := unix.ParseSocketControlMessage(oob[:on]); err == nil {
		for i := range cmsgs {
			if fds, err := unix.ParseUnixRights(&cmsgs[i]); err == nil {
				rights = append(rights, fds...)
			}
		}
	}
	return msg[0], string(msg[1:n]), rights, nil
}
