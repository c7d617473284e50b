package bus

import (
	"crypto/tls"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/refusal"
)

// A Server is a NATS server inside this program.
type Server struct {
	server *server.Server
	url    string
	own    nkeys.KeyPair // of the coordinator, which may do everything; nil if it has its own
}

// ServerOptions say what a server is and who may use it.
type ServerOptions struct {
	Listen  string   // address and port; port 0 for any
	Dir     string   // where the queue lies
	Workers []string // their names, as [UserOf] gives them
	// Coordinator is the name of a coordinator that connects over the network; "" for
	// one in this program.
	Coordinator string
	// Cluster, if not "", is where other servers of the same cluster reach this one,
	// and Routes are those others.
	Name, Cluster string
	Routes        []string
	TLS           *tls.Config // nil for none
}

// Start starts a server.
func Start(o ServerOptions) (*Server, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return nil, err
	}
	s, name := &Server{}, o.Coordinator
	if name == "" {
		if s.own, err = nkeys.CreateUser(); err != nil {
			return nil, err
		}
		if name, err = s.own.PublicKey(); err != nil {
			return nil, err
		}
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	options := &server.Options{ServerName: o.Name, Host: host, Port: port, JetStream: true, StoreDir: o.Dir, NoLog: true, NoSigs: true,
		MaxPayload: fleet.MaxMessage, MaxPending: 256 << 20, Nkeys: []*server.NkeyUser{{Nkey: name}}, PingInterval: 5 * time.Second, MaxPingsOut: 3,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 64 << 20, DisableShortFirstPing: true}
	for _, w := range o.Workers {
		publish, subscribe := Subjects(w)
		options.Nkeys = append(options.Nkeys, &server.NkeyUser{Nkey: w, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}})
	}
	if o.TLS != nil {
		options.TLS, options.TLSConfig, options.TLSTimeout = true, o.TLS, 20
	}
	if o.Cluster != "" {
		if err := joinCluster(options, o); err != nil {
			return nil, err
		}
	}
	if s.server, err = server.NewServer(options); err != nil {
		return nil, refusal.Newf(refusal.Failed, "starting the NATS server: %w", err)
	}
	go s.server.Start()
	if !s.server.ReadyForConnections(20 * time.Second) {
		s.server.Shutdown()
		return nil, refusal.Newf(refusal.Failed, "the NATS server does not listen on %s", o.Listen).WithHint("choose another address with --listen")
	}
	s.url = s.server.ClientURL()
	return s, nil
}

func joinCluster(options *server.Options, o ServerOptions) error {
	host, port, err := splitAddress(o.Cluster)
	if err != nil {
		return err
	}
	options.Cluster = server.ClusterOpts{Name: "tally", Host: host, Port: port}
	for _, r := range o.Routes {
		options.Routes = append(options.Routes, server.RoutesFromStr("nats://"+r)...)
	}
	return nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, refusal.Newf(refusal.Usage, "--listen %s: expected HOST:PORT", address)
	}
	return host, port, nil
}

// URL is where clients reach the server.
func (s *Server) URL() string { return s.url }

// Seed lets another process act as the coordinator: "tally fleet status" of the same
// user. It is a secret.
func (s *Server) Seed() (string, error) {
	seed, err := s.own.Seed()
	return string(seed), err
}

// Connect connects the coordinator, without a network.
func (s *Server) Connect() (*nats.Conn, error) {
	return connectOwn("", s.own, nats.InProcessServer(s.server))
}

// ConnectSeed connects with a [Server.Seed].
func ConnectSeed(url, seed string) (*nats.Conn, error) {
	own, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the seed of the coordinator: %w", err)
	}
	return connectOwn(url, own)
}

func connectOwn(url string, own nkeys.KeyPair, more ...nats.Option) (*nats.Conn, error) {
	name, err := own.PublicKey()
	if err != nil {
		return nil, err
	}
	options := append([]nats.Option{nats.Name("tally coordinator"), nats.Nkey(name, own.Sign)}, usual...)
	nc, err := nats.Connect(url, append(options, more...)...)
	return nc, unreachable("connecting to the NATS server", err)
}

// Stop stops the server.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
