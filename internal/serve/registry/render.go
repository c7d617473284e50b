package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/index"
	"tallystick/internal/share/attest/claim"
)

// maxBlob bounds what is read as a blob; credentials are the largest.
const maxBlob = 16 << 20

// The kinds of documents in the index.
const (
	docProposal   = "proposal"
	docAgent      = "agent"
	docAPIKey     = "api_key"
	docCredential = "credential"
	docRun        = "run"
	docKeys       = "keys"
	docPublic     = "public"
)

// A row is a line of eval/list and its siblings.
type row struct {
	ID               string           `json:"proposalId"`
	IPPath           string           `json:"ipPath"`
	Thing            Thing            `json:"kind"`
	ArtifactPath     string           `json:"artifactPath"`
	HarnessPath      string           `json:"evalHarnessPath,omitempty"`
	DatasetPath      string           `json:"datasetPath,omitempty"`
	Metrics          canon.RawMessage `json:"metrics,omitempty"`
	RunDetails       canon.RawMessage `json:"runDetails,omitempty"`
	Status           string           `json:"status"`
	Note             string           `json:"note,omitempty"`
	ProposedAt       evidence.Time    `json:"proposedAt"`
	PublishedAt      *evidence.Time   `json:"publishedAt,omitempty"`
	Agent            string           `json:"agent"`
	Runner           string           `json:"runner,omitempty"`
	Attempt          *attempt         `json:"attempt,omitempty"`
	Judges           Judges           `json:"judges"`
	Earlier          int              `json:"earlier"`
	Credential       string           `json:"credential,omitempty"`
	CredentialStatus string           `json:"credentialStatus,omitempty"`
	Attested         *Attested        `json:"attested,omitempty"`
	Imported         bool             `json:"imported"`
	Chain            *Chain           `json:"chain,omitempty"`
	TakenDown        bool             `json:"takenDown,omitempty"`
	Entry            int64            `json:"entry"`
	Receipt          string           `json:"receipt"`
	Decision         *int64           `json:"decision,omitempty"`
	DecisionProof    string           `json:"decisionReceipt,omitempty"`
}

// An attempt says which of how many runs a score is of, if its body says so.
type attempt struct {
	Number int64 `json:"number"`
	Of     int64 `json:"of"`
}

// render makes the rows of what changed. What is taken down is left out of them.
func (r *Registry) render(c *changes) (*index.Batch, error) {
	b := index.NewBatch()
	for d, put := range c.blobs {
		if err := r.renderBlob(b, d, put); err != nil {
			return nil, err
		}
	}
	for p := range c.proposals {
		if err := r.renderProposal(b, p); err != nil {
			return nil, fmt.Errorf("proposal %s: %w", p.Proposal, err)
		}
	}
	for a := range c.agents {
		doc, err := canon.Marshal(r.state.agentView(a))
		if err != nil {
			return nil, err
		}
		b.Docs[index.Name{Kind: docAgent, ID: a.id}] = doc
	}
	for hash := range c.apiKeys {
		name := index.Name{Kind: docAPIKey, ID: hash.String()}
		if b.Docs[name] = nil; !r.state.apiKeys[hash].revoked {
			b.Docs[name] = []byte(r.state.apiKeys[hash].agent.id)
		}
	}
	for i := range c.credentials {
		if err := r.renderCredential(b, i); err != nil {
			return nil, err
		}
	}
	return b, r.renderPublic(b, c)
}

func (r *Registry) renderBlob(b *index.Batch, d digest.Content, put bool) error {
	if _, gone := r.state.takenDown[d]; gone || !put {
		b.Drop = append(b.Drop, d.String())
		return nil
	}
	data, err := r.shelf.Get(d, maxBlob)
	if err != nil {
		return err
	}
	b.Blobs[d.String()] = data
	return nil
}

// blob reads a blob, nil if it was taken down.
func (r *Registry) blob(b *index.Batch, d digest.Content) ([]byte, error) {
	if _, gone := r.state.takenDown[d]; gone {
		return nil, nil
	}
	if data := b.Blobs[d.String()]; data != nil {
		return data, nil
	}
	return r.shelf.Get(d, maxBlob)
}

func (r *Registry) renderProposal(b *index.Batch, p *proposal) error {
	manifest, err := r.blob(b, p.Manifest)
	if err != nil {
		return err
	}
	view := r.state.view(p)
	view.TakenDown = manifest == nil
	view.Manifest = manifest
	if view.Attested, err = r.attested(b, p, manifest); err != nil {
		return err
	}
	doc, err := canon.Marshal(view)
	if err != nil {
		return err
	}
	b.Docs[index.Name{Kind: docProposal, ID: p.Proposal}] = doc
	line, err := r.line(b, p, view, manifest)
	if err != nil {
		return err
	}
	runner := p.Runner
	if runner == "" {
		runner = p.Agent
	}
	b.Rows[p.index] = index.Row{Seq: p.index, Proposal: p.Proposal, Thing: p.Thing, Status: p.status(), Artifact: p.Artifact, Runner: runner, Body: line}
	if p.decided != nil && p.decided.Outcome == Published {
		return renderNodes(b, p)
	}
	return nil
}

// attested is what the credential of a proposal says that it is about, and where the
// paths of its manifest say something else.
func (r *Registry) attested(b *index.Batch, p *proposal, manifest []byte) (*Attested, error) {
	if p.Credential == nil {
		return nil, nil
	}
	data, err := r.blob(b, p.Credential.Blob)
	if err != nil {
		return nil, err
	}
	a := attestedIn(data)
	var m evalManifest
	if a == nil || manifest == nil || canon.Unmarshal(manifest, &m) != nil {
		return a, nil
	}
	a.Disagrees = a.disagreements(claim.Paths{Artifact: m.Artifact, Harness: m.Harness, Dataset: m.Dataset}, func(path string) []byte {
		// What stood when it was proposed: a path is published once.
		named := r.state.paths[path]
		if named == nil || named.index > p.index {
			return nil
		}
		text, failed := r.blob(b, named.Manifest)
		if failed != nil {
			err = failed
		}
		return text
	})
	return a, err
}

// line is the row of a proposal.
func (r *Registry) line(b *index.Batch, p *proposal, view *Proposal, manifest []byte) ([]byte, error) {
	l := row{
		ID: p.Proposal, IPPath: p.Path, Thing: Thing(p.Thing), ArtifactPath: p.Artifact, Status: view.Status, Note: view.Note, ProposedAt: p.at,
		Agent: p.Agent, Runner: p.Runner, Judges: view.Judges, Earlier: p.Earlier, Credential: view.Credential, CredentialStatus: view.CredentialStatus, Attested: view.Attested, Chain: view.Chain, TakenDown: manifest == nil,
		Entry: p.index, Receipt: view.Receipt, Decision: view.Decision, Imported: true,
	}
	l.Judges.Persons = nil
	if p.decided != nil {
		l.DecisionProof = ReceiptAddress(p.decision)
		if p.decided.Outcome == Published {
			l.PublishedAt = &p.ended
		}
	}
	if Thing(p.Thing) == Eval && manifest != nil {
		var m evalManifest
		if err := canon.Unmarshal(manifest, &m); err != nil {
			return nil, err
		}
		l.HarnessPath, l.DatasetPath, l.Metrics, l.RunDetails = m.Harness, m.Dataset, m.Metrics, m.RunDetails
	}
	if p.Credential != nil {
		data, err := r.blob(b, p.Credential.Blob)
		if err != nil {
			return nil, err
		}
		l.Imported, l.Attempt = observedIn(data)
	}
	return canon.Marshal(l)
}

// observedIn reads off a credential that was verified when it was proposed
// whether its results were imported, and which attempt they are of.
func observedIn(data []byte) (imported bool, of *attempt) {
	var doc struct {
		Type    []string `json:"type"`
		Subject struct {
			Extra struct {
				Observed struct {
					Number int64 `json:"number"`
					Of     int64 `json:"of"`
				} `json:"observed"`
			} `json:"extra"`
		} `json:"credentialSubject"`
	}
	if data == nil || looseUnmarshal(data, &doc) != nil {
		return true, nil
	}
	imported = true
	for _, t := range doc.Type {
		if t == "ObservedRun" {
			imported = false
		}
	}
	if o := doc.Subject.Extra.Observed; o.Number > 0 && o.Of > 0 {
		of = &attempt{o.Number, o.Of}
	}
	return imported, of
}

// renderNodes puts a published path and the folders above it into the tree.
func renderNodes(b *index.Batch, p *proposal) error {
	leaf, err := canon.Marshal(Node{Path: p.Path, Thing: Thing(p.Thing), Proposal: p.Proposal, Status: Published, Entry: &p.index, Receipt: ReceiptAddress(p.index), Children: []Child{}})
	if err != nil {
		return err
	}
	b.Nodes[p.Path] = index.Node{Path: p.Path, Parent: parent(p.Path), Body: leaf}
	for _, folder := range folders(p.Path) {
		if b.Folders[folder] != nil {
			continue
		}
		body, err := canon.Marshal(Node{Path: folder, Children: []Child{}})
		if err != nil {
			return err
		}
		b.Folders[folder] = &index.Node{Path: folder, Parent: parent(folder), Body: body}
	}
	return nil
}

// folders are those above a path, /artifacts among them.
func folders(path string) []string {
	var out []string
	for p := parent(path); p != ""; p = parent(p) {
		out = append(out, p)
	}
	return out
}

// credentialDoc is what the index has of a credential.
type credentialDoc struct {
	Agent   string                `json:"agent,omitempty"`
	Blob    *digest.Content       `json:"blob,omitempty"` // absent if it was taken down
	Digest  digest.ID             `json:"digest"`
	Entry   int64                 `json:"entry"`
	ID      string                `json:"id"`
	Issuer  string                `json:"issuer"`
	Revoked *int64                `json:"revoked,omitempty"` // the entry that revokes it
	Run     string                `json:"run"`
	Status  *evidence.StatusPlace `json:"status,omitempty"`
}

func (r *Registry) renderCredential(b *index.Batch, i *credential) error {
	doc := credentialDoc{Agent: i.Agent, Blob: i.Blob, Digest: i.Credential, Entry: i.index, ID: i.ID, Issuer: i.Issuer, Run: i.Run, Status: i.Status}
	if i.Blob != nil {
		if _, gone := r.state.takenDown[*i.Blob]; gone {
			doc.Blob = nil
		}
	}
	if i.revoked != nil {
		doc.Revoked = &i.ended
	}
	body, err := canon.Marshal(doc)
	if err != nil {
		return err
	}
	b.Docs[index.Name{Kind: docCredential, ID: i.Credential.String()}] = body
	b.Docs[index.Name{Kind: docRun, ID: i.Run + "/" + lastPart(i.ID)}] = []byte(i.Credential.String())
	return nil
}

func (r *Registry) renderPublic(b *index.Batch, c *changes) error {
	if c.keys || c.public {
		jwks, did, err := r.state.keyDocuments()
		if err != nil {
			return err
		}
		b.Docs[index.Name{Kind: docKeys, ID: "jwks"}] = jwks
		b.Docs[index.Name{Kind: docKeys, ID: "did"}] = did
	}
	if !c.public {
		return nil
	}
	conf := r.state.config
	sealing, former := r.state.sealedBy()
	body, err := canon.Marshal(Public{Origin: r.settings.Origin, LogKey: sealing, FormerLogKeys: former, TrustRoot: r.settings.TrustRoot, PublicURL: conf.PublicURL,
		DID: conf.DID, Judges: conf.Judges, Quorum: conf.Quorum, DeadlineHours: conf.DeadlineHours, Witnesses: conf.Witnesses, EligibleJudges: r.state.admitted(), CalibratedJudges: r.state.calibrated(slices.Collect(maps.Keys(r.state.persons)), r.state.size)})
	b.Docs[index.Name{Kind: docPublic, ID: "public"}] = body
	return err
}

// statusWords say what is known of the status of a credential.
var statusWords = map[string]string{"checked": "checked", "sent": "checked in the list that was sent", "unchecked": "not checked", "none": "none"}

// view shows a proposal, without its manifest.
func (s *state) view(p *proposal) *Proposal {
	v := &Proposal{
		ID: p.Proposal, IPPath: p.Path, Thing: Thing(p.Thing), Status: p.status(), Agent: p.Agent, Runner: p.Runner, Content: p.Content, Earlier: p.Earlier,
		ProposedAt: p.at, Judgements: []JudgementRow{}, Entry: p.index, Receipt: ReceiptAddress(p.index),
	}
	t := p.tally()
	v.Judges = Judges{For: t.For, Against: t.Against, Abstained: t.Abstained, Missing: t.Missing}
	if p.drawn != nil {
		v.Judges.Drawn, v.Judges.Of, v.Judges.Persons = len(p.drawn.Judges), p.drawn.Of, p.drawn.Judges
		v.Judges.Calibrated = s.calibrated(p.drawn.Judges, p.drawn.Size)
		if p.decided == nil {
			d := evidence.At(p.deadline())
			v.Deadline = &d
		}
	}
	for _, j := range p.votes {
		v.Judgements = append(v.Judgements, s.judgement(j))
	}
	if p.Credential != nil {
		v.CredentialStatus = statusWords[p.Credential.Status]
		if i := s.credentials[p.Credential.Digest]; i != nil {
			v.Credential = CredentialAddress(i.Run, lastPart(i.ID))
		} else if _, gone := s.takenDown[p.Credential.Blob]; !gone {
			v.Credential = BlobAddress(p.Credential.Blob)
		}
	}
	if d := p.decided; d != nil {
		ended, decision := p.ended, p.decision
		v.DecidedAt, v.Decision = &ended, &decision
		if d.Chain != nil {
			v.Chain = &Chain{Signature: d.Chain.HMAC, SignatureEd25519: d.Chain.Signature, KeyID: d.Chain.KeyID, Previous: d.Chain.Previous}
		}
	}
	v.Note = p.note()
	return v
}

// note says what a reader must know beside the status.
func (p *proposal) note() string {
	switch {
	case p.config.Judges == 0 && p.status() == Published:
		return "published without judges"
	case p.drawn != nil && len(p.drawn.Judges) < p.config.Judges:
		return fmt.Sprintf("%d of %d judges could be drawn", len(p.drawn.Judges), p.config.Judges)
	case p.decided == nil && p.drawn == nil && p.config.Judges > 0:
		return "waiting for a draw of judges: there must be an admitted judge who did not propose it"
	}
	return ""
}

func (s *state) judgement(j vote) JudgementRow {
	row := JudgementRow{Person: j.Person, Agent: j.Agent, Verdict: j.Verdict, Signature: j.Signature, At: j.at, Entry: j.index, Receipt: ReceiptAddress(j.index), Digest: j.Reason}
	if a := s.agents[j.Agent]; a != nil {
		row.PublicKey = a.publicKey
	}
	if j.Reason != nil {
		if _, gone := s.takenDown[*j.Reason]; !gone {
			row.Reason = BlobAddress(*j.Reason)
		}
	}
	return row
}

func (s *state) agentView(a *agent) Agent {
	return Agent{ID: a.id, PublicKey: a.publicKey, Person: s.judge(a.id), Entry: a.index}
}

// dropTakenDown removes blobs that the ledger says are taken down: a crash may have
// come between the two.
func (r *Registry) dropTakenDown() error {
	var err error
	for d := range r.state.takenDown {
		if r.shelf.Has(d) {
			err = errors.Join(err, r.shelf.Drop(d))
		}
	}
	return err
}

var errGone = refusal.Newf(refusal.TakenDown, "the operator took this down")
