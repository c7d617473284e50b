package plain

import "testing"

func TestShellWordsAreOneWord(t *testing.T) {
	for text, want := range map[string]string{
		"router": "router", "": "''", "p*": "'p*'", "a b": "'a b'", "it's": `'it'\''s'`, "$(id)": "'$(id)'",
		"router[model=gpt-a,n=1]": "'router[model=gpt-a,n=1]'", "!slow": "'!slow'", "a\nb": `'a\nb'`, "--x=1": "--x=1",
	} {
		if got := ShellWord(text); got != want {
			t.Errorf("ShellWord(%q) is %s, want %s", text, got, want)
		}
	}
}
