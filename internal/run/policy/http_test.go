package policy

import "testing"

// An agent chooses the path of a request. It is allowed by an entry for requests, and by
// no tool that its end looks like.
func TestAPathIsNotAnAllowedTool(t *testing.T) {
	p := Policy{Mode: Restricted, Allow: []string{"read_file", "http:GET api.example.com/v1/*", "http:* b.example/exact", "http:GET c.example*"}, Deny: []string{"http:* api.example.com/v1/admin/*"}}
	for name, want := range map[string]Check{
		"read_file":                                              Allowed,
		"http:GET api.example.com/v1/search":                     Allowed,
		"http:POST api.example.com/v1/search":                    Denied,
		"http:GET api.example.com/v2":                            Denied,
		"http:GET api.example.com.evil.com/v1":                   Denied,
		"http:GET api.example.com/v1/admin/x":                    Denied,
		"http:DELETE b.example/exact":                            Allowed,
		"http:DELETE b.example/exactly":                          Denied,
		"http:GET c.example.evil.com/":                           Denied,
		"http:GET evil.example/__read_file":                      Denied,
		"http:GET evil.example/x__http:GET api.example.com/v1/a": Denied,
		"read_file__http:GET api.example.com/v1/a":               Denied,
	} {
		if got := p.Check(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
