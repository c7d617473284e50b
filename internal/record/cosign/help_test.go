package cosign

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

const (
	testOrigin  = "example.com/evals"
	testWitness = "witness.example.com/w1"
)

// testTime is 1778594400 seconds after the epoch.
var testTime = time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC)

// testKey returns the n-th of a fixed row of keys.
func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pub(k *seal.Key) ed25519.PublicKey {
	p, _ := k.Public().Ed25519()
	return p
}

// A testLog is a log that can be made to misbehave.
type testLog struct {
	t      testing.TB
	origin string
	key    *seal.Key
	tree   *ledger.Tree
}

// newLog makes a log of size leaves. Logs with another salt have other leaves
// from index fork on.
func newLog(t testing.TB, size, fork int64, salt string) *testLog {
	t.Helper()
	l := &testLog{t: t, origin: testOrigin, key: testKey(t, 1), tree: &ledger.Tree{}}
	for i := range size {
		leaf := fmt.Sprintf("leaf %d", i)
		if i >= fork {
			leaf += salt
		}
		if err := l.tree.Add(tlog.RecordHash([]byte(leaf))); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func honestLog(t testing.TB, size int64) *testLog { return newLog(t, size, 0, "") }

func (l *testLog) head(size int64) ledger.TreeHead {
	l.t.Helper()
	root, err := l.tree.Root(size)
	if err != nil {
		l.t.Fatal(err)
	}
	return ledger.TreeHead{Origin: l.origin, Size: size, Root: root}
}

// sign makes a checkpoint of whatever head it is given.
func (l *testLog) sign(head ledger.TreeHead) []byte {
	l.t.Helper()
	signer, err := seal.NoteSigner(l.key, l.origin)
	if err != nil {
		l.t.Fatal(err)
	}
	sig, err := signer.Sign([]byte(head.Text()))
	if err != nil {
		l.t.Fatal(err)
	}
	return signedHead{head, []signature{{signer.Name(), signer.KeyHash(), sig}}}.marshal()
}

func (l *testLog) checkpoint(size int64) *ledger.Checkpoint {
	l.t.Helper()
	c, err := ledger.VerifyCheckpoint(l.sign(l.head(size)), ledger.Policy{Logs: []ledger.LogKey{{Origin: l.origin, Key: pub(l.key)}}})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// request is the honest request to go from old to size.
func (l *testLog) request(old, size int64) string {
	l.t.Helper()
	proof, err := l.tree.ProveConsistency(old, size)
	if err != nil {
		l.t.Fatal(err)
	}
	return rawRequest(old, proof, l.sign(l.head(size)))
}

func rawRequest(old int64, proof tlog.TreeProof, checkpoint []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	return b.String() + "\n" + string(checkpoint)
}

// A testServer is a witness and what it told its operator.
type testServer struct {
	*Server
	dir string

	mu        sync.Mutex
	now       time.Time
	conflicts []Conflict
	errors    []error
}

func openTestServer(t testing.TB, dir string, change ...func(*ServerConfig)) *testServer {
	t.Helper()
	s, err := tryTestServer(t, dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func tryTestServer(t testing.TB, dir string, change ...func(*ServerConfig)) (*testServer, error) {
	t.Helper()
	s := &testServer{dir: dir, now: testTime}
	cfg := ServerConfig{
		FS: store.OS{}, Dir: dir, Key: testKey(t, 9), Name: testWitness,
		Logs:      []ledger.LogKey{{Origin: testOrigin, Key: pub(testKey(t, 1))}},
		Now:       func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now },
		Conflicts: func(c Conflict) { s.mu.Lock(); defer s.mu.Unlock(); s.conflicts = append(s.conflicts, c) },
		Errors:    func(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.errors = append(s.errors, err) },
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	var err error
	s.Server, err = OpenServer(ctx, cfg)
	return s, err
}

func (s *testServer) setClock(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = at
}

// post sends a body to a witness in this process.
func post(t testing.TB, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
	return w
}

func mustPost(t testing.TB, h http.Handler, status int, body string) string {
	t.Helper()
	w := post(t, h, body)
	if w.Code != status {
		t.Fatalf("status %d %q, want %d", w.Code, w.Body, status)
	}
	return w.Body.String()
}

// verifyLine checks that a response is one cosignature of that head by the
// test witness, and returns its time.
func verifyLine(t testing.TB, response string, head ledger.TreeHead) time.Time {
	t.Helper()
	own, err := seal.CosignatureVerifier(seal.CosignatureVKey(pub(testKey(t, 9)), testWitness))
	if err != nil {
		t.Fatal(err)
	}
	got, stamp, err := verifyOwn([]byte(head.Text()+"\n"+response), own)
	if err != nil || got != head || strings.Count(response, "\n") != 1 {
		t.Fatalf("response %q: head %v, error %v", response, got, err)
	}
	return stamp
}
