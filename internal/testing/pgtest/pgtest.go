// Package pgtest starts a real PostgreSQL for tests: a server of its own in a
// temporary folder, on a unix socket, with a fresh database for every test.
//
// A test package that uses it stops the server when its tests are done:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestRows(t *testing.T) { db := pgtest.Database(t); … }
//
// The server starts when the first test asks for a database. On a machine
// without PostgreSQL those tests skip and say so. It trusts every process that
// reaches its socket, and unless told otherwise it does not sync: it is not for
// data that must be kept.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// ErrNone says that this machine has no PostgreSQL server that could be started.
var ErrNone = errors.New("there is no PostgreSQL here (Debian package postgresql; programs initdb, postgres, psql)")

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// A Server is a running PostgreSQL.
type Server struct {
	bin    string // folder of its programs
	dir    string // everything it has: data/, s/ (the socket), log
	cmd    *exec.Cmd
	ended  chan struct{}
	number atomic.Int64
}

// Start makes a cluster and starts it. durable keeps fsync and full-page writes on,
// which tests do not need and measurements do.
func Start(durable bool) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	// A socket's path has at most 107 bytes, and TMPDIR may be long.
	dir, err := os.MkdirTemp("/tmp", "tally-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, ended: make(chan struct{})}
	if err := s.start(durable); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) start(durable bool) error {
	attributes, err := ownUser(s.dir)
	if err != nil {
		return err
	}
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "s")
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	// The server makes its socket, so its folder must be its own too.
	mkdir := exec.Command("mkdir", socket)
	mkdir.SysProcAttr, mkdir.Dir = attributes, s.dir
	if out, err := mkdir.CombinedOutput(); err != nil {
		return fmt.Errorf("mkdir: %w: %s", err, bytes.TrimSpace(out))
	}
	args := []string{"-D", data, "-k", socket, "-c", "listen_addresses=", "-c", "max_connections=200"}
	if !durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	if err := s.launch(args, attributes); err != nil {
		return err
	}
	return s.ready()
}

// launch starts the server so that it ends when this process does, however that
// comes about.
func (s *Server) launch(args []string, attributes *syscall.SysProcAttr) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.cmd.SysProcAttr, s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = attributes, s.dir, log, log
	started := make(chan error)
	go func() {
		dieWithParent(s.cmd)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.cmd.Wait()
			close(s.ended)
		}
	}()
	return <-started
}

// ready waits until the server answers.
func (s *Server) ready() error {
	deadline := time.Now().Add(startTimeout)
	for {
		out, err := s.psql("postgres", "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("postgres ended: %s", s.log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Stop()
			return fmt.Errorf("postgres does not answer after %s: %w: %s %s", startTimeout, err, out, s.log())
		}
	}
}

func (s *Server) log() string {
	data, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(bytes.TrimSpace(data))
}

func (s *Server) psql(database, statement string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
		"-h", filepath.Join(s.dir, "s"), "-U", "postgres", "-d", database, "-c", statement)
	out, err := cmd.CombinedOutput()
	return bytes.TrimSpace(out), err
}

// Create makes an empty database and returns its address, as pgx and psql take it.
func (s *Server) Create() (string, error) {
	name := fmt.Sprintf("t%d", s.number.Add(1))
	if out, err := s.psql("postgres", "create database "+name); err != nil {
		return "", fmt.Errorf("create database: %w: %s", err, out)
	}
	query := url.Values{"host": {filepath.Join(s.dir, "s")}, "user": {"postgres"}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: query.Encode()}).String(), nil
}

// Query runs a statement in a database that [Server.Create] made, with psql, and
// returns what it printed: for tests that look behind the program's back.
func (s *Server) Query(address, statement string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	out, err := s.psql(strings.TrimPrefix(u.Path, "/"), statement)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	// SIGINT is PostgreSQL's fast shutdown: sessions are ended, not waited for.
	s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.cmd.Process.Kill()
		<-s.ended
	}
	return os.RemoveAll(s.dir)
}

// programs finds the folder with the server's programs: in PATH, or where Debian
// puts them, the newest version first.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range found {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", ErrNone
}

// version is the number in /usr/lib/postgresql/15/bin, 0 if there is none.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "psql"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.IsDir() {
			return false
		}
	}
	return true
}

// shared is the server of a test program.
var shared struct {
	sync.Mutex
	managed bool // Main will stop it
	tried   bool
	server  *Server
	err     error
}

// Main runs the tests of a package and stops the server afterwards if one of them
// started it. Use it in TestMain.
func Main(m *testing.M) int {
	shared.Lock()
	shared.managed = true
	shared.Unlock()
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return max(code, 1)
		}
	}
	return code
}

// Running returns the server of this test program and starts it if need be. It
// skips the test where there is no PostgreSQL, and fails it if there is one that
// does not start.
func Running(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.managed {
		t.Fatal("pgtest: this package has no TestMain with pgtest.Main, so nothing would stop the server")
	}
	if !shared.tried {
		shared.tried = true
		shared.server, shared.err = Start(false)
	}
	if errors.Is(shared.err, ErrNone) {
		t.Skip("not tested with PostgreSQL: " + shared.err.Error())
	}
	if shared.err != nil {
		t.Fatal("pgtest: ", shared.err)
	}
	return shared.server
}

// Database returns the address of a fresh database for this test.
func Database(t testing.TB) string {
	t.Helper()
	address, err := Running(t).Create()
	if err != nil {
		t.Fatal("pgtest: ", err)
	}
	return address
}
