package evidence

import "tallystick/internal/record/digest"

// JudgeCalibrated says how far a judge and people agree about the same cases. It
// has the table of what each said; agreement and kappa follow from the table and
// are not repeated, so that they cannot contradict it.
type JudgeCalibrated struct {
	Class string `json:"class"`
	// Check is the name of the check whose judge was compared; absent if the cases
	// have one judge and no name for it.
	Check string `json:"check,omitempty"`
	// Judge and Judges name what was calibrated: judge.yaml and the templates of the
	// class, as the plans of the labelled attempts have them.
	Judge  digest.Content  `json:"judge_digest"`
	Judges *digest.Content `json:"judges_digest,omitempty"`
	// Question is the plans' judge_question.
	Question *digest.Content `json:"question_digest"`
	// Pairs names, in the evidence, the list of what was compared with what.
	Pairs digest.Content `json:"pairs"`
	// Source says where the labels come from: reviews, which people signed, or a file.
	Source string `json:"source"`
	// Ordered says that the categories stand in the order of a scale.
	Ordered    bool     `json:"ordered"`
	Categories []string `json:"categories"`
	// Cells count what people and the judge said of the same case, each pair of
	// categories once. What did not come up is not there.
	Cells []CalibrationCell `json:"cells"`
	// Unscored counts labels of cases on which the judge gave no verdict. They are
	// not in the table.
	Unscored int `json:"unscored"`
}

// The sources of labels.
const (
	FromReviews = "reviews"
	FromFile    = "file"
)

// Kind is judge.calibrated.
func (*JudgeCalibrated) Kind() Kind { return JudgeCalibratedKind }

// A CalibrationCell counts how often people said one thing and the judge another,
// or the same.
type CalibrationCell struct {
	Judge  string `json:"judge"`
	N      int    `json:"n"`
	People string `json:"people"`
}
