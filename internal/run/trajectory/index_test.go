package trajectory

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// manyTurns is a trajectory of so many turns of four events.
func manyTurns(t testing.TB, turns int) *Log {
	t.Helper()
	l := NewLog()
	at := time.Duration(0)
	add := func(turn int, p Payload) {
		if _, err := l.Append(turn, p, at); err != nil {
			t.Fatal(err)
		}
		at += time.Millisecond
	}
	add(0, started(plainRun))
	for i := 1; i <= turns; i++ {
		call := fmt.Sprintf("c%d", i)
		add(i, &TurnStarted{Input: textPointer(fmt.Sprintf("Note %d", i))})
		add(i, &ModelCallStarted{Call: call, Messages: 1, Model: "m", Prompt: text("Note"), Provider: "openai", Request: digest.ContentOf([]byte(call))})
		add(i, &ModelCallCompleted{Call: call, FinishReason: "stop", Output: text("noted"), Source: "authored"})
		add(i, &TurnCompleted{Answer: textPointer("noted")})
	}
	add(turns, &RunCompleted{Answer: textPointer("noted"), Status: "completed"})
	return l
}

func section(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

func TestIndexGivesTheLinesThatWereHashed(t *testing.T) {
	l := manyTurns(t, 200)
	data := l.Bytes()
	x, err := IndexOf(section(data), digest.ContentOf(data), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	if x.Len() != l.Len() || x.Outline.Len() != l.Len() || x.Turns() != 200 {
		t.Fatalf("%d events, %d in the outline, %d turns", x.Len(), x.Outline.Len(), x.Turns())
	}
	all := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	for _, w := range [][2]int{{1, 1}, {1, 100}, {1, 101}, {100, 2}, {101, 100}, {350, 260}, {len(all), 5}, {1, 100000}} {
		got, err := x.Lines(section(data), w[0], w[1])
		want := all[w[0]-1 : min(w[0]-1+w[1], len(all))]
		if err != nil || len(got) != len(want) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
			t.Errorf("%d from %d: %d lines, %v; want %d", w[1], w[0], len(got), err, len(want))
		}
	}
	for _, w := range [][2]int{{len(all) + 1, 5}, {1, 0}} {
		if got, err := x.Lines(section(data), w[0], w[1]); err != nil || got != nil {
			t.Errorf("%d from %d: %d lines, %v", w[1], w[0], len(got), err)
		}
	}
}

// The outline that is kept has what each event says, however many tools there are and
// however long their names.
func TestOutlineHasEveryEvent(t *testing.T) {
	want := []Outlined{{Type: RunStartedType}}
	for i := range 3 * rowsInChunk {
		want = append(want, Outlined{Type: Types()[i%len(Types())], Subject: fmt.Sprintf("tool %d", i/5), Turn: int32(i / 7), Denied: i%3 == 0, Failed: i%5 == 0, AtMS: int64(i) << 20})
	}
	o := newOutline()
	for _, e := range want {
		o.add(e)
	}
	if got := slices.Collect(o.All()); o.Len() != len(want) || !slices.Equal(got, want) || o.At(rowsInChunk) != want[rowsInChunk] {
		t.Errorf("%d events, expected %d, the same ones", o.Len(), len(want))
	}
}

func TestIndexRefusesWhatWasChanged(t *testing.T) {
	l := manyTurns(t, 200)
	data := l.Bytes()
	name, pin := digest.ContentOf(data), HeadIs(l.Head())
	if _, err := IndexOf(section(data), digest.ContentOf([]byte("another")), pin); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("another name: %v", err)
	}
	if _, err := IndexOf(section(data), name, HeadIs(digest.ID{1})); !refusal.Is(err, refusal.ChainTamperDetected) {
		t.Errorf("another head: %v", err)
	}
	changed := bytes.Replace(data, []byte("Note 150"), []byte("Note 151"), 1)
	if _, err := IndexOf(section(changed), digest.ContentOf(changed), pin); err == nil {
		t.Error("a changed line was taken")
	}
	x, err := IndexOf(section(data), name, pin)
	if err != nil {
		t.Fatal(err)
	}
	// Changed after it was verified: the window that holds it is refused, others are
	// what they were.
	if _, err := x.Lines(section(changed), 590, 20); !refusal.Is(err, refusal.DigestMismatch) {
		t.Errorf("a window that was changed later: %v", err)
	}
	if _, err := x.Lines(section(changed), 1, 20); err != nil {
		t.Errorf("a window that was not: %v", err)
	}
	if _, err := x.Lines(section(data[:len(data)-50]), x.Len(), 1); err == nil {
		t.Error("a window that was cut off was given")
	}
}

// BenchmarkIndex is a trajectory of 300,000 events: how long it takes to verify it and
// to read a window of it, and what is kept in memory.
func BenchmarkIndex(b *testing.B) {
	l := manyTurns(b, 75_000)
	data, head := l.Bytes(), l.Head()
	name := digest.ContentOf(data)
	l = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var x *Index
	for b.Loop() {
		var err error
		if x, err = IndexOf(section(data), name, HeadIs(head)); err != nil {
			b.Fatal(err)
		}
		if _, err := x.Lines(section(data), 150_000, 200); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(len(data))/1e6, "MB")
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/1e6, "MB-kept")
	b.ReportMetric(float64(x.Len()), "events")
	runtime.KeepAlive(data)
}
