package grade

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// acrostic is a made-up grader, and all that adding one takes: the first
// letters of the lines spell what is expected.
var acrostic = kindRow{kind: "acrostic", members: expectation, compare: func(expected canon.RawMessage, _ *Rule) (grader, error) {
	want, err := textList(expected, true, normaliser{}.text)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		var spelt strings.Builder
		for line := range strings.Lines(text) {
			spelt.WriteString(line[:1])
		}
		if spelt.String() == want[0] {
			return passed("the lines spell %s", want[0])
		}
		return mismatch("the lines spell %s", spelt.String())
	}, nil
}}

// TestAFurtherGraderIsOneFileAndOneRow adds one to a copy of the table.
func TestAFurtherGraderIsOneFileAndOneRow(t *testing.T) {
	const spec = `{"grade":{"kind":"acrostic","expected":"ab"}}`
	if _, err := Parse(canon.RawMessage(spec), byName); err == nil {
		t.Error("it is taken without its row")
	}
	before := graders
	graders = append(slices.Clone(graders), acrostic)
	rows = byKind(graders)
	t.Cleanup(func() { graders, rows = before, byKind(before) })

	if kinds := Kinds(); kinds[len(kinds)-1] != "acrostic" {
		t.Errorf("the kinds are %q", kinds)
	}
	g := compiled(t, spec, Materials{})
	for answer, want := range map[string]bool{"apple\nbread": true, "bread\napple": false} {
		if r := check(t, g, Input{Source: said(t, answer)}); r.Passed != want || r.Unscored != "" {
			t.Errorf("%q: %+v", answer, r)
		}
	}
	if _, err := Parse(canon.RawMessage(`{"grade":{"kind":"acrostic","expected":"ab","tolerance":1}}`), byName); err == nil || !strings.Contains(err.Error(), "tolerance") {
		t.Errorf("a member that it does not have: %v", err)
	}
}
