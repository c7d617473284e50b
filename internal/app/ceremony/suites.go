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
		Scoring: "the official scorer, built in", Imports: true}}
	about := map[string]string{
		"builtin:adversarial":  "attacks on an agent through what it reads",
		"builtin:long-horizon": "work that is longer than a context window",
	}
	for _, class := range suites.Classes() {
		list = append(list, Suite{Name: class, Is: about[class], Needs: "nothing: it comes with the program", Scoring: "checks of each case"})
	}
	return list
}
