package extract

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

// TestViewsSayWhatTheyLeaveOut: of what is too long, the beginning and the end stay,
// and where something is missing the view says so.
func TestViewsSayWhatTheyLeaveOut(t *testing.T) {
	v := &viewer{}
	item := map[string]any{}
	v.text(item, "result", strings.Repeat("é", maxViewText))
	if len(item["result"].(string)) > maxViewText || item["result_bytes_left_out"] != maxViewText || v.cut != maxViewText {
		t.Errorf("a long text has %d bytes, left out %v, counted %d", len(item["result"].(string)), item["result_bytes_left_out"], v.cut)
	}
	for i := range 1000 {
		if err := v.add(map[string]any{"n": i, "text": strings.Repeat("x", 500)}); err != nil {
			t.Fatal(err)
		}
	}
	view, err := v.view()
	if err != nil || len(view.Text) > MaxViewBytes+200 || view.Items != 1000 || view.LeftOut == 0 {
		t.Fatalf("%d bytes, %d items, %d left out, %v", len(view.Text), view.Items, view.LeftOut, err)
	}
	var items []map[string]any
	if err := canon.Unmarshal([]byte(view.Text), &items); err != nil {
		t.Fatal(err)
	}
	if items[0]["n"] != 0.0 || items[len(items)-1]["n"] != 999.0 {
		t.Errorf("the view begins with %v and ends with %v", items[0]["n"], items[len(items)-1]["n"])
	}
	if want := fmt.Sprintf("%d of 1000 elements", view.LeftOut); len(items) != 1001-view.LeftOut || !strings.Contains(view.Text, want) {
		t.Errorf("%d elements are shown, the view does not say %q", len(items), want)
	}
}
