package question

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Choice is one thing that a judge may say, and what it is worth.
type Choice struct {
	Choice string  `json:"choice"`
	Means  string  `json:"means,omitempty"` // for the judge; the anchor of a scale
	Score  float64 `json:"score"`
}

// A Scale is what a judge may choose from, from the lowest score to the highest.
type Scale []Choice

// Bounds of a scale.
const (
	maxChoices   = 101
	maxChoice    = 64
	maxMeans     = 2000
	leastChoices = 2
)

// Anchored makes the scale of all whole numbers from the lowest anchor to the
// highest. The number n is worth (n − lowest) / (highest − lowest).
func Anchored(anchors map[string]string) (Scale, error) {
	if len(anchors) < leastChoices {
		return nil, fmt.Errorf("anchors has %d, expected at least the lowest and the highest number of the scale", len(anchors))
	}
	numbers := make([]int, 0, len(anchors))
	for name, means := range anchors {
		n, err := strconv.Atoi(name)
		switch {
		case err != nil || strconv.Itoa(n) != name:
			return nil, fmt.Errorf("anchor %.40q is not a whole number", name)
		case strings.TrimSpace(means) == "" || len(means) > maxMeans:
			return nil, fmt.Errorf("anchor %s has %d bytes, expected 1 to %d that say what the number means", name, len(means), maxMeans)
		}
		numbers = append(numbers, n)
	}
	low, high := slices.Min(numbers), slices.Max(numbers)
	if high-low >= maxChoices {
		return nil, fmt.Errorf("the scale has %d numbers, expected at most %d", high-low+1, maxChoices)
	}
	var s Scale
	for n := low; n <= high; n++ {
		name := strconv.Itoa(n)
		s = append(s, Choice{Choice: name, Means: anchors[name], Score: float64(n-low) / float64(high-low)})
	}
	return s, nil
}

// Labelled makes a scale of labels with their scores.
func Labelled(labels map[string]float64) (Scale, error) {
	if len(labels) < leastChoices || len(labels) > maxChoices {
		return nil, fmt.Errorf("choices has %d labels, expected %d to %d", len(labels), leastChoices, maxChoices)
	}
	var s Scale
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		score := labels[label]
		switch {
		case label == "" || len(label) > maxChoice || strings.TrimSpace(label) != label || strings.ContainsAny(label, "\n\r\t"):
			return nil, fmt.Errorf("label %.80q: expected 1 to %d bytes in one line without blanks around them", label, maxChoice)
		case !(score >= 0 && score <= 1):
			return nil, fmt.Errorf("label %q is worth %v, expected 0 to 1", label, score)
		}
		s = append(s, Choice{Choice: label, Score: score})
	}
	slices.SortStableFunc(s, func(a, b Choice) int { return cmp.Compare(a.Score, b.Score) })
	if s[0].Score == s[len(s)-1].Score {
		return nil, errors.New("every label is worth the same, so nothing could fail")
	}
	return s, nil
}

// Of finds a choice by its exact words.
func (s Scale) Of(choice string) (Choice, bool) {
	i := slices.IndexFunc(s, func(c Choice) bool { return c.Choice == choice })
	if i < 0 {
		return Choice{}, false
	}
	return s[i], true
}

// Names lists the choices in the order of the scale.
func (s Scale) Names() []string {
	words := make([]string, len(s))
	for i, c := range s {
		words[i] = c.Choice
	}
	return words
}

// Text is the scale as a judge is shown it, the highest first.
func (s Scale) Text() string {
	var b strings.Builder
	for _, c := range slices.Backward(s) {
		b.WriteString("- " + strconv.Quote(c.Choice))
		if c.Means != "" {
			b.WriteString(": " + strings.TrimSpace(c.Means))
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
