package bench

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// Bounds of rubric_limits: the harness enforces them, whatever a case asks for.
const (
	MaxRubricSeconds     = 300
	MinRubricMemoryBytes = 32 << 20 // no interpreter starts in less
	MaxRubricMemoryBytes = 4 << 30

	DefaultRubricSeconds     = 60
	DefaultRubricMemoryBytes = 1 << 30
)

// A Case is case.yaml: one input with its expected outcome, and who says so.
type Case struct {
	SchemaVersion int         `json:"schema_version"`
	CaseID        string      `json:"case_id"`
	Title         string      `json:"title"`
	Disposition   Disposition `json:"disposition"`
	Difficulty    Difficulty  `json:"difficulty"`
	Tags          []string    `json:"tags,omitempty"`
	HeldOut       *bool       `json:"held_out,omitempty"`
	Provenance    Provenance  `json:"provenance"`

	// Expected is a mapping of anything; the rubric is given it. Documents
	// that are expected lie in expected/.
	Expected canon.RawMessage `json:"expected,omitempty"`
	// Metadata is a mapping of anything, for people and rubrics; it decides
	// nothing here.
	Metadata canon.RawMessage `json:"metadata,omitempty"`

	CassetteDigest     *digest.Content    `json:"cassette_digest,omitempty"`
	CassetteProvenance CassetteProvenance `json:"cassette_provenance,omitempty"`
	// Cassettes pins what single targets replay, by the name of the target.
	Cassettes    map[string]TargetCassette `json:"cassettes,omitempty"`
	CaseDigest   *digest.Content           `json:"case_digest,omitempty"`
	RubricLimits *RubricLimits             `json:"rubric_limits,omitempty"`
}

// Disposition says what a right answer is like: the agent does the work, or it
// rightly declines, or either can be argued.
type Disposition string

// The dispositions.
const (
	Positive  Disposition = "positive"
	Negative  Disposition = "negative"
	Ambiguous Disposition = "ambiguous"
)

// Difficulty is the curator's guess.
type Difficulty string

// The difficulties.
const (
	Easy   Difficulty = "easy"
	Medium Difficulty = "medium"
	Hard   Difficulty = "hard"
)

// Provenance says where a case comes from and who vouches for it.
type Provenance struct {
	Source          Source    `json:"source"`
	SourceRef       SourceRef `json:"source_ref"`
	AddedAt         Time      `json:"added_at"`
	AddedBy         *Person   `json:"added_by,omitempty"`
	ReviewedBy      *Person   `json:"reviewed_by,omitempty"`
	LastValidatedAt Time      `json:"last_validated_at"`
}

// Source is how a case came to be.
type Source string

// The sources.
const (
	Curated             Source = "curated"
	OutcomeLedger       Source = "outcome-ledger-derived"
	RegressionConverted Source = "regression-converted"
)

// SourceRef names what the case was made from.
type SourceRef struct {
	Type  string `json:"type"` // ghsa, ledger, commit or synthetic
	Value string `json:"value"`
}

// A Person is an identity of the signers file and that person's signature over
// the case's message.
type Person struct {
	Identity  string `json:"identity"`
	Signature string `json:"signature,omitempty"` // SSHSIG, armoured
}

// CassetteProvenance says how a cassette was made. Only what was recorded
// counts as capability.
type CassetteProvenance string

// The provenances.
const (
	Recorded CassetteProvenance = "recorded"
	Edited   CassetteProvenance = "edited"
	Authored CassetteProvenance = "authored"
)

// RubricLimits ask for more, or less, than a rubric gets by default.
type RubricLimits struct {
	WallClockSeconds int64 `json:"wall_clock_seconds"`
	MemoryBytes      int64 `json:"memory_bytes"`
}

// Limits returns what the rubric gets for this case.
func (c *Case) Limits() RubricLimits {
	if c.RubricLimits != nil {
		return *c.RubricLimits
	}
	return RubricLimits{DefaultRubricSeconds, DefaultRubricMemoryBytes}
}

// IsHeldOut reports whether the case is kept from those who build agents.
func (c *Case) IsHeldOut() bool { return c.HeldOut != nil && *c.HeldOut }

// message returns what the two signatures of a case cover: everything in
// case.yaml but the signatures themselves, with the class and the digest of
// the case's files, so that no part can change or move alone.
func (c *Case) message(class string, files digest.Content) ([]byte, error) {
	bare := *c
	bare.Provenance.AddedBy = c.Provenance.AddedBy.unsigned()
	bare.Provenance.ReviewedBy = c.Provenance.ReviewedBy.unsigned()
	return canon.Marshal(struct {
		Case       *Case          `json:"case"`
		CaseDigest digest.Content `json:"case_digest"`
		Class      string         `json:"class"`
	}{&bare, files, class})
}

func (p *Person) unsigned() *Person {
	if p == nil {
		return nil
	}
	return &Person{Identity: p.Identity}
}

func (c *Case) encode() ([]byte, error) { return canon.Marshal(c) }
