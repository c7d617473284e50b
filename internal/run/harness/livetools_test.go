package harness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
)

// A till counts what it is asked.
type till struct {
	*tools.State
	asked []string
	fail  error
}

func (b *till) Call(_ context.Context, name string, args []byte) (tools.Result, error) {
	b.asked = append(b.asked, name+string(args))
	return tools.Result{JSON: []byte(`"paid"`), Source: "live", Latency: time.Second}, b.fail
}

func openBooks(t *testing.T, p policy.Policy) (*books, *till) {
	t.Helper()
	state, err := tools.New([]tools.Definition{{Name: "pay", Class: policy.Financial, Source: "mcp:bank"}, {Name: "look", Class: policy.Read, Source: "mcp:bank"},
		{Name: "add", Class: policy.Read, Default: &tools.Reply{Error: "no"}}}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	b, box := &books{state: state}, &till{State: state}
	b.box = box
	if b.policy, err = rules.Enforcer(time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return b, box
}

// A worker that does not ask its own policy does not get past the coordinator's, and
// calls nothing but tools of MCP servers with arguments that fit.
func TestTheCoordinatorAsksThePolicyAgain(t *testing.T) {
	p := policy.ForMode(policy.Autonomous)
	p.Deny = []string{"pay"}
	b, box := openBooks(t, p)
	for name, args := range map[string]string{"pay": `{"to":"me"}`, "add": `{}`, "none": `{}`} {
		if r, err := b.CallTool(t.Context(), name, []byte(args)); err == nil {
			t.Errorf("%s gave %+v", name, r)
		}
	}
	if r, err := b.CallTool(t.Context(), "look", []byte(`[1]`)); err != nil || r.Error == "" {
		t.Errorf("arguments that are no object gave %+v, %v", r, err)
	}
	if len(box.asked) > 0 {
		t.Fatalf("asked %v", box.asked)
	}
	if _, err := b.CallTool(t.Context(), "look", []byte(`{"at": 1}`)); err != nil || len(box.asked) != 1 {
		t.Errorf("what is permitted: %v, %v", box.asked, err)
	}
	// What a person would have to approve is not called.
	approved, box := openBooks(t, policy.ForMode(policy.Approved))
	if r, err := approved.CallTool(t.Context(), "pay", []byte(`{}`)); err == nil || len(box.asked) > 0 {
		t.Errorf("without an approval: %+v, %v", r, box.asked)
	}
}

// A trajectory tells of each call that was made, in order, and of no other.
func TestATrajectoryTellsOfEachToolCall(t *testing.T) {
	b, box := openBooks(t, policy.ForMode(policy.Autonomous))
	for _, args := range []string{`{"n": 1}`, `{"n":2}`} {
		if _, err := b.CallTool(t.Context(), "look", []byte(args)); err != nil {
			t.Fatal(err)
		}
	}
	box.fail = refusal.Newf(refusal.ProviderFailed, "gone")
	_, _ = b.CallTool(t.Context(), "look", nil)
	for _, other := range [][2]string{{"look", `{"n":2}`}, {"pay", `{"n":1}`}, {"look", `{"n":1,"m":1}`}, {"look", `{}`}} {
		if _, err := b.tellTool(other[0], []byte(other[1])); !errors.Is(err, session.ErrNotAsked) {
			t.Errorf("%v was told first: %v", other, err)
		}
	}
	if r, err := b.tellTool("look", []byte(`{"n":1}`)); err != nil || string(r.JSON) != `"paid"` {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := b.tellTool("look", []byte(`{"n":1}`)); !errors.Is(err, session.ErrNotAsked) {
		t.Errorf("told twice: %v", err)
	}
	if err := b.untold(); err == nil || !strings.Contains(err.Error(), "leaves out call 2 of 3 of tools") {
		t.Errorf("left out: %v", err)
	}
	_, _ = b.tellTool("look", []byte(`{"n":2}`))
	if _, err := b.tellTool("look", nil); !refusal.Is(err, refusal.ProviderFailed) {
		t.Errorf("a call that failed: %v", err)
	}
	if err := b.untold(); err != nil {
		t.Error(err)
	}
}
