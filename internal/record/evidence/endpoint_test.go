package evidence

import "testing"

func TestOnePlaceHasOneSpelling(t *testing.T) {
	const want = "https://api.example.com:443/v1"
	for _, base := range []string{
		"https://api.example.com/v1", "https://api.example.com/v1/", "https://api.example.com:443/v1", "HTTPS://API.Example.COM/v1", "https://api.example.com./v1",
	} {
		e, err := EndpointAt(base)
		if err != nil || e.URL() != want {
			t.Errorf("%s is %s, %v", base, e.URL(), err)
		}
	}
	for base, want := range map[string]string{
		"http://[::ffff:127.0.0.1]:8080": "http://127.0.0.1:8080", "http://[0:0:0:0:0:0:0:1]/v1": "http://[::1]:80/v1", "http://LOCALHOST.": "http://localhost:80",
		"https://[fe80::1%25eth0]": "https://[fe80::1]:443",
	} {
		if e, err := EndpointAt(base); err != nil || e.URL() != want {
			t.Errorf("%s is %s, %v; want %s", base, e.URL(), err, want)
		}
	}
	same, _ := EndpointAt("https://api.example.com/v1")
	for _, base := range []string{
		"http://api.example.com/v1", "https://api.example.com:8443/v1", "https://api.example.com", "https://api.example.com/v2", "https://api.example.com/v1/proxy",
		"https://api.example.com.evil.example/v1", "https://api-example.com/v1",
	} {
		if e, err := EndpointAt(base); err != nil || e.SamePlace(same) {
			t.Errorf("%s is the same place, %v", base, err)
		}
	}
	for _, base := range []string{"", "api.example.com", "ftp://a", "https://", "https://bücher.example", "https://a b", "https://a:0", "https://a:99999", "mailto:a@b"} {
		if e, err := EndpointAt(base); err == nil {
			t.Errorf("%q is %s", base, e.URL())
		}
	}
}
