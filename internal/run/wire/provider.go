package wire

import (
	"cmp"
	"fmt"
	"strings"
)

// A Provider is whose servers speak some of the APIs, with what their clients
// take for granted.
type Provider struct {
	Name    string // in providers.yaml and in events
	BaseURL string // of its own servers, as its SDKs take it

	// BasePath is the part of a call's path that the base URL has already.
	BasePath string

	// The variables in which its SDKs look for a base URL and a key.
	BaseEnv []string
	KeyEnv  string

	// Further variables that an agent gets: those with its key again, and those
	// with a value that is always the same.
	MoreKeyEnv []string
	FixedEnv   [][2]string

	// Signed says that requests are signed with a secret ("AWS Signature Version
	// 4"). The client's own signature is not checked: it shows its token as the
	// name of its key.
	Signed bool

	// Version is a header that every request has, with its value; "" if there
	// is none. Its name tells a client of this provider from others.
	Version [2]string

	// KeyHeader carries the key, behind KeyScheme.
	KeyHeader, KeyScheme string

	failure   func(kind, message, code string) Node
	model     func(name string) Node
	modelList func(models []Node, names []string) Node
}

// Providers lists them in the order of their APIs.
func Providers() []*Provider {
	var list []*Provider
	for _, r := range table {
		if p := r.provider; len(list) == 0 || list[len(list)-1] != p {
			list = append(list, p)
		}
	}
	return list
}

// ProviderNames lists the names of [Providers].
func ProviderNames() []string {
	var names []string
	for _, p := range Providers() {
		names = append(names, p.Name)
	}
	return names
}

// ProviderByHeader tells whose client sends a request, by its version header, or
// by the header of its key. The first provider is the one whose SDKs have
// neither of their own.
func ProviderByHeader(header func(name string) string) *Provider {
	list := Providers()
	for _, p := range list[1:] {
		if name := cmp.Or(p.Version[0], p.KeyHeader); name != list[0].KeyHeader && header(name) != "" {
			return p
		}
	}
	return list[0]
}

// Failure is the body of an error. Kind is one of the words that all providers
// use, such as invalid_request_error; code is a name of our own.
func (p *Provider) Failure(kind, message, code string) []byte {
	n := p.failure(kind, message, code)
	return n.AppendJSON(nil)
}

// FailureEvent is an error as an event of a stream, at which SDKs raise one.
func FailureEvent(body []byte) string { return "event: error\ndata: " + string(body) + "\n\n" }

// Model is what a list of models says about one.
func (p *Provider) Model(name string) []byte {
	n := p.model(name)
	return n.AppendJSON(nil)
}

// ModelList lists models by their names.
func (p *Provider) ModelList(names []string) []byte {
	var models []Node
	for _, name := range names {
		models = append(models, p.model(name))
	}
	n := p.modelList(models, names)
	return n.AppendJSON(nil)
}

// TokenCount is what counting the tokens of a request gives. The API must be
// known.
func (a API) TokenCount(n int) []byte { return fmt.Appendf(nil, `{%q:%d}`, a.must().countName, n) }

// FailureMessage is the message of an error in the form of any of the
// providers, "" if the body is not one.
func FailureMessage(body []byte) string {
	n, err := ParseNode(body)
	if err != nil {
		return ""
	}
	if e := n.Get("error"); e != nil {
		return e.Str("message")
	}
	return n.Str("message")
}

// SigningKey is the name of the key with which a request was signed, by its
// Authorization header; "" if that holds no such signature.
func SigningKey(authorization string) string {
	rest, ok := strings.CutPrefix(authorization, "AWS4-HMAC-SHA256 ")
	if !ok {
		return ""
	}
	for _, part := range strings.Split(rest, ",") {
		if scope, ok := strings.CutPrefix(strings.TrimSpace(part), "Credential="); ok {
			key, _, _ := strings.Cut(scope, "/")
			return key
		}
	}
	return ""
}
