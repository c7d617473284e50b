package audit

import (
	"context"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/jsonvalue"
	"tallystick/internal/record/refusal"
)

// Bounds of what is kept of the results, against which trajectories are held.
const (
	maxKeptQuestion = 16 << 10
	maxKeptGold     = 4 << 10
	maxKeptAnswer   = 4 << 10
	// maxKept bounds all of it together, so that memory is bounded whatever the
	// size of the file.
	maxKept = 768 << 20
)

// A result is what is kept of one record of the results.
type result struct {
	place    string
	id       string
	model    string
	question string
	gold     string // as it is written; "" if there is none
	hasGold  bool
	answer   string
	correct  bool
	graded   bool // the record says whether the answer is correct
	stated   stated
	// worked are the numbers that AUD-2 reads, nil where the record has none.
	turns, tokensIn, tokensOut *float64

	// trajectory is the line of the trajectory whose answer this is, 0 if there is
	// none, and executions the lines of all, by their number.
	trajectory int
	executions map[int64]int
	// trajectoryTurns and trajectoryTokens say that it states these numbers.
	trajectoryTurns, trajectoryTokens bool
}

// stated are members that a record has, even if they are null: a test split has no
// expected answers and says so, which is not the same as leaving them out.
type stated uint8

const (
	statesExpected stated = 1 << iota
	statesCorrect
	statesAnswer
	statesLongAnswer // of which only the beginning is kept
)

func (r *result) states(m stated) bool { return r.stated&m != 0 }

type taskKey struct{ id, model string }

// A corpus is all the results.
type corpus struct {
	list  []*result
	byKey map[taskKey]int
	byID  map[string][]int
	kept  int
	// graded says that some record says whether its answer is correct.
	graded bool
	golds  int
}

func newCorpus() *corpus { return &corpus{byKey: map[taskKey]int{}, byID: map[string][]int{}} }

// readResults reads the results in any of the shapes that the original reads.
func (a *auditor) readResults(ctx context.Context) error {
	in := a.in.Results
	if !in.Given() {
		return refusal.Newf(refusal.Usage, "an audit needs results").WithHint("name them with --results")
	}
	return a.digested(in, &a.inputs.Results, func(src io.Reader) error {
		lines, err := newLineReader(in.Name, src)
		if err != nil {
			return err
		}
		head, _ := lines.src.Peek(readBuffer)
		if isDocument(head) {
			return newDocument(in.Name, lines.src).records(a.header, func(place string, v jsontext.Value) error {
				return cmpErr(ctx.Err(), func() error { return a.addResult(place, v, "") })
			})
		}
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if err := cmpErr(ctx.Err(), func() error { return a.addResult(lines.place(), line, "") }); err != nil {
				return err
			}
		}
		if len(a.results.list) == 0 {
			return refusal.Newf(refusal.Malformed, "%s: has no result", in.Name)
		}
		return nil
	})
}

func cmpErr(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// digested opens a file, has it read to its end and takes its digest.
func (a *auditor) digested(in Source, sum *string, read func(io.Reader) error) error {
	f, err := in.Open()
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: %w", in.Name, refusal.WithoutPath(err))
	}
	defer f.Close()
	h := newHashed(f)
	if err := read(h); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, h); err != nil {
		return refusal.Newf(refusal.Unreadable, "%s: %w", in.Name, err)
	}
	*sum = h.sum()
	return nil
}

// header takes what a run's document says beside its results. Its summary may
// state the split and the voting, as metadata.json does.
func (a *auditor) header(name string, v jsontext.Value) error {
	switch name {
	case "model":
		a.outerModel, _ = jsonvalue.Text(v)
	case "summary":
		return a.takeMetadata(a.in.Results.Name+": summary", v, false)
	}
	return nil
}

// addResult takes one record: a result, or a run with results of its own.
func (a *auditor) addResult(place string, data []byte, model string) error {
	var nested jsontext.Value
	r := &result{place: place, model: model}
	if r.model == "" {
		r.model = a.outerModel
	}
	err := jsonvalue.Members(data, func(name string, v jsontext.Value) error {
		if name == "results" && v.Kind() == '[' {
			nested = v
			return nil
		}
		return r.take(name, v)
	})
	if err != nil {
		return refuseJSON(place, data, err)
	}
	if nested != nil {
		return a.addNested(place, nested, r.model)
	}
	return a.results.add(r)
}

func (a *auditor) addNested(place string, list jsontext.Value, model string) error {
	return jsonvalue.Elements(list, func(i int, v jsontext.Value) error {
		if v.Kind() != '{' {
			return refusal.Newf(refusal.Malformed, "%s: results[%d] is not an object", place, i)
		}
		return a.addResult(fmt.Sprintf("%s: results[%d]", place, i), v, model)
	})
}

// take takes a member of a result.
func (r *result) take(name string, v jsontext.Value) error {
	switch name {
	case "task_id":
		return jsonvalue.TextInto(&r.id, name, v, 1<<10)
	case "model":
		return jsonvalue.TextInto(&r.model, name, v, 1<<10)
	case "question", "Question":
		return clipInto(&r.question, v, maxKeptQuestion)
	case "expected_output":
		r.hasGold = v.Kind() != 'n'
		r.stated |= statesExpected
		return clipInto(&r.gold, v, maxKeptGold)
	case "answer", "model_answer":
		if r.stated |= statesAnswer; len(v) > maxKeptAnswer {
			r.stated |= statesLongAnswer
		}
		return clipInto(&r.answer, v, maxKeptAnswer)
	case "correct":
		r.stated |= statesCorrect
		r.correct, r.graded = string(v) == "true", v.Kind() != 'n'
		if v.Kind() != 't' && v.Kind() != 'f' && v.Kind() != 'n' {
			return fmt.Errorf("correct is %s, expected true or false", jsonvalue.Clip(string(v), 40))
		}
	case "turns":
		return jsonvalue.NumberInto(&r.turns, name, v)
	case "inputTokens":
		return jsonvalue.NumberInto(&r.tokensIn, name, v)
	case "outputTokens":
		return jsonvalue.NumberInto(&r.tokensOut, name, v)
	}
	return nil
}

// add keeps a result. A task twice for one model would be counted twice.
func (c *corpus) add(r *result) error {
	if r.id == "" {
		return refusal.Newf(refusal.Malformed, "%s: has no task_id", r.place)
	}
	key := taskKey{r.id, r.model}
	if at, twice := c.byKey[key]; twice {
		return refusal.Newf(refusal.Malformed, "%s: task %s%s is there already: %s", r.place, r.id, ofModel(r.model), c.list[at].place)
	}
	c.kept += len(r.id) + len(r.model) + len(r.question) + len(r.gold) + len(r.answer) + 256
	if c.kept > maxKept {
		return refusal.Newf(refusal.TooLarge, "%s: the results need more than %d bytes of memory", r.place, maxKept).WithHint("audit the run in parts")
	}
	c.byKey[key] = len(c.list)
	c.byID[r.id] = append(c.byID[r.id], len(c.list))
	c.list = append(c.list, r)
	if r.gold != "" {
		c.golds++
	}
	c.graded = c.graded || r.graded
	return nil
}

func ofModel(model string) string {
	if model == "" {
		return ""
	}
	return " of model " + model
}

func clipInto(to *string, v jsontext.Value, most int) error {
	s, _ := jsonvalue.Text(v)
	*to = jsonvalue.Clip(s, most)
	return nil
}
