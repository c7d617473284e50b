package bench

import (
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/strictyaml"
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

// Limits of texts in a case.
const (
	maxTitle    = 300
	maxRef      = 500
	maxIdentity = 255
	maxTags     = 64
)

func (c *Case) validate() error {
	if c.SchemaVersion != 1 {
		return badField("schema_version", "found %d, this program knows 1", c.SchemaVersion)
	}
	if err := CheckID(c.CaseID); err != nil {
		return badField("case_id", "%w", err)
	}
	for _, check := range []error{
		checkText("title", c.Title, maxTitle),
		oneOf("disposition", c.Disposition, Positive, Negative, Ambiguous),
		oneOf("difficulty", c.Difficulty, Easy, Medium, Hard),
		c.validateTags(), c.Provenance.validate(), c.validateCassette(), c.validateLimits(),
	} {
		if check != nil {
			return check
		}
	}
	if c.Expected != nil && !strings.HasPrefix(string(c.Expected), "{") {
		return badField("expected", "expected a mapping")
	}
	if c.Metadata != nil && !strings.HasPrefix(string(c.Metadata), "{") {
		return badField("metadata", "expected a mapping")
	}
	return nil
}

func (c *Case) validateTags() error {
	if len(c.Tags) > maxTags {
		return badField("tags", "found %d tags, expected at most %d", len(c.Tags), maxTags)
	}
	seen := map[string]bool{}
	for i, tag := range c.Tags {
		if err := checkName(fieldAt("tags", i), tag); err != nil {
			return err
		}
		if seen[tag] {
			return badField(fieldAt("tags", i), "%q is listed twice", tag)
		}
		seen[tag] = true
	}
	return nil
}

func (p *Provenance) validate() error {
	for _, check := range []error{
		oneOf("provenance.source", p.Source, Curated, OutcomeLedger, RegressionConverted),
		oneOf("provenance.source_ref.type", p.SourceRef.Type, "ghsa", "ledger", "commit", "synthetic"),
		checkText("provenance.source_ref.value", p.SourceRef.Value, maxRef),
		p.AddedBy.validate("provenance.added_by"), p.ReviewedBy.validate("provenance.reviewed_by"),
	} {
		if check != nil {
			return check
		}
	}
	if p.LastValidatedAt.Go().Before(p.AddedAt.Go()) {
		return badField("provenance.last_validated_at", "found %s, which is before added_at, %s", p.LastValidatedAt, p.AddedAt)
	}
	return nil
}

func (p *Person) validate(path string) error {
	if p == nil {
		return nil
	}
	return checkText(path+".identity", p.Identity, maxIdentity)
}

func (c *Case) validateCassette() error {
	for _, target := range slices.Sorted(keysOf(c.Cassettes)) {
		err := CheckID(target)
		if err == nil {
			err = oneOf("provenance", c.Cassettes[target].Provenance, Recorded, Edited, Authored)
		}
		if err != nil {
			return strictyaml.At([]string{"cassettes", target}, err)
		}
	}
	if c.CassetteDigest == nil {
		if c.CassetteProvenance != "" {
			return badField("cassette_provenance", "found %q and there is no cassette_digest", string(c.CassetteProvenance))
		}
		return nil
	}
	return oneOf("cassette_provenance", c.CassetteProvenance, Recorded, Edited, Authored)
}

func (c *Case) validateLimits() error {
	l := c.RubricLimits
	if l == nil {
		return nil
	}
	if l.WallClockSeconds < 1 || l.WallClockSeconds > MaxRubricSeconds {
		return badField("rubric_limits.wall_clock_seconds", "found %d, expected 1 to %d", l.WallClockSeconds, MaxRubricSeconds)
	}
	if l.MemoryBytes < MinRubricMemoryBytes || l.MemoryBytes > MaxRubricMemoryBytes {
		return badField("rubric_limits.memory_bytes", "found %d, expected %d to %d", l.MemoryBytes, MinRubricMemoryBytes, int64(MaxRubricMemoryBytes))
	}
	return nil
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
