package monitor

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/client"
)

const seenSchema = "tallystick-registry-seen/" + format.Version

// SeenPath is where a monitor tells others what it saw.
const SeenPath = "/seen"

// A Seen is what a monitor tells other monitors: the registry cannot change it on the
// way, and what it signed is in it.
type Seen struct {
	Schema     string `json:"schema"`
	Origin     string `json:"origin"`
	Size       int64  `json:"size"`
	Root       string `json:"root"`
	Checkpoint string `json:"checkpoint"` // as the registry signed it
	// Routes has the digest of the answers of each route, if all of them were of the tree
	// of that size.
	Routes map[string]digest.ID `json:"routes,omitempty"`
	Looked evidence.Time        `json:"looked"`
}

// Listen serves what was seen to other monitors, and gives the address. Port 0 takes a
// free one.
func (m *Monitor) Listen(address string) (at string, stop func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, refusal.Newf(refusal.Failed, "listening on %s: %w", address, err).WithHint("--listen takes HOST:PORT of this machine; port 0 takes a free one")
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	go server.Serve(listener)
	return "http://" + listener.Addr().String(), server.Close, nil
}

// ServeHTTP tells what was seen at the last look that found nothing.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.toldMu.Lock()
	told := m.told
	m.toldMu.Unlock()
	switch {
	case r.URL.Path != SeenPath || r.Method != http.MethodGet:
		http.Error(w, "there is GET "+SeenPath, http.StatusNotFound)
	case told == nil:
		http.Error(w, "nothing was seen yet", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(told)
	}
}

// tell keeps what is told to others.
func (m *Monitor) tell(report *Report) error {
	s := Seen{Schema: seenSchema, Origin: m.memory.Origin, Size: m.memory.Size, Root: m.memory.Root, Checkpoint: m.memory.Checkpoint, Looked: evidence.At(m.Now())}
	if m.routesAt == m.memory.Size {
		s.Routes = report.Routes
	}
	text, err := canon.Marshal(s)
	if err != nil {
		return err
	}
	m.toldMu.Lock()
	defer m.toldMu.Unlock()
	m.told = append(text, '\n')
	return nil
}

// comparePeers asks the other monitors what they saw, and compares: a registry that
// shows different things to different people signs two trees of one size, or keeps from
// one what it signed for another.
func (m *Monitor) comparePeers(ctx context.Context, report *Report) error {
	for _, peer := range m.Peers {
		a, err := peer.Get(ctx, SeenPath)
		if err != nil {
			return fmt.Errorf("the monitor %s: %w", peer.Address(), err)
		}
		if a.Status == http.StatusServiceUnavailable {
			continue // it has not looked yet
		}
		var seen Seen
		if err := strictAnswer(a, &seen); err != nil {
			return refusal.Newf(refusal.Malformed, "the monitor %s: %w", peer.Address(), err)
		}
		if err := m.comparePeer(ctx, peer, &seen, report); err != nil {
			return err
		}
		report.Peers++
	}
	return nil
}

func (m *Monitor) comparePeer(ctx context.Context, peer *client.Client, seen *Seen, report *Report) error {
	if err := format.Check("what it says", seen.Schema, seenSchema); err != nil {
		return refusal.Newf(refusal.Malformed, "the monitor %s: %w", peer.Address(), err)
	}
	head, err := treeHead([]byte(seen.Checkpoint))
	if err != nil {
		return fmt.Errorf("the monitor %s: %w", peer.Address(), err)
	}
	if head.Origin != m.memory.Origin || head.Size != seen.Size || head.Root.String() != seen.Root {
		return refusal.Newf(refusal.Malformed, "the monitor %s tells of %d entries of %q, and its checkpoint is of %d of %q", peer.Address(), seen.Size, seen.Origin, head.Size, head.Origin).
			WithHint("it watches another registry, or is not a monitor")
	}
	if head.Size > m.memory.Size {
		if err := m.follow(ctx); err != nil {
			return err
		}
	}
	// Only what the registry signed counts against it: a monitor can say anything.
	if _, err := ledger.VerifyCheckpoint([]byte(seen.Checkpoint), ledger.Policy{Logs: m.log.operators(min(head.Size, m.memory.Size))}); err != nil {
		return fmt.Errorf("the checkpoint of the monitor %s: %w", peer.Address(), err)
	}
	if head.Size > m.memory.Size {
		m.report(report, PeerDiffers, m.memory.Size-1, "", "the monitor %s was shown %d entries, which the registry signed; here it shows %d", peer.Address(), head.Size, m.memory.Size)
		return nil
	}
	root, err := m.log.tree.Root(head.Size)
	if err != nil {
		return err
	}
	if root != head.Root {
		return m.alarm(refusal.HistoryForked, []byte(seen.Checkpoint),
			fmt.Sprintf("FORK: the first %d entries have the root %s here; for the monitor %s the registry signed %s", head.Size, root, peer.Address(), head.Root),
			"the registry shows different histories to different people")
	}
	m.compareRoutes(peer, seen, report)
	return nil
}

// compareRoutes compares what both were answered by each route. Monitors of two versions
// expect other answers of the program itself: then nothing is compared.
func (m *Monitor) compareRoutes(peer *client.Client, seen *Seen, report *Report) {
	if seen.Size != m.routesAt || seen.Routes["openapi"] != report.Routes["openapi"] {
		return
	}
	for _, route := range slices.Sorted(maps.Keys(seen.Routes)) {
		if here, there := report.Routes[route]; there && here != seen.Routes[route] {
			m.report(report, PeerDiffers, seen.Size-1, "", "of the tree of %d entries the route %s gave the monitor %s answers with the digest %s; here they have %s", seen.Size, route, peer.Address(), seen.Routes[route], here)
		}
	}
}
