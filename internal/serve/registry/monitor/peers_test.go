package monitor

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/client"
)

// peerOf makes one monitor ask another.
func peerOf(t *testing.T, m, other *Monitor) {
	t.Helper()
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	m.Peers = append(m.Peers, must[*client.Client](t)(client.New(client.Options{URL: server.URL})))
}

func TestMonitorsOfOneRegistryAgree(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	ctx := context.Background()
	a, b := w.monitor(), w.monitor()
	peerOf(t, a, b)
	peerOf(t, b, a)
	if report, err := a.Once(ctx); err != nil || report.Peers != 0 {
		t.Fatalf("the other has not looked yet: %+v %v", report, err)
	}
	report, err := b.Once(ctx)
	if err != nil || report.Peers != 1 || len(report.Routes) < 10 {
		t.Fatalf("%+v %v", report, err)
	}
	// What the registry shows to b alone changes the digest of a route, also where it does
	// not follow from entries.
	a.routesAt, b.routesAt = 0, 0
	w.register()
	if _, err := a.Once(ctx); err != nil {
		t.Fatal(err)
	}
	var seen Seen
	if err := strictAnswer(must[*client.Answer](t)(b.Peers[0].Get(ctx, SeenPath)), &seen); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Once(ctx); err != nil {
		t.Fatal(err)
	}
	other := Report{Routes: maps.Clone(seen.Routes)}
	for route := range other.Routes {
		if route != "openapi" {
			other.Routes[route] = other.Routes["openapi"]
			break
		}
	}
	b.compareRoutes(b.Peers[0], &seen, &other)
	if len(other.Findings) != 1 || other.Findings[0].Name != PeerDiffers {
		t.Errorf("%+v", other.Findings)
	}
}

// Two histories that one key signed are found by two monitors, whichever is shown which.
func TestMonitorsFindAForkedRegistry(t *testing.T) {
	short, one, two := story(newFake(t, 3, 2)), story(newFake(t, 3, 2)), story(newFake(t, 3, 2))
	one.propose(7)
	two.propose(8)
	for name, tt := range map[string]struct {
		here, there *fakeRegistry
		want        refusal.Name
		finding     string
	}{
		"another history":              {one, two, refusal.HistoryForked, ""},
		"entries that are hidden here": {short, one, "", PeerDiffers},
		"the same, seen further there": {one, short, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var here, there http.Handler = tt.here, tt.there
			m, peer := watch(t, &here), watch(t, &there)
			if _, err := peer.Once(context.Background()); err != nil {
				t.Fatal(err)
			}
			peerOf(t, m, peer)
			if _, err := m.Once(context.Background()); err != nil {
				t.Fatal(err)
			}
			report := &Report{}
			err := m.comparePeers(context.Background(), report)
			switch {
			case tt.want != "":
				wantRefusal(t, err, tt.want, "FORK")
			case err != nil:
				t.Error(err)
			case tt.finding == "" && len(report.Findings) > 0:
				t.Errorf("%+v", report.Findings)
			case tt.finding != "" && !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Name == tt.finding }):
				t.Errorf("nothing is found: %+v", report)
			}
		})
	}
}

// A peer that lies does no harm to the registry: only what the registry signed counts.
func TestAPeerThatLiesIsNoAlarm(t *testing.T) {
	f := story(newFake(t, 3, 2))
	var h http.Handler = f
	m := watch(t, &h)
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	forged := story(newFake(t, 3, 1))
	note := string(signWith(t, testKey(t, 99), forged.head(forged.tree.Size())))
	for name, said := range map[string]string{
		"not JSON":        "x",
		"another key":     `{"checkpoint":` + strconv.Quote(note) + `,"looked":"2026-05-12T14:00:00.000Z","origin":"` + fakeOrigin + `","root":"` + forged.head(forged.tree.Size()).Root.String() + `","schema":"` + seenSchema + `","size":` + strconv.FormatInt(forged.tree.Size(), 10) + `}` + "\n",
		"another program": `{"hello":1}` + "\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(said)) }))
		m.Peers = []*client.Client{must[*client.Client](t)(client.New(client.Options{URL: server.URL}))}
		report := &Report{}
		err := m.comparePeers(context.Background(), report)
		if err == nil || len(report.Findings) > 0 || refusal.Is(err, refusal.HistoryForked) {
			t.Errorf("%s: %+v %v", name, report, err)
		}
		server.Close()
	}
}

// A checkpoint whose time is old, or that has none, alarms; a registry that runs signs it
// again.
func TestAnOldCheckpointAlarms(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	ctx := context.Background()
	if report, err := w.monitor().Once(ctx); err != nil || w.clock().Sub(report.SignedAt.Go()) > time.Minute {
		t.Fatalf("%+v %v", report, err)
	}
	w.pass(2 * time.Hour) // nothing runs meanwhile
	wantOld := func(name string) {
		t.Helper()
		report, err := w.monitor().Once(ctx)
		if !refusal.Is(err, refusal.RegistryMismatch) || !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Name == CheckpointOld }) {
			t.Errorf("%s: %+v %v", name, report, err)
		}
	}
	wantOld("old")
	if err := w.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.monitor().Once(ctx); err != nil {
		t.Errorf("signed again: %v", err)
	}
	if _, err := w.reg.RotateKey(ctx, "operator"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.monitor().Once(ctx); err != nil {
		t.Errorf("after a rotation of the operator's key: %v", err)
	}
	w.lie = func(_, target string, _ bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
		if target == client.CheckpointPath {
			lines := strings.SplitAfter(rec.Body.String(), "\n")
			rec.Body.Reset()
			rec.Body.WriteString(strings.Join(lines[:len(lines)-2], ""))
		}
		return rec
	}
	wantOld("without a time")
}
