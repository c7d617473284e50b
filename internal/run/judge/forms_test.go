package judge

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/question"
)

// TestAVoteMustFollowFromWhatItSays: a document whose score is not what its
// choice, orders or marks come to is refused.
func TestAVoteMustFollowFromWhatItSays(t *testing.T) {
	scale, err := question.Anchored(map[string]string{"1": "bad", "5": "good"})
	if err != nil {
		t.Fatal(err)
	}
	vote := func(score float64, change func(*Vote)) Vote {
		v := Vote{Reason: "r"}
		v.set(score)
		change(&v)
		return v
	}
	marks := func(claims []string, m ...bool) func(*Vote) {
		return func(v *Vote) { v.Claims, v.Marks = claims, m }
	}
	two := []string{"a", "b"}
	for name, tt := range map[string]struct {
		asked Asked
		vote  Vote
		want  string // "" if it is right
	}{
		"a choice":                 {Asked{Form: question.OfScale, Scale: scale}, vote(0.75, func(v *Vote) { v.Choice = "4" }), ""},
		"a raised choice":          {Asked{Form: question.OfScale, Scale: scale}, vote(1, func(v *Vote) { v.Choice = "4" }), "comes to 0.75"},
		"a choice off the scale":   {Asked{Form: question.OfScale, Scale: scale}, vote(1, func(v *Vote) { v.Choice = "6" }), "not on the scale"},
		"no choice":                {Asked{Form: question.OfScale, Scale: scale}, vote(1, func(*Vote) {}), "has not what"},
		"a choice without a scale": {Asked{}, vote(1, func(v *Vote) { v.Orders = []string{"first", "second"} }), "has not what"},
		"a win":                    {Asked{Form: question.Preference}, vote(1, func(v *Vote) { v.Orders = []string{"first", "second"} }), ""},
		"a tie told as a win":      {Asked{Form: question.Preference}, vote(1, func(v *Vote) { v.Orders = []string{"first", "first"} }), "comes to 0.5"},
		"one order":                {Asked{Form: question.Preference}, vote(1, func(v *Vote) { v.Orders = []string{"first"} }), "has not what"},
		"half of the claims":       {Asked{Form: "faithfulness"}, vote(0.5, marks(two, true, false)), ""},
		"a raised share":           {Asked{Form: "faithfulness"}, vote(1, marks(two, true, false)), "comes to 0.5"},
		"a claim without a mark":   {Asked{Form: "faithfulness"}, vote(1, marks(two, true)), "2 claims and 1 marks"},
		"no marks":                 {Asked{Form: "context_precision"}, vote(0, marks(nil)), "has not what"},
		"an unknown form":          {Asked{Form: "guess"}, vote(1, func(*Vote) {}), "form is"},
	} {
		err := tt.asked.follows(&tt.vote)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, expected %q", name, err, tt.want)
		}
	}
}

// TestRepliesOfEveryFormAreReadStrictly lists what is near a reply and is not one, and
// what is one with words around it.
func TestRepliesOfEveryFormAreReadStrictly(t *testing.T) {
	choice, claims, marks := choiceOf([]string{"1", "2"}), claimsOf(), marksOf(2)
	for _, text := range []string{`{"choice":1,"reason":"r"}`, `{"choice":"1 ","reason":"r"}`, `{"choice":"1"}`, `{"choice":"1","reason":" "}`, `{"choice":"1","reason":"r"} or {"choice":"2","reason":"r"}`,
		`{"choice":"1","reason":"r","reason":"s"}`, `{"Choice":"1","reason":"r"}`, `["1"]`, ``} {
		if _, err := question.ReadReply(text, choice); err == nil {
			t.Errorf("%s was taken for a choice", text)
		}
	}
	for _, text := range []string{`The choice is {"choice":"1","reason":"r"}`, `{"choice":"1","reason":"r","score":1}`, "```\n{\"choice\":\"1\",\"reason\":\"r\"}\n```"} {
		if c, err := question.ReadReply(text, choice); err != nil || c.choice != "1" {
			t.Errorf("%s: %+v %v", text, c, err)
		}
	}
	for _, text := range []string{`{"claims":null}`, `{}`, `{"claims":[""]}`, `{"claims":"a"}`, `{"claims":[1]}`, `{"claims":["a"]} {"claims":["b"]}`} {
		if _, err := question.ReadReply(text, claims); err == nil {
			t.Errorf("%s was taken for claims", text)
		}
	}
	for _, text := range []string{`{"marks":[]}`, `{"marks":[{"n":1,"holds":true,"reason":"r"}]}`, `{"marks":[{"n":2,"holds":true,"reason":"r"},{"n":1,"holds":true,"reason":"r"}]}`,
		`{"marks":[{"n":1,"holds":1,"reason":"r"},{"n":2,"holds":true,"reason":"r"}]}`, `{"marks":[{"n":1,"reason":"r"},{"n":2,"holds":true,"reason":"r"}]}`} {
		if _, err := question.ReadReply(text, marks); err == nil {
			t.Errorf("%s was taken for two marks", text)
		}
	}
	if m, err := question.ReadReply(`Marks: {"marks":[{"n":1,"holds":true,"reason":"r","sure":1},{"n":2,"holds":false,"reason":""}],"more":[]}`, marks); err != nil || !m.holds[0] || m.holds[1] {
		t.Errorf("%+v %v", m, err)
	}
}

// TestPlainQuestionsAreAskedAsTheyAlwaysWere: the digest of a request of before.
func TestPlainQuestionsAreAskedAsTheyAlwaysWere(t *testing.T) {
	q := aQuestion("4")
	s, err := ParseSettings("judge.yaml", []byte("version: 1\nmodel: fake-1\napi: openai.chat\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked, p, err := s.ask(&q)
	if err != nil || asked.Prompt != PromptDigest() || asked.Rubric != RubricDigest() || asked.Request != digest.ContentOf(p.first) || asked.Seen != nil {
		t.Errorf("%+v %v", asked, err)
	}
	if strings.Contains(string(p.first), "fence v2") || !strings.Contains(string(p.first), "ANSWER UNDER JUDGEMENT, FROM THE AGENT: ONE JSON VALUE") {
		t.Error("a plain question is asked with another template")
	}
}
