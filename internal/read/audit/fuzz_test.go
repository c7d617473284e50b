package audit

import (
	"context"
	"testing"
)

// FuzzTrajectories: whatever the line, the audit ends with a report or a refusal,
// and gives the same the second time and with another number of workers.
func FuzzTrajectories(f *testing.F) {
	f.Add([]byte(goodTrajectory))
	f.Add([]byte(dirtyTrajectories))
	f.Add([]byte(`{"task_id":"t1","steps":[{"type":"tool_result","head":"x","bytes":9,"output_sha256":"00","gold_hits":{"scanned":true,"offsets":[5]},"args":{"a":[1,"b"]}}]}`))
	f.Add([]byte("{\"task_id\":\"t1\",\"steps\":[{\"type\":\"prompt\",\"content\":\"TGlzYm9uTGlzYm9uTGlz\\nYm9u &#76; %4c \\\\u004c \uff2c\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		audit := func(workers int) (string, string) {
			r, err := Run(context.Background(), Input{Results: textFile("r", goodResult), Trajectories: bytesFile("t", data), Workers: workers})
			if err != nil {
				return "", err.Error()
			}
			doc, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return string(doc), ""
		}
		doc, refused := audit(1)
		if again, refusedAgain := audit(3); doc != again || refused != refusedAgain {
			t.Fatalf("first %s%s, then %s%s", doc, refused, again, refusedAgain)
		}
	})
}
