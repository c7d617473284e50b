package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
)

// maxManifest bounds what is proposed, and maxEnvelope a credential with its
// paths.
const (
	maxManifest = 256 << 10
	maxEnvelope = 1 << 20
	// maxStatusLists bounds what is looked through for one credential.
	maxStatusLists = 8
)

// evalManifest is the catalogue's manifest of an evaluation.
type evalManifest struct {
	Artifact   string           `json:"artifactPath"`
	Dataset    string           `json:"datasetPath"`
	Harness    string           `json:"evalHarnessPath"`
	Metrics    canon.RawMessage `json:"metrics"`
	RunDetails canon.RawMessage `json:"runDetails,omitempty"`
}

// A draft is a proposal that was read and found to be in form.
type draft struct {
	thing    Thing
	path     string // "" for an evaluation: it follows from the id
	artifact string
	manifest []byte    // canonical
	content  digest.ID // of what is judged
	needs    []MissingPath
	runner   string // DID, or empty

	body       []byte // of an attestation, to be issued as a credential
	credential []byte // canonical, signed by another issuer, or by us before
	digest     digest.ID
	status     string // what is known of its revocation
	run        *evidence.RegistryRun
	about      []byte // the body that it is about, with its proof
}

// A MissingPath is a path that a proposal names and the catalogue does not have.
// The refusal that wraps it says what to do.
type MissingPath struct {
	Member string
	Path   string
	Thing  Thing // what to propose first
}

func (m *MissingPath) Error() string {
	return fmt.Sprintf("%s %.200q is not in the catalogue", m.Member, m.Path)
}

// Route is where the missing thing is proposed.
func (m *MissingPath) Route() string { return "/api/knowledge/" + string(m.Thing) + "/propose" }

// parse reads what is proposed as a thing.
func (r *Registry) parse(ctx context.Context, thing Thing, body []byte) (*draft, error) {
	if len(body) > maxEnvelope {
		return nil, refusal.Newf(refusal.TooLarge, "the proposal has %d bytes, at most %d are taken", len(body), maxEnvelope)
	}
	text, err := canon.Canonicalize(body)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the proposal: %w", err)
	}
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(text, &members); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the proposal must be a JSON object")
	}
	if thing != Eval {
		return parseArtifact(thing, text, members)
	}
	if members["kind"] != nil || members["credentialSubject"] != nil || members["credential"] != nil {
		return r.parseEnvelope(ctx, members)
	}
	return parseManifest(text, members)
}

func parseArtifact(thing Thing, text []byte, members map[string]canon.RawMessage) (*draft, error) {
	if len(text) > maxManifest {
		return nil, refusal.Newf(refusal.TooLarge, "the manifest has %d bytes, at most %d are taken", len(text), maxManifest)
	}
	var path string
	for _, name := range []string{"path", "ipPath", "artifactPath"} {
		if raw := members[name]; raw != nil {
			if err := canon.Unmarshal(raw, &path); err != nil {
				return nil, refusal.Newf(refusal.Malformed, "%s: expected a text", name)
			}
			break
		}
	}
	if path == "" {
		return nil, refusal.Newf(refusal.Malformed, "the manifest has no path").WithHint(`it needs "path": "/artifacts/<root>/<name>"`)
	}
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	root := strings.Split(path, "/")[2]
	switch {
	case roots[root] == Eval:
		return nil, refusal.Newf(refusal.Malformed, "path %.200q: paths below /artifacts/evals are given out by the registry", path).WithHint("propose an evaluation at /api/knowledge/eval/propose")
	case thing != Artifact && roots[root] != thing:
		return nil, refusal.Newf(refusal.Malformed, "path %.200q: a %s lies below /artifacts/%s", path, thing, rootOf(thing))
	}
	content, err := contentOf(thing, members)
	return &draft{thing: thing, path: path, artifact: path, manifest: text, content: content}, err
}

func rootOf(thing Thing) string {
	for name, t := range roots {
		if t == thing {
			return name
		}
	}
	return "other"
}

func parseManifest(text []byte, members map[string]canon.RawMessage) (*draft, error) {
	if len(text) > maxManifest {
		return nil, refusal.Newf(refusal.TooLarge, "the manifest has %d bytes, at most %d are taken", len(text), maxManifest)
	}
	var m evalManifest
	if err := canon.Unmarshal(text, &m); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the manifest: %w", err).
			WithHint("it has artifactPath, evalHarnessPath, datasetPath, metrics and runDetails; put anything else into runDetails")
	}
	d, err := m.draft(text)
	if err != nil {
		return nil, err
	}
	if len(m.Metrics) == 0 || m.Metrics.Kind() != '{' || len(m.RunDetails) > 0 && m.RunDetails.Kind() != '{' {
		return nil, refusal.Newf(refusal.Malformed, "the manifest: metrics and runDetails must be objects")
	}
	d.content, err = contentOf(Eval, members)
	return d, err
}

// draft checks the paths of a manifest.
func (m *evalManifest) draft(text []byte) (*draft, error) {
	d := &draft{thing: Eval, artifact: m.Artifact, manifest: text}
	for _, n := range []MissingPath{{"artifactPath", m.Artifact, Artifact}, {"evalHarnessPath", m.Harness, EvalHarness}, {"datasetPath", m.Dataset, Dataset}} {
		if n.Path == "" {
			return nil, refusal.Newf(refusal.Malformed, "the manifest has no %s", n.Member).WithHint("it names a path of the catalogue, such as /artifacts/models/…")
		}
		if err := CheckPath(n.Path); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Member, err)
		}
		root := roots[strings.Split(n.Path, "/")[2]]
		if n.Thing != Artifact && root != n.Thing || root == Eval {
			return nil, refusal.Newf(refusal.Malformed, "%s %.200q: expected a path below /artifacts/%s", n.Member, n.Path, rootOf(n.Thing))
		}
		if n.Member == "artifactPath" && strings.HasPrefix(n.Path, "/artifacts/models/") {
			n.Thing = Model
		}
		d.needs = append(d.needs, n)
	}
	return d, nil
}

// volatile are members that say nothing about what was measured: a proposer who changes
// only them proposes the same content.
var volatile = []string{"note", "notes", "comment", "comments", "description", "submittedAt", "completedAt", "startedAt", "finishedAt", "createdAt", "timestamp", "date"}

// contentOf names what is judged: SHA-256 of the canonical JSON of the thing and
// its manifest without what is volatile.
func contentOf(thing Thing, members map[string]canon.RawMessage) (digest.ID, error) {
	kept := map[string]any{}
	for name, value := range members {
		if slices.Contains(volatile, name) {
			continue
		}
		kept[name] = value
		if name == "runDetails" {
			var details map[string]canon.RawMessage
			if err := canon.Unmarshal(value, &details); err != nil {
				return digest.ID{}, refusal.Newf(refusal.Malformed, "runDetails must be an object")
			}
			for _, v := range volatile {
				delete(details, v)
			}
			kept[name] = details
		}
	}
	text, err := canon.Marshal(map[string]any{"manifest": kept, "thing": string(thing)})
	return digest.IDOf(text), err
}

// An envelope is a credential, or the body of one, with the paths that it is
// listed under, beside it or in a member "registry".
type envelope struct {
	kind       string
	body       canon.RawMessage
	credential canon.RawMessage
	paths      claim.Paths
	// statusLists are those of the issuer, brought along.
	statusLists [][]byte
}

func readEnvelope(members map[string]canon.RawMessage) (*envelope, error) {
	e := &envelope{}
	var nested map[string]canon.RawMessage
	if raw := members["registry"]; raw != nil {
		if err := canon.Unmarshal(raw, &nested); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "registry must be an object with artifactPath, evalHarnessPath and datasetPath")
		}
	}
	for name, into := range map[string]*string{"artifactPath": &e.paths.Artifact, "evalHarnessPath": &e.paths.Harness, "datasetPath": &e.paths.Dataset, "kind": &e.kind} {
		raw := members[name]
		if raw == nil {
			raw = nested[name]
		}
		if raw != nil && canon.Unmarshal(raw, into) != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s must be a text", name)
		}
	}
	if raw := members["statusLists"]; raw != nil {
		var lists []canon.RawMessage
		if err := canon.Unmarshal(raw, &lists); err != nil || len(lists) > maxStatusLists {
			return nil, refusal.Newf(refusal.Malformed, "statusLists must be a list of at most %d status list credentials", maxStatusLists)
		}
		for _, l := range lists {
			e.statusLists = append(e.statusLists, l)
		}
	}
	e.body, e.credential = members["body"], members["credential"]
	if members["credentialSubject"] != nil {
		rest := map[string]canon.RawMessage{}
		for name, value := range members {
			switch name {
			case "registry", "artifactPath", "evalHarnessPath", "datasetPath", "kind", "statusLists":
			default:
				rest[name] = value
			}
		}
		text, err := canon.Marshal(rest)
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the credential: %w", err)
		}
		e.credential = text
	}
	return e, nil
}

// parseEnvelope reads a credential, or {kind, body}, with its paths.
func (r *Registry) parseEnvelope(ctx context.Context, members map[string]canon.RawMessage) (*draft, error) {
	e, err := readEnvelope(members)
	if err != nil {
		return nil, err
	}
	body, d, err := r.openEnvelope(ctx, e)
	if err != nil {
		return nil, err
	}
	m := evalManifest{Artifact: e.paths.Artifact, Harness: e.paths.Harness, Dataset: e.paths.Dataset}
	whole, err := m.draft(nil)
	if err != nil {
		return nil, err
	}
	about := attestedOf(body)
	if err := r.belongs(&about, e.paths); err != nil {
		return nil, err
	}
	if whole.run, err = contentOfRun(d.about); err != nil {
		return nil, err
	}
	text, err := claim.Manifest(body, e.paths)
	if err != nil {
		return nil, err
	}
	whole.manifest = text[:len(text)-1]
	whole.runner, whole.body, whole.credential, whole.digest, whole.status = body.RunnerDID, d.body, d.credential, d.digest, d.status
	whole.content, err = contentOfBody(body, e.paths)
	return whole, err
}

// openEnvelope verifies a credential, or checks a body that is to become one.
func (r *Registry) openEnvelope(ctx context.Context, e *envelope) (*attest.Body, *draft, error) {
	if e.credential != nil {
		v, status, err := r.openCredential(ctx, e)
		if err != nil {
			return nil, nil, err
		}
		about, err := subjectOf(e.credential)
		return v.Body, &draft{credential: e.credential, digest: v.Digest, status: status, about: about}, err
	}
	body, err := r.checkBody(e.kind, e.body)
	return body, &draft{body: e.body, about: e.body}, err
}

// openCredential verifies a credential and says what is known of its revocation. Our
// own lists are at hand, and its issuer's if they were sent with it; nothing is
// fetched, since the address would be chosen by who proposes.
func (r *Registry) openCredential(ctx context.Context, e *envelope) (*attest.Verified, string, error) {
	own, err := r.Trust(ctx)
	if err != nil {
		return nil, "", err
	}
	t := r.trust()
	t.UnsafeSkipStatus, t.StatusLists = false, own.StatusLists
	v, err := attest.Verify(e.credential, t)
	status := "checked"
	if refusal.Is(err, refusal.NotFound) && len(e.statusLists) > 0 {
		t.StatusLists, status = append(slices.Clone(own.StatusLists), e.statusLists...), "sent"
		v, err = attest.Verify(e.credential, t)
	}
	if refusal.Is(err, refusal.NotFound) {
		t.UnsafeSkipStatus, status = true, "unchecked"
		v, err = attest.Verify(e.credential, t)
	}
	if err == nil && status != "unchecked" && !v.StatusChecked {
		status = "none"
	}
	return v, status, err
}

// checkBody checks the body of an attestation, and the runner's proof if it has one, as
// the dry run does.
func (r *Registry) checkBody(kind string, text []byte) (*attest.Body, error) {
	if err := attest.CheckKind(kind); err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, refusal.Newf(refusal.Malformed, "there is no body").WithHint(`send {"kind": "eval.run.attestation.v1", "body": {…}}`)
	}
	_, body, err := attest.Accept(text, RunnerTrust(r.o.Now()))
	return body, err
}

// RunnerTrust is what the proof of a runner in a body is verified with: keys that need
// no document. Those of the registry are not among them: it runs nothing.
func RunnerTrust(now time.Time) attest.Trust { return attest.Trust{Now: now, Keys: &attest.Keys{}} }

// contentOfBody leaves out what names a run and not what came out of it.
func contentOfBody(b *attest.Body, p claim.Paths) (digest.ID, error) {
	text, err := canon.Marshal(map[string]any{
		"paths": []string{p.Artifact, p.Harness, p.Dataset}, "thing": string(Eval), "harness": b.HarnessID, "harnessVersion": b.HarnessVersionSHA,
		"code": b.EvalCodeSHA, "model": b.ModelID, "modelVersion": b.ModelVersionSHA, "dataset": b.DatasetSHA, "runner": b.RunnerDID,
		"results": b.ResultsHash, "sampling": b.SamplingParams,
	})
	return digest.IDOf(text), err
}

// trust is what credentials are verified against: keys that need no document, and
// our own. Nothing is fetched.
func (r *Registry) trust() attest.Trust {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := attest.Trust{Now: r.o.Now(), UnsafeSkipStatus: true, Keys: &attest.Keys{}}
	if jwks, did, err := r.state.keyDocuments(); err == nil {
		_ = t.Keys.AddJWKS(r.state.config.DID, jwks)
		if did != nil {
			_ = t.Keys.AddDID(did)
		}
	}
	t.IssuedBeforeRetirement = r.issuedHere
	return t
}
