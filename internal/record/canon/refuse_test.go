package canon

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
)

// refusedTexts are refused by every function that reads JSON. The rows follow
// the kinds of JSONTestSuite (https://github.com/nst/JSONTestSuite, "n_" and
// the "i_" ones that readers disagree on), then our own rules.
var refusedTexts = []struct {
	name string
	text string
	says string // part of the message
}{
	// Nothing, and something around the value.
	{"no bytes", "", "at byte 0: found the end of the text"},
	{"only a space", " ", "at byte 1: found the end of the text"},
	{"only a newline", "\n", "found the end of the text"},
	{"byte order mark", "\xef\xbb\xbf{}", "byte order mark"},
	{"only a byte order mark", "\xef\xbb\xbf", "byte order mark"},
	{"half a byte order mark", "\xef\xbb{}", "0xef"},
	{"UTF-16 byte order mark", "\xff\xfe", "0xff"},
	{"UTF-16 text", "\x00\"\x00a\x00\"", "0x00"},
	{"two values", "1 2", "at byte 2: found '2', expected the end"},
	{"two objects", "{}{}", "at byte 2"},
	{"array then comma", "[],", "at byte 2"},
	{"array closed twice", "[]]", "expected the end"},
	{"object closed twice", "{}}", "expected the end"},
	{"trailing hash comment", "{}#", "expected the end"},
	{"trailing slash", "{}/", "expected the end"},
	{"trailing block comment", "{}/**/", "expected the end"},
	{"trailing line comment", "{}//", "expected the end"},
	{"leading comment", "/**/{}", "expected a JSON value"},
	{"trailing zero byte", "{}\x00", "0x00"},
	{"trailing form feed", "[]\f", "0x0c"},
	{"leading vertical tab", "\v[]", "0x0b"},
	{"leading no-break space", "\u00a0[]", "0xc2"},
	{"word joiner", "\u2060[]", "0xe2"},
	{"line separator outside string", "[\u2028]", "0xe2"},
	{"zero byte alone", "\x00", "0x00"},
	{"angle brackets", "<null>", "'<'"},
	{"star", "*", "'*'"},
	{"lone minus", "-", "a digit"},
	{"lone comma", ",", "expected a JSON value"},
	{"lone colon", ":", "expected a JSON value"},
	{"lone closing bracket", "]", "expected a JSON value"},
	{"lone closing brace", "}", "expected a JSON value"},

	// Words.
	{"nul", "nul", "found the end of the text, expected 'l' of null"},
	{"nulll", "nulll", "expected the end"},
	{"NULL", "NULL", "'N'"},
	{"True", "True", "'T'"},
	{"tru", "tru", "of true"},
	{"truth", "truth", "of true"},
	{"falsE", "falsE", "of false"},
	{"fals", "[fals]", "of false"},
	{"undefined", "undefined", "'u'"},
	{"NaN", "NaN", "'N'"},
	{"nan", "nan", "of null"},
	{"Infinity", "Infinity", "'I'"},
	{"minus Infinity", "-Infinity", "a digit"},
	{"inf", "[inf]", "'i'"},
	{"full-width digit", "\uff11", "0xef"},
	{"unquoted word", "[a]", "'a'"},
	{"single quotes", "['a']", "'\\''"},

	// Arrays.
	{"array not closed", "[", "found the end of the text"},
	{"array not closed after value", "[1", "',' or ']'"},
	{"array not closed after comma", "[1,", "found the end of the text"},
	{"array of comma", "[,]", "','"},
	{"array with leading comma", "[,1]", "','"},
	{"array with trailing comma", "[1,]", "']'"},
	{"array with two trailing commas", "[1,,]", "','"},
	{"array with double comma", "[1,,2]", "','"},
	{"array without comma", "[1 2]", "',' or ']'"},
	{"array with colon", "[1:2]", "',' or ']'"},
	{"array closed by brace", "[1}", "',' or ']'"},
	{"array with inner open", "[3[4]]", "',' or ']'"},
	{"array of star", "[*]", "'*'"},
	{"array with semicolon", "[1;2]", "',' or ']'"},
	{"array with newline in the middle of a string", "[\"a\n\"]", "control character"},

	// Objects.
	{"object not closed", "{", "a member name"},
	{"object not closed after name", `{"a"`, "':'"},
	{"object not closed after colon", `{"a":`, "a JSON value"},
	{"object not closed after value", `{"a":1`, "',' or '}'"},
	{"object not closed after comma", `{"a":1,`, "a member name"},
	{"object with trailing comma", `{"a":1,}`, "a member name"},
	{"object with leading comma", `{,"a":1}`, "a member name"},
	{"object with double comma", `{"a":1,,"b":2}`, "a member name"},
	{"object with missing value", `{"a":}`, "a JSON value"},
	{"object with missing colon", `{"a" 1}`, "':'"},
	{"object with double colon", `{"a"::1}`, "a JSON value"},
	{"object with comma for colon", `{"a",1}`, "':'"},
	{"object with number name", `{1:1}`, "a member name"},
	{"object with unquoted name", `{a:1}`, "a member name"},
	{"object with single-quoted name", `{'a':1}`, "a member name"},
	{"object with null name", `{null:1}`, "a member name"},
	{"object with array name", `{[]:1}`, "a member name"},
	{"object closed by bracket", `{"a":1]`, "',' or '}'"},
	{"object with comment", `{"a":/*c*/1}`, "'/'"},
	{"object with emoji name unquoted", "{\U0001F1E8:1}", "0xf0"},
	{"object with two values", `{"a":1 2}`, "',' or '}'"},

	// Duplicate names, however they are spelled.
	{"duplicate name", `{"a":1,"a":2}`, "duplicate"},
	{"duplicate name and value", `{"a":1,"a":1}`, "duplicate"},
	{"duplicate name apart", `{"a":1,"b":2,"a":3}`, "duplicate"},
	{"duplicate name by escape", `{"a":1,"\u0061":2}`, "duplicate"},
	{"duplicate name by slash escape", `{"/":1,"\/":2}`, "duplicate"},
	{"duplicate name by surrogate escape", "{\"\U0001F602\":1,\"\\ud83d\\ude02\":2}", "duplicate"},
	{"duplicate empty name", `{"":1,"":2}`, "duplicate"},
	{"duplicate name inside", `{"x":[{"a":1,"a":2}]}`, "duplicate"},
	{"duplicate newline name", `{"\n":1,"\u000a":2}`, "duplicate"},

	// Strings.
	{"string not closed", `"`, "to close the string"},
	{"string not closed after text", `"abc`, "to close the string"},
	{"string with only a backslash", `"\`, "after a backslash"},
	{"string closed by escaped quote", `"\"`, "to close the string"},
	{"string with bad escape a", `"\a"`, "after a backslash"},
	{"string with bad escape x", `"\x00"`, "after a backslash"},
	{"string with bad escape quote", `"\'"`, "after a backslash"},
	{"string with octal escape", `"\0"`, "after a backslash"},
	{"string with upper case U escape", `"\U0041"`, "after a backslash"},
	{"string with escaped zero byte", "\"\\\x00\"", "after a backslash"},
	{"string with escaped tab byte", "\"\\\t\"", "after a backslash"},
	{"string with escaped emoji", "\"\\\U0001F300\"", "after a backslash"},
	{"string with short unicode escape", `"\u00A"`, "four hexadecimal digits"},
	{"string with unicode escape and g", `"\u00g0"`, "four hexadecimal digits"},
	{"string with signed unicode escape", `"\u+041"`, "four hexadecimal digits"},
	{"string with braces escape", `"\u{41}"`, "four hexadecimal digits"},
	{"string ending in unicode escape", `"\u`, "four hexadecimal digits"},
	{"string with newline", "\"\n\"", "control character"},
	{"string with tab", "\"\t\"", "control character"},
	{"string with zero byte", "\"\x00\"", "control character"},
	{"string with unit separator", "\"\x1f\"", "control character"},
	{"name with tab", "{\"a\tb\":1}", "control character"},
	{"string with backtick quotes", "`a`", "'`'"},

	// Surrogates.
	{"lone high surrogate", `"\ud800"`, "lone surrogate"},
	{"lone low surrogate", `"\udc00"`, "lone surrogate"},
	{"low then high surrogate", `"\udc00\ud800"`, "lone surrogate"},
	{"two high surrogates", `"\ud800\ud800"`, "lone surrogate"},
	{"high surrogate then letter", `"\ud800a"`, "lone surrogate"},
	{"high surrogate then escape", `"\ud800\n"`, "lone surrogate"},
	{"high surrogate then letter escape", `"\ud800\u0061"`, "lone surrogate"},
	{"high surrogate then end", `"\ud800`, "lone surrogate"},
	{"high surrogate then half an escape", `"\ud800\u"`, "four hexadecimal digits"},
	{"high surrogate then short escape", `"\ud800\udc0"`, "four hexadecimal digits"},
	{"lone surrogate in upper case", `"\uDFFF"`, "lone surrogate"},
	{"lone surrogate in a name", `{"\ud800":1}`, "lone surrogate"},

	// UTF-8.
	{"UTF-8 lone continuation", "\"\x80\"", "valid UTF-8"},
	{"UTF-8 truncated", "\"\xe2\x82\"", "valid UTF-8"},
	{"UTF-8 truncated at end", "\"\xf0\x9f\x98", "valid UTF-8"},
	{"UTF-8 overlong slash", "\"\xc0\xaf\"", "valid UTF-8"},
	{"UTF-8 overlong zero", "\"\xc0\x80\"", "valid UTF-8"},
	{"UTF-8 overlong of three", "\"\xe0\x80\xaf\"", "valid UTF-8"},
	{"UTF-8 surrogate", "\"\xed\xa0\x80\"", "valid UTF-8"},
	{"UTF-8 surrogate pair", "\"\xed\xa0\xbd\xed\xb8\x82\"", "valid UTF-8"},
	{"UTF-8 beyond Unicode", "\"\xf4\x90\x80\x80\"", "valid UTF-8"},
	{"UTF-8 five bytes", "\"\xf8\x88\x80\x80\x80\"", "valid UTF-8"},
	{"UTF-8 byte ff", "\"\xff\"", "valid UTF-8"},
	{"Latin-1 e acute", "\"\xe9\"", "valid UTF-8"},
	{"UTF-8 broken in a name", "{\"\xff\":1}", "valid UTF-8"},
	{"UTF-8 broken outside a string", "[\xff]", "0xff"},
	{"UTF-8 broken after a number", "[1\xe5]", "0xe5"},

	// Number grammar.
	{"number with plus", "+1", "'+'"},
	{"number with two signs", "--1", "a digit"},
	{"number with plus minus", "-+1", "a digit"},
	{"number with leading zero", "01", "expected the end"},
	{"number of two zeros", "00", "expected the end"},
	{"negative number with leading zero", "-01", "expected the end"},
	{"minus then space", "- 1", "a digit"},
	{"minus then letter", "-a", "a digit"},
	{"number starting with point", ".5", "'.'"},
	{"negative starting with point", "-.5", "a digit"},
	{"number ending in point", "1.", "a digit"},
	{"number with point then exponent", "1.e1", "a digit"},
	{"number with two points", "1.2.3", "expected the end"},
	{"number with empty exponent", "1e", "a digit"},
	{"number with empty signed exponent", "1e+", "a digit"},
	{"number with point in exponent", "1e1.5", "expected the end"},
	{"number with two exponents", "1e1e1", "expected the end"},
	{"number with signed sign exponent", "1e+-1", "a digit"},
	{"number starting with e", "e1", "'e'"},
	{"number with underscore", "1_000", "expected the end"},
	{"number with thousands comma", "1,000", "expected the end"},
	{"hexadecimal number", "0x1F", "expected the end"},
	{"hexadecimal float", "0x1p-2", "expected the end"},
	{"octal number", "0o7", "expected the end"},
	{"binary number", "0b1", "expected the end"},
	{"number with space inside", "[1 000]", "',' or ']'"},
	{"number with suffix", "1f", "expected the end"},
	{"number with big suffix", "1n", "expected the end"},
	{"number with expression", "1+2", "expected the end"},
	{"number with NaN suffix", "-NaN", "a digit"},

	// Number values.
	{"integer 2^53", "9007199254740992", "2^53-1"},
	{"integer -2^53", "-9007199254740992", "2^53-1"},
	{"integer 2^53+1", "9007199254740993", "at byte 0: found integer 9007199254740993, expected at most 9007199254740991"},
	{"integer of 17 digits", "10000000000000000", "2^53-1"},
	{"integer 2^63-1", "9223372036854775807", "2^53-1"},
	{"integer of 22 digits", "1000000000000000000000", "2^53-1"},
	{"integer of 400 digits", strings.Repeat("9", 400), "(400 characters)"},
	{"integer in a fraction's clothes", "9007199254740993.0", "2^53-1"},
	{"integer in an exponent's clothes", "9007199254740993e0", "2^53-1"},
	{"integer 1e20", "1e20", "2^53-1"},
	{"integer 1E16 inside", `{"a":[1E16]}`, "at byte 6"},
	{"fraction that rounds up to 2^53", "9007199254740991.6", "2^53-1"},
	{"overflow", "1e400", "a double can hold"},
	{"negative overflow", "-1e400", "a double can hold"},
	{"overflow just beyond the largest", "1.7976931348623159e308", "a double can hold"},
	{"overflow with huge exponent", "1e999999999999999999999", "a double can hold"},
	{"underflow", "1e-400", "tell from zero"},
	{"negative underflow", "-1e-400", "tell from zero"},
	{"underflow below half the smallest", "2e-324", "tell from zero"},
	{"underflow spelled out", "0." + strings.Repeat("0", 400) + "1", "tell from zero"},
	{"underflow with huge exponent", "1e-999999999999999999999", "tell from zero"},

	// Depth.
	{"arrays 65 deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "at byte 64: found nesting of 65 levels, expected at most 64"},
	{"objects 65 deep", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "nesting of 65"},
	{"arrays 65 deep, never closed", strings.Repeat("[", 65), "nesting of 65"},
}

func TestEveryReaderRefusesTheSameTexts(t *testing.T) {
	if len(refusedTexts) < 150 {
		t.Errorf("the table has shrunk to %d rows", len(refusedTexts))
	}
	for _, tt := range refusedTexts {
		t.Run(tt.name, func(t *testing.T) {
			data := []byte(tt.text)
			out, err := Canonicalize(data)
			checkRefused(t, "Canonicalize", err, tt.says)
			if out != nil {
				t.Errorf("Canonicalize returned %q with its error", out)
			}
			var v any
			checkRefused(t, "Unmarshal", Unmarshal(data, &v), tt.says)
			var raw RawMessage
			checkRefused(t, "Unmarshal to raw", Unmarshal(data, &raw), tt.says)
			// A duplicate name is reported as one that does not ascend, or
			// hides behind an earlier spelling that is not canonical.
			if tt.says == "duplicate" {
				tt.says = "is not canonical"
			}
			checkRefused(t, "Validate", Validate(data), tt.says)
			checkRefused(t, "UnmarshalCanonical", UnmarshalCanonical(data, &v), tt.says)
		})
	}
}

// Every text of up to four of these characters is accepted exactly if the
// standard library calls it valid and it keeps to our bounds.
func TestEveryShortTextIsAcceptedOrRefusedAsItShouldBe(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	const alphabet = "[]{},:\"\\/ u0123-.eE+\n\x00\xc3\xa9"
	const longest = 4 // five take half a minute, and passed
	tried, accepted := 0, 0
	var extend func(text []byte)
	extend = func(text []byte) {
		out, err := Canonicalize(text)
		tried++
		if err == nil {
			accepted++
		}
		if valid := json.Valid(text) && utf8.Valid(text) && withinBounds(text); (err == nil) != valid {
			t.Fatalf("Canonicalize(%q) = %q, %v; valid is %v", text, out, err, valid)
		}
		if len(text) == longest {
			return
		}
		for i := range len(alphabet) {
			extend(append(text[:len(text):len(text)], alphabet[i]))
		}
	}
	extend(nil)
	t.Logf("%d texts, %d of them accepted", tried, accepted)
}

func checkRefused(t *testing.T, call string, err error, says string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s accepted it", call)
	case !refusal.Is(err, refusal.Malformed):
		t.Errorf("%s: %v is not a Malformed refusal", call, err)
	case !strings.Contains(err.Error(), says):
		t.Errorf("%s says %q, want something with %q", call, err, says)
	case !strings.Contains(err.Error(), "at byte "):
		t.Errorf("%s says %q, without the place", call, err)
	case refusal.Of(err).Hint == "":
		t.Errorf("%s: %v has no hint", call, err)
	}
}

// respelled are JSON that everybody accepts, and not canonical.
var respelled = []struct {
	name, text, want string
	says             string
}{
	{"space before", " 1", "1", "at byte 0: found white space"},
	{"newline after", "1\n", "1", "at byte 1: found white space"},
	{"space after comma", "[1, 2]", "[1,2]", "at byte 3"},
	{"space after colon", `{"a": 1}`, `{"a":1}`, "at byte 5"},
	{"space before colon", `{"a" :1}`, `{"a":1}`, "at byte 4"},
	{"space in empty array", "[ ]", "[]", "white space"},
	{"space in empty object", "{ }", "{}", "white space"},
	{"carriage return", "[\r\n1]", "[1]", "white space"},
	{"names out of order", `{"b":1,"a":2}`, `{"a":2,"b":1}`, `at byte 7: found name "a", expected a name that sorts after "b"`},
	{"names out of order inside", `[{"b":1,"a":2}]`, `[{"a":2,"b":1}]`, "at byte 8"},
	{"longer name before its beginning", `{"ab":1,"a":2}`, `{"a":2,"ab":1}`, "sorts after"},
	{"upper case sorts before lower", `{"a":1,"B":2}`, `{"B":2,"a":1}`, "sorts after"},
	{"surrogates sort before U+E000", "{\"\ufb33\":1,\"\U0001F602\":2}", "{\"\U0001F602\":2,\"\ufb33\":1}", "sorts after"},
	{"escaped control sorts first", `{"a":1,"\n":2}`, `{"\n":2,"a":1}`, "sorts after"},
	{"escaped backslash sorts as a backslash", `{"a":1,"\\":2}`, `{"\\":2,"a":1}`, "sorts after"},
	{"escaped letter", `"\u0041"`, `"A"`, `at byte 1: found \u0041`},
	{"escaped euro", `"\u20ac"`, `"€"`, `found \u20ac`},
	{"escaped pair", `"\ud83d\ude02"`, "\"\U0001F602\"", `found \ud83d\ude02`},
	{"escaped slash", `"\/"`, `"/"`, `found \/`},
	{"long escape of newline", `"\u000a"`, `"\n"`, `found \u000a`},
	{"long escape of tab", `"\u0009"`, `"\t"`, `found \u0009`},
	{"long escape of backspace", `"\u0008"`, `"\b"`, `found \u0008`},
	{"long escape of form feed", `"\u000c"`, `"\f"`, `found \u000c`},
	{"long escape of return", `"\u000d"`, `"\r"`, `found \u000d`},
	{"upper case escape", `"\u001F"`, `"\u001f"`, `found \u001F`},
	{"escaped quote spelled long", `"\u0022"`, `"\""`, `found \u0022`},
	{"escaped delete", `"\u007f"`, "\"\x7f\"", `found \u007f`},
	{"one point zero", "1.0", "1", "found number 1.0, expected 1"},
	{"minus zero", "-0", "0", "found -0, expected 0"},
	{"minus zero point zero", "-0.0", "0", "expected 0"},
	{"zero exponent", "0e99", "0", "expected 0"},
	{"zero with huge negative exponent", "0e-99999", "0", "expected 0"},
	{"trailing zero", "4.50", "4.5", "expected 4.5"},
	{"exponent for small integer", "1e2", "100", "expected 100"},
	{"capital exponent", "1E30", "1e+30", "expected 1e+30"},
	{"exponent without sign", "1e21", "1e+21", "expected 1e+21"},
	{"exponent with leading zero", "1e-07", "1e-7", "expected 1e-7"},
	{"too many digits", "333333333.33333329", "333333333.3333333", "expected 333333333.3333333"},
	{"small decimal", "0.0000001", "1e-7", "expected 1e-7"},
	{"large integer by exponent", "9007199254740991e0", "9007199254740991", "expected 9007199254740991"},
}

func TestOtherSpellingsAreRewrittenOrRefused(t *testing.T) {
	for _, tt := range respelled {
		t.Run(tt.name, func(t *testing.T) {
			if !json.Valid([]byte(tt.text)) {
				t.Fatal("the row is not JSON")
			}
			got, err := Canonicalize([]byte(tt.text))
			if err != nil || string(got) != tt.want {
				t.Errorf("Canonicalize gave %q, %v, want %q", got, err, tt.want)
			}
			if err := Validate([]byte(tt.want)); err != nil {
				t.Errorf("Validate of the canonical form: %v", err)
			}
			checkRefused(t, "Validate", Validate([]byte(tt.text)), tt.says)
			var v any
			checkRefused(t, "UnmarshalCanonical", UnmarshalCanonical([]byte(tt.text), &v), tt.says)
			if err := Unmarshal([]byte(tt.text), &v); err != nil {
				t.Errorf("Unmarshal: %v", err)
			}
		})
	}
}

func TestCanonicalTextsAreKept(t *testing.T) {
	for _, text := range []string{
		"null", "true", "false", "0", "-1", "1.5", "1e+21", "1e-7", "0.000001", "5e-324", "1.7976931348623157e+308",
		"9007199254740991", "-9007199254740991", "999999999999999", "1000000000000000",
		`""`, `"a"`, `"\b\t\n\f\r\"\\"`, `"\u0000\u001f\u000b"`, "\"\x7f\"", "\"\u0080\"", `"€"`, "\"\U0001F602\"", "\"\u2028\ufeff\uffff\"", `"</script>"`,
		"[]", "{}", "[[]]", `[1,"a",null]`,
		`{"":1}`, `{"\n":1,"\r":2,"1":3}`, `{"\"":1,"\\":2,"a":3}`, `{"a":{"b":1},"b":[]}`, "{\"\U0001F602\":1,\"\ufb33\":2}",
		"{\"\ue000\":1,\"\uffff\":2}", "{\"\ud7ff\":1,\"\U00010000\":2,\"\ue000\":3}",
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
	} {
		if err := Validate([]byte(text)); err != nil {
			t.Errorf("Validate(%s): %v", text, err)
		}
		if got, err := Canonicalize([]byte(text)); err != nil || string(got) != text {
			t.Errorf("Canonicalize(%s) = %s, %v", text, got, err)
		}
		var v any
		if err := UnmarshalCanonical([]byte(text), &v); err != nil {
			t.Errorf("UnmarshalCanonical(%s): %v", text, err)
		}
	}
}
