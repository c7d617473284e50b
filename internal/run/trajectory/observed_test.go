package trajectory

import "testing"

func TestObservedCallsAreProposedOrReportedAndNothingBetween(t *testing.T) {
	for name, p := range map[string]*ToolObserved{
		"a proposal with a result": {Name: "n", Result: textPointer("x"), Vantage: Proposed},
		"a proposal that failed":   {Name: "n", Error: true, Vantage: Proposed},
		"a report without result":  {Name: "n", Vantage: Reported},
		"executed":                 {Name: "n", Vantage: Executed},
		"without vantage":          {Name: "n"},
	} {
		p.Args, p.Call = NewArgs(nil), "c1"
		if p.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
