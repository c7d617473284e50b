package extract

import (
	"context"
	"encoding/json"
	"fmt"

	"tallystick/internal/record/pattern"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bounded"
)

// searching is the work of a large search.
const searching = "search"

func init() { bounded.Register(searching, searchHere) }

type search struct {
	Pattern string
	Text    []byte // which may be anything
}

type found struct {
	Found []int // as [pattern.Pattern.Find] has it
	Error string
}

func searchHere(input []byte, ready func()) []byte {
	var s search
	var f found
	err := json.Unmarshal(input, &s)
	if err == nil {
		var p *pattern.Pattern
		if p, err = pattern.Compile(s.Pattern); err == nil {
			ready()
			f.Found = p.Find(string(s.Text))
		}
	}
	if err != nil {
		f.Error = bounded.Short(err.Error())
	}
	text, _ := json.Marshal(f) // of numbers and a text
	return text
}

// A DearError says that a search costs more than it may.
type DearError struct{ Bytes, Work int }

func (e *DearError) Error() string {
	return fmt.Sprintf("the pattern would take %d steps for %d bytes, expected at most %d: its repetitions are too large, or the text is", e.Work, e.Bytes, pattern.Most)
}

// Search finds a pattern in a text that an agent wrote, as [pattern.Pattern.Find] does.
// What it costs is known before: too much is a [DearError],
// and what takes more than a moment is done in a process of its own, if there can be one.
func Search(ctx context.Context, p *pattern.Pattern, text string) ([]int, error) {
	work := p.Work(len(text))
	switch {
	case work > pattern.Most:
		return nil, &DearError{Bytes: len(text), Work: work}
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case work <= pattern.Soon || !bounded.Available():
		return p.Find(text), nil
	}
	input, err := json.Marshal(search{p.String(), []byte(text)})
	if err != nil {
		return nil, err
	}
	answer, err := bounded.Do(ctx, searching, input)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, refusal.Newf(refusal.NotFound, "the process that searches for a pattern ended without an answer: %v", err).
			WithHint("grade again on a machine with more free memory, or shorten the pattern")
	}
	var f found
	if err := json.Unmarshal(answer, &f); err != nil {
		return nil, err
	}
	if f.Error != "" {
		return nil, refusal.Newf(refusal.NotFound, "searching for a pattern: %s", f.Error)
	}
	return f.Found, nil
}
