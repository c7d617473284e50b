// Package jsonvalue takes single values out of JSON that other people wrote: the
// members of an object, the elements of a list, texts and numbers, each with an
// error that names what was found. The decoder beneath it refuses a name that
// stands twice in one object, and bytes that are not UTF-8.
package jsonvalue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Walk reads an object from a decoder; visit reads the value of each name.
func Walk(dec *jsontext.Decoder, visit func(name string) error) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("found %s at byte %d, expected an object", tok.Kind(), dec.InputOffset())
	}
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			return nil
		}
		if err := visit(tok.String()); err != nil {
			return err
		}
	}
}

// End wants nothing behind the value that a decoder has read.
func End(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	if err == nil {
		err = errors.New("text after the end of the record")
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// Members visits the members of a JSON object. The values are valid until visit
// returns.
func Members(data []byte, visit func(name string, v jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		return errors.New("expected a JSON object")
	}
	err := Walk(dec, func(name string) error {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return visit(name, v)
	})
	if err != nil {
		return err
	}
	return End(dec)
}

// Elements visits the elements of a JSON list.
func Elements(list jsontext.Value, visit func(i int, v jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(list))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(i, v); err != nil {
			return err
		}
	}
	return nil
}

// Text is a value as a text: that of a string, and the spelling of anything else;
// false for null.
func Text(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case 'n':
		return "", false
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		return string(b), err == nil
	}
	return string(v), true
}

// TextInto takes a text of at most so many bytes.
func TextInto(to *string, name string, v jsontext.Value, most int) error {
	if v.Kind() != '"' {
		return fmt.Errorf("%s is %s, expected a text", name, Clip(string(v), 40))
	}
	s, _ := Text(v)
	if len(s) > most {
		return fmt.Errorf("%s has %d bytes, expected at most %d", name, len(s), most)
	}
	*to = s
	return nil
}

// NumberInto takes a number that counts something; null counts nothing.
func NumberInto(to **float64, name string, v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if v.Kind() != '0' || err != nil || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%s is %s, expected a number from 0", name, Clip(string(v), 40))
	}
	*to = &n
	return nil
}

// CountInto takes a whole number from 0; null leaves what there is.
func CountInto(to *int64, name string, v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is %s, expected a whole number from 0", name, Clip(string(v), 40))
	}
	*to = n
	return nil
}

// Clip cuts a text between two characters. The copy does not hold on to the
// rest.
func Clip(s string, most int) string {
	if len(s) <= most {
		return strings.Clone(s)
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.Clone(s[:most])
}
