package sequencer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// keepAll verifies a ledger whole and keeps it.
func keepAll(t *testing.T, cfg Config, facts string, before *Recollection) {
	t.Helper()
	v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot})
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Keep(v, Recollection{Facts: []byte(facts), Whole: evidence.At(time.Unix(1e9, 0))}, before, cfg.Key); err != nil {
		t.Fatal(err)
	}
}

func mustRecall(t *testing.T, cfg Config) *Recollection {
	t.Helper()
	r, why, err := cfg.Recall(cfg.Origin, cfg.Key)
	if err != nil || r == nil {
		t.Fatalf("not recalled: %s %v", why, err)
	}
	return r
}

// TestAPastIsKeptAndRecalled over appending, which touches the last segment and begins
// others.
func TestAPastIsKeptAndRecalled(t *testing.T) {
	cfg := testConfig(t)
	cfg.segmentBytes = 2000
	mustCreate(t, cfg, 30)
	if r, why, err := cfg.Recall(cfg.Origin, cfg.Key); r != nil || why == "" || err != nil {
		t.Fatalf("recalled %v, %q, %v of a ledger that was never kept", r, why, err)
	}
	keepAll(t, cfg, "one", nil)
	first := mustRecall(t, cfg)
	if string(first.Facts) != "one" || first.Frontier.Size != 31 || first.Whole.Go().Unix() != 1e9 {
		t.Errorf("recalled %+v", first)
	}
	appendNotes(t, cfg, 25)
	if r := mustRecall(t, cfg); r.Frontier.Size != 31 {
		t.Errorf("recalled %d entries after others were appended, want 31", r.Frontier.Size)
	}
	keepAll(t, cfg, "two", first)
	second := mustRecall(t, cfg)
	if string(second.Facts) != "two" || second.Frontier.Size != 56 {
		t.Errorf("recalled %+v", second)
	}
	keepAll(t, cfg, "two", nil)
	for i, want := range mustRecall(t, cfg).pieces {
		got := second.pieces[i]
		if got.Bytes != want.Bytes || len(got.Digests) != len(want.Digests) || got.Digests[len(got.Digests)-1] != want.Digests[len(want.Digests)-1] {
			t.Errorf("piece %d: kept on %+v, kept anew %+v", i, got, want)
		}
	}
	if err := cfg.Forget(cfg.Origin); err != nil {
		t.Fatal(err)
	}
	if r, _, err := cfg.Recall(cfg.Origin, cfg.Key); r != nil || err != nil {
		t.Errorf("recalled %v, %v after it was forgotten", r, err)
	}
}

// TestWhatDoesNotLookAsKeptIsNotRecalled: the ways to change a ledger, or what is kept of
// it, that a glance at the files shows. The times of a file are put back where a forger
// could do so.
func TestWhatDoesNotLookAsKeptIsNotRecalled(t *testing.T) {
	path := func(cfg Config, name string) string { return filepath.Join(cfg.SegmentsDir(), name) }
	segments := func(t *testing.T, cfg Config) []string {
		files, err := filepath.Glob(path(cfg, "*.log"))
		if err != nil || len(files) < 3 {
			t.Fatalf("%d segments, %v", len(files), err)
		}
		return files
	}
	edit := func(t *testing.T, file string, change func([]byte) []byte) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write(change(data)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(data []byte) []byte {
		data[len(data)/2] ^= 1
		return data
	}
	for name, forge := range map[string]func(t *testing.T, cfg Config){
		"a byte of an old segment": func(t *testing.T, cfg Config) { edit(t, segments(t, cfg)[0], flip) },
		"a byte of the last one and an entry behind it": func(t *testing.T, cfg Config) {
			files := segments(t, cfg)
			edit(t, files[len(files)-1], func(data []byte) []byte { return append(flip(data), "more\n"...) })
		},
		"segments changed places": func(t *testing.T, cfg Config) {
			files := segments(t, cfg)
			for _, move := range [][2]string{{files[0], "x"}, {files[1], files[0]}, {"x", files[1]}} {
				from, to := move[0], move[1]
				if from == "x" {
					from = path(cfg, "../x")
				}
				if to == "x" {
					to = path(cfg, "../x")
				}
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a copy in place of the file": func(t *testing.T, cfg Config) {
			file := segments(t, cfg)[0]
			data, _ := os.ReadFile(file)
			info, _ := os.Stat(file)
			os.Remove(file)
			os.WriteFile(file, data, 0o600)
			os.Chtimes(file, info.ModTime(), info.ModTime())
		},
		"a segment is gone": func(t *testing.T, cfg Config) { os.Remove(segments(t, cfg)[1]) },
		"the last segment is shorter": func(t *testing.T, cfg Config) {
			files := segments(t, cfg)
			edit(t, files[len(files)-1], func(data []byte) []byte { return data[:len(data)-1] })
		},
		"a byte of the facts": func(t *testing.T, cfg Config) { edit(t, cfg.factsPath(cfg.Origin), flip) },
		"no facts":            func(t *testing.T, cfg Config) { os.Remove(cfg.factsPath(cfg.Origin)) },
		"the facts of an earlier time": func(t *testing.T, cfg Config) {
			os.WriteFile(cfg.factsPath(cfg.Origin), []byte("earlier"), 0o600)
		},
		"a byte of what is sealed": func(t *testing.T, cfg Config) {
			edit(t, cfg.recallPath(cfg.Origin), func(data []byte) []byte {
				return bytes.Replace(data, []byte(`"whole":"2001`), []byte(`"whole":"2031`), 1)
			})
		},
		"sealed by another key": func(t *testing.T, cfg Config) {
			r := mustRecall(t, cfg)
			v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot})
			if err != nil {
				t.Fatal(err)
			}
			if err := cfg.Keep(v, *r, nil, testKey(t, 77)); err != nil {
				t.Fatal(err)
			}
		},
		"of another ledger": func(t *testing.T, cfg Config) {
			other := testConfigIn(t, t.TempDir())
			other.Origin, other.StateDir, other.segmentBytes = "example.com/another", cfg.StateDir, 2000
			mustCreate(t, other, 30)
			keepAll(t, other, "facts", nil)
			for _, p := range [][2]string{{other.recallPath(other.Origin), cfg.recallPath(cfg.Origin)}, {other.factsPath(other.Origin), cfg.factsPath(cfg.Origin)}} {
				if err := os.Rename(p[0], p[1]); err != nil {
					t.Fatal(err)
				}
			}
		},
		"the memory of heads is gone": func(t *testing.T, cfg Config) { os.Remove(memoryPath(cfg.StateDir, cfg.Origin)) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.segmentBytes = 2000
			mustCreate(t, cfg, 30)
			keepAll(t, cfg, "facts", nil)
			mustRecall(t, cfg)
			forge(t, cfg)
			if r, why, err := cfg.Recall(cfg.Origin, cfg.Key); r != nil || err == nil && why == "" {
				t.Errorf("recalled %+v, %q, %v", r, why, err)
			}
		})
	}
}

// TestAnOldCopyOfAllIsNotRecalled: the folder, the memory of heads and what is kept are
// put back together; the copies are other files.
func TestAnOldCopyOfAllIsNotRecalled(t *testing.T) {
	root := t.TempDir()
	cfg := testConfigIn(t, filepath.Join(root, "now"))
	cfg.segmentBytes = 2000
	mustCreate(t, cfg, 30)
	keepAll(t, cfg, "facts", nil)
	old := filepath.Join(root, "old")
	for _, dir := range []string{cfg.Dir, cfg.StateDir} {
		if err := os.CopyFS(filepath.Join(old, filepath.Base(dir)), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	appendNotes(t, cfg, 3)
	for _, dir := range []string{cfg.Dir, cfg.StateDir} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(old, filepath.Base(dir)), dir); err != nil {
			t.Fatal(err)
		}
	}
	if r, why, err := cfg.Recall(cfg.Origin, cfg.Key); r != nil || why == "" || err != nil {
		t.Errorf("recalled %+v, %q, %v", r, why, err)
	}
}

// TestAnEditedPastMakesVerificationFailAndNeverPass: who edits an entry before the
// frontier, and makes the file look as it did even to the kernel, is not noticed by what
// begins at the frontier. What is sealed after that covers the true history, so that
// every whole verification refuses the edited one.
func TestAnEditedPastMakesVerificationFailAndNeverPass(t *testing.T) {
	cfg := testConfig(t)
	cfg.segmentBytes = 2000
	mustCreate(t, cfg, 30)
	v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.Segments(cfg.FS, cfg.SegmentsDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(data, []byte(`"n":7`), []byte(`"n":8`), 1)
	if bytes.Equal(edited, data) {
		edited = bytes.Clone(data)
		edited[len(edited)/2] ^= 1
	}
	// A clock that was turned back could do this. In place of turning it, what was seen
	// of the file is what it is now.
	if err := os.WriteFile(files[0].Path, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	frontier := v.Frontier()
	info, err := os.Stat(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	frontier.Segments[0].File = fileID(info)
	var turns []ledger.Record
	if _, err := (Place{FS: cfg.FS}).Segments(); err == nil {
		t.Fatal("a place without a folder has segments")
	}
	first, err := firstEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	turns = append(turns, first)
	cfg.From, err = frontier.Resume(turns, ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(evidence.NoteKind, []byte(`{"after":true}`)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot}); !refusal.Is(err, refusal.ChainTamperDetected) {
		t.Errorf("the edited past verifies: %v", err)
	}
	// The true one still does, with what was appended.
	if err := os.WriteFile(files[0].Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := cfg.Verify(ledger.Options{Origin: cfg.Origin, TrustRoot: cfg.TrustRoot}); err != nil || v.Size != 32 {
		t.Errorf("the true past: %v", err)
	}
}

// firstEntry reads the first line of a ledger.
func firstEntry(data []byte) (ledger.Record, error) {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	_, text, _ := bytes.Cut(line, []byte(" "))
	env, err := evidence.SplitEntry(text)
	return ledger.Record{Envelope: env, Raw: text}, err
}
