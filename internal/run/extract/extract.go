package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/expression"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// maxText bounds the texts that are searched with patterns or read as JSON, so
// that an agent cannot make grading slow by writing much.
const maxText = 4 << 20

// An Extractor picks one value. It may be used by several goroutines, each
// with its own source.
type Extractor struct {
	spec    Spec
	pointer []string
	pattern *pattern.Pattern
	program *expression.Program
}

// Compile checks a spec and prepares it. A mistake in a field is a
// [FieldError].
func Compile(spec Spec) (*Extractor, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	e := &Extractor{spec: spec}
	var err error
	if spec.Pointer != nil {
		if e.pointer, err = ParsePointer(*spec.Pointer); err != nil {
			return nil, &FieldError{"pointer", err}
		}
	}
	if spec.Pattern != "" {
		// As it is written first: a mistake is told in its author's words.
		if _, err = pattern.Compile(spec.Pattern); err != nil {
			return nil, &FieldError{"pattern", err}
		}
		if e.pattern, err = pattern.Compile(UnicodePattern(spec.Pattern)); err != nil {
			return nil, &FieldError{"pattern", err}
		}
		if n := e.pattern.Groups(); n > 1 {
			return nil, bad("pattern", "has %d groups, expected at most one: write the others as (?:...)", n)
		}
	}
	if spec.Kind == CEL {
		if e.program, err = expressions.Compile(spec.Expression); err != nil {
			return nil, &FieldError{"expression", err}
		}
	}
	return e, nil
}

// Spec returns what the extractor was compiled from.
func (e *Extractor) Spec() Spec { return e.spec }

// Extract picks the value. An error says that the evidence does not allow an
// answer, or that what is asked for cannot be seen; finding nothing is not an
// error.
func (e *Extractor) Extract(s *Source) (Value, error) {
	sight := e.sight(s)
	if sight.Sight == vantage.Not {
		return Value{}, unseen(e.spec.String(), sight.Why)
	}
	v, err := rows[e.spec.Kind].pick(e, s)
	if err != nil || sight.Sight == vantage.Seen {
		return v, err
	}
	return partly(e.spec.String(), v, sight.Why)
}

// sight says how much can be seen of what the spec asks for. A count is of events;
// an expression says itself what it depends on, when it is evaluated.
func (e *Extractor) sight(s *Source) vantage.View {
	if e.spec.Kind == Count {
		return s.sees(vantage.Event, string(e.spec.Event))
	}
	return s.sees(vantage.Extract, string(e.spec.Kind))
}

// partly is a value of which there may be more than was seen. A number is the
// least that it can be; that nothing was found says nothing.
func partly(what string, v Value, why string) (Value, error) {
	switch {
	case v.Span != nil:
		v.Span.Unseen = cmp.Or(v.Span.Unseen, why)
	case v.Found && v.Kind == NumberValue:
		n, err := strconv.Atoi(string(v.Number))
		if err != nil {
			return Value{}, unseen(what, why)
		}
		v.Span = &Span{Sure: n, Made: trajectory.CallCount{Executed: n}, Unseen: why}
	case !v.Found:
		return Value{}, unseen(what, why)
	}
	return v, nil
}

func (e *Extractor) turns(s *Source) Value { return countValue(int64(s.Trajectory.Turns())) }

// part takes out of a text what the spec asks for.
func (e *Extractor) part(s *Source, what string, r reading) (Value, error) {
	v, err := e.partOf(s.Lasting(), what, r)
	v.Redacted = r.redacted
	return v, err
}

func (e *Extractor) partOf(ctx context.Context, what string, r reading) (Value, error) {
	switch {
	case r.problem != "":
		return nothing("%s", r.problem), nil
	case isBlank(r.text):
		return nothing("%s is empty", what), nil
	case e.pattern == nil && e.pointer == nil && e.spec.Pointer == nil:
		return textValue(r.text), nil
	case len(r.text) > maxText:
		return nothing("%s has %d bytes, more than the %d that are searched", what, len(r.text), maxText), nil
	case e.pattern != nil:
		return e.search(ctx, what, r.text)
	}
	return e.lookUp(what, r.text), nil
}

func (e *Extractor) search(ctx context.Context, what, text string) (Value, error) {
	found, err := Search(ctx, e.pattern, text)
	var dear *DearError
	switch {
	case errors.As(err, &dear):
		return nothing("%s: %v", what, err), nil
	case err != nil:
		return Value{}, err
	case found == nil:
		return nothing("the pattern matches nowhere in %s", what), nil
	case found[0] < 0 || isBlank(text[found[0]:found[1]]):
		return nothing("the pattern matches nothing but white space in %s", what), nil
	}
	return textValue(text[found[0]:found[1]]), nil
}

func (e *Extractor) lookUp(what, text string) Value {
	doc, err := canon.Canonicalize([]byte(text))
	if err != nil {
		return nothing("%s is no JSON: %.400s", what, plain.Line(err.Error()))
	}
	found, ok := Lookup(doc, e.pointer)
	if !ok {
		return nothing("%s has nothing at %q", what, *e.spec.Pointer)
	}
	return jsonValue(found)
}

// answer is what run_completed says, or the last turn of a run that completed.
// A run that broke has no final answer, whatever was said on the way.
func (e *Extractor) answer(s *Source) (Value, error) {
	var ended *trajectory.RunCompleted
	var said *trajectory.Content
	for ev := range s.Trajectory.Events() {
		switch p := ev.Payload.(type) {
		case *trajectory.TurnStarted:
			said = nil
		case *trajectory.TurnCompleted:
			said = p.Answer
		case *trajectory.RunCompleted:
			ended = p
		case *trajectory.RunFailed:
			return nothing("the run failed: %s", p.Name), nil
		}
	}
	if ended == nil {
		return nothing("the run has no end"), nil
	}
	if ended.Answer != nil {
		said = ended.Answer
	}
	if said == nil {
		return nothing("the run ended without an answer"), nil
	}
	if s.HasAnswer && ended.Answer != nil {
		if got := s.answerDigest(); got != said.Digest {
			return Value{}, refusal.Newf(refusal.DigestMismatch, "the answer: given %s, the trajectory says %s", got, said.Digest).
				WithHint("the answer belongs to another run")
		}
	}
	r, err := s.read("the answer", said)
	if err != nil {
		return Value{}, err
	}
	return e.part(s, "the answer", r)
}

func (e *Extractor) turnAnswer(s *Source) (Value, error) {
	turn := *e.spec.Turn
	if v, ok := reached(s, turn); !ok {
		return v, nil
	}
	for ev := range s.Trajectory.Events() {
		p, ok := ev.Payload.(*trajectory.TurnCompleted)
		if !ok || ev.Turn != turn {
			continue
		}
		if p.Answer == nil {
			return nothing("turn %d ended without an answer", turn), nil
		}
		what := fmt.Sprintf("the answer of turn %d", turn)
		r, err := s.read(what, p.Answer)
		if err != nil {
			return Value{}, err
		}
		return e.part(s, what, r)
	}
	return nothing("turn %d did not end", turn), nil
}

// reached says that the run ended before a turn.
func reached(s *Source, turn int) (Value, bool) {
	if turns := s.Trajectory.Turns(); turn > turns {
		return nothing("the run has %d turns, and turn %d is asked for", turns, turn), false
	}
	return Value{}, true
}

func (e *Extractor) memory(s *Source) (Value, error) {
	turn := s.Trajectory.Turns()
	if e.spec.Turn != nil {
		turn = *e.spec.Turn
	}
	if v, ok := reached(s, turn); !ok {
		return v, nil
	}
	state, err := s.at(turn)
	if err != nil {
		return Value{}, err
	}
	what := fmt.Sprintf("memory %s:%s", e.spec.Tier, e.spec.Key)
	entry, ok := state.Recall(e.spec.Tier, e.spec.Key)
	if !ok {
		return nothing("%s does not exist after turn %d", what, turn), nil
	}
	r, err := s.read(what, &entry.Value)
	if err != nil {
		return Value{}, err
	}
	return e.part(s, what, r)
}

// tools lists the calls that were made or may have been, or all that were
// proposed. That there were none is a list without entries and not "nothing": the trajectory has them all.
func (e *Extractor) tools(s *Source) (Value, error) {
	if e.spec.Turn != nil {
		if missing, ok := reached(s, *e.spec.Turn); !ok {
			return missing, nil
		}
	}
	picked, span := e.pickAsked(s)
	return s.callsOf(picked, span, e.spec.Event != trajectory.ToolProposedType), nil
}

// verdict is what the policy said. Decisions that differ are not a verdict
// unless the spec says which one counts: guessing could hide a denial.
func (e *Extractor) verdict(s *Source) Value {
	if v, ok := reached(s, *e.spec.Turn); !ok {
		return v
	}
	var found []policy.Verdict
	differ := false
	for ev := range s.Trajectory.Events() {
		p, ok := ev.Payload.(*trajectory.PolicyDecision)
		if !ok || ev.Turn != *e.spec.Turn || e.spec.Call != "" && p.Call != e.spec.Call || e.spec.Name != "" && p.Name != e.spec.Name {
			continue
		}
		found = append(found, p.Verdict)
		differ = differ || p.Verdict != found[0]
	}
	switch {
	case len(found) == 0:
		return nothing("the policy decided nothing like that in turn %d", *e.spec.Turn)
	case e.spec.Which == "last":
		return textValue(string(found[len(found)-1]))
	case differ && e.spec.Which == "":
		return nothing("turn %d has %d decisions that differ: say which, or give a name or call", *e.spec.Turn, len(found))
	}
	return textValue(string(found[0]))
}

func (e *Extractor) total(s *Source) (Value, error) {
	state, err := s.final()
	if err != nil {
		return Value{}, err
	}
	if e.spec.Kind == Tokens {
		tokens, uncounted := state.Spending.Tokens()
		if uncounted > 0 {
			return Value{}, notKnown("the tokens are", uncountedText(uncounted))
		}
		return countValue(tokens), nil
	}
	cost := state.Spending.Cost()
	if !cost.Known() {
		return Value{}, notKnown("the cost is", cost.String())
	}
	return countValue(cost.MicroUSD), nil
}

func (e *Extractor) status(s *Source) Value {
	for ev := range s.Trajectory.Events() {
		switch p := ev.Payload.(type) {
		case *trajectory.RunCompleted:
			return textValue(p.Status)
		case *trajectory.RunFailed:
			return textValue("failed")
		}
	}
	return nothing("the run has no end")
}

func (e *Extractor) test(s *Source) Value {
	v := nothing("the case's test command did not run")
	for ev := range s.Trajectory.Events() {
		if p, ok := ev.Payload.(*trajectory.TestRun); ok {
			v = boolValue(p.Passed)
		}
	}
	return v
}

func (e *Extractor) evaluate(s *Source) (Value, error) {
	vars, problem, err := s.endVars()
	if err != nil {
		return Value{}, err
	}
	if problem != "" {
		return nothing("%s", problem), nil
	}
	result, err := s.Evaluate(e.program, vars, NewBudget())
	if refusal.Is(err, refusal.NotFound) || s.Lasting().Err() != nil {
		return Value{}, err
	}
	if err != nil {
		return nothing("the expression failed: %.400s", plain.Line(err.Error())), nil
	}
	return fromExpression(result), nil
}
