package wire

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

	// Version is a header that every request has, with its value; "" if there
	// is none. Its name tells a client of this provider from others.
	Version [2]string

	// KeyHeader carries the key, behind KeyScheme.
	KeyHeader, KeyScheme string

	failure   func(kind, message, code string) any
	model     func(name string) any
	modelList func(names []string) any
}

// Providers lists them in the order of their APIs.
func Providers() []*Provider {
	var list []*Provider
	for i := range table {
		if p := table[i].provider; len(list) == 0 || list[len(list)-1] != p {
			list = append(list, p)
		}
	}
	return list
}

// IsProvider reports whether a provider has this name.
func IsProvider(name string) bool {
	return slices.ContainsFunc(table, func(r row) bool { return r.provider.Name == name })
}

// ProviderNames lists the names of [Providers].
func ProviderNames() []string {
	var names []string
	for _, p := range Providers() {
		names = append(names, p.Name)
	}
	return names
}

// ProviderByHeader tells whose client sends a request, by its headers. The
// first provider is the one whose SDKs send none of their own.
func ProviderByHeader(header func(name string) string) *Provider {
	list := Providers()
	for _, p := range list {
		if p.Version[0] != "" && header(p.Version[0]) != "" {
			return p
		}
	}
	return list[0]
}

// Failure is the body of an error. Kind is one of the words that all providers
// use, such as invalid_request_error; code is a name of our own.
func (p *Provider) Failure(kind, message, code string) []byte {
	return encode(p.failure(kind, message, code))
}

// FailureEvent is an error as an event of a stream, at which SDKs raise one.
func FailureEvent(body []byte) string { return "event: error\ndata: " + string(body) + "\n\n" }

// Model and ModelList are what a list of models says.
func (p *Provider) Model(name string) []byte { return encode(p.model(name)) }

// ModelList lists models by their names.
func (p *Provider) ModelList(names []string) []byte { return encode(p.modelList(names)) }

// TokenCount is what counting the tokens of a request gives.
func TokenCount(n int) []byte {
	return encode(struct {
		InputTokens int `json:"input_tokens"`
	}{n})
}

// FailureMessage is the message of an error in the form of any of the
// providers, "" if the body is not one.
func FailureMessage(body []byte) string {
	var doc struct {
		Error jsontext.Value `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &doc) != nil || json.Unmarshal(doc.Error, &inner) != nil {
		return ""
	}
	return inner.Message
}

// encode writes a document of our own.
func encode(doc any) []byte {
	data, err := json.Marshal(doc, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // documents are built from strings and numbers
	}
	return data
}

// eachModel lists models one by one.
func eachModel[T any](names []string, one func(string) T) []T {
	list := make([]T, 0, len(names))
	for _, name := range names {
		list = append(list, one(name))
	}
	return list
}
