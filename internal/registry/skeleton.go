package registry

import (
	"context"
	"log/slog"
	"time"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
	"tallystick/internal/workspace"
)

func notBuilt() error { return refusal.Newf(refusal.Failed, "not built yet") }

// Settings are what registry.yaml says.
type Settings struct {
	PublicURL string // without a slash at the end; gives the did:web
	Origin    string // name of the ledger
	Operator  string // name of the person who operates it
	TrustRoot digest.ID

	Judges   int // drawn for each content; 0 publishes at once
	Quorum   int // of them who must accept
	Deadline time.Duration

	Witnesses     []workspace.Witness
	WitnessQuorum int

	Calibration string // file, relative to the folder; empty for none

	RatePerMinute    int // writes of one API key
	ReadsPerMinute   int // requests of one address
	RegistersPerHour int // registrations from one address
}

// Options say what to open.
type Options struct {
	Dir      string
	DB       string // "" for DIR/registry.db, or postgres://…
	StateDir string // of the memory of what was signed; "" for the user's
	Now      func() time.Time
	Log      *slog.Logger
}

// ReaderOptions say what to read.
type ReaderOptions struct {
	DB  string // postgres://… or the path of an SQLite file
	Now func() time.Time
	Log *slog.Logger
}

// A Registry is a registry open for writing: there is one at a time.
type Registry struct {
	*Reader
	settings Settings
}

// A Reader answers reads.
type Reader struct{}

func Init(ctx context.Context, dir string, s Settings) (*Made, error)  { return nil, notBuilt() }
func LoadSettings(dir string) (Settings, error)                        { return Settings{}, notBuilt() }
func Open(ctx context.Context, o Options) (*Registry, error)           { return nil, notBuilt() }
func OpenReader(ctx context.Context, o ReaderOptions) (*Reader, error) { return nil, notBuilt() }
func Rebuild(ctx context.Context, o Options) (*Rebuilt, error)         { return nil, notBuilt() }
func CheckPath(path string) error                                      { return notBuilt() }
func (r *Registry) Close() error                                       { return notBuilt() }
func (r *Registry) Settings() Settings                                 { return r.settings }
func (r *Registry) Tick(ctx context.Context) error                     { return notBuilt() }
func (r *Registry) Run(ctx context.Context) error                      { return notBuilt() }
func (r *Registry) Stats() Stats                                       { return Stats{} }
func (r *Registry) Register(ctx context.Context, n Registration) (*Registered, error) {
	return nil, notBuilt()
}
func (r *Registry) Propose(ctx context.Context, a *Agent, thing Thing, body []byte, idempotency string) (*Proposal, error) {
	return nil, notBuilt()
}
func (r *Registry) Withdraw(ctx context.Context, a *Agent, proposal string) (*Proposal, error) {
	return nil, notBuilt()
}
func (r *Registry) Judge(ctx context.Context, a *Agent, j Judgement) (*Proposal, error) {
	return nil, notBuilt()
}
func (r *Registry) Questions(ctx context.Context, a *Agent) ([]Question, error) {
	return nil, notBuilt()
}
func (r *Registry) Calibrate(ctx context.Context, a *Agent, answers map[string]string) (*Calibrated, error) {
	return nil, notBuilt()
}
func (r *Registry) AdmitJudge(ctx context.Context, person string, agents []string) error {
	return notBuilt()
}
func (r *Registry) RemoveJudge(ctx context.Context, person, reason string) error { return notBuilt() }
func (r *Registry) TakeDown(ctx context.Context, blob digest.Content, reasonCode string) error {
	return notBuilt()
}
func (r *Registry) RevokeAPIKey(ctx context.Context, agent string) error { return notBuilt() }
func (r *Registry) ReplaceAPIKey(ctx context.Context, a *Agent, apiKey string) (newKey string, err error) {
	return "", notBuilt()
}
func (r *Registry) RotateKey(ctx context.Context, purpose string) (method string, err error) {
	return "", notBuilt()
}
func (r *Registry) Mint(ctx context.Context, a *Agent, body []byte, idempotency string) (*Minted, error) {
	return nil, notBuilt()
}
func (r *Registry) IssueDocument(ctx context.Context, a *Agent, credential []byte, options IssueOptions) ([]byte, error) {
	return nil, notBuilt()
}
func (r *Registry) Revoke(ctx context.Context, a *Agent, credential digest.ID, reason string) error {
	return notBuilt() // a nil agent is the operator
}

// IssueOptions are those of the VC-API.
type IssueOptions struct {
	CredentialID string
	Idempotency  string
}

func (r *Reader) Close() error { return notBuilt() }
func (r *Reader) Authenticate(ctx context.Context, apiKey string) (*Agent, error) {
	return nil, notBuilt()
}
func (r *Reader) Agent(ctx context.Context, id string) (*Agent, error)       { return nil, notBuilt() }
func (r *Reader) List(ctx context.Context, q Query) (*Page, error)           { return nil, notBuilt() }
func (r *Reader) Tree(ctx context.Context, path string) (*Node, error)       { return nil, notBuilt() }
func (r *Reader) Proposal(ctx context.Context, id string) (*Proposal, error) { return nil, notBuilt() }
func (r *Reader) Judgment(ctx context.Context, kind, rid, jid string) ([]byte, error) {
	return nil, notBuilt() // the credential of run rid; jid is its id or digest
}
func (r *Reader) Credential(ctx context.Context, credential digest.ID) (*Minted, error) {
	return nil, notBuilt()
}
func (r *Reader) StatusList(ctx context.Context, n int) (*StatusList, error) { return nil, notBuilt() }
func (r *Reader) Blob(ctx context.Context, blob digest.Content) ([]byte, error) {
	return nil, notBuilt()
}
func (r *Reader) Receipt(ctx context.Context, index int64) (*Receipt, error) { return nil, notBuilt() }
func (r *Reader) Checkpoint(ctx context.Context) ([]byte, error)             { return nil, notBuilt() }
func (r *Reader) Entries(ctx context.Context, from int64, n int) ([][]byte, error) {
	return nil, notBuilt()
}
func (r *Reader) Tile(ctx context.Context, path string) ([]byte, error) { return nil, notBuilt() }
func (r *Reader) Keys(ctx context.Context) (*KeyDocuments, error)       { return nil, notBuilt() }
func (r *Reader) Config(ctx context.Context) (*Public, error)           { return nil, notBuilt() }
func (r *Reader) Ready(ctx context.Context) error                       { return notBuilt() }
