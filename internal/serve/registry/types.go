package registry

import (
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// A Thing is a kind of what the catalogue lists.
type Thing string

// The things of the catalogue.
const (
	Artifact    Thing = "artifact"
	Model       Thing = "model"
	EvalHarness Thing = "eval-harness"
	Dataset     Thing = "dataset"
	Eval        Thing = "eval"
)

// The states of a proposal.
const (
	Pending   = "pending"
	Published = "published"
	Rejected  = "rejected"
	Withdrawn = "withdrawn"
	Lapsed    = "lapsed"
)

// An Agent is a holder of an API key.
type Agent struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"` // did:key
	// Person is the judge who holds the agent, or empty.
	Person string `json:"person,omitempty"`
	// Entry is where the ledger has the registration.
	Entry int64 `json:"entry"`
}

// A SignUp is what an agent gives to register.
type SignUp struct {
	// PublicKey is a did:key, a Multikey or 64 hexadecimal digits; empty asks for a
	// key pair, whose private half is answered once.
	PublicKey string
	// Profile is any JSON object that describes the agent, or nil. It lies as a
	// blob.
	Profile []byte
	Once    Once
}

// A Registered answers a registration. The keys are nowhere else.
type Registered struct {
	Agent      Agent
	APIKey     string
	PrivateKey string // seed in hexadecimal, if the registry made the key pair
	New        bool   // not the answer to an earlier request again
}

// A Judgement is the vote of an agent on a proposal.
type Judgement struct {
	Proposal string
	Verdict  string // accept, reject or abstain
	Reason   string // free text, or empty
	// Signature is Ed25519 by the agent's key over [recompute.Judgement.Message],
	// in multibase base58 or hexadecimal.
	Signature string
	Once      Once
}

// A Proposal is everything that is known of one.
type Proposal struct {
	ID         string           `json:"proposalId"`
	IPPath     string           `json:"ipPath"`
	Thing      Thing            `json:"kind"`
	Status     string           `json:"status"`
	Note       string           `json:"note,omitempty"` // what a reader must know: published without judges, no eligible judge
	Agent      string           `json:"agent"`
	Runner     string           `json:"runner,omitempty"`
	Content    digest.ID        `json:"content"`
	Earlier    int              `json:"earlier"`
	ProposedAt evidence.Time    `json:"proposedAt"`
	DecidedAt  *evidence.Time   `json:"decidedAt,omitempty"`
	Deadline   *evidence.Time   `json:"deadline,omitempty"`
	Judges     Judges           `json:"judges"`
	Judgements []JudgementRow   `json:"judgements"`
	Manifest   canon.RawMessage `json:"manifest,omitempty"` // absent if it was taken down
	TakenDown  bool             `json:"takenDown,omitempty"`
	Credential string           `json:"credential,omitempty"` // its address
	// CredentialStatus says whether its revocation was looked up when it was proposed.
	CredentialStatus string `json:"credentialStatus,omitempty"`
	// Attested is what the credential says that it is about.
	Attested *Attested `json:"attested,omitempty"`
	Chain    *Chain    `json:"chain,omitempty"`
	Entry    int64     `json:"entry"`
	Receipt  string    `json:"receipt"` // its address
	Decision *int64    `json:"decision,omitempty"`
	// New says that this call made the proposal; otherwise it was there.
	New bool `json:"-"`
}

// Judges count those who were drawn and how they voted.
type Judges struct {
	Drawn     int `json:"drawn"`
	Of        int `json:"of"` // who could have been drawn
	For       int `json:"for"`
	Against   int `json:"against"`
	Abstained int `json:"abstained"`
	Missing   int `json:"missing"`
	// Calibrated are those among the drawn who had passed the calibration set.
	Calibrated int      `json:"calibrated"`
	Persons    []string `json:"persons,omitempty"` // who was drawn; not in rows
}

// A JudgementRow is one vote as it is shown.
type JudgementRow struct {
	Person    string          `json:"person"`
	Agent     string          `json:"agent"`
	PublicKey string          `json:"publicKey"`
	Verdict   string          `json:"verdict"`
	Reason    string          `json:"reason,omitempty"` // address of the text
	Signature string          `json:"signature"`
	At        evidence.Time   `json:"at"`
	Entry     int64           `json:"entry"`
	Receipt   string          `json:"receipt"`
	Digest    *digest.Content `json:"reasonDigest,omitempty"`
}

// A Chain is the pair of signatures that ties a published manifest to the one
// before it.
type Chain struct {
	Signature        string `json:"chainSignature"`        // HMAC-SHA-256, hexadecimal
	SignatureEd25519 string `json:"chainSignatureEd25519"` // multibase
	KeyID            string `json:"kid"`
	Previous         string `json:"previous,omitempty"`
}

// A Query asks for rows.
type Query struct {
	Thing    Thing  // "" for evals
	Artifact string // artifact path, or empty
	Status   string // "" for published, "all" for every state
	Runner   string // DID or agent, or empty
	After    string // [Page.Next] of the page before
	Limit    int    // 0 for 50; at most 200
}

// A Page is a part of a list, the newest row first.
type Page struct {
	Rows []canon.RawMessage
	JSON []byte // the array of the rows, ready to send
	Next string // "" at the end
	ETag string // quoted
}

// A Node is a path of the catalogue with what lies below it.
type Node struct {
	Path     string  `json:"path"`
	Thing    Thing   `json:"kind,omitempty"` // empty for a folder
	Proposal string  `json:"proposalId,omitempty"`
	Status   string  `json:"status,omitempty"`
	Entry    *int64  `json:"entry,omitempty"`
	Receipt  string  `json:"receipt,omitempty"`
	Children []Child `json:"children"`
	More     bool    `json:"more,omitempty"` // there are more children than are shown
}

// A Child is a path below another.
type Child struct {
	Path     string `json:"path"`
	Name     string `json:"name"`
	Thing    Thing  `json:"kind,omitempty"`
	Proposal string `json:"proposalId,omitempty"`
}

// A Minted is a credential that the registry issued.
type Minted struct {
	Credential []byte                `json:"-"`
	Digest     digest.ID             `json:"digest"`
	ID         string                `json:"id"`
	Entry      int64                 `json:"entry"`
	Receipt    string                `json:"receipt"`
	Status     *evidence.StatusPlace `json:"status,omitempty"`
	Revoked    *int64                `json:"revoked,omitempty"` // the entry that revokes it
	New        bool                  `json:"-"`
}

// A Calibrated is the result of a try at the calibration set.
type Calibrated struct {
	Score    float64 `json:"score"` // agreement beyond chance
	Needed   float64 `json:"needed"`
	Passed   bool    `json:"passed"`
	Attempt  int     `json:"attempt"`
	Attempts int     `json:"attempts"` // how many there are
}

// A Question is one proposal of the calibration set, without its answer.
type Question struct {
	ID       string           `json:"id"`
	Proposal canon.RawMessage `json:"proposal"`
}

// A Receipt proves an entry.
type Receipt struct {
	Index int64
	File  []byte // C2SP tlog-proof
	Entry []byte // canonical bytes, also when the file has them
}

// A StatusList is a signed status list credential.
type StatusList struct {
	Credential []byte
	ETag       string
}

// KeyDocuments are what a verifier needs to find keys.
type KeyDocuments struct {
	JWKS []byte
	DID  []byte // did.json; nil if the issuer is a did:key
	ETag string
}

// Public is what a registry says about itself.
type Public struct {
	Origin string `json:"origin"`
	LogKey string `json:"logKey"` // verifier key of the checkpoints
	// FormerLogKeys are those before it: old checkpoints and receipts verify with
	// them.
	FormerLogKeys  []FormerLogKey `json:"formerLogKeys,omitempty"`
	TrustRoot      digest.ID      `json:"trustRoot"` // version 1 of the signers file
	PublicURL      string         `json:"publicUrl,omitempty"`
	DID            string         `json:"did"`
	Judges         int            `json:"judges"`
	Quorum         int            `json:"quorum"`
	DeadlineHours  int            `json:"deadlineHours"`
	Witnesses      []string       `json:"witnesses,omitempty"`
	Entries        int64          `json:"entries"`
	EligibleJudges int            `json:"eligibleJudges"`
	// CalibratedJudges are those of them who passed the calibration set: zero says that the
	// registry does without.
	CalibratedJudges int        `json:"calibratedJudges"`
	CalibrationSet   *digest.ID `json:"calibrationSet,omitempty"`
}

// A FormerLogKey is a key that sealed the ledger before the one that does now.
type FormerLogKey struct {
	Key       string        `json:"key"`
	Until     int64         `json:"until"` // the entry that put another in its place, the last that it sealed
	RetiredAt evidence.Time `json:"retiredAt"`
}

// A Made is what [Init] made.
type Made struct {
	Dir       string
	Origin    string
	TrustRoot digest.ID
	LogKey    string
	DID       string
}

// A Rebuilt is what came of making the index again.
type Rebuilt struct {
	Entries int64     `json:"entries"`
	Rows    int64     `json:"rows"`
	Digest  digest.ID `json:"digest"` // over all rows of all tables in order
	Before  digest.ID `json:"before"` // the same of what was there before; zero if there was nothing
}

// Stats are for metrics and health.
type Stats struct {
	Entries, Applied      int64
	Agents, Persons       int
	Proposals, PendingNow int
	LastAnchor            time.Time
	Broken                error
}
