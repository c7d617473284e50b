package cosign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
)

var _ sequencer.Cosigner = (*Client)(nil)

func testVKey(t testing.TB) string {
	t.Helper()
	return seal.CosignatureVKey(pub(testKey(t, 9)), testWitness)
}

// newTestClient returns a client of h, and counts the requests it makes.
func newTestClient(t testing.TB, h http.Handler, o ClientOptions) (*Client, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL, testVKey(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return c, &requests
}

func TestClientCatchesTheWitnessUp(t *testing.T) {
	log := honestLog(t, 300)
	s := openTestServer(t, t.TempDir())
	for _, tt := range []struct {
		size, known int64
		requests    int64
	}{
		{1, 0, 1},
		{1, 0, 2},     // asks where the witness is, then again from there
		{1, 1, 1},     // knows
		{7, 1, 1},     // grows from what it knows
		{130, 0, 2},   // forgot
		{131, 64, 2},  // remembers wrongly
		{300, 999, 2}, // remembers more than there is
		{300, 300, 1},
	} {
		c, requests := newTestClient(t, s, ClientOptions{Known: tt.known})
		line, err := c.Cosign(context.Background(), log.checkpoint(tt.size), log.tree)
		if err != nil {
			t.Fatalf("size %d knowing %d: %v", tt.size, tt.known, err)
		}
		verifyLine(t, string(line), log.head(tt.size))
		if requests.Load() != tt.requests || c.Known() != tt.size {
			t.Errorf("size %d knowing %d: %d requests, want %d; now knows %d", tt.size, tt.known, requests.Load(), tt.requests, c.Known())
		}
	}
	// One client, used on.
	c, requests := newTestClient(t, openTestServer(t, t.TempDir()), ClientOptions{})
	for size := range int64(20) {
		if _, err := c.Cosign(context.Background(), log.checkpoint(size+1), log.tree); err != nil {
			t.Fatal(err)
		}
	}
	if requests.Load() != 20 {
		t.Errorf("%d requests for 20 checkpoints", requests.Load())
	}
}

// TestClientCosignsIntoAVerifiedCheckpoint joins what comes back to the
// checkpoint, as the ledger does.
func TestClientCosignsIntoAVerifiedCheckpoint(t *testing.T) {
	log := honestLog(t, 5)
	c, _ := newTestClient(t, openTestServer(t, t.TempDir()), ClientOptions{})
	line, err := c.Cosign(context.Background(), log.checkpoint(5), log.tree)
	if err != nil {
		t.Fatal(err)
	}
	witness, err := seal.CosignatureVerifier(testVKey(t))
	if err != nil {
		t.Fatal(err)
	}
	policy := ledger.Policy{Logs: []ledger.LogKey{{Origin: testOrigin, Key: pub(log.key)}}, Quorum: 1}
	policy.Witnesses = append(policy.Witnesses, witness)
	if _, err := ledger.VerifyCheckpoint(append(log.checkpoint(5).Note, line...), policy); err != nil {
		t.Error(err)
	}
}

func TestWitnessedHistoryIsEvidence(t *testing.T) {
	log, forked := honestLog(t, 20), newLog(t, 20, 3, "!")
	for _, tt := range []struct {
		name  string
		known int64
		size  int64
		tree  *testLog
		want  refusal.Name
		says  []string
	}{
		{"an older copy", 0, 8, log, refusal.HistoryRolledBack, []string{"size 10,", "size 8"}},
		{"an older copy, with notes of its own", 10, 8, log, refusal.HistoryRolledBack, []string{"size 10,", "size 8"}},
		{"an older fork", 0, 8, forked, refusal.HistoryRolledBack, []string{"size 10,", "size 8"}},
		{"a fork of the same size", 0, 10, forked, refusal.HistoryForked, []string{"at size 10 with", "at size 10,"}},
		{"a fork of the same size, knowing it", 10, 10, forked, refusal.HistoryForked, []string{"at size 10 with", "at size 10,"}},
		{"a longer fork", 0, 20, forked, refusal.HistoryForked, []string{"the 10 entries", "size 20"}},
		{"a longer fork, knowing it", 10, 20, forked, refusal.HistoryForked, []string{"the 10 entries", "size 20"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openTestServer(t, t.TempDir())
			mustPost(t, s, 200, log.request(0, 10))
			c, _ := newTestClient(t, s, ClientOptions{Known: tt.known})
			line, err := c.Cosign(context.Background(), tt.tree.checkpoint(tt.size), tt.tree.tree)
			if !refusal.Is(err, tt.want) || line != nil {
				t.Fatalf("got %q, %v; want %s", line, err, tt.want)
			}
			if refusal.ExitCode(err) != refusal.ExitUnverified || refusal.Of(err).Hint == "" {
				t.Errorf("exit code %d, hint %q", refusal.ExitCode(err), refusal.Of(err).Hint)
			}
			for _, want := range tt.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// hostile answers every request in one way.
func hostile(status int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// cosignatureBy is a cosignature line over any text by any key.
func cosignatureBy(t testing.TB, key byte, name, text string) string {
	t.Helper()
	signer, err := seal.CosignatureSigner(testKey(t, key), name, func() time.Time { return testTime })
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signer.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(signature{signer.Name(), signer.KeyHash(), sig}.appendLine(nil))
}

func TestClientAgainstHostileWitness(t *testing.T) {
	log := honestLog(t, 9)
	text := log.head(9).Text()
	good := cosignatureBy(t, 9, testWitness, text)
	otherText := cosignatureBy(t, 9, testWitness, log.head(8).Text())
	otherWitness := cosignatureBy(t, 8, "witness.example.com/w2", text)
	sameName := cosignatureBy(t, 8, testWitness, text)
	plainSigner, err := seal.NoteSigner(testKey(t, 9), testWitness)
	if err != nil {
		t.Fatal(err)
	}
	plainSignature, err := plainSigner.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// The witness's key, the right text, and no cosignature: a signature of
	// type 0x01 under the id of type 0x04.
	notCosigned := string(signature{testWitness, ownID(t), append(make([]byte, 8), plainSignature...)}.appendLine(nil))
	sizes := atomic.Int64{}

	for _, tt := range []struct {
		name    string
		witness http.Handler
		want    refusal.Name // "" for a good line
		says    string       // what the message must hold, where several controls would refuse
	}{
		{"a good answer", hostile(200, "text/plain", good), "", ""},
		{"others' cosignatures around it", hostile(200, "", otherWitness+good+sameName), "", ""},

		{"a signature over another text", hostile(200, "", otherText), refusal.SignatureInvalid, ""},
		{"a note signature", hostile(200, "", notCosigned), refusal.SignatureInvalid, ""},
		{"a short signature", hostile(200, "", string(signature{testWitness, ownID(t), []byte{1}}.appendLine(nil))), refusal.SignatureInvalid, ""},
		{"only another witness's signature", hostile(200, "", otherWitness), refusal.WitnessFailed, ""},
		{"another key under its name", hostile(200, "", sameName), refusal.WitnessFailed, ""},
		{"nothing", hostile(200, "", ""), refusal.WitnessFailed, ""},
		{"a good line and a malformed one", hostile(200, "", good+"— x y\n"), refusal.WitnessFailed, ""},
		{"a good line twice", hostile(200, "", good+good), refusal.WitnessFailed, ""},
		{"a good line without newline", hostile(200, "", strings.TrimSuffix(good, "\n")), refusal.WitnessFailed, ""},
		{"a good line and an empty one", hostile(200, "", good+"\n"), refusal.WitnessFailed, ""},
		{"a good line in other line ends", hostile(200, "", strings.ReplaceAll(good, "\n", "\r\n")), refusal.WitnessFailed, ""},
		{"a name with a plus", hostile(200, "", "— a+b AAAAAAE=\n"+good), refusal.WitnessFailed, ""},
		{"no name", hostile(200, "", "—  AAAAAAE=\n"+good), refusal.WitnessFailed, ""},
		{"as many bytes as are read", hostile(200, "", fill(good, maxBodyBytes)), "", ""},
		{"a byte more", hostile(200, "", fill(good, maxBodyBytes+1)), refusal.WitnessFailed, "more than 65536 bytes"},
		{"a page", hostile(200, "text/html", "<html>"), refusal.WitnessFailed, ""},
		{"too many lines", hostile(200, "", manySignatures(maxSignatures)+good), refusal.WitnessFailed, ""},
		{"a good line with another status", hostile(201, "", good), refusal.WitnessFailed, ""},

		{"an endless body", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := io.WriteString(w, otherWitness); err != nil {
					return
				}
			}
		}), refusal.WitnessFailed, "more than 65536 bytes"},
		{"an endless refusal", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for {
				if _, err := io.WriteString(w, "no"); err != nil {
					return
				}
			}
		}), refusal.WitnessFailed, "more than 65536 bytes"},
		{"an endless header", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}), refusal.WitnessFailed, "could not be reached"},
		{"a closed connection", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }), refusal.WitnessFailed, ""},
		{"half an answer", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)+9))
			io.WriteString(w, good)
		}), refusal.WitnessFailed, ""},

		{"unknown log", hostile(404, "", ""), refusal.WitnessFailed, ""},
		{"untrusted key", hostile(403, "", ""), refusal.WitnessFailed, ""},
		{"malformed, it says", hostile(400, "", ""), refusal.WitnessFailed, ""},
		{"broken", hostile(500, "", "\x1b[31m"), refusal.WitnessFailed, ""},
		{"away", hostile(503, "", ""), refusal.WitnessFailed, ""},
		{"an unknown status", hostile(799, "", ""), refusal.WitnessFailed, ""},
		{"a bad proof from nothing", hostile(422, "", ""), refusal.WitnessFailed, ""},

		{"a conflict without size", hostile(409, "text/plain", "5\n"), refusal.WitnessFailed, `expected "text/x.tlog.size"`},
		{"a conflict with two sizes", hostile(409, sizeType, "5\n6\n"), refusal.WitnessFailed, "after the size"},
		{"a conflict with an invalid size", hostile(409, sizeType, "05\n"), refusal.WitnessFailed, ""},
		{"a conflict with the size that was sent", hostile(409, sizeType, "0\n"), refusal.WitnessFailed, "yet knows"},
		{"a conflict that never ends", hostile(409, sizeType, "5\n"), refusal.WitnessFailed, "yet knows"},
		{"a conflict that always changes", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hostile(409, sizeType, fmt.Sprintf("%d\n", 1+sizes.Add(1)%7)).ServeHTTP(w, r)
		}), refusal.WitnessFailed, "then"},
		{"a conflict beyond counting", hostile(409, sizeType, "9223372036854775807\n"), refusal.WitnessFailed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, requests := newTestClient(t, tt.witness, ClientOptions{})
			line, err := c.Cosign(context.Background(), log.checkpoint(9), log.tree)
			if requests.Load() > 2 {
				t.Errorf("%d requests, want at most 2", requests.Load())
			}
			if tt.want == "" {
				if err != nil || string(line) != good {
					t.Errorf("got %q, %v; want %q", line, err, good)
				}
				return
			}
			if !refusal.Is(err, tt.want) || line != nil {
				t.Fatalf("got %q, %v; want %s", line, err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
			if refusal.Of(err).Hint == "" {
				t.Errorf("%q does not say what to do", err)
			}
			if strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("the witness's bytes are in the message: %q", err)
			}
			if c.Known() != 0 {
				t.Errorf("a refused answer was remembered: %d", c.Known())
			}
		})
	}
}

// fill adds one line by an unknown key, to get exactly that many bytes.
func fill(lines string, size int) string {
	const frame = len(signatureMark) + len(" \n")
	rest := size - len(lines) - frame
	name := 1 + (rest-1)%4
	return lines + signatureMark + strings.Repeat("x", name) + " " + strings.Repeat("A", rest-name) + "\n"
}

func TestClientFollowsNoRedirect(t *testing.T) {
	log := honestLog(t, 3)
	var reached atomic.Bool
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer inside.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c, _ := newTestClient(t, http.RedirectHandler(inside.URL+"/secret", status), ClientOptions{})
		_, err := c.Cosign(context.Background(), log.checkpoint(3), log.tree)
		if !refusal.Is(err, refusal.WitnessFailed) || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%d: got %v", status, err)
		}
	}
	if reached.Load() {
		t.Error("a redirect was followed")
	}
}

func TestClientGivesUpOnSilence(t *testing.T) {
	log := honestLog(t, 3)
	release := make(chan struct{})
	c, _ := newTestClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}), ClientOptions{Timeout: 50 * time.Millisecond})
	defer close(release)
	_, err := c.Cosign(context.Background(), log.checkpoint(3), log.tree)
	if !refusal.Is(err, refusal.WitnessFailed) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want WitnessFailed for a deadline", err)
	}

	c, _ = newTestClient(t, http.NotFoundHandler(), ClientOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Cosign(ctx, log.checkpoint(3), log.tree); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's cancellation", err)
	}
}

func TestUnreachableWitnessIsNoEvidence(t *testing.T) {
	log := honestLog(t, 3)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err := NewClient(gone.URL, testVKey(t), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Cosign(context.Background(), log.checkpoint(3), log.tree)
	if !refusal.Is(err, refusal.WitnessFailed) || refusal.ExitCode(err) != refusal.ExitFailed {
		t.Errorf("got %v (exit %d), want WitnessFailed", err, refusal.ExitCode(err))
	}
}

// TestClientSendsNoContradiction: a checkpoint that is not of the tree is our
// own mistake, and must not be taken for a fork that a witness found.
func TestClientSendsNoContradiction(t *testing.T) {
	log, forked := honestLog(t, 9), newLog(t, 9, 3, "!")
	c, requests := newTestClient(t, openTestServer(t, t.TempDir()), ClientOptions{})
	otherHead := log.checkpoint(9)
	otherHead.Size = 8
	otherHead.Root = log.head(8).Root
	for name, err := range map[string]error{
		"another tree":   second(c.Cosign(context.Background(), log.checkpoint(9), forked.tree)),
		"another head":   second(c.Cosign(context.Background(), otherHead, log.tree)),
		"a shorter tree": second(c.Cosign(context.Background(), log.checkpoint(9), honestLog(t, 8).tree)),
		"no note":        second(c.Cosign(context.Background(), &ledger.Checkpoint{TreeHead: log.head(9)}, log.tree)),
	} {
		if err == nil || refusal.Is(err, refusal.HistoryForked) || refusal.Is(err, refusal.WitnessFailed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests were sent", requests.Load())
	}
}

func second[T any](_ T, err error) error { return err }

func TestNewClientRefuses(t *testing.T) {
	vkey := testVKey(t)
	for _, prefix := range []string{"", "witness.example.com", "ftp://witness.example.com", "file:///etc/passwd", "unix:/run/w", "http://", "http://:80",
		"https://user:secret@witness.example.com", "https://witness.example.com/?q", "https://witness.example.com/#f", "http://[::1", "javascript:alert(1)"} {
		if _, err := NewClient(prefix, vkey, ClientOptions{}); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%q: got %v, want Usage", prefix, err)
		}
	}
	if _, err := NewClient("http://127.0.0.1", seal.VKey(pub(testKey(t, 9)), testWitness), ClientOptions{}); err == nil {
		t.Error("the key of a log was taken for that of a witness")
	}
	for prefix, want := range map[string]string{
		"https://w.example/":    "https://w.example/add-checkpoint",
		"https://w.example/a/":  "https://w.example/a/add-checkpoint",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080/add-checkpoint",
	} {
		c, err := NewClient(prefix, vkey, ClientOptions{})
		if err != nil || c.url != want || c.Name() != testWitness {
			t.Errorf("%q: %v, %v", prefix, c, err)
		}
	}
}

// TestTheOtherWitnessForgot: a witness that lost its memory is caught up, and
// is not taken for evidence against the ledger.
func TestTheOtherWitnessForgot(t *testing.T) {
	log := honestLog(t, 9)
	c, requests := newTestClient(t, openTestServer(t, t.TempDir()), ClientOptions{Known: 7})
	if _, err := c.Cosign(context.Background(), log.checkpoint(9), log.tree); err != nil || requests.Load() != 2 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}
