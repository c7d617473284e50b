package cosign

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// hash is some hash.
func hash(n byte) tlog.Hash { return tlog.Hash(sha256.Sum256([]byte{n})) }

// TestStatusMatrix is C2SP tlog-witness, section "add-checkpoint", row by row.
// The witness has cosigned size 5.
func TestStatusMatrix(t *testing.T) {
	log, forked := honestLog(t, 20), newLog(t, 20, 3, "!")
	stranger := honestLog(t, 20)
	stranger.key = testKey(t, 2)
	other := honestLog(t, 20)
	other.origin = "example.com/other"
	// Signed by the right key, but as another log.
	misnamed := []byte(strings.Replace(string(other.sign(other.head(7))), other.origin+"\n7", testOrigin+"\n7", 1))
	proof, err := log.tree.ProveConsistency(5, 7)
	if err != nil {
		t.Fatal(err)
	}
	longer := append(append(tlog.TreeProof{}, proof...), hash(1))
	wrong := append(tlog.TreeProof{}, proof...)
	wrong[0] = hash(2)
	withLine := func(line string) string { return log.request(5, 7) + line }
	huge := log.head(7)
	huge.Size = 1<<62 + 1
	emptyHead := ledger.TreeHead{Origin: testOrigin, Root: tlog.Hash(sha256.Sum256(nil))}

	for _, tt := range []struct {
		name   string
		body   string
		status int
		answer string // "" for a cosignature or any text
	}{
		{"extends with a proof", log.request(5, 7), 200, ""},
		{"the same again", log.request(5, 5), 200, ""},
		{"an unknown signature beside the log's", withLine("— other.example/x AAAAAAE=\n"), 200, ""},
		{"a forged line under the witness's own name", withLine(string(signature{testWitness, ownID(t), make([]byte, 72)}.appendLine(nil))), 200, ""},

		{"unknown origin", other.request(5, 7), 404, ""},
		{"signed by a stranger", stranger.request(5, 7), 403, ""},
		{"signed as another log", rawRequest(5, proof, misnamed), 403, ""},
		{"text changed after signing", strings.Replace(log.request(5, 7), "\n7\n", "\n8\n", 1), 403, ""},
		{"signed by a stranger and malformed otherwise too", strings.Replace(stranger.request(5, 7), "old 5", "old 9", 1), 403, ""},

		{"old size beyond the checkpoint", strings.Replace(log.request(5, 7), "old 5", "old 8", 1), 400, ""},
		{"old size zero", log.request(0, 7), 409, "5\n"},
		{"old size too small", log.request(4, 7), 409, "5\n"},
		{"old size too large", log.request(6, 7), 409, "5\n"},
		{"replay of an older checkpoint", log.request(3, 4), 409, "5\n"},
		{"replay of an older checkpoint as new", log.request(4, 4), 409, "5\n"},
		{"the empty tree again", rawRequest(0, nil, log.sign(emptyHead)), 409, "5\n"},
		{"same size and another root", forked.request(5, 5), 409, "5\n"},
		{"same size, another root, old size zero", forked.request(0, 5), 409, "5\n"},

		{"a fork with its own proof", forked.request(5, 7), 422, ""},
		{"no proof", rawRequest(5, nil, log.sign(log.head(7))), 422, ""},
		{"a wrong hash in the proof", rawRequest(5, wrong, log.sign(log.head(7))), 422, ""},
		{"a hash too many", rawRequest(5, longer, log.sign(log.head(7))), 422, ""},
		{"a proof where none is needed", rawRequest(5, tlog.TreeProof{hash(1)}, log.sign(log.head(5))), 422, ""},

		{"nothing", "", 400, ""},
		{"no old line", strings.TrimPrefix(log.request(5, 7), "old 5\n"), 400, ""},
		{"old size with a zero in front", strings.Replace(log.request(5, 7), "old 5", "old 05", 1), 400, ""},
		{"old size with a sign", strings.Replace(log.request(5, 7), "old 5", "old +5", 1), 400, ""},
		{"old size below zero", strings.Replace(log.request(5, 7), "old 5", "old -5", 1), 400, ""},
		{"old size beyond 64 bits", strings.Replace(log.request(5, 7), "old 5", "old 99999999999999999999", 1), 400, ""},
		{"two spaces", strings.Replace(log.request(5, 7), "old 5", "old  5", 1), 400, ""},
		{"carriage returns", strings.ReplaceAll(log.request(5, 7), "\n", "\r\n"), 400, ""},
		{"a short hash", strings.Replace(log.request(5, 7), "\n"+proof[0].String(), "\nAAAA", 1), 400, ""},
		{"base64 with stray bits", strings.Replace(log.request(5, 7), proof[0].String(), strayBits(proof[0]), 1), 400, ""},
		{"64 hashes", rawRequest(5, make(tlog.TreeProof, 64), log.sign(log.head(7))), 400, ""},
		{"63 hashes are allowed, and wrong", rawRequest(5, make(tlog.TreeProof, 63), log.sign(log.head(7))), 422, ""},
		{"no checkpoint", "old 5\n\n", 400, ""},
		{"no signature", rawRequest(5, proof, []byte(log.head(7).Text()+"\n")), 400, ""},
		{"an extension line", strings.Replace(log.request(5, 7), "=\n\n— ", "=\nextension\n\n— ", 1), 400, ""},
		{"a line in place of the empty one", strings.Replace(log.request(5, 7), "=\n\n— ", "=\nextension\n— ", 1), 400, ""},
		{"a key name with a plus", withLine("— a+b AAAAAAE=\n"), 400, ""},
		{"a key name with a control character", withLine("— a\x01b AAAAAAE=\n"), 400, ""},
		{"an empty key name", withLine("—  AAAAAAE=\n"), 400, ""},
		{"a key name that is not UTF-8", withLine("— a\xff AAAAAAE=\n"), 400, ""},
		{"no newline at the end", strings.TrimSuffix(log.request(5, 7), "\n"), 400, ""},
		{"a line after the signatures", withLine("more\n"), 400, ""},
		{"the same signature twice", withLine(lastLine(log.request(5, 7))), 400, ""},
		{"101 signatures", withLine(manySignatures(100)), 400, ""},
		{"100 signatures", withLine(manySignatures(99)), 200, ""},
		{"a size that package tlog cannot count to", rawRequest(5, proof, log.sign(huge)), 400, ""},
		{"too large", log.request(5, 7) + strings.Repeat("x", maxBodyBytes), 413, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openTestServer(t, t.TempDir())
			mustPost(t, s, 200, log.request(0, 5))
			w := post(t, s, tt.body)
			if w.Code != tt.status {
				t.Fatalf("status %d %q, want %d", w.Code, w.Body, tt.status)
			}
			if tt.answer != "" && w.Body.String() != tt.answer {
				t.Errorf("answer %q, want %q", w.Body, tt.answer)
			}
			wantType := "text/plain; charset=utf-8"
			if tt.status == 409 {
				wantType = "text/x.tlog.size"
			}
			if got := w.Header().Get("Content-Type"); got != wantType {
				t.Errorf("Content-Type %q, want %q", got, wantType)
			}
			// Whatever was refused has changed nothing, and nothing that was
			// taken keeps the witness from starting again.
			s.Close()
			s = openTestServer(t, s.dir)
			if tt.status != 200 {
				verifyLine(t, mustPost(t, s, 200, log.request(5, 6)), log.head(6))
			}
		})
	}
}

func ownID(t testing.TB) uint32 {
	t.Helper()
	v, err := seal.CosignatureVerifier(seal.CosignatureVKey(pub(testKey(t, 9)), testWitness))
	if err != nil {
		t.Fatal(err)
	}
	return v.KeyHash()
}

// strayBits spells a hash with bits set that decode to nothing.
func strayBits(h tlog.Hash) string {
	text := h.String()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.IndexByte(alphabet, text[42])
	return text[:42] + string(alphabet[at|1]) + text[43:]
}

func lastLine(text string) string {
	return text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]
}

func manySignatures(n int) string {
	var b []byte
	for i := range n {
		b = signature{"x.example", uint32(i), []byte{1}}.appendLine(b)
	}
	return string(b)
}

func TestFirstCheckpoint(t *testing.T) {
	log := honestLog(t, 9)
	wrongEmpty := ledger.TreeHead{Origin: testOrigin, Root: hash(1)}
	empty := ledger.TreeHead{Origin: testOrigin, Root: tlog.Hash(sha256.Sum256(nil))}
	for _, tt := range []struct {
		name   string
		body   string
		status int
	}{
		{"any size from zero", log.request(0, 9), 200},
		{"the empty tree", rawRequest(0, nil, log.sign(empty)), 200},
		{"an empty tree with a root of its own", rawRequest(0, nil, log.sign(wrongEmpty)), 409},
		{"a proof from nothing", rawRequest(0, tlog.TreeProof{hash(1)}, log.sign(log.head(9))), 422},
		{"an old size that was never cosigned", log.request(4, 9), 409},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openTestServer(t, t.TempDir())
			mustPost(t, s, tt.status, tt.body)
			if len(s.conflicts) != 0 || len(s.errors) != 0 {
				t.Errorf("reported %v, %v", s.conflicts, s.errors)
			}
		})
	}
}

func TestOnlyPostToTheOnePath(t *testing.T) {
	s := openTestServer(t, t.TempDir())
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", Path, 405}, {"HEAD", Path, 405}, {"PUT", Path, 405}, {"DELETE", Path, 405},
		{"POST", "/", 404}, {"POST", Path + "/", 404}, {"POST", "/x" + Path, 404}, {"GET", "/", 404},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(honestLog(t, 1).request(0, 1))))
		if w.Code != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, w.Code, tt.status)
		}
	}
	if s.logs[testOrigin].known.Size != 0 {
		t.Error("a refused request was cosigned")
	}
}

func TestGrowthInRandomSteps(t *testing.T) {
	log := honestLog(t, 600)
	s := openTestServer(t, t.TempDir())
	random := rand.New(rand.NewPCG(1, 2))
	steps := 0
	for old, size := int64(0), int64(1); old < 600; old, size = size, min(600, size+1+random.Int64N(7)) {
		stamp := verifyLine(t, mustPost(t, s, 200, log.request(old, size)), log.head(size))
		if !stamp.Equal(testTime) {
			t.Fatalf("size %d: cosigned at %s, want %s", size, stamp, testTime)
		}
		steps++
	}
	if known := s.logs[testOrigin].known; known != log.head(600) {
		t.Errorf("the witness knows %v after %d steps", known, steps)
	}
}

// TestConcurrentRequestsNeverRollBack is the race that C2SP tlog-witness
// describes: many clients push many sizes at once. Whatever the order, the
// sizes cosigned must only grow, and the last one must be on disk.
func TestConcurrentRequestsNeverRollBack(t *testing.T) {
	const top, pushers = 120, 8
	log := honestLog(t, top)
	dir := t.TempDir()
	var mu sync.Mutex
	var written []int64
	// Every write of the state is seen, in order.
	s := openTestServer(t, dir, func(cfg *ServerConfig) {
		cfg.FS = &watchFS{FS: store.OS{}, renamed: func(name string) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
				return
			}
			signed, err := parseSignedHead(data)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			written = append(written, signed.Size)
		}}
	})
	var wg sync.WaitGroup
	for p := range pushers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(p), 7))
			known := int64(0)
			for known < top {
				size := min(top, known+1+random.Int64N(5))
				w := post(t, s, log.request(known, size))
				switch w.Code {
				case 200:
					// The promise: it is on disk before the answer is given.
					mu.Lock()
					durable := len(written) > 0 && written[len(written)-1] >= size
					mu.Unlock()
					if !durable {
						t.Errorf("size %d was answered before it was on disk", size)
						return
					}
					known = size
				case 409:
					n, err := parseSize(strings.TrimSuffix(w.Body.String(), "\n"))
					if err != nil || n < known {
						t.Errorf("knew %d, the witness now says %q", known, w.Body)
						return
					}
					known = n
				default:
					t.Errorf("status %d %q", w.Code, w.Body)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(written); i++ {
		if written[i] <= written[i-1] {
			t.Fatalf("rolled back: %d was written after %d", written[i], written[i-1])
		}
	}
	if last := written[len(written)-1]; last != top {
		t.Errorf("the last size on disk is %d, want %d", last, top)
	}
}

// watchFS tells of each file that gets its final name.
type watchFS struct {
	store.FS
	renamed func(name string)
	fail    error // of Rename
}

func (w *watchFS) Rename(from, to string) error {
	if w.fail != nil {
		return w.fail
	}
	err := w.FS.Rename(from, to)
	if err == nil && w.renamed != nil && strings.HasSuffix(to, ".checkpoint") {
		w.renamed(to)
	}
	return err
}

func TestRestartKeepsState(t *testing.T) {
	dir, log, forked := t.TempDir(), honestLog(t, 12), newLog(t, 12, 2, "!")
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 8))
	s.Close()
	// What a killed process may leave beside the state must not matter.
	if err := os.WriteFile(s.logs[testOrigin].path+".123.tmp", []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}

	s = openTestServer(t, dir)
	if got := mustPost(t, s, 409, log.request(0, 9)); got != "8\n" {
		t.Errorf("after a restart the witness knows %q, want 8", got)
	}
	mustPost(t, s, 422, forked.request(8, 9))
	mustPost(t, s, 409, forked.request(8, 8))
	verifyLine(t, mustPost(t, s, 200, log.request(8, 12)), log.head(12))
}

func TestUnwrittenStateIsNotCosigned(t *testing.T) {
	dir, log := t.TempDir(), honestLog(t, 9)
	fsys := &watchFS{FS: store.OS{}}
	s := openTestServer(t, dir, func(cfg *ServerConfig) { cfg.FS = fsys })
	mustPost(t, s, 200, log.request(0, 5))
	fsys.fail = errors.New("the disk is on fire")
	if body := mustPost(t, s, 500, log.request(5, 9)); strings.Contains(body, "—") || strings.Contains(body, "fire") {
		t.Errorf("answer %q holds a cosignature, or tells a stranger about the disk", body)
	}
	if len(s.errors) != 1 || !strings.Contains(s.errors[0].Error(), "fire") {
		t.Errorf("the operator was told %v", s.errors)
	}
	fsys.fail = nil
	if got := mustPost(t, s, 409, log.request(9, 9)); got != "5\n" {
		t.Errorf("the witness knows %q, want 5", got)
	}
	mustPost(t, s, 200, log.request(5, 9))
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openTestServer(t, dir)
	if _, err := tryTestServer(t, dir); !refusal.Is(err, refusal.LedgerBusy) {
		t.Errorf("got %v, want LedgerBusy", err)
	}
	s.Close()
	openTestServer(t, dir)
}

func TestLoadRefusesForgedState(t *testing.T) {
	dir, log, forked := t.TempDir(), honestLog(t, 9), newLog(t, 9, 2, "!")
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 5))
	s.Close()
	path := s.logs[testOrigin].path
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	otherWitness := openTestServer(t, t.TempDir(), func(cfg *ServerConfig) { cfg.Key = testKey(t, 8) })
	mustPost(t, otherWitness, 200, log.request(0, 5))

	for name, data := range map[string][]byte{
		"empty":                      {},
		"only signed by the log":     forked.sign(forked.head(5)),
		"cut":                        good[:len(good)-1],
		"another root":               bytes.Replace(good, []byte(log.head(5).Root.String()), []byte(forked.head(5).Root.String()), 1),
		"a smaller size":             bytes.Replace(good, []byte("\n5\n"), []byte("\n4\n"), 1),
		"of another witness":         otherWitness.logs[testOrigin].note,
		"larger than a checkpoint":   append(bytes.Clone(good), make([]byte, maxBodyBytes)...),
		"with a line after the last": append(bytes.Clone(good), "x\n"...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := tryTestServer(t, dir)
			if err == nil {
				s.Close()
				t.Fatal("forged state was taken")
			}
			want := refusal.MemoryDamaged
			if name == "larger than a checkpoint" {
				want = refusal.TooLarge
			}
			if !refusal.Is(err, want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	openTestServer(t, dir)
}

// TestLoadRefusesTheStateOfAnotherLog: the file of one log, copied over that of
// another, is cosigned by the witness and all the same not its memory.
func TestLoadRefusesTheStateOfAnotherLog(t *testing.T) {
	dir, a, b := t.TempDir(), honestLog(t, 5), honestLog(t, 5)
	b.origin = "example.com/b"
	both := func(cfg *ServerConfig) {
		cfg.Logs = append(cfg.Logs, ledger.LogKey{Origin: b.origin, Key: pub(b.key)})
	}
	s := openTestServer(t, dir, both)
	mustPost(t, s, 200, a.request(0, 5))
	mustPost(t, s, 200, b.request(0, 2))
	s.Close()
	if err := os.WriteFile(s.logs[testOrigin].path, s.logs[b.origin].note, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryTestServer(t, dir, both); !refusal.Is(err, refusal.MemoryDamaged) {
		t.Errorf("got %v, want MemoryDamaged", err)
	}
}

// TestNoSingleBitOfTheStateMayChange flips each bit of the state file. What
// loads all the same must be the same state: only the log's own signature is
// not looked at again.
func TestNoSingleBitOfTheStateMayChange(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	log := honestLog(t, 5)
	s := openTestServer(t, t.TempDir())
	mustPost(t, s, 200, log.request(0, 5))
	l := s.logs[testOrigin]
	own, err := seal.CosignatureVerifier(s.VKey())
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(l.note) * 8 {
		data := bytes.Clone(l.note)
		data[at/8] ^= 1 << (at % 8)
		head, stamp, err := verifyOwn(data, own)
		if err == nil && (head != l.known || !stamp.Equal(l.stamp)) {
			t.Fatalf("bit %d of byte %d may change: %q gives %v", at%8, at/8, data, head)
		}
	}
}

func TestLogKeyCanBeRotated(t *testing.T) {
	dir, log := t.TempDir(), honestLog(t, 9)
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 5))
	s.Close()

	rotated := honestLog(t, 9)
	rotated.key = testKey(t, 3)
	s = openTestServer(t, dir, func(cfg *ServerConfig) {
		cfg.Logs = []ledger.LogKey{{Origin: testOrigin, Key: pub(rotated.key)}}
	})
	mustPost(t, s, 403, log.request(5, 9))
	mustPost(t, s, 409, rotated.request(0, 9))
	mustPost(t, s, 200, rotated.request(5, 9))
}

func TestSeveralLogsAndKeys(t *testing.T) {
	a, b, second := honestLog(t, 9), honestLog(t, 9), honestLog(t, 9)
	b.origin, b.key = "example.com/b", testKey(t, 4)
	second.key = testKey(t, 5)
	s := openTestServer(t, t.TempDir(), func(cfg *ServerConfig) {
		for _, l := range []*testLog{b, second, second} {
			k, err := ParseLog(seal.VKey(pub(l.key), l.origin))
			if err != nil {
				t.Fatal(err)
			}
			cfg.Logs = append(cfg.Logs, k)
		}
	})
	mustPost(t, s, 200, a.request(0, 5))
	mustPost(t, s, 200, b.request(0, 2))
	mustPost(t, s, 200, second.request(5, 7))
	// The key of one log is not the key of another.
	crossed := honestLog(t, 9)
	crossed.key = b.key
	mustPost(t, s, 403, crossed.request(7, 9))
}

// TestForksAreKept: two roots at one size are proof and go to forks, each
// once; a wrong proof proves nothing and goes elsewhere.
func TestForksAreKept(t *testing.T) {
	dir, log, forked := t.TempDir(), honestLog(t, 9), newLog(t, 9, 3, "!")
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 5))
	// Whatever it claims to extend, it is a fork, and the same one.
	for _, old := range []int64{0, 5, 4} {
		mustPost(t, s, 409, forked.request(old, 5))
		mustPost(t, s, 422, forked.request(5, 7))
	}
	if len(s.conflicts) != 2 || len(s.errors) != 0 {
		t.Fatalf("reported %v and %v, want one fork and one suspect", s.conflicts, s.errors)
	}
	fork, suspect := s.conflicts[0], s.conflicts[1]
	if !fork.Proven || suspect.Proven || filepath.Dir(fork.Path) != filepath.Join(dir, "forks") || filepath.Dir(suspect.Path) != filepath.Join(dir, "suspects") {
		t.Errorf("fork %+v, suspect %+v", fork, suspect)
	}
	block := fork.String()
	for _, want := range []string{"SECURITY ERROR\n", testOrigin, "size 5", log.head(5).Root.String(), forked.head(5).Root.String(), fork.Path} {
		if !strings.Contains(block, want) {
			t.Errorf("%q is not in:\n%s", want, block)
		}
	}
	if strings.Contains(suspect.String(), "SECURITY ERROR") {
		t.Errorf("a wrong proof is called a fork: %s", suspect)
	}

	// A stranger to both can check the proof with the log's key alone.
	data, err := os.ReadFile(fork.Path)
	if err != nil {
		t.Fatal(err)
	}
	var doc kept
	if err := canon.UnmarshalCanonical(bytes.TrimSuffix(data, []byte("\n")), &doc); err != nil {
		t.Fatal(err)
	}
	policy := ledger.Policy{Logs: []ledger.LogKey{{Origin: testOrigin, Key: pub(log.key)}}}
	known, err := ledger.VerifyCheckpoint([]byte(doc.Known), policy)
	if err != nil {
		t.Fatal(err)
	}
	offered, err := ledger.VerifyCheckpoint([]byte(doc.Offered), policy)
	if err != nil {
		t.Fatal(err)
	}
	if known.Size != offered.Size || known.Root == offered.Root {
		t.Errorf("kept %v and %v, which is not a fork", known, offered)
	}
}

func TestKeptConflictsAreBounded(t *testing.T) {
	dir, log := t.TempDir(), honestLog(t, 2)
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 2))
	offer := func(n int) {
		head := log.head(2)
		head.Root = tlog.Hash(sha256.Sum256(fmt.Append(nil, n)))
		mustPost(t, s, 409, rawRequest(2, nil, log.sign(head)))
	}
	for n := range maxKept + 5 {
		offer(n)
	}
	count := func() int {
		entries, err := os.ReadDir(filepath.Join(dir, "forks"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if n := count(); n != maxKept || len(s.conflicts) != maxKept || len(s.errors) != 1 {
		t.Errorf("%d files, %d reports, %d errors; want %d, %d, 1", n, len(s.conflicts), len(s.errors), maxKept, maxKept)
	}
	s.Close()
	s = openTestServer(t, dir)
	offer(maxKept + 9)
	if n := count(); n != maxKept {
		t.Errorf("%d files after a restart, want %d", n, maxKept)
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	dir, log := t.TempDir(), honestLog(t, 9)
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 3))
	// A small step back is overruled.
	s.setClock(testTime.Add(-time.Minute))
	if stamp := verifyLine(t, mustPost(t, s, 200, log.request(3, 4)), log.head(4)); !stamp.Equal(testTime) {
		t.Errorf("cosigned at %s, want %s", stamp, testTime)
	}
	// A large one stops the witness, also over a restart.
	s.setClock(testTime.Add(-time.Hour))
	mustPost(t, s, 500, log.request(4, 5))
	if len(s.errors) != 1 || refusal.Of(s.errors[0]).Hint == "" {
		t.Errorf("the operator was told %v", s.errors)
	}
	s.Close()
	s = openTestServer(t, dir)
	s.setClock(testTime.Add(-time.Hour))
	mustPost(t, s, 500, log.request(4, 5))
	s.setClock(testTime.Add(time.Second))
	if stamp := verifyLine(t, mustPost(t, s, 200, log.request(4, 5)), log.head(5)); !stamp.Equal(testTime.Add(time.Second)) {
		t.Errorf("cosigned at %s", stamp)
	}
	// The same tree later is a new statement, and remembered as one.
	s.setClock(testTime.Add(time.Hour))
	mustPost(t, s, 200, log.request(5, 5))
	s.Close()
	s = openTestServer(t, dir)
	if !s.logs[testOrigin].stamp.Equal(testTime.Add(time.Hour)) {
		t.Errorf("after a restart the last cosignature is of %s", s.logs[testOrigin].stamp)
	}
}

func TestStateFilesArePrivate(t *testing.T) {
	dir, log, forked := t.TempDir(), honestLog(t, 5), newLog(t, 5, 1, "!")
	s := openTestServer(t, dir)
	mustPost(t, s, 200, log.request(0, 5))
	mustPost(t, s, 409, forked.request(5, 5))
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files++
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil || files != 3 {
		t.Errorf("%d files, error %v; want the lock, the checkpoint and the fork", files, err)
	}
}

func TestOpenServerRefusesWrongSettings(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*ServerConfig)
	}{
		{"no log", func(cfg *ServerConfig) { cfg.Logs = nil }},
		{"a name with a space", func(cfg *ServerConfig) { cfg.Name = "my witness" }},
		{"no name", func(cfg *ServerConfig) { cfg.Name = "" }},
		{"an origin that no checkpoint has", func(cfg *ServerConfig) { cfg.Logs[0].Origin = "Example.com" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := tryTestServer(t, dir, tt.change); !refusal.Is(err, refusal.Usage) {
				t.Errorf("got %v, want Usage", err)
			}
			openTestServer(t, dir) // the lock was given back
		})
	}
}

func TestParseLogRefuses(t *testing.T) {
	good := seal.VKey(pub(testKey(t, 1)), testOrigin)
	k, err := ParseLog(good)
	if err != nil || k.Origin != testOrigin || !bytes.Equal(k.Key, pub(testKey(t, 1))) {
		t.Fatalf("%v, %v", k, err)
	}
	weak := make([]byte, 32)
	for name, text := range map[string]string{
		"a witness's key": seal.CosignatureVKey(pub(testKey(t, 1)), testOrigin),
		"another name":    strings.Replace(good, "evals", "other", 1),
		"a capital":       seal.VKey(pub(testKey(t, 1)), "Example.com"),
		"a weak key":      seal.VKey(weak, testOrigin),
		"only base64":     base64.StdEncoding.EncodeToString(pub(testKey(t, 1))),
		"nothing":         "",
	} {
		if _, err := ParseLog(text); err == nil {
			t.Errorf("%s was taken for the key of a log", name)
		}
	}
}

func TestAbortedBodyIsRefused(t *testing.T) {
	s := openTestServer(t, t.TempDir())
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, Path, &failingReader{})
	s.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("status %d, want 400", w.Code)
	}
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, errors.New("gone") }
