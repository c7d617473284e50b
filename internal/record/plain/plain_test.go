package plain

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLineMakesHostileTextVisible(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"ordinary text stays", "case axios-ssrf: 9 of 10", "case axios-ssrf: 9 of 10"},
		{"letters of other scripts stay", "naïve 試験 пример 🙂", "naïve 試験 пример 🙂"},
		{"an ANSI colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"a title change ended by a bell", "\x1b]0;owned\a", `\x1b]0;owned\x07`},
		{"the one-character CSI of C1", "\u009b2J", `\u009b2J`},
		{"a carriage return that overwrites the line", "FAILED\rpassed", `FAILED\rpassed`},
		{"a line break that forges a line", "x\ntally: hint: run this", `x\ntally: hint: run this`},
		{"Unicode line breaks", "a\u2028b\u2029c\u0085d", `a\u2028b\u2029c\u0085d`},
		{"backspace and delete", "a\bb\x7f", `a\x08b\x7f`},
		{"a right-to-left override", "exe\u202egnp.txt", `exe\u202egnp.txt`},
		{"a bidi isolate", "\u2066x\u2069", `\u2066x\u2069`},
		{"a zero-width space", "pass\u200bed", `pass\u200bed`},
		{"a hidden tag character", "a\U000e0041", `a\U000e0041`},
		{"a byte order mark", "\ufeffx", `\ufeffx`},
		{"bytes that are not UTF-8", "a\xff\xc0\xaf", `a\xff\xc0\xaf`},
		{"a real replacement character stays", "\ufffd", "\ufffd"},
		{"a NUL", "a\x00b", `a\x00b`},
		{"a GitHub command", "::add-mask::x", `\x3a:add-mask::x`},
		{"a GitHub command after white space", "  ::error::x", `  \x3a:error::x`},
		{"two colons inside a line stay", "std::vector", "std::vector"},
		{"an old GitHub command", "x ##[set-env name=PATH]y", `x \x23#[set-env name=PATH]y`},
		{"three hashes", "###[group]", `#\x23#[group]`},
		{"an Azure command", "##VSO[task.complete]", `\x23#VSO[task.complete]`},
		{"a Markdown heading stays", "## Results", "## Results"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Line(tt.in); got != tt.want {
				t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestBlockKeepsLinesAndGuardsEachMargin(t *testing.T) {
	in := "one\n\ttwo\r\n::stop-commands::x\n \t::error::y\na ::b\n"
	want := "one\n\ttwo\\r\n\\x3a:stop-commands::x\n \t\\x3a:error::y\na ::b\n"
	if got := Block(in); got != want {
		t.Errorf("Block:\n got %q\nwant %q", got, want)
	}
}

func TestJSONKeepsTheValue(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain documents stay", "{\"a\": [1, true, \"ü\"]}\n", "{\"a\": [1, true, \"ü\"]}\n"},
		{"C1 and delete", "\"\u009b\x7f\"", `"\u009b\u007f"`},
		{"a bidi override", "\"\u202e\"", `"\u202e"`},
		{"beyond the basic plane", "\"\U000e0041\"", `"\udb40\udc41"`},
		{"a runner's command", `"##[error]"`, `"\u0023#[error]"`},
		{"a stray byte", "\"\xff\"", `"\ufffd"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(JSON([]byte(tt.in))); got != tt.want {
				t.Errorf("JSON(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// FuzzEscape: whatever goes in, what comes out is printable, holds nothing a CI
// runner obeys, and is not changed by escaping it again.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a b", "\x1b[2J", "::error::x", "\n ::x", "##[x]", "##vso[x]", "\xff\xfe", "\u202e", "a\tb\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line, block := Line(s), Block(s)
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%q) = %q has a line break or tab", s, line)
		}
		if strings.Count(block, "\n") != strings.Count(s, "\n") {
			t.Errorf("Block(%q) = %q changed the number of lines", s, block)
		}
		for _, out := range []string{line, block} {
			if bad := forbidden(out); bad != "" {
				t.Errorf("escaping %q gave %q: %s", s, out, bad)
			}
		}
		if again := Line(line); again != line {
			t.Errorf("Line twice: %q, then %q", line, again)
		}
		if again := Block(block); again != block {
			t.Errorf("Block twice: %q, then %q", block, again)
		}
	})
}

// FuzzJSON: a valid document stays valid, keeps its value and becomes safe.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{}`, `"##[x]"`, "\"\u202e\U000e0041\u009b\"", "[1,\n\t\"\x7f\"]", "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var before, after any
		if json.Unmarshal(doc, &before) != nil {
			return
		}
		out := JSON(doc)
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("JSON(%q) = %q: %v", doc, out, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("JSON(%q) = %q: another value", doc, out)
		}
		safe := strings.NewReplacer("\r", "", "\n", "", "\t", "").Replace(string(out))
		if bad := forbidden(safe); bad != "" {
			t.Errorf("JSON(%q) = %q: %s", doc, out, bad)
		}
		if again := JSON(out); !bytes.Equal(again, out) {
			t.Errorf("JSON twice: %q, then %q", out, again)
		}
	})
}

// forbidden says what in out could still steer a terminal or a runner. It is
// written another way round than the escaping itself.
func forbidden(out string) string {
	if !utf8.ValidString(out) {
		return "not UTF-8"
	}
	for _, r := range out {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) {
			return "holds " + strconv.QuoteRune(r)
		}
	}
	if l := strings.ToLower(out); strings.Contains(l, "##[") || strings.Contains(l, "##vso[") {
		return "holds a bracket command"
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			return "a line begins with a workflow command"
		}
	}
	return ""
}
