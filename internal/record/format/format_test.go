package format

import (
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestAnotherVersionIsNewerAndNothingElse(t *testing.T) {
	const expected = "tallystick-anchor/" + Version
	for found, want := range map[string]refusal.Name{
		expected:                                       "",
		"tallystick-anchor/1":                          refusal.NewerFormat,
		"tallystick-anchor/2-draft":                    refusal.NewerFormat,
		"tallystick-anchor/10.3":                       refusal.NewerFormat,
		"tallystick-anchor/":                           refusal.Malformed,
		"tallystick-anchor/2 x":                        refusal.Malformed,
		"tallystick-anchor/" + strings.Repeat("1", 99): refusal.Malformed,
		"tallystick-cassette/" + Version:               refusal.Malformed,
		"":                                             refusal.Malformed,
	} {
		err := Check("FILE", found, expected)
		if want == "" && err != nil || want != "" && !refusal.Is(err, want) {
			t.Errorf("%q: %v, expected %q", found, err, want)
		}
	}
	err := CheckVersion("FILE", "2")
	if err == nil || err.Error() != "FILE was written in format 2 by a newer tally; this one reads 1-draft" || refusal.Of(err).Hint == "" || refusal.ExitCode(err) != refusal.ExitFailed {
		t.Errorf("it says %v", err)
	}
	if err := CheckVersion("FILE", Version); err != nil {
		t.Error(err)
	}
	if err := CheckVersion("FILE", "!"); !refusal.Is(err, refusal.Malformed) {
		t.Errorf("no version: %v", err)
	}
}

func TestNewerLooksIntoADocumentOfAnyShape(t *testing.T) {
	const expected = "tallystick-watch/" + Version
	for text, newer := range map[string]bool{
		`{"schema":"tallystick-watch/2","new":[1]}`: true,
		`{"schema":"` + expected + `","new":1}`:     false,
		`{"schema":7}`:                              false,
		`{"format":"tallystick-watch/2"}`:           false,
		`[]`:                                        false,
		`{"schema":"tallystick-watch/2"`:            false,
	} {
		if err := Newer("FILE", []byte(text), "schema", expected); (err != nil) != newer || err != nil && !refusal.Is(err, refusal.NewerFormat) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
