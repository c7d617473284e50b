package audit

import (
	"encoding/json"
	"fmt"
	"strings"
)

// JudgeEvents counts what the judge's cache gave rise to in the event list of an
// attempt of ours, one event a line. AUD-4 wants none.
func JudgeEvents(list []byte) (n int, err error) {
	for line := range strings.Lines(string(list)) {
		var crossing struct {
			Event struct {
				Name string `json:"name"`
			} `json:"event"`
		}
		if err := json.Unmarshal([]byte(line), &crossing); err != nil {
			return 0, fmt.Errorf("the list of events: %w", err)
		}
		if strings.HasPrefix(crossing.Event.Name, "judge.cache_") {
			n++
		}
	}
	return n, nil
}
