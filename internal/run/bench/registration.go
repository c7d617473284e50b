package bench

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/sandbox/isolation"
)

// Trust says whether people vouch for a class.
type Trust string

// The two kinds of trust. A scratch class runs at once, is labelled everywhere
// and never counts for promotion.
const (
	Signed  Trust = "signed"
	Scratch Trust = "scratch"
)

// Tier is how far a task class is trusted.
type Tier string

// The tiers, lowest first.
const (
	Bronze   Tier = "bronze"
	Silver   Tier = "silver"
	Gold     Tier = "gold"
	Platinum Tier = "platinum"
)

// Tiers lists the tiers, lowest first.
func Tiers() []Tier { return []Tier{Bronze, Silver, Gold, Platinum} }

// A Registration is registration.yaml: what the people who signed it agreed a
// task class is, and what it takes to move up.
type Registration struct {
	Version int    `json:"version"`
	Class   string `json:"class"`
	Title   string `json:"title,omitempty"`
	Trust   Trust  `json:"trust"`

	// The tier is changed by people who edit the file and sign the manifest.
	// No code writes this field; a test sees to it.
	CurrentTier Tier `json:"current_tier"`

	Thresholds   map[Tier]Threshold           `json:"thresholds,omitempty"`
	MinimumCases map[Tier]int                 `json:"minimum_cases,omitempty"`
	Gates        []Gate                       `json:"gates,omitempty"`
	FailureModes map[string]evidence.Severity `json:"failure_modes,omitempty"`
	Breakdown    []string                     `json:"breakdown,omitempty"` // the keys that a score may have
	Limits       Limits                       `json:"limits"`
	Governance   Governance                   `json:"governance"`
	Isolation    Isolation                    `json:"isolation"`

	// Policy is a policy document (docs/formats/policy.md) in place of the one
	// that the governance mode stands for. Its mode must be that mode.
	Policy canon.RawMessage `json:"policy,omitempty"`

	// Which ledgers and which runners' keys count for promotion. Without
	// origins no ledger is singled out; without keys no runner is.
	Origins    []string `json:"origins,omitempty"`
	RunnerKeys []string `json:"runner_keys,omitempty"`

	// PromotionWindowDays is how far back evidence counts for promotion; zero
	// leaves it to the rules of promotion.
	PromotionWindowDays int `json:"promotion_window_days,omitempty"`

	// AgentTools are tools that agents of this class have in their own process,
	// beside those of a case. Checks of tool calls may name them, and no others
	// but those of the case.
	AgentTools []string `json:"agent_tools,omitempty"`

	// DataSet says which published data the cases were made of; nil if a person
	// wrote them.
	DataSet *DataSet `json:"data_set,omitempty"`
	// Normalise names what does not count when an agent's model calls are looked
	// up in its recordings.
	Normalise []evidence.Normaliser `json:"normalise,omitempty"`

	// ModelEndpoints are the servers whose replies count as a model's: a recording of
	// any other does not count for promotion.
	ModelEndpoints []ModelEndpoint `json:"model_endpoints,omitempty"`

	// Review says what people are asked about a case; nil for whether the answer
	// is right.
	Review *Review `json:"review,omitempty"`

	// StopEarly is the question that "tally run --stop-early" answers.
	StopEarly *evidence.StopEarly `json:"stop_early,omitempty"`

	// Floor is what null answers score in the class; "bench import" writes it, and every
	// scorecard of the class says it.
	Floor *evidence.Floor `json:"floor,omitempty"`

	// JudgeDigest pins who judges: the digest of judge.yaml. JudgedScoresCount
	// lets the scores of that judge count.
	JudgeDigest       *digest.Content `json:"judge_digest,omitempty"`
	JudgedScoresCount bool            `json:"judged_scores_count"`

	// UserDigest pins who plays the users of cases where a model does: the digest of
	// user.yaml with the template of the prompt.
	UserDigest *digest.Content `json:"user_digest,omitempty"`
}

// A Threshold is what a tier asks of the lower bound of the score's 95 percent
// interval. Calibrated says that a person derived it from data; a default is
// not derived.
type Threshold struct {
	LowerBound95 float64 `json:"lower_bound_95"`
	Calibrated   bool    `json:"calibrated"`
}

// A Gate is a threshold on the cases with one tag; the tag "*" means all.
type Gate struct {
	Tag       string  `json:"tag"`
	Metric    Metric  `json:"metric"`
	Threshold float64 `json:"threshold"`

	// MaxErrors and MaxUnscored are how many repetitions of these cases may
	// have broken (errored, truncated, not run) or may have no score (unscored)
	// in an attempt that meets the gate. Absent means none: an agent cannot
	// meet a gate by breaking the cases that would fail it.
	MaxErrors   int `json:"max_errors,omitempty"`
	MaxUnscored int `json:"max_unscored,omitempty"`
}

// A Metric is what a gate looks at.
type Metric string

// The metrics.
const (
	SolveRate        Metric = "solve_rate"
	MeanScore        Metric = "mean_score"
	LowerBound95     Metric = "lower_bound_95"
	CostPerSolve     Metric = "cost_per_solve"
	MedianLatencyMS  Metric = "median_latency_ms"
	P95LatencyMS     Metric = "p95_latency_ms"
	PolicyViolations Metric = "policy_violations"
	EvidenceCoverage Metric = "evidence_coverage"

	RollbackCorrectness Metric = "rollback_correctness"
)

// AtMost reports whether the threshold of a metric is the most that is allowed;
// otherwise it is the least. Every text that states a gate asks here.
func (m Metric) AtMost() bool {
	switch m {
	case CostPerSolve, MedianLatencyMS, P95LatencyMS, PolicyViolations:
		return true
	}
	return false
}

// Limit states a threshold of the metric: "at least 0.9", "at most 0".
func (m Metric) Limit(threshold float64) string {
	if m.AtMost() {
		return "at most " + plain.Number(threshold)
	}
	return "at least " + plain.Number(threshold)
}

// Text states the gate: "policy_violations of all cases at most 0".
func (g Gate) Text() string {
	return fmt.Sprintf("%s of %s %s", g.Metric, TagText(g.Tag), g.Metric.Limit(g.Threshold))
}

// TagText names the cases that a gate is about.
func TagText(tag string) string {
	if tag == "*" {
		return "all cases"
	}
	return "tag " + tag
}

// Limits bound one case. Cost is in millionths of a dollar.
type Limits struct {
	WallClockSeconds int64 `json:"wall_clock_seconds"`
	MemoryBytes      int64 `json:"memory_bytes"`
	Turns            int64 `json:"turns"`
	Tokens           int64 `json:"tokens"`
	CostMicroUSD     int64 `json:"cost_microdollars"`

	// What an agent may make the harness keep and read; absent means the
	// defaults of package session.
	KeptBytes int64 `json:"kept_bytes,omitempty"`
	Events    int64 `json:"events,omitempty"`
	ReadBytes int64 `json:"read_bytes,omitempty"`
}

// Governance is how much an agent may do without asking.
type Governance string

// The modes.
const (
	Restricted Governance = "restricted"
	Approved   Governance = "approved"
	Autonomous Governance = "autonomous"
)

// Isolation says which sandboxes the rubric may run in.
type Isolation struct {
	Classes []string `json:"classes"` // accepted, the wanted one first
	Scope   string   `json:"scope"`   // case or attempt
	// AllowWeaker lets a run fall to a class that is not listed when none of
	// these starts. Its records say so and do not count.
	AllowWeaker bool `json:"allow_weaker"`
}

// defaultThresholds were chosen arbitrarily, which is why every one of them is
// marked as not calibrated.
var defaultThresholds = map[Tier]float64{Bronze: 0.60, Silver: 0.75, Gold: 0.90, Platinum: 0.95}

// defaultMinimumCases has the numbers of the design for the first three tiers;
// that of platinum was chosen arbitrarily.
var defaultMinimumCases = map[Tier]int{Bronze: 10, Silver: 30, Gold: 100, Platinum: 300}

// Threshold returns what the tier asks for, the default if the file says
// nothing.
func (r *Registration) Threshold(t Tier) Threshold {
	if th, ok := r.Thresholds[t]; ok {
		return th
	}
	return Threshold{LowerBound95: defaultThresholds[t]}
}

// Minimum returns how many cases the tier asks for, the default if the file
// says nothing.
func (r *Registration) Minimum(t Tier) int {
	return cmp.Or(r.MinimumCases[t], defaultMinimumCases[t])
}

// MaxPromotionWindow is the most days that evidence may be old: what an agent
// could do a year ago says little about today.
const MaxPromotionWindow = 366

// CountsForPromotion reports whether what ran in an isolation class can raise a
// tier. What is not a class cannot.
func CountsForPromotion(class string) bool { return isolation.Promotes(class) }

// maxAgentTools bounds the tools of an agent.
const maxAgentTools = 1000

// CheckAgentTools checks a list of names of tools that an agent has itself.
func CheckAgentTools(path string, names []string) error {
	if len(names) > maxAgentTools {
		return badField(path, "has %d names, expected at most %d", len(names), maxAgentTools)
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch at := fieldAt(path, i); {
		case name == "" || len(name) > maxToolName || strings.ContainsFunc(name, unicode.IsControl):
			return badField(at, "is %.80q, expected a name of 1 to %d bytes without control characters", name, maxToolName)
		case seen[name]:
			return badField(at, "%q is listed twice", name)
		}
		seen[name] = true
	}
	return nil
}

// maxToolName is as long as the name of a tool may be in an event.
const maxToolName = 200
