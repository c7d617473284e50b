// Package buckettest is an S3 server for tests, in this process, that can be told
// to fail: before a request is done, after it was done, or while it is answered.
package buckettest

import (
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"tallystick/internal/record/bucket"
)

// A Fault decides what happens to a request. It returns true if it has answered
// itself; do does the request as the server would.
type Fault func(w http.ResponseWriter, r *http.Request, do http.Handler) (answered bool)

// A Server is an S3 server with one bucket.
type Server struct {
	Endpoint string

	handler http.Handler
	mu      sync.Mutex
	fault   Fault
	counts  map[string]int
}

// BucketName is the bucket that a [Server] has.
const BucketName = "tally"

// Credentials are what the environment of a client must say. The server accepts
// every caller.
var Credentials = map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", t.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Listen starts a server at an address. Cleanup is given what ends it.
func Listen(address string, cleanup func(func())) (*Server, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(BucketName); err != nil {
		return nil, err
	}
	fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.StdLog(log.New(discard{}, "", 0))))
	s := &Server{handler: fake.Server(), counts: map[string]int{}}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	h := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(s.serve)}}
	h.Start()
	s.Endpoint = h.URL
	cleanup(h.Close)
	return s, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Address is the address of a prefix in the server's bucket.
func (s *Server) Address(prefix string) bucket.Address {
	return bucket.Address{Bucket: BucketName, Prefix: prefix, Endpoint: s.Endpoint}
}

// Fail has every request from now on decided by a fault; nil ends that.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	s.fault = f
	s.mu.Unlock()
}

// Counts returns how many requests of each kind came since it was called last:
// GET, PUT, LIST and so on.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = map[string]int{}
	return counts
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	kind := r.Method
	if kind == http.MethodGet && r.URL.Query().Has("list-type") {
		kind = "LIST"
	}
	s.mu.Lock()
	s.counts[kind]++
	fault := s.fault
	s.mu.Unlock()
	if fault == nil || !fault(w, r, s.handler) {
		s.handler.ServeHTTP(w, r)
	}
}

// Names reports whether a request is of a method for an object whose name contains
// some text.
func Names(r *http.Request, method, text string) bool {
	return r.Method == method && strings.Contains(r.URL.Path, text)
}

// Refuse answers with an S3 error.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>injected</Message></Error>"))
}

// HangUp closes the connection without an answer.
func HangUp(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
}
