package bench

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/strictyaml"
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

	// DataSet says which published data the cases were made of; nil if somebody
	// wrote them.
	DataSet *DataSet `json:"data_set,omitempty"`
	// Normalise names what does not count when an agent's model calls are looked
	// up in its recordings.
	Normalise []evidence.Normaliser `json:"normalise,omitempty"`

	// Review says what people are asked about a case; nil for whether the answer
	// is right.
	Review *Review `json:"review,omitempty"`

	// StopEarly is the question that "tally run --stop-early" answers.
	StopEarly *evidence.StopEarly `json:"stop_early,omitempty"`

	// JudgeDigest pins who judges: the digest of judge.yaml. JudgedScoresCount
	// lets the scores of that judge count.
	JudgeDigest       *digest.Content `json:"judge_digest,omitempty"`
	JudgedScoresCount bool            `json:"judged_scores_count"`
}

// A Threshold is what a tier asks of the lower bound of the score's 95 percent
// interval. Calibrated says that somebody derived it from data; a default is
// not.
type Threshold struct {
	LowerBound95 float64 `json:"lower_bound_95"`
	Calibrated   bool    `json:"calibrated"`
}

// A Gate is a threshold on the cases with one tag; the tag "*" means all.
type Gate struct {
	Tag       string  `json:"tag"`
	Metric    Metric  `json:"metric"`
	Threshold float64 `json:"threshold"`

	// MaxErrors and MaxUnscored are how many repetitions of these cases may have
	// broken (errored, truncated, not run) or may have no score (unscored) in an
	// attempt that meets the gate. Absent means none: nobody meets a gate by
	// breaking the cases that would fail it.
	MaxErrors   int `json:"max_errors,omitempty"`
	MaxUnscored int `json:"max_unscored,omitempty"`
}

// A Metric is what a gate looks at.
type Metric string

// The metrics. For the costs, latencies and violations the threshold is the
// most that is allowed, for the others the least.
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

// Limits that no registration may pass, chosen so that a typing mistake does
// not occupy a machine for a month.
const (
	maxWallClockSeconds = 24 * 60 * 60
	maxMemoryBytes      = 1 << 40
	maxCount            = 1 << 40
	maxKeptBytes        = 512 << 20 // a trajectory has room for no more
	maxEvents           = 900_000
)

func (r *Registration) validate() error {
	if r.Version != 1 {
		return badField("version", "found %d, this program knows 1", r.Version)
	}
	if err := CheckID(r.Class); err != nil {
		return badField("class", "%w", err)
	}
	if r.Title != "" {
		if err := checkText("title", r.Title, maxTitle); err != nil {
			return err
		}
	}
	for _, check := range []error{
		oneOf("trust", r.Trust, Signed, Scratch),
		oneOf("current_tier", r.CurrentTier, Tiers()...),
		oneOf("governance", r.Governance, Restricted, Approved, Autonomous),
		r.validateTiers(), r.validateGates(), r.validateNames(), r.Limits.validate(), r.Isolation.validate(), r.validateOrigins(),
		CheckAgentTools("agent_tools", r.AgentTools), r.DataSet.validate(), r.Review.validate(),
	} {
		if check != nil {
			return check
		}
	}
	if r.StopEarly != nil {
		if err := r.StopEarly.Validate(); err != nil {
			return badField("stop_early", "%w", err)
		}
	}
	if at, err := evidence.CheckNormalisers(r.Normalise); err != nil {
		return badField(fieldAt("normalise", at), "%w", err)
	}
	if d := r.PromotionWindowDays; d < 0 || d > MaxPromotionWindow {
		return badField("promotion_window_days", "found %d, expected 1 to %d, or nothing for the default", d, MaxPromotionWindow)
	}
	if r.Policy != nil && !strings.HasPrefix(string(r.Policy), "{") {
		return badField("policy", "expected a mapping: docs/formats/policy.md has its keys")
	}
	if r.JudgedScoresCount && r.JudgeDigest == nil {
		return badField("judged_scores_count", "found true and no judge_digest, expected the digest of judge.yaml: people sign for a judge and not for any")
	}
	return nil
}

func (r *Registration) validateTiers() error {
	for _, t := range slices.Sorted(keysOf(r.Thresholds)) {
		if err := oneOf("thresholds."+string(t), t, Tiers()...); err != nil {
			return err
		}
		if v := r.Thresholds[t].LowerBound95; !(v > 0 && v <= 1) {
			return badField("thresholds."+string(t)+".lower_bound_95", "found %v, expected more than 0 and at most 1", v)
		}
	}
	for _, t := range slices.Sorted(keysOf(r.MinimumCases)) {
		if err := oneOf("minimum_cases."+string(t), t, Tiers()...); err != nil {
			return err
		}
		if n := r.MinimumCases[t]; n < 1 || n > maxCount {
			return badField("minimum_cases."+string(t), "found %d, expected at least 1", n)
		}
	}
	// A higher tier that asks for less would be reached before the lower one.
	for i, t := range Tiers()[1:] {
		below := Tiers()[i]
		if a, b := r.Threshold(below).LowerBound95, r.Threshold(t).LowerBound95; b < a {
			return badField("thresholds", "%s asks for %v and %s for %v, expected a higher tier to ask for no less", below, a, t, b)
		}
		if a, b := r.Minimum(below), r.Minimum(t); b < a {
			return badField("minimum_cases", "%s asks for %d and %s for %d, expected a higher tier to ask for no less", below, a, t, b)
		}
	}
	return nil
}

func (r *Registration) validateGates() error {
	seen := map[string]bool{}
	for i, g := range r.Gates {
		at := fieldAt("gates", i)
		if g.Tag != "*" {
			if err := CheckID(g.Tag); err != nil {
				return badField(at+".tag", "%w", err)
			}
		}
		if err := oneOf(at+".metric", g.Metric, SolveRate, MeanScore, LowerBound95, CostPerSolve, MedianLatencyMS, P95LatencyMS, PolicyViolations, EvidenceCoverage, RollbackCorrectness); err != nil {
			return err
		}
		if g.Threshold < 0 {
			return badField(at+".threshold", "found %v, expected 0 or more", g.Threshold)
		}
		for _, most := range []struct {
			name string
			n    int
		}{{"max_errors", g.MaxErrors}, {"max_unscored", g.MaxUnscored}} {
			if most.n < 0 || most.n > maxCount {
				return badField(at+"."+most.name, "found %d, expected 0 or more", most.n)
			}
		}
		if key := g.Tag + " " + string(g.Metric); seen[key] {
			return badField(at, "tag %q and metric %s have a gate already", g.Tag, g.Metric)
		} else {
			seen[key] = true
		}
	}
	return nil
}

// validateNames refuses names under which a score could smuggle in a model's
// opinion of itself.
func (r *Registration) validateNames() error {
	for _, mode := range slices.Sorted(keysOf(r.FailureModes)) {
		if err := checkName("failure_modes."+mode, mode); err != nil {
			return err
		}
		if err := oneOf("failure_modes."+mode, r.FailureModes[mode], evidence.Block, evidence.Warn, evidence.Info); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for i, key := range r.Breakdown {
		if err := checkName(fieldAt("breakdown", i), key); err != nil {
			return err
		}
		if seen[key] {
			return badField(fieldAt("breakdown", i), "%q is listed twice", key)
		}
		seen[key] = true
	}
	return nil
}

// checkName checks the name of a failure mode, a breakdown key or a tag.
func checkName(path, name string) error {
	if err := CheckID(name); err != nil {
		return strictyaml.At(splitLast(path, name), err)
	}
	if word := evidence.BannedWord(name); word != "" {
		return strictyaml.At(splitLast(path, name), bannedError(name, word))
	}
	return nil
}

func (l *Limits) validate() error {
	for _, f := range []struct {
		name     string
		value    int64
		min, max int64
	}{
		{"wall_clock_seconds", l.WallClockSeconds, 1, maxWallClockSeconds},
		{"memory_bytes", l.MemoryBytes, 1 << 20, maxMemoryBytes},
		{"turns", l.Turns, 1, maxCount},
		{"tokens", l.Tokens, 1, maxCount},
		{"cost_microdollars", l.CostMicroUSD, 0, maxCount},
		{"kept_bytes", cmp.Or(l.KeptBytes, 1<<20), 1 << 20, maxKeptBytes},
		{"events", cmp.Or(l.Events, 100), 100, maxEvents},
		{"read_bytes", cmp.Or(l.ReadBytes, 1<<20), 1 << 20, maxCount},
	} {
		if f.value < f.min || f.value > f.max {
			return badField("limits."+f.name, "found %d, expected %d to %d", f.value, f.min, f.max)
		}
	}
	return nil
}

// CountsForPromotion reports whether what ran in an isolation class can raise a
// tier. What is not a class cannot.
func CountsForPromotion(class string) bool { return isolation.Promotes(class) }

func (i *Isolation) validate() error {
	if len(i.Classes) == 0 {
		return badField("isolation.classes", "is empty; name at least one class")
	}
	seen := map[string]bool{}
	for n, c := range i.Classes {
		if err := oneOf(fieldAt("isolation.classes", n), c, isolation.Names()...); err != nil {
			return err
		}
		if seen[c] {
			return badField(fieldAt("isolation.classes", n), "%q is listed twice", c)
		}
		seen[c] = true
	}
	return oneOf("isolation.scope", i.Scope, "case", "attempt")
}

func (r *Registration) validateOrigins() error {
	for i, o := range r.Origins {
		if err := evidence.CheckOrigin(o); err != nil {
			return badField(fieldAt("origins", i), "%w", err)
		}
	}
	for i, k := range r.RunnerKeys {
		if err := checkRunnerKey(k); err != nil {
			return badField(fieldAt("runner_keys", i), "%w", err)
		}
	}
	return nil
}

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
