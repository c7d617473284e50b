package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// Rules are the servers that a target lists.
type Rules []Rule

// A Rule is one host with what may be asked of it.
type Rule struct {
	// Host is a name in lower case, or an address. A host that is listed by its
	// address may be reached whatever address that is.
	Host string `json:"host"`

	Scheme  string   `json:"scheme,omitempty"`  // https, if absent, or http
	Ports   []int    `json:"ports,omitempty"`   // the usual one of the scheme, if absent
	Methods []string `json:"methods,omitempty"` // GET and HEAD, if absent
	Paths   []string `json:"paths,omitempty"`   // prefixes that end with a segment; all paths, if absent

	// Addresses may be reached by this name although they are not public.
	Addresses []string `json:"addresses,omitempty"`

	// CAFile has certificates, in PEM, that sign for this host besides the usual ones.
	// It lies in the workspace.
	CAFile string `json:"ca_file,omitempty"`

	Credential *Credential          `json:"credential,omitempty"`
	Ignore     *cassette.HTTPIgnore `json:"ignore,omitempty"`
}

// A Credential is put into the requests to a host, outside the sandbox. The program
// finds a placeholder in the variable.
type Credential struct {
	Env    string `json:"env"`              // of the operator
	Header string `json:"header,omitempty"` // Authorization, if absent
	Prefix string `json:"prefix,omitempty"` // before the credential, as in "Bearer "
}

// InHeader is the header that carries it, in lower case.
func (c *Credential) InHeader() string { return strings.ToLower(cmp.Or(c.Header, "Authorization")) }

// Placeholder is what the program finds in place of the credential.
func (c *Credential) Placeholder() string { return "tally-placeholder-" + c.Env }

var usualPort = map[string]int{"https": 443, "http": 80}

func (r *Rule) scheme() string { return cmp.Or(r.Scheme, "https") }

func (r *Rule) ports() []int {
	if len(r.Ports) == 0 {
		return []int{usualPort[r.scheme()]}
	}
	return r.Ports
}

var safeMethods = []string{"GET", "HEAD"}

func (r *Rule) methods() []string {
	if len(r.Methods) == 0 {
		return safeMethods
	}
	return r.Methods
}

// knownMethods are those that a target may list: of CONNECT and TRACE no recording
// could tell what they did.
var knownMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "REPORT"}

const maxRules = 256

// Validate checks what a file says. The place of what is wrong is that of [strictyaml.At].
func (rs Rules) Validate() error {
	if len(rs) > maxRules {
		return strictyaml.At([]string{"egress"}, fmt.Errorf("%d hosts, expected at most %d", len(rs), maxRules))
	}
	for i := range rs {
		at := func(field string, err error) error {
			if err == nil {
				return nil
			}
			return strictyaml.At([]string{"egress", strconv.Itoa(i), field}, err)
		}
		r := &rs[i]
		for _, check := range []struct {
			field string
			err   error
		}{{"host", r.checkHost()}, {"scheme", r.checkScheme()}, {"ports", r.checkPorts()}, {"methods", r.checkMethods()}, {"paths", r.checkPaths()},
			{"addresses", r.checkAddresses()}, {"ca_file", r.checkCAFile()}, {"credential", r.checkCredential()}, {"ignore", r.checkIgnore()}} {
			if err := at(check.field, check.err); err != nil {
				return err
			}
		}
		for j := range rs[:i] {
			if rs[j].overlaps(r) {
				return at("host", fmt.Errorf("%s is listed twice with the same methods and paths; a request must have one rule", r.Host))
			}
		}
	}
	return nil
}

func (r *Rule) overlaps(o *Rule) bool {
	return r.Host == o.Host && r.scheme() == o.scheme() && slices.Equal(r.ports(), o.ports()) && slices.Equal(r.methods(), o.methods()) && slices.Equal(r.Paths, o.Paths)
}

func (r *Rule) checkHost() error {
	host, err := Host(r.Host)
	switch {
	case err != nil && strings.Contains(r.Host, "*"):
		return fmt.Errorf("found %.80q; hosts are listed one by one, without *", r.Host)
	case err != nil && strings.ContainsAny(r.Host, "/@"):
		return fmt.Errorf("found %.80q, expected a host without scheme, path and user; scheme: and paths: say those", r.Host)
	case err != nil:
		return err
	case host != r.Host:
		return fmt.Errorf("found %.80q, expected it as %s", r.Host, host)
	case wire.SellsModels(host):
		return fmt.Errorf("%s", modelProvider(host))
	}
	return nil
}

// modelProvider is the sentence about hosts of model providers.
func modelProvider(host string) string {
	return host + " is a model provider: ask it through the gateway (the base URLs in the agent's environment), so that budgets, policy and recordings see the call"
}

func (r *Rule) checkScheme() error {
	if usualPort[r.scheme()] == 0 {
		return fmt.Errorf("found %.40q, expected https or http", r.Scheme)
	}
	return nil
}

func (r *Rule) checkPorts() error {
	for i, p := range r.Ports {
		if p < 1 || p > 65535 || slices.Contains(r.Ports[:i], p) {
			return fmt.Errorf("found %d, expected each of 1 to 65535 at most once", p)
		}
	}
	return nil
}

func (r *Rule) checkMethods() error {
	for i, m := range r.Methods {
		if !slices.Contains(knownMethods, m) || slices.Contains(r.Methods[:i], m) {
			return fmt.Errorf("found %.40q, expected each of %s at most once", m, strings.Join(knownMethods, ", "))
		}
	}
	return nil
}

func (r *Rule) checkPaths() error {
	for i, p := range r.Paths {
		clean, err := Path(p)
		if err != nil || clean != p || slices.Contains(r.Paths[:i], p) {
			return fmt.Errorf("found %.80q, expected each path at most once, with a slash first, without query, . and .. segments", p)
		}
	}
	return nil
}

func (r *Rule) checkAddresses() error {
	if _, err := netip.ParseAddr(r.Host); err == nil && len(r.Addresses) > 0 {
		return errors.New("the host is an address itself")
	}
	for _, text := range r.Addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Unmap().WithZone("").String() != text {
			return fmt.Errorf("found %.60q, expected an address as in 10.0.0.5 or fd00::5", text)
		}
	}
	return nil
}

func (r *Rule) checkCAFile() error {
	if r.CAFile != "" && (path.IsAbs(r.CAFile) || path.Clean(r.CAFile) != r.CAFile || strings.HasPrefix(r.CAFile, "..")) {
		return fmt.Errorf("found %.80q, expected a file of the workspace", r.CAFile)
	}
	if r.CAFile != "" && r.scheme() != "https" {
		return errors.New("http has no certificates")
	}
	return nil
}

func (r *Rule) checkCredential() error {
	c := r.Credential
	switch {
	case c == nil:
		return nil
	case !isVariable(c.Env):
		return fmt.Errorf("env: found %.60q, expected the name of a variable", c.Env)
	case !isToken(c.InHeader()) || slices.Contains(reservedHeaders, c.InHeader()):
		return fmt.Errorf("header: found %.60q, expected the name of a header that a server reads a credential from", c.Header)
	case strings.ContainsFunc(c.Prefix, func(c rune) bool { return c < ' ' || c > '~' }):
		return fmt.Errorf("prefix: found %.60q, expected ASCII on one line", c.Prefix)
	case r.scheme() == "http" && !r.onlyLoopback():
		return errors.New("over http every machine on the way reads the credential; use https")
	}
	return nil
}

// onlyLoopback reports whether the host can only be this machine.
func (r *Rule) onlyLoopback() bool {
	addr, err := netip.ParseAddr(r.Host)
	return err == nil && addr.IsLoopback()
}

// reservedHeaders are about a connection or a message, and no credential.
var reservedHeaders = []string{"connection", "content-length", "content-type", "expect", "host", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}

func (r *Rule) checkIgnore() error {
	if r.Ignore == nil {
		return nil
	}
	for _, h := range r.Ignore.Headers {
		if !isToken(h) {
			return fmt.Errorf("headers: found %.60q, expected the name of a header", h)
		}
	}
	for _, list := range [][]string{r.Ignore.Query, r.Ignore.Body} {
		if slices.Contains(list, "") {
			return errors.New("a name is empty")
		}
	}
	return nil
}

func isVariable(name string) bool {
	ok := name != "" && len(name) <= 128
	for i, c := range []byte(name) {
		ok = ok && (c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9')
	}
	return ok
}

// An Unlisted is a request that no rule permits.
type Unlisted struct {
	Method, Scheme, Host string
	Port                 int
	Path                 string
	other                []string // the methods or paths that the host has
}

func (u *Unlisted) Error() string {
	text := fmt.Sprintf("%s %s is not listed in the target", u.Method, u.url())
	if len(u.other) > 0 {
		text += " (it lists " + strings.Join(u.other, "; ") + ")"
	}
	return text + "; add to its egress: " + u.Line()
}

func (u *Unlisted) url() string { return URL(u.Scheme, u.Host, u.Port, u.Path) }

// Line is the line by which a target would permit the request.
func (u *Unlisted) Line() string {
	host := u.Host
	if _, err := netip.ParseAddr(host); err == nil {
		host = strconv.Quote(host) // YAML has other readings of an address
	}
	line := "- {host: " + host
	if u.Scheme != "https" {
		line += ", scheme: " + u.Scheme
	}
	if u.Port != usualPort[u.Scheme] {
		line += ", ports: [" + strconv.Itoa(u.Port) + "]"
	}
	if u.Method != "" && !slices.Contains(safeMethods, u.Method) {
		line += ", methods: [" + u.Method + "]"
	}
	if dir := u.Path[:strings.LastIndexByte(u.Path, '/')+1]; dir != "" && dir != "/" {
		line += ", paths: [" + strconv.Quote(dir) + "]"
	}
	return line + "}"
}

// Find gives the rule of a request. Host and path are in their one spelling.
func (rs Rules) Find(method, scheme, host string, port int, pathOf string) (*Rule, error) {
	unlisted := &Unlisted{Method: method, Scheme: scheme, Host: host, Port: port, Path: pathOf}
	for i := range rs {
		r := &rs[i]
		if r.Host != host || r.scheme() != scheme || !slices.Contains(r.ports(), port) {
			continue
		}
		if slices.Contains(r.methods(), method) && r.covers(pathOf) {
			return r, nil
		}
		other := strings.Join(r.methods(), ", ")
		if len(r.Paths) > 0 {
			other += " of " + strings.Join(r.Paths, ", ")
		}
		unlisted.other = append(unlisted.other, other)
	}
	return nil, unlisted
}

// Lists reports whether any rule is about a host and port, whatever the scheme.
func (rs Rules) Lists(host string, port int) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool { return r.Host == host && slices.Contains(r.ports(), port) })
}

// covers reports whether a path is below one that is listed. A prefix ends where a
// segment does.
func (r *Rule) covers(pathOf string) bool {
	if len(r.Paths) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Paths, func(p string) bool {
		rest, ok := strings.CutPrefix(pathOf, p)
		return ok && (rest == "" || strings.HasSuffix(p, "/") || rest[0] == '/')
	})
}

// ignore is what does not count of requests under the rule.
func (r *Rule) ignore() cassette.HTTPIgnore {
	var ignore cassette.HTTPIgnore
	if r.Ignore != nil {
		ignore = *r.Ignore
	}
	if r.Credential != nil {
		ignore.Headers = append(slices.Clone(ignore.Headers), r.Credential.InHeader())
	}
	return ignore
}

// Environment is what the program finds in place of credentials.
func (rs Rules) Environment() []string {
	var list []string
	for _, r := range rs {
		if c := r.Credential; c != nil {
			list = append(list, c.Env+"="+c.Placeholder())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// HasPort reports whether the rule lists a port.
func (r *Rule) HasPort(port int) bool { return slices.Contains(r.ports(), port) }

// Destination says, for a person to confirm, what may be asked of whom, and with which
// credential.
func (r *Rule) Destination() string {
	var places []string
	for _, port := range r.ports() {
		places = append(places, r.scheme()+"://"+Place(r.scheme(), r.Host, port))
	}
	text := strings.Join(r.methods(), ", ") + " of " + strings.Join(places, ", ")
	if len(r.Paths) > 0 {
		text += " below " + strings.Join(r.Paths, ", ")
	}
	if c := r.Credential; c != nil {
		text += ", with the credential of " + c.Env
	}
	return text
}
