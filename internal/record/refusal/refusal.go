// Package refusal names every way Tallystick says no.
//
// A refusal is an error with a stable name, so that a script can branch on
// "ChainTamperDetected" and not on English, and with a hint that tells the
// person what to do now. The name alone decides the exit code of the program,
// in the one table below; nothing else in the program chooses an exit code.
//
// The table keeps two things apart that must never be confused: evidence that
// does not verify (exit 3) and evidence that could not be read (exit 1).
package refusal

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
)

// A Name identifies one refusal for ever. Names are promises to scripts: they
// may be added, never changed.
type Name string

// The exit codes of every Tallystick program.
const (
	ExitDone       = 0 // the work was done
	ExitFailed     = 1 // the work could not be done; unreadable or malformed input included
	ExitUsage      = 2 // asked wrongly: flags, arguments, unknown names
	ExitUnverified = 3 // evidence does not verify
	ExitGate       = 4 // evidence verifies and the gate is not met
	ExitUnanswered = 5 // an offline run would have had to ask a model something new
)

// An Error is one refusal: its name, what happened, and what to do now.
type Error struct {
	Name Name
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Newf makes a refusal. The format takes %w as [fmt.Errorf] does.
func Newf(name Name, format string, args ...any) *Error {
	return &Error{Name: name, Err: fmt.Errorf(format, args...)}
}

// WithHint adds the next step for the person and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Of returns the outermost refusal in err's chain. An error without a name is a
// [Failed].
func Of(err error) *Error {
	var r *Error
	if errors.As(err, &r) {
		hint := r.Hint
		if hint == "" {
			hint = usualHint(r.Name)
		}
		// Keep the context that outer layers added to the message.
		return &Error{Name: r.Name, Hint: hint, Err: err}
	}
	return &Error{Name: Failed, Err: err}
}

// usualHint is the next step where the place that refused knows no better one:
// files are read in many places, and what to do about them is the same.
func usualHint(name Name) string {
	switch name {
	case Unreadable:
		return "check the path, and that you may read it; nothing was changed"
	case TooLarge:
		return "check that this is the file you mean; nothing was changed"
	case Malformed:
		return "restore it from a good copy; docs/formats describes the form"
	}
	return ""
}

// Is reports whether err is a refusal of the given name.
func Is(err error, name Name) bool {
	return err != nil && Of(err).Name == name
}

// ExitCode returns the exit code that err's name calls for.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if m, ok := meanings[Of(err).Name]; ok {
		return m.exit
	}
	return ExitFailed
}

// WithoutPath drops the path from a file error, for a message that names it
// already.
func WithoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Known reports whether a name is one of the table.
func Known(name Name) bool { _, ok := meanings[name]; return ok }

// A Row is one line of the table of refusals.
type Row struct {
	Name    Name
	Exit    int
	Meaning string
}

// Table lists every refusal by exit code, then name. The documentation prints
// it and a test compares the two.
func Table() []Row {
	rows := make([]Row, 0, len(meanings))
	for name, m := range meanings {
		rows = append(rows, Row{Name: name, Exit: m.exit, Meaning: m.text})
	}
	sort.Slice(rows, func(i, j int) bool {
		if rows[i].Exit != rows[j].Exit {
			return rows[i].Exit < rows[j].Exit
		}
		return rows[i].Name < rows[j].Name
	})
	return rows
}
