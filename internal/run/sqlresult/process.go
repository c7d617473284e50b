package sqlresult

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tallystick/internal/run/bounded"
)

// work is what the process that runs queries is asked for.
const work = "sql"

func init() { bounded.Register(work, answerHere) }

type job struct {
	Query string
	Spec  Spec
}

type answer struct {
	Wrong string // the agent's fault
	Error string // ours
}

// answerHere runs one job. Ready is said before the agent's query runs: what happens
// from then on is the agent's doing.
func answerHere(input []byte, ready func()) []byte {
	var j job
	var a answer
	err := json.Unmarshal(input, &j)
	if err == nil {
		err = compareHere(context.Background(), j.Spec, j.Query, ready)
	}
	var wrong *Wrong
	switch {
	case errors.As(err, &wrong):
		a.Wrong = bounded.Short(wrong.Why)
	case err != nil:
		a.Error = bounded.Short(err.Error())
	}
	text, _ := json.Marshal(a) // of two texts
	return text
}

// Compare returns nil if the query gives what the expected one gives, a [*Wrong] if
// it does not, and any other error if the comparison itself failed.
func Compare(ctx context.Context, s Spec, query string) error {
	input, err := json.Marshal(job{query, s})
	if err != nil {
		return err
	}
	text, err := bounded.Do(ctx, work, input)
	return verdict(text, err)
}

// verdict is what came of it. A process that ended without an answer ended by the
// query, if it was running it.
func verdict(text []byte, err error) error {
	var ended *bounded.Ended
	switch {
	case errors.As(err, &ended) && ended.Ready:
		return &Wrong{fmt.Sprintf("the query ended the process that ran it: %s", ended.Why)}
	case errors.As(err, &ended):
		return fmt.Errorf("the process that runs queries ended before the agent's: %s", ended.Why)
	case err != nil:
		return err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("the process that runs queries answered what is not an answer: %w", err)
	}
	switch {
	case a.Wrong != "":
		return &Wrong{a.Wrong}
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}
