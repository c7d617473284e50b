package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/faultfs"
)

// restarts are the disks that the next process may find.
func restarts(d *faultfs.Disk, at int) []*faultfs.Disk {
	disks := []*faultfs.Disk{d.Crash(), d.PowerCut(0)}
	for seed := range uint64(6) {
		disks = append(disks, d.PowerCut(1+seed+uint64(at)*6))
	}
	return disks
}

// everyFault runs work on a fresh disk once for each fault of each of its
// operations, and checks each disk that the next process may find. Prepare is
// done before, without faults; work reports what it was told.
func everyFault(t *testing.T, prepare func(*faultfs.Disk), work func(*faultfs.Disk) error, check func(d *faultfs.Disk, told error) error) {
	t.Helper()
	cases := 0
	for _, kind := range append(faultfs.Kinds(), faultfs.None) {
		for at := 0; ; at++ {
			d := faultfs.New("/w")
			prepare(d)
			d.Inject(faultfs.Fault{At: at, Kind: kind})
			told := work(d)
			if at >= d.Ops() {
				break
			}
			if kind != faultfs.None && !d.Hit() {
				continue
			}
			for i, next := range restarts(d, at) {
				cases++
				if err := check(next, told); err != nil {
					t.Errorf("%s at operation %d (%s), told %v, disk %d: %v", kind, at, d.Log()[at], told, i, err)
				}
			}
			if kind == faultfs.None {
				break
			}
		}
	}
	t.Logf("%d cases", cases)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteFileIsWholeOrNotAtAll(t *testing.T) {
	before, after := bytes.Repeat([]byte("old "), 300), bytes.Repeat([]byte("new "), 700)
	everyFault(t,
		func(d *faultfs.Disk) { must(t, store.WriteFile(d, "/w/f", before, 0o600)) },
		func(d *faultfs.Disk) error { return store.WriteFile(d, "/w/f", after, 0o600) },
		func(d *faultfs.Disk, told error) error {
			got, err := store.ReadFile(d, "/w/f", 1<<20)
			switch {
			case err != nil:
				return err
			case bytes.Equal(got, after):
				return nil
			case bytes.Equal(got, before) && told != nil:
				return nil
			}
			return fmt.Errorf("found %d bytes", len(got))
		})
}

func TestMakeDirAndFileSurvive(t *testing.T) {
	everyFault(t, func(*faultfs.Disk) {},
		func(d *faultfs.Disk) error {
			if err := store.MakeDir(d, "/w/a/b/c", 0o700); err != nil {
				return err
			}
			return store.WriteFile(d, "/w/a/b/c/f", []byte("x"), 0o600)
		},
		func(d *faultfs.Disk, told error) error {
			if told == nil {
				_, err := store.ReadFile(d, "/w/a/b/c/f", 10)
				return err
			}
			// Whatever is left, trying again is enough, even if the power
			// fails right after.
			if err := store.MakeDir(d, "/w/a/b/c", 0o700); err != nil {
				return err
			}
			if err := store.WriteFile(d, "/w/a/b/c/f", []byte("x"), 0o600); err != nil {
				return err
			}
			_, err := store.ReadFile(d.PowerCut(0), "/w/a/b/c/f", 10)
			return err
		})
}

func TestBlobsSurviveAndPuttingAgainHeals(t *testing.T) {
	data := bytes.Repeat([]byte("blob"), 400)
	everyFault(t, func(*faultfs.Disk) {},
		func(d *faultfs.Disk) error {
			_, err := store.NewBlobs(d, "/w/blobs").Put(data)
			return err
		},
		func(d *faultfs.Disk, told error) error {
			got, err := store.NewBlobs(d, "/w/blobs").Get(digest.ContentOf(data), 1<<20)
			if told == nil || err == nil {
				if err == nil && !bytes.Equal(got, data) {
					err = errors.New("other bytes")
				}
				if told == nil {
					return err
				}
			}
			if _, err := store.NewBlobs(d, "/w/blobs").Put(data); err != nil {
				return err
			}
			_, err = store.NewBlobs(d.PowerCut(0), "/w/blobs").Get(digest.ContentOf(data), 1<<20)
			return err
		})
}

func TestDamagedBlobIsRefusedAndHealed(t *testing.T) {
	d := faultfs.New("/w")
	blobs := store.NewBlobs(d, "/w/blobs")
	name, err := blobs.Put([]byte("good"))
	must(t, err)
	path := "/w/blobs/" + name.String()[7:9] + "/" + name.String()[7:]
	must(t, store.WriteFile(d, path, []byte("evil"), 0o600))
	if _, err := blobs.Get(name, 100); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("got %v", err)
	}
	_, err = blobs.Put([]byte("good"))
	must(t, err)
	if _, err := blobs.Get(name, 100); err != nil {
		t.Errorf("after putting it again: %v", err)
	}
	if _, err := blobs.Get(name, 3); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestCutTailLosesNoByte(t *testing.T) {
	good, torn := bytes.Repeat([]byte("g"), 1000), bytes.Repeat([]byte("t"), 1000)
	everyFault(t,
		func(d *faultfs.Disk) {
			must(t, store.WriteFile(d, "/w/log", append(bytes.Clone(good), torn...), 0o600))
		},
		func(d *faultfs.Disk) error { return store.CutTail(d, "/w/log", 1000, "/w/torn/keep") },
		func(d *faultfs.Disk, told error) error {
			log, err := store.ReadFile(d, "/w/log", 1<<20)
			if err != nil || !bytes.HasPrefix(log, good) {
				return fmt.Errorf("the good bytes are gone: %v", err)
			}
			kept, err := store.ReadFile(d, "/w/torn/keep", 1<<20)
			if len(log) < 2000 && !bytes.Equal(kept, torn) {
				return fmt.Errorf("%d bytes in the log, %d kept (%v)", len(log), len(kept), err)
			}
			if told == nil && len(log) != 1000 {
				return fmt.Errorf("%d bytes in the log", len(log))
			}
			if len(log) > 1000 && bytes.Equal(log[1000:], torn) {
				return store.CutTail(d, "/w/log", 1000, "/w/torn/keep") // the same bytes may go there again
			}
			return nil
		})
}

func TestLogKeepsWhatItAcknowledged(t *testing.T) {
	batch := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 700) }
	acked := 0
	everyFault(t, func(d *faultfs.Disk) { must(t, store.MakeDir(d, "/w/log", 0o700)) },
		func(d *faultfs.Disk) error {
			acked = 0
			l, err := store.OpenLog(d, "/w/log", 0, 0)
			if err != nil {
				return err
			}
			defer l.Close()
			for i := range 4 {
				if i == 2 {
					if err := l.Rotate(2); err != nil {
						return err
					}
				}
				if err := l.Append(batch(i)); err != nil {
					if again := l.Append(batch(i)); again == nil {
						t.Error("a log that failed takes more")
					}
					return err
				}
				acked++
			}
			return nil
		},
		func(d *faultfs.Disk, _ error) error {
			segments, err := store.Segments(d, "/w/log")
			if err != nil {
				return err
			}
			var all []byte
			for _, s := range segments {
				data, err := store.ReadFile(d, s.Path, 1<<20)
				if err != nil {
					return err
				}
				all = append(all, data...)
			}
			for i := range acked {
				if len(all) < (i+1)*700 || !bytes.Equal(all[i*700:(i+1)*700], batch(i)) {
					return fmt.Errorf("batch %d of %d acknowledged is not there", i, acked)
				}
			}
			return nil
		})
}

// TestAFailedAppendIsTakenBack: the next writer need not repair what a full disk
// cut short, and the log takes nothing more.
func TestAFailedAppendIsTakenBack(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Short, faultfs.NoSpace, faultfs.FailAfter} {
		d := faultfs.New("/w")
		l, err := store.OpenLog(d, "/w", 0, 0)
		must(t, err)
		must(t, l.Append([]byte("good\n")))
		d.Inject(faultfs.Fault{At: 0, Kind: kind})
		if err := l.Append([]byte("bad and long\n")); err == nil {
			t.Errorf("%s: acknowledged", kind)
		}
		if err := l.Append([]byte("more\n")); err == nil {
			t.Errorf("%s: went on", kind)
		}
		segments, err := store.Segments(d, "/w")
		must(t, err)
		if data, err := store.ReadFile(d, segments[0].Path, 100); err != nil || string(data) != "good\n" {
			t.Errorf("%s: left %q, %v", kind, data, err)
		}
	}
}

// TestFullDiskIsNamed: the person can do something about it.
func TestFullDiskIsNamed(t *testing.T) {
	d := faultfs.New("/w")
	d.Inject(faultfs.Fault{At: 2, Kind: faultfs.NoSpace}) // after stat and open
	if err := store.WriteFile(d, "/w/f", []byte("x"), 0o600); !refusal.Is(err, refusal.DiskFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	d.Inject(faultfs.Fault{At: 1, Kind: faultfs.FailBefore})
	if err := store.WriteFile(d, "/w/f", []byte("x"), 0o600); !refusal.Is(err, refusal.WriteFailed) {
		t.Errorf("got %v", err)
	}
	d.Inject(faultfs.Fault{At: 0, Kind: faultfs.FailBefore})
	if err := store.CreateFile(d, "/w/g", []byte("x"), 0o600); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("creating what cannot be looked at: %v", err)
	}
}

func TestReadFileRefusesOddFiles(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<30)) // a hole: no disk is used
	for _, tt := range []struct {
		name, path string
		want       refusal.Name
	}{
		{"missing", filepath.Join(dir, "none"), refusal.Unreadable},
		{"folder", dir, refusal.Unreadable},
		{"a gigabyte", large, refusal.TooLarge},
	} {
		if _, err := store.ReadFile(store.OS{}, tt.path, 1000); !refusal.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestConcurrentWritersOfOneFileDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 5 {
				if err := store.WriteFile(store.OS{}, path, bytes.Repeat([]byte{byte('a' + w)}, 10_000), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	must(t, err)
	if len(data) != 10_000 || !bytes.Equal(data, bytes.Repeat(data[:1], 10_000)) {
		t.Errorf("%d bytes, mixed", len(data))
	}
	left, err := filepath.Glob(path + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	for name, fsys := range map[string]store.FS{"the real file system": store.OS{}, "the one in memory": faultfs.New("/")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			if _, real := fsys.(store.OS); !real {
				path = "/lock"
			}
			l, err := store.TakeLock(context.Background(), fsys, path)
			must(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			if _, err := store.TakeLock(ctx, fsys, path); !refusal.Is(err, refusal.LedgerBusy) {
				t.Errorf("got %v", err)
			}
			waited := make(chan error)
			go func() {
				second, err := store.TakeLock(context.Background(), fsys, path)
				if err == nil {
					err = second.Close()
				}
				waited <- err
			}()
			must(t, l.Close())
			must(t, <-waited)
		})
	}
}

func TestSegmentNames(t *testing.T) {
	for _, name := range []string{"x", "0.log", "00000000000000000.log", "000000000000000x.log", "-000000000000001.log", "+000000000000001.log", "0000000000000000.log.tmp", "0000000000000000"} {
		d := faultfs.New("/w")
		must(t, store.WriteFile(d, "/w/"+name, nil, 0o600))
		if _, err := store.Segments(d, "/w"); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
