package fleet

import "tallystick/internal/evidence"

// A Status is how an attempt over a fleet stands, as its coordinator tells it.
type Status struct {
	Attempt string `json:"attempt"`
	Class   string `json:"class"`
	Target  string `json:"target"`

	Planned   int `json:"planned"`   // cases of this run of the coordinator
	Done      int `json:"done"`      // of these, taken back and recorded
	Running   int `json:"running"`   // with a worker now
	Waiting   int `json:"waiting"`   // offered, and not taken yet
	Lost      int `json:"lost"`      // executions that workers did not come back with
	Refused   int `json:"refused"`   // results and requests that were refused
	Doubled   int `json:"doubled"`   // cases that a second worker ran too
	Disagreed int `json:"disagreed"` // of these, with another result

	PerSecond    float64       `json:"results_per_second"` // over the last minute
	SecondsLeft  *float64      `json:"seconds_left,omitempty"`
	CostMicroUSD int64         `json:"cost_microdollars"`
	At           evidence.Time `json:"at"`

	Workers []WorkerStatus `json:"workers"`
}

// A WorkerStatus is one worker, as the coordinator sees it.
type WorkerStatus struct {
	Key         string        `json:"key"` // fingerprint
	Name        string        `json:"name"`
	Label       string        `json:"label,omitempty"`
	Version     string        `json:"version"`
	Isolation   string        `json:"isolation,omitempty"` // of the last case
	LastSeen    evidence.Time `json:"last_seen"`
	Cases       []string      `json:"cases"` // that it has now
	Done        int           `json:"done"`
	Lost        int           `json:"lost"`
	Quarantined string        `json:"quarantined,omitempty"` // why, if it is
}
