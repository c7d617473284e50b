package judge

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

// A second judge gives another verdict, so that a miss shows.
func twoVerdicts(t *testing.T) *court {
	return newCourt(t, fakemodel.New(t, says(reply(0, false, "wrong"), reply(1, true, "right"))...))
}

// A verdict that another server gave is not used again, whichever way the settings
// changed; one of the same server is.
func TestVerdictsOfAnotherServerAreDrawnAgain(t *testing.T) {
	c := twoVerdicts(t)
	q := aQuestion("4")
	here, err := evidence.EndpointAt(c.server.OpenAI())
	if err != nil {
		t.Fatal(err)
	}
	place := here
	known := true
	c.at = func(wire.API) (evidence.Endpoint, bool) { return place, known }
	if o := c.ask(Live, q); o.Cached || o.Score != 0 || len(o.Document.Endpoints) != 1 || o.Document.Endpoints[0] != here.URL() {
		t.Fatalf("the first draw: %+v", o.Document)
	}
	if o := c.ask(Live, q); !o.Cached {
		t.Error("the same server is asked twice")
	}
	place.Path += "/other"
	if o := c.ask(Live, q); o.Cached || o.Score != 1 {
		t.Errorf("a verdict of %s answers for %s", here.URL(), place.URL())
	}
	// A verdict whose place was not seen might be from anywhere.
	place, c.models = here, placeless{liveModels(t, fakemodel.New(t, says(reply(0, false, "wrong"), reply(1, true, "right"))...))}
	other := aQuestion("5")
	c.ask(Live, other)
	if o := c.ask(Live, other); o.Cached {
		t.Error("a verdict without a place answers")
	}
	known, c.models = false, nil
	if o := c.ask(Replay, other); o.Document == nil {
		t.Error("a replay compares endpoints")
	}
}

// Tampering: a hand-edited entry is a miss, with a warning
// and an integrity event, and is judged again.
func TestForgedEntriesAreMissesWithAnEventAndAreJudgedAgain(t *testing.T) {
	resign := func(t *testing.T, c *court, file string, key *seal.Key, change func(*Document)) {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e Entry
		if err := canon.UnmarshalCanonical(data, &e); err != nil {
			t.Fatal(err)
		}
		d, err := ParseDocument(e.Document)
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		if e.Document, err = canon.Marshal(d); err != nil {
			t.Fatal(err)
		}
		e.Key, e.Public, e.Signature = key.Fingerprint(), key.Public().String(), ed25519.Sign(key.Ed25519(), signed(e.Document))
		if data, err = canon.Marshal(e); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block, warn := " "+string(evidence.Block), " "+string(evidence.Warn)
	for _, tt := range []struct {
		name  string
		forge func(t *testing.T, c *court, file string)
		want  string
	}{
		{"the score raised by hand", func(t *testing.T, c *court, file string) {
			edit(t, file, `"verdict":{"passed":false,"score":0`, `"verdict":{"passed":true,"score":1`)
		}, EventTampered + block},
		{"votes and verdict raised by hand", func(t *testing.T, c *court, file string) {
			edit(t, file, `"verdict":{"passed":false,"score":0`, `"verdict":{"passed":true,"score":1`)
			edit(t, file, `"passed":false,"reason":"wrong"`, `"passed":true,"reason":"wrong"`)
			edit(t, file, `"score":0}]`, `"score":1}]`)
		}, EventTampered + block},
		{"written anew with a blank", func(t *testing.T, c *court, file string) { edit(t, file, `{"document"`, `{ "document"`) }, EventTampered + block},
		{"a byte after it", func(t *testing.T, c *court, file string) { edit(t, file, `"}`, "\"}\n") }, EventTampered + block},
		{"the signature taken out", func(t *testing.T, c *court, file string) { edit(t, file, `"signature":`, `"unsigned":`) }, EventTampered + block},
		{"another key named", func(t *testing.T, c *court, file string) {
			edit(t, file, c.key.Fingerprint(), keyOf(t, 2).Fingerprint())
		}, EventTampered + block},
		{"another key named and carried", func(t *testing.T, c *court, file string) {
			edit(t, file, c.key.Fingerprint(), keyOf(t, 2).Fingerprint())
			edit(t, file, c.key.Public().String(), keyOf(t, 2).Public().String())
		}, EventTampered + block},
		{"signed by a key of the forger", func(t *testing.T, c *court, file string) {
			resign(t, c, file, keyOf(t, 2), func(d *Document) { d.Verdict.Score, d.Votes[0].Score = 1, 1 })
		}, EventOtherKey + warn},
		{"signed by our key without the label", func(t *testing.T, c *court, file string) {
			resign(t, c, file, c.key, func(*Document) {})
			data, _ := os.ReadFile(file)
			var e Entry
			if err := canon.UnmarshalCanonical(data, &e); err != nil {
				t.Fatal(err)
			}
			e.Signature = ed25519.Sign(c.key.Ed25519(), e.Document)
			data, _ = canon.Marshal(e)
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, EventTampered + block},
		{"signed by our key and not following from its votes", func(t *testing.T, c *court, file string) {
			resign(t, c, file, c.key, func(d *Document) { d.Verdict.Score = 1 })
		}, EventTampered + block},
		{"signed by our key and never a live draw", func(t *testing.T, c *court, file string) {
			resign(t, c, file, c.key, func(d *Document) { d.Source, d.Draw, d.DrawnAt = FromAuthored, 0, nil })
		}, EventTampered + block},
		{"signed by our key and never in the ledger", func(t *testing.T, c *court, file string) {
			resign(t, c, file, c.key, func(d *Document) {
				d.Verdict.Score, d.Verdict.Passed, d.Votes[0].Score, d.Votes[0].Passed = 1, true, 1, true
			})
		}, EventSuperseded + block},
		{"the verdict on another answer in its place", func(t *testing.T, c *court, file string) {
			other := newCourt(t, fakemodel.New(t, says(reply(1, true, "right"))...))
			other.ask(Live, aQuestion("4"))
			data, err := os.ReadFile(other.entry(aQuestion("4")))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, EventSwapped + block},
		{"garbage", func(t *testing.T, c *court, file string) {
			if err := os.WriteFile(file, []byte("correct: true"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, EventTampered + block},
		{"cut short", func(t *testing.T, c *court, file string) {
			if err := os.Truncate(file, 100); err != nil {
				t.Fatal(err)
			}
		}, EventTampered + block},
		{"larger than any entry", func(t *testing.T, c *court, file string) {
			if err := os.WriteFile(file, bytes.Repeat([]byte(" "), maxEntryBytes+1), 0o600); err != nil {
				t.Fatal(err)
			}
		}, EventTampered + block},
		// Entries of before there were signatures. They are worth nothing, but
		// they are not tampering.
		{"an entry that was never signed", func(t *testing.T, c *court, file string) {
			if err := os.WriteFile(file, []byte(`{"questionId": "add", "passed": true, "judgeModel": "fake-1"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := twoVerdicts(t)
			q := aQuestion("5")
			c.ask(Live, q)
			tt.forge(t, c, c.entry(q))
			o := c.ask(Live, q)
			c.requireScore(o, 1)
			if o.Cached || len(c.draws) != 2 {
				t.Errorf("it was not judged again: %d draws", len(c.draws))
			}
			if got := eventNames(o.Events); got != tt.want {
				t.Errorf("events %q, want %q", got, tt.want)
			}
			for _, e := range o.Events {
				if err := e.Validate(); err != nil {
					t.Error(err)
				}
				if !strings.Contains(string(e.Data), `"attempt":"`+q.Attempt+`"`) {
					t.Errorf("it does not name the attempt: %s", e.Data)
				}
			}
			// The new verdict has taken the forgery's place.
			if again := c.ask(Live, q); !again.Cached || again.Score != 1 || len(again.Events) > 0 {
				t.Errorf("after that: %+v", again)
			}
		})
	}
}

// An older verdict was signed too. Only the last draw counts.
func TestAnOlderVerdictCannotBePutBack(t *testing.T) {
	c := newCourt(t, fakemodel.New(t, says(reply(1, true, "right"), reply(0, false, "wrong"), reply(0, false, "still wrong"))...))
	q := aQuestion("5")
	c.ask(Live, q)
	old, err := os.ReadFile(c.entry(q))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.entry(q)); err != nil {
		t.Fatal(err)
	}
	c.requireScore(c.ask(Live, q), 0)
	if err := os.WriteFile(c.entry(q), old, 0o600); err != nil {
		t.Fatal(err)
	}
	o := c.ask(Live, q)
	c.requireScore(o, 0)
	if eventNames(o.Events) != EventSuperseded+" block" || len(c.draws) != 3 {
		t.Errorf("%s, %d draws", eventNames(o.Events), len(c.draws))
	}
}

func TestAVerdictOfAnotherLedgerIsAMiss(t *testing.T) {
	c := twoVerdicts(t)
	c.ask(Live, aQuestion("5"))
	c.draws = nil // a fresh ledger with an old cache
	o := c.ask(Live, aQuestion("5"))
	c.requireScore(o, 1)
	if eventNames(o.Events) != EventUnknown+" warn" {
		t.Error(eventNames(o.Events))
	}
}

func TestNoChangedBitOfAnEntryGoesUnnoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	c := newCourt(t, fakemodel.New(t, says(reply(0, false, "wrong"))...))
	c.ask(Live, aQuestion("5"))
	data, err := os.ReadFile(c.entry(aQuestion("5")))
	if err != nil {
		t.Fatal(err)
	}
	cache := OpenCache(c.dir, c.key)
	if _, s, why := cache.open(data); s != hit {
		t.Fatalf("%s: %s", s, why)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1 << (i % 8)
		if _, s, _ := cache.open(changed); s == hit || s == legacy {
			t.Fatalf("byte %d: %q became %q, and it is a %s", i, data[i], changed[i], s)
		}
	}
}

func TestEntriesArePrivate(t *testing.T) {
	c := newCourt(t, fakemodel.New(t, says(reply(0, false, "wrong"))...))
	c.ask(Live, aQuestion("5"))
	for name, want := range map[string]os.FileMode{c.dir: 0o700, c.entry(aQuestion("5")): 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", filepath.Base(name), got, want)
		}
	}
}

// An entry that cannot be read is not a miss: an operator must not make the
// judge roll again by making its cache unreadable.
func TestAnUnreadableEntryStopsTheWork(t *testing.T) {
	c := newCourt(t, fakemodel.New(t))
	if err := os.MkdirAll(c.entry(aQuestion("5")), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.judge(Live).Ask(context.Background(), aQuestion("5"), c.models, FromLive); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("got %v", err)
	}
	if len(c.draws) != 0 {
		t.Error("it drew all the same")
	}
}

func TestPruneRemovesWhatIsOldAndTellsIt(t *testing.T) {
	c := newCourt(t, fakemodel.New(t, says(reply(0, false, "wrong"), reply(1, true, "right"))...))
	c.ask(Live, aQuestion("5"))
	c.now = c.now.Add(48 * time.Hour)
	c.ask(Live, aQuestion("4"))
	other := filepath.Join(c.dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(c.dir, strings.Repeat("0", 64)+".json")
	if err := os.WriteFile(old, []byte(`{"passed":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, c.now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	cache := OpenCache(c.dir, c.key)
	list, err := cache.List()
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	states := map[string]int{}
	for _, l := range list {
		states[l.State]++
	}
	if states["hit"] != 2 || states["legacy"] != 1 {
		t.Errorf("states: %v", states)
	}
	removed, err := cache.Prune(c.now.Add(-24 * time.Hour))
	if err != nil || len(removed) != 1 || removed[0].CaseID != "add" || *removed[0].Score != 0 {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	if removed, err = cache.Prune(c.now); err != nil || len(removed) != 1 || removed[0].State != "legacy" {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	if o := c.ask(Live, aQuestion("4")); !o.Cached {
		t.Error("what is not old was removed")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if list, err := OpenCache(filepath.Join(c.dir, "none"), c.key).List(); err != nil || list != nil {
		t.Errorf("of no folder: %v, %v", list, err)
	}
}

// FuzzEntry: whatever is a hit is exactly the bytes that writing it gives.
func FuzzEntry(f *testing.F) {
	key := keyOf(f, 1)
	cache := OpenCache(f.TempDir(), key)
	data, err := os.ReadFile(filepath.Join("testdata", "entry_1-draft.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"document":{},"key":"","public":"","signature":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, s, _ := cache.open(data)
		if s != hit {
			return
		}
		text, name, err := d.bytes()
		if err != nil || name != digest.ContentOf(text) {
			t.Fatal(err)
		}
		var e Entry
		if err := canon.UnmarshalCanonical(data, &e); err != nil || !bytes.Equal(e.Document, text) {
			t.Fatalf("a hit of other bytes: %v", err)
		}
	})
}
