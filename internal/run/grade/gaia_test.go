package grade

import (
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

// TestGAIAGraderComparesAsTheOfficialScorer has rows for each branch of it. All
// were put to the rules in Python, too; with 60,000 random pairs besides, in which
// both agreed.
func TestGAIAGraderComparesAsTheOfficialScorer(t *testing.T) {
	gaia := func(gold string) string { return `{"kind":"gaia","expected":` + gold + `}` }
	runRows(t, []row{
		{gaia(`"17"`), "", "17", "passed", "a number"},
		{gaia(`"17"`), "", "17.0", "passed", ""},
		{gaia(`17`), "", "$1,7 %", "passed", ""},
		{gaia(`"1000000"`), "", "1,000,000", "passed", ""},
		{gaia(`"1_000"`), "", "1000", "passed", ""},
		{gaia(`"٣"`), "", "3", "passed", ""},
		{gaia(`"17"`), "", "17 apples", CodeMismatch, "a number"},
		{gaia(`"17"`), "", "0x11", CodeMismatch, ""},
		{gaia(`"17"`), "", "1_7_", CodeMismatch, ""},
		{gaia(`"17"`), "", "nan", CodeMismatch, ""},
		{gaia(`"17"`), "", "17\x1c", CodeMismatch, ""},
		{gaia(`"0.1"`), "", ".10", "passed", ""},
		{gaia(`"0.1"`), "", "0.1000000001", CodeMismatch, ""},

		{gaia(`"Saint Petersburg"`), "", "saint-petersburg.", "passed", "a text"},
		{gaia(`"Saint Petersburg"`), "", "St. Petersburg", CodeMismatch, ""},
		{gaia(`"seagull"`), "", "sea gull", "passed", ""},
		{gaia(`"ΟΔΟΣ"`), "", "οδος", "passed", ""},
		{gaia(`"ΟΔΟΣ"`), "", "οδοσ", CodeMismatch, ""},
		{gaia(`"don't"`), "", "don’t", CodeMismatch, ""},
		{gaia(`"a\u200bb"`), "", "ab", CodeMismatch, ""},
		{gaia(`"right"`), "", "FINAL ANSWER: right", CodeMismatch, ""},

		{gaia(`"b, e; 3"`), "", "B,E,3.0", "passed", "a list"},
		{gaia(`"b, e; 3"`), "", "b, e", CodeMismatch, "a list"},
		{gaia(`"b, e; 3"`), "", "e, b, 3", CodeMismatch, ""},
		{gaia(`"b., e"`), "", "b, e", CodeMismatch, ""},
		{gaia(`"1,234.5"`), "", "1,234.5", "passed", "a list"},
		{gaia(`"1,234.5"`), "", "1234.5", CodeMismatch, "a list"},
		{gaia(`"x"`), "", strings.Repeat("x", maxText+1), CodeTooLarge, ""},
		{`{"kind":"gaia","expected_pointer":"/answer"}`, `{"answer":"Au"}`, "AU", "passed", ""},
	})
}

// TestGAIAGraderRefusesWhatEveryAnswerMeets: the official scorer takes what is
// not a number for infinity, and an empty text for any other of which nothing is
// left.
func TestGAIAGraderRefusesWhatEveryAnswerMeets(t *testing.T) {
	for _, gold := range []string{`"inf"`, `"-Infinity"`, `"1e999"`, `"nan"`, `"+NaN"`, `""`, `"  "`, `"?!"`, `true`, `["a"]`} {
		p, err := Parse(canon.RawMessage(`{"grade":{"kind":"gaia","expected":`+gold+`}}`), byName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Compile(Materials{}); err == nil {
			t.Errorf("%s was taken for an answer", gold)
		}
	}
}

func TestUngradedIsForAWholeCase(t *testing.T) {
	g := compiled(t, `{"extract":{"kind":"answer","pattern":"(?s)^(?:.*FINAL ANSWER:)?\\s*(.*)$"},"grade":{"kind":"ungraded"}}`, Materials{})
	r := check(t, g, Input{Source: said(t, "so it is\nFINAL ANSWER: 42")})
	if r.Passed || !strings.Contains(r.Unscored, "states that nothing grades it") || r.Details[0].Extracted.Head != "42" {
		t.Errorf("%+v", r)
	}
	for _, doc := range []string{
		`{"checks":[{"name":"a","grade":{"kind":"ungraded"}}]}`,
		`{"grade":{"kind":"all","checks":[{"name":"a","grade":{"kind":"ungraded"}}]}}`,
		`{"grade":{"kind":"ungraded","expected":"x"}}`,
		`{"grade":{"kind":"ungraded"},"expect":{"turns":1}}`,
	} {
		if p, err := Parse(canon.RawMessage(doc), byName); err == nil {
			if _, err = p.Compile(Materials{}); err == nil {
				t.Errorf("%s was taken", doc)
			}
		}
	}
}
