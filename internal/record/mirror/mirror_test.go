package mirror

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/bucket/s3"
	"tallystick/internal/record/cosign"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/testing/buckettest"
)

func operator(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signersFile(t testing.TB) []byte {
	t.Helper()
	data, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: "olga@example.com", Key: operator(t).Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A machine is a folder with a copy of the ledger, and a memory of its own.
type machine struct {
	testing.TB
	*Mirror
	cfg sequencer.Config
}

// server is what the suite runs against: the one in this process, or the one that
// TALLY_S3_ENDPOINT names.
type server struct {
	*buckettest.Server // nil for one that cannot be told to fail
	address            bucket.Address
}

func startServer(t testing.TB) server {
	t.Helper()
	s := buckettest.Start(t)
	for name, value := range buckettest.Credentials {
		t.Setenv(name, value)
	}
	return server{s, s.Address("team/log")}
}

// anyServer is startServer, or the real server that the environment names.
func anyServer(t testing.TB) server {
	t.Helper()
	endpoint := os.Getenv("TALLY_S3_ENDPOINT")
	if endpoint == "" {
		return startServer(t)
	}
	prefix := fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	return server{nil, bucket.Address{Bucket: os.Getenv("TALLY_S3_BUCKET"), Prefix: prefix, Endpoint: endpoint, Region: "us-east-1"}}
}

// newMachine is a machine that has nothing yet.
func newMachine(t testing.TB, s server) *machine {
	t.Helper()
	dir := t.TempDir()
	b, err := s3.Open(s.address)
	if err != nil {
		t.Fatal(err)
	}
	place := sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state"), Anchors: filepath.Join(dir, "anchors")}
	root := digest.IDOf(signersFile(t))
	m := &machine{TB: t}
	m.Mirror = New(Options{Place: place, Origin: "example.com/evals", TrustRoot: root, Evidence: filepath.Join(dir, "evidence"),
		Checkpoints: filepath.Join(dir, "checkpoints"), Address: s.address, Bucket: b, Lease: 2 * time.Second, Now: time.Now})
	m.cfg = sequencer.Config{Place: place, Origin: "example.com/evals", TrustRoot: root, Key: operator(t), Now: time.Now,
		Vouch: func(context.Context, *ledger.Checkpoint, *ledger.Tree) error { return nil }}
	return m
}

// founder is the machine whose ledger of that many notes was moved to the store.
func founder(t testing.TB, s server, notes int) *machine {
	t.Helper()
	m := newMachine(t, s)
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := sequencer.Create(context.Background(), m.cfg, signersFile(t))
	if err != nil {
		t.Fatal(err)
	}
	m.note(l, notes)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.MoveIn(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) note(l *sequencer.Ledger, n int) {
	m.Helper()
	for i := range n {
		if _, err := l.Append(evidence.NoteKind, fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			m.Fatal(err)
		}
	}
}

// open opens the ledger for writing.
func (m *machine) open(wait time.Duration) (*sequencer.Ledger, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	w, err := m.Begin(ctx)
	if err != nil {
		return nil, err
	}
	cfg := m.cfg
	cfg.Remote = w
	l, err := sequencer.Open(context.Background(), cfg)
	if err != nil {
		w.Close()
	}
	return l, err
}

func (m *machine) mustOpen() *sequencer.Ledger {
	m.Helper()
	l, err := m.open(10 * time.Second)
	if err != nil {
		m.Fatal(err)
	}
	return l
}

func (m *machine) append(n int) {
	m.Helper()
	l := m.mustOpen()
	m.note(l, n)
	if err := l.Close(); err != nil {
		m.Fatal(err)
	}
}

// verified pulls and verifies with every seal.
func (m *machine) verified() *ledger.Verified {
	m.Helper()
	if err := m.Pull(context.Background()); err != nil {
		m.Fatal(err)
	}
	v, err := m.Verify(ledger.Options{Origin: m.Origin, TrustRoot: m.TrustRoot, Decode: true, EverySeal: true})
	if err != nil {
		m.Fatal(err)
	}
	return v
}

func requireRefusal(t testing.TB, err error, name refusal.Name, text string) {
	t.Helper()
	if !refusal.Is(err, name) || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %v, want %s that says %q", err, name, text)
	}
}

func requireSame(t testing.TB, size int64, machines ...*machine) {
	t.Helper()
	first := machines[0].verified()
	if first.Size != size {
		t.Fatalf("%d entries, want %d", first.Size, size)
	}
	for _, m := range machines[1:] {
		if v := m.verified(); v.TreeHead != first.TreeHead || v.Head != first.Head {
			t.Fatalf("machines differ: %v and %v", v.TreeHead, first.TreeHead)
		}
	}
}

func TestMachinesAppendInTurn(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 3)
	b := newMachine(t, s)
	b.append(2)
	a.append(1)
	b.append(4)
	requireSame(t, 1+3+2+1+4, a, b, newMachine(t, s))
}

func TestALongLedgerIsFetchedInRounds(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 40)
	requireSame(t, 41, a, newMachine(t, s))
}

// Two coordinators at once: the lease sends the second one away; without it the
// conditional write does.
func TestTheSecondWriterIsRefused(t *testing.T) {
	s := anyServer(t)
	a, b := founder(t, s, 1), newMachine(t, s)
	// So long that no busy machine sleeps through it.
	a.Lease, b.Lease = time.Minute, time.Minute
	l := a.mustOpen()
	_, err := b.open(50 * time.Millisecond)
	requireRefusal(t, err, refusal.LedgerBusy, "another process writes to the ledger at s3://")
	requireRefusal(t, err, refusal.LedgerBusy, fmt.Sprintf("process %d, since ", os.Getpid()))

	// Another operator removes the lease.
	if err := a.Bucket.Delete(context.Background(), leaseObject); err != nil {
		t.Fatal(err)
	}
	b.append(1)
	_, err = l.Append(evidence.NoteKind, []byte(`{"n":"lost"}`))
	requireRefusal(t, err, refusal.StoreConflict, "first")
	_, again := l.Append(evidence.NoteKind, []byte(`{"n":"lost too"}`))
	requireRefusal(t, again, refusal.StoreConflict, "")
	requireRefusal(t, l.Close(), refusal.StoreConflict, "")
	requireSame(t, 3, b, a, newMachine(t, s))
	a.append(1)
	requireSame(t, 4, a, b)
}

// A holder that sleeps through its lease finds, when it wakes up, that another
// machine went on.
func TestAHolderThatSleptIsRefused(t *testing.T) {
	s := anyServer(t)
	a, b := founder(t, s, 1), newMachine(t, s)
	w, err := a.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w.lease.stop() // it sleeps: no renewal
	<-w.lease.done
	b.append(1) // waits until the lease is up, and takes it over
	l := b.mustOpen()
	requireRefusal(t, w.Commit(2, []byte("x")), refusal.StoreConflict, "was taken over by machine")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	requireSame(t, 3, a, b)
}

func TestACutTailIsRefused(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 3)
	ctx := context.Background()
	if err := a.Bucket.Delete(ctx, batchObject(3)); err != nil {
		t.Fatal(err)
	}
	// By the machine that has the entries.
	requireRefusal(t, a.Pull(ctx), refusal.HistoryRolledBack, "is gone: this machine has the entries 3 to 3")
	// By a fresh folder on a machine with a memory.
	b := newMachine(t, s)
	b.cfg.StateDir = a.StateDir
	_, err := b.open(10 * time.Second)
	requireRefusal(t, err, refusal.HistoryRolledBack, "")
	// By a fresh machine, since nothing vouches.
	c := newMachine(t, s)
	c.cfg.Vouch = nil
	_, err = c.open(10 * time.Second)
	requireRefusal(t, err, refusal.NothingVouches, "nothing vouches that the 3 entries of example.com/evals are all")
	// Reading there works.
	if v := c.verified(); v.Size != 3 {
		t.Errorf("%d entries", v.Size)
	}
}

func TestAHoleIsRefused(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 3)
	ctx := context.Background()
	if err := a.Bucket.Delete(ctx, batchObject(2)); err != nil {
		t.Fatal(err)
	}
	requireRefusal(t, newMachine(t, s).Pull(ctx), refusal.HistoryRolledBack, "is gone, and segments/0000000000000003.log is still there")
}

// Whatever a store makes of a batch, a fresh machine takes nothing over and says
// that the bytes are wrong.
func TestAChangedBatchIsRefused(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 3)
	ctx := context.Background()
	good, err := a.Bucket.Get(ctx, batchObject(2), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := a.Bucket.Put(ctx, batchObject(2), bad); err != nil {
			t.Fatal(err)
		}
		b := newMachine(t, s)
		if err := b.Pull(ctx); refusal.ExitCode(err) != refusal.ExitUnverified {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if have, err := b.localTail(); err != nil || have.size != 0 {
			t.Fatalf("byte %d changed: %d entries were taken over, %v", i, have.size, err)
		}
	}
	// A machine that had it before sees it too.
	l, err := a.Bucket.Get(ctx, batchObject(3), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l[20] ^= 1
	if err := a.Bucket.Put(ctx, batchObject(3), l); err != nil {
		t.Fatal(err)
	}
	requireRefusal(t, a.Pull(ctx), refusal.HistoryForked, "holds other entries than this machine has at 3")
}

func TestAnotherLedgerIsRefused(t *testing.T) {
	s := anyServer(t)
	founder(t, s, 1)
	other := newMachine(t, s)
	other.Origin = "example.com/other"
	requireRefusal(t, other.Pull(context.Background()), refusal.HistoryForked, "holds another ledger")
	nowhere := newMachine(t, s)
	nowhere.Bucket = elsewhere(t, s)
	requireRefusal(t, nowhere.Pull(context.Background()), refusal.NotFound, "there is no ledger at")
}

func elsewhere(t testing.TB, s server) bucket.Bucket {
	t.Helper()
	a := s.address
	a.Prefix += "-elsewhere"
	b, err := s3.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lost answers nothing after the request was done.
func lost(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
	do.ServeHTTP(httptest.NewRecorder(), r)
	buckettest.HangUp(w)
	return true
}

// once lets a fault happen n times, to requests of a method for segments.
func once(n int, method string, f buckettest.Fault) buckettest.Fault {
	var happened atomic.Int64 // requests come side by side
	return func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
		if !buckettest.Names(r, method, "/segments/") || happened.Add(1) > int64(n) {
			return false
		}
		return f(w, r, do)
	}
}

func refuse(status int, code string) buckettest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		buckettest.Refuse(w, status, code)
		return true
	}
}

// What a batch meets on its way, and that it is there once afterwards.
func TestABatchSurvivesWhatTheStoreDoes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault buckettest.Fault
	}{
		{"the answer is lost after it was stored", once(1, http.MethodPut, lost)},
		{"two answers are lost", once(2, http.MethodPut, lost)},
		{"the store is busy", once(2, http.MethodPut, refuse(503, "SlowDown"))},
		{"it races with another conditional write", once(1, http.MethodPut, refuse(409, "ConditionalRequestConflict"))},
		{"an internal error", once(1, http.MethodPut, refuse(500, "InternalError"))},
		{"the connection is cut before it was stored", once(1, http.MethodPut, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
			buckettest.HangUp(w)
			return true
		})},
		{"the answer has another ETag", once(1, http.MethodPut, func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
			do.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("ETag", `"00000000000000000000000000000000"`)
			w.WriteHeader(http.StatusOK)
			return true
		})},
		{"the store says 412 of its own repetition", once(1, http.MethodPut, func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
			do.ServeHTTP(httptest.NewRecorder(), r)
			buckettest.Refuse(w, 412, "PreconditionFailed")
			return true
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			a := founder(t, s, 1)
			l := a.mustOpen()
			s.Fail(tt.fault)
			a.note(l, 1)
			s.Fail(nil)
			a.note(l, 1)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			requireSame(t, 4, a, newMachine(t, s))
		})
	}
}

// A store that cannot be reached poisons the writer; what it was sent and did not
// acknowledge is there or not, and the next opening tells.
func TestAnUnreachableStoreAcknowledgesNothing(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %v", stored), func(t *testing.T) {
			s := startServer(t)
			a := founder(t, s, 1)
			l := a.mustOpen()
			var again atomic.Bool
			s.Fail(func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
				if stored && buckettest.Names(r, http.MethodPut, "/segments/") && !again.Swap(true) {
					return lost(w, r, do)
				}
				buckettest.HangUp(w)
				return true
			})
			_, err := l.Append(evidence.NoteKind, []byte(`{"n":"?"}`))
			requireRefusal(t, err, refusal.StoreUnreachable, "storing segments/0000000000000002.log")
			_, err = l.Append(evidence.NoteKind, []byte(`{"n":"not sent"}`))
			requireRefusal(t, err, refusal.StoreUnreachable, "")
			requireRefusal(t, l.Close(), refusal.StoreUnreachable, "")
			requireRefusal(t, a.Pull(context.Background()), refusal.StoreUnreachable, "")
			s.Fail(nil)
			want := int64(2)
			if stored {
				want++
			}
			requireSame(t, want, a, newMachine(t, s))
			a.append(1) // the lease that could not be given back is taken over
			requireSame(t, want+1, a, newMachine(t, s))
		})
	}
}

func TestACutBodyIsNotTheObject(t *testing.T) {
	s := startServer(t)
	founder(t, s, 3)
	cut := func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
		rec := httptest.NewRecorder()
		do.ServeHTTP(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", fmt.Sprint(rec.Body.Len()))
		w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		buckettest.HangUp(w)
		return true
	}
	s.Fail(once(2, http.MethodGet, cut))
	requireSame(t, 4, newMachine(t, s))
	s.Fail(once(1000, http.MethodGet, cut))
	requireRefusal(t, newMachine(t, s).Pull(context.Background()), refusal.StoreUnreachable, "")
}

// A listing that lags behind hides nothing: batches are asked for by their names.
func TestAStaleListingHidesNothing(t *testing.T) {
	s := startServer(t)
	a := founder(t, s, 3)
	s.Fail(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !r.URL.Query().Has("list-type") {
			return false
		}
		fmt.Fprintf(w, `<ListBucketResult><Name>tally</Name><Prefix></Prefix><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>`)
		return true
	})
	b := newMachine(t, s)
	b.append(1)
	requireSame(t, 5, a, b)
}

// A store that overwrites although it was told not to could fork the ledger.
func TestAStoreWithoutConditionsIsRefused(t *testing.T) {
	s := startServer(t)
	a := founder(t, s, 1)
	s.Fail(func(w http.ResponseWriter, r *http.Request, do http.Handler) bool {
		r.Header.Del("If-None-Match")
		return false
	})
	_, err := a.open(10 * time.Second)
	requireRefusal(t, err, refusal.StoreUnfit, "overwrote an object although it was told not to")
}

// A crash after the store took a batch, and before or while it was written here, is
// healed at the next opening.
func TestACrashAfterTheStoreTookABatchIsHealed(t *testing.T) {
	for _, torn := range []int{0, 1, 40} {
		t.Run(fmt.Sprintf("%d bytes written", torn), func(t *testing.T) {
			s := startServer(t)
			a := founder(t, s, 2)
			b := newMachine(t, s)
			b.append(1)
			batch, err := b.Bucket.Get(context.Background(), batchObject(3), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(a.SegmentsDir(), "0000000000000000.log"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.Write(batch[:torn])
			f.Close()
			a.append(1)
			requireSame(t, 5, a, b)
		})
	}
}

// A folder that went its own way is refused, and nothing in it is overwritten.
func TestAFolderThatIsNotAPrefixIsRefused(t *testing.T) {
	s := startServer(t)
	a, b := founder(t, s, 1), newMachine(t, s)
	b.verified()
	if err := os.Remove(MovedFile(a.Place)); err != nil { // the operator insists
		t.Fatal(err)
	}
	l, err := sequencer.Open(context.Background(), a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.note(l, 1)
	l.Close()
	before, _ := os.ReadFile(filepath.Join(a.SegmentsDir(), "0000000000000000.log"))
	requireRefusal(t, a.Pull(context.Background()), refusal.HistoryRolledBack, "")
	b.append(1)
	requireRefusal(t, a.Pull(context.Background()), refusal.HistoryForked, "")
	after, _ := os.ReadFile(filepath.Join(a.SegmentsDir(), "0000000000000000.log"))
	if !bytes.Equal(before, after) {
		t.Error("the folder was changed")
	}
}

func TestTheFolderOfAMovedLedgerIsNotWritten(t *testing.T) {
	a := founder(t, startServer(t), 1)
	_, err := sequencer.Open(context.Background(), a.cfg)
	requireRefusal(t, err, refusal.LedgerMoved, "the ledger was moved to s3://tally/team/log")
}

func TestMovingOutLeavesATombstone(t *testing.T) {
	s := anyServer(t)
	a, b := founder(t, s, 2), newMachine(t, s)
	b.append(1)
	proof, err := a.MoveOut(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Verify(ledger.Options{Origin: a.Origin, TrustRoot: a.TrustRoot})
	if err != nil || proof.Entries != 4 || proof.Head != v.Head {
		t.Fatalf("%+v, %v", proof, err)
	}
	// The old place takes no more entries, and says where the ledger went.
	_, err = b.open(10 * time.Second)
	requireRefusal(t, err, refusal.LedgerMoved, "was moved to the folder")
	requireRefusal(t, b.Pull(context.Background()), refusal.LedgerMoved, "with 4 entries")
	// The folder does.
	l, err := sequencer.Open(context.Background(), a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.note(l, 1)
	l.Close()
	// It cannot be moved back over the tombstone.
	_, err = a.MoveIn(context.Background(), nil)
	requireRefusal(t, err, refusal.LedgerMoved, "held this ledger before, until it was moved to the folder")
}

// Interrupted after any number of requests, moving can be run again and nothing is
// lost.
func TestMovingCanBeInterruptedAnywhere(t *testing.T) {
	s := startServer(t)
	a := founder(t, s, 3)
	want := a.verified()
	requests := func(limit int) buckettest.Fault {
		var seen atomic.Int64
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
			if seen.Add(1) <= int64(limit) {
				return false
			}
			buckettest.HangUp(w)
			return true
		}
	}
	prefix := s.address
	for limit := 0; ; limit++ {
		if _, err := a.MoveOut(context.Background(), nil); err != nil {
			t.Fatalf("moving out before %d: %v", limit, err)
		}
		prefix.Prefix = fmt.Sprintf("again/%d", limit)
		b, err := s3.Open(prefix)
		if err != nil {
			t.Fatal(err)
		}
		a.Mirror = New(a.Options)
		a.Address, a.Bucket = prefix, b
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		s.Fail(requests(limit))
		_, err = a.MoveIn(ctx, nil)
		s.Fail(nil)
		cancel()
		whole := err == nil
		if !whole {
			if refusal.ExitCode(err) != refusal.ExitFailed {
				t.Fatalf("interrupted after %d requests: %v", limit, err)
			}
			if _, err := a.MoveIn(context.Background(), nil); err != nil {
				t.Fatalf("again after %d requests: %v", limit, err)
			}
		}
		if v := a.verified(); v.TreeHead != want.TreeHead {
			t.Fatalf("after %d requests: %v, want %v", limit, v.TreeHead, want.TreeHead)
		}
		requireSame(t, want.Size, a)
		if whole {
			return
		}
	}
}

// pack puts pieces into a pack of the machine's.
func (m *machine) pack(name string, pieces ...string) (digests []digest.Content) {
	m.Helper()
	p, err := store.CreatePack(store.OS{}, filepath.Join(m.packsDir(), name+packSuffix))
	if err != nil {
		m.Fatal(err)
	}
	defer p.Close()
	for _, piece := range pieces {
		digests = append(digests, p.Put([]byte(piece)))
	}
	return digests
}

// vault is the machine's evidence, with the store behind it.
func (m *machine) vault() *store.Vault {
	v := store.OpenVault(store.OS{}, m.Evidence)
	v.Elsewhere = func(d digest.Content) error { return m.Fetch(context.Background(), d) }
	return v
}

func (m *machine) requirePieces(digests []digest.Content, pieces ...string) {
	m.Helper()
	v := m.vault()
	for i, d := range digests {
		if got, err := v.Get(d, 1<<20); err != nil || string(got) != pieces[i] {
			m.Fatalf("piece %d: %q, %v", i, got, err)
		}
	}
}

func TestEvidenceIsReadByDigestElsewhere(t *testing.T) {
	s := anyServer(t)
	a, b, c := founder(t, s, 1), newMachine(t, s), newMachine(t, s)
	first := a.pack("quick.1", "one", strings.Repeat("two", 1000))
	a.append(1)
	// A pack that grows is stored by what it grew.
	p, err := store.CreatePack(store.OS{}, filepath.Join(a.packsDir(), "quick.2.pack"))
	if err != nil {
		t.Fatal(err)
	}
	l := a.mustOpen()
	grown := []digest.Content{p.Put([]byte("early"))}
	p.Commit()
	a.note(l, 1)
	grown = append(grown, p.Put([]byte("late")))
	p.Close()
	a.note(l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	blob, err := a.vault().Put([]byte("a blob"))
	if err != nil {
		t.Fatal(err)
	}
	a.append(1)
	// Another machine began a pack of the same name, which no entry of the store's names.
	b.pack("quick.2", "of a run that was lost")
	b.append(1)
	for _, m := range []*machine{b, c} {
		m.requirePieces(append(append([]digest.Content{}, grown...), first...), "early", "late", "one", strings.Repeat("two", 1000))
		m.requirePieces([]digest.Content{blob}, "a blob")
	}
	// What was fetched is not stored again.
	before := objects(t, c)
	c.append(1)
	if after := objects(t, c); after != before+1 {
		t.Errorf("%d objects, then %d: want one more, the batch", before, after)
	}
	if _, err := c.vault().Get(digest.ContentOf([]byte("nowhere")), 100); !refusal.Is(err, refusal.NotFound) {
		t.Errorf("a piece that is nowhere: %v", err)
	}
}

func objects(t *testing.T, m *machine) (n int) {
	t.Helper()
	for _, err := range m.Bucket.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// No single changed byte of stored evidence goes unnoticed, and nothing of it gets
// a name here.
func TestChangedEvidenceIsRefused(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 1)
	want := a.pack("quick.1", "one", "two")[1]
	a.append(1)
	ctx := context.Background()
	var object string
	for o, err := range a.Bucket.List(ctx, packsPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		object = o.Name
	}
	good, err := a.Bucket.Get(ctx, object, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 4
		if err := a.Bucket.Put(ctx, object, bad); err != nil {
			t.Fatal(err)
		}
		b := newMachine(t, s)
		_, err := b.vault().Get(want, 100)
		// Every other version is called newer.
		newer := i < bytes.IndexByte(good, '\n') && refusal.Is(err, refusal.NewerFormat)
		if refusal.ExitCode(err) != refusal.ExitUnverified && !newer {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if files, _ := os.ReadDir(b.packsDir()); len(files) > 0 {
			t.Fatalf("byte %d changed: %s is here", i, files[0].Name())
		}
	}
	// A part is missing.
	if err := a.Bucket.Put(ctx, strings.TrimSuffix(object, "0")+"9", good); err != nil {
		t.Fatal(err)
	}
	if err := a.Bucket.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	_, err = newMachine(t, s).vault().Get(want, 100)
	requireRefusal(t, err, refusal.DigestMismatch, "begins at byte 9, and the parts before it end at 0")
	if s.Server != nil {
		s.Fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool { buckettest.HangUp(w); return true })
		_, err = newMachine(t, s).vault().Get(want, 100)
		requireRefusal(t, err, refusal.StoreUnreachable, "")
	}
}

// A name in the store must not become a path here.
func TestAPackCannotClimb(t *testing.T) {
	for folder, ok := range map[string]bool{"quick.1~abcd": true, "..~x": false, ".hidden~x": false, "a/b~x": false, "a~": false, "~x": false, "a": false, "a\\b~x": false, "a~b~c": false} {
		if isPackFolder(folder) != ok {
			t.Errorf("%q: %v", folder, !ok)
		}
	}
}

// Tiles and checkpoint are in the store as they are in the folder, a changed tile is
// refused, and a further publication sends only what is new.
func TestTilesArePublishedToTheStore(t *testing.T) {
	s := anyServer(t)
	a := founder(t, s, 3)
	ctx := context.Background()
	publish := func() {
		t.Helper()
		l := a.mustOpen()
		if _, err := l.PublishAnchor(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Publish(ctx); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	a.append(260)
	publish()
	compared := 0
	err := filepath.WalkDir(a.TilesDir(), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(a.TilesDir(), path)
		here, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		there, err := a.Bucket.Get(ctx, tilesPrefix+filepath.ToSlash(rel), 1<<24)
		if err != nil || !bytes.Equal(here, there) {
			t.Errorf("%s: %v", rel, err)
		}
		compared++
		return nil
	})
	if err != nil || compared < 8 {
		t.Fatalf("%d tiles were compared, %v", compared, err)
	}
	if s.Server != nil {
		s.Counts()
		if err := a.Publish(ctx); err != nil {
			t.Fatal(err)
		}
		if n := s.Counts()[http.MethodPut]; n != 1 {
			t.Errorf("publishing the same again takes %d PUTs, want 1 for the checkpoint", n)
		}
	}
	// A user with the store's credentials removes the checkpoint and changes a
	// tile.
	for _, err := range []error{a.Bucket.Delete(ctx, tilesPrefix+"checkpoint"), a.Bucket.Put(ctx, tilesPrefix+"tile/0/000", []byte("x"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	requireRefusal(t, a.Publish(ctx), refusal.TileMismatch, "holds another tile than the entries give")
}

// docs/store.md says what the store is asked for: who pays by the request counts on
// it.
func TestRequestsAreCounted(t *testing.T) {
	s := startServer(t)
	a := founder(t, s, 1)
	a.Checkpoints = ""
	a.append(1) // what is done once
	requests := func(what string, want map[string]int, do func()) {
		t.Helper()
		s.Counts()
		do()
		got := s.Counts()
		for _, kind := range []string{"GET", "PUT", "LIST", "DELETE"} {
			if got[kind] != want[kind] {
				t.Errorf("%s: %d %s, want %d", what, got[kind], kind, want[kind])
			}
		}
	}
	requests("reading what is up to date", map[string]int{"GET": 3, "LIST": 1}, func() { a.verified() })
	var l *sequencer.Ledger
	requests("opening for writing", map[string]int{"GET": 4, "PUT": 2, "LIST": 1}, func() { l = a.mustOpen() })
	requests("a batch", map[string]int{"PUT": 1}, func() { a.note(l, 1) })
	a.pack("quick.1", "one")
	requests("a batch with evidence", map[string]int{"PUT": 2}, func() { a.note(l, 1) })
	requests("closing", map[string]int{"GET": 1, "DELETE": 1}, func() { l.Close() })
}

// witnessed is a workspace whose settings name witnesses, as [Link] needs it.
func (m *machine) witnessed(witnesses ...workspace.Witness) *Link {
	b := m.Bucket
	return &Link{Workspace: &workspace.Workspace{Dir: filepath.Dir(m.Dir), Settings: workspace.Settings{Version: 1, Origin: m.Origin, TrustRoot: m.TrustRoot, Witnesses: witnesses, Ledger: m.Address.String()}},
		Place: m.Place, Store: func(bucket.Address) (bucket.Bucket, error) { return b, nil }, Lease: m.Lease, Now: time.Now}
}

// startWitness is a witness that knows the operator.
func startWitness(t *testing.T) workspace.Witness {
	t.Helper()
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{9}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := operator(t).Public().Ed25519()
	s, err := cosign.OpenServer(context.Background(), cosign.ServerConfig{Name: "witness.example/w1", Key: key, Dir: t.TempDir(), Now: time.Now,
		Logs: []ledger.LogKey{{Origin: "example.com/evals", Key: pub}}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.Close(); s.Close() })
	return workspace.Witness{URL: h.URL, Key: s.VKey()}
}

// On a fresh machine without an anchor a witness vouches for what it has seen, and
// for nothing else.
func TestAWitnessVouchesOnAFreshMachine(t *testing.T) {
	s := startServer(t)
	a := founder(t, s, 3)
	w := startWitness(t)
	open := func(witnesses ...workspace.Witness) error {
		t.Helper()
		m := newMachine(t, s)
		m.cfg.Vouch = nil
		l, err := m.witnessed(witnesses...).Open(context.Background(), m.cfg, time.Second)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	requireRefusal(t, open(), refusal.NothingVouches, "tally.yaml names no witness")
	requireRefusal(t, open(w), refusal.NothingVouches, "no witness has seen the ledger example.com/evals yet")
	gone := w
	gone.URL = "http://127.0.0.1:1"
	requireRefusal(t, open(gone), refusal.NothingVouches, "no witness could be asked")

	a.append(1)
	l := a.mustOpen()
	client, err := cosign.NewClient(w.URL, w.Key, cosign.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pub, err := l.PublishAnchor(context.Background(), []sequencer.Cosigner{client}); err != nil || len(pub.Failed) > 0 {
		t.Fatal(pub, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(w); err != nil {
		t.Fatal(err)
	}
	// The store is cut to less than the witness has seen.
	for _, first := range []int64{5, 4} {
		if err := a.Bucket.Delete(context.Background(), batchObject(first)); err != nil {
			t.Fatal(err)
		}
	}
	requireRefusal(t, open(w), refusal.HistoryRolledBack, "witness witness.example/w1")
}
