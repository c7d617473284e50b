package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/question"
	"tallystick/internal/run/wire"
)

// A prepared question is its first request, and what the document says of it.
type prepared struct {
	first          []byte // the request of the first call of a vote; all votes send the same bytes
	second         []byte // that of the form prefer in the other order
	prompt, rubric digest.Content
	seen           []Seen
}

// prepare makes the first request of a question.
func (s *Settings) prepare(q *Question) (*prepared, error) {
	p := &prepared{prompt: PromptDigest(), rubric: RubricDigest()}
	if q.isPlain() {
		user, err := q.userText()
		if err == nil {
			p.first, err = s.request(rubricText, user, &replyShape)
		}
		return p, err
	}
	for _, v := range q.Views {
		p.seen = append(p.seen, v.Seen)
	}
	if len(q.Context) > 0 {
		text, err := numbered("passage", q.Context)
		if err != nil {
			return nil, err
		}
		p.seen = append(p.seen, Seen{Part: question.Context, Digest: digest.ContentOf([]byte(text)), Bytes: len(text), Items: len(q.Context)})
	}
	var err error
	switch m := q.Form.Metric(); {
	case m != "" && m.OfPassages():
		p.prompt, p.rubric = m.Digests()
		p.first, err = s.marksRequest(q, nil)
	case m != "":
		p.prompt, p.rubric = m.Digests()
		p.first, err = s.claimsRequest(q)
	case q.Form == question.Preference:
		p.rubric = digest.ContentOf([]byte(q.Form.System()))
		if p.first, p.prompt, err = s.sectionsRequest(q, true); err == nil {
			p.second, _, err = s.sectionsRequest(q, false)
		}
	default:
		p.rubric = digest.ContentOf([]byte(q.Form.System()))
		p.first, p.prompt, err = s.sectionsRequest(q, true)
	}
	return p, err
}

// sectionsRequest is a question by a template, of the class or of the program.
// AnswerFirst is for the form prefer: which of the two stands first.
func (s *Settings) sectionsRequest(q *Question, answerFirst bool) ([]byte, digest.Content, error) {
	parts, err := q.parts(answerFirst)
	if err != nil {
		return nil, digest.Content{}, err
	}
	t := q.Template
	if t == nil {
		var names []string
		for _, p := range parts {
			names = append(names, p.Name)
		}
		t = question.Builtin(q.Form, names)
	}
	parts = slices.DeleteFunc(parts, func(p question.Part) bool { return !t.Has(p.Name) })
	user, err := t.Render(parts)
	if err != nil {
		return nil, digest.Content{}, err
	}
	shape := &replyShape
	if q.Form != question.Verdict {
		shape = choiceShape(q.choices())
	}
	body, err := s.request(q.Form.System(), user, shape)
	return body, t.Digest, err
}

// parts are what a template may show.
func (q *Question) parts(answerFirst bool) ([]question.Part, error) {
	task, err := canon.Marshal(q.Task)
	if err != nil {
		return nil, err
	}
	parts := []question.Part{{Name: question.Task, Text: string(task)}}
	add := func(name, text string) {
		parts = append(parts, question.Part{Name: name, Text: text})
	}
	if c := strings.TrimSpace(q.Criteria); c != "" {
		add(question.Criteria, c)
	}
	if q.Form == question.Preference {
		first, second := q.Answer, q.Reference
		if !answerFirst {
			first, second = second, first
		}
		add(question.First, string(first))
		add(question.Second, string(second))
	} else {
		expected := string(q.Expected)
		if expected == "" {
			expected = "(none: judge by the criteria alone)"
		}
		add(question.Expected, expected)
		add(question.Answer, string(q.Answer))
	}
	if len(q.Scale) > 0 {
		add(question.ScalePart, q.Scale.Text())
	}
	if len(q.Context) > 0 {
		text, err := numbered("passage", q.Context)
		if err != nil {
			return nil, err
		}
		add(question.Context, text)
	}
	for _, v := range q.Views {
		add(v.Part, v.Text)
	}
	return parts, nil
}

// choices are the words that a reply may choose from.
func (q *Question) choices() []string {
	if q.Form == question.Preference {
		return []string{question.PreferFirst, question.PreferSecond, question.PreferTie}
	}
	return q.Scale.Names()
}

// numbered writes texts as a JSON list with an element a line.
func numbered(name string, texts []string) (string, error) {
	lines := make([]string, len(texts))
	for i, text := range texts {
		line, err := canon.Marshal(map[string]any{"n": i + 1, name: text})
		if err != nil {
			return "", err
		}
		lines[i] = string(line)
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n]", nil
}

// claimsRequest asks for the claims of the answer, or of the expected answer.
func (s *Settings) claimsRequest(q *Question) ([]byte, error) {
	text := q.Answer
	if q.Form.Metric() == question.ContextRecall {
		text = q.Expected
	}
	task, err := canon.Marshal(q.Task)
	if err != nil {
		return nil, err
	}
	user, err := question.ClaimsTemplate().Render([]question.Part{{Name: question.Task, Text: string(task)}, {Name: question.Answer, Text: string(text)}})
	if err != nil {
		return nil, err
	}
	return s.request(question.ClaimsSystem(), user, &claimsShape)
}

// marksRequest asks for a mark of each claim, or of each passage.
func (s *Settings) marksRequest(q *Question, claims []string) ([]byte, error) {
	m := q.Form.Metric()
	t := m.MarksTemplate()
	parts, err := q.parts(true)
	if err != nil {
		return nil, err
	}
	if !m.OfPassages() {
		text, err := numbered("claim", claims)
		if err != nil {
			return nil, err
		}
		parts = append(parts, question.Part{Name: question.Claims, Text: text})
	}
	parts = slices.DeleteFunc(parts, func(p question.Part) bool { return !t.Has(p.Name) })
	user, err := t.Render(parts)
	if err != nil {
		return nil, err
	}
	return s.request(q.Form.System(), user, &marksShape)
}

// vote asks for one vote, in as many calls as its form takes.
func (w *work) vote(ctx context.Context, d *Document, pieces *[][]byte) (v Vote, ok bool, err error) {
	switch {
	case w.q.Form == question.Verdict:
		return w.scoreVote(ctx, d, pieces)
	case w.q.Form == question.OfScale:
		return w.choiceVote(ctx, d, pieces)
	case w.q.Form == question.Preference:
		return w.preferVote(ctx, d, pieces)
	}
	return w.metricVote(ctx, d, pieces)
}

func (w *work) scoreVote(ctx context.Context, d *Document, pieces *[][]byte) (Vote, bool, error) {
	var o opinion
	s, ok, err := w.reply(ctx, d, pieces, w.first, func(text string) (err error) {
		o, err = readOwn(w, text, verdictShape())
		return err
	})
	return Vote{Model: cut(s.model, 200), Passed: o.passed, Reason: o.reason, Reply: digest.ContentOf([]byte(s.text)), Score: o.score}, ok, err
}

// readOwn reads a reply, in which what stands in the texts that the judge was shown is
// not the judge's own.
func readOwn[T any](w *work, text string, shape question.Shape[T]) (T, error) {
	var shown []string
	shape.Repeats = func(object string, m question.Members) bool {
		if shown == nil {
			shown = w.q.data()
		}
		var reason string
		if m["reason"] != nil && m.Take("reason", &reason) == nil && w.isEchoed(reason) {
			return true
		}
		return question.Repeats(object, shape.Wanted, shown)
	}
	return question.ReadReply(text, shape)
}

func (w *work) choiceVote(ctx context.Context, d *Document, pieces *[][]byte) (Vote, bool, error) {
	v := Vote{}
	s, ok, err := w.choose(ctx, d, pieces, w.first, &v)
	if !ok || err != nil {
		return v, ok, err
	}
	c, _ := w.q.Scale.Of(v.Choice)
	v.Reply = digest.ContentOf([]byte(s.text))
	v.set(c.Score)
	return v, true, nil
}

// choose makes one call whose reply is a choice and a reason.
func (w *work) choose(ctx context.Context, d *Document, pieces *[][]byte, body []byte, v *Vote) (said, bool, error) {
	s, ok, err := w.reply(ctx, d, pieces, body, func(text string) error {
		c, err := readOwn(w, text, choiceOf(w.q.choices()))
		v.Choice, v.Reason = c.choice, c.reason
		return err
	})
	v.Model = cut(s.model, 200)
	return s, ok, err
}

// set gives a vote the score that follows from what it says.
func (v *Vote) set(score float64) { v.Score, v.Passed = score, score >= passMark }

// preferVote asks in both orders.
func (w *work) preferVote(ctx context.Context, d *Document, pieces *[][]byte) (Vote, bool, error) {
	v := Vote{}
	var reasons []string
	for _, body := range [][]byte{w.first, w.second} {
		if len(v.Steps) > 0 {
			*pieces = append(*pieces, body)
		}
		s, ok, err := w.choose(ctx, d, pieces, body, &v)
		if !ok || err != nil {
			return v, ok, err
		}
		v.Orders = append(v.Orders, v.Choice)
		v.Steps = append(v.Steps, Step{Request: digest.ContentOf(body), Reply: digest.ContentOf([]byte(s.text))})
		reasons = append(reasons, v.Reason)
	}
	v.Choice, v.Reply = "", v.Steps[1].Reply
	v.set(question.Preferred(v.Orders[0], v.Orders[1]))
	v.Reason = cut(comparison(v.Orders)+"; with the answer first: "+reasons[0]+"; with the answer second: "+reasons[1], maxReasonBytes)
	return v, true, nil
}

// comparison tells what two opinions come to.
func comparison(orders []string) string {
	place := question.Biased(orders[0], orders[1])
	switch score := question.Preferred(orders[0], orders[1]); {
	case score == 1:
		return "the answer wins in both orders"
	case score == 0:
		return "the answer loses in both orders"
	case place != "":
		return "a tie: the " + place + " place was preferred in both orders"
	}
	return "a tie"
}

// metricVote takes the text apart, unless passages are marked, and marks.
func (w *work) metricVote(ctx context.Context, d *Document, pieces *[][]byte) (Vote, bool, error) {
	m := w.q.Form.Metric()
	v := Vote{}
	body, count := w.first, len(w.q.Context)
	if !m.OfPassages() {
		s, ok, err := w.reply(ctx, d, pieces, body, func(text string) (err error) {
			// Claims are to be repeated from the text: nothing is compared.
			v.Claims, err = question.ReadReply(text, claimsOf())
			return err
		})
		if !ok || err != nil {
			return v, ok, err
		}
		v.Steps = append(v.Steps, Step{Request: digest.ContentOf(body), Reply: digest.ContentOf([]byte(s.text))})
		if count = len(v.Claims); count == 0 {
			d.Unscored = "the text makes no claim, so there is nothing to mark"
			return v, false, nil
		}
		if body, err = w.judge.cfg.Settings.marksRequest(w.q, v.Claims); err != nil {
			return v, false, err
		}
		*pieces = append(*pieces, body)
	}
	var reasons []string
	s, ok, err := w.reply(ctx, d, pieces, body, func(text string) error {
		m, err := readOwn(w, text, marksOf(count))
		v.Marks, reasons = m.holds, m.reasons
		return err
	})
	if !ok || err != nil {
		return v, ok, err
	}
	v.Model, v.Reply = cut(s.model, 200), digest.ContentOf([]byte(s.text))
	if len(v.Steps) > 0 {
		v.Steps = append(v.Steps, Step{Request: digest.ContentOf(body), Reply: v.Reply})
	}
	score, _ := m.Score(v.Marks)
	v.set(score)
	v.Reason = cut(marksReason(m, v.Marks, reasons), maxReasonBytes)
	return v, true, nil
}

// marksReason tells what the marks come to, and why the first that does not hold
// does not.
func marksReason(m question.Metric, marks []bool, reasons []string) string {
	what, says := "claims", "supported by the context"
	switch m {
	case question.AnswerRelevance:
		says = "to the point"
	case question.ContextPrecision:
		what, says = "passages", "useful"
	}
	text := fmt.Sprintf("%d of %d %s are %s", held(marks), len(marks), what, says)
	if i := slices.Index(marks, false); i >= 0 {
		text += fmt.Sprintf("; number %d is not: %s", i+1, reasons[i])
	}
	return text
}

func held(marks []bool) int {
	n := 0
	for _, m := range marks {
		if m {
			n++
		}
	}
	return n
}

// follows checks that the score of a vote is what it says otherwise.
func (a *Asked) follows(v *Vote) error {
	m := a.Form.Metric()
	switch {
	case !a.Form.Known():
		return fmt.Errorf("form is %.40q", a.Form)
	case (a.Form == question.OfScale) != (v.Choice != "" && len(a.Scale) > 0), (a.Form == question.Preference) != (len(v.Orders) == 2), (m != "") != (len(v.Marks) > 0):
		return fmt.Errorf("a vote has not what one of the form %q has", a.Form)
	}
	want := v.Score
	switch {
	case a.Form == question.OfScale:
		c, ok := a.Scale.Of(v.Choice)
		if !ok {
			return fmt.Errorf("a vote chose %.80q, which is not on the scale", v.Choice)
		}
		want = c.Score
	case a.Form == question.Preference:
		want = question.Preferred(v.Orders[0], v.Orders[1])
	case m != "":
		if !m.OfPassages() && len(v.Claims) != len(v.Marks) {
			return fmt.Errorf("a vote has %d claims and %d marks", len(v.Claims), len(v.Marks))
		}
		want, _ = m.Score(v.Marks)
	}
	if want != v.Score {
		return fmt.Errorf("a vote has score %v, what it says comes to %v", v.Score, want)
	}
	return nil
}

// describe tells what the votes say besides their scores.
func (o *Opinion) describe(d *Document) {
	for i := range d.Votes {
		v := &d.Votes[i]
		if len(v.Orders) == 2 {
			o.Compared++
			switch question.Biased(v.Orders[0], v.Orders[1]) {
			case question.PreferFirst:
				o.First++
			case question.PreferSecond:
				o.Second++
			}
		}
	}
	if d.Verdict == nil {
		return
	}
	for i := range d.Votes {
		if v := &d.Votes[i]; v.Score == d.Verdict.Score {
			o.Choice, o.Marked, o.Held = v.Choice, len(v.Marks), held(v.Marks)
			return
		}
	}
}

// Requests are the requests that led to a verdict, as far as they follow from it.
func (w *work) requests(d *Document) ([][]byte, error) {
	list := [][]byte{w.first}
	if w.second != nil {
		list = append(list, w.second)
	}
	for i := range d.Votes {
		if len(d.Votes[i].Claims) == 0 {
			continue
		}
		body, err := w.judge.cfg.Settings.marksRequest(w.q, d.Votes[i].Claims)
		if err != nil {
			return nil, err
		}
		list = append(list, body)
	}
	return list, nil
}

// The shapes of the replies.
func choiceShape(choices []string) *wire.Tool {
	names, err := canon.Marshal(choices)
	if err != nil { // the words were read from canonical JSON
		names = []byte(`[]`)
	}
	return &wire.Tool{Name: replyTool, Description: "Gives the verdict.",
		Schema: []byte(`{"additionalProperties":false,"properties":{"choice":{"enum":` + string(names) + `,"type":"string"},"reason":{"type":"string"}},"required":["choice","reason"],"type":"object"}`)}
}

var (
	claimsShape = wire.Tool{Name: replyTool, Description: "Gives the claims.",
		Schema: []byte(`{"additionalProperties":false,"properties":{"claims":{"items":{"type":"string"},"type":"array"}},"required":["claims"],"type":"object"}`)}
	marksShape = wire.Tool{Name: replyTool, Description: "Gives the marks.",
		Schema: []byte(`{"additionalProperties":false,"properties":{"marks":{"items":{"additionalProperties":false,"properties":{"holds":{"type":"boolean"},"n":{"type":"integer"},"reason":{"type":"string"}},"required":["n","holds","reason"],"type":"object"},"type":"array"}},"required":["marks"],"type":"object"}`)}
)

// Bounds of replies with lists. A judge that needs more is not answering the
// question.
const (
	maxClaims = 100
	maxClaim  = 2000
)

// A chosen is a reply of the form choice or prefer.
type chosen struct{ choice, reason string }

func choiceOf(choices []string) question.Shape[chosen] {
	return question.Shape[chosen]{Wanted: []string{"choice", "reason"}, Read: func(m question.Members) (c chosen, err error) {
		if err := errors.Join(m.Take("choice", &c.choice), m.Take("reason", &c.reason)); err != nil {
			return c, err
		}
		if !slices.Contains(choices, c.choice) {
			return c, fmt.Errorf("choice is %.80q, expected one of %s", c.choice, strings.Join(choices, ", "))
		}
		return c, checkReason(c.reason)
	}}
}

// claimsOf is the list of claims that a text is taken apart into.
func claimsOf() question.Shape[[]string] {
	return question.Shape[[]string]{Wanted: []string{"claims"}, Read: func(m question.Members) (claims []string, err error) {
		if err := m.Take("claims", &claims); err != nil {
			return nil, err
		}
		if len(claims) > maxClaims {
			return nil, fmt.Errorf("it has %d claims, expected at most %d", len(claims), maxClaims)
		}
		for i, c := range claims {
			if strings.TrimSpace(c) == "" || len(c) > maxClaim {
				return nil, fmt.Errorf("claim %d has %d bytes, expected 1 to %d and not only blanks", i+1, len(c), maxClaim)
			}
		}
		return claims, nil
	}}
}

// A marked is what a judge says of each thing in a list, in its order.
type marked struct {
	holds   []bool
	reasons []string
}

// marksOf is a mark for each of count things.
func marksOf(count int) question.Shape[marked] {
	return question.Shape[marked]{Wanted: []string{"marks"}, Read: func(m question.Members) (out marked, err error) {
		var marks []question.Members
		if err := m.Take("marks", &marks); err != nil {
			return out, err
		}
		if len(marks) != count {
			return out, fmt.Errorf("it has %d marks, expected %d", len(marks), count)
		}
		for i, mark := range marks {
			var n int
			var holds bool
			var reason string
			if mark["n"] == nil || mark["holds"] == nil || mark["reason"] == nil {
				return out, fmt.Errorf("mark %d lacks n, holds or reason", i+1)
			}
			if err := errors.Join(mark.Take("n", &n), mark.Take("holds", &holds), mark.Take("reason", &reason)); err != nil {
				return out, fmt.Errorf("mark %d: %w", i+1, err)
			}
			switch {
			case n != i+1:
				return out, fmt.Errorf("mark %d is of number %d, expected the order of the list", i+1, n)
			case len(reason) > maxReasonBytes:
				return out, fmt.Errorf("the reason of mark %d has %d bytes, expected at most %d", i+1, len(reason), maxReasonBytes)
			}
			out.holds, out.reasons = append(out.holds, holds), append(out.reasons, reason)
		}
		return out, nil
	}}
}

// signs lists what the texts of the agent have of [Signs].
func (q *Question) signs() []Sign {
	found := Signs(q.Answer)
	if q.isPlain() {
		return found
	}
	for _, text := range append(q.shown(), string(q.Answer)) {
		if strings.Contains(text, question.Mark) && !slices.Contains(found, SignFence) {
			found = append(found, SignFence)
		}
		if hasVerdict(text) && !slices.Contains(found, SignVerdict) {
			found = append(found, SignVerdict)
		}
	}
	return found
}

// echoes reports whether the agent wrote a reason word for word as a JSON string.
func (q *Question) echoes(reason string) bool {
	if echoes(q.Answer, reason) {
		return true
	}
	return slices.ContainsFunc(q.shown(), func(text string) bool { return echoes(canon.RawMessage(text), reason) })
}

// shown are the views' texts, which the agent wrote too.
func (q *Question) shown() []string {
	var texts []string
	for _, v := range q.Views {
		texts = append(texts, v.Text)
	}
	return texts
}

// data are the texts that a judge is shown of the run and of the case: what an agent, a
// data set or a tool wrote. The criteria are the author's, who may quote a verdict as an
// example of what to reply.
func (q *Question) data() []string {
	texts := append(q.shown(), string(q.Answer), string(q.Expected), string(q.Reference))
	return append(append(texts, q.Context...), q.Task...)
}

// check refuses a question that has not what its form needs.
func (q *Question) check() error {
	m := q.Form.Metric()
	switch {
	case !q.Form.Known():
		return refusal.Newf(refusal.Failed, "asking a judge about case %s: there is no form %q", q.CaseID, q.Form)
	case q.Form == question.OfScale && len(q.Scale) == 0, q.Form == question.Preference && len(q.Reference) == 0,
		m != "" && m != question.AnswerRelevance && len(q.Context) == 0, (m == question.ContextRecall || m == question.ContextPrecision) && len(q.Expected) == 0:
		return refusal.Newf(refusal.Failed, "asking a judge about case %s: the form %s lacks a part", q.CaseID, q.Form)
	}
	return nil
}
