package question

// A Metric is a measure of answers that rest on passages. A judge says of each
// claim, or of each passage, whether something holds; the rest is arithmetic.
type Metric string

// The metrics. docs/judges.md has the definitions.
const (
	// Faithfulness is the share of the answer's claims that the context supports.
	Faithfulness Metric = "faithfulness"
	// AnswerRelevance is the share of the answer's claims that help to answer the
	// question.
	AnswerRelevance Metric = "answer_relevance"
	// ContextPrecision is high if the useful passages come first.
	ContextPrecision Metric = "context_precision"
	// ContextRecall is the share of the expected answer's claims that the context
	// supports.
	ContextRecall Metric = "context_recall"
)

// Metrics lists them.
func Metrics() []Metric {
	return []Metric{Faithfulness, AnswerRelevance, ContextPrecision, ContextRecall}
}

// OfPassages reports whether the marks are of passages, and not of claims.
func (m Metric) OfPassages() bool { return m == ContextPrecision }

// Score is what marks come to. There is none without a mark.
func (m Metric) Score(marks []bool) (score float64, ok bool) {
	if len(marks) == 0 {
		return 0, false
	}
	if m == ContextPrecision {
		return averagePrecision(marks), true
	}
	return share(marks), true
}

// share is held / all.
func share(marks []bool) float64 {
	held := 0
	for _, m := range marks {
		if m {
			held++
		}
	}
	return float64(held) / float64(len(marks))
}

// averagePrecision is the mean, over the ranks k of useful passages, of
// precision@k = useful among the first k / k, as RAGAS defines context precision.
// Without a useful passage it is 0.
func averagePrecision(marks []bool) float64 {
	useful, sum := 0, 0.0
	for i, m := range marks {
		if m {
			useful++
			sum += float64(useful) / float64(i+1)
		}
	}
	if useful == 0 {
		return 0
	}
	return sum / float64(useful)
}

// The sides of a comparison, as a judge names them, and what it may say besides.
const (
	PreferFirst  = "first"
	PreferSecond = "second"
	PreferTie    = "tie"
)

// Preferred is what two opinions come to that were asked for in both orders: the
// answer stood first in the one, second in the other. It wins or loses only if
// both say so; everything else is a tie.
func Preferred(answerFirst, answerSecond string) float64 {
	switch {
	case answerFirst == PreferFirst && answerSecond == PreferSecond:
		return 1
	case answerFirst == PreferSecond && answerSecond == PreferFirst:
		return 0
	}
	return 0.5
}

// Biased says which place was preferred in both orders, whatever stood there: ""
// if none was.
func Biased(answerFirst, answerSecond string) string {
	if answerFirst == answerSecond && answerFirst != PreferTie {
		return answerFirst
	}
	return ""
}
