package grade

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

// These two would be fuzz targets, but Go cannot build a fuzzer of a program
// with gVisor in it, and this package has it through the sandbox's results. So
// they change their seeds at random, the same way every time.

// mutations gives each seed and n changed forms of it.
func mutations(seeds []string, n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	all := strings.Join(seeds, "")
	out := append([]string{}, seeds...)
	for _, seed := range seeds {
		for range n {
			b := []byte(seed)
			for range 1 + random.IntN(4) {
				at := random.IntN(len(b) + 1)
				piece := random.IntN(len(all))
				end := min(len(all), piece+random.IntN(12))
				switch random.IntN(3) {
				case 0: // put a piece of some seed in
					b = append(b[:at:at], append([]byte(all[piece:end]), b[at:]...)...)
				case 1: // take something out
					b = append(b[:at:at], b[min(len(b), at+random.IntN(12)):]...)
				case 2:
					if at < len(b) {
						b[at] = byte(random.IntN(256))
					}
				}
			}
			out = append(out, string(b))
		}
	}
	return out
}

// TestAcceptedSpecsHaveOneForm: what is accepted is its canonical form again,
// and grades without breaking.
func TestAcceptedSpecsHaveOneForm(t *testing.T) {
	seeds := []string{
		`{"grade":{"kind":"exact","expected":"a"}}`,
		`{"checks":[{"name":"a","weight":0.5,"grade":{"kind":"number","expected":1,"unit":"km"}}],"expect":{"turns":">1"}}`,
		`{"extract":{"kind":"memory","tier":"semantic","key":"k"},"grade":{"kind":"not","checks":[{"name":"x","grade":{"kind":"absent"}}]}}`,
		`{"grade":{"kind":"json_equal","expected":{"a":[1,null]},"ignore":["/a/*","/b~1c"]}}`,
		`{"grade":{"kind":"cel","expression":"run.turn > 0","always":true}}`,
		`{"grade":{"kind":"tool_calls","mode":"superset","args":"subset","expected":[{"name":"a","args":{"x":1}}]}}`,
	}
	accepted := 0
	for _, doc := range mutations(seeds, 2000) {
		p, err := Parse(canon.RawMessage(doc), byName)
		if err != nil {
			continue
		}
		accepted++
		again, err := canon.Marshal(p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := canon.Canonicalize([]byte(doc))
		if err != nil || string(canonical) != string(again) {
			t.Fatalf("accepted %s, which is %s again, %v", canonical, again, err)
		}
		if g, err := p.Compile(Materials{Expected: canon.RawMessage(`"a"`)}); err == nil {
			check(t, g, Input{Source: said(t, "a 1 km")})
		}
	}
	if accepted <= len(seeds) {
		t.Errorf("%d specs were accepted: the changes change too much", accepted)
	}
}

// TestWhateverAnAgentAnswersIsGraded: with a result that can be recorded, the
// same one twice, and nothing that is blank passes.
func TestWhateverAnAgentAnswersIsGraded(t *testing.T) {
	var graders []*Grader
	for _, rule := range []string{
		`{"kind":"exact","expected":"a"}`, `{"kind":"normalised","expected":"a"}`, `{"kind":"contains","expected":"a","normalised":true}`,
		`{"kind":"one_of","expected":["a","b"]}`, `{"kind":"regex","pattern":"a*","match":"anywhere"}`,
		`{"kind":"number","expected":1,"unit":"°F","find":"last","tolerance":1e9}`, `{"kind":"number","expected":1,"tolerance":1e9}`,
		`{"kind":"compare","expect":"!=a"}`, `{"kind":"json_schema","schema":{}}`, `{"kind":"json_equal","expected":{"a":[1]},"ignore":["/a/*","/*/b"]}`,
	} {
		graders = append(graders, compiled(t, `{"grade":`+rule+`}`, Materials{}))
	}
	seeds := []string{"a", "1,000.5 °C", `{"a":[1,{"b":null}]}`, "\xff\xfe", " \n", "-.5e3%", "ﬃ’s “x”", "1e9 $5 v2 1.2.3 2nd", "\u22125 km"}
	for _, answer := range mutations(seeds, 60) {
		source := said(t, answer)
		for i, g := range graders {
			in := Input{Source: source, Redact: func(s string) string { return strings.ReplaceAll(s, "x", "y") }}
			r, again := check(t, g, in), check(t, g, in)
			first, err := Document(&r)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Document(&again)
			if err != nil || string(first) != string(second) || r.Unscored != "" {
				t.Errorf("grader %d on %q: %s and %s, %v", i, answer, first, second, err)
			}
			if r.Passed && strings.TrimSpace(answer) == "" {
				t.Errorf("grader %d passes %q", i, answer)
			}
		}
	}
}
