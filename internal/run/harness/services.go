package harness

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// carriers carry the connections of an agent to the services of its world, and count what
// goes over them. Nothing of it is parsed.
type carriers struct{ list []*carrier }

// A carrier is one service.
type carrier struct {
	service scenario.WorldService
	from    *sandbox.Gateway // where the agent's connections come in
	dial    func(port int) (net.Conn, error)

	in, out, connections atomic.Int64
	open                 sync.WaitGroup
}

// carryServices begins to carry.
func carryServices(services []scenario.WorldService, dial func(port int) (net.Conn, error)) *carriers {
	c := &carriers{}
	for _, s := range services {
		one := &carrier{service: s, from: sandbox.NewGateway(), dial: dial}
		c.list = append(c.list, one)
		go one.serve()
	}
	return c
}

// services are the ports that the agent's sandbox gets.
func (c *carriers) services() []sandbox.Service {
	if c == nil {
		return nil
	}
	var list []sandbox.Service
	for _, one := range c.list {
		list = append(list, sandbox.Service{Port: one.service.Port, To: one.from})
	}
	return list
}

func (c *carrier) serve() {
	for {
		conn, err := c.from.Accept()
		if err != nil {
			return
		}
		c.connections.Add(1)
		c.open.Go(func() { c.carry(conn) })
	}
}

// carry copies both ways until both sides have ended.
func (c *carrier) carry(from net.Conn) {
	defer from.Close()
	to, err := c.dial(c.service.Port)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { c.in.Add(copyHalf(to, from)) })
	both.Go(func() { c.out.Add(copyHalf(from, to)) })
	both.Wait()
}

// copyHalf copies one way and passes the end on.
func copyHalf(to, from net.Conn) int64 {
	n, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		if half.CloseWrite() == nil {
			return n
		}
	}
	if !errors.Is(err, net.ErrClosed) {
		to.Close()
		from.Close()
	}
	return n
}

// close lets no connection in any more.
func (c *carriers) close() {
	if c == nil {
		return
	}
	for _, one := range c.list {
		one.from.Close()
	}
}

// record tells the trajectory how much went over each service, when both sides are dead.
func (c *carriers) record(s *session.Session) error {
	if c == nil {
		return nil
	}
	for _, one := range c.list {
		one.open.Wait()
		if err := s.Event(&trajectory.ServiceTraffic{BytesIn: one.in.Load(), BytesOut: one.out.Load(), Connections: one.connections.Load(),
			Name: one.service.Name, Port: one.service.Port, Protocol: one.service.Protocol}); err != nil {
			return err
		}
	}
	return nil
}
