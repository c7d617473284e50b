package site

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser"
)

type evaluationData struct {
	*registry.Proposal
	Row                      *row
	IsEval                   bool
	StatusCell               template.HTML
	Proposed                 evidence.RegistryProposed
	PathCell, AgentCell      template.HTML
	RunnerCell, ManifestCell template.HTML
	EarlierCell              template.HTML
	RevocationCell           template.HTML
	Revocation               string // the cell in words
	Values                   []value
	Pretty                   string
	Votes                    []ballot
	NotVoted                 []string
	Dissent                  int
	Before                   []*row
	BeforePartial            bool
	Credential               *credential
	CredentialURL            string
	ReceiptURL, DecisionURL  string
	ArtifactURL, HarnessURL  string
	DatasetURL, BoardURL     string
	Config                   *registry.Public
}

// A ballot is a vote as it is shown.
type ballot struct {
	registry.JudgementRow
	PersonCell, VerdictCell template.HTML
	Why                     string
	Dissents                bool // from what was decided
	ReceiptURL              string
}

// Evaluation is one proposal with its manifest, its judges and its proof. Every kind
// of proposal has such a page.
func (s *Site) Evaluation(ctx context.Context, id string) (*layout.Page, error) {
	p, err := s.source.Proposal(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &evaluationData{Proposal: p, IsEval: p.Thing == registry.Eval, StatusCell: statusOf(p.Status, p.Decision), ReceiptURL: s.at(p.Receipt), CredentialURL: s.at(p.Credential)}
	if d.Config, err = s.source.Config(ctx); err != nil {
		return nil, err
	}
	if err := s.proposed(ctx, p.Entry, &d.Proposed); err != nil {
		return nil, err
	}
	d.PathCell, d.AgentCell = textOf(p.Entry, "/path", d.Proposed.Path), textOf(p.Entry, "/agent", d.Proposed.Agent)
	d.ManifestCell = textOf(p.Entry, "/manifest", d.Proposed.Manifest.String())
	d.EarlierCell = textOf(p.Entry, "/earlier", strconv.Itoa(d.Proposed.Earlier))
	if d.Proposed.Runner != "" {
		d.RunnerCell = textOf(p.Entry, "/runner", d.Proposed.Runner)
	}
	if c := d.Proposed.Credential; c != nil && c.Status != "" {
		d.RevocationCell, d.Revocation = textOf(p.Entry, "/credential/status", c.Status), revocationWords[c.Status]
	}
	if p.Decision != nil {
		d.DecisionURL = s.prefix + registry.ReceiptAddress(*p.Decision)
	}
	s.manifest(d)
	if d.Credential, err = s.credential(ctx, d.Proposed.Credential); err != nil {
		return nil, err
	}
	if err := s.votes(ctx, d); err != nil {
		return nil, err
	}
	if err := s.before(ctx, d); err != nil {
		return nil, err
	}
	title := "Proposal of " + shortName(p.IPPath)
	crumbs := s.crumbs(d.Proposed.Artifact)
	if d.IsEval {
		title = "Evaluation of " + shortName(d.Proposed.Artifact)
		crumbs[len(crumbs)-1].URL = d.ArtifactURL
		crumbs = append(crumbs, layout.Link{Text: "evaluation " + p.ID})
	}
	return s.page(ctx, layout.Page{Title: title, Template: "evaluation", Section: "Catalogue", Crumbs: crumbs, Data: d, Next: s.evaluationCommands(d)})
}

// revocationWords explain each of evidence.RegistryStatuses.
var revocationWords = map[string]string{
	"checked":   "in the registry’s own status list, when it was proposed",
	"sent":      "looked up in a status list that the proposer sent, which is as old as the proposer liked",
	"unchecked": "the issuer’s status list was not at hand, so it may have been revoked",
	"none":      "the credential names no status list, so its issuer cannot revoke it there",
}

// proposed reads the entry of a proposal.
func (s *Site) proposed(ctx context.Context, index int64, into *evidence.RegistryProposed) error {
	raw, err := s.source.Entries(ctx, index, 1)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return refusal.Newf(refusal.LedgerBusy, "entry %d is not sealed yet", index)
	}
	var e struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(raw[0], &e); err != nil {
		return refusal.Newf(refusal.IndexDiffers, "entry %d of the database: %w", index, err)
	}
	if err := json.Unmarshal(e.Body, into); err != nil {
		return refusal.Newf(refusal.IndexDiffers, "entry %d of the database: %w", index, err)
	}
	return nil
}

// manifest shows what was proposed.
func (s *Site) manifest(d *evaluationData) {
	d.ArtifactURL = s.artifactURL(d.Proposed.Artifact)
	if d.TakenDown {
		return
	}
	d.Pretty = pretty(d.Manifest)
	var m struct {
		Harness string          `json:"evalHarnessPath"`
		Dataset string          `json:"datasetPath"`
		Metrics json.RawMessage `json:"metrics"`
	}
	if !d.IsEval || json.Unmarshal(d.Manifest, &m) != nil {
		return
	}
	d.HarnessURL, d.DatasetURL = s.artifactURL(m.Harness), s.artifactURL(m.Dataset)
	d.Row = &row{Harness: m.Harness, Dataset: m.Dataset}
	d.Values = valuesOf(d.Entry, m.Metrics)
	r := row{Values: d.Values}
	if v := r.Main(); v != nil && d.Status == registry.Published {
		d.BoardURL = s.leaderboardURL(m.Dataset, v.Name)
	}
}

// InManifest is a text of the manifest, which the entry names by its digest.
func (d *evaluationData) InManifest(field, text string) template.HTML {
	return layout.Cell{Entry: d.Entry, Blob: "/manifest", Field: field, As: browser.AsText}.HTML(browser.Text(text))
}

// maxReason bounds a judge's reason on the page.
const maxReason = 4000

func (s *Site) votes(ctx context.Context, d *evaluationData) error {
	voted := map[string]bool{}
	for _, j := range d.Judgements {
		voted[j.Person] = true
		b := ballot{JudgementRow: j, PersonCell: textOf(j.Entry, "/person", j.Person), ReceiptURL: s.at(j.Receipt),
			VerdictCell: layout.Cell{Entry: j.Entry, Field: "/verdict", As: browser.AsText, Class: stateClass(j.Verdict)}.HTML(browser.Text(j.Verdict))}
		b.Dissents = d.Status == registry.Published && j.Verdict == "reject" || d.Status == registry.Rejected && j.Verdict == "accept"
		if b.Dissents {
			d.Dissent++
		}
		if j.Digest != nil {
			text, err := s.source.Blob(ctx, *j.Digest)
			switch name := refusal.Of(err).Name; {
			case err == nil:
				b.Why = browser.TextUpTo(string(text), maxReason)
			case name == refusal.UnknownName || name == refusal.TakenDown:
				b.Why = "(the operator took the reason down)"
			default:
				return err
			}
		}
		d.Votes = append(d.Votes, b)
	}
	for _, person := range d.Judges.Persons {
		if !voted[person] {
			d.NotVoted = append(d.NotVoted, person)
		}
	}
	return nil
}

// before lists what the same runner proposed earlier for the same artifact.
func (s *Site) before(ctx context.Context, d *evaluationData) error {
	if !d.IsEval || d.Entry < 1 {
		return nil
	}
	runner := d.Proposed.Runner
	if runner == "" {
		runner = d.Proposed.Agent
	}
	l, err := s.scan(ctx, registry.Query{Thing: registry.Eval, Artifact: d.Proposed.Artifact, Runner: runner, Status: "all", After: strconv.FormatInt(d.Entry, 10)}, maxHistory, func(*row) bool { return true })
	if err != nil {
		return err
	}
	d.Before, d.BeforePartial = l.Rows, l.Partial
	return nil
}

// A credential is what a page says about one.
type credential struct {
	Issuer        string
	Imported      bool
	Level         string
	Attempt       *attempt
	Samples       int64
	Cases         string // digests of the cases and of what they were scored with
	Outcomes      string // a digit for each case, if the credential has them
	Contamination string
	Overlap       *float64
	Failed        []string // checks of the import: what its files state and do not show
	Revoked       *int64
	Gone          bool   // taken down
	StatusList    string // address of the list that says whether it is revoked
}

// credential reads a credential, which was verified when it was proposed.
func (s *Site) credential(ctx context.Context, c *evidence.RegistryCredential) (*credential, error) {
	if c == nil {
		return nil, nil
	}
	out := &credential{Imported: true}
	switch m, err := s.source.Credential(ctx, c.Digest); {
	case err == nil, refusal.Of(err).Name == refusal.TakenDown && m != nil:
		out.Revoked = m.Revoked
		if m.Status != nil {
			out.StatusList = m.Status.List
		}
	case refusal.Of(err).Name != refusal.UnknownName: // another issuer's
		return nil, err
	}
	data, err := s.source.Blob(ctx, c.Blob)
	if name := refusal.Of(err).Name; err != nil && (name == refusal.UnknownName || name == refusal.TakenDown) {
		out.Gone = true
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.take(data)
	return out, nil
}

// maxFailed bounds the failed checks of one credential that are shown.
const maxFailed = 20

func (c *credential) take(data []byte) {
	var doc struct {
		Issuer  json.RawMessage `json:"issuer"`
		Type    []string        `json:"type"`
		Subject struct {
			Contamination *struct {
				Method  string   `json:"method"`
				Overlap *float64 `json:"overlapRatio"`
			} `json:"contaminationCheck"`
			Sampling struct {
				Samples int64 `json:"nSamples"`
			} `json:"samplingParams"`
			Dataset string `json:"datasetSha"`
			Code    string `json:"evalCodeSha"`
			Extra   struct {
				Observed struct {
					Level    string `json:"level"`
					Number   int64  `json:"number"`
					Of       int64  `json:"of"`
					Outcomes string `json:"outcomes"`
				} `json:"observed"`
				Imported struct {
					Checks struct {
						Failed []string `json:"failed"`
					} `json:"checks"`
				} `json:"imported"`
			} `json:"extra"`
		} `json:"credentialSubject"`
	}
	if json.Unmarshal(data, &doc) != nil {
		return
	}
	for _, t := range doc.Type {
		if t == "ObservedRun" {
			c.Imported = false
		}
	}
	if json.Unmarshal(doc.Issuer, &c.Issuer) != nil {
		var named struct{ ID string }
		_ = json.Unmarshal(doc.Issuer, &named)
		c.Issuer = named.ID
	}
	if m := doc.Subject.Contamination; m != nil {
		c.Contamination, c.Overlap = m.Method, m.Overlap
	}
	c.Samples = doc.Subject.Sampling.Samples
	c.Failed = doc.Subject.Extra.Imported.Checks.Failed
	c.Failed = c.Failed[:min(len(c.Failed), maxFailed)]
	if o := doc.Subject.Extra.Observed; !c.Imported {
		c.Level, c.Outcomes, c.Cases = o.Level, o.Outcomes, doc.Subject.Dataset+" "+doc.Subject.Code
		if o.Number > 0 && o.Of > 0 {
			c.Attempt = &attempt{o.Number, o.Of}
		}
	}
}

func (s *Site) evaluationCommands(d *evaluationData) []layout.Command {
	at := func(path string) string { return s.public + path }
	next := []layout.Command{
		{What: "Take the receipt of the proposal", Line: layout.Shell("curl", "-s", at(registry.ReceiptAddress(d.Entry)), "-o", "proposed.receipt")},
	}
	receipts := []string{"tally-verify", "--key", d.Config.LogKey, "proposed.receipt"}
	if d.Decision != nil {
		receipts = append(receipts, "decided.receipt")
		next = append(next, layout.Command{What: "Take the receipt of the decision", Line: layout.Shell("curl", "-s", at(registry.ReceiptAddress(*d.Decision)), "-o", "decided.receipt")})
	}
	next = append(next,
		layout.Command{What: "Verify, with a key that you have from elsewhere", Line: layout.Shell(receipts...)},
		layout.Command{What: "Take the manifest that the entry names", Line: layout.Shell("curl", "-s", at(registry.BlobAddress(d.Proposed.Manifest)), "-o", "manifest.json")},
		layout.Command{What: "Watch that the registry keeps its word", Line: layout.Shell("tally", "registry", "monitor", s.public, "--key", d.Config.LogKey)})
	if d.CredentialURL != "" {
		next = append(next, layout.Command{What: "Take the credential", Line: layout.Shell("curl", "-s", at(d.Proposal.Credential), "-o", "credential.json")})
		next = append(next, s.verifyCredential(d)...)
	}
	return next
}

// verifyCredential says what it takes to verify a credential without this registry.
func (s *Site) verifyCredential(d *evaluationData) []layout.Command {
	words := []string{"tally", "attest", "verify", "credential.json"}
	var next []layout.Command
	if d.Credential != nil && d.Credential.Issuer == d.Config.DID && strings.HasPrefix(d.Config.DID, "did:web:") {
		next = append(next, layout.Command{What: "Take the issuer’s keys", Line: layout.Shell("curl", "-s", s.public+"/did.json", "-o", "did.json")})
		words = append(words, "--did", "did.json")
	}
	if d.Credential != nil && d.Credential.StatusList != "" {
		next = append(next, layout.Command{What: "Take the status list", Line: layout.Shell("curl", "-s", d.Credential.StatusList, "-o", "status.json")})
		words = append(words, "--status-list", "status.json")
	}
	return append(next, layout.Command{What: "Verify the credential offline", Line: layout.Shell(words...)})
}

// pretty is JSON with one member a line, escaped for a page.
func pretty(data []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		return browser.Text(string(data))
	}
	return browser.TextUpTo(b.String(), 40_000)
}
