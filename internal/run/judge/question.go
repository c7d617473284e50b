package judge

import (
	_ "embed"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/question"
	"tallystick/internal/run/wire"
)

// A Question is one answer that a model is to judge.
type Question struct {
	Attempt  string // for the ledger; the verdict does not depend on it
	Class    string
	CaseID   string
	Task     []string         // what the user said to the agent, turn by turn
	Criteria string           // of the grader
	Expected canon.RawMessage // canonical; nothing if there is none
	Answer   canon.RawMessage // canonical: what the agent said
	Votes    int              // at least this many

	// What follows is for questions that are not asked in the plain form. The zero
	// value of each is that form.
	Judge     string             // its name in judge.yaml; "" is the one at the top
	Form      question.Form      // of the question and its replies
	Template  *question.Template // of the class; nil for that of the program
	Scale     question.Scale     // of the form choice
	Reference canon.RawMessage   // of the form prefer: the answer to compare with
	Context   []string           // passages, in their order
	Views     []Shown            // what the judge is shown of the run besides
}

// A Shown is a part of the run that a judge is shown beside the answer.
type Shown struct {
	Part string // as the template names it
	Text string
	Seen Seen // what is recorded of it
}

// isPlain reports whether a question is asked as it always was: with the two fixed
// texts, and nothing but the answer to look at.
func (q *Question) isPlain() bool {
	return q.Form == question.Verdict && q.Template == nil && len(q.Views) == 0 && len(q.Context) == 0
}

// The fixed texts. They are promises: a word changed in one makes every verdict
// in every cache one of another prompt. A change is a new file beside the old
// one, and a test holds the digests.
var (
	//go:embed rubric_v1.txt
	rubricText string
	//go:embed prompt_v1.txt
	promptText string
)

// Marks around the answer. The digits between them are the SHA-256 of the
// answer, which no author can write into the answer itself: whatever marker an
// answer holds, it is not the one that ends it.
const (
	fenceMark  = cassette.JudgeMark + "answer:"
	fenceLabel = "tallystick judge fence v1\n"
)

func fence(answer []byte) (begin, end string) {
	id := strings.TrimPrefix(digest.IDOf(append([]byte(fenceLabel), answer...)).String(), "sha256:")
	return fenceMark + id + ":begin=====", fenceMark + id + ":end====="
}

// userText is what the judge is shown. Every part from the test or the agent
// goes in once, by a replacement that does not look at what it put in.
func (q *Question) userText() (string, error) {
	task, err := canon.Marshal(q.Task)
	if err != nil {
		return "", err
	}
	expected := string(q.Expected)
	if expected == "" {
		expected = "(none: judge by the criteria alone)"
	}
	begin, end := fence(q.Answer)
	return strings.NewReplacer("{{criteria}}", strings.TrimSpace(q.Criteria), "{{task}}", string(task), "{{expected}}", expected,
		"{{bytes}}", strconv.Itoa(len(q.Answer)), "{{begin}}", begin, "{{answer}}", string(q.Answer), "{{end}}", end).Replace(promptText), nil
}

// replyTool is the name of the tool, or of the schema, in whose shape a judge
// replies.
const replyTool = "verdict"

// replyShape asks for a reply of three members. Ranges are not in the schema:
// the strict modes of the APIs do not all take them, and [parseReply] checks
// them anyway.
var replyShape = wire.Tool{Name: replyTool, Description: "Gives the verdict on the answer.",
	Schema: []byte(`{"additionalProperties":false,"properties":{"passed":{"type":"boolean"},"reason":{"type":"string"},"score":{"type":"number"}},"required":["score","passed","reason"],"type":"object"}`)}

// request makes a request, in canonical JSON.
func (s *Settings) request(system, user string, shape *wire.Tool) (body []byte, err error) {
	o := wire.Options{Model: s.Model, MaxOutput: s.MaxOutput}
	if s.Temperature != nil {
		if o.Temperature, err = canon.Marshal(*s.Temperature); err != nil {
			return nil, err
		}
	}
	if s.Reply == ReplySchema {
		o.Shape = shape
	}
	e := wire.NewEnvelope(s.API, o)
	return e.Request(e.System(system), [][]byte{s.API.User(user)}, nil), nil
}

// Sampling is how the model was asked to choose its words.
type Sampling struct {
	MaxOutputTokens int64    `json:"max_output_tokens"`
	Reply           string   `json:"reply"`
	Temperature     *float64 `json:"temperature,omitempty"`
}

// An Asked is a question as documents have it: everything that decides what a
// judge can say, by digest. Verdicts on equal ones may stand for each other.
type Asked struct {
	Answer    digest.Content  `json:"answer"`
	API       wire.API        `json:"api"`
	CaseID    string          `json:"case_id"`
	Class     string          `json:"class"`
	Criteria  digest.Content  `json:"criteria"`
	Expected  *digest.Content `json:"expected,omitempty"`
	Form      question.Form   `json:"form,omitempty"`  // absent: a score from 0 to 1
	Judge     string          `json:"judge,omitempty"` // its name in judge.yaml; absent: the one at the top
	Model     string          `json:"model"`
	Prompt    digest.Content  `json:"prompt"` // of the template
	Reference *digest.Content `json:"reference,omitempty"`
	Request   digest.Content  `json:"request"` // of the whole request; of several, the first
	Rubric    digest.Content  `json:"rubric"`  // of the fixed text on how to judge
	Sampling  Sampling        `json:"sampling"`
	Scale     question.Scale  `json:"scale,omitempty"`
	Seen      []Seen          `json:"seen,omitempty"` // what the judge was shown besides the answer
	Task      digest.Content  `json:"task"`
	Template  string          `json:"template,omitempty"` // the file of the class, if the prompt is one
	Votes     int             `json:"votes"`
}

// A Seen is a part of the run, or what the case gives, that a judge was shown.
type Seen struct {
	Part   string         `json:"part"`
	Digest digest.Content `json:"digest"` // of the text as it was shown
	Bytes  int            `json:"bytes"`  // of that text
	// LeftOut is how many elements of the part were not shown, of how many, and
	// CutBytes what was left out of texts that were.
	Items    int   `json:"items,omitempty"`
	LeftOut  int   `json:"left_out,omitempty"`
	CutBytes int64 `json:"cut_bytes,omitempty"`
}

// keyLabel keeps the names of questions apart from every other SHA-256 here.
const keyLabel = "tallystick judge question v1\n"

// Key names the question: equal questions have equal keys.
func (a *Asked) Key() (digest.ID, error) {
	text, err := canon.Marshal(a)
	if err != nil {
		return digest.ID{}, err
	}
	return digest.IDOf(append([]byte(keyLabel), text...)), nil
}

// asWritten is the key that a question had when the white space around criteria was part
// of it, as in verdicts that were sealed then; no key if there is no such space. The
// judge was never shown it, so these verdicts are on the same question.
func (a *Asked) asWritten(criteria string) (digest.ID, bool, error) {
	if strings.TrimSpace(criteria) == criteria {
		return digest.ID{}, false, nil
	}
	was := *a
	was.Criteria = digest.ContentOf([]byte(criteria))
	key, err := was.Key()
	return key, true, err
}

// ask puts a question into the form that documents have, and makes its request.
func (s *Settings) ask(q *Question) (*Asked, *prepared, error) {
	switch {
	case q.Class == "" || q.CaseID == "":
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge: the question has no class or case")
	case q.isPlain() && strings.TrimSpace(q.Criteria) == "":
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge about case %s: there are no criteria", q.CaseID)
	case canon.Validate(q.Answer) != nil || len(q.Expected) > 0 && canon.Validate(q.Expected) != nil:
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge about case %s: answer and expected must be canonical JSON", q.CaseID)
	}
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	p, err := s.prepare(q)
	if err != nil {
		return nil, nil, err
	}
	task, err := canon.Marshal(q.Task)
	if err != nil {
		return nil, nil, err
	}
	a := &Asked{Class: q.Class, CaseID: q.CaseID, Task: digest.ContentOf(task), Criteria: digest.ContentOf([]byte(strings.TrimSpace(q.Criteria))), Answer: digest.ContentOf(q.Answer),
		API: s.API, Model: s.Model, Sampling: Sampling{s.MaxOutput, s.Reply, s.Temperature}, Votes: min(max(q.Votes, s.Votes), maxVotes),
		Form: q.Form, Judge: q.Judge, Scale: q.Scale, Prompt: p.prompt, Rubric: p.rubric, Request: digest.ContentOf(p.first), Seen: p.seen}
	if len(q.Expected) > 0 {
		d := digest.ContentOf(q.Expected)
		a.Expected = &d
	}
	if len(q.Reference) > 0 {
		d := digest.ContentOf(q.Reference)
		a.Reference = &d
	}
	if q.Template != nil {
		a.Template = q.Template.File
	}
	return a, p, nil
}

// PromptDigest names the template of the prompt.
func PromptDigest() digest.Content { return digest.ContentOf([]byte(promptText)) }

// RubricDigest names the fixed text that says how to judge.
func RubricDigest() digest.Content { return digest.ContentOf([]byte(rubricText)) }

// TextsDigest names both together.
func TextsDigest() digest.Content { return digest.ContentOf([]byte(promptText + "\x00" + rubricText)) }
