package rules

import (
	"bytes"
	"testing"
)

// shop is a file that uses every part of the language that a document of ours
// does not break by itself.
const shop = `{"rules":"tallystick-rules/1-draft","what":"","documents":{
 "d":{"is":"object","members":{
  "n":{"is":"count","min":1,"max":3,"optional":true},
  "x":{"is":"number","above":0,"like":["six_decimals"],"optional":true},
  "names":{"is":"list","of":{"is":"text","like":["name"]},"distinct":"look","sorted":true,"optional":true},
  "a":{"is":"text","max":3,"optional":true},"b":{"is":"text","optional":true},
  "m":{"is":"map","of":{"is":"number"},"names":{"is":"text","one_of":["low","high"]},"optional":true}},
  "rules":[["needs","a","b"],["differ","a","b"],["ascending","m","",[["low",1],["high",2]]]]}}}`

func TestTheLanguageRefusesWhatItSays(t *testing.T) {
	f := load(t, shop)
	for doc, want := range map[string]bool{
		`{}`:                                true,
		`{"n":1}`:                           true,
		`{"n":0}`:                           false,
		`{"n":4}`:                           false,
		`{"n":1.5}`:                         false,
		`{"n":"1"}`:                         false,
		`{"n":null}`:                        false,
		`{"x":0}`:                           false,
		`{"x":0.1234567}`:                   false,
		`{"x":0.123456}`:                    true,
		`{"names":["a","b"]}`:               true,
		`{"names":["b","a"]}`:               false,
		`{"names":["rn","m"]}`:              false,
		`{"names":["a1","al"]}`:             false,
		`{"names":[".a"]}`:                  false,
		`{"a":"x"}`:                         false,
		`{"a":"x","b":"y"}`:                 true,
		`{"a":"x","b":"x"}`:                 false,
		`{"a":"éé","b":"y"}`:                false,
		`{"m":{"low":2}}`:                   true,
		`{"m":{"low":3}}`:                   false,
		`{"m":{"low":3,"high":3}}`:          true,
		`{"m":{"middle":1}}`:                false,
		`{"z":1}`:                           false,
		`[]`:                                false,
		`"d"`:                               false,
		`{"names":["a","b"],"names":["x"]}`: true, // spelling is not for the rules
	} {
		if err := f.Check("d", []byte(doc)); (err == nil) != want {
			t.Errorf("%s: %v, want accepted: %v", doc, err, want)
		}
	}
	if err := f.Check("nothing", []byte("{}")); err == nil {
		t.Error("a document that the rules do not know is accepted")
	}
}

func load(t *testing.T, text string) *File {
	t.Helper()
	f := &File{}
	if err := f.parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFileIsWrittenAgainAsItIs(t *testing.T) {
	f := load(t, shop)
	first, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	second, err := load(t, string(first)).Format()
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	if err := new(File).parse([]byte(`{"rules":"tallystick-rules/2"}`)); err == nil {
		t.Error("rules of another version are read")
	}
}

func TestMutationsAreTheSameEveryTime(t *testing.T) {
	doc := []byte(`{"a":{"b":[1,"x"]},"c":true}`)
	first := Mutations(doc, 200)
	for i, m := range Mutations(doc, 200) {
		if m.What != first[i].What || !bytes.Equal(m.Data, first[i].Data) {
			t.Fatalf("mutation %d is %s %s, was %s %s", i, m.What, m.Data, first[i].What, first[i].Data)
		}
	}
}
