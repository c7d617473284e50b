package firstprocess

import "testing"

func TestHeadIsCutOnARune(t *testing.T) {
	for give, want := range map[string]string{
		"":                     "",
		"naïve":                "naïve",
		"na\xc3":               "na", // half of ï
		"euro \xe2\x82":        "euro ",
		"a\xffb":               "a\uFFFDb",
		"\xff\xff\xff\xff\xff": "\uFFFD",
	} {
		if got := HeadString([]byte(give)); got != want {
			t.Errorf("%q: got %q, want %q", give, got, want)
		}
	}
}
