package ledger

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"tallystick/internal/record/seal"
)

// resume begins a walk: after what an earlier verification covers, if there was
// one and the ledger is still the one that it saw, otherwise at the beginning.
// It returns how many segments are done with.
func resume(segments []Segment, o Options) (w *walk, done int, err error) {
	w = newWalk(o)
	v := o.From
	if v == nil {
		return w, 0, nil
	}
	w.known = v.chain.size
	if !v.serves(o) || !v.sameFiles(segments) {
		return w, 0, nil
	}
	last := len(v.files) - 1
	r, err := v.openAfterSeal(segments[last])
	if err != nil || r == nil {
		return w, 0, err
	}
	defer r.Close()
	if err := w.takeUp(v); err != nil {
		return nil, 0, err
	}
	w.last = last == len(segments)-1
	if err := w.read(r, segments[last]); err != nil {
		return nil, 0, err
	}
	return w, last + 1, nil
}

// serves reports whether the earlier verification asked all that this one asks
// of the part that both cover. One with no seal in its last segment does not:
// there is nothing in that file to know it by.
func (v *Verified) serves(o Options) bool {
	if v.chain.size == 0 || v.Tail.GoodSize == 0 || o.Decode && !v.decoded || o.EverySeal && !v.everySeal {
		return false
	}
	if o.Origin != "" && o.Origin != v.chain.origin || !o.UnsafeAnyRoot && o.TrustRoot != v.history[0].signers.Digest() {
		return false
	}
	return !slices.ContainsFunc(o.Expect, func(e Expectation) bool {
		_, known := v.knownAt(e.Size)
		return e.Size <= v.chain.size && !known && !e.SizeOnly
	})
}

// sameFiles compares the segments with those of the earlier verification, as
// far as their names and descriptions tell. A segment is never written to once
// there is a later one.
func (v *Verified) sameFiles(segments []Segment) bool {
	if len(segments) < len(v.files) {
		return false
	}
	last := len(v.files) - 1
	for i, then := range v.files {
		now := segments[i]
		if now.Name != then.Name || now.First != then.First || i < last && now.Size != then.Size || !now.File.sameFile(then.File) {
			return false
		}
		if now.File.touchedSince(then.File) && (i < last || now.Size == then.Size) {
			return false
		}
	}
	return true
}

// openAfterSeal opens the segment that was the last, behind the seal that was
// the last. It returns nil when the seal does not stand there any more.
func (v *Verified) openAfterSeal(s Segment) (io.ReadCloser, error) {
	want := AppendSealLine(nil, v.chain.size, v.chain.head, v.lastSeal.signature)
	r, err := s.Open(v.Tail.GoodSize - int64(len(want)))
	if err != nil {
		return nil, unreadable(s, err)
	}
	got := make([]byte, len(want))
	_, err = io.ReadFull(r, got)
	if err == nil && bytes.Equal(got, want) {
		return r, nil
	}
	r.Close()
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, unreadable(s, err)
	}
	return nil, nil
}

// takeUp makes the end of an earlier verification the beginning of this one. Its
// last seal is pending again: the next one by the same key covers it.
func (w *walk) takeUp(v *Verified) error {
	w.chain = v.Chain()
	for len(w.expect) > 0 && w.expect[0].Size <= v.chain.size {
		e := w.expect[0]
		w.expect = w.expect[1:]
		if counts, err := w.confirm(e, v.signersAt(e.Size)); err != nil {
			return err
		} else if !counts {
			continue
		}
		found, _ := v.knownAt(e.Size)
		if err := found.meets(e); err != nil {
			return err
		}
	}
	pending := v.lastSeal
	w.pending = &pending
	w.time, w.signers, w.inForce, w.history = v.LastTime, v.Signers, v.Signers, v.history
	w.once = v.once
	w.met = slices.Clip(v.met)
	w.recent = v.recent.clone()
	end, _ := v.knownAt(v.chain.size)
	w.noteMet(end)
	w.sealed = *v
	w.sealed.files = nil
	w.sealed.RootPinned = !w.opt.UnsafeAnyRoot
	w.sealed.decoded, w.sealed.everySeal = w.opt.Decode, w.opt.EverySeal
	w.sealed.Tail.Torn, w.sealed.Tail.FirstBad = 0, ""
	return nil
}

// knownAt returns what the ledger was found to be at that size, if it was
// looked at there.
func (v *Verified) knownAt(size int64) (known, bool) {
	if size == v.chain.size {
		return known{TreeHead{Origin: v.chain.origin, Size: size, Root: v.chain.Root()}, v.chain.head}, true
	}
	i := slices.IndexFunc(v.met, func(k known) bool { return k.Size == size })
	if i < 0 {
		return known{}, false
	}
	return v.met[i], true
}

// SignersOf is [Policy.Signers] of this ledger; it knows no other.
func (v *Verified) SignersOf(origin string, size int64) *seal.Signers {
	if origin != v.Origin {
		return nil
	}
	return v.signersAt(size)
}

// signersAt returns the signers in force after so many entries.
func (v *Verified) signersAt(size int64) *seal.Signers {
	in := v.history[0].signers
	for _, version := range v.history {
		if version.index < size {
			in = version.signers
		}
	}
	return in
}

// expectation is what any ledger must contain that is to be the one verified.
func (v *Verified) expectation() Expectation {
	end, _ := v.knownAt(v.chain.size)
	return Expectation{TreeHead: end.TreeHead, Head: end.head, Source: "what this process verified before"}
}
