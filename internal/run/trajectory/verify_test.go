package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

func TestVerifyAcceptsWhatTheLogWrote(t *testing.T) {
	l := write(t, sample(plainRun), time.Millisecond)
	v, err := Verify(l.Bytes(), HeadIs(l.Head()))
	if err != nil {
		t.Fatal(err)
	}
	if v.Len() != l.Len() || v.Head() != l.Head() || v.Turns() != 2 || !v.Complete() || !v.Pinned() {
		t.Errorf("%+v", v.Summary)
	}
	seen := map[Type]bool{}
	for e := range v.Events() {
		seen[e.Type] = true
	}
	for _, typ := range Types() {
		if !seen[typ] && typ != RunFailedType {
			t.Errorf("the sample has no %s: no test looks at it", typ)
		}
	}
	loose, err := Verify(l.Bytes(), UnsafeAnyHead())
	if err != nil || loose.Pinned() {
		t.Errorf("without head: %v, pinned %v", err, loose.Pinned())
	}
	if _, err := Verify(l.Bytes(), Pin{}); err == nil || !strings.Contains(err.Error(), "no head was given") {
		t.Errorf("the zero Pin: %v", err)
	}
}

// Every type has one payload and every payload one type.
func TestTypesAndPayloadsAreOneToOne(t *testing.T) {
	for _, typ := range Types() {
		p := NewPayload(typ)
		if p == nil || p.Type() != typ {
			t.Errorf("%s has the payload %T, which is of type %q", typ, p, p.Type())
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(Types())))) != len(payloads) {
		t.Error("a type is listed twice")
	}
	if NewPayload("tool_call") != nil {
		t.Error("the set is not closed")
	}
}

// No single changed bit may go unnoticed.
func TestVerifyRefusesEveryBitFlip(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	l := write(t, small(), time.Millisecond)
	data := l.Bytes()
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			if _, err := Verify(flipped, HeadIs(l.Head())); err == nil {
				t.Fatalf("byte %d, bit %d: %q", i, bit, flipped)
			}
		}
	}
}

// Without a head the chain alone protects every line but the last.
func TestChainAloneProtectsAllButTheLastLine(t *testing.T) {
	l := write(t, small(), time.Millisecond)
	data := l.Bytes()
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	for i := range last {
		flipped := bytes.Clone(data)
		flipped[i] ^= 1
		if _, err := Verify(flipped, UnsafeAnyHead()); err == nil {
			t.Fatalf("byte %d: %q", i, flipped)
		}
	}
	edited := bytes.Replace(data, []byte(`"completed"`), []byte(`"refused"`), 1)
	v, err := Verify(edited, UnsafeAnyHead())
	if err != nil || v.Pinned() {
		t.Errorf("the documented limit has moved: %v", err)
	}
	_, err = Verify(edited, HeadIs(l.Head()))
	wantRefusal(t, err, 4, "the head is", refusal.ChainTamperDetected)
}

func TestVerifyRefusesForgedLines(t *testing.T) {
	l := write(t, sample(plainRun), time.Millisecond)
	lines := bytes.SplitAfter(l.Bytes(), []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(edit func([][]byte) [][]byte) []byte { return bytes.Join(edit(slices.Clone(lines)), nil) }
	replace := func(n int, old, new string) []byte {
		return join(func(l [][]byte) [][]byte {
			if !bytes.Contains(l[n-1], []byte(old)) {
				t.Fatalf("line %d has no %q", n, old)
			}
			l[n-1] = bytes.Replace(l[n-1], []byte(old), []byte(new), 1)
			return l
		})
	}
	chain := refusal.ChainTamperDetected
	for _, tt := range []struct {
		name string
		data []byte
		line int
		want string
		as   refusal.Name
	}{
		{"a dropped line", join(func(l [][]byte) [][]byte { return slices.Delete(l, 6, 7) }), 7, "dropped, added or moved", chain},
		{"a repeated line", join(func(l [][]byte) [][]byte { return slices.Insert(l, 7, l[6]) }), 8, "dropped, added or moved", chain},
		{"two lines exchanged", join(func(l [][]byte) [][]byte { l[5], l[6] = l[6], l[5]; return l }), 6, "dropped, added or moved", chain},
		{"the first line dropped", join(func(l [][]byte) [][]byte { return l[1:] }), 1, "event 2 names", chain},
		{"the last line dropped", join(func(l [][]byte) [][]byte { return l[:len(l)-1] }), len(lines) - 1, "cut off", chain},
		{"a changed argument", replace(16, `"tokens":4`, `"tokens":5`), 17, "that line was changed", chain},
		{"a changed verdict", replace(24, `"verdict":"deny"`, `"verdict":"allow"`), 24, "does not fit verdict allow", refusal.EntryInvalid},
		{"a head that is not the text", replace(18, `"head":"paid"`, `"head":"nope"`), 18, "another digest", refusal.EntryInvalid},
		{"arguments that are not the digest's", replace(16, `{"amount":100}`, `{"amount":999}`), 16, "another digest", refusal.EntryInvalid},
		{"an unknown member", replace(3, `"seq":3`, `"seq":3,"seq2":1`), 3, "unknown", refusal.EntryInvalid},
		{"an unknown type", replace(3, `"type":"turn_started"`, `"type":"turn_begun"`), 3, "no event type", refusal.EntryInvalid},
		{"another type's payload", replace(3, `"type":"turn_started"`, `"type":"plan"`), 3, "plan:", refusal.EntryInvalid},
		{"another spelling", replace(3, `"seq":3`, `"seq": 3`), 3, "", refusal.EntryInvalid},
		{"a null", replace(3, `"agent":"clerk"`, `"agent":null`), 3, "null", refusal.EntryInvalid},
		{"a carriage return", replace(3, "\n", "\r\n"), 3, "", refusal.EntryInvalid},
		{"an empty line", replace(3, "\n", "\n\n"), 4, "", refusal.EntryInvalid},
		{"nothing", nil, 1, "found nothing", refusal.EntryInvalid},
		{"a torn line", bytes.TrimSuffix(l.Bytes(), []byte("\n")), len(lines), "no newline", refusal.TornTail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Verify(tt.data, HeadIs(l.Head()))
			wantRefusal(t, err, tt.line, tt.want, tt.as)
			var p *Problem
			if !errors.As(err, &p) || p.Line != tt.line {
				t.Errorf("the error does not hold the line: %v", err)
			}
		})
	}
}

// A forger who chains everything anew is stopped by the order of events, and
// at last by the head.
func TestVerifyRefusesAFreshChainInTheWrongOrder(t *testing.T) {
	at := []Event{
		{Turn: 0, Payload: started(plainRun)},
		{Turn: 1, Payload: &TurnStarted{}},
		{Turn: 1, Payload: &RunCompleted{Status: "completed"}},
	}
	forge := func(edit func([]Event) []Event) []byte {
		var data []byte
		var prev digest.ID
		for i, e := range edit(slices.Clone(at)) {
			e.Type, e.Prev = e.Payload.Type(), prev
			if e.Seq == 0 {
				e.Seq = i + 1
			}
			line, err := e.append(nil)
			if err != nil {
				t.Fatal(err)
			}
			prev = digest.IDOf(line[:len(line)-1])
			data = append(data, line...)
		}
		return data
	}
	for _, tt := range []struct {
		name string
		edit func([]Event) []Event
		want string
	}{
		{"no beginning", func(e []Event) []Event { return e[1:] }, "run_started is the first"},
		{"two beginnings", func(e []Event) []Event { return []Event{e[0], e[0]} }, "run_started is the first"},
		{"something after the end", func(e []Event) []Event { return append(e, Event{Turn: 1, Payload: &Plan{text("p")}}) }, "had ended"},
		{"a turn too far", func(e []Event) []Event { e[1].Turn = 2; return e }, "turn is 2, expected 1"},
		{"a turn that is not counted", func(e []Event) []Event { e[2].Turn = 0; return e }, "turn is 0, expected 1"},
		{"time going back", func(e []Event) []Event { e[0].At = time.Hour; return e }, "t went back"},
		{"a gap in the numbers", func(e []Event) []Event { e[1].Seq = 7; return e }, "found event 7, expected event 2"},
	} {
		_, err := Verify(forge(tt.edit), UnsafeAnyHead())
		wantRefusal(t, err, 0, tt.want, refusal.EntryInvalid)
	}
	rewritten := forge(func(e []Event) []Event { return e })
	if _, err := Verify(rewritten, UnsafeAnyHead()); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(rewritten, HeadIs(write(t, small(), time.Millisecond).Head()))
	wantRefusal(t, err, 0, "the head is", refusal.ChainTamperDetected)
}

func TestAppendRefusesAndChangesNothing(t *testing.T) {
	l := NewLog()
	steps := sample(plainRun)
	refuse := func(turn int, p Payload, at time.Duration, want string) {
		t.Helper()
		before, head := l.Bytes(), l.Head()
		_, err := l.Append(turn, p, at)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if !bytes.Equal(before, l.Bytes()) || head != l.Head() {
			t.Error("a refused event left a trace")
		}
	}
	refuse(0, &Plan{text("x")}, 0, "run_started is the first")
	if _, err := l.Append(0, steps[0].payload, time.Second); err != nil {
		t.Fatal(err)
	}
	refuse(1, &Plan{text("x")}, time.Second, "turn is 1, expected 0")
	refuse(0, &Plan{text("x")}, 0, "t went back")
	refuse(0, &LimitReached{Limit: "patience"}, time.Second, "limit is")
	refuse(0, nil, time.Second, "without a payload")
	refuse(0, &Plan{Content{Bytes: 1, Digest: digest.ContentOf([]byte("y")), Head: "x"}}, time.Second, "another digest")
	refuse(0, &Failure{Name: "x", Detail: strings.Repeat("x", 4096+1)}, time.Second, "bytes")
	big := &ContextCompiled{Admitted: slices.Repeat([]string{strings.Repeat("x", 1000)}, 2000)}
	refuse(0, big, time.Second, "at most 1048576")
}

// scanAll checks what r gives, a line at a time.
func scanAll(r io.Reader, visit func(Event) error) (Summary, error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	return scan(func() ([]byte, error) { return readLine(lines) }, UnsafeAnyHead(), visit)
}

func TestHostileSizesAreRefused(t *testing.T) {
	flood := &repeated{'x', 1 << 40}
	endless := io.MultiReader(strings.NewReader(`{"payload":"`), flood)
	_, err := scanAll(endless, func(Event) error { return nil })
	wantRefusal(t, err, 1, "more than 1048576 bytes", refusal.EntryInvalid)
	if read := 1<<40 - flood.left; read > 2*MaxLineBytes {
		t.Errorf("%d bytes were read of a line that may have %d", read, MaxLineBytes)
	}
	_, err = scanAll(strings.NewReader(strings.Repeat("[", 100_000)+"\n"), func(Event) error { return nil })
	wantRefusal(t, err, 1, "", refusal.EntryInvalid)
	if _, err := Verify(make([]byte, MaxBytes+1), UnsafeAnyHead()); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("got %v", err)
	}
	broken := errors.New("the disk is gone")
	_, err = scanAll(io.MultiReader(bytes.NewReader(write(t, small(), 0).Bytes()), &failing{broken}), func(Event) error { return nil })
	if !errors.Is(err, broken) || refusal.ExitCode(err) != refusal.ExitFailed {
		t.Errorf("unreadable bytes are called wrong bytes: %v", err)
	}
}

type repeated struct {
	b    byte
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = r.b
	}
	r.left -= int64(len(p))
	return len(p), nil
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// longRun is a run of n events, written as it is read.
func longRun(t testing.TB, n int) io.Reader {
	l, i := NewLog(), 0
	return readerFunc(func(p []byte) (int, error) {
		if i == n {
			return 0, io.EOF
		}
		var payload Payload = &ToolExecuted{Args: NewArgs([]byte(`{"n":1}`)), Call: fmt.Sprint(i), Name: "Read", Result: text("ok"), Source: "fixture"}
		if i == 0 {
			payload = started(plainRun)
		}
		line, err := l.Append(0, payload, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.data = l.data[:0] // keep the generator small
		i++
		return copy(p, line), nil
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestScanReadsALongTrajectoryInLittleMemory(t *testing.T) {
	n := 300_000
	if testing.Short() {
		n = 30_000
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	s, err := scanAll(longRun(t, n), func(e Event) error {
		if e.Seq%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || s.Len() != n || s.Complete() {
		t.Fatalf("%+v, %v", s, err)
	}
	if peak > before.HeapAlloc+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, peak)
	}
}

func TestContentCutsBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
		flags string
	}{
		{"abc", 3, "abc", ""},
		{"abcd", 3, "abc", "truncated"},
		{"aé", 2, "a", "truncated"},
		{"日本", 3, "日", "truncated"},
		{"日本", 2, "", "truncated"},
		{"\xff\xfe", 100, "\uFFFD", "lossy"},
		{"", 10, "", ""},
	} {
		c := NewContent([]byte(tt.in), tt.limit)
		flags := strings.TrimSpace(strings.Join([]string{map[bool]string{true: "lossy"}[c.Lossy], map[bool]string{true: "redacted"}[c.Redacted], map[bool]string{true: "truncated"}[c.Truncated]}, ""))
		if c.Head != tt.want || flags != tt.flags || c.Bytes != int64(len(tt.in)) || c.Digest != digest.ContentOf([]byte(tt.in)) {
			t.Errorf("%q at %d: %+v", tt.in, tt.limit, c)
		}
		if err := c.validate(); err != nil {
			t.Errorf("%q: %v", tt.in, err)
		}
	}
	secret := NewRedacted([]byte("key sk-12345678"), []byte("key [REDACTED]"), 8)
	if secret.Head != "key [RED" || !secret.Redacted || !secret.Truncated || strings.Contains(secret.Head, "sk-") || secret.validate() != nil {
		t.Errorf("%+v", secret)
	}
}

func TestArgsCarryEachValueOrItsHead(t *testing.T) {
	big := strings.Repeat("x", ArgumentHead)
	a := NewArgs([]byte(`{"small": 1.0, "big":"` + big + `"}`))
	if string(a.Values["small"]) != "1" || len(a.Values) != 1 || !a.Cut["big"].Truncated || a.Raw != nil || a.validate() != nil {
		t.Errorf("%+v", a)
	}
	for _, odd := range []string{"not json", "[1]", `"text"`, `{"a":1,"a":2}`, "null", "\xff"} {
		a := NewArgs([]byte(odd))
		if a.Raw == nil || len(a.Values) > 0 || a.validate() != nil {
			t.Errorf("%q: %+v, %v", odd, a, a.validate())
		}
	}
	if a := NewArgs(nil); a.Raw != nil || a.Bytes != 2 || a.validate() != nil {
		t.Errorf("none: %+v", a)
	}
	hidden := NewRedactedArgs([]byte(`{"key":"sk-1"}`), []byte(`{"key":"[REDACTED]"}`))
	if !hidden.Redacted || strings.Contains(string(hidden.Values["key"]), "sk-") || hidden.Digest != digest.ContentOf([]byte(`{"key":"[REDACTED]"}`)) || hidden.validate() != nil {
		t.Errorf("%+v", hidden)
	}
}

// However many arguments there are, however long, an event holds them: an agent
// must not be able to end its case, or more, by a line that is too long.
func TestArgumentsAlwaysFitALine(t *testing.T) {
	if testing.Short() {
		t.Skip("much work in one goroutine: under the race detector it shows nothing more")
	}
	for _, tt := range []struct{ count, size int }{{1, 1 << 20}, {150, 8000}, {900, 8190}, {999, 9000}, {5000, 10}} {
		for _, filler := range []string{"x", "\x01", `"`, "é"} {
			args := map[string]string{}
			for i := range tt.count {
				args[fmt.Sprintf("%s%06d", filler, i)] = strings.Repeat(filler, tt.size)
			}
			data, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			l := write(t, []step{{0, started(plainRun)}, {1, &TurnStarted{}}}, time.Millisecond)
			a := NewArgs(data)
			if _, err := l.Append(1, &ToolExecuted{Call: "c", Name: "n", Args: a, Source: "fixture", Result: NewContent([]byte(strings.Repeat("\x01", 1<<20)), ResultHead)}, time.Second); err != nil {
				t.Errorf("%d arguments of %d %q: %v", tt.count, tt.size, filler, err)
			}
			if err := a.validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzVerify: what verifies is, line for line, what encoding its events gives.
func FuzzVerify(f *testing.F) {
	f.Add(write(f, small(), time.Millisecond).Bytes())
	f.Add(write(f, sample(plainRun), time.Millisecond).Bytes())
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkAgain(t, data)
	})
}

// checkAgain checks what must hold for everything that verifies.
func checkAgain(t *testing.T, data []byte) {
	t.Helper()
	v, err := Verify(data, UnsafeAnyHead())
	if err != nil {
		if n := refusal.Of(err).Name; n != refusal.EntryInvalid && n != refusal.ChainTamperDetected && n != refusal.TornTail && n != refusal.NewerFormat {
			t.Fatalf("%s: %v", n, err)
		}
		return
	}
	again := NewLog()
	for e := range v.Events() {
		if _, err := again.Append(e.Turn, e.Payload, e.At); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(again.Bytes(), data) || again.Head() != v.Head() {
		t.Fatal("what verified does not encode to the same bytes")
	}
	c, err := Canonical(v, Options{KeepCost: true})
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseGolden(c.Format())
	if err != nil {
		t.Fatalf("%v in %s", err, c.Format())
	}
	if d := Compare(back, c); d != nil {
		t.Fatalf("the golden text reads back as something else: %s", d)
	}
	for turn := range v.Turns() + 1 {
		if _, err := Replay(v, turn); err != nil && !refusal.Is(err, refusal.EntryInvalid) {
			t.Fatal(err)
		}
	}
}

// FuzzPayload puts any bytes where a payload stands, in an honest chain, which
// the fuzzer would never hit upon itself.
func FuzzPayload(f *testing.F) {
	for i, typ := range Types() {
		f.Add(i, []byte("{}"))
		for e := range verified(f, sample(plainRun), time.Millisecond).Events() {
			if e.Type == typ {
				f.Add(i, []byte(e.payload))
			}
		}
	}
	f.Fuzz(func(t *testing.T, typ int, payload []byte) {
		if typ < 0 || typ >= len(Types()) || bytes.ContainsRune(payload, '\n') {
			return
		}
		l := NewLog()
		if _, err := l.Append(0, started(plainRun), 0); err != nil {
			t.Fatal(err)
		}
		e := Event{Seq: 2, Type: Types()[typ], Prev: l.Head()}
		if e.Type == TurnStartedType {
			e.Turn = 1
		}
		data := append(l.Bytes(), lineStart...)
		data = append(e.appendRest(append(data, payload...)), '\n')
		checkAgain(t, data)
	})
}

func BenchmarkVerify(b *testing.B) {
	l := write(b, sample(plainRun), time.Millisecond)
	data, pin := l.Bytes(), HeadIs(l.Head())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Verify(data, pin); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l.Len()), "ns/event")
}
