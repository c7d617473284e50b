package operate

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

// made makes a registry with one agent and returns its folder and the agent.
func made(t *testing.T) (registry.Options, string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	// A socket's path is short, and that of a test's folder may not be.
	dir, err := os.MkdirTemp("/tmp", "operate-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := registry.Options{Dir: filepath.Join(dir, "reg"), Lock: 100 * time.Millisecond}
	settings := registry.Default()
	settings.Origin, settings.Operator = "registry.example/log", "olga"
	if _, err := registry.Init(context.Background(), o.Dir, settings); err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := r.Register(context.Background(), registry.SignUp{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return o, agent.Agent.ID
}

// serve opens the registry and answers the operator until the test ends.
func serve(t *testing.T, o registry.Options) *registry.Registry {
	t.Helper()
	r, err := registry.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o.Dir, r, func(w string) { t.Error(w) }) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		r.Close()
	})
	for {
		conn, err := net.Dial("unix", filepath.Join(o.Dir, SocketName))
		if err == nil {
			conn.Close()
			return r
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTheRunningServerDoesIt(t *testing.T) {
	o, agent := made(t)
	serve(t, o)
	a, err := Do(context.Background(), o, Request{Action: Admit, Person: "ada", Agents: []string{agent}})
	if err != nil || !a.Running || !strings.Contains(a.Done, "ada") {
		t.Errorf("%+v %v", a, err)
	}
	a, err = Do(context.Background(), o, Request{Action: RotateKey, Purpose: registry.CredentialPurpose})
	if err != nil || a.Method == "" {
		t.Errorf("%+v %v", a, err)
	}
	for _, tt := range []struct {
		ask  Request
		want refusal.Name
	}{
		{Request{Action: Admit, Person: "bo", Agents: []string{"unknown"}}, refusal.UnknownName},
		{Request{Action: "become root"}, refusal.Usage},
		{Request{Action: TakeDown, Blob: "x", Reason: "privacy"}, refusal.Usage},
		{Request{Action: Revoke, Credential: "x"}, refusal.Usage},
		{Request{Action: RevokeKey, Agent: "unknown"}, refusal.UnknownName},
		{Request{Action: RotateKey, Purpose: "everything"}, refusal.Usage},
	} {
		if _, err := Do(context.Background(), o, tt.ask); !refusal.Is(err, tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.ask, err, tt.want)
		}
	}
}

func TestWithoutAServerTheFolderIsOpened(t *testing.T) {
	o, agent := made(t)
	// What a killed server leaves: a socket without a listener.
	l, err := net.Listen("unix", filepath.Join(o.Dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	a, err := Do(context.Background(), o, Request{Action: Admit, Person: "ada", Agents: []string{agent}})
	if err != nil || a.Running {
		t.Errorf("%+v %v", a, err)
	}
	// The next server takes it away.
	serve(t, o)
	if a, err = Do(context.Background(), o, Request{Action: Remove, Person: "ada"}); err != nil || !a.Running {
		t.Errorf("%+v %v", a, err)
	}
}

func TestAnotherWriterWithoutASocketIsSaid(t *testing.T) {
	o, agent := made(t)
	r, err := registry.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Do(context.Background(), o, Request{Action: Admit, Person: "ada", Agents: []string{agent}}); !refusal.Is(err, refusal.LedgerBusy) {
		t.Errorf("got %v, want %s", err, refusal.LedgerBusy)
	}
}

func TestNonsenseOverTheSocketIsRefused(t *testing.T) {
	o, _ := made(t)
	serve(t, o)
	for _, line := range []string{"hello\n", "{}\n", `{"action":"admit","action":"remove"}` + "\n", `{"action":"admit","more":1}` + "\n", strings.Repeat("x", maxRequest+1) + "\n"} {
		conn, err := net.Dial("unix", filepath.Join(o.Dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(line))
		answer := make([]byte, 4096)
		n, _ := conn.Read(answer)
		conn.Close()
		if n > 0 && !strings.HasPrefix(string(answer[:n]), `{"error":`) {
			t.Errorf("%.40q was answered with %s", line, answer[:n])
		}
	}
}

func TestAPathThatIsTooLongIsSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	warned := ""
	err := Serve(ctx, "/"+strings.Repeat("x", 120), nil, func(w string) { warned = w; cancel() })
	if err != context.Canceled || !strings.Contains(warned, "too long") {
		t.Errorf("%v, %q", err, warned)
	}
}
