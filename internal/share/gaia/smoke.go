package gaia

import (
	"encoding/json"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// smokeTasks are five tasks of the program's own, one for each rule of the scorer
// and one with a file. They are no part of GAIA, and a result on them says that
// the harness works.
var smokeTasks = []Task{
	{ID: "smoke-1", Level: 1, Question: "Which city is the capital of Norway? Answer with its name.", Answer: "Oslo", Replies: []string{"FINAL ANSWER: Oslo"}},
	{ID: "smoke-2", Level: 1, Question: "How many edges has a cube? Answer with a number.", Answer: "12", Replies: []string{"A cube has 12 edges.\nFINAL ANSWER: 12"}},
	{ID: "smoke-3", Level: 2, Question: "List the first three prime numbers, in ascending order, separated by commas.", Answer: "2, 3, 5", Replies: []string{"FINAL ANSWER: 2,3,5"}},
	{ID: "smoke-4", Level: 1, Question: "The attached file has one line. Which word does it end with?", Answer: "tally", File: &File{"note.txt", []byte("a stick with notches is a tally\n")},
		Replies: []string{"FINAL ANSWER: Tally."}},
	{ID: "smoke-5", Level: 3, Question: "A train leaves at 09:40 and travels for 95 minutes. At what time does it arrive? Answer as HH:MM.", Answer: "11:15", Replies: []string{"09:40 and 95 minutes is 11:15.\nFINAL ANSWER: 11:15"}},
}

// smoke is the split that comes with the program. Its tasks have the model's words
// with them, so that it runs at once and offline.
func smoke(level int) (*Data, error) {
	d := &Data{Split: Smoke, Revision: "tallystick-smoke-1"}
	for _, t := range smokeTasks {
		if level == 0 || t.Level == level {
			d.Tasks = append(d.Tasks, t)
		}
	}
	if len(d.Tasks) == 0 {
		return nil, refusal.Newf(refusal.Usage, "the smoke split has no task of level %d", level)
	}
	data, err := json.Marshal(smokeTasks)
	if err != nil {
		return nil, fmt.Errorf("smoke tasks: %w", err)
	}
	d.Files = []bench.DataFile{{Path: "smoke.json", SHA256: digest.IDOf(data)}}
	return d, nil
}
