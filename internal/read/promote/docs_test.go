package promote

import (
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

func TestTheWorkedExample(t *testing.T) {
	k := newBook(t, standard().verified(t))
	honest(k)
	data, err := canon.Marshal(k.recommend().Recommendation)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/formats/promotion.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```json\n" + string(data) + "\n```\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/formats/promotion.md does not have\n%s", want)
	}
}

// Every reason that the page lists is one that the code gives, word for word.
func TestPageListsTheReasons(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/promotion.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"review.go", "sample.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range reasonsIn(string(source)) {
			if !strings.Contains(string(page), "`"+reason) {
				t.Errorf("docs/formats/promotion.md does not have the reason %q of %s", reason, file)
			}
		}
	}
}

// reasonsIn lists the texts that a file returns or sets as a reason.
func reasonsIn(source string) []string {
	var reasons []string
	for _, line := range strings.Split(source, "\n") {
		for _, before := range []string{"return \"", "s.why = \"", "s.why, s.score = \"", "worst.why = \""} {
			if _, rest, ok := strings.Cut(line, before); ok {
				if reason, _, _ := strings.Cut(rest, `"`); reason != "" && reason != "not stated" {
					reasons = append(reasons, strings.TrimSpace(reason))
				}
			}
		}
	}
	return reasons
}
