package jsonstream

import "unicode/utf8"

// walk passes over the next value, and gives its tokens to sink if there is
// one. It keeps its own stack, so that depth costs no call. A name that an object has
// twice is refused, since a part that one reader skips another reads.
func (r *Reader) walk(sink func([]byte) error) error {
	outside := r.depth
	for {
		opened, err := r.token(sink)
		if err != nil {
			return err
		}
		if opened {
			if r.depth++; r.depth > maxDepth {
				return r.refuse("values lie more than %d deep in one another", maxDepth)
			}
			for len(r.stack) <= r.depth {
				r.stack = append(r.stack, container{})
			}
			c := &r.stack[r.depth]
			c.isObject = r.buf[r.pos-1] == '{'
			c.seen.reset()
		}
		if err := r.after(outside, opened, sink); err != nil {
			return err
		}
		if r.depth == outside {
			return nil
		}
	}
}

// token passes over a scalar, or over the opening of a container.
func (r *Reader) token(sink func([]byte) error) (opened bool, err error) {
	k, err := r.Peek()
	if err != nil {
		return false, err
	}
	switch k {
	case None:
		return false, r.ended("a value")
	case Object:
		r.pos++
		return true, emit(sink, "{")
	case Array:
		r.pos++
		return true, emit(sink, "[")
	case Text:
		r.pos++
		return false, r.passString(sink)
	case Digits:
		spelled, err := r.number()
		if err == nil && sink != nil {
			err = sink(spelled)
		}
		return false, err
	}
	word, err := r.literal()
	if err != nil {
		return false, err
	}
	return false, emit(sink, word)
}

func emit(sink func([]byte) error, s string) error {
	if sink == nil {
		return nil
	}
	return sink([]byte(s))
}

// after goes from the end of a value, or from the opening of a container, to
// where the next value begins: it closes containers down to outside, and passes
// commas, names and colons.
func (r *Reader) after(outside int, opened bool, sink func([]byte) error) error {
	for r.depth > outside {
		inObject := r.stack[r.depth].isObject
		end := "]"
		if inObject {
			end = "}"
		}
		done, err := r.more(end[0], opened)
		if err != nil {
			return err
		}
		if done {
			r.depth--
			opened = false
			if err := emit(sink, end); err != nil {
				return err
			}
			continue
		}
		if !opened {
			if err := emit(sink, ","); err != nil {
				return err
			}
		}
		if !inObject {
			return nil
		}
		return r.passName(sink)
	}
	return nil
}

func (r *Reader) passName(sink func([]byte) error) error {
	c, ok := r.next()
	switch {
	case !ok:
		return r.ended("a member's name")
	case c != '"':
		return r.refuse("found %q, expected a member's name in quotes", c)
	}
	name, err := r.passedName()
	if err == nil {
		err = r.count(&r.stack[r.depth].seen, name)
	}
	if err == nil && sink != nil {
		err = sinkText(sink, name)
	}
	if err == nil {
		err = r.want(':')
	}
	if err != nil {
		return err
	}
	return emit(sink, ":")
}

// passedName passes over a name and returns it, until the next read.
func (r *Reader) passedName() ([]byte, error) {
	r.pos++
	if n := plainPrefix(r.buf[r.pos:r.end]); r.pos+n < r.end && r.buf[r.pos+n] == '"' {
		name := r.buf[r.pos : r.pos+n]
		r.pos += n + 1
		return name, nil
	}
	r.scratch = r.scratch[:0]
	err := r.unquote(func(b []byte) error {
		if len(r.scratch)+len(b) > maxName {
			return r.tooLarge("a member's name has more than %d bytes", maxName)
		}
		r.scratch = append(r.scratch, b...)
		return nil
	})
	return r.scratch, err
}

// passString passes over a string whose opening quote is used up.
func (r *Reader) passString(sink func([]byte) error) error {
	if sink != nil {
		return r.copyString(sink)
	}
	for {
		if r.pos == r.end && !r.fill() {
			return r.ended("the end of a string")
		}
		r.pos += plainPrefix(r.buf[r.pos:r.end])
		if r.pos == r.end {
			continue
		}
		switch c := r.buf[r.pos]; {
		case c == '"':
			r.pos++
			return nil
		case c == '\\':
			if err := r.passEscape(); err != nil {
				return err
			}
		case c < utf8.RuneSelf:
			return r.refuse("found the control character 0x%02x in a string, expected an escape", c)
		default:
			size, err := r.rune()
			if err != nil {
				return err
			}
			r.pos += size
		}
	}
}

func (r *Reader) passEscape() error {
	if r.end-r.pos >= 2 && escapes[r.buf[r.pos+1]] != 0 {
		r.pos += 2
		return nil
	}
	return r.escape(func([]byte) error { return nil })
}

// copyString gives the text to sink with quotes and backslashes escaped and
// nothing else, so that two spellings of one text are the same.
func (r *Reader) copyString(sink func([]byte) error) error {
	if err := emit(sink, `"`); err != nil {
		return err
	}
	if err := r.unquote(func(b []byte) error { return escaped(sink, b) }); err != nil {
		return err
	}
	return emit(sink, `"`)
}

// sinkText is copyString for a text that was read.
func sinkText(sink func([]byte) error, text []byte) error {
	if err := emit(sink, `"`); err != nil {
		return err
	}
	if err := escaped(sink, text); err != nil {
		return err
	}
	return emit(sink, `"`)
}

func escaped(sink func([]byte) error, b []byte) error {
	from := 0
	for i, c := range b {
		if c == '"' || c == '\\' {
			if err := sink(b[from:i]); err != nil {
				return err
			}
			if err := emit(sink, `\`); err != nil {
				return err
			}
			from = i
		}
	}
	return sink(b[from:])
}
