package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/testing/terminal"
)

// --write is for one person at a terminal of this machine.
func TestWriteIsForOnePersonAtATerminal(t *testing.T) {
	l := talks(t)
	key := l.path(".tally/keys/example-alice")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--key", key}, "--key is for --write"},
		{[]string{"--write"}, "--write needs --key FILE or --gpg KEY"},
		{[]string{"--write", "--key", key, "--gpg", "x"}, "--write needs --key FILE or --gpg KEY"},
		{[]string{"--write", "--key", key, "--public", "--token-file", key}, "not with --public"},
		{[]string{"--write", "--key", key, "--bundle", l.path("site")}, "not with --bundle"},
		{[]string{"--write", "--key", key, "--agent-asks"}, "expected the .pub file"},
		{[]string{"--write", "--key", key}, "there is none"},
	} {
		code, out, errs := l.run(append([]string{"view", "--no-open"}, tt.args...)...)
		if code != 2 || out != "" || !strings.Contains(errs, tt.says) {
			t.Errorf("%q: exit %d, %s%s; want %q", tt.args, code, out, errs, tt.says)
		}
	}
	if out := l.atTerminal(80, "view", "--no-open", "--write", "--key", key, "--listen", "0.0.0.0:0"); !strings.Contains(out, "loopback") {
		t.Errorf("an address of the network: %s", out)
	}
}

// What the browser wished for is shown at the terminal, and signed after a y there.
func TestASignatureOfTheBrowserIsAskedForAtTheTerminal(t *testing.T) {
	l := talks(t)
	person, program := terminal.Open(t, 50, 100)
	seen := make(chan string, 1000)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			if err != nil {
				return
			}
			seen <- string(buf[:n])
		}
	}()
	var all string
	waitFor := func(pattern string) []string {
		t.Helper()
		for {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(all); m != nil {
				return m
			}
			select {
			case s := <-seen:
				all += s
			case <-time.After(2 * time.Minute):
				t.Fatalf("never seen: %s\n%s", pattern, all)
			}
		}
	}
	ended := make(chan int)
	env := newEnv(program, program, program, l.getenv)
	go func() {
		ended <- newProgram(env).main([]string{"--workspace", l.dir, "view", "--no-open", "--write", "--key", l.path(".tally/keys/example-alice")})
	}()
	m := waitFor(`(http://127\.0\.0\.1:\d+)(/\?token=[\w-]+)`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(path string) string {
		t.Helper()
		answer, err := browser.Get(m[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return string(body)
	}
	get(m[2])
	for _, answer := range []string{"n", "y"} {
		sent := url.Values{"label": {"pass"}, "note": {"read it twice"}}
		for _, f := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(get("/review/attempt/"+talk1+"/case/steers"), -1) {
			sent.Set(f[1], f[2])
		}
		req, err := http.NewRequest("POST", m[1]+"/review/do", bytes.NewReader([]byte(sent.Encode())))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", m[1])
		all = ""
		reply, err := browser.Do(req)
		if err != nil || reply.StatusCode != 200 {
			t.Fatalf("the form: %v %v", reply, err)
		}
		reply.Body.Close()
		waitFor(`signs    example-alice: the label pass for steers of talks\.default\.1\s+sign it\? \[y/N\] `)
		if strings.Contains(all, "\x1b[2J") || !strings.Contains(all, "note     read it twice") {
			t.Errorf("the terminal shows %q", all)
		}
		if _, err := person.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		waitFor(map[string]string{"n": `not signed`, "y": `steers: pass, signed by example-alice, entry \d+`}[answer])
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil { // Ctrl-C, which main listens to
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("it ended with %d: %s", code, all)
	}
	if _, out, _ := l.run("review", talk1, "--report"); !strings.Contains(out, "labelled   1 of 3") {
		t.Errorf("the report says %s", out)
	}
}
