package harness

import (
	"slices"
	"testing"

	"tallystick/internal/run/bench"
	"tallystick/internal/run/sandbox"
)

func TestTheStrongestOtherClassIsTriedFirst(t *testing.T) {
	for _, tt := range []struct {
		classes []string
		weaker  bool
		want    []sandbox.Class
	}{
		{[]string{"microvm"}, true, []sandbox.Class{sandbox.MicroVM, sandbox.GVisor, sandbox.Namespace}},
		{[]string{"gvisor"}, true, []sandbox.Class{sandbox.GVisor, sandbox.MicroVM, sandbox.Namespace}},
		{[]string{"namespace"}, true, []sandbox.Class{sandbox.Namespace, sandbox.MicroVM, sandbox.GVisor}},
		{[]string{"microvm"}, false, []sandbox.Class{sandbox.MicroVM}},
	} {
		if got := accepted(bench.Isolation{Classes: tt.classes, AllowWeaker: tt.weaker}); !slices.Equal(got, tt.want) {
			t.Errorf("%v, weaker %v: %v, want %v", tt.classes, tt.weaker, got, tt.want)
		}
	}
}
