package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"tallystick/internal/app/fleet"
)

// An authority makes certificates, in files.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t}
	a.file, _, a.key = a.issue("authority")
	data, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue makes a certificate and its key; the first is the authority's own.
func (a *authority) issue(name string) (certFile, keyFile string, key *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := a.cert, a.key
	if parent == nil {
		made.IsCA, made.BasicConstraintsValid, made.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = made, key
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, key.Public(), signer)
	if err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	return a.pem(name+".crt", "CERTIFICATE", der), a.pem(name+".key", "EC PRIVATE KEY", secret), key
}

func (a *authority) pem(name, kind string, der []byte) string {
	a.Helper()
	file := filepath.Join(a.TempDir(), name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.Fatal(err)
	}
	return file
}

// TestServersWithTLS: a server of one's own with TLS lets in whom it knows, by a
// certificate and a key, and is itself trusted only with a certificate of the
// authority that NATS_CA names.
func TestServersWithTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, certKey, _ := ours.issue("server")
	pair, err := tls.LoadX509KeyPair(cert, certKey)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(ours.cert)
	key, user := newKey(t)
	operator, coordinator := newKey(t)
	s, err := Start(ServerOptions{Listen: "127.0.0.1:0", Dir: t.TempDir(), Workers: []string{user}, Coordinator: coordinator,
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	url := "tls://" + strings.TrimPrefix(strings.TrimPrefix(s.URL(), "nats://"), "tls://")
	good := fleet.Access{CA: ours.file}
	good.Cert, good.CertKey, _ = ours.issue("worker")
	stranger := fleet.Access{CA: ours.file}
	stranger.Cert, stranger.CertKey, _ = theirs.issue("stranger")

	for _, tt := range []struct {
		name   string
		access fleet.Access
		want   string
	}{
		{"as it should be", good, ""},
		{"nothing vouches for the server", fleet.Access{Cert: good.Cert, CertKey: good.CertKey}, "certificate"},
		{"another authority vouches", fleet.Access{CA: theirs.file, Cert: good.Cert, CertKey: good.CertKey}, "certificate"},
		{"no certificate of its own", fleet.Access{CA: ours.file}, "tls"},
		{"a certificate of another authority", stranger, "tls"},
		{"a certificate file that is not there", fleet.Access{CA: ours.file, Cert: "/none", CertKey: good.CertKey}, "/none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			worker, _, err := ConnectAs(url, key, tt.access)
			if err == nil {
				defer worker.Close()
			}
			nc, cerr := ConnectCoordinator(url, operator, tt.access)
			if cerr == nil {
				defer nc.Close()
			}
			if tt.access == good {
				if err != nil || cerr != nil {
					t.Fatalf("the worker: %v; the coordinator: %v", err, cerr)
				}
				if state, err := nc.TLSConnectionState(); err != nil || !state.HandshakeComplete {
					t.Errorf("the connection is not encrypted: %v", err)
				}
				return
			}
			for _, err := range []error{err, cerr} {
				if err == nil || errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, expected %q", err, tt.want)
				}
			}
		})
	}
	if _, _, err := ConnectAs(strings.Replace(url, "tls://", "nats://", 1), key, fleet.Access{}); err == nil {
		t.Error("it was let in without TLS")
	}
}

// TestTheSeedOfAnNkeyLetsIn: a file with a seed alone is as good as NATS credentials.
func TestTheSeedOfAnNkeyLetsIn(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	name, _ := pair.PublicKey()
	seed, _ := pair.Seed()
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Start(ServerOptions{Listen: "127.0.0.1:0", Dir: t.TempDir(), Coordinator: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := ConnectCoordinator(s.URL(), nil, fleet.Access{Creds: file})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	operator, _ := newKey(t)
	if _, err := ConnectCoordinator(s.URL(), operator, fleet.Access{}); err == nil || !strings.Contains(err.Error(), "does not know this key") {
		t.Errorf("another key: %v", err)
	}
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ConnectCoordinator(s.URL(), nil, fleet.Access{Creds: file}); err == nil || !strings.Contains(err.Error(), "neither NATS credentials") {
		t.Errorf("a file with something else: %v", err)
	}
}
