package grade

// byFolder is the grader in the details of a case that no grader saw.
const byFolder Kind = "folder"

// FolderLost is how a case is graded whose working folder cannot be compared
// with its start: it has failed, whatever else there is. Who cannot tell what an
// agent did must not say that it did well.
func FolderLost(why string) Result {
	zero := 0.0
	return Result{Breakdown: map[string]float64{breakdownKey: 0}, FailureModes: []string{CodeFolderUnreadable},
		Details: []Detail{{Grader: byFolder, Outcome: Unusable, Code: CodeFolderUnreadable, Score: &zero, Weight: 1, Why: why}}}
}
