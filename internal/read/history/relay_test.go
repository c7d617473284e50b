package history

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
)

// Records arrive in order with their own bytes, whatever the walk does with
// its memory afterwards.
func TestRelayKeepsOrderAndBytes(t *testing.T) {
	var got []string
	r := newRelay(func(rec ledger.Record) error {
		got = append(got, string(rec.Envelope.Body))
		return nil
	})
	buf := make([]byte, 0, 1<<20)
	const n = 5000
	for i := range n {
		buf = append(buf[:0], fmt.Sprint(i)...)
		if i%1000 == 0 {
			buf = append(buf, bytes.Repeat([]byte("x"), loadBytes+1)...) // larger than any load
		}
		if err := r.add(ledger.Record{Envelope: evidence.Envelope{Body: buf}}); err != nil {
			t.Fatal(err)
		}
		clear(buf)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	for i, s := range got {
		if want := fmt.Sprint(i); s != want && (i%1000 != 0 || len(s) != len(want)+loadBytes+1) {
			t.Fatalf("record %d is %.20q", i, s)
		}
	}
	if len(got) != n {
		t.Errorf("%d of %d records", len(got), n)
	}
}

// A record that is wrong ends the walk, and nothing after it is visited.
func TestRelayStopsAtTheFirstError(t *testing.T) {
	wrong := errors.New("wrong")
	visited := 0
	r := newRelay(func(rec ledger.Record) error {
		if visited++; visited == 700 {
			return wrong
		}
		return nil
	})
	var err error
	for i := 0; err == nil && i < 1_000_000; i++ {
		err = r.add(ledger.Record{})
	}
	if !errors.Is(err, wrong) || !errors.Is(r.close(), wrong) || visited != 700 {
		t.Errorf("%v after %d", err, visited)
	}
}
