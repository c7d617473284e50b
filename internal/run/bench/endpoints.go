package bench

import (
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/loopback"
)

// A ModelEndpoint is a server that two people accept as that of a model. What it does
// not name may be anything, but for four things that must be said to be accepted: that
// the server is local, that certificates of a file vouch for it, and that a proxy
// stands in between.
type ModelEndpoint struct {
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Path   string `json:"path,omitempty"` // any if empty

	Local bool       `json:"local,omitempty"`
	Roots *digest.ID `json:"roots,omitempty"` // of the file of certificates; nil for those of the program
	Proxy string     `json:"proxy,omitempty"`

	Leaf  *digest.ID `json:"leaf,omitempty"`  // pins the certificate
	Chain *digest.ID `json:"chain,omitempty"` // pins all certificates that the server sends
}

// ListsEndpoint reports whether people signed that replies of an endpoint count.
func (r *Registration) ListsEndpoint(e evidence.Endpoint) bool {
	return slices.ContainsFunc(r.ModelEndpoints, func(m ModelEndpoint) bool { return m.covers(e) })
}

func (m *ModelEndpoint) covers(e evidence.Endpoint) bool {
	roots := ""
	if e.Scheme == "https" {
		roots = evidence.ShippedRoots
	}
	if m.Roots != nil {
		roots = m.Roots.String()
	}
	pinned := func(pin *digest.ID, found string) bool { return pin == nil || pin.String() == found }
	return m.Scheme == e.Scheme && m.Host == e.Host && m.Port == e.Port && (m.Path == "" || m.Path == e.Path) &&
		m.Local == e.Local && roots == e.Roots && m.Proxy == e.Proxy && pinned(m.Leaf, e.Leaf) && pinned(m.Chain, e.Chain)
}

// check refuses a spelling that no recording has, which would be a list that counts
// nothing, and a host that is local without the word.
func (m *ModelEndpoint) check(path string) error {
	u := evidence.Endpoint{Scheme: m.Scheme, Host: m.Host, Port: m.Port, Path: m.Path}
	found, err := evidence.EndpointAt(u.URL())
	switch {
	case err != nil:
		return badField(path, "%v", err)
	case found != u:
		return badField(path, "is spelled %s, expected %s", u.URL(), found.URL())
	case loopback.IsLocalName(m.Host) && !m.Local:
		return badField(path+".local", "is not there, and %s is local: expected local: true, which those who sign then see", m.Host)
	case m.Scheme == "http" && (m.Roots != nil || m.Leaf != nil || m.Chain != nil):
		return badField(path, "is http and names certificates, which http does not have")
	}
	return nil
}
