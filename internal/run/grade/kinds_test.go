package grade

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryKindIsInTheTable compares the constants with the table of graders.
func TestEveryKindIsInTheTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared [][][]byte
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			declared = append(declared, regexp.MustCompile(`(?m)^(?:\t|const )[A-Z]\w* +Kind = "(\w+)"`).FindAllSubmatch(source, -1)...)
		}
	}
	for _, m := range declared {
		if rows[Kind(m[1])] == nil {
			t.Errorf("%s has a constant and no row in graders", m[1])
		}
	}
	if len(declared) != len(graders) || len(rows) != len(graders) {
		t.Errorf("%d constants, %d rows, %d kinds: one is missing or there twice", len(declared), len(graders), len(rows))
	}
}

// TestRowsSayHowTheyGrade: a row without a function would grade nothing, and
// one that names a member which no rule has would never take it.
func TestRowsSayHowTheyGrade(t *testing.T) {
	var all []string
	for _, f := range (&Rule{}).fields() {
		all = append(all, f.name)
	}
	used := map[string]bool{}
	for _, r := range graders {
		if n := count(r.compare != nil, r.combine != nil, r.compare == nil && r.combine == nil && (r.prepare != nil || r.grade != nil)); n != 1 {
			t.Errorf("%s: it compares, combines or does something of its own: %d of them, expected 1", r.kind, n)
		}
		for _, name := range strings.Fields(r.needs + " " + r.members) {
			used[name] = true
			if !slices.Contains(all, name) {
				t.Errorf("%s: a rule has no member %s", r.kind, name)
			}
		}
	}
	for f := range reflect.TypeFor[Rule]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "kind" && (!slices.Contains(all, name) || !used[name]) {
			t.Errorf("%s is a member of a rule, and no kind of grader takes it", name)
		}
	}
}

func count(these ...bool) (n int) {
	for _, is := range these {
		if is {
			n++
		}
	}
	return n
}

// TestEveryKindIsInTheScript: each grader is tried through the program itself.
func TestEveryKindIsInTheScript(t *testing.T) {
	script, err := os.ReadFile("../../../cmd/tally/testdata/script/grade_every_kind.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		if k == ByRubric || k == Program {
			continue // they need a sandbox; scripts that have one run rubrics, and world_examples a program
		}
		if !regexp.MustCompile(`"kind": ?"` + string(k) + `"`).Match(script) {
			t.Errorf("the script does not try %s", k)
		}
	}
}
