package judge

import (
	_ "embed"
	"strconv"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/digest"
	"tallystick/internal/refusal"
	"tallystick/internal/wire"
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
// answer, which nobody can write into the answer itself: whatever marker an
// answer holds, it is not the one that ends it.
const (
	fenceMark  = cassette.JudgeMark
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

// requestBody is the request of one vote, in canonical JSON. All votes on a
// question send the same bytes.
func (s *Settings) requestBody(q *Question) ([]byte, error) {
	user, err := q.userText()
	if err != nil {
		return nil, err
	}
	o := wire.Options{Model: s.Model, MaxOutput: s.MaxOutput}
	if s.Temperature != nil {
		if o.Temperature, err = canon.Marshal(*s.Temperature); err != nil {
			return nil, err
		}
	}
	if s.Reply == ReplySchema {
		o.Shape = &replyShape
	}
	e := wire.NewEnvelope(s.API, o)
	return e.Request(e.System(rubricText), [][]byte{s.API.User(user)}, nil), nil
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
	Answer   digest.Content  `json:"answer"`
	API      wire.API        `json:"api"`
	CaseID   string          `json:"case_id"`
	Class    string          `json:"class"`
	Criteria digest.Content  `json:"criteria"`
	Expected *digest.Content `json:"expected,omitempty"`
	Model    string          `json:"model"`
	Prompt   digest.Content  `json:"prompt"`  // of the template
	Request  digest.Content  `json:"request"` // of the whole request
	Rubric   digest.Content  `json:"rubric"`  // of the fixed text on how to judge
	Sampling Sampling        `json:"sampling"`
	Task     digest.Content  `json:"task"`
	Votes    int             `json:"votes"`
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

// ask puts a question into the form that documents have, and makes its request.
func (s *Settings) ask(q *Question) (*Asked, []byte, error) {
	switch {
	case q.Class == "" || q.CaseID == "":
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge: the question has no class or case")
	case strings.TrimSpace(q.Criteria) == "":
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge about case %s: there are no criteria", q.CaseID)
	case canon.Validate(q.Answer) != nil || len(q.Expected) > 0 && canon.Validate(q.Expected) != nil:
		return nil, nil, refusal.Newf(refusal.Failed, "asking a judge about case %s: answer and expected must be canonical JSON", q.CaseID)
	}
	body, err := s.requestBody(q)
	if err != nil {
		return nil, nil, err
	}
	task, err := canon.Marshal(q.Task)
	if err != nil {
		return nil, nil, err
	}
	a := &Asked{Class: q.Class, CaseID: q.CaseID, Task: digest.ContentOf(task), Criteria: digest.ContentOf([]byte(q.Criteria)), Answer: digest.ContentOf(q.Answer),
		API: s.API, Model: s.Model, Sampling: Sampling{s.MaxOutput, s.Reply, s.Temperature}, Votes: min(max(q.Votes, s.Votes), maxVotes),
		Prompt: PromptDigest(), Rubric: RubricDigest(), Request: digest.ContentOf(body)}
	if len(q.Expected) > 0 {
		d := digest.ContentOf(q.Expected)
		a.Expected = &d
	}
	return a, body, nil
}

// PromptDigest names the template of the prompt.
func PromptDigest() digest.Content { return digest.ContentOf([]byte(promptText)) }

// RubricDigest names the fixed text that says how to judge.
func RubricDigest() digest.Content { return digest.ContentOf([]byte(rubricText)) }
