package provider

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// maxCABytes bounds a file of certificates; all that browsers trust are a quarter of it.
const maxCABytes = 1 << 20

// roots are the certificate authorities that vouch for a server: those that come with
// this program, and those of a file that providers.yaml names. What the machine trusts
// (its own store, SSL_CERT_FILE, SSL_CERT_DIR) plays no part: who may speak for a model
// must not depend on where it was recorded, unless the record says so.
type roots struct {
	more []*x509.Certificate // of the file
	name string              // digest of the file; "" without one
}

// loadRoots reads a file of certificates in PEM; a relative name starts in dir.
func loadRoots(dir, file string) (*roots, error) {
	if file == "" {
		return &roots{}, nil
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	data, err := store.ReadFile(store.OS{}, path, maxCABytes)
	if err != nil {
		return nil, err
	}
	r := &roots{name: digest.IDOf(data).String()}
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, refusal.Newf(refusal.Malformed, "ca_file %s: found a block %q that is not a certificate", file, block.Type).
				WithHint("name a file that has certificates in PEM and nothing else")
		}
		r.more = append(r.more, c)
	}
	if len(r.more) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "ca_file %s: found no certificate, expected one or more in PEM", file).
			WithHint("name a file that has certificates in PEM and nothing else")
	}
	return r, nil
}

// A rootSet is the authorities that come with the program, and how to recognise one.
type rootSet struct {
	pool *x509.CertPool
	has  map[digest.ID]bool
}

// shipped is the list of the Mozilla project, as golang.org/x/crypto has it.
var shipped = sync.OnceValue(func() rootSet {
	set := rootSet{x509.NewCertPool(), map[digest.ID]bool{}}
	for root := range bundle.Roots() {
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // one that this version of Go cannot use vouches for no server
		}
		if root.Constraint == nil {
			set.pool.AddCert(c)
		} else {
			set.pool.AddCertWithConstraint(c, root.Constraint)
		}
		set.has[digest.IDOf(c.Raw)] = true
	}
	return set
})

// pool is what crypto/tls verifies servers against.
func (r *roots) pool() *x509.CertPool {
	pool := shipped().pool.Clone()
	for _, c := range r.more {
		if !shipped().has[digest.IDOf(c.Raw)] { // that would take away its constraint
			pool.AddCert(c)
		}
	}
	return pool
}

// vouching says which authorities a connection was verified by.
func (r *roots) vouching(state *tls.ConnectionState) string {
	for _, chain := range state.VerifiedChains {
		if shipped().has[digest.IDOf(chain[len(chain)-1].Raw)] {
			return evidence.ShippedRoots
		}
	}
	return r.name
}
