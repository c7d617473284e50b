package policy

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

// TestTheWorkedExampleIsTrue keeps docs/formats/policy.md in step with the
// bytes.
func TestTheWorkedExampleIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	p := fromYAML(t, string(block(t, page, "yaml example")))
	text, err := canon.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if written := bytes.TrimSpace(block(t, page, "json example")); !bytes.Equal(written, text) {
		t.Errorf("the page has\n%s\nthe program writes\n%s", written, text)
	}
	d, err := p.Digest()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("serialised form is `%s`, its short hash `%s`, its digest `%s`", p.Serialised(), p.ShortHash(), d)
	if !strings.Contains(string(page), want) {
		t.Errorf("the page does not say: %s", want)
	}
	for _, tt := range published {
		row := fmt.Sprintf("| %s | `%s` | `%s` |", tt.mode, strings.ReplaceAll(tt.text, "|", `\|`), tt.short)
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
	}
	for _, k := range []Kind{BlockClass, RequireApproval, CapSpend, CapTokens, RateLimit, TimeWindow, AllowList, DenyList, ConditionKind} {
		if !strings.Contains(string(page), "\n| `"+string(k)+"` |") {
			t.Errorf("the page does not describe %s", k)
		}
	}
	for _, v := range conditionVariables {
		if !strings.Contains(string(page), "`"+v.Name+"`") {
			t.Errorf("the page does not name the variable %s", v.Name)
		}
	}
}

func block(t *testing.T, page []byte, info string) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte("```"+info+"\n"))
	text, _, closed := bytes.Cut(rest, []byte("```"))
	if !ok || !closed {
		t.Fatalf("the page has no block %q", info)
	}
	return text
}
