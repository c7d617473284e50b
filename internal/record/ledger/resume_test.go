package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// grown is the honest ledger with more behind it: entries made by hand and a
// long batch.
func grown(t testing.TB) []item {
	t.Helper()
	l := honest(t)
	for i := range 3 {
		l = append(l, item{entry: evidence.AppendEntry(nil, fmt.Appendf(nil, `{"n":%d}`, 10+i), evidence.NoteKind, true, testTime)})
		l = append(l, noteItem(20+i))
		l = append(l, sealItem(t, l, olga))
	}
	return l
}

// cut makes segments of the first n bytes of a ledger, which is rotated before
// the entries that firsts names.
func cut(data []byte, n int, firsts ...int64) []Segment {
	var segments []Segment
	var index int64
	begin, first := 0, int64(0)
	pos := 0
	end := func() { segments = append(segments, segment(first, data[begin:min(pos, n)])) }
	for line := range bytes.Lines(data) {
		isEntry := line[checkLen+1] != sealMark
		if isEntry && slices.Contains(firsts, index) && pos < n {
			end()
			begin, first = pos, index
		}
		if isEntry {
			index++
		}
		pos += len(line)
	}
	end()
	return segments
}

// watched notes from which byte on segments are opened.
func watched(segments []Segment, opened map[string]int64) []Segment {
	out := slices.Clone(segments)
	for i, s := range segments {
		out[i].Open = func(from int64) (io.ReadCloser, error) {
			opened[s.Name] = from
			return s.Open(from)
		}
	}
	return out
}

// TestContinuingGivesWhatVerifyingFromTheStartGives stops at bytes of every line
// and goes on: in the middle of a batch, after a seal, after a change of signers, between
// segments.
func TestContinuingGivesWhatVerifyingFromTheStartGives(t *testing.T) {
	data := render(grown(t))
	step := 5
	if testing.Short() {
		step = 23
	}
	continued := 0
	for _, firsts := range [][]int64{nil, {3, 8, 12}} {
		all := cut(data, len(data), firsts...)
		for n := 0; n <= len(data); n += step {
			o := trust(t)
			o.EverySeal, o.Decode = n%2 == 0, n%3 == 0
			before, err := Verify(cut(data, n, firsts...), o)
			if err != nil {
				continue // before the first seal
			}
			var fresh, new []int64
			o.Visit = func(r Record) error { fresh = append(fresh, r.Index); return nil }
			o.Expect = []Expectation{before.expectation()}
			want := mustVerify(t, all, o)

			opened := make(map[string]int64)
			o.Expect, o.From = nil, before
			o.Visit = func(r Record) error { new = append(new, r.Index); return nil }
			got := mustVerify(t, watched(all, opened), o)
			if d := difference(got, want); d != "" {
				t.Fatalf("stopped after %d bytes (%d entries): %s", n, before.Size, d)
			}
			if !slices.Equal(new, fresh[before.Size:]) {
				t.Fatalf("stopped after %d bytes (%d entries): visited %v of %v", n, before.Size, new, fresh)
			}
			if before.Tail.GoodSize == 0 {
				continue // a segment without a seal: begun again
			}
			for _, s := range all {
				switch from, read := opened[s.Name]; {
				case s.Name < before.Tail.Segment && read:
					t.Fatalf("stopped after %d bytes: %s is read again", n, s.Name)
				case s.Name == before.Tail.Segment && from < before.Tail.GoodSize-150:
					t.Fatalf("stopped after %d bytes: %s is read from %d on, it was verified to %d", n, s.Name, from, before.Tail.GoodSize)
				}
			}
			continued++
		}
	}
	if continued < 100 {
		t.Errorf("only %d continued", continued)
	}
}

// difference names the first field in which two results differ.
func difference(a, b *Verified) string {
	for i := range reflect.TypeFor[Verified]().NumField() {
		name := reflect.TypeFor[Verified]().Field(i).Name
		x, y := fmt.Sprintf("%+v", reflect.ValueOf(a).Elem().Field(i)), fmt.Sprintf("%+v", reflect.ValueOf(b).Elem().Field(i))
		if name == "history" || name == "lastSeal" || name == "Signers" {
			continue // hold pointers: compared below
		}
		if x != y {
			return fmt.Sprintf("%s is %s, want %s", name, x, y)
		}
	}
	if !reflect.DeepEqual(a, b) {
		return "signers or seal differ"
	}
	return ""
}

// TestContinuingRefusesWhatVerifyingFromTheStartRefuses tries every forgery on
// every verification of the honest ledger that a process could have made before.
func TestContinuingRefusesWhatVerifyingFromTheStartRefuses(t *testing.T) {
	l := honest(t)
	for _, tt := range forgeries(t) {
		t.Run(tt.name, func(t *testing.T) {
			data := render(tt.forge(honest(t)))
			same := 0
			for n := range 5 {
				prefix := render(l[:sealAt(l, n)+1])
				before := mustVerify(t, one(prefix), trust(t))
				for _, everySeal := range []bool{false, true} {
					o := trust(t)
					o.From, o.EverySeal = before, everySeal
					_, err := Verify(one(data), o)
					var p *Problem
					switch last := lastLine(prefix); {
					case bytes.HasPrefix(data, prefix):
						refusedAt(t, err, tt.want, tt.index)
						same++
					case errors.As(err, &p):
					case len(data) >= len(prefix) && bytes.Equal(data[len(prefix)-len(last):len(prefix)], last):
						// The stated limit: changed before that seal, in place.
						// Package sequencer sees that the file was touched.
					default:
						t.Errorf("after seal %d: %v", n, err)
					}
				}
			}
			if same == 0 && tt.index > 0 && !bytes.HasPrefix([]byte(tt.name), []byte("seal before")) {
				t.Error("no verification was continued")
			}
		})
	}
}

func lastLine(data []byte) []byte {
	return data[bytes.LastIndexByte(data[:len(data)-1], '\n')+1:]
}

// TestContinuingRefusesAnotherPast: the earlier verification is one more thing
// that the ledger must agree with.
func TestContinuingRefusesAnotherPast(t *testing.T) {
	l := honest(t)
	data := render(l)
	full := mustVerify(t, one(data), trust(t))
	other := append(slices.Clone(l[:at(l, 9)]), noteItem(99))
	other = append(other, sealItem(t, other, olga), noteItem(10))
	other = append(other, sealItem(t, other, olga))
	parts := cut(data, len(data), 3, 8)
	three := mustVerify(t, parts, trust(t))
	longer := slices.Clone(parts)
	longer[1] = segment(3, append(slices.Clone(data[len(render(l[:at(l, 3)])):len(render(l[:at(l, 8)]))]), "more"...))
	for _, tt := range []struct {
		name     string
		from     *Verified
		segments []Segment
		want     refusal.Name
		index    int64
	}{
		{"whole batches cut off", full, one(render(l[:at(l, 8)])), refusal.HistoryRolledBack, 8},
		{"a segment cut off", three, parts[:2], refusal.HistoryRolledBack, 8},
		{"nothing left", full, nil, refusal.HistoryRolledBack, 0},
		{"the last seal cut off", full, one(render(l[:len(l)-1])), refusal.HistoryRolledBack, 8},
		{"another end, sealed by the operator", full, one(render(other)), refusal.HistoryForked, 9},
		{"a segment missing in the middle", three, []Segment{parts[0], parts[2]}, refusal.ChainTamperDetected, 3},
		{"a segment grown in the middle", three, longer, refusal.ChainTamperDetected, 8},
		{"a segment renamed", three, []Segment{parts[0], segment(4, nil), parts[2]}, refusal.ChainTamperDetected, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := trust(t)
			o.From = tt.from
			_, err := Verify(tt.segments, o)
			refusedAt(t, err, tt.want, tt.index)
		})
	}
	o := trust(t)
	o.From, o.TrustRoot = full, full.Head
	_, err := Verify(one(data), o)
	refusedAt(t, err, refusal.SignersChainBroken, 0)
	o = trust(t)
	o.From, o.Origin = full, "example.com/other"
	_, err = Verify(one(data), o)
	refusedAt(t, err, refusal.HistoryForked, 0)
}

// TestContinuingLooksAsCloselyAsItIsAsked: what the earlier verification left
// out is made up for, from the start.
func TestContinuingLooksAsCloselyAsItIsAsked(t *testing.T) {
	l := honest(t)
	invalid := append(slices.Clone(l), entryItem("novelty", []byte(`{}`), testTime))
	invalid = append(invalid, sealItem(t, invalid, olga))
	more := append(slices.Clone(invalid), noteItem(11))
	more = append(more, sealItem(t, more, olga))
	o := trust(t)
	o.Decode = false
	loose := mustVerify(t, one(render(invalid)), o)
	o.Decode, o.From = true, loose
	_, err := Verify(one(render(more)), o)
	refusedAt(t, err, refusal.EntryInvalid, 10)

	seals := render(l)
	seals[len(render(l[:sealAt(l, 0)]))+30] ^= 1 // not the last of its key
	seals = slices.Concat(Rehash(testOrigin, slices.Collect(bytes.Lines(seals)), func(e []byte) []byte { return e })...)
	o = trust(t)
	lenient := mustVerify(t, one(seals), o)
	o.From, o.EverySeal = lenient, true
	_, err = Verify(one(seals), o)
	refusedAt(t, err, refusal.ChainTamperDetected, 0)

	unpinned := Options{UnsafeAnyRoot: true, Decode: true}
	o = trust(t)
	o.From = mustVerify(t, one(render(l)), unpinned)
	if v := mustVerify(t, one(render(l)), o); !v.RootPinned {
		t.Error("the root was compared and is said not to be")
	}
	unpinned.From = mustVerify(t, one(render(l)), trust(t))
	if v := mustVerify(t, one(render(l)), unpinned); v.RootPinned {
		t.Error("any root was let in and is said to be pinned")
	}
	o.From = &Verified{} // which Verify did not make
	if _, err := Verify(one(render(l)), o); err == nil {
		t.Error("continued from what Verify did not make")
	}
}

// TestContinuingMeetsExpectations: a tree head within the earlier part is
// compared and confirmed as from the start, whether it was known then or not.
func TestContinuingMeetsExpectations(t *testing.T) {
	l := grown(t)
	data := render(l)
	heads := make(map[int64]Expectation)
	for n := range 8 {
		v := mustVerify(t, one(render(l[:sealAt(l, n)+1])), trust(t))
		heads[v.Size] = v.expectation()
	}
	for size, e := range heads {
		for _, told := range []bool{false, true} {
			o := trust(t)
			if told {
				o.Expect = []Expectation{e}
			}
			before, err := Verify(one(render(l[:sealAt(l, 4)+1])), o)
			if size > 10 && told {
				refusedAt(t, err, refusal.HistoryRolledBack, 10)
				continue
			}
			o = trust(t)
			o.From, o.Expect = before, []Expectation{e}
			var version int
			o.Expect[0].Confirm = func(s *seal.Signers) error { version = s.Version(); return nil }
			mustVerify(t, one(data), o)
			if want := map[bool]int{true: 2, false: 1}[size > 5]; version != want {
				t.Errorf("size %d: confirmed against signers version %d, want %d", size, version, want)
			}
			for name, change := range map[string]func(*Expectation){
				"another root":   func(e *Expectation) { e.Root[0] ^= 1 },
				"another head":   func(e *Expectation) { e.Head[0] ^= 1 },
				"another ledger": func(e *Expectation) { e.Origin = "example.com/other" },
				"not signed": func(e *Expectation) {
					e.Confirm = func(*seal.Signers) error { return refusal.Newf(refusal.HistoryForked, "no") }
				},
			} {
				o.Expect = []Expectation{e}
				change(&o.Expect[0])
				if _, err := Verify(one(data), o); err == nil || err.(*Problem).Name != refusal.HistoryForked {
					t.Errorf("size %d, told before %v, %s: %v", size, told, name, err)
				}
			}
		}
	}
}

// TestContinuingTellsUnreadableFromWrong: a segment that cannot be read is not
// taken for one that was changed.
func TestContinuingTellsUnreadableFromWrong(t *testing.T) {
	data := render(honest(t))
	o := trust(t)
	o.From = mustVerify(t, one(data), trust(t))
	broken := one(data)
	broken[0].Open = func(int64) (io.ReadCloser, error) { return nil, errors.New("input/output error") }
	if _, err := Verify(broken, o); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("cannot be opened: %v", err)
	}
	broken[0].Open = func(int64) (io.ReadCloser, error) { return io.NopCloser(brokenReader{}), nil }
	if _, err := Verify(broken, o); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("cannot be read: %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("input/output error") }
