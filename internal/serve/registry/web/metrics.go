package web

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// latencyBounds are the upper bounds of the histogram's buckets, in seconds: from
// a read that is in memory to a write that waits for a slow disk.
var latencyBounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// metrics are what happened since the start. Labels are routes of the table, never
// something from a request, so that a client cannot make more of them.
type metrics struct {
	underWay atomic.Int64

	mu       sync.Mutex
	requests map[requestLabel]uint64
	latency  map[string]*histogram // by route
}

type requestLabel struct {
	route  string // "GET /healthz", or "none"
	status int
}

type histogram struct {
	counts [len(latencyBounds) + 1]uint64
	sum    float64
	count  uint64
}

func newMetrics() *metrics {
	return &metrics{requests: map[requestLabel]uint64{}, latency: map[string]*histogram{}}
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	seconds := took.Seconds()
	at, _ := slices.BinarySearch(latencyBounds[:], seconds)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[requestLabel{route, status}]++
	h := m.latency[route]
	if h == nil {
		h = &histogram{}
		m.latency[route] = h
	}
	h.counts[at]++
	h.sum += seconds
	h.count++
}

// gauges are what the registry says about itself at this moment.
type gauges struct {
	entries  int64 // in the ledger
	indexed  int64 // of these in the index
	writable bool
}

// text writes everything in the text format of Prometheus, version 0.0.4.
func (m *metrics) text(g gauges) []byte {
	var b bytes.Buffer
	gauge := func(name, help string, value int64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", name, help, name, name, value)
	}
	gauge("tally_registry_ledger_entries", "Entries of the ledger.", g.entries)
	gauge("tally_registry_index_lag_entries", "Entries of the ledger that the index does not have yet.", max(0, g.entries-g.indexed))
	gauge("tally_registry_requests_under_way", "Requests that are being answered.", m.underWay.Load())
	writable := int64(0)
	if g.writable {
		writable = 1
	}
	gauge("tally_registry_writable", "1 if this process takes writes.", writable)

	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(&b, "# HELP tally_registry_requests_total Requests that were answered.\n# TYPE tally_registry_requests_total counter\n")
	labels := slices.SortedFunc(maps.Keys(m.requests), func(a, b requestLabel) int {
		return cmpOr(a.route, b.route, a.status, b.status)
	})
	for _, l := range labels {
		fmt.Fprintf(&b, "tally_registry_requests_total{route=%q,code=\"%d\"} %d\n", l.route, l.status, m.requests[l])
	}
	const hist = "tally_registry_request_seconds"
	fmt.Fprintf(&b, "# HELP %s Time to an answer.\n# TYPE %s histogram\n", hist, hist)
	for _, route := range slices.Sorted(maps.Keys(m.latency)) {
		h, below := m.latency[route], uint64(0)
		for i, bound := range latencyBounds {
			below += h.counts[i]
			fmt.Fprintf(&b, "%s_bucket{route=%q,le=\"%g\"} %d\n", hist, route, bound, below)
		}
		fmt.Fprintf(&b, "%s_bucket{route=%q,le=\"+Inf\"} %d\n", hist, route, h.count)
		fmt.Fprintf(&b, "%s_sum{route=%q} %g\n%s_count{route=%q} %d\n", hist, route, h.sum, hist, route, h.count)
	}
	return b.Bytes()
}

// Metrics answers GET /metrics and nothing else. It is for a listener of its own: what
// is asked for how often, and how full the registry is, is the operator's business.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		g := gauges{writable: s.cfg.Writer != nil}
		if g.writable {
			now := s.cfg.Writer.Stats()
			g.entries, g.indexed = now.Entries, now.Applied
		} else if config, err := s.reads.Config(r.Context()); err == nil {
			g.entries, g.indexed = config.Entries, config.Entries
		}
		w.Header().Set("Content-Type", typeMetrics)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Write(s.metrics.text(g))
	})
	return mux
}

func cmpOr(a, b string, x, y int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return x - y
}
