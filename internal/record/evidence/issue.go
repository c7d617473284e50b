package evidence

import "tallystick/internal/record/digest"

// A RepositoryIssue is what a harness found of a case that says that it is an issue
// of a repository: that its trees and tests are those of the commit, which git's own
// hashes prove, that its test fails without the agent's change, and what the agent
// changed. Acceptance counts by it.
type RepositoryIssue struct {
	// After is the test on what the agent left; nil if it was not run.
	After  *IssueTest `json:"after,omitempty"`
	Before IssueTest  `json:"before"` // on the folder as the agent got it
	// Change and Tests name what the commit does to code and to tests, without
	// names, literals, comments and blanks: copies of a task have the same.
	Change  digest.Content `json:"change"`
	Changed []string       `json:"changed,omitempty"` // code that the agent changed and the test got, escaped paths
	Commit  string         `json:"commit"`            // git's id
	Fixed   int            `json:"fixed"`             // named tests that pass after and did not before
	Name    string         `json:"name"`              // of the repository
	Parent  string         `json:"parent"`
	Runner  string         `json:"runner"` // the language whose runner ran the tests
	// TestActs are what the test tries in a sandbox by itself, without the agent.
	TestActs []string       `json:"test_acts,omitempty"`
	Tests    digest.Content `json:"tests"`
	Version  string         `json:"v"` // [format.Version]
}

// An IssueTest is one run of the test of an issue.
type IssueTest struct {
	Exit      int            `json:"exit"`
	Failed    int            `json:"failed"`    // tests and packages that were reported to fail
	Isolation string         `json:"isolation"` // class of sandbox
	Log       digest.Content `json:"log"`
	Passed    bool           `json:"passed"` // as the case wants it, with all named tests
	Reported  int            `json:"reported"`
	Skipped   int            `json:"skipped"`
}
