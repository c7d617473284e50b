package history

import (
	"fmt"
	"testing"
)

// TestHashIndexFindsWhatAMapFinds also where hashes are the same, as an attacker
// could make those of case digests.
func TestHashIndexFindsWhatAMapFinds(t *testing.T) {
	hashes := map[string]func(i int) uint64{
		"spread":         func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 },
		"few":            func(i int) uint64 { return uint64(i%7) << 40 },
		"one":            func(int) uint64 { return 0 },
		"end of the row": func(i int) uint64 { return ^uint64(i%3) << 32 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			var x Index
			var list []string
			same := func(id string) func(uint32) bool { return func(at uint32) bool { return list[at] == id } }
			for i := range 500 {
				id := fmt.Sprint(i)
				if at, ok := x.Find(hash(i), same(id)); ok {
					t.Fatalf("%s is found at %d before it is there", id, at)
				}
				list = append(list, id)
				x.Add(hash(i), uint32(i))
				if i == 100 {
					x.Grow(300)
				}
			}
			for i, id := range list {
				if at, ok := x.Find(hash(i), same(id)); !ok || int(at) != i {
					t.Fatalf("%s is found at %d, %v", id, at, ok)
				}
			}
		})
	}
}

func TestNamesStayAsTheyWere(t *testing.T) {
	var ids names
	var kept []string
	buf := make([]byte, 0, 64)
	for i := range 10_000 {
		buf = fmt.Appendf(buf[:0], "case-%d", i) // used again each time
		kept = append(kept, ids.keep(buf))
	}
	for i, id := range kept {
		if id != fmt.Sprintf("case-%d", i) {
			t.Fatalf("name %d is %q", i, id)
		}
	}
}
