package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/operate"
)

// shutdownWait is how long requests under way may take to end.
const shutdownWait = 15 * time.Second

// Options say what to serve, and where.
type Options struct {
	Dir      string // of the registry; not needed with ReadOnly
	DB       string // "" for the SQLite file in Dir, or postgres://…
	StateDir string // of the ledger's memory; "" for the user's
	ReadOnly bool   // serve reads from the database; another process writes

	Addr string // HOST:PORT; port 0 takes a free one
	// Metrics is where Prometheus metrics are, for the operator: HOST:PORT, or a port
	// of this machine alone. Nowhere if it is empty.
	Metrics   string
	PublicURL string   // "" for that of the settings; another one changes the issuer's DID
	Proxies   []string // networks whose X-Forwarded-For is trusted

	Log *slog.Logger
	Now func() time.Time
}

// Ready says what is being served, once it can be reached.
type Ready struct {
	URL      string `json:"url"`       // of this listener
	Public   string `json:"publicUrl"` // begins every address that is given out
	DID      string `json:"did"`
	Origin   string `json:"origin"`
	LogKey   string `json:"logKey"`
	ReadOnly bool   `json:"readOnly"`
	Metrics  string `json:"metrics,omitempty"` // address of the metrics
}

// Serve answers requests until ctx ends, lets those under way end, and closes the
// registry. What was acknowledged is in the ledger whatever happens here.
func Serve(ctx context.Context, o Options, ready func(Ready) error) error {
	proxies, err := parseProxies(o.Proxies)
	if err != nil {
		return err
	}
	cfg := Config{Proxies: proxies, Log: o.Log, Now: o.Now}
	work, closing, err := open(ctx, o, &cfg)
	if err != nil {
		return err
	}
	err = listen(ctx, o, cfg, work, ready)
	return errors.Join(err, closing())
}

// open opens the registry, or its database alone. It gives what must run beside
// the server.
func open(ctx context.Context, o Options, cfg *Config) (work func(context.Context) error, closing func() error, err error) {
	if o.ReadOnly {
		if o.DB == "" {
			return nil, nil, refusal.Newf(refusal.Usage, "a server that only reads needs the database of a registry").
				WithHint("give --db postgres://… or the path of an SQLite file")
		}
		r, err := registry.OpenReader(ctx, registry.ReaderOptions{DB: o.DB, Now: o.Now, Log: o.Log})
		if err != nil {
			return nil, nil, err
		}
		cfg.Reader = r
		return nil, r.Close, nil
	}
	r, err := registry.Open(ctx, registry.Options{Dir: o.Dir, DB: o.DB, StateDir: o.StateDir, PublicURL: o.PublicURL, Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, nil, err
	}
	s := r.Settings()
	cfg.Writer = r
	cfg.WritesPerMinute, cfg.ReadsPerMinute, cfg.RegistersPerHour = s.RatePerMinute, s.ReadsPerMinute, s.RegistersPerHour
	return func(ctx context.Context) error { return beside(ctx, o, r) }, r.Close, nil
}

// warn logs what the operator should know.
func (o Options) warn(text string) {
	if o.Log != nil {
		o.Log.Warn(text)
	}
}

// beside runs what a registry does besides answering: draws and decisions, and the
// operator's commands.
func beside(ctx context.Context, o Options, r *registry.Registry) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	operated := make(chan error, 1)
	go func() {
		defer stop()
		operated <- operate.Serve(ctx, o.Dir, r, o.warn)
	}()
	err := r.Run(ctx)
	stop()
	if failed := <-operated; failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return err
}

// listen serves on an address until ctx ends or the work beside it fails.
func listen(ctx context.Context, o Options, cfg Config, work func(context.Context) error, ready func(Ready) error) error {
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return refusal.Newf(refusal.Failed, "listening on %s: %w", o.Addr, err).
			WithHint("--listen takes HOST:PORT of this machine; port 0 takes a free one")
	}
	defer listener.Close()
	config, err := configOf(ctx, cfg)
	if err != nil {
		return err
	}
	here := "http://" + listener.Addr().String()
	if cfg.PublicURL, err = publicURL(o.PublicURL, config.PublicURL, here); err != nil {
		return err
	}
	handler, err := New(cfg)
	if err != nil {
		return err
	}
	metrics, closeMetrics, err := serveMetrics(o, handler)
	if err != nil {
		return err
	}
	defer closeMetrics()
	server := newHTTPServer(handler, cfg.Log)
	// Connections wait in the listener's queue until Serve begins, so a client that is
	// told now can connect.
	if err := ready(Ready{here, cfg.PublicURL, config.DID, config.Origin, config.LogKey, cfg.Writer == nil, metrics}); err != nil {
		return err
	}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	worked := make(chan error, 1)
	go func() {
		if work == nil {
			worked <- nil
			return
		}
		err := work(ctx)
		if err != nil && ctx.Err() == nil {
			stop(err) // a registry that cannot draw or decide must not keep taking proposals
		}
		worked <- err
	}()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		stopped <- server.Shutdown(end)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop(err)
		<-worked
		return refusal.Newf(refusal.Failed, "serving on %s: %w", o.Addr, err)
	}
	err = <-stopped
	if w := <-worked; w != nil && !errors.Is(w, context.Canceled) {
		return w
	}
	if err != nil {
		server.Close()
		return refusal.Newf(refusal.Interrupted, "stopping: requests did not end within %s: %w", shutdownWait, err).
			WithHint("what was acknowledged is in the ledger; start the registry again")
	}
	return nil
}

// serveMetrics serves metrics on an address of their own, and gives it.
func serveMetrics(o Options, s *Server) (string, func() error, error) {
	if o.Metrics == "" {
		return "", func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", loopbackUnlessNamed(o.Metrics))
	if err != nil {
		return "", nil, refusal.Newf(refusal.Failed, "listening for metrics on %s: %w", o.Metrics, err).
			WithHint("--metrics takes a port of this machine, or HOST:PORT; port 0 takes a free one")
	}
	server := newHTTPServer(s.Metrics(), o.Log)
	go server.Serve(listener)
	return "http://" + listener.Addr().String() + "/metrics", server.Close, nil
}

// loopbackUnlessNamed is an address that only this machine reaches, unless it names
// another.
func loopbackUnlessNamed(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil && !strings.Contains(address, ":") {
		host, port = "", address
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func configOf(ctx context.Context, cfg Config) (*registry.Public, error) {
	if cfg.Writer != nil {
		return cfg.Writer.Config(ctx)
	}
	return cfg.Reader.Config(ctx)
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: h,
		// A request is one document; a client that takes longer is holding a connection.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	if log != nil {
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	}
	return s
}

// publicURL decides what every address begins with: what the registry was opened
// with, which is in its ledger; a server that only reads cannot choose.
func publicURL(asked, recorded, here string) (string, error) {
	asked = strings.TrimSuffix(asked, "/")
	switch {
	case recorded == "" && asked == "":
		return here, nil
	case recorded == "" || asked == "" || asked == recorded:
		return max(asked, recorded), nil
	}
	return "", refusal.Newf(refusal.Usage, "--public-url is %s, and the ledger of the registry says %s", asked, recorded).
		WithHint("start the process that writes with the new address first")
}

func parseProxies(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, plain := netip.ParseAddr(text); plain == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, refusal.Newf(refusal.Usage, "--proxy: %q is not an address or a network such as 10.0.0.0/8", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
