package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// openError opens a ledger and closes it again.
func openError(cfg Config) error {
	l, err := Open(context.Background(), cfg)
	if err == nil {
		l.Close()
	}
	return err
}

func refused(t testing.TB, err error, name refusal.Name) {
	t.Helper()
	if !refusal.Is(err, name) {
		t.Errorf("got %v, want %s", err, name)
	}
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func appendNote(t testing.TB, cfg Config, n int) {
	t.Helper()
	l := mustOpen(t, cfg)
	if _, err := l.Append(evidence.NoteKind, fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func publish(t testing.TB, cfg Config) *Published {
	t.Helper()
	l := mustOpen(t, cfg)
	defer l.Close()
	pub, err := l.PublishAnchor(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

func segmentPath(cfg Config) string {
	return filepath.Join(cfg.SegmentsDir(), "0000000000000000.log")
}

func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsAppendedToAForgedLedger: whatever was done to the folder while
// it was closed, opening it for writing names it.
func TestNothingIsAppendedToAForgedLedger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(t *testing.T, cfg Config)
		want  refusal.Name
	}{
		{"entry changed", func(t *testing.T, cfg Config) {
			rewrite(t, segmentPath(cfg), func(b []byte) []byte { return bytes.Replace(b, []byte(`{"n":1}`), []byte(`{"n":7}`), 1) })
		}, refusal.ChainTamperDetected},
		{"segment removed", func(t *testing.T, cfg Config) { os.Remove(segmentPath(cfg)) }, refusal.HistoryRolledBack},
		{"segment emptied", func(t *testing.T, cfg Config) {
			rewrite(t, segmentPath(cfg), func([]byte) []byte { return nil })
		}, refusal.HistoryRolledBack},
		{"segment renamed", func(t *testing.T, cfg Config) {
			os.Rename(segmentPath(cfg), filepath.Join(cfg.SegmentsDir(), "0000000000000001.log"))
		}, refusal.ChainTamperDetected},
		{"extra segment", func(t *testing.T, cfg Config) {
			os.WriteFile(filepath.Join(cfg.SegmentsDir(), "0000000000000099.log"), nil, 0o600)
		}, refusal.ChainTamperDetected},
		{"stray file", func(t *testing.T, cfg Config) {
			os.WriteFile(filepath.Join(cfg.SegmentsDir(), "notes.txt"), nil, 0o600)
		}, refusal.Malformed},
		{"folder instead of segment", func(t *testing.T, cfg Config) {
			os.Remove(segmentPath(cfg))
			os.Mkdir(segmentPath(cfg), 0o700)
		}, refusal.Malformed},
		{"link instead of segment", func(t *testing.T, cfg Config) {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			os.Rename(segmentPath(cfg), elsewhere)
			if err := os.Symlink(elsewhere, segmentPath(cfg)); err != nil {
				t.Skip(err)
			}
		}, refusal.Malformed},
		{"file instead of the segments folder", func(t *testing.T, cfg Config) {
			os.RemoveAll(cfg.SegmentsDir())
			os.WriteFile(cfg.SegmentsDir(), nil, 0o600)
		}, refusal.Unreadable},
		{"tail cut at a seal", func(t *testing.T, cfg Config) {
			rewrite(t, segmentPath(cfg), func(b []byte) []byte {
				lines := bytes.SplitAfter(b, []byte("\n"))
				return bytes.Join(lines[:len(lines)-3], nil)
			})
		}, refusal.HistoryRolledBack},
		{"torn tail", func(t *testing.T, cfg Config) {
			rewrite(t, segmentPath(cfg), func(b []byte) []byte { return append(b, "half a line"...) })
		}, refusal.TornTail},
		{"whole ledger gone", func(t *testing.T, cfg Config) { os.RemoveAll(cfg.Dir) }, refusal.NotFound},
		{"memory damaged", func(t *testing.T, cfg Config) {
			rewrite(t, memoryPath(cfg.StateDir, cfg.Origin), func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) })
		}, refusal.MemoryDamaged},
		{"memory longer than a memory", func(t *testing.T, cfg Config) {
			rewrite(t, memoryPath(cfg.StateDir, cfg.Origin), func(b []byte) []byte { return append(b, make([]byte, 100)...) })
		}, refusal.MemoryDamaged},
		{"memory of another history", func(t *testing.T, cfg Config) {
			rewrite(t, memoryPath(cfg.StateDir, cfg.Origin), func([]byte) []byte {
				return appendSlot(nil, ledger.TreeHead{Origin: cfg.Origin, Size: 3})
			})
		}, refusal.HistoryForked},
		{"anchor edited", func(t *testing.T, cfg Config) {
			rewrite(t, anchorPath(cfg), func(b []byte) []byte { return bytes.Replace(b, []byte(`"size":4`), []byte(`"size":3`), 1) })
		}, refusal.AnchorMismatch},
		{"anchor cut", func(t *testing.T, cfg Config) {
			rewrite(t, anchorPath(cfg), func(b []byte) []byte { return b[:100] })
		}, refusal.AnchorSignatureInvalid},
		{"anchor empty", func(t *testing.T, cfg Config) {
			rewrite(t, anchorPath(cfg), func(b []byte) []byte { return nil })
		}, refusal.AnchorSignatureInvalid},
		{"anchor of another day", func(t *testing.T, cfg Config) {
			os.Rename(anchorPath(cfg), filepath.Join(cfg.Anchors, "2026-05-11.json"))
		}, refusal.AnchorMismatch},
		{"anchor's signature stripped", func(t *testing.T, cfg Config) {
			rewrite(t, anchorPath(cfg), func(b []byte) []byte {
				a, err := ledger.ParseAnchor(b)
				if err != nil {
					t.Fatal(err)
				}
				a.Signature = ""
				data, _ := a.Marshal()
				return data
			})
		}, refusal.AnchorSignatureInvalid},
		{"anchor of another ledger", func(t *testing.T, cfg Config) {
			other := testConfig(t)
			other.Origin = "example.com/other"
			mustCreate(t, other, 3)
			copyDir(t, filepath.Dir(publish(t, other).Path), cfg.Anchors)
		}, refusal.HistoryForked},
		{"anchor of a longer history by the same operator", func(t *testing.T, cfg Config) {
			other := testConfig(t)
			mustCreate(t, other, 9)
			copyDir(t, filepath.Dir(publish(t, other).Path), cfg.Anchors)
		}, refusal.HistoryRolledBack},
		{"anchor of another history by the same operator", func(t *testing.T, cfg Config) {
			other := testConfig(t)
			mustCreate(t, other, 1)
			appendNote(t, other, 99)
			copyDir(t, filepath.Dir(publish(t, other).Path), cfg.Anchors)
		}, refusal.HistoryForked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(t)
			mustCreate(t, cfg, 3)
			publish(t, cfg)
			if err := openError(cfg); err != nil {
				t.Fatal(err)
			}
			tt.forge(t, cfg)
			refused(t, openError(cfg), tt.want)
			if tt.want != refusal.TornTail {
				if _, err := Repair(context.Background(), cfg); err == nil {
					t.Error("repair accepted it")
				}
			}
		})
	}
}

// TestAnAnchorOutsideEveryOperatorsTimeDoesNotVerify: such an anchor is a
// forgery, not a mistake of the caller.
func TestAnAnchorOutsideEveryOperatorsTimeDoesNotVerify(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	publish(t, cfg)
	files, err := LoadAnchors(cfg.FS, cfg.Anchors)
	if err != nil {
		t.Fatal(err)
	}
	confirm := AnchorExpectations(files)[0].Confirm
	for until, want := range map[string]refusal.Name{"20260512140000Z": "", "20260512135959Z": refusal.AnchorSignatureInvalid} {
		text := bytes.ReplaceAll(testSigners(t), []byte(" ssh-ed25519"), []byte(` valid-before="`+until+`" ssh-ed25519`))
		signers, err := seal.ParseSigners("signers", text)
		if err != nil {
			t.Fatal(err)
		}
		if err := confirm(signers); want == "" && err != nil {
			t.Errorf("valid until %s: %v", until, err)
		} else if want != "" {
			refused(t, err, want)
		}
	}
}

func anchorPath(cfg Config) string { return filepath.Join(cfg.Anchors, "2026-05-12.json") }

func TestWrongTrustRootAndOriginAreRefused(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	wrong := cfg
	wrong.TrustRoot = digest.IDOf([]byte("other"))
	refused(t, openError(wrong), refusal.SignersChainBroken)
	wrong = cfg
	wrong.Origin = "example.com/other"
	refused(t, openError(wrong), refusal.HistoryForked)
	wrong = cfg
	wrong.Key = testKey(t, 2)
	refused(t, openError(wrong), refusal.NotAnOperator)
}

// TestAnOldCopyOfTheFolderIsRefused rolls the whole folder back. The memory
// catches it on this machine, the anchors on every other; with neither it is
// not caught, which is the limit that the documentation states.
func TestAnOldCopyOfTheFolderIsRefused(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	old := filepath.Join(t.TempDir(), "old")
	copyDir(t, cfg.Dir, old)
	appendNote(t, cfg, 4)
	publish(t, cfg)
	copyDir(t, old, cfg.Dir)

	refused(t, openError(cfg), refusal.HistoryRolledBack)
	elsewhere := cfg
	elsewhere.StateDir = t.TempDir()
	refused(t, openError(elsewhere), refusal.HistoryRolledBack)
	elsewhere.Anchors = ""
	if err := openError(elsewhere); err != nil {
		t.Errorf("without memory and anchors there is nothing to compare with, and yet: %v", err)
	}
	// Nor can a new ledger of that name be started over the lost one.
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	_, err := Create(context.Background(), cfg, testSigners(t))
	refused(t, err, refusal.HistoryRolledBack)
}

func TestTwoCopiesOfTheFolderDoNotBothGrow(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	twin := cfg
	twin.Dir = filepath.Join(t.TempDir(), "twin")
	copyDir(t, cfg.Dir, twin.Dir)

	// While one is open the other waits, although their locks are two files.
	l := mustOpen(t, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := Open(ctx, twin)
	refused(t, err, refusal.LedgerBusy)
	l.Close()

	appendNote(t, cfg, 4)
	refused(t, openError(twin), refusal.HistoryRolledBack)
	// With the memory thrown away both grow, and the first anchor tells.
	if err := os.RemoveAll(cfg.StateDir); err != nil {
		t.Fatal(err)
	}
	appendNote(t, twin, 5)
	refused(t, openError(cfg), refusal.HistoryForked)
}

func TestEntriesNeverGoBackInTime(t *testing.T) {
	cfg := testConfig(t)
	now := cfg.Now()
	cfg.Now = func() time.Time { return now }
	mustCreate(t, cfg, 1)
	read := func() (kinds []evidence.Kind, times []evidence.Time) {
		o := options(cfg)
		o.Visit = func(r ledger.Record) error {
			kinds, times = append(kinds, r.Envelope.Kind), append(times, r.Envelope.Time)
			return nil
		}
		if _, err := cfg.Verify(o); err != nil {
			t.Fatal(err)
		}
		return kinds, times
	}

	// Between two runs the clock is set back an hour: recorded once.
	now = now.Add(-time.Hour)
	l := mustOpen(t, cfg)
	for range 2 {
		if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	// During the run it catches up, and falls back again: recorded again.
	now = now.Add(3 * time.Hour)
	if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Minute)
	pos, err := l.Append(evidence.NoteKind, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	// A few seconds are not worth a record.
	now = now.Add(time.Minute - 2*time.Second)
	if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	kinds, times := read()
	want := []evidence.Kind{evidence.LedgerOpened, evidence.NoteKind, evidence.IntegrityEventKind, evidence.NoteKind, evidence.NoteKind,
		evidence.NoteKind, evidence.IntegrityEventKind, evidence.NoteKind, evidence.NoteKind}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	for i := 1; i < len(times); i++ {
		if times[i].Before(times[i-1]) {
			t.Errorf("entry %d is of %s, the one before of %s", i, times[i], times[i-1])
		}
	}
	if pos.Index != 7 {
		t.Errorf("the entry after the event has index %d, want 7", pos.Index)
	}

	now = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	l = mustOpen(t, cfg)
	if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err == nil {
		t.Error("an entry of the year 10000 was written, which no reader accepts")
	}
	l.Close()
}

// changeOf is a change of signers by alice and bob to the given operators.
func changeOf(t testing.TB, operators ...byte) []byte {
	t.Helper()
	entries := []seal.Entry{
		{Principals: "alice@example.com", Key: testKey(t, 2).Public(), Roles: []seal.Role{seal.Curator}},
		{Principals: "bob@example.com", Key: testKey(t, 3).Public(), Roles: []seal.Role{seal.Curator, seal.Security}},
	}
	for _, n := range operators {
		entries = append(entries, seal.Entry{Principals: fmt.Sprintf("operator%d@example.com", n), Key: testKey(t, n).Public(), Roles: []seal.Role{seal.Operator}})
	}
	next, err := seal.Compose(2, digest.IDOf(testSigners(t)), entries)
	if err != nil {
		t.Fatal(err)
	}
	change := evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, n := range []byte{2, 3} {
		sig, err := seal.SignWith(testKey(t, n).Signer(), seal.NamespaceSigners, next)
		if err != nil {
			t.Fatal(err)
		}
		change.Signatures = append(change.Signatures, string(sig))
	}
	body, err := canon.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestAReplacedOperatorSignsNothingMore: the writer's own key is taken out
// while it is open. Everything it wrote verifies, it writes no more, and the
// new operator goes on, anchors included.
func TestAReplacedOperatorSignsNothingMore(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	l := mustOpen(t, cfg)
	if _, err := l.Append(evidence.SignersChangedKind, changeOf(t, 4)); err != nil {
		t.Fatal(err)
	}
	_, err := l.PublishAnchor(context.Background(), nil)
	refused(t, err, refusal.NotAnOperator)
	_, err = l.Append(evidence.NoteKind, []byte(`{}`))
	refused(t, err, refusal.NotAnOperator)
	l.Close()
	refused(t, openError(cfg), refusal.NotAnOperator)

	cfg.Key = testKey(t, 4)
	publish(t, cfg) // right after the change: the last seal is the old operator's
	publish(t, cfg)
	appendNote(t, cfg, 9)
	v, err := cfg.Verify(options(cfg))
	if err != nil || v.Size != 6 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestAChangeOfSignersEndsItsBatch: what waits behind it is sealed apart, by an
// operator of the new file. Together they would not verify.
func TestAChangeOfSignersEndsItsBatch(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 0)
	l := mustOpen(t, cfg)
	// The others come in while the first is on its way to disk.
	pending := []*Pending{
		l.Submit(evidence.NoteKind, []byte(`{}`)), l.Submit(evidence.NoteKind, []byte(`{}`)),
		l.Submit(evidence.SignersChangedKind, changeOf(t, 1)), l.Submit(evidence.NoteKind, []byte(`{}`)), l.Submit(evidence.NoteKind, []byte(`{}`)),
	}
	for i, p := range pending {
		if pos, err := p.Wait(); err != nil || pos.Index != int64(i+1) {
			t.Errorf("entry %d: %d, %v", i+1, pos.Index, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := cfg.Verify(options(cfg)); err != nil || v.Size != 6 || v.Signers.Version() != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestCreateDoesNotWriteIntoALedger(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	cfg.StateDir, cfg.Anchors = t.TempDir(), "" // nothing else knows of it
	_, err := Create(context.Background(), cfg, testSigners(t))
	refused(t, err, refusal.AlreadyExists)
	if v, err := cfg.Verify(options(cfg)); err != nil || v.Size != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAChangeOfSignersNeedsItsSignatures(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	l := mustOpen(t, cfg)
	defer l.Close()
	body := changeOf(t, 4)
	var change evidence.SignersChanged
	if err := canon.Unmarshal(body, &change); err != nil {
		t.Fatal(err)
	}
	change.Signatures[1] = change.Signatures[0]
	_, err := l.AppendRecord(evidence.SignersChangedKind, &change)
	refused(t, err, refusal.TwoPersonRule)
	// The refused record does not stop the ledger.
	if _, err := l.Append(evidence.NoteKind, []byte(`{}`)); err != nil {
		t.Error(err)
	}
}

// deepNote is a note of n objects inside each other.
func deepNote(n int) string {
	return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

// FuzzWhatIsAcceptedVerifies: a record that the ledger takes from a person can
// be read again. What is sealed cannot be taken back.
func FuzzWhatIsAcceptedVerifies(f *testing.F) {
	f.Add(string(evidence.NoteKind), []byte(deepNote(64)))
	f.Add(string(evidence.NoteKind), []byte(`{"kind":"note","time":"x","v":"1-draft"}`))
	f.Add(string(evidence.IntegrityEventKind), []byte(`{"name":"x","severity":"warn","detail":"d","data":{"a":[1,2.50,"\u00e9"]}}`))
	f.Add(string(evidence.ApplyBlockedKind), []byte(`{"class":"c","tier":"gold"}`))
	f.Add(string(evidence.CaseStartedKind), []byte(`{"attempt":"a","case_id":"c","repeat":1,"execution":1}`))
	at := evidence.At(time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		p, err := manual(evidence.Kind(kind), body)
		if err != nil {
			return
		}
		entry := evidence.AppendEntry(nil, p.body, p.kind, p.manual, at)
		if _, _, err := evidence.DecodeEntry(entry); err != nil || canon.Validate(entry) != nil || len(entry) > evidence.MaxEntryBytes {
			t.Fatalf("accepted, and not to be read again: %s: %v", entry, err)
		}
	})
}

func TestSubmitRefusesWhatWouldBreakTheLedger(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 0)
	l := mustOpen(t, cfg)
	for _, tt := range []struct {
		name string
		kind evidence.Kind
		body string
		want refusal.Name
	}{
		{"a newline", evidence.NoteKind, "{\n}", refusal.Malformed},
		{"no object", evidence.NoteKind, "[]", refusal.Malformed},
		{"nothing", evidence.NoteKind, "", refusal.Malformed},
		{"unknown kind", "novelty", "{}", refusal.UnknownKind},
		{"a kind that ends the envelope", `note","v":"1-draft"}`, "{}", refusal.UnknownKind},
		{"second genesis", evidence.LedgerOpened, "{}", refusal.Malformed},
		{"too large", evidence.NoteKind, `{"x":"` + strings.Repeat("x", evidence.MaxEntryBytes) + `"}`, refusal.TooLarge},
		{"too deep for its envelope", evidence.NoteKind, deepNote(64), refusal.Malformed},
	} {
		_, err := l.Append(tt.kind, []byte(tt.body))
		if !refusal.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	if _, err := l.SubmitManual(evidence.NoteKind, []byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("duplicate keys were accepted by hand")
	}
	if _, err := l.SubmitManual(evidence.NoteKind, []byte(deepNote(64))); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("too deep, by hand: %v", err)
	}
	if _, err := l.Append(evidence.NoteKind, []byte(deepNote(63))); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	p, err := l.SubmitManual(evidence.NoteKind, []byte("{ \"b\": 1.0,\n\"a\": 2 }"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	var raw string
	o := options(cfg)
	o.Visit = func(r ledger.Record) error { raw = string(r.Raw); return nil }
	if _, err := cfg.Verify(o); err != nil {
		t.Fatal(err)
	}
	if want := `{"body":{"a":2,"b":1},"kind":"note","manual":true,"time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`; raw != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

// TestTilesAreComparedWithTheEntries flips a bit in each byte of every
// published file, those of an earlier publication included, takes every one
// away, and replaces the checkpoint.
func TestTilesAreComparedWithTheEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	publish(t, cfg)
	publish(t, cfg)
	check := func() ([]ledger.Problem, error) {
		tiles, err := cfg.CheckTiles()
		if err != nil {
			return nil, err
		}
		o := options(cfg)
		o.Visit = tiles.Visit
		v, err := cfg.Verify(o)
		if refusal.ExitCode(err) == refusal.ExitUnverified { // the walk found it
			return []ledger.Problem{{Name: refusal.Of(err).Name, Detail: err.Error()}}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return tiles.Problems(v)
	}
	if problems, err := check(); err != nil || len(problems) > 0 {
		t.Fatalf("honest tiles: %v, %v", problems, err)
	}
	cases := 0
	expect := func(path, what string, name refusal.Name) {
		t.Helper()
		problems, err := check()
		if err != nil || len(problems) != 1 || problems[0].Name != name {
			t.Errorf("%s %s: got %v, %v, want %s", path, what, problems, err, name)
		}
		cases++
	}
	files := []string{"checkpoint", "tile/0/000.p/5", "tile/entries/000.p/5", "tile/0/000.p/4", "tile/entries/000.p/4"}
	for _, name := range files {
		path := filepath.Join(cfg.TilesDir(), filepath.FromSlash(name))
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := refusal.TileMismatch
		if name == "checkpoint" {
			want = refusal.CheckpointInvalid
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			expect(name, fmt.Sprintf("flipped in byte %d", i), want)
		}
		os.WriteFile(path, good[:len(good)-1], 0o600)
		expect(name, "cut", want)
		os.WriteFile(path, append(bytes.Clone(good), make([]byte, 2<<20)...), 0o600)
		expect(name, "grown", want)
		if strings.HasSuffix(name, "5") { // of an earlier tree none need be there
			os.Remove(path)
			expect(name, "missing", want)
		}
		os.WriteFile(path, good, 0o600)
	}
	checkpoint := filepath.Join(cfg.TilesDir(), "checkpoint")
	replace := func(size int64, root [32]byte, key byte) {
		signer, err := seal.NoteSigner(testKey(t, key), cfg.Origin)
		if err != nil {
			t.Fatal(err)
		}
		head := ledger.TreeHead{Origin: cfg.Origin, Size: size, Root: root}
		sig, _ := signer.Sign([]byte(head.Text()))
		h := signer.KeyHash()
		note := ledger.AssembleCheckpoint(head, append([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}, sig...))
		if err := os.WriteFile(checkpoint, note, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(4, [32]byte{}, 9)
	expect("checkpoint", "by a stranger", refusal.CheckpointInvalid)
	replace(4, [32]byte{}, 1)
	expect("checkpoint", "of another tree", refusal.HistoryForked)
	replace(40, [32]byte{}, 1)
	expect("checkpoint", "of a larger tree", refusal.HistoryRolledBack)
	t.Logf("%d cases", cases)
}

// TestUnexpectedTilesAreNamed: a file among the tiles that no entry gives is
// named by a strict verification, and tiles without a checkpoint are compared
// with the entries all the same. One of a larger tree is what is left of a ledger
// that was cut.
func TestUnexpectedTilesAreNamed(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	publish(t, cfg)
	check := func() (problems, unexpected []ledger.Problem) {
		t.Helper()
		tiles, err := cfg.CheckTiles()
		if err != nil {
			t.Fatal(err)
		}
		o := options(cfg)
		o.Visit = tiles.Visit
		v, err := cfg.Verify(o)
		if err != nil {
			t.Fatal(err)
		}
		if problems, err = tiles.Problems(v); err != nil {
			t.Fatal(err)
		}
		return problems, tiles.Unexpected()
	}
	if problems, unexpected := check(); len(problems)+len(unexpected) > 0 {
		t.Fatalf("honest tiles: %v, %v", problems, unexpected)
	}
	put := func(name string) string {
		path := filepath.Join(cfg.TilesDir(), filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"tile/0/000.p/200", "tile/0/000.p/6", "tile/0/001", "tile/1/000.p/1", "tile/6/000", "tile/entries/000.p/6", "tile/entries/x001/000"} {
		path := put(name)
		_, err := cfg.Verify(options(cfg))
		refused(t, err, refusal.HistoryRolledBack)
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tile/7/000", "tile/0/000.p/04", "tile/notes.txt", "more", "tile/0/000.p/4.bak", "heads/1"} {
		path := put(name)
		if problems, unexpected := check(); len(problems) > 0 || len(unexpected) != 1 || !strings.Contains(unexpected[0].Detail, name) {
			t.Errorf("%s: got %v, %v", name, problems, unexpected)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(cfg.TilesDir(), "checkpoint")); err != nil {
		t.Fatal(err)
	}
	if problems, unexpected := check(); len(problems) > 0 || len(unexpected) != 1 {
		t.Errorf("without a checkpoint: got %v, %v", problems, unexpected)
	}
	files, err := filepath.Glob(filepath.Join(cfg.TilesDir(), "tile", "0", "000.p", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems, _ := check(); len(problems) != 1 || problems[0].Name != refusal.TileMismatch {
		t.Errorf("a changed tile without a checkpoint: got %v", problems)
	}
}

func TestPublishDoesNotReplaceAnAnchorThatDisagrees(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	l := mustOpen(t, cfg)
	defer l.Close()
	if err := os.MkdirAll(cfg.Anchors, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(anchorPath(cfg), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := l.PublishAnchor(context.Background(), nil)
	refused(t, err, refusal.AnchorSignatureInvalid)
	other := testConfig(t)
	mustCreate(t, other, 1)
	appendNote(t, other, 99)
	copyDir(t, filepath.Dir(publish(t, other).Path), cfg.Anchors) // as git would, while the ledger is open
	_, err = l.PublishAnchor(context.Background(), nil)
	refused(t, err, refusal.HistoryForked)
}

func TestUnreadableIsNotTampered(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	cfg := testConfig(t)
	mustCreate(t, cfg, 1)
	publish(t, cfg)
	for _, path := range []string{segmentPath(cfg), cfg.SegmentsDir(), cfg.Dir, anchorPath(cfg), cfg.Anchors} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0)
		err = openError(cfg)
		os.Chmod(path, info.Mode().Perm())
		if refusal.ExitCode(err) != refusal.ExitFailed || refusal.Is(err, refusal.NotFound) {
			t.Errorf("%s without permission: %v", path, err)
		}
	}
	state := filepath.Join(cfg.StateDir, "ledgers")
	os.Chmod(state, 0)
	_, err := Remembered(store.OS{}, cfg.StateDir, cfg.Origin)
	os.Chmod(state, 0o700)
	refused(t, err, refusal.Unreadable)
}

// TestRepairCutsNothingThatWasAcknowledged: a batch whose seal was damaged looks
// like one that a crash left. The memory and the anchors know better, each
// alone.
func TestRepairCutsNothingThatWasAcknowledged(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	publish(t, cfg)
	damage := func(cfg Config, keep int) []byte {
		rewrite(t, segmentPath(cfg), func(b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			last := bytes.Join(lines[:keep], nil)
			return append(last[:len(last)-20], '\n')
		})
		data, err := os.ReadFile(segmentPath(cfg))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, forget := range map[string]func(*Config){
		"memory":         func(c *Config) { c.Anchors = ""; os.RemoveAll(c.TilesDir()) },
		"anchors":        func(c *Config) { c.StateDir = t.TempDir(); os.RemoveAll(c.TilesDir()) },
		"tiles":          func(c *Config) { c.Anchors, c.StateDir = "", t.TempDir() },
		"a lone tile":    func(c *Config) { c.Anchors, c.StateDir = "", t.TempDir(); os.Remove(c.checkpointPath()) },
		"the checkpoint": func(c *Config) { c.Anchors, c.StateDir = "", t.TempDir(); os.RemoveAll(c.tileFile("tile")) },
	} {
		twin := cfg
		twin.Dir = filepath.Join(t.TempDir(), "twin")
		copyDir(t, cfg.Dir, twin.Dir)
		before := damage(twin, 8) // the fourth entry and its seal, which the anchor covers
		forget(&twin)
		_, err := Repair(context.Background(), twin)
		refused(t, err, refusal.HistoryRolledBack)
		if after, err := os.ReadFile(segmentPath(twin)); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: repair cut what was acknowledged (%v)", name, err)
		}
	}
	// No caller knows of it: then it is what a crash left, and its bytes are
	// kept.
	before := damage(cfg, 8)
	cfg.Anchors, cfg.StateDir = "", t.TempDir()
	os.RemoveAll(cfg.TilesDir())
	r, err := Repair(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(r.Kept)
	after, err2 := os.ReadFile(segmentPath(cfg))
	if err != nil || err2 != nil || !bytes.Equal(append(after, kept...), before) || r.Entries != 3 {
		t.Errorf("%+v: %d bytes left and %d kept of %d (%v, %v)", r, len(after), len(kept), len(before), err, err2)
	}
}

// A witness that does something before it fails, or answers nothing.
type badWitness struct {
	do  func()
	err error
}

func (badWitness) Name() string { return "witness.example" }

func (w badWitness) Cosign(context.Context, *ledger.Checkpoint, *ledger.Tree) ([]byte, error) {
	if w.do != nil {
		w.do()
	}
	return nil, w.err
}

// TestNothingIsPublishedOverWhatAWitnessDisproves: one that cannot be reached is
// caught up on later, one that has seen another history is not.
func TestNothingIsPublishedOverWhatAWitnessDisproves(t *testing.T) {
	cfg := testConfig(t)
	mustCreate(t, cfg, 3)
	l := mustOpen(t, cfg)
	defer l.Close()
	forked := refusal.Newf(refusal.HistoryForked, "another history")
	_, err := l.PublishAnchor(context.Background(), []Cosigner{badWitness{err: forked}})
	refused(t, err, refusal.HistoryForked)
	for _, path := range []string{anchorPath(cfg), cfg.TilesDir()} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s was written (%v)", path, err)
		}
	}
	if tip := l.Tip(); tip.Size != 4 {
		t.Errorf("%d entries, the publication was recorded", tip.Size)
	}

	pub, err := l.PublishAnchor(context.Background(), []Cosigner{badWitness{err: refusal.Newf(refusal.WitnessFailed, "no answer")}})
	if err != nil || len(pub.Failed) != 1 || len(pub.Witnesses) != 0 {
		t.Errorf("unreachable: %+v, %v", pub, err)
	}

	// Meanwhile git brings the anchor of a longer ledger.
	longer := testConfig(t)
	mustCreate(t, longer, 9)
	theirs, err := os.ReadFile(publish(t, longer).Path)
	if err != nil {
		t.Fatal(err)
	}
	arrives := badWitness{do: func() { os.WriteFile(anchorPath(cfg), theirs, 0o644) }, err: refusal.Newf(refusal.WitnessFailed, "no answer")}
	_, err = l.PublishAnchor(context.Background(), []Cosigner{arrives})
	refused(t, err, refusal.HistoryRolledBack)
	if data, err := os.ReadFile(anchorPath(cfg)); err != nil || !bytes.Equal(data, theirs) {
		t.Errorf("the larger anchor was replaced (%v)", err)
	}
}
