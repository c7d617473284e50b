package viewer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
)

// shutdownWait is how long requests under way may take to end.
const shutdownWait = 5 * time.Second

// Serve answers requests at an address until ctx ends. It tells ready the URL once
// it can be reached. Door.Hosts gets the address itself; other names are the
// caller's.
func Serve(ctx context.Context, v http.Handler, d Door, addr string, ready func(url string) error) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return refusal.Newf(refusal.Failed, "listening on %s: %w", addr, err).
			WithHint("--listen takes HOST:PORT of this machine; port 0 takes a free one")
	}
	at := listener.Addr().(*net.TCPAddr)
	_, port, _ := net.SplitHostPort(at.String())
	d.Hosts = append(hostsOf(at, port), withPort(d.Hosts, port)...)
	server := &http.Server{
		Handler: Guard(v, d, port),
		// A request is a line and a few headers; an answer may be a large page to a
		// slow reader.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	if err := ready("http://" + at.String()); err != nil {
		listener.Close()
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		stopped <- server.Shutdown(end)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return refusal.Newf(refusal.Failed, "serving on %s: %w", addr, err)
	}
	if <-stopped != nil {
		server.Close() // pages only read: nothing is lost
	}
	return nil
}

// hostsOf are the spellings of an address. A name that another owner controls is
// none of them, wherever it points.
func hostsOf(at *net.TCPAddr, port string) []string {
	hosts := []string{at.String()}
	if at.IP.IsLoopback() {
		hosts = append(hosts, "localhost:"+port)
	}
	if at.IP.IsUnspecified() {
		hosts = append(hosts, "localhost:"+port, "127.0.0.1:"+port, "[::1]:"+port)
		if addrs, err := net.InterfaceAddrs(); err == nil {
			for _, a := range addrs {
				if n, ok := a.(*net.IPNet); ok {
					hosts = append(hosts, net.JoinHostPort(n.IP.String(), port))
				}
			}
		}
	}
	return hosts
}

// withPort adds the port to names that have none. A proxy on the usual port sends
// the name alone.
func withPort(names []string, port string) []string {
	var out []string
	for _, n := range names {
		n = strings.ToLower(n)
		out = append(out, n)
		if _, _, err := net.SplitHostPort(n); err != nil {
			out = append(out, n+":"+port)
		}
	}
	return out
}

// A server stays, and most of the time it does nothing: memory matters more than
// the few milliseconds that collecting it takes.
const (
	gcPercent   = 10
	memoryLimit = 140 << 20 // a wish, not a bound
)

// StayFrugal makes the process one that serves: call it before [Open], in a
// program that does nothing else.
func StayFrugal() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
}
