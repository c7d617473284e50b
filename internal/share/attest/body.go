package attest

import (
	_ "embed"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// Kind is what attestations of this package are of.
const Kind = "ip.eval.run.attestation.v1"

// shortKind is the other spelling of Kind, without the platform's prefix.
const shortKind = "eval.run.attestation.v1"

// CheckKind refuses every kind but the two spellings of [Kind].
func CheckKind(kind string) error {
	if kind == Kind || kind == shortKind {
		return nil
	}
	return refusal.Newf(refusal.UnknownKind, "found the kind %.80q, expected %s or %s", kind, Kind, shortKind)
}

// SchemaVersion is the version of the body that this package writes. A body may
// leave it out; one with another version is refused.
const SchemaVersion = "1.0.0"

// Schema is the JSON Schema 2020-12 of a body.
//
//go:embed eval-run.schema.json
var Schema []byte

// MaxDocument bounds, in bytes, whatever this package reads. The results of the largest HELM
// runs have a few megabytes.
const MaxDocument = 16 << 20

// A Body says of one evaluation run what was run, on what, by whom, and what came
// out. Pointers are optional members whose zero means something.
type Body struct {
	SchemaVersion string `json:"schemaVersion,omitempty"`

	// Who ran what.
	RunID             string `json:"runId"`
	HarnessID         string `json:"harnessId"`
	HarnessVersionSHA string `json:"harnessVersionSha"`
	EvalCodeSHA       string `json:"evalCodeSha"`
	ModelID           string `json:"modelId"`
	ModelVersionSHA   string `json:"modelVersionSha,omitempty"`
	DatasetSHA        string `json:"datasetSha"`
	RunnerDID         string `json:"runnerDid"`
	SandboxRunID      string `json:"sandboxRunId,omitempty"`

	// When, in milliseconds since 1970 began. SubmittedAt is when the run began.
	SubmittedAt int64  `json:"submittedAt"`
	CompletedAt *int64 `json:"completedAt,omitempty"`

	// What came out. ResultsHash is [ResultsHash] of Results.
	Results     canon.RawMessage `json:"results"`
	ResultsHash string           `json:"resultsHash"`

	// What a reader needs to judge it or run it again.
	JudgesDigest       string              `json:"judgesDigest,omitempty"`
	ContaminationCheck *ContaminationCheck `json:"contaminationCheck,omitempty"`
	ScaffoldDelta      *float64            `json:"scaffoldDelta,omitempty"`
	SamplingParams     *SamplingParams     `json:"samplingParams,omitempty"`
	MTEBTaskType       string              `json:"mtebTaskType,omitempty"`
	Extra              canon.RawMessage    `json:"extra,omitempty"`
}

// A ContaminationCheck says how the dataset was looked for in the training data.
type ContaminationCheck struct {
	Method       string   `json:"method"`
	OverlapRatio *float64 `json:"overlapRatio,omitempty"`
}

// SamplingParams are the settings without which a run cannot be repeated.
type SamplingParams struct {
	NumFewShot       *int64           `json:"numFewShot,omitempty"`
	Temperature      *float64         `json:"temperature,omitempty"`
	TopP             *float64         `json:"topP,omitempty"`
	TopK             *int64           `json:"topK,omitempty"`
	MaxTokens        *int64           `json:"maxTokens,omitempty"`
	Seed             *int64           `json:"seed,omitempty"`
	NSamples         *int64           `json:"nSamples,omitempty"`
	NTrials          *int64           `json:"nTrials,omitempty"`
	GenerationKwargs canon.RawMessage `json:"generationKwargs,omitempty"`
}

// ResultsHash is the SHA-256, in hex, of the canonical JSON of results.
func ResultsHash(results []byte) (string, error) {
	text, err := canon.Canonicalize(results)
	if err != nil {
		return "", fmt.Errorf("results: %w", err)
	}
	return hashHex(text), nil
}

func hashHex(text []byte) string {
	id := digest.IDOf(text)
	return fmt.Sprintf("%x", id[:])
}

// Encode writes the canonical bytes of a body, if it is valid.
func (b *Body) Encode() ([]byte, error) {
	text, err := canon.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encoding body: %w", err)
	}
	if _, err := ParseBody(text); err != nil {
		return nil, err
	}
	return text, nil
}

// ParseBody reads a body, in any spelling, and refuses one that breaks a rule of
// its schema, ends before it began, or has another resultsHash than its results
// give. An error about the content names every problem.
func ParseBody(data []byte) (*Body, error) {
	text, err := canonicalize("body", data)
	if err != nil {
		return nil, err
	}
	return parseBody(text)
}

// parseBody is [ParseBody] for canonical bytes.
func parseBody(text []byte) (*Body, error) {
	if err := checkBody(text).refuse(); err != nil {
		return nil, err
	}
	b := new(Body)
	if err := canon.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return b, nil
}

// canonicalize bounds a document and spells it canonically.
func canonicalize(what string, data []byte) ([]byte, error) {
	if len(data) > MaxDocument {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are read", what, len(data), MaxDocument)
	}
	text, err := canon.Canonicalize(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return text, nil
}

// A Report says whether a body is valid, and everything that is wrong with it.
type Report struct {
	Valid    bool      `json:"valid"`
	Problems []Problem `json:"errors"`
	// Mismatch is there if resultsHash is not what the results give.
	Mismatch *Mismatch `json:"resultsHashMismatch,omitempty"`
}

// A Mismatch gives the right value of a wrong resultsHash.
type Mismatch struct {
	Computed string `json:"computed"`
}

// A Problem is one rule that a body breaks. The path is a JSON pointer, empty for
// the body itself. The messages are those that the platform of the format gives.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	return strings.TrimSpace(plain.Line(p.Path) + " " + p.Message)
}

// CheckBody reports on a body in any spelling. The error is about bytes that are
// not JSON in the strict sense of docs/formats/canonical-json.md.
func CheckBody(data []byte) (*Report, error) {
	text, err := canonicalize("body", data)
	if err != nil {
		return nil, err
	}
	return checkBody(text), nil
}

func (r *Report) refuse() error {
	if r.Valid {
		return nil
	}
	var words []string
	for _, p := range r.Problems {
		words = append(words, p.String())
	}
	if r.Mismatch != nil && len(r.Problems) == 1 {
		return refusal.Newf(refusal.ResultsHashMismatch, "body: %s", words[0]).
			WithHint("the results give %s; if they are right, put that into resultsHash", r.Mismatch.Computed)
	}
	return refusal.Newf(refusal.Malformed, "body: %s", strings.Join(words, "; ")).
		WithHint(`members of your own belong in "extra", "results" or "samplingParams.generationKwargs"`)
}
