package evidence

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/canon"
)

// A Score is what a rubric or grader says about one case.
//
// There is no room in it for a model's opinion of itself: the four words of
// bannedWords may stand nowhere in it, or the discipline of objective signals
// would leak away through a field called confidence.
type Score struct {
	Breakdown       map[string]float64 `json:"breakdown"`
	CostUSD         float64            `json:"cost_usd"`
	DurationSeconds float64            `json:"duration_seconds"`
	FailureModes    []string           `json:"failure_modes"`
	Passed          bool               `json:"passed"`
	Score           float64            `json:"score"`
}

// bannedWords are refused as whole words between separators, so "enrollment"
// is fine and "llm_grade" is not.
var bannedWords = []string{"confidence", "llm", "self_reported", "model_says"}

// ParseScore decodes and validates a score that an untrusted program wrote.
// The spelling is free, the shape is strict: all six fields, no others.
func ParseScore(data []byte) (Score, error) {
	var strict struct {
		Passed          *bool               `json:"passed"`
		Score           *float64            `json:"score"`
		Breakdown       *map[string]float64 `json:"breakdown"`
		FailureModes    *[]string           `json:"failure_modes"`
		CostUSD         *float64            `json:"cost_usd"`
		DurationSeconds *float64            `json:"duration_seconds"`
	}
	if err := canon.Unmarshal(data, &strict); err != nil {
		return Score{}, err
	}
	if strict.Passed == nil || strict.Score == nil || strict.Breakdown == nil || strict.FailureModes == nil ||
		strict.CostUSD == nil || strict.DurationSeconds == nil {
		return Score{}, fmt.Errorf("score: needs passed, score, breakdown, failure_modes, cost_usd and duration_seconds")
	}
	s := Score{Passed: *strict.Passed, Score: *strict.Score, Breakdown: *strict.Breakdown, FailureModes: *strict.FailureModes,
		CostUSD: *strict.CostUSD, DurationSeconds: *strict.DurationSeconds}
	// Only of a new score: records that were sealed before have what they have.
	if s.Passed && s.Score == 0 || !s.Passed && s.Score == 1 {
		return Score{}, fmt.Errorf("score: passed is %v and score is %v, which contradict each other", s.Passed, s.Score)
	}
	return s, s.Validate()
}

func sixDecimals(v float64) bool {
	micro := math.Round(v * 1e6)
	return micro/1e6 == v
}

// BannedWord returns the banned word that name contains as a whole word
// between separators, in any case and joined in any way (self-reported,
// selfReported), or "".
func BannedWord(name string) string {
	if !mayBeBanned(name) {
		return ""
	}
	words := splitWords(name)
	joined := "_" + strings.Join(words, "_") + "_"
	for _, banned := range bannedWords {
		if strings.Contains(joined, "_"+banned+"_") {
			return banned
		}
	}
	return ""
}

// mayBeBanned reports whether it is worth splitting a name into words, which takes
// memory: every score of a ledger has names, and hardly one is banned. The letters
// of a word stand together in the name, so the first part of a banned word is in it.
func mayBeBanned(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return true // other alphabets have letters that are the same in lower case
		}
		for _, banned := range bannedWords {
			part, _, _ := strings.Cut(banned, "_")
			if len(name)-i >= len(part) && strings.EqualFold(name[i:i+len(part)], part) {
				return true
			}
		}
	}
	return false
}

// splitWords splits at everything that is not a letter, where lower case turns
// to upper case (selfReported), and before the last capital of several that a
// small letter follows (LLMGrade).
func splitWords(name string) []string {
	runes := []rune(name)
	var words []string
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(string(runes[start:end])))
		}
		start = end
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			cut(i)
			start = i + 1
		case unicode.IsUpper(r) && i > start &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			cut(i)
		}
	}
	cut(len(runes))
	return words
}
