package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// A yard is a workspace in which a ledger grew, with everything that tells how long it
// became.
type yard struct {
	testing.TB
	dir     string
	cfg     sequencer.Config
	signers []byte // version 1
	clock   time.Time
	cuts    []cut             // where it can be cut
	remains map[string]remain // what tells of it, by path
}

// A cut is a ledger as it once was: its segment, and how much of the whole it has.
type cut struct {
	name   string
	log    []byte
	common int64 // entries that are the whole ledger's too
	fork   bool  // others follow these
}

// A remain is a file that tells how long the ledger was.
type remain struct {
	data []byte
	size int64
}

const segmentOne = ".tally/ledger/segments/0000000000000000.log"

func newYard(t testing.TB) *yard {
	t.Helper()
	y := &yard{TB: t, dir: t.TempDir(), clock: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), remains: make(map[string]remain)}
	y.signers = y.people(1, digest.ID{}, 1)
	y.cfg = sequencer.Config{Place: y.place(y.dir), Origin: "example.com/evals", TrustRoot: digest.IDOf(y.signers), Key: key(t, 1), Now: func() time.Time { return y.clock }}
	y.must(os.MkdirAll(y.cfg.Dir, 0o700))
	return y
}

func (y *yard) place(dir string) sequencer.Place {
	return sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, ".tally/ledger"), StateDir: filepath.Join(dir, "state"), Anchors: filepath.Join(dir, "audit/anchors"),
		Checkpoints: filepath.Join(dir, ".tally/checkpoints")}
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

// people is a version of the signers file: two who may change it, and an operator.
func (y *yard) people(version int, before digest.ID, operator byte) []byte {
	y.Helper()
	data, err := seal.Compose(version, before, []seal.Entry{
		{Principals: "alice", Key: key(y, 11).Public(), Roles: []seal.Role{seal.Curator}},
		{Principals: "bob", Key: key(y, 12).Public(), Roles: []seal.Role{seal.Curator, seal.Security}},
		{Principals: "olga", Key: key(y, operator).Public(), Roles: []seal.Role{seal.Operator}},
	})
	y.must(err)
	return data
}

// notes appends so many entries in one batch, or few.
func (y *yard) notes(l *sequencer.Ledger, n int, text string) {
	y.Helper()
	var waiting []*sequencer.Pending
	for i := range n {
		body, err := canon.Marshal(map[string]string{"text": fmt.Sprint(text, i)})
		y.must(err)
		waiting = append(waiting, l.Submit(evidence.NoteKind, body))
	}
	for _, p := range waiting {
		_, err := p.Wait()
		y.must(err)
	}
}

func (y *yard) publish(l *sequencer.Ledger) *sequencer.Published {
	y.Helper()
	pub, err := l.PublishAnchor(context.Background(), nil)
	y.must(err)
	y.clock = y.clock.Add(24 * time.Hour)
	y.gather(filepath.Join(y.cfg.Dir, "tiles"), ".tally/ledger/tiles", pub.Anchor.Size)
	y.gather(y.cfg.Anchors, "audit/anchors", pub.Anchor.Size)
	return pub
}

func (y *yard) log() []byte {
	y.Helper()
	data, err := os.ReadFile(filepath.Join(y.dir, segmentOne))
	y.must(err)
	return data
}

func (y *yard) mark(l *sequencer.Ledger, name string) {
	y.cuts = append(y.cuts, cut{name: name, log: y.log(), common: l.Tip().Size})
}

// grow writes the ledger: two days, between which the operator's key changes, and more
// entries than a tile has. Then it gathers what tells of its end.
func (y *yard) grow() {
	y.Helper()
	l, err := sequencer.Create(context.Background(), y.cfg, y.signers)
	y.must(err)
	y.mark(l, "after the first entry")
	y.notes(l, 3, "first day ")
	y.mark(l, "before anything was published")
	y.publish(l)
	y.mark(l, "after the first anchor")
	y.fork()
	next := y.people(2, digest.IDOf(y.signers), 2)
	change := &evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, n := range []byte{11, 12} {
		sig, err := seal.SignWith(key(y, n).Signer(), seal.NamespaceSigners, next)
		y.must(err)
		change.Signatures = append(change.Signatures, string(sig))
	}
	p, err := l.SubmitOperator(change, key(y, 2))
	y.must(err)
	_, err = p.Wait()
	y.must(err)
	y.mark(l, "after the operator changed")
	y.notes(l, 270, "second day ")
	pub := y.publish(l)
	y.mark(l, "at its end")
	y.must(l.Close())

	size := pub.Anchor.Size
	y.remains[fmt.Sprintf(".tally/checkpoints/%d.checkpoint", size)] = remain{[]byte(pub.Anchor.Checkpoint), size}
	receipt := y.receipt(pub)
	y.remains["sent/receipts/two.txt"] = remain{receipt, size}
	advice, err := json.Marshal(map[string]any{"schema": "tallystick-recommendation/1-draft", "receipts": map[int64]string{2: string(receipt)}})
	y.must(err)
	y.remains[".tally/recommendations/fix-9.json"] = remain{advice, size}
}

// fork goes on from here in another way, as long as the ledger becomes, with the key
// that the operator has now.
func (y *yard) fork() {
	y.Helper()
	other := *y
	other.dir = y.TempDir()
	other.cfg.Place = other.place(other.dir)
	y.must(os.MkdirAll(other.cfg.SegmentsDir(), 0o700))
	y.must(os.WriteFile(filepath.Join(other.dir, segmentOne), y.log(), 0o600))
	l, err := sequencer.Open(context.Background(), other.cfg)
	y.must(err)
	common := l.Tip().Size
	other.notes(l, 280, "another history ")
	y.must(l.Close())
	y.cuts = append(y.cuts, cut{"after the first anchor, where another history follows", other.log(), common, true})
}

// gather notes the files that were not there before, or are other ones now.
func (y *yard) gather(from, to string, size int64) {
	y.Helper()
	y.must(fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(from, path))
		if before, there := y.remains[to+"/"+path]; !there || !bytes.Equal(before.data, data) {
			y.remains[to+"/"+path] = remain{data, size}
		}
		return err
	}))
}

// receipt proves entry 2 in the tree that was published last.
func (y *yard) receipt(pub *sequencer.Published) []byte {
	y.Helper()
	tree, proved, raw := &ledger.Tree{}, ledger.Position{}, []byte{}
	_, err := y.cfg.Verify(ledger.Options{TrustRoot: y.cfg.TrustRoot, Visit: func(r ledger.Record) error {
		if r.Index == 2 {
			proved, raw = r.Position, bytes.Clone(r.Raw)
		}
		return tree.Add(r.Leaf)
	}})
	y.must(err)
	proof, err := tree.ProveInclusion(pub.Anchor.Size, 2)
	y.must(err)
	text, err := ledger.NewReceipt(proved, raw, proof, []byte(pub.Anchor.Checkpoint)).Marshal()
	y.must(err)
	return text
}

// kinds are the kinds of what remains of a ledger, by what their paths match.
var kinds = []struct{ name, paths string }{
	{"tiles", "/tiles/tile/[0-9]"}, {"bundles", "/tiles/tile/entries"}, {"the checkpoint of the tiles", "/tiles/checkpoint"},
	{"anchors", "audit/anchors"}, {"an answer of a witness", "/checkpoints/"}, {"receipts", "receipts|recommendations"},
}

// Whatever is left of tiles, checkpoints, anchors, witnesses' answers and receipts, alone
// or together, refuses a ledger that was cut before its end, or written anew from some
// point on; both verifiers say so, and nothing is appended to it. With nothing left there
// is nothing to see.
func TestWhateverRemainsRefusesATruncatedLedger(t *testing.T) {
	y := newYard(t)
	y.grow()
	second := newSecondVerifier(t, y)
	// Each kind with each other, and each file alone.
	left := make(map[string][]string)
	for mask := range 1 << len(kinds) {
		var names, paths []string
		for i, k := range kinds {
			if mask&(1<<i) == 0 {
				continue
			}
			names = append(names, k.name)
			for path := range y.remains {
				if regexp.MustCompile(k.paths).MatchString(path) {
					paths = append(paths, path)
				}
			}
		}
		left[fmt.Sprint(names)] = paths
	}
	for path := range y.remains {
		left[path] = []string{path}
	}
	top := t.TempDir()
	for _, c := range y.cuts {
		for name, paths := range left {
			name = fmt.Sprintf("cut %s, left are %s", c.name, name)
			ws := filepath.Join(top, fmt.Sprint(len(second.names)))
			y.lay(ws, c, paths)
			y.try(name, ws, c, paths)
			second.ask(name, ws, y.exit(c, paths))
		}
	}
	second.compare()
}

// tells is how many entries the files tell of. A checkpoint promises the tiles of its
// tree; missing says that they are not there.
func (y *yard) tells(paths []string) (size int64, missing bool) {
	for _, path := range paths {
		size = max(size, y.remains[path].size)
	}
	if !slices.Contains(paths, ".tally/ledger/tiles/checkpoint") {
		return size, false
	}
	for path, r := range y.remains {
		if strings.Contains(path, "/tile/") && r.size == y.remains[".tally/ledger/tiles/checkpoint"].size && !slices.Contains(paths, path) {
			missing = true
		}
	}
	return size, missing
}

// exit is how a verifier must end.
func (y *yard) exit(c cut, paths []string) int {
	if size, missing := y.tells(paths); size > c.common || missing {
		return refusal.ExitUnverified
	}
	return 0
}

// try asks our own verifier, and whether the ledger could be appended to.
func (y *yard) try(name, ws string, c cut, paths []string) {
	y.Helper()
	item := Path(ws, Trust{Root: y.cfg.TrustRoot})
	if got, want := refusal.ExitCode(item.Err()), y.exit(c, paths); got != want {
		y.Errorf("%s: tally-verify ends with %d, want %d: %s", name, got, want, item.Detail)
	}
	// Before each entry tiles are not compared one by one, nor are receipts looked for.
	size := int64(0)
	for _, path := range paths {
		if !strings.Contains(path, "receipt") && !strings.Contains(path, "recommendations") {
			size = max(size, y.remains[path].size)
		}
	}
	if size <= c.common || c.fork {
		return
	}
	if err := y.append(ws); refusal.ExitCode(err) != refusal.ExitUnverified {
		y.Errorf("%s: an entry could be appended: %v", name, err)
	}
}

// lay lays out a workspace with a ledger that was cut and some of what remains.
func (y *yard) lay(ws string, c cut, paths []string) {
	y.Helper()
	files := map[string][]byte{segmentOne: c.log}
	for _, path := range paths {
		files[path] = y.remains[path].data
	}
	for path, data := range files {
		path = filepath.Join(ws, path)
		y.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)))
	}
}

// append tries to open the ledger for writing on a machine that remembers nothing.
func (y *yard) append(ws string) error {
	cfg := y.cfg
	cfg.Place = y.place(ws)
	cfg.FindKey = func(*seal.Signers) *seal.Key { return key(y, 2) }
	l, err := sequencer.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	return l.Close()
}

// A secondVerifier is docs/formats/verify.py, asked about many ledgers at once.
type secondVerifier struct {
	testing.TB
	python, script, signers string
	names, folders          []string
	want                    []int
}

func newSecondVerifier(t testing.TB, y *yard) *secondVerifier {
	t.Helper()
	s := &secondVerifier{TB: t, signers: filepath.Join(t.TempDir(), "signers")}
	y.must(os.WriteFile(s.signers, y.signers, 0o600))
	var err error
	if s.python, err = exec.LookPath("python3"); err != nil {
		t.Log("python3 is not in PATH; docs/formats/verify.py is not tried")
		return s
	}
	s.script, err = filepath.Abs("../../../docs/formats/verify.py")
	y.must(err)
	_, err = os.ReadFile(s.script) // tells the test cache when it changes
	y.must(err)
	return s
}

func (s *secondVerifier) ask(name, folder string, want int) {
	s.names, s.folders, s.want = append(s.names, name), append(s.folders, folder), append(s.want, want)
}

// askMany runs the program once for all folders. What it computes of the same bytes, it
// computes once.
const askMany = `
import contextlib, functools, importlib.util, io, json, sys
spec = importlib.util.spec_from_file_location("verify", sys.argv[1])
verify = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify)
for name in ("ed25519_verify", "blake3", "parse_entry"):
    setattr(verify, name, functools.lru_cache(None)(getattr(verify, name)))
walk, walked = verify.walk, {}
def walk_once(segments, signers, anchored=False):
    by = tuple(verify.read(path) for path in sorted(segments.values())), signers, anchored
    if by not in walked:
        walked[by] = walk(segments, signers, anchored)
    return walked[by]
verify.walk = walk_once
signers = sys.argv[2]
for folder in json.load(sys.stdin):
    sys.argv, said, code = ["verify.py", "ledger", "--signers", signers, folder], io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = verify.main() or 0
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, said.getvalue()]))
`

func (s *secondVerifier) compare() {
	s.Helper()
	if s.script == "" {
		return
	}
	folders, err := json.Marshal(s.folders)
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(s.python, "-I", "-B", "-c", askMany, s.script, s.signers)
	cmd.Stdin = bytes.NewReader(folders)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(s.folders) {
		s.Fatalf("verify.py answered %d times, asked were %d: %s", len(lines), len(s.folders), out)
	}
	for i, line := range lines {
		var answer [2]any
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			s.Fatalf("%v: %s", err, line)
		}
		if answer[0] != float64(s.want[i]) {
			s.Errorf("%s: verify.py ends with %v, want %d: %v", s.names[i], answer[0], s.want[i], answer[1])
		}
	}
}
