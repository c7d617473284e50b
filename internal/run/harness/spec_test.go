package harness

import (
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
)

func TestSpecIsValidated(t *testing.T) {
	for name, tt := range map[string]struct {
		spec Spec
		want string // of the refusal; "" for none
	}{
		"nothing is said":              {Spec{}, ""},
		"repeats below one":            {Spec{Repeat: -1}, "--repeat -1: expected 1 or more"},
		"jobs below one":               {Spec{Jobs: -1}, "--jobs -1: expected 1 or more"},
		"a cost below nothing":         {Spec{MaxCostMicroUSD: -500_000}, "--max-cost -0.5: expected more than 0"},
		"an unknown scope":             {Spec{Scope: "week"}, "--sandbox-scope week: expected case or attempt"},
		"an unknown class":             {Spec{Sandbox: "gvizor"}, "--sandbox gvizor: expected microvm, gvisor, namespace or none"},
		"no sandbox":                   {Spec{Sandbox: NoSandbox}, ""},
		"an unknown second view":       {Spec{SecondView: "jury"}, "--second-view jury: expected judge"},
		"a case that is not a pattern": {Spec{Selection: Selection{Cases: []string{"["}}}, `--case "[" is not a pattern`},
		"an unknown reducer":           {Spec{Reduce: "median", Repeat: 3}, "--reduce median: expected mean, mode, max, all or at_least:K"},
		"nothing to reduce":            {Spec{Reduce: evidence.ReduceAll}, "--reduce all makes one outcome of several repetitions, and --repeat is 1"},
		"more than there are":          {Spec{Reduce: "at_least:4", Repeat: 3}, "--reduce at_least:4 needs 4 repetitions, and --repeat is 3"},
		"the mean of one":              {Spec{Reduce: ReduceMean}, ""},
		"a parameter without value":    {Spec{Params: []string{"model"}}, "--param model: expected NAME=VALUE"},
		"an unknown way on a miss":     {Spec{OnMiss: "ask"}, "--on-miss ask: expected fail or live"},
		"live, and always a miss":      {Spec{Live: true, OnMiss: evidence.OnMissFail}, "--live --on-miss fail: every call of a live run misses"},
		"live from the cache":          {Spec{Live: true, Cache: true, OnMiss: evidence.OnMissFail}, ""},
		"to be submitted unrecorded":   {Spec{SubmitIntent: true}, "what is not recorded cannot be submitted"},
		"to be submitted":              {Spec{SubmitIntent: true, Recording: evidence.RecordHeads}, ""},
	} {
		err := tt.spec.Validate()
		if tt.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tt.want != "" && (!refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestSpecSaysWhoAnswers: where replies come from, and whether a provider is
// paid, follows from three flags.
func TestSpecSaysWhoAnswers(t *testing.T) {
	for _, tt := range []struct {
		spec    Spec
		replies string
		pays    bool
		mode    string
	}{
		{Spec{}, "", false, "replay"},
		{Spec{OnMiss: evidence.OnMissFail}, "", false, "replay"},
		{Spec{OnMiss: evidence.OnMissLive}, "from the cassette, on a miss live", true, "live"},
		{Spec{Live: true}, "", true, "live"},
		{Spec{Live: true, OnMiss: evidence.OnMissLive}, "from the cassette, on a miss live", true, "live"},
		{Spec{Cache: true}, "from the cache, on a miss fail", false, "live"},
		{Spec{Cache: true, Live: true}, "from the cache, on a miss live", true, "live"},
		{Spec{Cache: true, Live: true, OnMiss: evidence.OnMissFail}, "from the cache, on a miss fail", false, "live"},
	} {
		replies := ""
		if r := tt.spec.Replies(); r != nil {
			replies = r.String()
		}
		if replies != tt.replies || tt.spec.Pays() != tt.pays || tt.spec.Mode() != tt.mode {
			t.Errorf("%+v: replies %q, pays %v, mode %s; want %q, %v, %s", tt.spec, replies, tt.spec.Pays(), tt.spec.Mode(), tt.replies, tt.pays, tt.mode)
		}
	}
}

func TestSpecOfOneTargetLeavesTheOthers(t *testing.T) {
	all := Spec{Targets: []string{"a", "b"}, Sandbox: sandbox.GVisor}
	if one := all.For("b"); one.Target() != "b" || len(one.Targets) != 1 || one.Sandbox != all.Sandbox || all.Target() != "a" || len(all.Targets) != 2 {
		t.Errorf("one is %+v, all are %+v", one, all)
	}
	if zero := (&Spec{}); zero.Target() != "default" || zero.Unsafe() || zero.Classes() != nil {
		t.Errorf("nothing said: target %s, unsafe %v, classes %v", zero.Target(), zero.Unsafe(), zero.Classes())
	}
	if none := (&Spec{Sandbox: NoSandbox}); !none.Unsafe() || none.Classes() != nil {
		t.Errorf("no sandbox: unsafe %v, classes %v", none.Unsafe(), none.Classes())
	}
}
