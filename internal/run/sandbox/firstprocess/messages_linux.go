package firstprocess

import (
	"encoding/json"
	"errors"

	"golang.org/x/sys/unix"
)

// A Plan is what the harness tells the first process of a sandbox, if that is
// ours.
type Plan struct {
	Command []string
	Env     []string
	Dir     string
	Stay    bool // be the parent of the program; otherwise become it
	Port    int  // of the gateway; 0 for none
	// Services are further ports, whose connections are asked for by their number.
	Services []int `json:",omitempty"`
	Dials    bool  `json:",omitempty"` // connect to ports in here when we are told to
	Keep     bool  // be the keeper of a warm sandbox
	// Room is what to make of the namespaces that this process was started in:
	// see [Room]. Hold says to stay, as the first process of a case's.
	Room *Room `json:",omitempty"`
	Hold bool  `json:",omitempty"`
	// Build is set when the process must build the sandbox itself; in gVisor
	// it is there already.
	Build *Build
}

// MaxPlanBytes fits into one message of the channel.
const MaxPlanBytes = 128 << 10

// What goes over the channel after the plan; a message is its first byte and
// what follows. "Us" is the harness. The first process is in an agent's hands, at
// the worst, so nothing that it says is believed beyond what it could do anyway.
const (
	SaysReady      = 'R' // to us; in namespaces with the kernel's listener
	SaysFailed     = 'E' // to us: the sandbox could not be built
	SaysNotStarted = 'S' // to us: the program could not be started
	WantsConn      = 'C' // to us: one for the gateway, or for the service whose port it names
	GrantsConn     = 'G' // from us, with the connection
	SaysRoom       = 'M' // to us: the name of a room's mount namespace
	KnowsRoom      = 'K' // from us: we know it
	SaysUse        = 'U' // to us: memory and tasks of a room
	RefusesConn    = 'N' // from us: no gateway, or it is closed
	SaysReport     = 'W' // to us, from the keeper: a Report
	TakesConn      = 'D' // from us, to a world: a connection, and the port in there that it is for
)

// An Order is what the harness tells the keeper of a warm sandbox.
//
// To start something it sends the descriptors of a channel to the room's first
// process, which has its plan in it already, and of three streams. So nothing
// of a case passes through the keeper or the preloader: not its words, not its
// token.
type Order struct {
	Case    int  // 0 is the preloader
	End     bool // kill what runs in the room
	Streams int  // how many descriptors came with it
	// Import are modules for the preloader, when no room exists.
	Import []string `json:",omitempty"`
}

// OfImports is the number of a report about further imports.
const OfImports = -1

// A Report is what the keeper tells the harness.
type Report struct {
	Case   int
	Status int    // 128+n when signal n ended it
	Failed string `json:",omitempty"` // our own part could not be done
	// Preloaded is what the preloader says of its imports. It is the agent's
	// word: imported code runs in there.
	Preloaded json.RawMessage `json:",omitempty"`
	Left      int             `json:",omitempty"` // processes that the imports had left behind
	Threads   int             `json:",omitempty"` // of the preloader after its imports
}

// CloseFds closes descriptors that came with a message.
func CloseFds(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Receive reads one message and what descriptors came with it.
func Receive(fd int) (kind byte, text string, rights []int, err error) {
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

// ReceiveMany reads one message and the descriptors that came with it.
func ReceiveMany(fd int, buf []byte, most int) (n int, rights []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*most))
	var on int
	for {
		n, on, _, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, nil, err
	}
	if cmsgs, err := unix.ParseSocketControlMessage(oob[:on]); err == nil {
		for i := range cmsgs {
			if fds, err := unix.ParseUnixRights(&cmsgs[i]); err == nil {
				rights = append(rights, fds...)
			}
		}
	}
	if n == 0 {
		CloseFds(rights)
		return 0, nil, errors.New("the other side is gone")
	}
	return n, rights, nil
}
