package policy

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The policy of docs/formats/policy.md, with real conditions.
func TestThePolicyOfTheDocumentationDecides(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml example\n")
	text, _, _ := strings.Cut(rest, "```")
	p := fromYAML(t, text)
	rules, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, tool string
		class      Class
		args       string
		hour       int
		want       string
	}{
		{"small", "transfer", Financial, `{"amount":100}`, 10, "allow by mode:autonomous"},
		{"large", "transfer", Financial, `{"amount":100.01}`, 10, "escalate by large-transfer"},
		{"in the evening", "transfer", Financial, `{"amount":1}`, 18, "deny by office-hours"},
		{"without amount", "transfer", Financial, `{"sum":1}`, 10, "deny by large-transfer: condition could not be evaluated for tool transfer: no such key: amount"},
		{"amount in words", "transfer", Financial, `{"amount":"all"}`, 10, "deny by large-transfer: condition could not be evaluated"},
		{"privileged", "sudo", Privileged, `{}`, 10, "deny by no-privileged"},
		{"on the deny list", "Bash", Read, `{}`, 10, "deny by policy:deny"},
	} {
		e, err := rules.Enforcer(time.Date(2026, 5, 11, tt.hour, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		d := e.Decide(Call{ID: "1", Action: Tool, Name: tt.tool, Class: tt.class, Args: []byte(tt.args)})
		if !strings.HasPrefix(d.String(), tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, d, tt.want)
		}
	}
	p.Rules[2].When = "args.amount > limit"
	if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), "rule large-transfer: when: 1:15: undeclared reference to 'limit'") {
		t.Errorf("got %v", err)
	}
}
