package submission

import (
	"fmt"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
)

// Metadata is metadata.json.
type Metadata struct {
	SubmittedAt    evidence.Time  `json:"submitted_at,omitzero"` // when the attempt ended: the package reads no clock
	Harness        string         `json:"harness"`
	HarnessVersion string         `json:"harness_version"`
	Model          string         `json:"model"`
	Target         string         `json:"target"`
	GAIALevel      int            `json:"gaia_level,omitempty"` // if there is only one
	GAIALevels     map[string]int `json:"gaia_levels"`
	GAIASplit      string         `json:"gaia_split,omitempty"`
	Revision       string         `json:"dataset_revision,omitempty"`
	DataSet        string         `json:"dataset,omitempty"`
	ToolCatalogue  []string       `json:"tool_catalogue"`
	TotalQuestions int            `json:"total_questions"`
	EstCostUSD     float64        `json:"est_cost_usd"`
	Unpriced       *int64         `json:"unpriced_calls,omitempty"`     // not in the cost, which is then the least; absent if the attempt's end does not count them
	CostUntold     int64          `json:"cost_unknown_tasks,omitempty"` // whose records do not tell all of their cost
	VotingAttempts int            `json:"voting_attempts"`
	View           string         `json:"view"` // primary; majority if answers were chosen among repetitions
	Abandoned      int            `json:"abandoned_executions"`
	JudgeEvents    int            `json:"judge_cache_integrity_events"`
	Draws          int            `json:"judge_draws"`
	Redraws        int            `json:"judge_redraws"` // of questions that had a verdict before
	Recording      string         `json:"recording"`
	ADRs           []string       `json:"adrs"` // of the original's project; none here
	Mode           string         `json:"mode"`
	Headline
	Attempt Standing `json:"attempt"`
}

// A Standing says which attempt of its class a package is of, and of how many there
// are registrations in a tree of that size. Exact says that there are no more in
// it, which every entry from the attempt's own registration on shows; otherwise
// there are at least so many. Size, Exact and Whole are not in metadata.json: a runner who packs
// the attempt again, in a ledger that has grown, gets the same report.
type Standing struct {
	ID       string `json:"id"`
	Number   int    `json:"number"`
	Of       int    `json:"of"`
	Origin   string `json:"origin"`
	TreeSize int64  `json:"tree_size,omitempty"`
	Exact    bool   `json:"exact,omitempty"`
	Whole    bool   `json:"whole,omitempty"` // every entry of the tree shows it
	Level    string `json:"level"`
}

// Text is the number for a person.
func (n *Standing) Text() string {
	if n.Whole {
		return fmt.Sprintf("number %d of %d of the class at tree size %d, of which every entry is shown", n.Number, n.Of, n.TreeSize)
	}
	if n.Exact {
		return fmt.Sprintf("number %d of %d of the class at tree size %d", n.Number, n.Of, n.TreeSize)
	}
	return fmt.Sprintf("number %d of at least %d of the class at tree size %d", n.Number, n.Of, n.TreeSize)
}

// Standing is the attempt among those of its class.
func (a *Source) Standing() Standing {
	return Standing{ID: a.Registered.Attempt, Number: a.Registered.Number, Of: len(a.Class), Origin: a.Origin, TreeSize: a.TreeSize, Exact: a.Exact, Whole: a.Whole, Level: a.Level}
}

// metadata writes metadata.json.
func (b *builder) metadata() error {
	b.count()
	data, err := b.data()
	if err != nil {
		return err
	}
	r := b.Registered
	m := Metadata{SubmittedAt: b.FinishedAt, Harness: "tallystick", Target: r.Target, GAIALevels: map[string]int{}, TotalQuestions: len(b.tasks),
		View: "primary", Recording: string(r.Plan.Recording), ADRs: []string{}, Mode: r.Mode,
		ToolCatalogue: []string{}, Headline: b.headline,
		Attempt: Standing{ID: r.Attempt, Number: r.Number, Of: len(b.Class), Origin: b.Origin, Level: b.Level},
		Draws:   len(b.Draws), Redraws: b.redraws()}
	if b.Finished != nil {
		m.EstCostUSD = float64(b.Finished.CostMicroUSD) / 1e6
		m.Unpriced, m.CostUntold = b.Finished.Unpriced, b.Finished.CostUntold
	}
	if data != nil {
		m.DataSet, m.GAIASplit, m.Revision = data.Name, data.Split, data.Revision
	}
	if r.Plan.Repeat > 1 {
		m.View = "majority"
	}
	var models []string
	for i := range b.tasks {
		t := &b.tasks[i]
		m.VotingAttempts = max(m.VotingAttempts, t.executions())
		for _, rec := range t.records {
			m.Abandoned += rec.Execution - 1
			m.HarnessVersion = rec.HarnessVersion
		}
		if one := b.answers[i]; one != nil {
			for _, name := range one.Result.ToolsUsed {
				m.ToolCatalogue = appendNew(m.ToolCatalogue, name)
			}
			for _, name := range one.steps.models {
				models = appendNew(models, name)
			}
			if one.Level > 0 {
				m.GAIALevels[fmt.Sprint(one.Level)]++
				m.GAIALevel = one.Level
			}
		}
	}
	m.Model = strings.Join(models, ", ")
	if len(m.GAIALevels) != 1 {
		m.GAIALevel = 0
	}
	if m.JudgeEvents, err = b.judgeEvents(); err != nil {
		return err
	}
	b.about = m
	b.files[MetadataFile], err = indented(&m)
	return err
}

// judgeEvents counts what the judge's cache gave rise to, in the list of events
// that the end of the attempt names.
func (b *builder) judgeEvents() (n int, err error) {
	if b.Finished == nil || b.Finished.Events == nil {
		return 0, nil
	}
	data, err := b.Source.Read(*b.Finished.Events)
	if err != nil {
		return 0, fmt.Errorf("the list of events: %w", err)
	}
	return audit.JudgeEvents(data)
}

// indented is JSON for people, with members in the order of their names: the one
// spelling of canon with white space.
func indented(v any) ([]byte, error) {
	data, err := canon.Marshal(v)
	if err != nil {
		return nil, err
	}
	return indent(data)
}
