package ledger

import (
	"bytes"
	"testing"

	"tallystick/internal/record/refusal"
)

// FuzzVerifySegment gives arbitrary bytes as the only segment. Whatever
// verifies is, line for line, what writing its entries and seals again gives.
func FuzzVerifySegment(f *testing.F) {
	data := render(honest(f))
	f.Add(data)
	f.Add(data[:len(data)-7])
	f.Add(append(bytes.Clone(data), "noise\n\x00\x00"...))
	f.Add(render(honest(f)[:2]))
	f.Add([]byte{})
	o := trust(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []item
		o := o
		o.Visit = func(r Record) error {
			again = append(again, item{entry: bytes.Clone(r.Raw)})
			return nil
		}
		v, err := Verify(one(data), o)
		if err != nil {
			if _, wrong := err.(*Problem); !wrong && !refusal.Is(err, refusal.NotFound) {
				t.Fatalf("bytes that were read are called unreadable: %v", err)
			}
			return
		}
		if int64(len(again)) != v.Size || v.Tail.GoodSize+v.Tail.Torn != int64(len(data)) {
			t.Fatalf("%d entries seen of %d, tail %+v of %d bytes", len(again), v.Size, v.Tail, len(data))
		}
		// Put the seals back where they stood and write it all again.
		var items []item
		for line := range bytes.Lines(data[:v.Tail.GoodSize]) {
			text := bytes.TrimSuffix(line[checkLen+1:], []byte("\n"))
			if !isSeal(text) {
				items, again = append(items, again[0]), again[1:]
				continue
			}
			size, sig, err := parseSeal(text)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, item{size: size, sig: sig})
		}
		if !bytes.Equal(render(items), data[:v.Tail.GoodSize]) {
			t.Fatal("what verified does not encode to the same bytes")
		}
	})
}

// FuzzParseReceipt: what parses encodes to the same bytes.
func FuzzParseReceipt(f *testing.F) {
	receipt, anchor, checkpoint, _ := proofs(f)
	f.Add(receipt)
	f.Add(anchor)
	f.Add(checkpoint)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReceipt(data)
		if err != nil {
			return
		}
		if again, err := r.Marshal(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written again as %q (%v)", data, again, err)
		}
	})
}

// FuzzParseAnchor: what parses encodes to the same bytes.
func FuzzParseAnchor(f *testing.F) {
	receipt, anchor, checkpoint, _ := proofs(f)
	f.Add(anchor)
	f.Add(receipt)
	f.Add(checkpoint)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseAnchor(data)
		if err != nil {
			return
		}
		if again, err := a.Marshal(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written again as %q (%v)", data, again, err)
		}
	})
}

// FuzzVerifyCheckpoint: what verifies begins with the text that its tree head
// gives, and only the honest one has a signature.
func FuzzVerifyCheckpoint(f *testing.F) {
	receipt, _, checkpoint, p := proofs(f)
	f.Add(checkpoint)
	f.Add(append(bytes.Clone(checkpoint), "— witness AAAAAAAA\n"...))
	f.Add(receipt)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := VerifyCheckpoint(data, p)
		if err != nil {
			return
		}
		text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
		if !bytes.HasPrefix(data, []byte(c.Text()+"\n")) || c.Text() != string(text)+"\n" {
			t.Fatalf("%q verifies as %q", data, c.Text())
		}
	})
}
