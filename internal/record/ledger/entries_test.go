package ledger

import (
	"bytes"
	"testing"

	"tallystick/internal/record/digest"
)

// TestEntriesReadAgainAreTheVerifiedOnes reads every entry of the honest ledger
// again, in one segment and in several.
func TestEntriesReadAgainAreTheVerifiedOnes(t *testing.T) {
	data := render(grown(t))
	for _, firsts := range [][]int64{nil, {3, 8, 12}} {
		segments := cut(data, len(data), firsts...)
		o := trust(t)
		var want []Record
		o.Visit = func(r Record) error {
			r.Raw = bytes.Clone(r.Raw)
			want = append(want, r)
			return nil
		}
		v := mustVerify(t, segments, o)
		finder := &Finder{every: 2} // it remembers what it passed
		for n := range want {
			indexes := []int64{want[n].Index, want[(n*7)%len(want)].Index, v.Size + 1}
			found, err := finder.UnverifiedEntries(segments, indexes)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range indexes[:2] {
				prev := digest.ID{}
				if i > 0 {
					prev = want[i-1].Head
				}
				if !bytes.Equal(found[i], want[i].Raw) || PositionOf(v.Origin, i, prev, found[i]) != want[i].Position {
					t.Fatalf("entry %d is %q, want %q", i, found[i], want[i].Raw)
				}
			}
			if len(found) > 2 {
				t.Errorf("found %d entries", len(found))
			}
		}
		if len(finder.marks) == 0 {
			t.Error("nothing was remembered")
		}
	}
}
