//go:build ignore

// Command egress asks as main.py does, for .ci/conformance.d/egress. Go leaves addresses of this machine out of the proxies
// of the environment, so the proxy is named.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

func main() {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	check(err)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	resp, err := client.Get(os.Getenv("BASE") + "/page?a=1")
	check(err)
	show(resp)
	resp, err = client.Post(os.Getenv("BASE")+"/post", "application/json", strings.NewReader(`{"n":1}`))
	check(err)
	show(resp)
}

func show(resp *http.Response) {
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(err)
	fmt.Println(string(data))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
