package official

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	functions = `[{"name":"shop.refund","parameters":{"type":"dict","properties":{
		"order":{"type":"string"},"amount":{"type":"float"},"lines":{"type":"array","items":{"type":"integer"}},"how":{"type":"dict"}},"required":["order"]}}]`
	truth = `[{"shop.refund":{"order":["A-1"],"amount":[5.0,""],"lines":[[1,2],""],"how":[{"by":["card"],"note":[""]},""]}}]`
)

func expectedCalls(category, truth string) string {
	text, _ := json.Marshal(map[string]string{"category": category, "function": functions, "ground_truth": truth})
	return string(text)
}

func text(s string) string {
	quoted, _ := json.Marshal(s)
	return string(quoted)
}

const flask = `{"repo":"pallets/flask","FAIL_TO_PASS":["a.py::b"],"PASS_TO_PASS":["a.py::c"]}`

// run is a log of SWE-bench's evaluation script.
func run(output string) string { return sweStart + "\n" + output + sweEnd + "\n" }

// TestWhatTheOfficialCodeTakes: rules that implementations get wrong, as the official
// code was seen to have them.
func TestWhatTheOfficialCodeTakes(t *testing.T) {
	gold := text("9*2=18\n#### 18")
	simple := expectedCalls("simple_python", truth)
	for _, row := range []struct {
		scorer, expected, output string
		passed                   bool
	}{
		{"gsm8k/official", gold, "#### 18 and #### 19", true},
		{"gsm8k/official", gold, "#### 18.", false},
		{"gsm8k/official", gold, "#### $18", false},
		{"gsm8k/official", gold, "####18", false},
		{"gsm8k/strict-match", gold, "#### 18.", true},
		{"gsm8k/cot-strict-match", gold, "The answer is 18.", true},
		{"gsm8k/cot-strict-match", gold, "The answer is 18", false},
		{"gsm8k/flexible-extract", gold, "$18 in 2 days", false},
		{"gsm8k/flexible-extract", gold, "it is $18.", true},
		{"mmlu-pro/official", text("A"), "the answer is Apple", true},
		{"mmlu-pro/official", text("I"), "C, as I think", true},
		{"mmlu-pro/official", text("C"), "**Answer:** **C**", true},
		{"mmlu-pro/lm-eval", text("C"), "Answer: C", false},
		{"mmlu-pro/lm-eval", text("C"), "answer is **C**", false},
		{"swe-bench/log", flask, run("PASSED a.py::b\nSKIPPED a.py::c\n"), true},
		{"swe-bench/log", flask, run("SKIPPED a.py::b\nPASSED a.py::c\n"), false},
		{"swe-bench/log", flask, run("PASSED a.py::b\n"), false},
		{"swe-bench/log", flask, run("PASSED a.py::b\nPASSED a.py::c\n") + ">>>>> Test Exit Code: 1\n", false},
		{"swe-bench/log", flask, "PASSED a.py::b\nPASSED a.py::c\n", false},
		{"swe-bench/log", flask, run("FAILED a.py::b - x\nPASSED a.py::b\nPASSED a.py::c\n"), true},
		{"swe-bench/log", `{"repo":"django/django","FAIL_TO_PASS":["test_a (x.Y)"],"PASS_TO_PASS":[]}`, run("test_a (x.Y) ... noise\nmore\nok\n"), true},
		{"swe-bench/log", `{"repo":"astropy/astropy","FAIL_TO_PASS":["a.py::b[log(x"],"PASS_TO_PASS":[]}`, run("PASSED a.py::b[log(x / y)]\nXFAIL a.py::b[log(x * y)]\n"), true},
		{"swe-bench/log", `{"repo":"astropy/astropy","FAIL_TO_PASS":["a.py::b[log(x"],"PASS_TO_PASS":[]}`, run("PASSED a.py::b[log(x / y)]\nFAILED a.py::b[log(x * y)]\n"), false},
		{"terminal-bench/pytest", text("resolved"), "== short test summary info ==\nPASSED a.py::b\n", true},
		{"terminal-bench/pytest", text("resolved"), "== short test summary info ==\nFAILED a.py::b - no - no\n", false},
		{"terminal-bench/pytest", text("resolved"), "== short test summary info ==\nXPASS a.py::b\n", false},
		{"terminal-bench/pytest", text("resolved"), "== short test summary info ==\n\x1b[31mFAILED\x1b[0m a.py::b\n", true},
		{"terminal-bench/pytest", text("resolved"), "3 passed", false},
		{"simpleqa/reply", text("A"), "CORRECT", false},
		{"simpleqa/reply", text("B"), "Because", true},
		{"bfcl/prompting", simple, "[shop.refund(order='a, 1')]", true},
		{"bfcl/prompting", simple, "shop.refund(order='A-1', amount=5, lines=[1, 2])", true},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1', lines=(1, 2))]", false},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1', lines=[1.0, 2])]", true},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1', how={'by': 'CARD'})]", true},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1', amount=2 + 3)]", true},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1', amount=+5)]", false},
		{"bfcl/prompting", simple, "[shop.refund('A-1')]", false},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1'),]", true},
		{"bfcl/prompting", simple, "[shop.refund(order='A-1');]", false},
		{"bfcl/prompting", simple, "```python\n[shop.refund(order='A-1')]\n```", false},
		{"bfcl/fc", simple, `[{"shop_refund": "{\"order\": \"A-1\"}"}]`, true},
		{"bfcl/fc", simple, `[{"shop.refund": "{\"order\": \"A-1\"}"}]`, false},
		{"bfcl/fc", simple, "I refunded it.", false},
		{"bfcl/prompting", expectedCalls("irrelevance", ""), "[x]", true},
		{"bfcl/prompting", expectedCalls("irrelevance", ""), "[f()]", false},
		{"bfcl/prompting", expectedCalls("live_relevance", ""), "[f()]", true},
		{"bfcl/prompting", expectedCalls("live_relevance", ""), "f(a=b.c)", false},
	} {
		s, err := Find(row.scorer)
		if err != nil {
			t.Fatal(err)
		}
		score, err := s.Compile([]byte(row.expected))
		if err != nil {
			t.Fatal(err)
		}
		if v := score(row.output); v.Passed != row.passed {
			t.Errorf("%s of %q: %v (%s), expected %v", row.scorer, row.output, v.Passed, v.Why, row.passed)
		}
	}
}

// TestParallelIsGreedy: an expected call takes the first call that passes, so that an
// order in which all would pass may fail.
func TestParallelIsGreedy(t *testing.T) {
	s, _ := Find("bfcl/prompting")
	twice := `[{"shop.refund":{"order":["A-1"],"amount":[5.0,6.0]}},{"shop.refund":{"order":["A-1"],"amount":[5.0]}}]`
	score, err := s.Compile([]byte(expectedCalls("parallel", twice)))
	if err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]bool{
		"[shop.refund(order='A-1', amount=6), shop.refund(order='A-1', amount=5)]": true,
		"[shop.refund(order='A-1', amount=5), shop.refund(order='A-1', amount=6)]": false,
	} {
		if v := score(output); v.Passed != want {
			t.Errorf("%s: %v, expected %v", output, v.Passed, want)
		}
	}
}

// TestWhatCannotBeExpected: a case that no output could be compared with is refused
// when it is compiled, and never scored.
func TestWhatCannotBeExpected(t *testing.T) {
	for scorer, bad := range map[string][]string{
		"gsm8k/official":    {`18`, `"18"`, `"####18"`},
		"swe-bench/log":     {`{}`, `{"repo":"chartjs/Chart.js","FAIL_TO_PASS":["a"]}`, `{"repo":"pallets/flask","FAIL_TO_PASS":[]}`, `{"repo":"pallets/flask","FAIL_TO_PASS":["a"],"x":1}`},
		"mmlu-pro/official": {`"K"`, `"a"`, `"AB"`, `1`},
		"bfcl/prompting": {`"x"`, `{}`, expectedCalls("simple_java", truth), expectedCalls("multi_turn_base", truth), expectedCalls("simple_python", `{}`),
			expectedCalls("simple_python", "["), `{"category":"simple_python","function":"[]","ground_truth":"[]"}`, `{"category":"simple_python","more":1}`},
	} {
		s, _ := Find(scorer)
		for _, expected := range bad {
			if _, err := s.Compile([]byte(expected)); err == nil || !strings.Contains(err.Error(), s.Expects) {
				t.Errorf("%s with %s: %v", scorer, expected, err)
			}
		}
	}
	if _, err := Find("gsm8k"); err == nil {
		t.Error("a suite without a variant was found")
	}
}

// FuzzOutputs: no output makes a scorer panic, run for long or say two things.
func FuzzOutputs(f *testing.F) {
	f.Add("[f(a=9**9**9)]")
	f.Add("[f(a='x'*99999999999)]")
	f.Add("f(" + strings.Repeat("[", 300))
	f.Add("[f(a=-7.5 // 2, b={1: (2,)}, **c)]")
	simple := expectedCalls("parallel_multiple", truth)
	f.Fuzz(func(t *testing.T, output string) {
		for _, name := range []string{"bfcl/prompting", "bfcl/fc"} {
			s, _ := Find(name)
			score, err := s.Compile([]byte(simple))
			if err != nil {
				t.Fatal(err)
			}
			one := score(output)
			two := score(output)
			if one != two {
				t.Errorf("%v, then %v", one, two)
			}
		}
	})
}

func BenchmarkBFCL(b *testing.B) {
	s, _ := Find("bfcl/prompting")
	score, err := s.Compile([]byte(expectedCalls("simple_python", truth)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if v := score("[shop.refund(order='A-1', amount=5, lines=[1, 2], how={'by': 'card'})]"); !v.Passed {
			b.Fatal(v.Why)
		}
	}
}
