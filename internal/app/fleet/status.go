package fleet

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
)

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
	Unpriced     int64         `json:"unpriced_calls,omitempty"` // not in the cost
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

// standingFile has the last status that a coordinator wrote, in the folder of the fleet:
// for pages, which do not speak with the fleet's servers.
const standingFile = "standing.json"

// maxStanding bounds it: a worker has a line, and one for each of its cases.
const maxStanding = 16 << 20

// Save writes a status for [LoadStatus].
func (s *Status) Save(dir string) error {
	slices.SortFunc(s.Workers, func(a, b WorkerStatus) int { return strings.Compare(a.Name+a.Key, b.Name+b.Key) })
	data, err := canon.Marshal(s)
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(dir, standingFile), data, 0o600)
}

// LoadStatus is the last status that was written, nil if no fleet runs. A coordinator that
// was killed leaves its last one: At says of when it is.
func LoadStatus(dir string) (*Status, error) {
	data, err := store.ReadFile(store.OS{}, filepath.Join(dir, standingFile), maxStanding)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Status{}
	return s, canon.Unmarshal(data, s)
}

// RemoveStatus says that no fleet runs any more.
func RemoveStatus(dir string) error { return store.RemoveTree(filepath.Join(dir, standingFile)) }

// Cost is what the attempt has cost.
func (s *Status) Cost() cost.Cost { return cost.Of(s.CostMicroUSD, s.Unpriced) }
