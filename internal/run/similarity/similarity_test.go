package similarity

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSQuAD(t *testing.T) {
	for _, c := range []struct {
		answer string
		right  []string
		em, f1 float64
	}{
		{"The Eiffel Tower!", []string{"eiffel tower"}, 1, 1},
		{"in the Eiffel Tower", []string{"Eiffel Tower"}, 0, 0.8},
		{"", []string{""}, 1, 1},
		{"", []string{"x"}, 0, 0},
		{"the", []string{"a"}, 1, 1}, // nothing but articles is nothing
		{"x y", []string{"z", "y"}, 0, 2.0 / 3},
		{"no no no", []string{"no"}, 0, 0.5}, // each word counts as often as in both
		{"ΟΔΟΣ", []string{"οδος"}, 1, 1},     // the final sigma
		{"a.b", []string{"ab"}, 1, 1},
		{"münchen", []string{"MÜNCHEN"}, 1, 1},
		{"cat\u00a0dog", []string{"dog cat"}, 0, 1},
	} {
		if em, f1 := ExactMatch(c.answer, c.right), TokenF1(c.answer, c.right); em != c.em || math.Abs(f1-c.f1) > 1e-12 {
			t.Errorf("%q against %q: match %v, F1 %v, expected %v and %v", c.answer, c.right, em, f1, c.em, c.f1)
		}
	}
}

// The numbers are what sacrebleu 2.6.0's sentence_bleu gives, over 100.
func TestBLEU(t *testing.T) {
	for _, c := range []struct {
		answer string
		right  []string
		want   float64
	}{
		{"the cat sat on the mat", []string{"the cat sat on the mat"}, 1},
		{"The dog bit the man.", []string{"The dog bit the man.", "It was not unexpected."}, 1},
		{"", []string{"x"}, 0},
		{"y", []string{"x"}, 0},
	} {
		if got := BLEU(c.answer, c.right); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%q against %q: %v, expected %v", c.answer, c.right, got, c.want)
		}
	}
}

func TestTokens13a(t *testing.T) {
	for in, want := range map[string]string{
		"Hello, world.":          "Hello , world .",
		"3.14, 1,000 and 2-3":    "3.14 , 1,000 and 2 - 3",
		"a...b":                  "a . . . b",
		"&quot;x&quot; &amp;lt;": `" x " <`,
		"well-\nknown don't":     "wellknown don't",
		"über-groß (ja)":         "über-groß ( ja )",
	} {
		if got := strings.Join(tokens13a(in), " "); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
}

func TestROUGEL(t *testing.T) {
	for _, c := range []struct {
		answer, right string
		want          float64
	}{
		{"police killed the gunman", "police kill the gunman", 0.75},
		{"the gunman police killed", "police killed the gunman", 0.5},
		{"", "x", 0},
		{"Ωμέγα δέλτα", "ωμέγα δέλτα", 1}, // rouge-score gives 0
		{"Ωμέγα δέλτα", "άλφα βήτα", 0},
	} {
		if got := ROUGEL(c.answer, []string{c.right}); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%q against %q: %v, expected %v", c.answer, c.right, got, c.want)
		}
	}
}

// TestSequencesAgreeWithTheTable: the fast ways give what the plain tables do,
// also where the texts are longer than one block.
func TestSequencesAgreeWithTheTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := letters(random, 200), letters(random, 200)
		if got, want := Distance(a, b), tableDistance(a, b); got != want {
			t.Fatalf("distance of %q and %q: %d, expected %d", string(a), string(b), got, want)
		}
		if got, want := commonLength(a, b), tableCommon(a, b); got != want {
			t.Fatalf("common part of %q and %q: %d, expected %d", string(a), string(b), got, want)
		}
	}
}

func letters(random *rand.Rand, most int) []rune {
	s := make([]rune, random.IntN(most+1))
	for i := range s {
		s[i] = 'a' + rune(random.IntN(4))
	}
	return s
}

func tableDistance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func tableCommon(a, b []rune) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			longest := max(row[j], row[j+1])
			if a[i] == b[j] {
				longest = diagonal + 1
			}
			diagonal = row[j+1]
			row[j+1] = longest
		}
	}
	return row[len(b)]
}

func TestEditSimilarity(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{{"kitten", "sitting", 1 - 3.0/7}, {"", "", 1}, {"", "ab", 0}, {"é", "e", 0}, {"日本", "日本語", 1 - 1.0/3}} {
		if got := EditSimilarity(c.a, []string{c.b}); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%q and %q: %v, expected %v", c.a, c.b, got, c.want)
		}
	}
}

const answerText = "The committee decided on Tuesday that the new bridge, which costs 3.5 million, will be opened in 2031 by the mayor of the city."
const rightText = "On Tuesday the committee decided: the bridge (cost 3.5 million) opens in 2031; the mayor of the city will open it."

func BenchmarkPairs(b *testing.B) {
	for name, measure := range map[string]func(string, []string) float64{"F1": TokenF1, "BLEU": BLEU, "ROUGE-L": ROUGEL, "edit": EditSimilarity} {
		b.Run(name, func(b *testing.B) {
			right := []string{rightText}
			for b.Loop() {
				measure(answerText, right)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}
