package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// leafLife is how long a certificate of the proxy is valid, and skew how far the clock
// of a program may be behind.
const (
	leafLife = 10 * time.Minute
	skew     = 5 * time.Minute
)

// An Authority signs for the proxy of one case. Its key is in memory only and ends with
// the case; its certificate is for the listed hosts and no other.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
	now  func() time.Time

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewAuthority makes the authority of a case that lasts at most so long.
func NewAuthority(rules Rules, life time.Duration, now func() time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority of the case: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Tallystick egress of one case"},
		NotBefore: now().Add(-skew), NotAfter: now().Add(life + leafLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 0, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, PermittedDNSDomainsCritical: true,
	}
	constrain(template, rules)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority of the case: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority of the case: %w", err)
	}
	return &Authority{cert: cert, key: key, now: now, leaves: map[string]*tls.Certificate{}, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// constrain binds a certificate to the listed hosts. A kind of name of which none is
// listed has to be bound too: without a constraint all of it would be permitted.
func constrain(c *x509.Certificate, rules Rules) {
	for _, r := range rules {
		if addr, err := netip.ParseAddr(r.Host); err == nil {
			bits := addr.BitLen()
			c.PermittedIPRanges = append(c.PermittedIPRanges, &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, bits)})
		} else if !slices.Contains(c.PermittedDNSDomains, r.Host) {
			c.PermittedDNSDomains = append(c.PermittedDNSDomains, r.Host)
		}
	}
	if len(c.PermittedDNSDomains) == 0 {
		c.PermittedDNSDomains = []string{"none.invalid"}
	}
	if len(c.PermittedIPRanges) == 0 {
		c.ExcludedIPRanges = []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	}
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil { // rand.Reader never fails
		panic(err)
	}
	return n.Add(n, big.NewInt(1))
}

// PEM is the certificate of the authority.
func (a *Authority) PEM() []byte { return a.pem }

// leaf is the certificate for a host, made when it is first needed and again before it
// ends.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := a.leaves[host]; kept != nil && a.now().Add(leafLife/2).Before(kept.Leaf.NotAfter) {
		return kept, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "egress"}, NotBefore: a.now().Add(-skew), NotAfter: a.now().Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.leaves[host] = &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: made}
	return a.leaves[host], nil
}
