package agent

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/sandbox"
)

// caInside is where a program finds the certificate of the authority of its case.
const (
	caInside = "/egress"
	caFile   = "ca.pem"
)

// mostLife bounds the authority of a case without a time limit.
const mostLife = 24 * time.Hour

// A wayOut is what a case has for the requests of its program: the authority, whose
// key is in memory only, and its certificate on disk, in a folder that the program
// finds. A nil one is that of a target that lists no server.
type wayOut struct {
	rules     egress.Rules
	authority *egress.Authority
	dir       string // on the host
	inside    string // where the program finds it
	remove    func() error
}

func newWayOut(rules egress.Rules, o Options) (*wayOut, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	authority, err := egress.NewAuthority(rules, cmp.Or(o.Timeout, mostLife), time.Now)
	if err != nil {
		return nil, err
	}
	dir, remove, err := store.TempDir("tally-egress-")
	if err != nil {
		return nil, err
	}
	w := &wayOut{rules: rules, authority: authority, dir: filepath.Join(dir, "ca"), inside: caInside, remove: remove}
	if err := store.PlantTree(w.dir, []digest.File{{Path: caFile, Data: authority.PEM()}}); err != nil {
		remove()
		return nil, err
	}
	if o.Unsafe {
		w.inside = w.dir
	}
	return w, nil
}

func (w *wayOut) end() {
	if w != nil {
		_ = w.remove() // left-overs are swept at the next start
	}
}

// open puts the proxy in front of the gateway's listener, at the same address.
func (w *wayOut) open(ctx context.Context, r *commandRun, l net.Listener, here string) (net.Listener, *egress.Proxy) {
	if w == nil {
		return l, nil
	}
	proxy := egress.New(ctx, egress.Config{Session: r.s, Rules: w.rules, Authority: w.authority, Token: r.token, Here: here, Live: r.o.Live, Shared: r.o.Unsafe})
	return egress.NewSplit(l, proxy), proxy
}

// mount shows the program the certificate.
func (w *wayOut) mount() (sandbox.Mount, bool) {
	if w == nil || w.inside == w.dir {
		return sandbox.Mount{}, false
	}
	return sandbox.Mount{Host: w.dir, Inside: w.inside}, true
}

// environment is what clients read: where the proxy is, whose certificates to believe,
// and what stands in place of credentials.
func (w *wayOut) environment(here, token string) []string {
	if w == nil {
		return nil
	}
	proxy, ca := "http://tally:"+token+"@"+here, path.Join(w.inside, caFile)
	var list []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		list = append(list, name+"="+proxy, strings.ToLower(name)+"="+proxy)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		list = append(list, name+"="+w.direct(here))
	}
	for _, name := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT", "DENO_CERT",
		"CARGO_HTTP_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"} {
		list = append(list, name+"="+ca)
	}
	return append(append(list, "NODE_USE_ENV_PROXY=1"), w.rules.Environment()...)
}

// direct is what a client does not ask the proxy for: the gateway. Where a server of
// this machine is listed, clients that cannot tell one port from another would leave
// that out too, so the gateway stands there with its port; the proxy passes on what
// comes for it all the same.
func (w *wayOut) direct(here string) string {
	local := func(r egress.Rule) bool {
		addr, err := netip.ParseAddr(r.Host)
		return err == nil && addr.IsLoopback() || r.Host == "localhost"
	}
	if slices.ContainsFunc(w.rules, local) {
		return here
	}
	return "127.0.0.1,localhost,::1"
}
