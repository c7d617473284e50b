package bench

// A Review says what people are asked who look at the cases of a class.
type Review struct {
	Question string        `json:"question"`
	Labels   []ReviewLabel `json:"labels"` // in the order of their scale
}

// A ReviewLabel is an answer to the question, and what it is worth.
type ReviewLabel struct {
	Label string  `json:"label"`
	Score float64 `json:"score"`
}

// Bounds of a review: what fits on a terminal.
const (
	maxReviewQuestion = 300
	maxReviewLabels   = 20
)

// ReviewOrDefault is what people are asked: as the registration says, else whether the
// answer is right.
func (r *Registration) ReviewOrDefault() Review {
	if r.Review != nil {
		return *r.Review
	}
	return Review{"Is the answer right?", []ReviewLabel{{"pass", 1}, {"fail", 0}}}
}

// Find returns the label of that name.
func (r *Review) Find(label string) (ReviewLabel, bool) {
	for _, l := range r.Labels {
		if l.Label == label {
			return l, true
		}
	}
	return ReviewLabel{}, false
}

// Names lists the labels in their order.
func (r *Review) Names() []string {
	var names []string
	for _, l := range r.Labels {
		names = append(names, l.Label)
	}
	return names
}

func (r *Review) validate() error {
	if r == nil {
		return nil
	}
	if err := checkText("review.question", r.Question, maxReviewQuestion); err != nil {
		return err
	}
	if n := len(r.Labels); n < 2 || n > maxReviewLabels {
		return badField("review.labels", "has %d labels, expected 2 to %d", n, maxReviewLabels)
	}
	seen := map[string]bool{}
	for i, l := range r.Labels {
		at := fieldAt("review.labels", i)
		if err := checkName(at+".label", l.Label); err != nil {
			return err
		}
		if seen[l.Label] {
			return badField(at+".label", "%q is listed twice", l.Label)
		}
		seen[l.Label] = true
		if !(l.Score >= 0 && l.Score <= 1) {
			return badField(at+".score", "found %v, expected 0 to 1", l.Score)
		}
	}
	return nil
}
