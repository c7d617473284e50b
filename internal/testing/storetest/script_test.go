package storetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/cli"
	"tallystick/internal/record/bucket"
	"tallystick/internal/record/bucket/s3"
	"tallystick/internal/testing/buckettest"
	"tallystick/internal/testing/scripttest"
)

// lease is short, so that tests that wait for one to end are too.
const lease = 3 * time.Second

func TestMain(m *testing.M) {
	for name, value := range buckettest.Credentials {
		if os.Getenv(name) == "" { // the server in this process accepts every caller
			os.Setenv(name, value)
		}
	}
	run := func(beyond *cli.Beyond) func() {
		return func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, beyond)) }
	}
	testscript.Main(m, map[string]func(){
		"tally":       run(nil),
		"tally-fleet": run(&cli.Beyond{Remote: s3.Open, Lease: lease}),
	})
}

// TestStoreScripts runs testdata/script/*.txtar. Each begins with a server that is
// empty, or with an unused prefix of the one that TALLY_S3_ENDPOINT names, and with
// $STORE, the address of a ledger there.
func TestStoreScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"clone": cmdClone,
			"exit":  scripttest.Exit,
			"store": cmdStore,
		},
	})
}

// condition knows [fake]: the server is the one in this process, which can be told
// to fail.
func condition(name string) (bool, error) {
	if name != "fake" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return os.Getenv("TALLY_S3_ENDPOINT") == "", nil
}

// address is of a ledger on a server, which cleanup ends; the server is nil if it is
// not in this process.
func address(cleanup func(func())) (*buckettest.Server, bucket.Address, error) {
	if endpoint := os.Getenv("TALLY_S3_ENDPOINT"); endpoint != "" {
		return nil, bucket.Address{Bucket: os.Getenv("TALLY_S3_BUCKET"), Prefix: fmt.Sprintf("scripts/%d", time.Now().UnixNano()), Endpoint: endpoint, Region: "us-east-1"}, nil
	}
	s, err := buckettest.Listen("127.0.0.1:0", cleanup)
	if err != nil {
		return nil, bucket.Address{}, err
	}
	return s, s.Address("team/log"), nil
}

func setup(env *testscript.Env) error {
	server, a, err := address(env.Defer)
	if err != nil {
		return err
	}
	env.Values[serverKey{}] = server
	env.Setenv("STORE", a.String())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		env.Setenv(name, os.Getenv(name))
	}
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state-a"))
	env.Setenv("NO_PROXY", "127.0.0.1,localhost")
	return nil
}

type serverKey struct{}

// clone FROM TO copies a workspace as git would: without .tally.
func cmdClone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: clone FROM TO")
	}
	ts.Check(copyClone(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
}

func copyClone(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case rel == ".tally":
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

// store break TEXT has no request answered whose name holds the text, store mend all
// ends that. store last PREFIX prints nothing and sets $OBJECT to the last object; store rm
// NAME removes one, store flip NAME changes its last byte, store cp NAME COPY copies
// it. They are what a holder of the store's credentials can do.
func cmdStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: store last|rm|flip|cp NAME")
	}
	a, err := bucket.ParseAddress(ts.Getenv("STORE"))
	ts.Check(err)
	b, err := s3.Open(a)
	ts.Check(err)
	ctx := context.Background()
	get := func() []byte {
		data, err := b.Get(ctx, args[1], 1<<30)
		ts.Check(err)
		return data
	}
	switch args[0] {
	case "break": // from now on no request for a name with that text is answered
		ts.Value(serverKey{}).(*buckettest.Server).Fail(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			broken := strings.Contains(r.URL.Path+r.URL.Query().Get("prefix"), args[1])
			if broken {
				buckettest.HangUp(w)
			}
			return broken
		})
	case "mend":
		ts.Value(serverKey{}).(*buckettest.Server).Fail(nil)
	case "last":
		last := ""
		for o, err := range b.List(ctx, args[1], "") {
			ts.Check(err)
			last = o.Name
		}
		if last == "" {
			ts.Fatalf("store: nothing begins with %s", args[1])
		}
		ts.Setenv("OBJECT", last)
	case "rm":
		get()
		ts.Check(b.Delete(ctx, args[1]))
	case "flip":
		data := get()
		data[len(data)-1] ^= 1
		ts.Check(b.Put(ctx, args[1], data))
	case "cp":
		ts.Check(b.Put(ctx, args[2], get()))
	default:
		ts.Fatalf("usage: store last|rm|flip|cp NAME")
	}
}

// A desk is a workspace on a machine of its own.
type desk struct {
	*testing.T
	dir, state, key string
}

func (d *desk) command(args ...string) *exec.Cmd {
	c := exec.Command("tally-fleet", append([]string{"--workspace", d.dir}, args...)...)
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+d.state, "NO_PROXY=127.0.0.1,localhost")
	if d.key != "" {
		c.Env = append(c.Env, "TALLY_OPERATOR_KEY="+d.key)
	}
	return c
}

func (d *desk) run(args ...string) string {
	d.Helper()
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// twoDesks are two machines that share one ledger, with an anchor that both have.
func twoDesks(t *testing.T) (a, b *desk) {
	t.Helper()
	_, at, err := address(t.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a = &desk{T: t, dir: filepath.Join(dir, "a"), state: filepath.Join(dir, "state-a")}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.run("init")
	a.run("ledger", "move", at.String())
	a.run("ledger", "anchor", "publish")
	b = &desk{T: t, dir: filepath.Join(dir, "b"), state: filepath.Join(dir, "state-b"), key: filepath.Join(a.dir, ".tally", "keys", "operator")}
	if err := copyClone(a.dir, b.dir); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// A feeder appends notes to a ledger one by one, as a process that keeps it
// open.
type feeder struct {
	*desk
	cmd    *exec.Cmd
	in     *bufio.Writer
	out    *bufio.Scanner
	errors bytes.Buffer
	close  func() error
}

func (d *desk) feed() *feeder {
	d.Helper()
	f := &feeder{desk: d, cmd: d.command("ledger", "append", "--kind", "note", "--json")}
	in, err := f.cmd.StdinPipe()
	if err != nil {
		d.Fatal(err)
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		d.Fatal(err)
	}
	f.in, f.out, f.close = bufio.NewWriter(in), bufio.NewScanner(out), in.Close
	f.cmd.Stderr = &f.errors
	if err := f.cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { f.cmd.Process.Kill() })
	return f
}

// note appends a note, and reports whether it was acknowledged.
func (f *feeder) note(text string) bool {
	fmt.Fprintf(f.in, "{\"text\":%q}\n", text)
	f.in.Flush()
	return f.out.Scan()
}

func (f *feeder) end() error {
	f.close()
	return f.cmd.Wait()
}

// A machine that is frozen while it holds the lease, and wakes up after another has
// gone on, is refused: nothing is acknowledged, nothing forked.
func TestAFrozenHolderIsRefused(t *testing.T) {
	a, b := twoDesks(t)
	f := a.feed()
	if !f.note("before") {
		t.Fatal(f.errors.String())
	}
	if err := f.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g := b.feed() // waits until the lease is up
	if !g.note("by the other") {
		t.Fatal(g.errors.String())
	}
	if err := g.end(); err != nil {
		t.Fatal(err, g.errors.String())
	}
	if err := f.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if f.note("after") {
		t.Fatal("a note was acknowledged after another machine had gone on")
	}
	if err := f.end(); f.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(f.errors.String(), "StoreConflict") {
		t.Fatalf("%v: %s", err, f.errors.String())
	}
	requireOneLedger(t, a, b, 4) // the first entry, the anchor's, and two notes
}

// Two coordinators at once: one wins, the other is told who.
func TestTwoCoordinators(t *testing.T) {
	a, b := twoDesks(t)
	f := a.feed()
	if !f.note("first") {
		t.Fatal(f.errors.String())
	}
	out, err := b.command("ledger", "anchor", "publish", "--json").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "LedgerBusy") || !strings.Contains(string(out), fmt.Sprintf("process %d, since", f.cmd.Process.Pid)) {
		t.Fatalf("%v: %s", err, out)
	}
	if !f.note("second") {
		t.Fatal(f.errors.String())
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	requireOneLedger(t, a, b, 4)
}

func requireOneLedger(t *testing.T, a, b *desk, entries int) {
	t.Helper()
	said := a.run("ledger", "verify", "--json")
	if other := b.run("ledger", "verify", "--json"); other != said {
		t.Fatalf("the machines differ:\n%s\n%s", said, other)
	}
	if !strings.Contains(said, fmt.Sprintf(`"entries": %d`, entries)) && !strings.Contains(said, fmt.Sprintf(`"entries":%d`, entries)) {
		t.Fatalf("want %d entries: %s", entries, said)
	}
	b.run("ledger", "anchor", "publish")
	for _, d := range []*desk{a, b} {
		if err := copyClone(filepath.Join(b.dir, "audit"), filepath.Join(d.dir, "audit")); err != nil {
			t.Fatal(err)
		}
		d.run("ledger", "verify", "--strict")
	}
}

// Tessera's client and fsck read the tiles from the bucket as any web server's files.
// They are a module of their own, so .ci/conformance s3 asks for this.
func TestTesseraReadsTheBucket(t *testing.T) {
	if os.Getenv("TALLY_TESSERA") == "" || os.Getenv("TALLY_S3_ENDPOINT") != "" {
		t.Skip("TALLY_TESSERA is not set, or the server wants credentials from readers")
	}
	server, err := buckettest.Listen("127.0.0.1:0", t.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := &desk{T: t, dir: filepath.Join(dir, "a"), state: filepath.Join(dir, "state")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.run("init")
	d.run("ledger", "move", server.Address("log").String())
	f := d.feed()
	for i := range 300 {
		if !f.note(fmt.Sprint(i)) {
			t.Fatal(f.errors.String())
		}
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	d.run("ledger", "anchor", "publish")
	var answer struct{ Key string }
	if err := json.Unmarshal([]byte(d.run("ledger", "prove", "0", "-o", filepath.Join(dir, "receipt"), "--json")), &answer); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "test", "-count=1", "-v", "-run", "FromABucket", ".")
	c.Dir = filepath.Join("..", "..", "..", "benchmarks", "tessera")
	c.Env = append(os.Environ(), "TALLY_TILES_URL="+server.Endpoint+"/"+buckettest.BucketName+"/log/tiles/", "TALLY_TILES_KEY="+answer.Key)
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// Two jobs of a CI system, each in a folder that is thrown away afterwards, with a
// state of its own, share one ledger: each clones, runs, and commits its anchor.
func TestThrowAwayJobsShareOneLedger(t *testing.T) {
	a, _ := twoDesks(t)
	key := filepath.Join(a.dir, ".tally", "keys", "operator")
	repo := filepath.Join(t.TempDir(), "repo")
	a.run("bench", "new", "quick", "--light", "--scratch")
	if err := copyClone(a.dir, repo); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		dir := t.TempDir()
		job := &desk{T: t, dir: filepath.Join(dir, "clone"), state: filepath.Join(dir, "state"), key: key}
		if err := copyClone(repo, job.dir); err != nil {
			t.Fatal(err)
		}
		job.run("run", "quick", "--quiet")
		job.run("ledger", "verify", "--strict")
		if log := job.run("log"); strings.Count(log, "quick.default.") != n {
			t.Fatalf("job %d: want %d attempts:\n%s", n, n, log)
		}
		if err := copyClone(filepath.Join(job.dir, "audit"), filepath.Join(repo, "audit")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
