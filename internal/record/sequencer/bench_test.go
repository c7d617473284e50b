package sequencer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
)

// BenchmarkAppend appends notes of 2 KB, durable when acknowledged.
func BenchmarkAppend(b *testing.B) {
	body := fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("p", 2038))
	open := func(b *testing.B) *Ledger {
		cfg := testConfig(b)
		cfg.Now = time.Now
		l, err := Create(context.Background(), cfg, testSigners(b))
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	b.Run("lone", func(b *testing.B) {
		l := open(b)
		defer l.Close()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := l.Append(evidence.NoteKind, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("256 writers", func(b *testing.B) {
		l := open(b)
		defer l.Close()
		b.SetBytes(int64(len(body)))
		b.SetParallelism(128) // times GOMAXPROCS
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Append(evidence.NoteKind, body); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
