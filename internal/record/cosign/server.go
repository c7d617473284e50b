package cosign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// ServerConfig is what a witness needs.
type ServerConfig struct {
	FS   store.FS  // nil for this machine's files
	Dir  string    // of the state; one process at a time
	Key  *seal.Key // used by no other witness: a cosignature does not name its maker
	Name string    // in the key and in every cosignature
	Logs []ledger.LogKey
	Now  func() time.Time

	// Conflicts is told of each checkpoint that contradicts the state, once.
	Conflicts func(Conflict)
	// Errors is told what keeps the witness from its work.
	Errors func(error)
}

// ParseLog reads the verifier key of a log (signature type 0x01), whose name is
// the log's origin.
func ParseLog(vkey string) (ledger.LogKey, error) {
	origin, key, err := seal.ParseLogKey(vkey)
	if err != nil {
		return ledger.LogKey{}, err
	}
	if err := evidence.CheckOrigin(origin); err != nil {
		return ledger.LogKey{}, refusal.Newf(refusal.Malformed, "verifier key %q: %w", vkey, err).
			WithHint("the name in a log's key is its origin")
	}
	return ledger.LogKey{Origin: origin, Key: key}, nil
}

// A Server is a witness. It answers HTTP requests for [Path].
type Server struct {
	cfg   ServerConfig
	lock  *store.Lock
	logs  map[string]*watched
	forks *conflicts
}

// OpenServer takes the state folder, which no other process may use, and reads
// what was cosigned before. It waits for the folder until ctx ends.
func OpenServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	own, err := seal.CosignatureVerifier(vkeyOf(cfg))
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "witness name %q: %w", cfg.Name, err).
			WithHint("a name is a URL without scheme, such as witness.example.com/w1")
	}
	if cfg.FS == nil {
		cfg.FS = store.OS{}
	}
	if err := store.MakeDir(cfg.FS, filepath.Join(cfg.Dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	lock, err := store.TakeLock(ctx, cfg.FS, filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, lock: lock, logs: make(map[string]*watched)}
	if err := s.load(own); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// load makes the watched logs and reads the state of each.
func (s *Server) load(own note.Verifier) (err error) {
	for _, k := range s.cfg.Logs {
		if err := s.watch(k); err != nil {
			return err
		}
	}
	if len(s.logs) == 0 {
		return refusal.Newf(refusal.Usage, "a witness needs the key of at least one log").
			WithHint("name who is trusted; there is no default")
	}
	for _, l := range s.logs {
		if err := l.load(s.cfg.FS, own); err != nil {
			return err
		}
	}
	s.forks, err = openConflicts(s.cfg.FS, s.cfg.Dir)
	return err
}

// watch adds a key of a log; a log may have several.
func (s *Server) watch(k ledger.LogKey) error {
	if err := evidence.CheckOrigin(k.Origin); err != nil {
		return refusal.Newf(refusal.Usage, "log: %w", err)
	}
	verifier, err := seal.NoteVerifier(k.Key, k.Origin)
	if err != nil {
		return err
	}
	l := s.logs[k.Origin]
	if l == nil {
		l = &watched{origin: k.Origin}
		l.path = l.fileName(s.cfg.Dir)
		if l.signer, err = seal.CosignatureSigner(s.cfg.Key, s.cfg.Name, func() time.Time { return l.stamp }); err != nil {
			return err
		}
		s.logs[k.Origin] = l
	}
	for _, have := range l.keys {
		if bytes.Equal(have.Key, k.Key) {
			return nil
		}
	}
	l.keys, l.verifiers = append(l.keys, k), append(l.verifiers, verifier)
	return nil
}

func vkeyOf(cfg ServerConfig) string {
	pub, _ := cfg.Key.Public().Ed25519()
	return seal.CosignatureVKey(pub, cfg.Name)
}

// VKey is the verifier key that clients need.
func (s *Server) VKey() string { return vkeyOf(s.cfg) }

// Close gives the state folder back. No request may be under way.
func (s *Server) Close() error { return s.lock.Close() }

// An answer is the response to add-checkpoint.
type answer struct {
	status int
	body   string
}

func refuse(status int, format string, args ...any) answer {
	return answer{status, fmt.Sprintf(format, args...) + "\n"}
}

// ServeHTTP answers add-checkpoint and nothing else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.serve(w, r)
	contentType := "text/plain; charset=utf-8"
	if a.status == http.StatusConflict {
		contentType = sizeType
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) answer {
	if r.URL.Path != Path {
		return refuse(http.StatusNotFound, "only %s is here", Path)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "only POST is answered")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "a request has at most %d bytes", maxBodyBytes)
	case err != nil:
		return refuse(http.StatusBadRequest, "reading the request failed")
	}
	return s.addCheckpoint(body)
}

// addCheckpoint checks a request in the order of C2SP tlog-witness.
func (s *Server) addCheckpoint(body []byte) answer {
	req, err := parseRequest(body)
	if err != nil {
		return refuse(http.StatusBadRequest, "malformed request: %v", err)
	}
	offered := req.checkpoint
	l, ok := s.logs[offered.Origin]
	if !ok {
		return refuse(http.StatusNotFound, "this witness does not watch %s", offered.Origin)
	}
	if _, err := ledger.VerifyCheckpoint(offered.marshal(), ledger.Policy{Logs: l.keys}); err != nil {
		return refuse(http.StatusForbidden, "no valid signature by a key trusted for %s", offered.Origin)
	}
	if req.old > offered.Size {
		return refuse(http.StatusBadRequest, "the old size %d is beyond that of the checkpoint, %d", req.old, offered.Size)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	// Two roots at one size are a fork whatever the request claims to extend.
	if offered.Size == l.known.Size && offered.Root != l.known.Root {
		s.keep(l, offered, nil)
		return knownSize(l)
	}
	if req.old != l.known.Size {
		return knownSize(l)
	}
	if err := ledger.CheckConsistency(req.proof, offered.TreeHead, l.known); err != nil {
		s.keep(l, offered, req.proof)
		return refuse(http.StatusUnprocessableEntity, "the proof does not show that the tree of size %d begins with that of size %d", offered.Size, l.known.Size)
	}
	line, err := l.cosign(s.cfg.FS, offered, s.cfg.Now())
	if err != nil {
		s.cfg.Errors(fmt.Errorf("cosigning %s at size %d: %w", offered.Origin, offered.Size, err))
		return refuse(http.StatusInternalServerError, "the witness cannot cosign now")
	}
	return answer{http.StatusOK, string(line.appendLine(nil))}
}

// knownSize is the answer to a checkpoint that does not start where the witness
// is.
func knownSize(l *watched) answer {
	return answer{http.StatusConflict, fmt.Sprintf("%d\n", l.known.Size)}
}
