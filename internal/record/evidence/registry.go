package evidence

import (
	"fmt"
	"slices"

	"tallystick/internal/record/digest"
)

// The records of a registry. They hold ids, digests and counts: what a person
// wrote lies as a blob under its digest, so that it can be taken down while the
// record stays.

// RegistryConfigured records the settings by which a registry decides. It is
// appended again when one of them changes; what was proposed before is decided
// under the settings that were in force when it was proposed.
type RegistryConfigured struct {
	DeadlineHours int    `json:"deadline_hours"`
	DID           string `json:"did"` // of the issuer of credentials
	// DrawRule says which root judges are drawn from where no witness is waited for.
	// Without it, any that was sealed between the proposal and the draw; 2 is the root
	// of the fewest entries, from the proposal's own on, under which somebody is
	// eligible. It never becomes less.
	DrawRule  int    `json:"draw_rule,omitempty"`
	Judges    int    `json:"judges"`
	PublicURL string `json:"public_url,omitempty"`
	Quorum    int    `json:"quorum"` // of judges who accept
	// Witnesses are the keys whose cosignatures a draw waits for; without any,
	// DrawRule decides.
	Witnesses []string `json:"witnesses,omitempty"`
}

// Kind is registry.configured.
func (*RegistryConfigured) Kind() Kind { return RegistryConfiguredKind }

// Validate checks that the numbers make sense together.
func (c *RegistryConfigured) Validate() error {
	if c.DeadlineHours < 1 {
		return fmt.Errorf("deadline_hours is %d, expected 1 or more", c.DeadlineHours)
	}
	if c.Quorum > c.Judges {
		return fmt.Errorf("quorum is %d of %d judges", c.Quorum, c.Judges)
	}
	if c.DrawRule != 0 && c.DrawRule != FirstRootRule {
		return fmt.Errorf("draw_rule is %d, expected %d", c.DrawRule, FirstRootRule)
	}
	return firstError(required("did", c.DID), notNegative("judges", int64(c.Judges)), notNegative("quorum", int64(c.Quorum)), each("witnesses", c.Witnesses))
}

// FirstRootRule is the draw rule by which everybody can tell the root of a draw.
const FirstRootRule = 2

// RegistryAgent records that somebody registered. The API key itself is nowhere.
type RegistryAgent struct {
	Agent     string           `json:"agent"`
	KeyHash   digest.ID        `json:"key_hash"` // of the API key
	Profile   *digest.Content  `json:"profile,omitempty"`
	PublicKey string           `json:"public_key"` // did:key of the key that the agent signs with
	Request   *RegistryRequest `json:"request,omitempty"`
}

// Kind is registry.agent.
func (*RegistryAgent) Kind() Kind { return RegistryAgentKind }

// Validate checks that the strings are there.
func (a *RegistryAgent) Validate() error {
	return firstError(required("agent", a.Agent), required("public_key", a.PublicKey))
}

// RegistryAPIKey records that an API key of an agent was made or revoked.
type RegistryAPIKey struct {
	Agent    string           `json:"agent"`
	KeyHash  digest.ID        `json:"key_hash"`
	Replaces *digest.ID       `json:"replaces,omitempty"` // the key that is revoked with this entry
	Request  *RegistryRequest `json:"request,omitempty"`
	Revoked  bool             `json:"revoked"`
}

// Kind is registry.api_key.
func (*RegistryAPIKey) Kind() Kind { return RegistryAPIKeyKind }

// Validate checks that the agent is there.
func (k *RegistryAPIKey) Validate() error { return required("agent", k.Agent) }

// RegistryJudge records that the operator admitted a person as a judge, with
// every agent that the person holds, or no longer does.
type RegistryJudge struct {
	Admitted bool            `json:"admitted"`
	Agents   []string        `json:"agents"`
	Person   string          `json:"person"`
	Reason   *digest.Content `json:"reason,omitempty"`
	Set      *digest.ID      `json:"set,omitempty"` // calibration set that one of the agents passed
}

// Kind is registry.judge.
func (*RegistryJudge) Kind() Kind { return RegistryJudgeKind }

// Validate checks that somebody is named.
func (j *RegistryJudge) Validate() error {
	if len(j.Agents) == 0 {
		return fmt.Errorf("%s holds no agent", j.Person)
	}
	return firstError(required("person", j.Person), each("agents", j.Agents))
}

// RegistryCalibrated records one try of an agent at the calibration set.
type RegistryCalibrated struct {
	Agent    string           `json:"agent"`
	Answers  digest.ID        `json:"answers"` // of the canonical JSON of what was answered
	Attempt  int              `json:"attempt"`
	Passed   bool             `json:"passed"`
	Request  *RegistryRequest `json:"request,omitempty"`
	ScorePPM int              `json:"score_ppm"` // agreement beyond chance, in millionths
	Set      digest.ID        `json:"set"`
}

// Kind is registry.calibrated.
func (*RegistryCalibrated) Kind() Kind { return RegistryCalibratedKind }

// Validate checks the numbers.
func (c *RegistryCalibrated) Validate() error {
	if c.Attempt < 1 {
		return fmt.Errorf("attempt is %d, expected 1 or more", c.Attempt)
	}
	if c.ScorePPM < -1_000_000 || c.ScorePPM > 1_000_000 {
		return fmt.Errorf("score_ppm is %d, expected -1000000 to 1000000", c.ScorePPM)
	}
	return required("agent", c.Agent)
}

// A RegistryRequest is a write under an idempotency key: the same key and body is
// the same write.
type RegistryRequest struct {
	Body digest.ID `json:"body"`
	// Key is of the agent and the key that it chose; of a registration, which has no
	// agent yet, an HMAC that only the registry can make.
	Key digest.ID `json:"key"`
}

// RegistryProposed records that something was proposed for the catalogue.
type RegistryProposed struct {
	Agent string `json:"agent"`
	// Artifact is the path of what an evaluation is of; of anything else it is
	// Path.
	Artifact string    `json:"artifact"`
	Content  digest.ID `json:"content"` // what is judged: judges are drawn once for each content
	// Credential is the canonical credential that was proposed with it, or made of
	// it. It lies as a blob.
	Credential *RegistryCredential `json:"credential,omitempty"`
	Earlier    int                 `json:"earlier"` // proposals of the same runner, or agent, for the same artifact before this one
	Manifest   digest.Content      `json:"manifest"`
	Path       string              `json:"path"`
	Proposal   string              `json:"proposal"`
	Request    *RegistryRequest    `json:"request,omitempty"`
	Runner     string              `json:"runner,omitempty"`
	Thing      string              `json:"thing"`
}

// A RegistryCredential names a credential twice: as verifiers name it, and as
// the blob that holds it.
type RegistryCredential struct {
	Blob   digest.Content `json:"blob"`
	Digest digest.ID      `json:"digest"`
	// Status says what was known of the revocation of a credential that somebody
	// brought along, when it was proposed: one of RegistryStatuses.
	Status string `json:"status,omitempty"`
}

// What was known of the status of a credential: it was looked up in a list of the
// registry's own or in one that was sent with it, its list was not at hand, or it has
// none.
var RegistryStatuses = []string{"checked", "sent", "unchecked", "none"}

// The things that a registry lists.
var RegistryThings = []string{"artifact", "model", "eval-harness", "dataset", "eval"}

// Kind is registry.proposed.
func (*RegistryProposed) Kind() Kind { return RegistryProposedKind }

// Validate checks that the strings are there and the thing is known.
func (p *RegistryProposed) Validate() error {
	if c := p.Credential; c != nil && c.Status != "" {
		if err := oneOf("credential.status", c.Status, RegistryStatuses); err != nil {
			return err
		}
	}
	return firstError(required("agent", p.Agent), required("artifact", p.Artifact), notNegative("earlier", int64(p.Earlier)), required("path", p.Path), required("proposal", p.Proposal),
		oneOf("thing", p.Thing, RegistryThings))
}

// RegistryDrawn records who judges a content. Anybody can draw again: see
// docs/formats/registry.md.
type RegistryDrawn struct {
	// Checkpoint is the cosigned checkpoint of a draw that waited for witnesses.
	Checkpoint *digest.Content `json:"checkpoint,omitempty"`
	Content    digest.ID       `json:"content"`
	Judges     []string        `json:"judges"`   // persons
	Of         int             `json:"of"`       // persons who could have been drawn
	Proposal   string          `json:"proposal"` // the first of this content
	Root       string          `json:"root"`     // in base64, as checkpoints have it
	Size       int64           `json:"size"`     // of the tree with that root
	Witnessed  bool            `json:"witnessed"`
}

// Kind is registry.drawn.
func (*RegistryDrawn) Kind() Kind { return RegistryDrawnKind }

// Validate checks that somebody was drawn, once.
func (d *RegistryDrawn) Validate() error {
	if len(d.Judges) == 0 {
		return fmt.Errorf("nobody is drawn")
	}
	if d.Size < 1 || d.Of < 1 {
		return fmt.Errorf("size is %d and of is %d, expected 1 or more", d.Size, d.Of)
	}
	return firstError(each("judges", d.Judges), required("proposal", d.Proposal), required("root", d.Root))
}

// RegistryJudged records the vote of a judge. The signature is the judge's own,
// over the canonical judgement.
type RegistryJudged struct {
	Agent     string           `json:"agent"`
	Content   digest.ID        `json:"content"`
	Person    string           `json:"person"`
	Proposal  string           `json:"proposal"`
	Reason    *digest.Content  `json:"reason,omitempty"`
	Request   *RegistryRequest `json:"request,omitempty"`
	Signature string           `json:"signature"`
	Verdict   string           `json:"verdict"`
}

// The verdicts of a judge.
var RegistryVerdicts = []string{"accept", "reject", "abstain"}

// Kind is registry.judged.
func (*RegistryJudged) Kind() Kind { return RegistryJudgedKind }

// Validate checks that the strings are there and the verdict is known.
func (j *RegistryJudged) Validate() error {
	return firstError(required("agent", j.Agent), required("person", j.Person), required("proposal", j.Proposal), required("signature", j.Signature),
		oneOf("verdict", j.Verdict, RegistryVerdicts))
}

// RegistryDecided records what became of a proposal.
type RegistryDecided struct {
	Chain *RegistryChain `json:"manifest_chain,omitempty"` // of what is published
	// Outcome is published, rejected, withdrawn or lapsed.
	Outcome  string `json:"outcome"`
	Proposal string `json:"proposal"`
	// Request is that of who withdrew it.
	Request *RegistryRequest `json:"request,omitempty"`
	Votes   RegistryVotes    `json:"votes"`
}

// RegistryVotes are the votes of the judges who were drawn; all zero means that
// nobody was.
type RegistryVotes struct {
	Abstained int `json:"abstained"`
	Against   int `json:"against"`
	For       int `json:"for"`
	Missing   int `json:"missing"`
}

// RegistryChain ties the published manifests of one artifact path together.
type RegistryChain struct {
	HMAC      string `json:"hmac"`               // of the registry's own key
	KeyID     string `json:"kid"`                // of the key that signed
	Previous  string `json:"previous,omitempty"` // hmac of the manifest before it
	Signature string `json:"signature"`
}

// The outcomes of a proposal.
var RegistryOutcomes = []string{"published", "rejected", "withdrawn", "lapsed"}

// Kind is registry.decided.
func (*RegistryDecided) Kind() Kind { return RegistryDecidedKind }

// Validate checks the votes, and that what is published is in the chain.
func (d *RegistryDecided) Validate() error {
	err := firstError(oneOf("outcome", d.Outcome, RegistryOutcomes), required("proposal", d.Proposal), notNegative("votes.abstained", int64(d.Votes.Abstained)),
		notNegative("votes.against", int64(d.Votes.Against)), notNegative("votes.for", int64(d.Votes.For)), notNegative("votes.missing", int64(d.Votes.Missing)))
	if err != nil {
		return err
	}
	if (d.Outcome == "published") != (d.Chain != nil) {
		return fmt.Errorf("the outcome is %s, and manifest_chain is there: %v", d.Outcome, d.Chain != nil)
	}
	if c := d.Chain; c != nil {
		return firstError(required("manifest_chain.hmac", c.HMAC), required("manifest_chain.kid", c.KeyID), required("manifest_chain.signature", c.Signature))
	}
	return nil
}

// RegistryTakenDown records that the operator removed a blob. What named it
// stays, and so does this.
type RegistryTakenDown struct {
	Blob       digest.Content `json:"blob"`
	ReasonCode string         `json:"reason_code"`
}

// Kind is registry.taken_down.
func (*RegistryTakenDown) Kind() Kind { return RegistryTakenDownKind }

// Validate checks that there is a reason.
func (t *RegistryTakenDown) Validate() error { return required("reason_code", t.ReasonCode) }

// each refuses a list with an empty text in it.
func each(field string, list []string) error {
	if slices.Contains(list, "") {
		return fmt.Errorf("%s has an empty text", field)
	}
	return nil
}

func oneOf(field, value string, allowed []string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q, expected one of %q", field, value, allowed)
	}
	return nil
}
