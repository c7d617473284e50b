package grade

import (
	"errors"
	"fmt"
	"math"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/similarity"
)

// A measure says how alike an answer and the best of some right ones are, from
// 0 to 1.
type measure struct {
	name string
	of   func(answer string, right []string) float64
	most int                 // bytes of a text; time grows with the product of both lengths
	left func(string) string // what is compared of a text
}

// maxAligned bounds texts that are compared letter by letter or word by word
// with each other: two of this length take a tenth of a second.
const maxAligned = 64 << 10

var (
	tokenF1 = measure{"token F1", similarity.TokenF1, maxText, similarity.SQuADWords}
	bleu    = measure{"BLEU", similarity.BLEU, maxText, asItIs}
	rougeL  = measure{"ROUGE-L", similarity.ROUGEL, maxAligned, similarity.ROUGEWords}
	edits   = measure{"the edit similarity", similarity.EditSimilarity, maxAligned, asItIs}
)

// asItIs is for graders that leave nothing out of a text.
func asItIs(s string) string { return s }

func validateSimilar(at place, r *Rule) error {
	if r.Threshold == nil {
		return at.bad("a grader of kind %s needs a threshold, from which on a value passes", r.Kind)
	}
	return nil
}

// grader makes the grader of a measure, whose score is the measure itself.
func (m measure) grader(want canon.RawMessage, r *Rule) (grader, error) {
	right, err := textList(want, true, m.left)
	if err != nil {
		return nil, err
	}
	for _, text := range right {
		if len(text) > m.most {
			return nil, fmt.Errorf("a text of %d bytes, expected at most %d", len(text), m.most)
		}
	}
	if r.Threshold == nil {
		return nil, errors.New("there is no threshold")
	}
	least := decimal(*r.Threshold)
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		if bad != nil {
			return *bad
		}
		if len(text) > m.most {
			return unusable(CodeTooLarge, "the text has %d bytes, more than the %d that are compared", len(text), m.most)
		}
		score := rounded(m.of(text, right))
		why := fmt.Sprintf("%s is %v, needed %v: %s", m.name, score, *r.Threshold, quote(v, text))
		if decimal(score).Cmp(least) >= 0 {
			return verdict{Passed, score, "", why}
		}
		return verdict{Mismatch, score, CodeBelowThreshold, why}
	}, nil
}

// rounded leaves out the digits in which processors differ: their logarithms do
// not agree in the last one, and a record must be the same wherever it is made.
func rounded(score float64) float64 { return math.Round(score*1e9) / 1e9 }

func squadGrader(want canon.RawMessage, _ *Rule) (grader, error) {
	right, err := textList(want, true, similarity.SQuADWords)
	if err != nil {
		return nil, err
	}
	return func(v *extract.Value) verdict {
		text, bad := textOf(v)
		switch {
		case bad != nil:
			return *bad
		case similarity.ExactMatch(text, right) == 1:
			return passed("as SQuAD compares, it is one of %s", list3(right))
		}
		return mismatch("as SQuAD compares, %s is not one of %s", quote(v, text), list3(right))
	}, nil
}
