package bench

import (
	"strings"
	"testing"
)

func TestTwoLinesRegisterAScratchClass(t *testing.T) {
	var r Registration
	doc, err := decodeRegistration(ShortRegistration("tickets"), &r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(ShortRegistration("tickets")), "\n") != 2 {
		t.Errorf("not two lines: %s", ShortRegistration("tickets"))
	}
	// What is hashed has every default in it, and is a registration by itself.
	var again Registration
	if _, err := decodeRegistration(doc.JSON, &again); err != nil {
		t.Errorf("the filled-in form is not a registration: %v\n%s", err, doc.JSON)
	}
	if len(r.Gates) != 1 || r.Gates[0].Threshold != 1 || r.CurrentTier != Bronze || r.JudgedScoresCount {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"on", "1e3", "2024-01-01", "null", "a"} {
		if _, err := decodeRegistration(ShortRegistration(name), &r); err != nil || r.Class != name {
			t.Errorf("%s: %v, %q", name, err, r.Class)
		}
	}
	// One of the limits may be given, and the others stay.
	var some Registration
	if _, err := decodeRegistration([]byte("class: a\ntrust: scratch\nlimits: {turns: 3}\n"), &some); err != nil || some.Limits.Turns != 3 || some.Limits.Tokens != r.Limits.Tokens {
		t.Errorf("%v, %+v", err, some.Limits)
	}
}

func TestShortRegistrationsRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a class that people sign", "class: a\ntrust: signed\n", "registration.yaml:1:1: version: is missing"},
		{"no trust", "class: a\n", "registration.yaml:1:1: version: is missing"},
		{"no class", "trust: scratch\n", "class: is missing"},
		{"a version and no more", "version: 1\nclass: a\ntrust: scratch\n", "current_tier: is missing"},
		{"a bad value keeps its line", "class: a\ntrust: scratch\nlimits:\n  turns: 0\n", "registration.yaml:4:3: limits.turns: found 0"},
		{"an unknown key", "class: a\ntrust: scratch\nthreshold: 1\n", "registration.yaml:3:1: threshold: is not a known key"},
	} {
		var r Registration
		if _, err := decodeRegistration([]byte(tt.text), &r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %s", tt.name, err, tt.want)
		}
	}
}

// What people sign is there to read: the defaults are written out, and mean what
// they meant.
func TestDefaultsAreWrittenOutBeforeSigning(t *testing.T) {
	text := "# ours\nclass: a # the name\ntrust: signed\nlimits: {turns: 3}\n"
	out, err := writtenOut([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var r Registration
	if _, err := decodeRegistration(out, &r); err != nil || r.Limits.Turns != 3 || r.Trust != Signed {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.HasPrefix(string(out), "# ours\nclass: a # the name\n") {
		t.Errorf("what was there changed:\n%s", out)
	}
	if kept, err := writtenOut([]byte(text + "current_tier: gold\n")); err != nil || !strings.Contains(string(kept), "current_tier: gold\n") {
		t.Errorf("a tier that people wrote: %v\n%s", err, kept)
	}
	for _, whole := range []string{"class: a\ntrust: scratch\n", string(out)} {
		if again, err := writtenOut([]byte(whole)); err != nil || again != nil {
			t.Errorf("%v\n%s", err, again)
		}
	}
}
