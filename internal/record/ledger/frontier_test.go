package ledger

import (
	"bytes"
	"slices"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// lasting gives segments the identity of files.
func lasting(segments []Segment) []Segment {
	out := slices.Clone(segments)
	for i := range out {
		out[i].File = FileID{Device: 1, Inode: uint64(i) + 1, Modified: 5, Changed: 6}
	}
	return out
}

// keptOf keeps a frontier as bytes and takes it up again, as two processes do.
func keptOf(t *testing.T, v *Verified, turns []Record) (*Verified, *Frontier) {
	t.Helper()
	f := v.Frontier()
	if f == nil {
		return nil, nil
	}
	data, err := canon.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	again := &Frontier{}
	if err := canon.UnmarshalCanonical(data, again); err != nil {
		t.Fatal(err)
	}
	resumed, err := again.Resume(turns, trust(t))
	if err != nil {
		t.Fatal(err)
	}
	return resumed, again
}

// turnsOf are the entries that a frontier is taken up with.
func turnsOf(t *testing.T, segments []Segment) (*Verified, []Record) {
	t.Helper()
	var turns []Record
	o := trust(t)
	o.Visit = func(r Record) error {
		if IsTurn(r.Envelope.Kind) {
			r.Envelope.Body, r.Raw = bytes.Clone(r.Envelope.Body), nil
			turns = append(turns, r)
		}
		return nil
	}
	v, err := Verify(segments, o)
	if err != nil {
		return nil, nil // before the first seal
	}
	return v, turns
}

// TestAFrontierContinuesAsItsProcessWould stops at many bytes, keeps the frontier, and
// goes on from it in what may be another process.
func TestAFrontierContinuesAsItsProcessWould(t *testing.T) {
	data := render(grown(t))
	continued := 0
	for _, firsts := range [][]int64{nil, {3, 8, 12}} {
		all := cut(data, len(data), firsts...)
		for n := range data {
			if n == 0 || data[n-1] != '\n' {
				continue
			}
			before, turns := turnsOf(t, lasting(cut(data, n, firsts...)))
			if before == nil {
				continue
			}
			resumed, _ := keptOf(t, before, turns)
			if resumed == nil {
				continue // something stands behind the last seal
			}
			grownSegments := lasting(all)
			if last := len(before.files) - 1; all[last].Size > before.files[last].Size {
				grownSegments[last].File.Changed++ // it was written to
			}
			want, opened := mustVerify(t, grownSegments, trust(t)), make(map[string]int64)
			o := trust(t)
			o.From = resumed
			got := mustVerify(t, watched(grownSegments, opened), o)
			// What was compared on the way is known besides.
			if got.TreeHead != want.TreeHead || got.Head != want.Head || got.Seals != want.Seals || got.Signers.Digest() != want.Signers.Digest() || got.Tail != want.Tail || !bytes.Equal(got.Checkpoint, want.Checkpoint) {
				t.Fatalf("stopped after %d bytes: %+v, want %+v", n, got, want)
			}
			if from, read := opened[all[0].Name]; read && (len(before.files) > 1 || from == 0) {
				t.Fatalf("stopped after %d bytes: %s is read again from %d", n, all[0].Name, from)
			}
			continued++
		}
	}
	if continued < 8 {
		t.Errorf("only %d continued", continued)
	}
}

// TestAForgedFrontierIsRefused: what a forger writes about chain, tree or seal is held
// against the operator's signature.
func TestAForgedFrontierIsRefused(t *testing.T) {
	data := render(grown(t))
	v, turns := turnsOf(t, lasting(one(data)))
	_, f := keptOf(t, v, turns)
	for name, forge := range map[string]func(*Frontier){
		"edge":           func(f *Frontier) { f.Edge[0][3] ^= 1 },
		"size":           func(f *Frontier) { f.Size++ },
		"a smaller tree": func(f *Frontier) { f.Size--; f.Edge = f.Edge[:len(f.Edge)-1] },
		"signature":      func(f *Frontier) { f.Signature = f.Signature[:len(f.Signature)-2] + "00" },
		"no signature":   func(f *Frontier) { f.Signature = "" },
		"no segments":    func(f *Frontier) { f.Segments = nil },
		"another ledger": func(f *Frontier) { f.Origin = "example.com/other" },
	} {
		t.Run(name, func(t *testing.T) {
			forged := *f
			forged.Edge, forged.Segments = slices.Clone(f.Edge), slices.Clone(f.Segments)
			forge(&forged)
			if got, err := forged.Resume(turns, trust(t)); err == nil {
				t.Errorf("taken up as %+v", got.TreeHead)
			}
		})
	}
	// Another root of trust, and turns that were left out or moved.
	o := trust(t)
	o.TrustRoot = digest.IDOf([]byte("another"))
	if _, err := f.Resume(turns, o); err == nil {
		t.Error("taken up under another trust root")
	}
	if _, err := f.Resume(turns[1:], trust(t)); err == nil {
		t.Error("taken up without the first entry")
	}
	if _, err := f.Resume(nil, trust(t)); err == nil {
		t.Error("taken up without any entry")
	}
}

// TestAFrontierWithAWrongHeadIsReadFromTheStart: the chain head stands in the last seal's
// line, so a wrong one is noticed when the ledger is opened.
func TestAFrontierWithAWrongHeadIsReadFromTheStart(t *testing.T) {
	segments := lasting(one(render(grown(t))))
	v, turns := turnsOf(t, segments)
	_, f := keptOf(t, v, turns)
	f.Head[5] ^= 1
	resumed, err := f.Resume(turns, trust(t))
	if err != nil {
		t.Fatal(err)
	}
	o, opened := trust(t), make(map[string]int64)
	o.From = resumed
	if _, err := Verify(watched(segments, opened), o); err == nil {
		t.Error("a ledger with another head was taken for the one that is remembered")
	}
}

// TestFileIDsAreSpelledOneWay refuses other spellings of the identity of a file.
func TestFileIDsAreSpelledOneWay(t *testing.T) {
	id := FileID{Device: 0xfe01, Inode: 1 << 60, Modified: -3, Changed: 1 << 62}
	text, err := id.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got FileID
	if err := got.UnmarshalText(text); err != nil || got != id {
		t.Errorf("%s is read as %+v, %v", text, got, err)
	}
	for _, bad := range []string{"", "1:2:3", "1:2:3:4:5", "01:2:3:4", " 1:2:3:4", "1:2:3:+4", "1:2:3:4 ", "1 2 3 4"} {
		if got.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
