package registry

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkPublish is durable publications of 64 writers.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(b, nil)
	a := w.register()
	w.publishPaths(a)
	var next atomic.Int64
	b.ResetTimer()
	publishMany(b, w, a, &next, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "publications/s")
}

func publishMany(b *testing.B, w *world, a *member, next *atomic.Int64, n int) {
	var wg sync.WaitGroup
	var done atomic.Int64
	for range 64 {
		wg.Go(func() {
			for done.Add(1) <= int64(n) {
				i := next.Add(1)
				body := fmt.Sprintf(`{"artifactPath":%q,"evalHarnessPath":%q,"datasetPath":%q,"metrics":{"accuracy":0.5,"stderr":0.0041,"n":%d},"runDetails":{"runner":"lm-eval-harness","framework":"vllm-0.6.2","commitSha":"0123456789abcdef","seed":%d}}`,
					modelPath, harnessPath, datasetPath, i, i)
				if _, err := w.Propose(ctx, a.Agent, Eval, []byte(body), strconv.FormatInt(i, 10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkReads lists and proves with TALLY_BENCH_ROWS rows (2,000 unless told
// otherwise) in the catalogue.
func BenchmarkReads(b *testing.B) {
	rows := 2000
	if n, err := strconv.Atoi(os.Getenv("TALLY_BENCH_ROWS")); err == nil {
		rows = n
	}
	w := newWorld(b, nil)
	a := w.register()
	w.publishPaths(a)
	var next atomic.Int64
	began := time.Now()
	publishMany(b, w, a, &next, rows)
	b.Logf("%d publications in %s: %.0f/s", rows, time.Since(began), float64(rows)/time.Since(began).Seconds())
	began = time.Now()
	w.t = b
	w.reopen()
	b.Logf("opening with %d entries: %s", w.Stats().Entries, time.Since(began))
	measure := func(name string, read func(i int64) error) {
		b.Run(name, func(b *testing.B) {
			var i atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := read(i.Add(1)); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
	measure("list", func(int64) error { _, err := w.List(ctx, Query{}); return err })
	measure("for-artifact", func(int64) error { _, err := w.List(ctx, Query{Artifact: modelPath}); return err })
	measure("pages", func(i int64) error {
		_, err := w.List(ctx, Query{After: strconv.FormatInt(20+2*(i*7919%int64(rows)), 10)})
		return err
	})
	measure("receipt", func(i int64) error { _, err := w.Receipt(ctx, i*7919%w.Stats().Entries); return err })
	measure("authenticate", func(int64) error { _, err := w.Authenticate(ctx, a.apiKey); return err })
}
