package trajectory

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryTypeIsInTheTable reads the constants of type Type in the source.
func TestEveryTypeIsInTheTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Type" {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared++
			if NewPayload(Type(value)) == nil {
				t.Errorf("%s: %s is not in the table in event.go", name, spec.Names[0].Name)
			}
			return true
		})
	}
	if declared != len(payloads) {
		t.Errorf("%d types are declared, the table has %d", declared, len(payloads))
	}
}

// members are the names of a payload's members on the line.
func members(p Payload) []string {
	var names []string
	for f := range reflect.TypeOf(p).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestRowsNameMembersThatExist: a misspelt member would be left out of golden
// traces, or kept in them, without a word.
func TestRowsNameMembersThatExist(t *testing.T) {
	for typ, row := range rows {
		used := slices.Concat(row.golden.line, row.golden.without)
		if row.golden.of != "" {
			used = append(used, row.golden.of)
		}
		for _, c := range row.golden.changes {
			used = append(used, c.members...)
		}
		for _, name := range used {
			if !slices.Contains(members(row.empty()), name) {
				t.Errorf("%s: golden names %s, which the payload does not have", typ, name)
			}
		}
	}
}

// TestMembersStandInTheOrderOfTheirNames: then nothing is left to sort when an
// event is written.
func TestMembersStandInTheOrderOfTheirNames(t *testing.T) {
	for _, typ := range Types() {
		if names := members(NewPayload(typ)); !slices.IsSorted(names) {
			t.Errorf("%s has the members %q, expected them in order", typ, names)
		}
	}
}

// apart are the types whose cost is not the agent's, and is added up by itself.
var apart = map[Type]string{UserMovedType: "a simulated user pays its own way: the record has it in user"}

// TestWhatCostsIsASpender: readers add up what Spender gives.
func TestWhatCostsIsASpender(t *testing.T) {
	for _, typ := range Types() {
		p := NewPayload(typ)
		var costs []string
		for _, name := range members(p) {
			if name == "cost_microdollars" || name == "unpriced" || strings.HasPrefix(name, "tokens") {
				costs = append(costs, name)
			}
		}
		spender, ok := p.(Spender)
		if apart[typ] != "" && !ok {
			continue
		}
		if ok != (len(costs) > 0) {
			t.Errorf("%s has the members %q and is a Spender: %v", typ, costs, ok)
		}
		if !ok {
			continue
		}
		var want [2]int64
		v := reflect.ValueOf(p).Elem()
		for f := range v.Type().Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := slices.Index(costs, name)
			if at < 0 {
				continue
			}
			if name == "unpriced" {
				v.FieldByIndex(f.Index).SetBool(true)
				continue
			}
			amount := int64(1) << at
			v.FieldByIndex(f.Index).SetInt(amount)
			if name == "cost_microdollars" {
				want[1] += amount
			} else {
				want[0] += amount
			}
		}
		if tokens, of := spender.Spent(); tokens != want[0] || of.MicroUSD != want[1] || (of.Unpriced == 1) != slices.Contains(costs, "unpriced") {
			t.Errorf("%s: spent %d tokens and %s, expected %d and %d", typ, tokens, of, want[0], want[1])
		}
	}
}

// vectors are trajectories as they were written once, with their heads. From format
// 1 on they are promises: a new type of events gets a new file, and no file is ever
// rewritten. Those of a draft show that nothing changes by accident. Readers in other
// packages are tried on them too.
var vectors = map[string]string{
	"1-draft-completed.jsonl": "sha256:5bdcb6aeaa6153ae95c33b64e24a7a2c1db27ea3070d0f45c2d88a65a0078355",
	"1-draft-example.jsonl":   "sha256:64260c6bd1c7a0a5705a6b7569db8092bcfaa959571f1b48afb187935bea2391",
	"1-draft-failed.jsonl":    "sha256:b5c7ba0d84407704ef79b983a8d8915969af0c4b18b207457c37f8a1a16508ca",
	"1-draft-folder.jsonl":    "sha256:8f828dd6a1835022639bdfb6bcd7b03180a1b759292e775200c6f48e378519e9",
	"1-draft-observed.jsonl":  "sha256:5b39283cfe71c71216fad1ddb69a4ae3854d04898b7ecfc255e8478352a09b4b",
	"1-draft-user.jsonl":      "sha256:43599d92ad70bb11d31bcd396723bed37b1e7a15e7fdcc2ecb629b4a91616115",
	"1-draft-world.jsonl":     "sha256:5974c4d7b258a06da578316249d03d61340c3f004efaee05c6b762035e596b04",
}

func TestVectorsOfEveryTypeVerifyForEver(t *testing.T) {
	seen := map[Type]bool{}
	for name, head := range vectors {
		data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
		if err != nil {
			t.Fatal(err)
		}
		v, err := Verify(data, UnsafeAnyHead())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v.Head().String() != head {
			t.Errorf("%s: the head is %s, expected %s", name, v.Head(), head)
		}
		for e := range v.Events() {
			seen[e.Type] = true
			if strings.TrimSpace(e.Payload.Summary()) == "" {
				t.Errorf("%s: %s: the summary is empty", name, e.Type)
			}
			if subject, ok := e.Payload.Subject(); ok != (subject != "") {
				t.Errorf("%s: %s: the subject is %q, and it has one: %v", name, e.Type, subject, ok)
			}
		}
	}
	for _, typ := range Types() {
		if !seen[typ] {
			t.Errorf("no file in testdata/vectors has a %s: add one", typ)
		}
	}
	entries, err := os.ReadDir(filepath.Join("testdata", "vectors"))
	if err != nil || len(entries) != len(vectors) {
		t.Errorf("testdata/vectors has %d files, expected %d (%v)", len(entries), len(vectors), err)
	}
}

func TestSummariesOfEmptyTurnsSaySo(t *testing.T) {
	for _, p := range []Payload{&TurnStarted{}, &TurnCompleted{}, &MemoryRetrieved{}, &Rollback{}, &TransportRequest{}, &TestRun{Command: []string{"x"}, Exit: 1}} {
		if strings.TrimSpace(p.Summary()) == "" {
			t.Errorf("%s: the summary is empty", p.Type())
		}
	}
}
