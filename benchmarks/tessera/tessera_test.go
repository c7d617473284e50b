// Package tessera has Tessera's client and fsck read what our ledger publishes,
// and measures its POSIX appender in the way that benchmarks/ledger_test.go
// measures our ledger. It is a module of its own, so that what Tessera needs
// stays out of Tallystick's.
package tessera

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

var figures = flag.Bool("figures", false, "measure")

// body is as long as the one our ledger is measured with. Tessera gets the
// bytes of what is an entry with us.
const bodyBytes = 2048

func appender(t *testing.T, batch uint, age time.Duration) (*tessera.Appender, string, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	private, _, err := note.GenerateKey(rand.Reader, "example.com/tessera")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	a, shutdown, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).WithBatching(batch, age).WithCheckpointInterval(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return a, dir, func() {
		shutdown(ctx)
		cancel()
	}
}

// entry is different each time: equal ones might be found to be equal.
func entry(n int64) []byte {
	return fmt.Appendf(nil, `{"n":%12d,"pad":"%s"}`, n, strings.Repeat("p", bodyBytes-30))
}

func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("run go test -run Figures -v . -figures")
	}
	ctx := context.Background()
	var n atomic.Int64
	add := func(a *tessera.Appender) {
		if _, err := a.Add(ctx, tessera.NewEntry(entry(n.Add(1))))(); err != nil {
			t.Error(err)
		}
	}
	a, _, stop := appender(t, 1, time.Millisecond)
	start, count := time.Now(), 0
	for time.Since(start) < 3*time.Second {
		add(a)
		count++
	}
	fmt.Printf("Tessera POSIX, lone writer, batches of 1: %.0f/s\n", float64(count)/time.Since(start).Seconds())
	stop()

	a, dir, stop := appender(t, 256, 5*time.Millisecond)
	const writers, each = 256, 100
	start = time.Now()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				add(a)
			}
		})
	}
	wg.Wait()
	fmt.Printf("Tessera POSIX, 256 writers, batches of 256: %.0f/s\n", writers*each/time.Since(start).Seconds())
	stop()
	var size int64
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("Tessera POSIX, on disk at the end: %.2f bytes for each byte of payload\n", float64(size)/float64(writers*each*bodyBytes))
}
