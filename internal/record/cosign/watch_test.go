package cosign

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A publisher writes anchors of chains into a folder, as an operator's nightly
// job does.
type publisher struct {
	*testing.T
	dir string
	key *seal.Key
}

const watchedOrigin = "example.com/watched"

// publish writes the anchor of a day over a chain with those notes, and the tiles.
func (p *publisher) publish(date string, notes ...string) {
	p.Helper()
	chain, tree, leaves := ledger.NewChain(watchedOrigin), &ledger.Tree{}, &ledger.Leaves{Origin: watchedOrigin}
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		p.Fatal(err)
	}
	for _, n := range notes {
		entry := evidence.AppendEntry(nil, []byte(`{"n":"`+n+`"}`), evidence.NoteKind, false, evidence.At(testTime))
		pos := chain.Append(digest.ContentOf(entry))
		leaves.Add(pos)
		if err := tree.Add(pos.Leaf); err != nil {
			p.Fatal(err)
		}
	}
	head := ledger.TreeHead{Origin: watchedOrigin, Size: chain.Size(), Root: chain.Root()}
	signer, err := seal.NoteSigner(p.key, watchedOrigin)
	if err != nil {
		p.Fatal(err)
	}
	signature, err := signer.Sign([]byte(head.Text()))
	if err != nil {
		p.Fatal(err)
	}
	a := ledger.NewAnchor(head, chain.Head(), ledger.AssembleCheckpoint(head, append(binary.BigEndian.AppendUint32(nil, signer.KeyHash()), signature...)), at)
	message, err := a.Message()
	if err != nil {
		p.Fatal(err)
	}
	signed, err := seal.SignWith(p.key.Signer(), seal.NamespaceAnchor, message)
	if err != nil {
		p.Fatal(err)
	}
	a.Signature = string(signed)
	data, err := a.Marshal()
	if err != nil {
		p.Fatal(err)
	}
	p.write(date+".json", data)
	for tile, err := range ledger.Tiles(tree, leaves, 0, head.Size) {
		if err != nil {
			p.Fatal(err)
		}
		p.write(tile.Path, tile.Data)
	}
}

func (p *publisher) write(name string, data []byte) {
	p.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		p.Fatal(err)
	}
}

// TestWatchAlarms: a reader who only sees what is published notices each lie,
// in a folder and over HTTP, with tiles and without.
func TestWatchAlarms(t *testing.T) {
	for _, tt := range []struct {
		name  string
		today string
		then  func(*publisher)
		want  refusal.Name
	}{
		{"the next day", "2026-05-13", func(p *publisher) { p.publish("2026-05-13", "a", "b", "c", "d") }, ""},
		{"the same day, larger", "2026-05-12", func(p *publisher) { p.publish("2026-05-12", "a", "b", "c") }, ""},
		{"nothing new yet", "2026-05-13", func(*publisher) {}, ""},
		{"another history of the same size", "2026-05-13", func(p *publisher) { p.publish("2026-05-13", "a", "x") }, refusal.HistoryForked},
		{"another history, longer", "2026-05-13", func(p *publisher) { p.publish("2026-05-13", "a", "x", "y", "z") }, refusal.HistoryForked},
		{"the day's anchor replaced by a shorter one", "2026-05-12", func(p *publisher) { p.publish("2026-05-12", "a") }, refusal.HistoryRolledBack},
		{"a shorter one the next day", "2026-05-13", func(p *publisher) { p.publish("2026-05-13", "a") }, refusal.HistoryRolledBack},
		{"the anchor taken away", "2026-05-12", func(p *publisher) { os.Remove(filepath.Join(p.dir, "2026-05-12.json")); p.publish("2026-05-11", "a") }, refusal.HistoryRolledBack},
		{"no anchor for two days", "2026-05-14", func(*publisher) {}, refusal.MissingAnchor},
		{"a day left out", "2026-05-14", func(p *publisher) { p.publish("2026-05-14", "a", "b", "c") }, refusal.MissingAnchor},
		{"signed by another key", "2026-05-13", func(p *publisher) { p.key = testKey(p, 9); p.publish("2026-05-13", "a", "b", "c") }, refusal.AnchorSignatureInvalid},
	} {
		for _, over := range []string{"folder", "http"} {
			t.Run(tt.name+", "+over, func(t *testing.T) {
				p := &publisher{T: t, dir: t.TempDir()}
				p.key = testKey(p, 1)
				pub, _ := p.key.Public().Ed25519()
				now := "2026-05-12"
				w := &Watch{Source: p.dir, Policy: ledger.Policy{Logs: []ledger.LogKey{{Origin: watchedOrigin, Key: pub}}}, State: filepath.Join(t.TempDir(), "state", "w.json"), MaxGap: 1,
					Now: func() time.Time { at, _ := time.Parse(time.DateOnly, now); return at.Add(12 * time.Hour) }}
				if over == "http" {
					server := httptest.NewServer(http.FileServer(http.Dir(p.dir)))
					defer server.Close()
					w.Source = server.URL
				}
				p.publish("2026-05-12", "a", "b")
				if _, err := w.Once(context.Background()); err != nil {
					t.Fatalf("the first look: %v", err)
				}
				tt.then(p)
				now = tt.today
				seen, err := w.Once(context.Background())
				switch {
				case tt.want == "" && (err != nil || !seen.Proved):
					t.Errorf("%+v, %v", seen, err)
				case tt.want != "" && !refusal.Is(err, tt.want):
					t.Errorf("%v, want %s", err, tt.want)
				}
				if tt.want == "" {
					return
				}
				// What was seen stays remembered: the alarm comes again.
				if _, again := w.Once(context.Background()); !refusal.Is(again, tt.want) {
					t.Errorf("the second time: %v", again)
				}
			})
		}
	}
}
