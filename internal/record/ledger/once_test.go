package ledger

import (
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// What a second runner signed stands once. An operator who can write to the
// disk and seal does not make an earlier word the last one by writing it again.
func TestAReproductionStandsOnce(t *testing.T) {
	head, results := digest.IDOf([]byte("x")), digest.ContentOf([]byte("x"))
	bound := evidence.AttemptReproduced{Attempt: "a.again", Original: "a", Origin: testOrigin, Agrees: true, Signature: "s", Registered: &head, Finished: &head, Results: &results}
	resigned, other := bound, bound
	resigned.Signature = "t"
	other.Attempt = "a.again-2"
	for _, tt := range []struct {
		name   string
		second evidence.AttemptReproduced
		first  evidence.AttemptReproduced
		ok     bool
	}{
		{"the same", bound, bound, false},
		{"the same under another signature", resigned, bound, false},
		{"another run", other, bound, true},
	} {
		items := honest(t)
		seen := chainOf(items).Size()
		for _, r := range []evidence.AttemptReproduced{tt.first, tt.second} {
			items = append(items, entryItem(evidence.AttemptReproducedKind, mustMarshal(t, &r), testTime))
			items = append(items, sealItem(t, items, olga))
		}
		_, err := Verify(one(render(items)), trust(t))
		if tt.ok && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if !tt.ok {
			refusedAt(t, err, refusal.EntryInvalid, seen+1)
		}
		// The same when an earlier verification is continued.
		v := mustVerify(t, one(render(items[:len(items)-2])), trust(t))
		o := trust(t)
		o.From = v
		if _, err := Verify(one(render(items)), o); (err == nil) != tt.ok {
			t.Errorf("%s, continued: %v", tt.name, err)
		}
	}
}
