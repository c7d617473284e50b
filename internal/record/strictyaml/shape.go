package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
)

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// checkShape compares a value with the Go type it is decoded into, so that a
// mistake is reported where it stands in the file. [canon] refuses the same
// mistakes again, by byte of the JSON.
func checkShape(n *Node, t reflect.Type, path []string) error {
	bad := func(format string, args ...any) error {
		return &fieldError{slices.Clone(path), fmt.Errorf(format, args...)}
	}
	if t == reflect.TypeFor[*canon.RawMessage]() && n.Kind == Null {
		return bad("found nothing, expected a value")
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[canon.RawMessage]() {
		return nil
	}
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		if n.Kind != Text {
			return bad("found %s, expected text", n.Describe())
		}
		value := reflect.New(t).Interface().(encoding.TextUnmarshaler)
		if err := value.UnmarshalText([]byte(n.Text)); err != nil {
			return &fieldError{slices.Clone(path), err}
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return checkStruct(n, t, path)
	case reflect.Map:
		if n.Kind != Mapping {
			return bad("found %s, expected a mapping", n.Describe())
		}
		for _, m := range n.Members {
			if err := checkShape(m.Value, t.Elem(), append(path, m.Key)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if n.Kind != List {
			return bad("found %s, expected a list", n.Describe())
		}
		for i, item := range n.Items {
			if err := checkShape(item, t.Elem(), append(path, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case reflect.String:
		if n.Kind != Text {
			return bad("found %s, expected text", n.Describe())
		}
	case reflect.Bool:
		if n.Kind != Bool {
			return bad("found %s, expected true or false", n.Describe())
		}
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(n.Text, 10, 64); n.Kind != Number || err != nil {
			return bad("found %s, expected a whole number", n.Describe())
		}
	case reflect.Float64:
		if n.Kind != Number {
			return bad("found %s, expected a number", n.Describe())
		}
	case reflect.Interface: // arguments of a call, say: any value
	default:
		panic("strictyaml: a document has a field of kind " + t.Kind().String())
	}
	return nil
}

func checkStruct(n *Node, t reflect.Type, path []string) error {
	if n.Kind != Mapping {
		return &fieldError{slices.Clone(path), fmt.Errorf("found %s, expected a mapping", n.Describe())}
	}
	var known []string
	var fields []reflect.StructField
	for i := range t.NumField() {
		// No file can have what the program alone fills in.
		if name, _ := jsonName(t.Field(i)); name != "-" {
			known, fields = append(known, name), append(fields, t.Field(i))
		}
	}
	// A required key with a typing mistake is both missing and unknown; the
	// second tells more.
	for _, m := range n.Members {
		if !slices.Contains(known, m.Key) {
			return &fieldError{append(slices.Clone(path), m.Key), fmt.Errorf("is not a known key, expected one of %s", strings.Join(known, ", "))}
		}
	}
	for i, name := range known {
		f := fields[i]
		_, optional := jsonName(f)
		at := append(slices.Clone(path), name)
		m := n.Member(name)
		switch {
		case m == nil && !optional:
			return &fieldError{at, errors.New("is missing")}
		case m == nil:
			continue
		case optional && m.Value.isEmpty() && f.Type.Kind() != reflect.Pointer:
			return &fieldError{at, errors.New("is empty; leave it out")}
		case optional && f.Type.Kind() != reflect.Pointer && m.Value.isZero(f.Type):
			return &fieldError{at, fmt.Errorf("found %s, which cannot be told from a key that is left out: leave it out for the default, or give another value", m.Value.Text)}
		}
		if err := checkShape(m.Value, f.Type, at); err != nil {
			return err
		}
	}
	return nil
}

// jsonName is the key of a field and whether it may be left out.
func jsonName(f reflect.StructField) (name string, optional bool) {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, strings.Contains(rest, "omitempty")
}
