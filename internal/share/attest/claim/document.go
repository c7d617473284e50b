package claim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/export"
)

// SchemaPath is where a registry publishes the schema of a body.
const SchemaPath = "/credentials/eval-run/v1"

// A Report says whether a body is valid, and where its schema is.
type Report struct {
	*attest.Report
	SchemaURL string `json:"schemaUrl"`
}

// DryRun reports on a body, or on {"kind", "body"} as registries take it, and verifies
// the runner's proof if it has one. Beside a report the error says that the body is not
// valid; without one, that the bytes are not JSON.
func DryRun(data []byte, t attest.Trust) (*Report, error) {
	body, err := Unwrap(data)
	if err != nil {
		return nil, err
	}
	r, _, err := attest.Accept(body, t)
	if r == nil {
		return nil, err
	}
	if r.Problems == nil {
		r.Problems = []attest.Problem{}
	}
	return &Report{r, SchemaPath}, err
}

// Unwrap takes the body out of what a registry takes.
func Unwrap(data []byte) ([]byte, error) {
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(data, &members); err != nil || members["body"] == nil || members["kind"] == nil {
		return data, nil // a body, or whatever the check says of it
	}
	if len(members) != 2 {
		return nil, refusal.Newf(refusal.Malformed, "found %d members beside kind and body, expected none", len(members)-2)
	}
	var kind string
	if err := canon.Unmarshal(members["kind"], &kind); err != nil {
		return nil, fmt.Errorf("kind: %w", err)
	}
	return members["body"], attest.CheckKind(kind)
}

// IsSignedBody tells a body that its runner signed from a credential.
func IsSignedBody(data []byte) bool {
	var members map[string]canon.RawMessage
	return canon.Unmarshal(data, &members) == nil && members["credentialSubject"] == nil && members["runnerDid"] != nil
}

// ResultsHashOK reports whether the resultsHash of a credential's body, or of a
// body, is that of its results, whatever else is wrong with it.
func ResultsHashOK(data []byte) bool {
	var members map[string]canon.RawMessage
	if canon.Unmarshal(data, &members) != nil {
		return false
	}
	if subject := members["credentialSubject"]; subject != nil {
		members = nil
		if canon.Unmarshal(subject, &members) != nil {
			return false
		}
	}
	sum, err := attest.ResultsHash(members["results"])
	return err == nil && bytes.Equal(members["resultsHash"], []byte(`"`+sum+`"`))
}

// DigestOf is the digest by which the ledger names a credential.
func DigestOf(data []byte) (digest.ID, error) {
	text, err := canon.Canonicalize(data)
	return digest.IDOf(text), err
}

// CheckJudges compares judgesDigest with the list of judges that the body's extra
// has, if it has one.
func CheckJudges(b *attest.Body) error {
	judges := extraOf(b)["judges"]
	if b.JudgesDigest == "" || judges == nil {
		return nil
	}
	if sum, err := hashOf(judges); err != nil || sum != b.JudgesDigest {
		return refusal.Newf(refusal.DigestMismatch, "judgesDigest is %s, and the list of judges in extra gives %s", b.JudgesDigest, sum)
	}
	return nil
}

func extraOf(b *attest.Body) map[string]canon.RawMessage {
	var extra map[string]canon.RawMessage
	if len(b.Extra) > 0 {
		_ = canon.Unmarshal(b.Extra, &extra) // it is an object: the body was checked
	}
	return extra
}

// inExtra reads a member of a member of extra, if it has that shape.
func inExtra(b *attest.Body, name, part string, to any) bool {
	var members map[string]canon.RawMessage
	return canon.Unmarshal(extraOf(b)[name], &members) == nil && canon.Unmarshal(members[part], to) == nil
}

// Remarks are what a reader of a body should not overlook.
func Remarks(b *attest.Body) []string {
	var out []string
	var counts map[string]canon.RawMessage
	var failed []string
	if inExtra(b, "imported", "checks", &counts) && canon.Unmarshal(counts["failed"], &failed) == nil {
		for _, f := range failed {
			out = append(out, "the imported files contradicted themselves: "+f)
		}
	}
	var level string
	if inExtra(b, "observed", "level", &level) {
		out = append(out, "the attempt's level is "+level)
	}
	var qualifications []string
	if inExtra(b, "observed", "qualifications", &qualifications) {
		out = append(out, qualifications...)
	}
	if b.SamplingParams == nil {
		out = append(out, "no samplingParams: the run cannot be repeated from the body alone")
	}
	return out
}

// Paths are where a registry has what a manifest is about.
type Paths struct{ Artifact, Harness, Dataset string }

// Manifest is the registry's manifest of a run: the catalogue entry beside the
// credential. It is not signed.
func Manifest(b *attest.Body, p Paths) ([]byte, error) {
	if p.Artifact == "" || p.Harness == "" || p.Dataset == "" {
		return nil, refusal.Newf(refusal.Usage, "--manifest needs --artifact, --harness-path and --dataset-path").
			WithHint("they are paths of the registry that the manifest is for, such as /artifacts/models/…")
	}
	details := map[string]any{"runner": b.HarnessID, "runId": b.RunID, "resultsHash": b.ResultsHash}
	extra := extraOf(b)
	for name, of := range map[string]string{"framework": "harnessVersion", "commitSha": "gitHash"} {
		if v := extra[of]; v != nil {
			details[name] = v
		}
	}
	if s := b.SamplingParams; s != nil && s.Seed != nil {
		details["seed"] = *s.Seed
	}
	text, err := canon.Marshal(map[string]any{
		"artifactPath": p.Artifact, "evalHarnessPath": p.Harness, "datasetPath": p.Dataset, "metrics": b.Results, "runDetails": details,
	})
	return append(text, '\n'), err
}

// ImportedBadge draws the badge of imported results: of one run, or of the first
// with how many there are.
func ImportedBadge(runs []results.Run) ([]export.File, error) {
	r := runs[0]
	value := fmt.Sprintf("%d samples", r.Samples)
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		value = fmt.Sprintf("%s %.4g", name, r.Metrics[name])
		break
	}
	if len(runs) > 1 {
		value += fmt.Sprintf(", 1 of %d runs", len(runs))
	}
	title := fmt.Sprintf("%s on %s, read from a file of %s, sha256 %s", r.Model, r.Task, r.Harness, r.Source.SHA256)
	return export.Badge(export.Label{Name: orElse(string(r.Task), r.Harness), Value: value, Imported: true, Title: title}), nil
}
