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
