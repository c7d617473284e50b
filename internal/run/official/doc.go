// Package official scores outputs as the official code of public suites scores them,
// with its bugs: which text counts as the answer, what is the same, what is a call.
//
// A scorer is named by suite and variant, because official scorers of one suite
// disagree with each other. It is written from what the official code does and compared
// with it on generated outputs (.ci/conformance suites); docs/suites.md has the versions
// and the rows that were compared.
//
// It promises the official verdict and nothing better: [Scorer.Version] says whose. An
// output on which the official code breaks, and which therefore has no official verdict,
// does not pass here unless everything else about it is right.
package official

import (
	"fmt"
	"slices"
	"strings"
)

// A Verdict is what a scorer says of one output.
type Verdict struct {
	Passed bool
	// Took is what the scorer took for the answer, and Why says in words how it came
	// to the verdict.
	Took, Why string
}

// A Scorer is one way to score one suite.
type Scorer struct {
	Name string // SUITE/VARIANT
	// Version is the official code that it equals.
	Version string
	// Expects says what a case must expect.
	Expects string

	// gold is the answer that the case expects, where it is one text; may be nil.
	gold func(expected []byte) string

	compile func(expected []byte) (func(output string) Verdict, error)
}

// Compile prepares a scorer for what a case expects, which is JSON.
func (s *Scorer) Compile(expected []byte) (func(output string) Verdict, error) {
	score, err := s.compile(expected)
	if err != nil {
		return nil, fmt.Errorf("%w; %s expects %s", err, s.Name, s.Expects)
	}
	return score, nil
}

// Gold lists the texts that would pass, as far as they stand in the case: the recorder
// looks for them in what an agent is shown.
func (s *Scorer) Gold(expected []byte) []string {
	if s.gold == nil {
		return nil
	}
	if text := s.gold(expected); text != "" {
		return []string{text}
	}
	return nil
}

var scorers = []Scorer{
	{"gsm8k/official", "openai/grade-school-math", "the answer of the data set, a text with \"#### 18\"", gsm8kGold, compileGSM8K(gsm8kOfficial)},
	{"gsm8k/strict-match", "lm-eval 0.4.13, task gsm8k 3.0", "the answer of the data set, a text with \"#### 18\"", gsm8kGold, compileGSM8K(gsm8kStrict)},
	{"gsm8k/flexible-extract", "lm-eval 0.4.13, tasks gsm8k and gsm8k_cot 3.0", "the answer of the data set, a text with \"#### 18\"", gsm8kGold, compileGSM8K(gsm8kFlexible)},
	{"gsm8k/cot-strict-match", "lm-eval 0.4.13, task gsm8k_cot 3.0", "the answer of the data set, a text with \"#### 18\"", gsm8kGold, compileGSM8K(gsm8kCoT)},
	{"mmlu-pro/official", "TIGER-AI-Lab/MMLU-Pro of March 2026", "a letter from A to J", nil, compileMMLUPro(mmluProOfficial)},
	{"mmlu-pro/lm-eval", "lm-eval 0.4.13, task mmlu_pro 3.1", "a letter from A to J", nil, compileMMLUPro(mmluProLMEval)},
	{"bfcl/prompting", "bfcl-eval 2026.3.23", bfclExpects, nil, compileBFCL(decodePrompting, false)},
	{"bfcl/fc", "bfcl-eval 2026.3.23", bfclExpects, nil, compileBFCL(decodeFC, true)},
	{"simpleqa/reply", "openai/simple-evals of July 2025", "the letter that the model which grades should give: A is correct, B incorrect, C not attempted", nil, compileSimpleQA},
	{"swe-bench/log", "swebench 5.0.2, repositories in Python", `{"repo": "django/django", "FAIL_TO_PASS": [...], "PASS_TO_PASS": [...]}`, nil, compileSWEBench},
	{"terminal-bench/pytest", "terminal-bench 0.2.18", "the text \"resolved\"", nil, compileTerminalBench},
}

// Find gives a scorer by its name.
func Find(name string) (*Scorer, error) {
	i := slices.IndexFunc(scorers, func(s Scorer) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("is %.60q, expected one of %s", name, strings.Join(Names(), ", "))
	}
	return &scorers[i], nil
}

// Names lists the scorers.
func Names() []string {
	var names []string
	for _, s := range scorers {
		names = append(names, s.Name)
	}
	return names
}
