package question

import (
	_ "embed"
	"strings"

	"tallystick/internal/record/digest"
)

// The fixed texts. They are promises: a word changed in one makes every verdict
// that was given under it one of another prompt. A change is a new file beside
// the old one, and a test holds the digests.
var (
	//go:embed texts/how_v2.txt
	howText string
	//go:embed texts/reply_verdict_v2.txt
	verdictText string
	//go:embed texts/reply_choice_v1.txt
	choiceText string
	//go:embed texts/reply_prefer_v1.txt
	preferText string
	//go:embed texts/reply_claims_v1.txt
	claimsText string
	//go:embed texts/reply_marks_v1.txt
	marksText string
)

// A Form is the shape of a question and of its replies.
type Form string

// The forms. Those of a metric have its name.
const (
	Verdict    Form = ""       // a score from 0 to 1
	OfScale    Form = "choice" // one choice of a scale
	Preference Form = "prefer" // the better of two answers, asked for in both orders
)

// Metric is the metric that a form stands for, "" if it stands for none.
func (f Form) Metric() Metric {
	for _, m := range Metrics() {
		if Form(m) == f {
			return m
		}
	}
	return ""
}

// Known reports whether there is such a form.
func (f Form) Known() bool {
	return f == Verdict || f == OfScale || f == Preference || f.Metric() != ""
}

// System is the text on how to judge and what to reply. For a metric it is that of
// the step that marks.
func (f Form) System() string {
	switch f {
	case Verdict:
		return howText + verdictText
	case OfScale:
		return howText + choiceText
	case Preference:
		return howText + preferText
	}
	return howText + marksText
}

// Texts names the fixed texts that a question of the form is put in where the class
// has no template: how to judge, and the headings of what is shown.
func (f Form) Texts() digest.Content {
	prompt, system := Builtin(f, names).Digest, digest.ContentOf([]byte(f.System()))
	if m := f.Metric(); m != "" {
		prompt, system = m.Digests()
	}
	return digest.ContentOf([]byte(prompt.String() + system.String()))
}

// ClaimsSystem is the text of the step that takes a text apart.
func ClaimsSystem() string { return howText + claimsText }

// A section is a heading of the template that comes with the program, and the part
// under it.
type section struct{ heading, part string }

// Builtin is the template for questions whose grader brings none. Parts are those
// that the judge is shown.
func Builtin(f Form, parts []string) *Template {
	has := func(part string) bool {
		for _, p := range parts {
			if p == part {
				return true
			}
		}
		return false
	}
	var b strings.Builder
	for _, s := range []section{
		{"CRITERIA, FROM THE TEST", Criteria},
		{"TASK, FROM THE TEST: A JSON LIST OF WHAT THE USER SAID TO THE AGENT", Task},
		{"EXPECTED ANSWER, FROM THE TEST, AS JSON", Expected},
		{"SCALE, FROM THE TEST", ScalePart},
		{"PASSAGES THAT THE ANSWER SHOULD REST ON", Context},
		{"TRANSCRIPT: WHAT THE USER, THE AGENT AND ITS TOOLS SAID AND DID", Transcript},
		{"WHAT THE AGENT'S TOOLS GAVE", ToolResults},
		{"FILES OF THE AGENT'S WORKING FOLDER, AS IT LEFT THEM", Files},
		{"FIRST ANSWER", First},
		{"SECOND ANSWER", Second},
		{"ANSWER UNDER JUDGEMENT, FROM THE AGENT", Answer},
	} {
		if has(s.part) {
			b.WriteString("=== " + s.heading + " ===\n{{" + s.part + "}}\n\n")
		}
	}
	b.WriteString("=== YOUR REPLY ===\nJudge by the criteria, and reply with the JSON object alone.\n")
	return mustParse("the template of the program", b.String())
}

// The templates of the metrics: that of the step that takes a text apart, and that
// of the step that marks.
const (
	claimsTemplate = "=== QUESTION THAT THE TEXT ANSWERS: A JSON LIST OF WHAT THE USER SAID ===\n{{question}}\n\n=== TEXT TO TAKE APART, AS JSON ===\n{{answer}}\n\n=== YOUR REPLY ===\nReply with the JSON object alone.\n"

	supportTemplate = "=== STATEMENT TO MARK ===\nThe claim can be inferred from the passages alone, without knowing anything else.\n\n=== PASSAGES, NUMBERED ===\n{{context}}\n\n=== CLAIMS, NUMBERED ===\n{{claims}}\n\n=== YOUR REPLY ===\nMark each claim, and reply with the JSON object alone.\n"

	relevanceTemplate = "=== STATEMENT TO MARK ===\nThe claim helps to answer the question, or is needed to understand the answer. Whether it is true does not matter.\n\n=== QUESTION: A JSON LIST OF WHAT THE USER SAID ===\n{{question}}\n\n=== CLAIMS, NUMBERED ===\n{{claims}}\n\n=== YOUR REPLY ===\nMark each claim, and reply with the JSON object alone.\n"

	precisionTemplate = "=== STATEMENT TO MARK ===\nThe passage was useful in arriving at the expected answer to the question.\n\n=== QUESTION: A JSON LIST OF WHAT THE USER SAID ===\n{{question}}\n\n=== EXPECTED ANSWER, FROM THE TEST, AS JSON ===\n{{expected}}\n\n=== PASSAGES, NUMBERED ===\n{{context}}\n\n=== YOUR REPLY ===\nMark each passage, and reply with the JSON object alone.\n"
)

// ClaimsTemplate is that of the step that takes a text apart.
func ClaimsTemplate() *Template { return mustParse("the template of claims", claimsTemplate) }

// MarksTemplate is that of the step that marks claims or passages.
func (m Metric) MarksTemplate() *Template {
	return mustParse("the template of "+string(m), textOf(m))
}

// Digests name the texts that a metric is asked with: the templates and the texts
// on how to judge, those of all steps.
func (m Metric) Digests() (prompt, system digest.Content) {
	templates, systems := claimsTemplate+"\x00"+textOf(m), ClaimsSystem()+"\x00"+Form(m).System()
	if m.OfPassages() {
		templates, systems = textOf(m), Form(m).System()
	}
	return digest.ContentOf([]byte(templates)), digest.ContentOf([]byte(systems))
}

func textOf(m Metric) string {
	switch m {
	case AnswerRelevance:
		return relevanceTemplate
	case ContextPrecision:
		return precisionTemplate
	}
	return supportTemplate
}

// mustParse reads a text that came with the program, which a test has read before.
func mustParse(name, text string) *Template {
	t, err := ParseTemplate(name, []byte(text))
	if err != nil {
		panic(err)
	}
	return t
}
