package intake

import (
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/step"
)

// A Each visits the tasks of a run, in an order of its own that is the same each
// time. The line is nil for a task without trajectory.
type Each func(visit func(Row, *step.Line) error) error

// Derive gives results and trajectories that are made while they are read, a task
// at a time: a log of any size takes the memory of one task.
func Derive(name string, each Each) (results, trajectories audit.Source) {
	results = piped(name, func(write func(any) error) error {
		return each(func(r Row, _ *step.Line) error { return write(r) })
	})
	trajectories = piped(name, func(write func(any) error) error {
		return each(func(_ Row, l *step.Line) error {
			if l == nil {
				return nil
			}
			return write(l)
		})
	})
	return results, trajectories
}

// errClosed ends the writer of a pipe that has lost its reader.
var errClosed = errors.New("the pipe has no reader")

func piped(name string, make func(write func(any) error) error) audit.Source {
	return audit.Source{Name: name, Open: func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			err := make(func(v any) error {
				if enc.Encode(v) != nil {
					return errClosed
				}
				return nil
			})
			w.CloseWithError(err)
		}()
		return r, nil
	}}
}

// cut bounds a text of a log that has whole texts.
func cut(s string, left *int) (string, bool) {
	most := min(maxText, max(*left, 4<<10))
	if len(s) <= most {
		*left -= len(s)
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	*left -= most
	return s[:most], true
}
