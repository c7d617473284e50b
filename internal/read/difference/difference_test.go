package difference

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"tallystick/internal/record/plain"
)

func TestAlignFindsALongestCommonSubsequence(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		checkAligned(t, letters(random, 120), letters(random, 120))
	}
}

// checkAligned: what is aligned is a common subsequence, and no shorter than the longest.
func checkAligned(t *testing.T, a, b []rune) {
	t.Helper()
	last := Match{-1, -1}
	matches := Align(a, b)
	for _, m := range matches {
		if m.A <= last.A || m.B <= last.B || a[m.A] != b[m.B] {
			t.Fatalf("%q and %q: %v after %v is not a match", string(a), string(b), m, last)
		}
		last = m
	}
	if want := tableCommon(a, b); len(matches) != want {
		t.Fatalf("%q and %q: %d places aligned, expected %d", string(a), string(b), len(matches), want)
	}
}

func letters(random *rand.Rand, most int) []rune {
	s := make([]rune, random.IntN(most+1))
	for i := range s {
		s[i] = 'a' + rune(random.IntN(4))
	}
	return s
}

func tableCommon(a, b []rune) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// pieces are what texts of tests are made of: what is easily cut in the wrong place.
var pieces = []string{"a", "b", "word", "Word", " ", "  ", "\t", "\n", "\r\n", "\r", ".", ",", "-", "_", "1", "23", "é", "e\u0301", "\u0301", "שלום", "مرحبا", "\u200f",
	"東京", "は", "日本", "👍🏽", "👩\u200d👩\u200d👧", "\u200d", "🇩🇪", "🇫", "\x00", "\xff", "\xc3", "\u2028", "\u00a0", "ไทย", "한국", "𝒳"}

func randomText(random *rand.Rand, most int) string {
	var b strings.Builder
	for range random.IntN(most + 1) {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

// edited changes a text in a few places, so that much of it stays.
func edited(random *rand.Rand, text string) string {
	for range random.IntN(4) {
		i, j := random.IntN(len(text)+1), random.IntN(len(text)+1)
		text = text[:min(i, j)] + randomText(random, 3) + text[min(max(i, j), min(i, j)+10):]
	}
	return text
}

// check holds what every difference promises.
func check(t *testing.T, was, now string) {
	t.Helper()
	for name, of := range map[string]func(a, b string) Difference{"words": Words, "lines": Lines} {
		d := of(was, now)
		if d.Was() != was || d.Now() != now {
			t.Fatalf("%s of %q and %q do not give them back: %+v", name, was, now, d.Segments)
		}
		if d.Same() != (was == now) {
			t.Fatalf("%s of %q and %q: same is %v", name, was, now, d.Same())
		}
		if back := of(now, was); fmt.Sprint(back) != fmt.Sprint(d.Reversed()) {
			t.Fatalf("%s of %q and %q depend on the direction: %+v and %+v", name, was, now, d.Segments, back.Segments)
		}
		for i, s := range d.Segments {
			if s.Text == "" || i > 0 && (s.Kind == d.Segments[i-1].Kind || s.Kind == Removed && d.Segments[i-1].Kind == Added) {
				t.Fatalf("%s of %q and %q: segment %d is empty, or not joined with the one before it: %+v", name, was, now, i, d.Segments)
			}
		}
	}
}

func TestBothTextsComeBackAndDirectionsMirror(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		was := randomText(random, 40)
		check(t, was, edited(random, was))
		check(t, was, randomText(random, 40))
	}
}

func FuzzDifference(f *testing.F) {
	f.Add("a b\r\nc", "a\tb\nc")
	f.Add("e\u0301", "e")
	f.Fuzz(func(t *testing.T, was, now string) { check(t, was, now) })
}

func TestWordsReadAsPeopleWouldMarkThem(t *testing.T) {
	for _, c := range []struct{ was, now, want string }{
		{"within 30 days.", "within 14 days.", "within [-30-]{+14+} days."},
		{"one two three four", "one 2 3 four", "one [-two three-]{+2 3+} four"},
		{"cafe\u0301 noir", "cafe noir", "[-cafe\u0301-]{+cafe+} noir"},
		{"東京は日本の首都", "大阪は日本の首都", "[-東京-]{+大阪+}は日本の首都"},
		{"👍🏽 ok", "👍🏿 ok", "[-👍🏽-]{+👍🏿+} ok"},
		{"👩\u200d👧 ok", "👩\u200d👦 ok", "[-👩\u200d👧-]{+👩\u200d👦+} ok"},
		{"🇩🇪🇫🇷", "🇩🇪🇫🇮", "🇩🇪[-🇫🇷-]{+🇫🇮+}"},
		{"שלום עולם", "שלום לכם", "שלום [-עולם-]{+לכם+}"},
		{"a\r\nb", "a\nb", "a[-\r\n-]{+\n+}b"},
		{"a\tb", "a b", "a[-\t-]{+ +}b"},
		{"last", "last\n", "last{+\n+}"},
		{"", "new", "{+new+}"},
		{"same", "same", "same"},
		{"foo", "foobar", "[-foo-]{+foobar+}"},
		{"f(x, y)", "f(x, z)", "f(x, [-y-]{+z+})"},
	} {
		if got := marked(Words(c.was, c.now)); got != c.want {
			t.Errorf("%q to %q: %q, expected %q", c.was, c.now, got, c.want)
		}
	}
}

func marked(d Difference) string {
	var b strings.Builder
	for _, s := range d.Segments {
		b.WriteString([]string{s.Text, "[-" + s.Text + "-]", "{+" + s.Text + "+}"}[s.Kind])
	}
	return b.String()
}

// TestNoSegmentCutsACharacter: what a person sees as one character is never half changed.
func TestNoSegmentCutsACharacter(t *testing.T) {
	for _, c := range [][2]string{{"e\u0301x", "e\u0300x"}, {"👍🏽", "👍🏿"}, {"🇩🇪", "🇩🇰"}, {"é", "è"}, {"한", "할"}, {"ก่อน", "ก้อน"}} {
		for _, s := range Words(c[0], c[1]).Segments {
			if r, _ := utf8.DecodeRuneInString(s.Text); !utf8.ValidString(s.Text) || isMark(r) {
				t.Errorf("%q and %q: a segment begins inside a character: %q", c[0], c[1], s.Text)
			}
		}
	}
}

// TestHostileTextsAreBounded: each of these takes a naive search hours, or all memory.
func TestHostileTextsAreBounded(t *testing.T) {
	const size = 10 << 20
	const less = size / 4
	random := rand.New(rand.NewPCG(5, 6))
	coin := func(n int, a, b string) string {
		var s strings.Builder
		for s.Len() < n {
			if random.IntN(2) == 0 {
				s.WriteString(a)
			} else {
				s.WriteString(b)
			}
		}
		return s.String()
	}
	for name, texts := range map[string][2]string{
		"one token again and again":      {strings.Repeat("x ", size/2), strings.Repeat("x ", size/2-100) + "y"},
		"and another at the beginning":   {"y " + strings.Repeat("x ", less/2), "z " + strings.Repeat("x ", less/3)},
		"nothing in common":              {strings.Repeat("a ", less/2), strings.Repeat("b ", less/2)},
		"two tokens in any order":        {coin(less, "a ", "b "), coin(less, "a ", "b ")},
		"two tokens, not so long":        {coin(1<<17, "a ", "b "), coin(1<<17, "a ", "b ")},
		"two lines in any order":         {coin(less, "a\n", "b\n"), coin(less, "a\n", "b\n")},
		"no white space":                 {strings.Repeat("a", less) + "b", strings.Repeat("a", less) + "c"},
		"empty lines":                    {strings.Repeat("\n", less), "x" + strings.Repeat("\n", less) + "y"},
		"marks on nothing":               {strings.Repeat("\u0301", less/2), "a" + strings.Repeat("\u0301", less/2)},
		"joiners":                        {strings.Repeat("\u200d", less/3), strings.Repeat("👩\u200d", less/7)},
		"one against all":                {"", strings.Repeat("z\n", less/2)},
		"bytes that are no text":         {strings.Repeat("\xff\xfe", less/2), strings.Repeat("\xfe\xff", less/2)},
		"the same lines, backwards once": {strings.Repeat("a\nb\n", less/8) + "a\n", "b\n" + strings.Repeat("a\nb\n", less/8)},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, of := range []func(a, b string) Difference{Words, Lines} {
				if d := of(texts[0], texts[1]); d.Was() != texts[0] || d.Now() != texts[1] {
					t.Error("the texts do not come back")
				}
			}
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 1500 {
				t.Errorf("%d MB were allocated", used)
			}
		})
	}
}

// TestALongTextWithASmallChangeIsComparedClosely, and one that has many changes keeps what
// only one place of both has.
func TestALongTextWithASmallChangeIsComparedClosely(t *testing.T) {
	long := strings.Repeat("the same words again and again ", 1<<18)
	if got := marked(Words("old "+long, "new "+long)); !strings.HasPrefix(got, "[-old-]{+new+} the") || strings.Count(got, "[-") != 1 {
		t.Errorf("the beginning is %.60q", got)
	}
	var was, now strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&was, "line %d\nwas %d\n", i, i)
		fmt.Fprintf(&now, "line %d\nnow %d\n", i, i)
	}
	d := Lines(was.String(), now.String())
	if !d.Coarse || strings.Count(marked(d), "[-") != 9000 {
		t.Errorf("coarse %v, %d changes, expected 9000 with each line between them kept", d.Coarse, strings.Count(marked(d), "[-"))
	}
}

func TestBriefIsOneLine(t *testing.T) {
	for _, c := range []struct{ was, now, want string }{
		{"one two three", "one 2 three", "one [-two-] {+2+} three"},
		{"a b c d e f g h i j", "a b c d e f g h i k", "… f g h i [-j-] {+k+}"},
		{"x a b c d e f g h i y", "1 a b c d e f g h i 2", "[-x-] {+1+} a b c d … f g h i [-y-] {+2+}"},
		{"a b", "a\n b", "only white space differs"},
		{"", "new text", "{+new text+}"},
		{"old\x1b[2J", "", `[-old\x1b[2J-]`},
	} {
		if got := Brief(c.was, c.now); got != c.want {
			t.Errorf("%q to %q: %q, expected %q", c.was, c.now, got, c.want)
		}
	}
}

func TestRowsFoldWhatIsFarAndMarkWords(t *testing.T) {
	was := "1\n2\n3\n4\n5\nold name\n7\n8\n9\n10\n11"
	now := "1\n2\n3\n4\n5\nnew name\n7\n8\n9\n10\n11\n"
	want := "  … 4 equal lines\n  5\n- old name\n+ new name\n  7\n  … 2 equal lines\n  10\n- 11\n\\ no line feed at the end\n+ 11\n"
	if got := Lines(was, now).TerminalLines(1, nil); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	html := string(Lines(was, now).HTMLLines(1, 100, plain.Block))
	for _, part := range []string{`<div class="minus">- <del>old</del> name</div>`, `<div class="plus">+ <ins>new</ins> name</div>`, `<div class="fold">… 4 equal lines</div>`} {
		if !strings.Contains(html, part) {
			t.Errorf("the page lacks %s:\n%s", part, html)
		}
	}
	html = string(Lines("a b c d\nkeep this old line\n", "keep this new line\nnothing alike\n").HTMLLines(1, 100, plain.Block))
	if !strings.Contains(html, "<div class=\"minus\">- a b c d</div>") || !strings.Contains(html, "keep this <del>old</del> line") || !strings.Contains(html, "keep this <ins>new</ins> line") {
		t.Errorf("lines are not marked beside those that they stand for:\n%s", html)
	}
	if got := Lines("a\r\n", "a\n").TerminalLines(1, nil); got != "- a\\r\n+ a\n" {
		t.Errorf("a changed line end is told as %q", got)
	}
}

// TestHostileTextsStayDead: whatever differs, nothing of it is an order to a reader.
func TestHostileTextsStayDead(t *testing.T) {
	for _, evil := range []string{"<script>alert(1)</script>", "</del><h1>x</h1>", "```\n# owned\n```", "[a](javascript:x) @octocat #1 <!-- ", "\x1b[2J\x07", "a\u202eb\u200b", "\r\n::error::x", "![x](http://e.example/p.png)", "-]{+x+}", "&lt;b&gt; &#60;", "| a | b |", "~~~~"} {
		for _, texts := range [][2]string{{evil, "x"}, {"x", evil}, {"x " + evil + " y", "x " + evil + " z"}, {evil + "\n", evil}} {
			w, l := Words(texts[0], texts[1]), Lines(texts[0], texts[1])
			page := string(w.HTML(plain.Block)) + string(l.HTMLLines(3, 10, plain.Block))
			left := strings.NewReplacer("<del>", "", "</del>", "", "<ins>", "", "</ins>", "", "<div>", "", `<div class="minus">`, "", `<div class="plus">`, "", `<div class="fold">`, "", "</div>", "").Replace(page)
			if strings.ContainsAny(left, "<>") {
				t.Errorf("%q on a page: %s", texts, page)
			}
			told := strings.NewReplacer("<del>", "", "</del>", "", "<ins>", "", "</ins>", "", "<br>", "").Replace(w.Markdown())
			if strings.ContainsAny(told, "<>`[]!@|_*\n") || strings.Contains(strings.ReplaceAll(told, "&#", ""), "#") {
				t.Errorf("%q in Markdown: %s", texts, w.Markdown())
			}
			block := l.MarkdownLines(3)
			fence, _, _ := strings.Cut(block, "diff\n")
			if strings.Count(block, fence) != 2 {
				t.Errorf("%q in a fence that it ends: %s", texts, block)
			}
			for _, text := range []string{w.Markdown(), block, w.Terminal(nil), l.TerminalLines(3, nil), page, Brief(texts[0], texts[1])} {
				if strings.ContainsAny(text, "\x1b\x07\r\u202e\u200b") || strings.Contains(text, "\n::") {
					t.Errorf("%q: what steers a terminal is left in %q", texts, text)
				}
			}
		}
	}
}

func TestTerminalKeepsMarksBesideColours(t *testing.T) {
	paint := func(k Kind, text string) string { return fmt.Sprintf("<%d %s>", k, text) }
	if got := Words("a b c", "a x c").Terminal(paint); got != "a <1 [-b-]><2 {+x+}> c" {
		t.Errorf("%q", got)
	}
	if got := Words("a\n", "a\nb\n").Terminal(nil) + Words("a", "a\n").Terminal(nil); got != "a\n{+b+}\na{+\\n+}" {
		t.Errorf("line feeds: %q", got)
	}
	long := strings.Repeat("far away ", 100)
	if got := Words(long+"old"+" "+long, long+"new"+" "+long).Terminal(nil); len(got) > 400 || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") {
		t.Errorf("what is far from the change is not left out: %q", got)
	}
}
