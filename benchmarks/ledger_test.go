package benchmarks

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

var figures = flag.Bool("figures", false, "measure; takes about a minute")

const bodyBytes = 2048

// body is a canonical note of bodyBytes.
var body = []byte(`{"pad":"` + strings.Repeat("p", bodyBytes-len(`{"pad":""}`)) + `"}`)

// counting counts what is written to the ledger's files, and apart from them to
// the memory, which is 48 bytes overwritten in place and not synced.
type counting struct {
	store.OS
	ledger, memory *atomic.Int64
}

func (c counting) OpenFile(name string, flag int, perm fs.FileMode) (store.File, error) {
	f, err := c.OS.OpenFile(name, flag, perm)
	if strings.HasSuffix(name, ".head") {
		return countingFile{f, c.memory}, err
	}
	return countingFile{f, c.ledger}, err
}

type countingFile struct {
	store.File
	written *atomic.Int64
}

func (f countingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written.Add(int64(n))
	return n, err
}

func (f countingFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	f.written.Add(int64(n))
	return n, err
}

func key(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newLedger(t testing.TB, fsys store.FS) (*sequencer.Ledger, sequencer.Config) {
	t.Helper()
	dir := t.TempDir()
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{
		{Principals: "olga@example.com", Key: key(t).Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := sequencer.Config{
		Place:  sequencer.Place{FS: fsys, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state")},
		Origin: "example.com/evals", TrustRoot: digest.IDOf(signers), Key: key(t), Now: time.Now,
	}
	l, err := sequencer.Create(context.Background(), cfg, signers)
	if err != nil {
		t.Fatal(err)
	}
	return l, cfg
}

// micros returns how many microseconds f takes: the best of many short rounds,
// so that what other work does to the machine is left out.
func micros(f func()) float64 {
	const rounds, calls = 4000, 4
	best := math.Inf(1)
	for range rounds {
		start := time.Now()
		for range calls {
			f()
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/1e3/calls)
	}
	return best
}

// rate calls f for about d and returns how often a second it could.
func rate(d time.Duration, f func()) float64 {
	start, n := time.Now(), 0
	for time.Since(start) < d {
		f()
		n++
	}
	return float64(n) / time.Since(start).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// TestLedgerFigures prints the figures. It fails where one is missed by so
// much that no noise explains it.
func TestLedgerFigures(t *testing.T) {
	if !*figures {
		t.Skip("run benchmarks/ledger.sh")
	}
	row := func(what string, got float64, unit, floor string, ratio float64, target string) {
		fmt.Printf("%-44s %12.1f %-10s %6.2f × %-42s target %s\n", what, got, unit, ratio, floor, target)
	}
	lone(t, row)
	many(t, row)
	receipts(t, row)
}

type printRow func(what string, got float64, unit, floor string, ratio float64, target string)

// lone measures one writer beside plain appends with fdatasync of as many
// bytes, in turns, so that both meet the same disk.
func lone(t *testing.T, row printRow) {
	var written, remembered atomic.Int64
	l, _ := newLedger(t, counting{ledger: &written, memory: &remembered})
	defer l.Close()
	plain, err := store.OS{}.OpenFile(filepath.Join(t.TempDir(), "plain"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	line := append(bytes.Clone(body), '\n')
	var ours, floor []float64
	var at, entries int64
	before, beforeMemory := written.Load(), remembered.Load()
	for range 5 {
		floor = append(floor, rate(400*time.Millisecond, func() {
			if _, err := plain.WriteAt(line, at); err != nil {
				t.Fatal(err)
			}
			if err := plain.Sync(); err != nil {
				t.Fatal(err)
			}
			at += int64(len(line))
		}))
		ours = append(ours, rate(400*time.Millisecond, func() {
			if _, err := l.Append(evidence.NoteKind, body); err != nil {
				t.Fatal(err)
			}
			entries++
		}))
	}
	row("lone durable append", median(ours), "/s", "plain append+fdatasync of the same bytes", median(ours)/median(floor), "1500/s")
	perAppend := float64(written.Load()-before) / float64(entries)
	both := perAppend + float64(remembered.Load()-beforeMemory)/float64(entries)
	entry := float64(len(evidence.AppendEntry(nil, body, evidence.NoteKind, false, evidence.At(time.Now()))))
	row("bytes written to the ledger by a lone append", perAppend, "bytes", "the body's bytes", perAppend/bodyBytes, "1.1 ×")
	row("  the same and to the memory", both, "bytes", "the entry's bytes", both/entry, "1.1 ×")
	row("  the same", both, "bytes", "the body's bytes", both/bodyBytes, "")
	if perAppend/bodyBytes > 1.1 || both/entry > 1.1 {
		t.Errorf("%.3f bytes are written to the ledger for each byte of a body, %.3f in all for each byte of an entry", perAppend/bodyBytes, both/entry)
	}
}

// many measures 256 writers, and then reading what they wrote.
func many(t *testing.T, row printRow) {
	const writers, each = 256, 400
	l, cfg := newLedger(t, store.OS{})
	var floor, ours []float64
	plain, err := store.OS{}.OpenFile(filepath.Join(t.TempDir(), "plain"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	batch := bytes.Repeat(append(bytes.Clone(body), '\n'), writers)
	var at int64
	for range 3 {
		start := time.Now()
		for range each {
			if _, err := plain.WriteAt(batch, at); err != nil {
				t.Fatal(err)
			}
			if err := plain.Sync(); err != nil {
				t.Fatal(err)
			}
			at += int64(len(batch))
		}
		floor = append(floor, writers*each/time.Since(start).Seconds())
		start = time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if _, err := l.Append(evidence.NoteKind, body); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		ours = append(ours, writers*each/time.Since(start).Seconds())
	}
	row("256 writers, durable", slices.Max(ours), "/s", "plain append+fdatasync of 256 at a time", slices.Max(ours)/slices.Max(floor), "55000/s")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	var all []byte
	segments, err := store.Segments(store.OS{}, cfg.SegmentsDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		data, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	var walk, decode, sha []float64
	var size float64
	verify := func(strict bool) float64 {
		start := time.Now()
		v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot, Decode: strict})
		if err != nil {
			t.Fatal(err)
		}
		size = float64(v.Size)
		return size / time.Since(start).Seconds()
	}
	for range 3 {
		walk = append(walk, verify(false))
		decode = append(decode, verify(true))
		start := time.Now()
		sha256.Sum256(all)
		sha = append(sha, size/time.Since(start).Seconds())
	}
	row("verify, hash walk", slices.Max(walk), "entries/s", "sha256 of the same bytes, one core", slices.Max(walk)/slices.Max(sha), "200000/s")
	row("verify, decoding every entry strictly", slices.Max(decode), "entries/s", "sha256 of the same bytes, one core", slices.Max(decode)/slices.Max(sha), "")
}

// receipts measures a typical receipt in a ledger of a million entries.
func receipts(t *testing.T, row printRow) {
	const n, index = 1_000_000, 654_321
	origin := "example.com/evals"
	entry := evidence.AppendEntry(nil, fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("p", 1120)), evidence.NoteKind, false, evidence.At(time.Now()))
	chain, tree := ledger.NewChain(origin), &ledger.Tree{}
	var pos ledger.Position
	for i := range n {
		content := digest.Content{byte(i), byte(i >> 8), byte(i >> 16)}
		if i == index {
			content = digest.ContentOf(entry)
		}
		p := chain.Append(content)
		if i == index {
			pos = p
		}
		if err := tree.Add(p.Leaf); err != nil {
			t.Fatal(err)
		}
	}
	head := ledger.TreeHead{Origin: origin, Size: n, Root: chain.Root()}
	signer, err := seal.NoteSigner(key(t), origin)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signer.Sign([]byte(head.Text()))
	if err != nil {
		t.Fatal(err)
	}
	h := signer.KeyHash()
	checkpoint := ledger.AssembleCheckpoint(head, append([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}, sig...))
	pub, _ := key(t).Public().Ed25519()
	policy := ledger.Policy{Logs: []ledger.LogKey{{Origin: origin, Key: pub}}}

	var proof tlog.RecordProof
	prove := micros(func() { proof, err = tree.ProveInclusion(n, index) })
	if err != nil {
		t.Fatal(err)
	}
	check := micros(func() { err = tlog.CheckRecord(proof, n, head.Root, index, pos.Leaf) })
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := ledger.NewReceipt(pos, entry, proof, checkpoint).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole := micros(func() { _, err = ledger.VerifyReceipt(receipt, nil, policy) })
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, policy = cosigned(t, head, signer, policy)
	receipt3, err := ledger.NewReceipt(pos, entry, proof, checkpoint).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole3 := micros(func() { _, err = ledger.VerifyReceipt(receipt3, nil, policy) })
	if err != nil {
		t.Fatal(err)
	}
	message := []byte(head.Text())
	alone := micros(func() { ed25519.Verify(pub, message, sig) })
	row("making a proof, 1,000,000 entries", prove, "µs", "checking one signature", prove/alone, "10 µs")
	row("checking it", check, "µs", "checking one signature", check/alone, "10 µs")
	row("verifying a whole receipt", whole, "µs", "checking one signature", whole/alone, "100 µs")
	each := whole3 / float64(1+policy.Quorum)
	row("  with 3 cosignatures, for each signature", each, "µs", "checking one signature", each/alone, "100 µs")
	row("its size", float64(len(receipt)), "bytes", "the entry inside", float64(len(receipt))/float64(len(entry)), "4096")
	if len(receipt) > 4096 {
		t.Errorf("a receipt of %d bytes", len(receipt))
	}
}

// cosigned is the checkpoint of a tree with the cosignatures of three witnesses,
// and a policy that asks for all of them.
func cosigned(t testing.TB, head ledger.TreeHead, log note.Signer, p ledger.Policy) ([]byte, ledger.Policy) {
	t.Helper()
	signers := []note.Signer{log}
	for i := range 3 {
		k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{byte(10 + i)}, ed25519.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("witness%d.example", i)
		signer, err := seal.CosignatureSigner(k, name, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		pub, _ := k.Public().Ed25519()
		verifier, err := seal.CosignatureVerifier(seal.CosignatureVKey(pub, name))
		if err != nil {
			t.Fatal(err)
		}
		signers, p.Witnesses = append(signers, signer), append(p.Witnesses, verifier)
	}
	p.Quorum = len(p.Witnesses)
	signed, err := note.Sign(&note.Note{Text: head.Text()}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return signed, p
}
