package viewer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/evidence"
)

func TestFleetPageShowsWhatTheCoordinatorSays(t *testing.T) {
	v := openShop(t)
	if body := get(t, v, "/fleet").Body.String(); !strings.Contains(body, "No fleet runs") || strings.Contains(body, `data-live=`) || strings.Contains(body, ">Fleet</a>") {
		t.Errorf("without a fleet: %.2000s", body)
	}
	dir, now, left := v.config.Place.Private("fleet"), time.Now(), 125.0
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &fleet.Status{Attempt: "hostile.default.1", Class: "hostile", Target: "default", Planned: 40, Done: 10, Running: 2, Waiting: 28, Lost: 3, Refused: 4, PerSecond: 1.25, SecondsLeft: &left, CostMicroUSD: 1715, At: evidence.At(now),
		Workers: []fleet.WorkerStatus{
			{Key: "SHA256:two", Name: "w2", Version: "v9", LastSeen: evidence.At(now.Add(-time.Minute)), Cases: []string{}},
			{Key: "SHA256:one", Name: "w1", Label: "<script>alert(1)</script>\u202e", Version: "v9", Isolation: "gvisor", LastSeen: evidence.At(now), Cases: []string{"plain-one"}, Done: 10},
			{Key: "SHA256:bad", Name: "w3", Version: "v9", LastSeen: evidence.At(now), Cases: []string{}, Quarantined: "brought back a case of another worker"},
		}}
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	body := get(t, v, "/fleet").Body.String()
	for _, want := range []string{`data-live="/fleet"`, ">Fleet</a>", `<a href="/attempt/hostile.default.1">`, "10 of 40", "25.0 %", "<dd>28</dd>", "<dd>1.2</dd>", "2m5s", "$0.001715", "3 <small>did not come back", "4 <small>results",
		"working", "silent", "quarantined", "brought back a case of another worker", "plain-one", "gvisor", "SHA256:one", `\u{202e}`, "none of this is in the ledger"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "has said nothing for") {
		t.Errorf("the page: %s", body)
	}
	if strings.Index(body, "w1") > strings.Index(body, "w2") {
		t.Error("workers are not in the order of their names")
	}

	// A coordinator that was killed leaves its last word.
	s.At = evidence.At(now.Add(-time.Hour))
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	if body := get(t, v, "/fleet").Body.String(); !strings.Contains(body, "The coordinator has said nothing for") {
		t.Error("the page does not say that the coordinator is silent")
	}
	// What is not a status is left out, and breaks no other page.
	if err := os.WriteFile(filepath.Join(dir, "standing.json"), []byte(`{"attempt":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/fleet", "/"} {
		if w := get(t, v, path); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
