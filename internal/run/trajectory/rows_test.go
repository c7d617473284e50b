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

// TestWhatCostsIsASpender: readers add up what Spender gives.
func TestWhatCostsIsASpender(t *testing.T) {
	for _, typ := range Types() {
		p := NewPayload(typ)
		var costs []string
		for _, name := range members(p) {
			if name == "cost_microdollars" || strings.HasPrefix(name, "tokens") {
				costs = append(costs, name)
			}
		}
		spender, ok := p.(Spender)
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
			amount := int64(1) << at
			v.FieldByIndex(f.Index).SetInt(amount)
			if name == "cost_microdollars" {
				want[1] += amount
			} else {
				want[0] += amount
			}
		}
		if tokens, microUSD := spender.Spent(); tokens != want[0] || microUSD != want[1] {
			t.Errorf("%s: spent %d tokens and %d, expected %d and %d", typ, tokens, microUSD, want[0], want[1])
		}
	}
}

// vectors are trajectories as they were written once, with their heads. They
// are promises: a new type of events gets a new file, and no file is ever
// rewritten. Readers in other packages are tried on them too.
var vectors = map[string]string{
	"v1-completed-2026-11.jsonl": "sha256:aed7a7d8045fb7afcffa093ad8823040bb5f146d1bcfeb6deabeb8fbe40b236b",
	"v1-example-2026-11.jsonl":   "sha256:eaff0f2bd7dd0472e1bf51977ab70c7d252921eebc1eb6819c23c1c615aca338",
	"v2-observed-2026-11.jsonl":  "sha256:9519020115955a27f9e3ecb4fe4266ba65ca330dc447abeecdf7f3385e4beea3",
	"v2-folder-2026-11.jsonl":    "sha256:3b78856a566f350fb4f068eb7e760f2ca1b54237a2c49a7279fe6c1b4a63a4db",
	"v1-failed-2026-11.jsonl":    "sha256:119b90f0a43b2394d45626a0550de3e53682ebfac6236fcc176aa7edf70725b5",
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
