package evidence

import "tallystick/internal/record/digest"

// The records of a registry. They hold ids, digests and counts: what a person
// wrote lies as a blob under its digest, so that it can be taken down while the
// record stays.

// RegistryConfigured records the settings by which a registry decides. It is
// appended again when one of them changes; what was proposed before is decided
// under the settings that were in force when it was proposed.
type RegistryConfigured struct {
	DeadlineHours int    `json:"deadline_hours"`
	DID           string `json:"did"` // of the issuer of credentials
	// DrawRule says which root judges are drawn from where no witness is waited
	// for. Without it, any that was sealed between the proposal and the draw; 2
	// is the root of the fewest entries, from the proposal's own on, under
	// which a judge is eligible. It never becomes less.
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

// FirstRootRule is the draw rule by which everybody can tell the root of a draw.
const FirstRootRule = 2

// RegistryAgent records that an agent registered. The API key itself is
// nowhere.
type RegistryAgent struct {
	Agent     string           `json:"agent"`
	KeyHash   digest.ID        `json:"key_hash"` // of the API key
	Profile   *digest.Content  `json:"profile,omitempty"`
	PublicKey string           `json:"public_key"` // did:key of the key that the agent signs with
	Request   *RegistryRequest `json:"request,omitempty"`
}

// Kind is registry.agent.
func (*RegistryAgent) Kind() Kind { return RegistryAgentKind }

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
	// Run is the run that the credential is about: a run has one content.
	Run *RegistryRun `json:"run,omitempty"`
	// Status says what was known of the revocation of a credential that the
	// proposer attached, when it was proposed: one of RegistryStatuses.
	Status string `json:"status,omitempty"`
}

// A RegistryRun names a run and what its body says, of which the runner's proof is no
// part.
type RegistryRun struct {
	Content digest.ID `json:"content"` // of the canonical body without its proof
	ID      string    `json:"id"`      // runId
}

// What was known of the status of a credential: it was looked up in a list of the
// registry's own or in one that was sent with it, its list was not at hand, or it has
// none.
var RegistryStatuses = []string{"checked", "sent", "unchecked", "none"}

// The things that a registry lists.
var RegistryThings = []string{"artifact", "model", "eval-harness", "dataset", "eval"}

// Kind is registry.proposed.
func (*RegistryProposed) Kind() Kind { return RegistryProposedKind }

// RegistryDrawn records who judges a content. Every reader can repeat the draw:
// see docs/formats/registry.md.
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
// no judge was drawn.
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

// Kind is registry.decided.
func (*RegistryDecided) Kind() Kind { return RegistryDecidedKind }

// RegistryTakenDown records that the operator removed a blob. What named it
// stays, and so does this.
type RegistryTakenDown struct {
	Blob       digest.Content `json:"blob"`
	ReasonCode string         `json:"reason_code"`
}

// Kind is registry.taken_down.
func (*RegistryTakenDown) Kind() Kind { return RegistryTakenDownKind }
