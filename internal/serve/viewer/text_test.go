package viewer

import (
	"os/exec"
	"strings"
	"testing"
)

func TestShellWordsComeBackAsTheyWere(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	for _, word := range []string{"plain", "", "a b", "it's", "$(rm -rf /)", "`id`", "a;b|c&d", "*?[x]", "-n", "new\nline", "tab\there", "\x1b[31m", "abc\u202etxt", "ünïcode", `back\slash`, "!history", "~"} {
		out, err := exec.Command(sh, "-c", "printf %s "+shell(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is written %s and comes back as %q, %v", word, shell(word), out, err)
		}
		if strings.ContainsAny(shell(word), "\n\x1b\u202e") {
			t.Errorf("%q: the command holds what cannot be seen", word)
		}
	}
}

func TestOnlyImagesThatAreNoProgramsAreShown(t *testing.T) {
	for data, want := range map[string]string{
		"\x89PNG\r\n\x1a\nrest":                    "image/png",
		"\xff\xd8\xff\xe0rest":                     "image/jpeg",
		"GIF89arest":                               "image/gif",
		"RIFF\x00\x00\x00\x00WEBPx":                "image/webp",
		"<svg xmlns='http://www.w3.org/2000/svg'>": "",
		"<?xml version='1.0'?><svg/>":              "",
		"<html>":                                   "",
		"":                                         "",
		"BM":                                       "",
	} {
		if got := imageType([]byte(data)); got != want {
			t.Errorf("%q is %q, want %q", data, got, want)
		}
	}
}
