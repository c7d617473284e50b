package bucket

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// An Address says where a bucket is: s3://bucket/prefix?endpoint=…&region=…
// It never holds credentials: those are the machine's.
type Address struct {
	Bucket   string
	Prefix   string // "" or without a slash at either end
	Endpoint string // URL of the server; "" for that of AWS
	Region   string // "" for us-east-1
}

// ParseAddress reads an address in its one accepted spelling.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Address{}, fmt.Errorf("%q is not an address", text)
	case u.Scheme != "s3":
		return Address{}, fmt.Errorf("%q does not begin with s3://", text)
	case u.User != nil:
		return Address{}, errors.New("the address holds a name or password: credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the AWS credentials file")
	case u.Host == "" || u.Port() != "":
		return Address{}, fmt.Errorf("%q names no bucket: s3://bucket/prefix", text)
	case u.Fragment != "":
		return Address{}, fmt.Errorf("%q holds a fragment", text)
	}
	a := Address{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if a.Prefix != "" && path.Clean(a.Prefix) != a.Prefix || strings.ContainsAny(a.Prefix, "\\*?") {
		return Address{}, fmt.Errorf("the prefix %q is not a plain path", a.Prefix)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, err)
	}
	for key, values := range query {
		switch {
		case len(values) != 1 || values[0] == "":
			return Address{}, fmt.Errorf("%q: %s needs one value", text, key)
		case key == "endpoint":
			a.Endpoint = values[0]
		case key == "region":
			a.Region = values[0]
		default:
			return Address{}, fmt.Errorf("%q: %q is not known, expected endpoint or region", text, key)
		}
	}
	return a, a.checkEndpoint()
}

func (a Address) checkEndpoint() error {
	if a.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(a.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("endpoint %q is not http(s)://HOST or http(s)://HOST:PORT", a.Endpoint)
	}
	return nil
}

// String spells the address as it stands in tally.yaml.
func (a Address) String() string {
	text := "s3://" + a.Bucket + "/" + (&url.URL{Path: a.Prefix}).EscapedPath()
	var query []string
	if a.Endpoint != "" {
		query = append(query, "endpoint="+a.Endpoint) // holds nothing that means something here
	}
	if a.Region != "" {
		query = append(query, "region="+url.QueryEscape(a.Region))
	}
	if len(query) > 0 {
		text += "?" + strings.Join(query, "&")
	}
	return text
}
