package registry

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

// An Attested is what the credential of an evaluation says that it is about, so that a
// row shows it beside the paths that its proposer chose.
type Attested struct {
	RunID          string `json:"runId"`
	ModelID        string `json:"modelId"`
	ModelVersion   string `json:"modelVersionSha,omitempty"`
	DatasetSHA     string `json:"datasetSha"`
	HarnessID      string `json:"harnessId"`
	HarnessVersion string `json:"harnessVersionSha"`
	Runner         string `json:"runnerDid"`
	// RunnerProof says whether the runner signed the body, or who proposed it only
	// claims that it was this one.
	RunnerProof string `json:"runnerProof"` // signed or claimed
	Issuer      string `json:"issuer"`
	// Disagrees are the paths of the row that the body does not name. Such a proposal is
	// refused; rows from before that say it.
	Disagrees []string `json:"disagrees,omitempty"`
}

// Words for who says who ran it.
const (
	RunnerSigned  = "signed"
	RunnerClaimed = "claimed"
)

// attestedIn reads a credential that was verified when it was proposed; nil if there is
// none any more.
func attestedIn(data []byte) *Attested {
	var doc struct {
		Issuer  any `json:"issuer"`
		Subject struct {
			Attested
			Proof canon.RawMessage `json:"proof"`
		} `json:"credentialSubject"`
	}
	if data == nil || looseUnmarshal(data, &doc) != nil {
		return nil
	}
	a := &doc.Subject.Attested
	a.Issuer, _ = doc.Issuer.(string)
	a.RunnerProof, a.Disagrees = RunnerClaimed, nil
	if doc.Subject.Proof != nil || a.Issuer == a.Runner {
		a.RunnerProof = RunnerSigned
	}
	return a
}

// attestedOf is what a body says that it is about.
func attestedOf(b *attest.Body) Attested {
	return Attested{RunID: b.RunID, ModelID: b.ModelID, ModelVersion: b.ModelVersionSHA, DatasetSHA: b.DatasetSHA, HarnessID: b.HarnessID, HarnessVersion: b.HarnessVersionSHA, Runner: b.RunnerDID}
}

// subjectOf is the body in a credential that was verified.
func subjectOf(credential []byte) ([]byte, error) {
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(credential, &members); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the credential: %w", err)
	}
	return members["credentialSubject"], nil
}

// segmentsOf are the names in a model id or harness id, as a path would spell them:
// without the scheme, and without a revision after @.
func segmentsOf(id string) []string {
	if _, rest, found := strings.Cut(id, "://"); found {
		id = rest
	}
	id, _, _ = strings.Cut(id, "@")
	var out []string
	for _, s := range strings.FieldsFunc(id, func(r rune) bool { return r == '/' || r == ':' }) {
		if s = plain.Fold(strings.Trim(s, " ")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// below are the names of a path after its root.
func below(path string) []string {
	all := strings.Split(plain.Fold(path), "/")
	return all[min(3, len(all)):]
}

// namesModel reports whether a path below /artifacts/models is that of a model id:
// a proposer chooses the path, and must not choose another model. The path
// has the names of the id and nothing else, but for the scheme, such as huggingface, as
// a folder; an id of one name may lie in one folder.
func namesModel(path, id string) bool {
	names, parts := segmentsOf(id), below(path)
	scheme, _, found := strings.Cut(id, "://")
	switch {
	case len(names) == 0:
		return false
	case found && len(parts) > 1 && parts[0] == plain.Fold(scheme):
		return slices.Equal(names, parts[1:])
	case len(names) == 1 && len(parts) == 2:
		return names[0] == parts[1]
	}
	return slices.Equal(names, parts)
}

// namesHarness reports whether the names of a harness id stand in a path, at its end or
// before a version.
func namesHarness(path, id string) bool {
	names, parts := segmentsOf(id), below(path)
	for _, end := range []int{len(parts), len(parts) - 1} {
		if len(names) > 0 && len(names) <= end && slices.Equal(names, parts[end-len(names):end]) {
			return true
		}
	}
	return false
}

// disagreements lists the paths that a body does not name, or whose manifest states
// something else than the body does. The manifests are those of the catalogue, nil
// where one was taken down.
func (a *Attested) disagreements(p claim.Paths, manifest func(path string) []byte) []string {
	var out []string
	if strings.HasPrefix(p.Artifact, "/artifacts/models/") {
		states := map[string]string{"modelId": a.ModelID, "modelVersionSha": a.ModelVersion}
		if !namesModel(p.Artifact, a.ModelID) || contradicts(manifest(p.Artifact), states) {
			out = append(out, "artifactPath")
		}
	}
	if !namesHarness(p.Harness, a.HarnessID) || contradicts(manifest(p.Harness), map[string]string{"harnessId": a.HarnessID, "harnessVersionSha": a.HarnessVersion}) {
		out = append(out, "evalHarnessPath")
	}
	if contradicts(manifest(p.Dataset), map[string]string{"datasetSha": a.DatasetSHA}) {
		out = append(out, "datasetPath")
	}
	return out
}

// contradicts reports whether a manifest states one of the members with another value.
// What the body does not say contradicts nothing.
func contradicts(manifest []byte, states map[string]string) bool {
	var members map[string]any
	if manifest == nil || looseUnmarshal(manifest, &members) != nil {
		return false
	}
	for name, value := range states {
		if said, there := members[name]; there && value != "" && said != value {
			return true
		}
	}
	return false
}

// belongs refuses a draft whose body names another model, data set or harness than its
// paths do.
func (r *Registry) belongs(a *Attested, p claim.Paths) error {
	disagree := a.disagreements(p, r.manifestOf)
	if len(disagree) == 0 {
		return nil
	}
	said := map[string]string{
		"artifactPath":    fmt.Sprintf("the body is about the model %.120q, and artifactPath is %.120q", a.ModelID, p.Artifact),
		"evalHarnessPath": fmt.Sprintf("the body is about the harness %.120q of %.20q, and evalHarnessPath is %.120q", a.HarnessID, a.HarnessVersion, p.Harness),
		"datasetPath":     fmt.Sprintf("the body is about the data set %.20q, and the manifest of %.120q states another", a.DatasetSHA, p.Dataset),
	}
	return refusal.Newf(refusal.PathDisagrees, "%s", said[disagree[0]]).
		WithHint("list it under the path that has the names of its modelId, and under the harness and data set that it is about")
}

// manifestOf is the manifest of a published path, nil if it is not to be had.
func (r *Registry) manifestOf(path string) []byte {
	r.mu.Lock()
	p := r.state.paths[path]
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	data, err := r.shelf.Get(p.Manifest, maxBlob)
	if err != nil {
		return nil
	}
	return data
}

// A runOf is the content that a run was first recorded with, and where.
type runOf struct {
	content digest.ID
	address string
}

// An OtherRun says that a run id was recorded with another content.
type OtherRun struct{ Run, First string }

func (o *OtherRun) Error() string {
	return fmt.Sprintf("the run %.80q was recorded before with another content, at %s", o.Run, o.First)
}

// contentOfRun names what a body says of its run: its proof does not count.
func contentOfRun(body []byte) (*evidence.RegistryRun, error) {
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(body, &members); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "body: %w", err)
	}
	delete(members, "proof")
	var id string
	if err := canon.Unmarshal(members["runId"], &id); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "body: runId: %w", err)
	}
	text, err := canon.Marshal(members)
	return &evidence.RegistryRun{Content: digest.IDOf(text), ID: id}, err
}

// runKey serialises what is recorded of one run.
func runKey(run *evidence.RegistryRun) string { return "run " + strings.ToLower(run.ID) }

// sameRun refuses another content of a run. It is called with the lock held.
func (r *Registry) sameRun(run *evidence.RegistryRun) error {
	before, ok := r.state.runs[strings.ToLower(run.ID)]
	if !ok || before.content == run.Content {
		return nil
	}
	return refusal.Newf(refusal.RunTaken, "%w", &OtherRun{run.ID, before.address}).
		WithHint("a run has one content; give another run another runId, and a correction too")
}

func (s *state) addRun(id string, content digest.ID, address string) {
	id = strings.ToLower(id)
	if _, there := s.runs[id]; !there {
		s.runs[id] = runOf{content, address}
	}
}
