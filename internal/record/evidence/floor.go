package evidence

import "fmt"

// A Floor is what an answer passes that took no work: of some null answers, the one that
// passed most of the cases that they were tried on, with the graders of the class. A rate
// of solved cases says little if it is not far above it.
type Floor struct {
	Answer NullAnswer `json:"answer"`
	Cases  int        `json:"cases"` // that they were tried on
	Passed int        `json:"passed"`
}

// A NullAnswer is an answer that takes no work.
type NullAnswer string

// The null answers.
const (
	NullEmpty    NullAnswer = "empty"
	NullConstant NullAnswer = "constant"
	NullQuestion NullAnswer = "question"      // the question, said again
	NullFirst    NullAnswer = "first_choice"  // of a multiple choice
	NullFrequent NullAnswer = "most_frequent" // the expected answer that most cases have
)

var nullAnswers = map[NullAnswer]string{
	NullEmpty: "an empty answer", NullConstant: "a sentence that is the same for every case", NullQuestion: "the question, said again",
	NullFirst: "the first choice", NullFrequent: "the most frequent expected answer",
}

// Text tells people which answer it is.
func (a NullAnswer) Text() string { return nullAnswers[a] }

// Weak reports whether a null answer passes nine of ten cases or more: then the class
// tests next to nothing. Of one case that cannot be said.
func (f *Floor) Weak() bool { return f.Cases > 1 && f.Passed*10 >= f.Cases*9 }

// Text tells people what the floor is.
func (f *Floor) Text() string {
	if f.Passed == 0 {
		return fmt.Sprintf("no null answer passes any of %d cases", f.Cases)
	}
	return fmt.Sprintf("%s passes %d of %d cases", f.Answer.Text(), f.Passed, f.Cases)
}
