package extract

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryKindIsInTheTable compares the constants with the table of
// extractors, and the fields that rows name with those of a spec.
func TestEveryKindIsInTheTable(t *testing.T) {
	source, err := os.ReadFile("kinds.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +Kind = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, m := range declared {
		if rows[Kind(m[1])] == nil {
			t.Errorf("%s has a constant and no row in extractors", m[1])
		}
	}
	if len(declared) != len(extractors) || len(rows) != len(extractors) {
		t.Errorf("%d constants, %d rows, %d kinds: one is missing or there twice", len(declared), len(extractors), len(rows))
	}
	var all []string
	for _, f := range (&Spec{}).fields() {
		all = append(all, f.name)
	}
	used := map[string]bool{}
	for _, r := range extractors {
		if r.pick == nil {
			t.Errorf("%s picks nothing", r.kind)
		}
		for _, name := range strings.Fields(r.needs + " " + r.fields) {
			used[name] = true
			if !slices.Contains(all, name) {
				t.Errorf("%s: a spec has no field %s", r.kind, name)
			}
		}
	}
	for f := range reflect.TypeFor[Spec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "kind" && (!slices.Contains(all, name) || !used[name]) {
			t.Errorf("%s is a field of a spec, and no kind of extractor takes it", name)
		}
	}
}
