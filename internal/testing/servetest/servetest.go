// Package servetest serves a registry in a process of its own, for tests that kill or
// measure it. The registry publishes without judges and has no limits on rates.
package servetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A Registry is a folder, and the process that serves it after [Registry.Start].
type Registry struct {
	Dir         string
	URL, LogKey string    // as the server says them
	Server      *exec.Cmd // the latest

	t            testing.TB
	tally, state string
}

// New makes a registry with a program, which is tally or the path of one.
func New(t testing.TB, tally string) *Registry {
	t.Helper()
	r := &Registry{Dir: filepath.Join(t.TempDir(), "registry"), t: t, tally: tally, state: t.TempDir()}
	r.Run("registry", "init", "--dir", r.Dir, "--origin", "registry.example/log", "--operator", "olga", "--judges", "0")
	settings := filepath.Join(r.Dir, "registry.yaml")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		if name, _, ok := strings.Cut(l, ": "); ok && strings.Contains(name, "_per_") {
			lines[i] = name + ": 100000000"
		}
	}
	if err := os.WriteFile(settings, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// Run runs tally and returns what it prints.
func (r *Registry) Run(args ...string) []byte {
	r.t.Helper()
	cmd := r.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("tally %q: %v\n%s%s", args, err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes()
}

func (r *Registry) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.tally, args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+r.state)
	return cmd
}

// Start starts the server, with a database or its own, and waits until it says where
// it is.
func (r *Registry) Start(db string) {
	r.t.Helper()
	args := []string{"registry", "serve", "--dir", r.Dir, "--listen", "127.0.0.1:0", "--json"}
	if db != "" {
		args = append(args, "--db", db)
	}
	r.Server = r.command(args...)
	r.URL, r.LogKey = Start(r.t, r.Server)
}

// Stop stops the server as systemd does.
func (r *Registry) Stop() {
	r.t.Helper()
	r.Server.Process.Signal(syscall.SIGTERM)
	if err := r.Server.Wait(); err != nil {
		r.t.Fatalf("the server did not stop well: %v\n%s", err, logOf(r.Server))
	}
}

// Log is what the latest server has logged.
func (r *Registry) Log() string { return logOf(r.Server) }

// Start starts any program that prints {"url": …} when it serves. Its log goes to a
// file, so that the process that measures does not carry it.
func Start(t testing.TB, cmd *exec.Cmd) (url, logKey string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL, LogKey string }
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatalf("%q does not serve: %q %v\n%s", cmd.Args, line, err, logOf(cmd))
	}
	return ready.URL, ready.LogKey
}

func logOf(cmd *exec.Cmd) string {
	file, ok := cmd.Stderr.(*os.File)
	if !ok {
		return ""
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Post sends JSON and decodes the answer, if there is one. The API key and the
// idempotency key may be empty.
func (r *Registry) Post(path, apiKey, idempotency string, body, into any) (int, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequest(http.MethodPost, r.URL+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+apiKey)
	}
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, json.NewDecoder(resp.Body).Decode(into)
}
