package browser

import (
	"encoding/json"
	"os"
	"testing"
)

// TestFormatsAreAsTheVectorsSay holds this side to the examples that the script
// in the browser is held to as well.
func TestFormatsAreAsTheVectorsSay(t *testing.T) {
	data, err := os.ReadFile("testdata/formats.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		As    Format          `json:"as"`
		Value json.RawMessage `json:"value"`
		Text  string          `json:"text"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	seen := map[Format]int{}
	for _, row := range rows {
		got, err := row.As.Show(row.Value)
		if err != nil || got != row.Text {
			t.Errorf("%s of %.60s = %.60q, %v; want %.60q", row.As, row.Value, got, err, row.Text)
		}
		seen[row.As]++
	}
	for _, f := range []Format{AsNumber, AsPercent, AsDollars, AsText, AsTime, AsBool, AsOutcome, AsJSON, AsCost, AsTotal, AsSolved, AsInterval} {
		if seen[f] == 0 {
			t.Errorf("no example of %s", f)
		}
	}
}

func TestFormatsRefuseValuesOfOtherKinds(t *testing.T) {
	for _, tt := range []struct {
		as    Format
		value string
	}{{AsNumber, `"1"`}, {AsDollars, `1.5`}, {AsText, `true`}, {AsText, `null`}, {AsText, `{"a":1}`}, {AsTime, `"yesterday"`}, {AsBool, `"yes"`}, {AsOutcome, `1`}, {AsTotal, `{"passed":"4"}`}, {AsTotal, `{"passed":1.5}`}, {AsTotal, `{"passed":-1}`}, {AsTotal, `5`}, {AsCost, `5`}, {AsCost, `{}`}, {AsCost, `{"cost_microdollars":"5"}`}, {AsSolved, `{}`}, {AsInterval, `{"passed":0}`}, {AsSolved, `{"passed":[1]}`}, {"colour", `"red"`}} {
		if got, err := tt.as.Show([]byte(tt.value)); err == nil {
			t.Errorf("%s of %s = %q", tt.as, tt.value, got)
		}
	}
}
