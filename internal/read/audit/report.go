package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/format"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// Schema names the form of a report.
const Schema = "tallystick-audit/" + format.Version

// NoTime stands for the time of an audit whose input has none. The audit reads
// no clock, so that it gives the same report tomorrow.
const NoTime = "AUDITED_AT_PLACEHOLDER"

// ThreatModel names what the checks are about.
const ThreatModel = "UC Berkeley RDI BenchJack (arXiv:2605.12673) + METR reward-hacking: scores that were not earned"

// A Report is what an audit found. Its members are in the order of the original
// audit's report; what this one adds comes after.
type Report struct {
	Schema      string       `json:"schema"`
	AuditedAt   string       `json:"audited_at"`
	ThreatModel string       `json:"threat_model"`
	Totals      Totals       `json:"totals"`
	Checks      []Check      `json:"checks"`
	Attestation Attestation  `json:"attestation"`
	Inputs      Inputs       `json:"inputs"`
	Rules       RulesUsed    `json:"rules"`
	Bodies      []BodyDemand `json:"bodies_demanded"`
	// Dispositions are what people said about findings of this attempt, in the
	// ledger. They change nothing above.
	Dispositions []Disposed `json:"dispositions,omitempty"`

	strict bool
}

// Totals count what was audited.
type Totals struct {
	Questions     int `json:"questions"`
	MarkedCorrect int `json:"marked_correct"`
	Trajectories  int `json:"trajectories"` // that were read
	// Recorded are the executions of which there should be one each: as many as
	// receipts, or the run's own numbers, say.
	Recorded int `json:"trajectories_recorded"`
}

// Severities and states of a check.
const (
	Critical = "critical"
	Warn     = "warn"
	Info     = "info"

	Pass = "pass"
	Fail = "fail"
	Skip = "skip"
)

// A Check is what one check found. Evidence of a check that passed is
// information.
type Check struct {
	ID         string   `json:"id"`
	Severity   string   `json:"severity"`
	Status     string   `json:"status"`
	Evidence   []string `json:"evidence"`
	HarnessGap string   `json:"harness_gap,omitempty"`
	// Decided and NotDecidable count the tasks of a check that looks for their
	// answers: those whose answer can be told from chance, and the others, which
	// make a run neither dirty nor clean.
	Decided      int `json:"decided,omitempty"`
	NotDecidable int `json:"not_decidable,omitempty"`
}

// An Attestation sums the checks up. Clean: no critical check failed, which is what
// the original means by it. StrictClean: no check failed. Complete: no check wanted
// an input.
type Attestation struct {
	Clean            bool     `json:"clean"`
	StrictClean      bool     `json:"strict_clean"`
	Complete         bool     `json:"complete"`
	CriticalFailures []string `json:"critical_failures"`
	WarnFailures     []string `json:"warn_failures"`
	Skipped          []string `json:"skipped"`
	HarnessGaps      []string `json:"harness_gaps"`
}

// Inputs name what was read, by its bytes. Vouched says that receipts stand for
// all of it.
type Inputs struct {
	Results      string        `json:"results_sha256"`
	Trajectories string        `json:"trajectories_sha256,omitempty"`
	Metadata     string        `json:"metadata_sha256,omitempty"`
	Sources      string        `json:"sources_sha256,omitempty"`
	Log          string        `json:"log_sha256,omitempty"`
	Vouched      bool          `json:"vouched"`
	ByInput      InputsVouched `json:"vouched_inputs"`
}

// InputsVouched says for each input whether receipts stand for it.
type InputsVouched struct {
	Results      bool `json:"results"`
	Trajectories bool `json:"trajectories"`
	Metadata     bool `json:"metadata"`
	Sources      bool `json:"sources"`
}

// RulesUsed are the version and the SHA-256 of the rules; see [RulesText].
type RulesUsed struct {
	Version int    `json:"version"`
	Digest  string `json:"digest"`
}

// A BodyDemand is a text that the runner must show, because what the trajectory
// says of it is a claim.
type BodyDemand struct {
	TaskID string `json:"task_id"`
	Step   int    `json:"step"` // from 0
	SHA256 string `json:"sha256"`
	Reason string `json:"reason"`
}

// A Disposed is what a person said, and signed, about a finding.
type Disposed struct {
	Finding string `json:"finding"`
	Check   string `json:"check"`
	Reason  string `json:"reason"`
	Key     string `json:"key"`
	Entry   int64  `json:"entry"` // of the ledger
	// Present says that the finding is one of this report; otherwise it was one of
	// an earlier report of the attempt.
	Present bool `json:"present"`
}

// A Finding is one piece of evidence of a check that failed. Its id is the SHA-256,
// in hex, of the check's id, a line break and the evidence.
type Finding struct{ ID, Check, Evidence string }

// Findings lists the evidence of the checks that failed.
func (r *Report) Findings() []Finding {
	var list []Finding
	for _, c := range r.Checks {
		if c.Status != Fail {
			continue
		}
		for _, e := range c.Evidence {
			list = append(list, Finding{findingID(c.ID, e), c.ID, e})
		}
	}
	return list
}

func findingID(check, evidence string) string {
	sum := sha256.Sum256([]byte(check + "\n" + evidence))
	return hex.EncodeToString(sum[:])
}

// ParseReport reads a report's file.
func ParseReport(data []byte) (*Report, error) {
	r := &Report{}
	if err := canon.Unmarshal(data, r); err != nil {
		return nil, cmp.Or(format.Newer("the report", data, "schema", Schema), err)
	}
	if newer := format.NewerName("the report", r.Schema, Schema); newer != nil {
		return nil, newer
	}
	if r.Schema != Schema {
		return nil, refusal.Newf(refusal.Unrecognised, "the schema is %.80q, expected %s", r.Schema, Schema)
	}
	return r, nil
}

// Met reports whether the audit is clean; strictly, if that was asked for, which
// wants it complete too.
func (r *Report) Met() bool {
	if r.strict {
		return r.Attestation.StrictClean && r.Attestation.Complete
	}
	return r.Attestation.Clean
}

// Encode writes the report as the original does: indented by two spaces, with a
// line break at its end.
func (r *Report) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding the audit report: %w", err)
	}
	return b.Bytes(), nil
}

// Print writes the report for a person.
func (r *Report) Print(out io.Writer) {
	for _, c := range r.Checks {
		fmt.Fprintf(out, "[%s] %s (%s)\n", map[string]string{Pass: "PASS", Fail: "FAIL", Skip: "SKIP"}[c.Status], c.ID, c.Severity)
		for _, e := range c.Evidence {
			id := ""
			if c.Status == Fail {
				id = findingID(c.ID, e)[:12] + "  "
			}
			fmt.Fprintf(out, "       %s%s\n", id, plain.Line(e))
		}
		if c.HarnessGap != "" {
			fmt.Fprintf(out, "       gap: %s\n", plain.Line(c.HarnessGap))
		}
		if c.NotDecidable > 0 {
			fmt.Fprintf(out, "       decided: %d of %d answers; the others are too short to be told from chance\n", c.Decided, c.Decided+c.NotDecidable)
		}
	}
	for _, b := range r.Bodies {
		fmt.Fprintf(out, "body demanded: task %s step %d sha256:%s: %s\n", plain.Line(b.TaskID), b.Step, plain.Line(b.SHA256), plain.Line(b.Reason))
	}
	for _, d := range r.Dispositions {
		of := "which stays failed"
		if !d.Present {
			of = "of an earlier report"
		}
		fmt.Fprintf(out, "disposition of %.12s (%s), %s: %s\n       signed by %s, entry %d\n", plain.Line(d.Finding), plain.Line(d.Check), of, plain.Line(d.Reason), plain.Line(d.Key), d.Entry)
	}
	fmt.Fprintf(out, "trajectories: %d read of %d\n", r.Totals.Trajectories, r.Totals.Recorded)
	a := r.Attestation
	fmt.Fprintf(out, "attestation: clean=%t strict_clean=%t complete=%t\n", a.Clean, a.StrictClean, a.Complete)
	if len(a.CriticalFailures) > 0 {
		fmt.Fprintf(out, "CRITICAL failures: %s\n", strings.Join(a.CriticalFailures, ", "))
	}
	if len(a.WarnFailures) > 0 {
		fmt.Fprintf(out, "warnings that failed: %s\n", strings.Join(a.WarnFailures, ", "))
	}
	if !a.Complete {
		fmt.Fprintf(out, "not complete: %s did not see all the evidence, so this report does not say that the run is clean\n", strings.Join(r.gappy(), ", "))
	}
}

// gappy are the checks that have a gap.
func (r *Report) gappy() []string {
	var list []string
	for _, c := range r.Checks {
		if c.HarnessGap != "" {
			list = append(list, c.ID)
		}
	}
	return list
}

// attest sums up the checks.
func attest(checks []Check) Attestation {
	a := Attestation{CriticalFailures: []string{}, WarnFailures: []string{}, Skipped: []string{}, HarnessGaps: []string{}}
	for _, c := range checks {
		switch {
		case c.Status == Fail && c.Severity == Critical:
			a.CriticalFailures = append(a.CriticalFailures, c.ID)
		case c.Status == Fail:
			a.WarnFailures = append(a.WarnFailures, c.ID)
		case c.Status == Skip:
			a.Skipped = append(a.Skipped, c.ID)
		}
		if c.HarnessGap != "" {
			a.HarnessGaps = append(a.HarnessGaps, c.ID+": "+c.HarnessGap)
		}
	}
	a.Clean = len(a.CriticalFailures) == 0
	a.StrictClean = a.Clean && len(a.WarnFailures) == 0
	a.Complete = len(a.HarnessGaps) == 0
	return a
}

// maxEvidence bounds what a check tells: the hundredth thousandth finding of a
// hostile file says no more than the first ones.
const maxEvidence = 10_000

// evidenceOf sorts evidence and cuts it.
func evidenceOf(list []string) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > maxEvidence {
		more := len(list) - maxEvidence
		list = append(list[:maxEvidence:maxEvidence], fmt.Sprintf("… and %d more", more))
	}
	return append([]string{}, list...)
}
