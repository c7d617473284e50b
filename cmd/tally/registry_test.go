package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// registry address puts the address of a registry that is yet to be made into
// $REGISTRY: it is part of its settings. registry DIR [FLAG]... serves it there until
// the script ends, or until registry stop, which wants a clean end. It logs to
// serve.log.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: registry address, registry DIR [FLAG]..., registry stop")
	}
	s := ts.Value(servedRegistry{}).(*servedRegistry)
	switch args[0] {
	case "address":
		address, err := freeAddress()
		ts.Check(err)
		ts.Setenv("REGISTRY", "http://"+address)
	case "stop":
		ts.Check(s.stop())
	default:
		s.start(ts, args[0], args[1:])
	}
}

// A servedRegistry is the server of one script.
type servedRegistry struct{ cmd *exec.Cmd }

func (s *servedRegistry) start(ts *testscript.TestScript, dir string, flags []string) {
	if s.cmd != nil {
		ts.Fatalf("registry: one is served already")
	}
	program := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "tally")
	address := strings.TrimPrefix(ts.Getenv("REGISTRY"), "http://")
	cmd := exec.Command(program, append([]string{"registry", "serve", "--json", "--listen", address, "--dir", dir}, flags...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "GOCOVERDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	log, err := os.Create(ts.MkAbs("serve.log"))
	ts.Check(err)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s.cmd = cmd
	ts.Defer(func() { s.kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	var ready struct{ URL string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil || ready.URL == "" {
		ts.Fatalf("registry: it said %q (%v) and: %s", line, err, ts.ReadFile("serve.log"))
	}
}

func (s *servedRegistry) stop() error {
	cmd := s.cmd
	if s.cmd = nil; cmd == nil {
		return errors.New("no registry is served")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return cmd.Wait()
}

func (s *servedRegistry) kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

// TestRegistryPage does what docs/registry.md says and compares what is printed
// with what the page shows.
func TestRegistryPage(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"curl", "jq", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the page needs %s", program)
		}
	}
	blocks, err := readPage("docs/registry.md")
	if err != nil {
		t.Fatal(err)
	}
	// The port of the page may be taken here.
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("127.0.0.1:7390", address, "127.0.0.1%3A7390", strings.Replace(address, ":", "%3A", 1))
	for i := range blocks {
		b := &blocks[i]
		if b.file == "" && len(b.commands) == 0 {
			t.Fatalf("%s:%d: a block that is neither a file nor commands", b.page, b.line)
		}
		for j := range b.commands {
			c := &b.commands[j]
			c.text = here.Replace(c.text)
			for k := range c.want {
				c.want[k] = here.Replace(c.want[k])
			}
		}
	}
	// This program is tally when it is called so ([TestMain]).
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tally := filepath.Join(t.TempDir(), "tally")
	if err := os.Symlink(self, tally); err != nil {
		t.Fatal(err)
	}
	w := &agentWorkspace{t: t, tally: tally, state: t.TempDir()}
	w.runShell(t.TempDir(), blocks)
}

// freeAddress is an address of this machine on which no server listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
