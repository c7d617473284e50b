package vantage_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// declared lists the names that those who use them declare, from their own tables.
func declared(t *testing.T) map[vantage.Kind][]string {
	d := map[vantage.Kind][]string{
		vantage.Shown:     grade.Seeable(),
		vantage.Variable:  extract.Variables(),
		vantage.Condition: policy.ConditionVariables(),
		vantage.Limit:     members(bench.Limits{}),
		vantage.Total:     members(scorecard.Totals{}),
		vantage.Rule:      members(policy.Policy{}),
		vantage.Field:     slices.Concat(fields(bundle.Bundle{}), fields(bundle.ToolCall{}), fields(bundle.Observed{})),
	}
	for name := range grade.Expectations() {
		d[vantage.Expect] = append(d[vantage.Expect], name)
	}
	for _, k := range extract.Kinds() {
		d[vantage.Extract] = append(d[vantage.Extract], string(k))
	}
	for _, t := range trajectory.Types() {
		d[vantage.Event] = append(d[vantage.Event], string(t))
	}
	for _, k := range policy.Kinds() {
		d[vantage.Rule] = append(d[vantage.Rule], string(k))
	}
	d[vantage.Metric] = metrics(t)
	return d
}

// metrics are those that the rules of a registration let a gate name.
func metrics(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "rules", "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"metric": *\{[^}]*"one_of": *\[([^\]]*)\]`).FindSubmatch(data)
	if found == nil {
		t.Fatal("the rules of a registration name no metric")
	}
	return strings.FieldsFunc(string(found[1]), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// members are the names that a struct has in JSON.
func members(of any) []string {
	var list []string
	for f := range fieldsOf(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}

func fields(of any) []string {
	var list []string
	for f := range fieldsOf(of) {
		list = append(list, f.Name)
	}
	return list
}

func fieldsOf(of any) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		t := reflect.TypeOf(of)
		for i := range t.NumField() {
			if t.Field(i).IsExported() && !yield(t.Field(i)) {
				return
			}
		}
	}
}

// TestEveryNameIsInTheTable: a name that a package declares and the table does
// not have would be seen from nowhere, without a reason.
func TestEveryNameIsInTheTable(t *testing.T) {
	all := declared(t)
	for _, k := range vantage.Kinds() {
		if len(all[k]) == 0 {
			t.Errorf("no package declares a name of kind %s", k)
		}
		for _, name := range all[k] {
			if _, ok := vantage.Matters(k, name); !ok {
				t.Errorf("the %s %s is not in the table", k, name)
			}
		}
		for _, name := range vantage.Names(k) {
			if !slices.Contains(all[k], name) {
				t.Errorf("the table has the %s %s, which no package declares", k, name)
			}
		}
	}
}

// TestWhatIsNotSeenHasAReason, on every vantage, and a reason in one sentence.
func TestWhatIsNotSeenHasAReason(t *testing.T) {
	all := declared(t)
	for _, v := range vantage.All() {
		for k, names := range all {
			for _, name := range names {
				got := v.SeesName(k, name)
				if (got.Sight == vantage.Seen) != (got.Why == "") || strings.ContainsAny(got.Why, "\n") || strings.HasSuffix(got.Why, ".") {
					t.Errorf("%s of %s %s: %s with the reason %q", v, k, name, got.Sight, got.Why)
				}
			}
		}
	}
	for _, strange := range []string{"", "Inside", "everything"} {
		if got := vantage.Of(strange).Sees(vantage.Memory); got.Sight == vantage.Seen {
			t.Errorf("vantage %q sees everything", strange)
		}
	}
	if got := vantage.Inside.SeesName(vantage.Expect, "no_such_name"); got.Sight != vantage.Not {
		t.Errorf("a name that is not in the table is %s", got.Sight)
	}
}

// TestExpectationsAndExtractorsAgree: an expectation is an extractor, and both names
// say the same.
func TestExpectationsAndExtractorsAgree(t *testing.T) {
	for name, spec := range grade.Expectations() {
		for _, v := range vantage.All() {
			want := v.SeesName(vantage.Extract, string(spec.Kind))
			if spec.Kind == extract.Count {
				want = v.SeesName(vantage.Event, string(spec.Event))
			}
			if got := v.SeesName(vantage.Expect, name); got != want {
				t.Errorf("%s: expectation %s is %s, its extractor %s", v, name, got.Sight, want.Sight)
			}
		}
	}
}
