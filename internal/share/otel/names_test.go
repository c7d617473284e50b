package otel

import (
	"os"
	"strings"
	"testing"

	"tallystick/internal/share/foreign"
)

// TestThePageHasEveryAttribute keeps the tables of docs/formats/telemetry.md in step with
// those here.
func TestThePageHasEveryAttribute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{openInferenceKind}, foreign.ConversationNames...)
	for _, keys := range names {
		want = append(want, keys...)
	}
	for kind := range operations {
		want = append(want, kind)
	}
	for _, name := range want {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not say that `%s` is read", name)
		}
	}
}
