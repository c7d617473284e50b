package ceremony

import "tallystick/internal/run/suites"

// A Suite is a bench that people know: one that a class is made of, or one that comes
// with the program.
type Suite struct {
	Name    string `json:"name"`
	Is      string `json:"is"`
	Needs   string `json:"needs"`
	Scoring string `json:"scoring"`
	Imports bool   `json:"imports"` // a class is made of it; else it runs as it is
}

// Suites lists them.
func Suites() []Suite {
	list := []Suite{{Name: "gaia", Is: "GAIA: questions for assistants with tools, in three levels", Needs: "the data set's folder (--from), or --hub with a token; --split smoke needs nothing",
		Scoring: "the official scorer, built in", Imports: true},
		{Name: "swe-bench", Is: "issues of Python repositories, with the tests that their solution makes pass", Needs: "a file of instances, clones of the repositories (--repos), and images (--image) with what their tests need",
			Scoring: "FAIL_TO_PASS and PASS_TO_PASS, by pytest in the sandbox", Imports: true},
		{Name: "harbor", Is: "tasks of Harbor: an instruction, a folder, a script that tests", Needs: "the folder of the tasks, and images (--image)",
			Scoring: "solved if every reward is 1", Imports: true},
		{Name: "terminal-bench", Is: "tasks of Terminal-Bench 1", Needs: "the folder of the tasks, and images (--image)",
			Scoring: "solved if pytest's summary has passed tests and no others", Imports: true}}
	about := map[string]string{
		"builtin:adversarial":  "attacks on an agent through what it reads",
		"builtin:long-horizon": "work that is longer than a context window",
	}
	for _, class := range suites.Classes() {
		list = append(list, Suite{Name: class, Is: about[class], Needs: "nothing: it comes with the program", Scoring: "checks of each case"})
	}
	return list
}
