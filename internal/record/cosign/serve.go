package cosign

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// shutdownWait is how long requests under way may take to end.
const shutdownWait = 10 * time.Second

// Serve answers requests at an address until ctx ends, and lets those under way
// end. It tells ready the URL once it can be reached.
func (s *Server) Serve(ctx context.Context, addr string, ready func(url string) error) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return refusal.Newf(refusal.Failed, "listening on %s: %w", addr, err).
			WithHint("--listen takes HOST:PORT of this machine; port 0 takes a free one")
	}
	server := &http.Server{
		Handler: s,
		// A request is one small body; a client that takes longer is holding a
		// connection, not sending a checkpoint.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	// Connections wait in the listener's queue until Serve begins, so a client
	// that is told now can connect.
	if err := ready("http://" + listener.Addr().String()); err != nil {
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
	if err := <-stopped; err != nil {
		server.Close()
		return refusal.Newf(refusal.Interrupted, "stopping: requests did not end within %s: %w", shutdownWait, err).
			WithHint("what was cosigned is on disk; start the witness again")
	}
	return nil
}

// LoadOrMakeKey reads a witness's key, or makes it when there is none.
func LoadOrMakeKey(path, name string) (*seal.Key, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return seal.LoadKey(path)
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := key.MarshalPEM(name)
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return key, store.CreateFile(store.OS{}, path, data, 0o600)
}
