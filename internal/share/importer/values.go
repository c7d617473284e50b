package importer

import (
	"fmt"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// maxSmall bounds a part of a file that is read whole: a task's settings, an
// aggregate, an attribute.
const maxSmall = 16 << 20

// fields say what to do with the members of an object; others are skipped. They
// are made once and used for every row, so they point into one row that is
// cleared in between.
type fields map[string]func() error

func object(r *jsonstream.Reader, f fields) error {
	k, err := r.Peek()
	if err != nil || k == jsonstream.Null {
		return err // null where an object may be: nothing is known
	}
	return r.Object(func(name string) error {
		if read := f[name]; read != nil {
			if err := read(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

// list walks a list, or null.
func list(r *jsonstream.Reader, f func(i int) error) error {
	k, err := r.Peek()
	if err != nil || k == jsonstream.Null {
		return err
	}
	return r.Array(f)
}

// inside reads an object within the row.
func inside(r *jsonstream.Reader, f fields) func() error {
	return func() error {
		k, err := r.Peek()
		if err != nil || k != jsonstream.Object {
			return err // of another type: an older or newer form
		}
		return object(r, f)
	}
}

// scalar reads a string, number or bool as text.
func scalar(r *jsonstream.Reader, to *string) func() error {
	return func() (err error) {
		*to, err = r.Scalar()
		return err
	}
}

// known reads a text that may not be there.
func known(r *jsonstream.Reader, to *results.Known) func() error {
	return func() error {
		s, err := r.Scalar()
		*to = results.Known(s)
		return err
	}
}

// text reads a value of any length as a text.
func text(r *jsonstream.Reader, to *results.Text) func() error {
	return func() error {
		k, err := r.Peek()
		if err != nil || k == jsonstream.Null {
			return err
		}
		d, err := r.Digest(results.HeadBytes)
		*to = results.TextFrom(d)
		return err
	}
}

// excerpt keeps the beginning of a value.
func excerpt(r *jsonstream.Reader, to *string) func() error {
	return func() error {
		k, err := r.Peek()
		if err != nil || k == jsonstream.Null {
			return err
		}
		d, err := r.Digest(results.HeadBytes)
		*to = d.Head
		return err
	}
}

// number reads a number that is finite, else nothing: null, NaN, "N/A".
func number(r *jsonstream.Reader, to **float64) func() error {
	return func() error {
		s, err := readScore(r)
		*to = s.Value
		return err
	}
}

// count reads a whole number; anything else is not known.
func count(r *jsonstream.Reader, to *int64) func() error {
	return func() error {
		k, err := r.Peek()
		if err != nil || k != jsonstream.Digits {
			return err
		}
		n, err := r.Number()
		if err != nil {
			return err
		}
		i, err := n.Int()
		if err != nil {
			return r.Refuse("%v", err)
		}
		*to = i
		return nil
	}
}

// truth reads true or false; anything else is not known.
func truth(r *jsonstream.Reader, to **bool) func() error {
	return func() error {
		k, err := r.Peek()
		if err != nil || k != jsonstream.Bool {
			return err
		}
		b, err := r.Bool()
		*to = &b
		return err
	}
}

// anything reads a small value whole.
func anything(r *jsonstream.Reader, to *any) func() error {
	return func() (err error) {
		*to, err = r.Any(maxSmall)
		return err
	}
}

// readScore reads a score as harnesses write them: a number, a bool, a number in
// a string. Everything else is unscored.
func readScore(r *jsonstream.Reader) (results.Score, error) {
	k, err := r.Peek()
	if err != nil {
		return results.Score{}, err
	}
	switch k {
	case jsonstream.Digits:
		n, err := r.Number()
		if err != nil {
			return results.Score{}, err
		}
		s, err := results.NumberScore(n)
		if err != nil {
			return s, r.Refuse("%v", err)
		}
		return s, nil
	case jsonstream.Bool:
		b, err := r.Bool()
		return results.BoolScore(b), err
	case jsonstream.Text:
		d, err := r.Digest(results.HeadBytes)
		if err != nil {
			return results.Score{}, err
		}
		s, err := results.TextScore(d.Head)
		if err != nil {
			return s, r.Refuse("%v", err)
		}
		return s, nil
	}
	return results.Score{}, r.Skip()
}

// rows walks the rows of a file: lines of JSON, or lists of rows, or a list of
// rows under a name of a document.
func (f *file) rows(r *jsonstream.Reader, wrapper string, row func() error) error {
	for {
		k, err := r.Peek()
		switch {
		case err != nil:
			return err
		case k == jsonstream.None:
			return nil
		case k == jsonstream.Null:
			err = r.Skip() // a row of which nothing is known; no later check would pass it
		case k == jsonstream.Array:
			err = r.Array(func(int) error { return row() })
		case wrapper != "" && f.shape.Has(wrapper+"[]"):
			err = object(r, fields{wrapper: func() error { return list(r, func(int) error { return row() }) }})
		default:
			err = row()
		}
		if err != nil {
			return err
		}
	}
}

// Parts of a value that was read whole.
var (
	member = jsonstream.Member
	textOf = jsonstream.TextOf
	listOf = jsonstream.ListOf
	intOf  = jsonstream.IntOf
)

// floatOf is a finite number, or nothing.
func floatOf(v any) (*float64, error) {
	s, err := results.AnyScore(v)
	return s.Value, err
}

// refuseIn adds where in a file a value that was read whole was refused.
func refuseIn(f *file, where string, err error) error {
	return fmt.Errorf("%s: %s: %w", f.path, where, err)
}
