package cassette

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"tallystick/internal/run/wire"
)

const foldToken = "sk-tally-3f9a1c07be52d8846a0b17e9c35df20847a6be91d05c328f"

// each makes a text of a token, character by character.
func each(form func(i int, c byte) string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			b.WriteString(form(i, s[i]))
		}
		return b.String()
	}
}

var spellings = map[string]func(string) string{
	"plain": func(s string) string { return s },
	"core":  func(s string) string { return s[strings.LastIndex(s, "-")+1:] },
	"upper": strings.ToUpper,
	"mixed": each(func(i int, c byte) string {
		return map[bool]string{true: strings.ToUpper(string(c)), false: string(c)}[i%2 == 0]
	}),
	"escaped": each(func(i int, c byte) string { return fmt.Sprintf(`\u%04x`, c) }),
	"some": each(func(i int, c byte) string {
		return map[bool]string{true: fmt.Sprintf(`\u%04X`, c), false: string(c)}[i%5 == 2]
	}),
	"x":         each(func(i int, c byte) string { return fmt.Sprintf(`\x%02x`, c) }),
	"octal":     each(func(i int, c byte) string { return fmt.Sprintf(`\%03o`, c) }),
	"twice":     each(func(i int, c byte) string { return fmt.Sprintf(`\\u%04x`, c) }),
	"percent":   each(func(i int, c byte) string { return fmt.Sprintf("%%%02x", c) }),
	"percent 3": each(func(i int, c byte) string { return url.PathEscape(url.PathEscape(fmt.Sprintf("%%%02x", c))) }),
	"entities":  each(func(i int, c byte) string { return fmt.Sprintf("&#%d;", c) }),
	"html":      func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "-", "&#x2d;") },
	"wide":      each(func(i int, c byte) string { return string(rune(c) + 0xFEE0) }),
	"spaced":    each(func(i int, c byte) string { return string(c) + " " }),
	"commas":    each(func(i int, c byte) string { return `"` + string(c) + `", ` }),
	"invisible": each(func(i int, c byte) string { return string(c) + "\u200b" }),
	"lines":     each(func(i int, c byte) string { return map[bool]string{true: "\n", false: ""}[i%11 == 0] + string(c) }),
	"in a json": each(func(i int, c byte) string { return map[bool]string{true: `\n`, false: ""}[i%11 == 0] + string(c) }),
	"hex":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex colon": each(func(i int, c byte) string { return fmt.Sprintf("%02X:", c) }),
	"base64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte("ab" + s)) },
	"base64 escaped": func(s string) string {
		return each(func(i int, c byte) string { return fmt.Sprintf(`\u%04x`, c) })(base64.StdEncoding.EncodeToString([]byte(s)))
	},
	"base64 in lines": func(s string) string {
		return each(func(i int, c byte) string { return map[bool]string{true: "\r\n", false: ""}[i%16 == 0] + string(c) })(base64.StdEncoding.EncodeToString([]byte(s)))
	},
}

func TestASecretIsFoundInAnySpelling(t *testing.T) {
	r, err := NewRedactor(foldToken)
	if err != nil {
		t.Fatal(err)
	}
	for name, spell := range spellings {
		text := "before " + spell(foldToken) + " after"
		got, n := r.Text(text)
		if n == 0 || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || r.holdsLiteral([]byte(got)) {
			t.Errorf("%s: %q became %q", name, text, got)
		}
		if left := longestCommon(string(fold(got, true).text), string(fold(spell(foldToken), true).text)); left > 12 {
			t.Errorf("%s: %d characters of it are left in %q", name, left, got)
		}
	}
}

// longestCommon is the length of the longest text that stands in both.
func longestCommon(a, b string) (most int) {
	for i := range b {
		for most < len(b)-i && strings.Contains(a, b[i:i+most+1]) {
			most++
		}
	}
	return most
}

// What is not a secret stays: other digits of the same shape, a secret that is
// cut in half, and ordinary text.
func TestFoldingFindsNothingElse(t *testing.T) {
	r, err := NewRedactor(foldToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"sha256:" + strings.Repeat("3f9a1c07", 8), foldToken[9:30], strings.Repeat(`a \u0041 %41 &#65; word `, 50)} {
		if got := r.TakeOut(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	var none *Redactor
	if got := none.TakeOut(foldToken); got != foldToken {
		t.Errorf("without secrets %q was taken out", got)
	}
}

// What goes on is the same document without the secret, whatever the secret was: a
// recorded request of one run must be found by the same request of another.
func TestWhatGoesOnDoesNotDependOnTheSecret(t *testing.T) {
	other := "sk-tally-" + strings.Repeat("0b7d", 12)
	for name, spell := range spellings {
		var keys []string
		for _, token := range []string{foldToken, other} {
			r, err := NewRedactor(token)
			if err != nil {
				t.Fatal(err)
			}
			text := wire.StringNode("key: " + spell(token) + " end")
			body := []byte(`{"model":"m","password":"stays","messages":[{"role":"user","content":` + string(text.AppendJSON(nil)) + `}]}`)
			clean, err := r.Outgoing(body)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !strings.Contains(string(clean), `"password":"stays"`) {
				t.Errorf("%s: something else was taken out: %s", name, clean)
			}
			request, err := ModelRequest(wire.OpenAIChat, clean, nil)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, request.Key.String())
		}
		if keys[0] != keys[1] {
			t.Errorf("%s: the key of the request depends on the secret", name)
		}
	}
}

func TestASecretInPiecesIsNotPassedOn(t *testing.T) {
	r, err := NewRedactor(foldToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"a":["` + foldToken[:30] + `","` + foldToken[30:] + `"]}`,
		`["` + strings.Join(strings.Split(foldToken, ""), `","`) + `"]`,
		`{"` + foldToken[:20] + `":"` + foldToken[20:] + `"}`,
	} {
		if clean, err := r.Outgoing([]byte(body)); err == nil {
			t.Errorf("%s goes on as %s", body, clean)
		}
	}
	if same, err := r.Outgoing([]byte(`{ "a" : 1 }`)); err != nil || string(same) != `{ "a" : 1 }` {
		t.Errorf("a document without it became %s, %v", same, err)
	}
}
