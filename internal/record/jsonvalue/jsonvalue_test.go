package jsonvalue

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestWhatIsNotWhatWasAskedForIsNamed has a row for each refusal.
func TestWhatIsNotWhatWasAskedForIsNamed(t *testing.T) {
	var text string
	var number *float64
	count := int64(-1)
	take := func(name string, v jsontext.Value) error {
		switch name {
		case "text":
			return TextInto(&text, name, v, 5)
		case "number":
			return NumberInto(&number, name, v)
		case "count":
			return CountInto(&count, name, v)
		case "list":
			return Elements(v, func(int, jsontext.Value) error { return nil })
		}
		return nil
	}
	for doc, want := range map[string]string{
		`{"text":"abc","number":1.5,"count":3,"list":[1,"x",{}],"else":[{}]}`: "",
		`{"number":null,"count":null}`:                                        "",
		`{"text":7}`:                                                          "text is 7, expected a text",
		`{"text":"abcdef"}`:                                                   "text has 6 bytes, expected at most 5",
		`{"number":-1}`:                                                       "number is -1, expected a number from 0",
		`{"number":"1"}`:                                                      `number is "1", expected a number from 0`,
		`{"number":1e999}`:                                                    "number is 1e999, expected a number from 0",
		`{"count":1.5}`:                                                       "count is 1.5, expected a whole number from 0",
		`{"text":"a","text":"b"}`:                                             `duplicate object member name "text"`,
		`{"text":"a"} x`:                                                      "invalid character",
		`{"text":"a"} {}`:                                                     "text after the end of the record",
		`[]`:                                                                  "expected a JSON object",
		`{"text":"a"`:                                                         "unexpected EOF",
		"{\"text\":\"\xff\"}":                                                 "invalid UTF-8",
	} {
		err := Members([]byte(doc), take)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", doc, err, want)
		}
	}
	if text != "abc" && text != "a" || number == nil || *number != 1.5 || count != 3 {
		t.Errorf("%q, %v, %d", text, number, count)
	}
	if got := Clip("aéb", 2); got != "a" {
		t.Errorf("cut inside of a character: %q", got)
	}
}
