package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// fetch STATUS ANSWER PATH FILE asks the server whose --json answer lies in ANSWER
// for a path, as a browser of the script would, and writes what it says to FILE. The
// path "entrance" is the address that the server printed, token and all. Another
// status than STATUS fails. With ANSWER preceded by "new:" the browser has no cookie
// yet.
func cmdFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: fetch STATUS ANSWER PATH FILE")
	}
	name, fresh := args[1], false
	if len(name) > 4 && name[:4] == "new:" {
		name, fresh = name[4:], true
	}
	var answer struct{ URL string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &answer))
	address, err := url.Parse(answer.URL)
	ts.Check(err)
	if args[2] != "entrance" {
		if address, err = address.Parse(args[2]); err != nil {
			ts.Fatalf("fetch: %v", err)
		}
	}
	client := &http.Client{Jar: jarOf(fresh)}
	resp, err := client.Get(address.String())
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), body, 0o644))
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("fetch %s: %s, want %s: %s", args[2], resp.Status, args[0], body)
	}
}

// jar has the cookies of the scripts' browsers, whose names tell servers apart by port.
var jar, _ = cookiejar.New(nil)

func jarOf(fresh bool) http.CookieJar {
	if fresh {
		none, _ := cookiejar.New(nil)
		return none
	}
	return jar
}
