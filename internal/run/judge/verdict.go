package judge

import (
	"errors"
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
)

// A Source says where the replies of a document come from.
type Source string

// The sources.
const (
	FromLive     Source = "live"     // a model was asked
	FromCassette Source = "cassette" // a recording that the case has, or that a live run left
	FromAuthored Source = "authored" // a person wrote the replies into the case
)

// A Document is one draw of a verdict: the question, what the judge replied and
// what follows from it. Its canonical bytes are what is signed, and their
// digest is what the ledger records.
type Document struct {
	Version string `json:"v"` // [format.Version]
	Asked   Asked  `json:"asked"`

	// Settings names judge.yaml as it was.
	Settings digest.Content `json:"settings"`
	Source   Source         `json:"source"`
	// Draw and DrawnAt are of live draws: the number among all draws of this
	// question in the ledger, from 1, and when. A replay has neither.
	Draw    int            `json:"draw,omitempty"`
	DrawnAt *evidence.Time `json:"drawn_at,omitempty"`

	// Endpoints are where the replies came from, sorted: the URLs, as the machine that
	// asked saw them.
	Endpoints []string `json:"endpoints,omitempty"`

	Votes []Vote `json:"votes"`
	// Malformed are the replies that were not a verdict, and why.
	Malformed []Malformed `json:"malformed,omitempty"`
	// Replies are all that was said in a live draw which ended with a reply that could
	// not be read, so that a later reader of them need not pay for them again.
	Replies []Reply `json:"replies,omitempty"`

	// Verdict is what the votes come to; nothing if there is none, and then
	// Unscored says why.
	Verdict  *Verdict `json:"verdict,omitempty"`
	Unscored string   `json:"unscored,omitempty"`

	// CostMicroUSD is of the calls whose price was known; Unpriced counts the
	// others.
	CostMicroUSD int64 `json:"cost_microdollars"`
	Unpriced     int   `json:"unpriced_calls"`
}

// A Vote is one reply that was accepted.
type Vote struct {
	Model  string         `json:"model,omitempty"` // that answered, as the provider names it
	Passed bool           `json:"passed"`
	Reason string         `json:"reason"`
	Reply  digest.Content `json:"reply"` // of the reply's text; of several, the last
	Score  float64        `json:"score"`

	// Choice is of a scale. Orders are what was preferred when the answer stood
	// first, and when it stood second. Claims were taken from a text, and Marks say
	// which of them hold, or which passages. Steps are the calls of a vote that
	// takes more than one, in order. The score follows from them.
	Choice string   `json:"choice,omitempty"`
	Claims []string `json:"claims,omitempty"`
	Marks  []bool   `json:"marks,omitempty"`
	Orders []string `json:"orders,omitempty"`
	Steps  []Step   `json:"steps,omitempty"`
}

// A Step is one call of a vote.
type Step struct {
	Reply   digest.Content `json:"reply"`
	Request digest.Content `json:"request"`
}

// A Malformed is a reply that was not accepted.
type Malformed struct {
	Reply *digest.Content `json:"reply,omitempty"` // of its text, if it has one
	Why   string          `json:"why"`
}

// A Reply is what a model said to one request of a draw.
type Reply struct {
	Flaw    string         `json:"flaw,omitempty"` // why it does not count, whatever it says
	Model   string         `json:"model,omitempty"`
	Request digest.Content `json:"request"`
	Text    string         `json:"text"` // at most [question.MaxReplyBytes]
}

// A Verdict is what the votes of a draw come to.
type Verdict struct {
	// Passed is what more than half of the votes say.
	Passed bool `json:"passed"`
	// Score is the median; of an even number, the lower of the two in the
	// middle. One vote that flips does not move it.
	Score float64 `json:"score"`
	// Spread is the distance between the highest vote and the lowest.
	Spread float64 `json:"spread"`
}

// verdictOf sums up votes, of which there is at least one.
func verdictOf(votes []Vote) *Verdict {
	scores := make([]float64, len(votes))
	passed := 0
	for i, v := range votes {
		scores[i] = v.Score
		if v.Passed {
			passed++
		}
	}
	slices.Sort(scores)
	return &Verdict{Passed: 2*passed > len(votes), Score: scores[(len(scores)-1)/2], Spread: scores[len(scores)-1] - scores[0]}
}

// Reason is that of the first vote with the verdict's score.
func (d *Document) Reason() string {
	if d.Verdict == nil {
		return ""
	}
	for _, v := range d.Votes {
		if v.Score == d.Verdict.Score {
			return v.Reason
		}
	}
	return ""
}

// Scores lists the votes in the order in which they were cast.
func (d *Document) Scores() []float64 {
	scores := make([]float64, len(d.Votes))
	for i, v := range d.Votes {
		scores[i] = v.Score
	}
	return scores
}

// Validate checks that the document follows from itself: a verdict is what its
// votes come to, and there are as many as were asked for.
func (d *Document) Validate() error {
	if err := format.CheckVersion("the verdict", d.Version); err != nil {
		return err
	}
	switch {
	case d.Source != FromLive && d.Source != FromCassette && d.Source != FromAuthored:
		return fmt.Errorf("source is %q", d.Source)
	case d.Source == FromLive && (d.Draw < 1 || d.DrawnAt == nil), d.Source != FromLive && (d.Draw != 0 || d.DrawnAt != nil):
		return errors.New("a live draw has a number and a time, a replay has neither")
	case (d.Verdict == nil) == (d.Unscored == ""):
		return errors.New("expected either a verdict or a reason why there is none")
	case d.Verdict != nil && len(d.Replies) > 0:
		return errors.New("a draw with a verdict keeps no replies to be read again")
	case d.CostMicroUSD < 0 || d.Unpriced < 0:
		return errors.New("a count is below zero")
	}
	for _, v := range d.Votes {
		if !(v.Score >= 0 && v.Score <= 1) || v.Passed != (v.Score >= passMark) {
			return fmt.Errorf("a vote has score %v and passed %v", v.Score, v.Passed)
		}
		if err := d.Asked.follows(&v); err != nil {
			return err
		}
	}
	if d.Verdict == nil {
		return nil
	}
	if len(d.Votes) != d.Asked.Votes || len(d.Votes) == 0 {
		return fmt.Errorf("%d votes for a verdict that needs %d", len(d.Votes), d.Asked.Votes)
	}
	if want := verdictOf(d.Votes); *want != *d.Verdict {
		return fmt.Errorf("the verdict is %+v, its votes come to %+v", *d.Verdict, *want)
	}
	return nil
}

// bytes is the canonical form, and the digest that names it.
func (d *Document) bytes() ([]byte, digest.Content, error) {
	if err := d.Validate(); err != nil {
		return nil, digest.Content{}, err
	}
	text, err := canon.Marshal(d)
	return text, digest.ContentOf(text), err
}

// ParseDocument reads the canonical bytes of a document.
func ParseDocument(data []byte) (*Document, error) {
	var d Document
	if err := canon.UnmarshalCanonical(data, &d); err != nil {
		return nil, err
	}
	return &d, d.Validate()
}

// Cost is what the calls of the verdict cost.
func (d *Document) Cost() cost.Cost { return cost.Of(d.CostMicroUSD, int64(d.Unpriced)) }
