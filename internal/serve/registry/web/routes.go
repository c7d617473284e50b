package web

import (
	"net/http"

	"tallystick/internal/share/attest"
)

// access says who may ask.
type access int

const (
	public  access = iota // any client
	anAgent               // a holder of an API key
	aJudge                // an agent of a person admitted as a judge
)

// A route is one row of the table: one method of one path.
type route struct {
	method  string
	path    string // as [http.ServeMux] spells it
	name    string // operationId
	summary string
	access  access
	writes  bool // needs the one process that writes
	query   []param
	takes   string // schema of the body; empty takes none
	large   bool   // the body may carry results of a run
	gives   []gives
	handle  func(*call) (*reply, error)
	// schemas are the JSON Schemas that it names and that schemas.json does not
	// have, by name.
	schemas map[string]string
	// operations marks what is for the operator: neither cached nor read by pages
	// elsewhere, and not counted by limits.
	operations bool
	// page marks what people read: problems are told as pages too.
	page bool
}

// A param is a member of the query.
type param struct{ name, about, schema string }

// gives is one answer that is not an error.
type gives struct {
	status int
	media  string
	schema string // name of a component; empty for bytes
	about  string
}

// once reports whether the route takes an Idempotency-Key: every write does.
func (r *route) once() bool { return r.writes && r.takes != "" }

// shared reports whether a page elsewhere may read the answer, and a cache keep it.
func (r *route) shared() bool {
	return r.method == http.MethodGet && r.access == public && !r.operations
}

func (r *route) maxBody() int64 {
	if r.large {
		return maxDocument
	}
	return maxForm
}

func ok(media, schema, about string) []gives { return []gives{{http.StatusOK, media, schema, about}} }

func made(schema, about string) []gives {
	return []gives{
		{http.StatusCreated, typeJSON, schema, about},
		{http.StatusOK, typeJSON, schema, "the same request was made before; this is its answer"},
	}
}

// Query parameters of lists.
func listQuery() []param {
	return []param{
		{"status", "published (the default), pending, rejected, withdrawn, lapsed or all", `{"type":"string","enum":["published","pending","rejected","withdrawn","lapsed","all"]}`},
		{"runner", "the DID of a runner, or an agent", `{"type":"string"}`},
		{"after", "where the page before ended, as its Link header has it", `{"type":"string"}`},
		{"limit", "rows of a page, 1 to 200; 50 if it is not given", `{"type":"integer","minimum":1,"maximum":200}`},
	}
}

// routes is the table. It is a function so that it costs nothing until a server is
// made. A further one is a file with its function, and a row; what it takes and
// gives is described in schemas.json or in the row.
func routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return append(pageRoutes(), []route{
		// The catalogue.
		{method: post, path: "/api/agent/v1/register", name: "register", summary: "Register an agent and get an API key",
			writes: true, takes: "Registration", gives: made("Registered", "the keys, which are shown once"), handle: register},
		{method: post, path: "/api/agent/v1/key", name: "replaceKey", summary: "Replace the API key by a new one", access: anAgent,
			writes: true, takes: "Empty", gives: []gives{{201, typeJSON, "APIKey", "the new key; the old one no longer works"}}, handle: replaceKey},
		{method: get, path: "/api/agents/{tag}", name: "agent", summary: "An agent and its public key", gives: ok(typeJSON, "Agent", "the agent"), handle: showAgent},
		{method: post, path: "/api/knowledge/{kind}/propose", name: "propose", summary: "Propose an artifact, model, eval harness, dataset or eval", access: anAgent,
			writes: true, takes: "Proposed", large: true, gives: made("Proposal", "the proposal"), handle: propose},
		{method: get, path: "/api/knowledge/{kind}/list", name: "list", summary: "What the catalogue has, the newest first",
			query: append(listQuery(), param{"artifact", "only evals of this artifact path", `{"type":"string"}`}),
			gives: ok(typeJSON, "Rows", "a page; a Link header with rel=next leads to the next one"), handle: list},
		{method: get, path: "/api/knowledge/eval/for-artifact/{path...}", name: "forArtifact", summary: "The evals of an artifact",
			query: listQuery(), gives: ok(typeJSON, "Rows", "a page"), handle: forArtifact},
		{method: get, path: "/api/knowledge/tree/path/{path...}", name: "tree", summary: "A path of the catalogue and what lies below it",
			gives: ok(typeJSON, "Node", "the path"), handle: tree},
		{method: get, path: "/proposal/{id}", name: "proposal", summary: "Everything about one proposal: manifest, judges, votes, decision",
			gives: ok(typeJSON, "FullProposal", "the proposal"), handle: proposal},
		{method: post, path: "/api/agent/v1/withdraw", name: "withdraw", summary: "Withdraw a proposal of one's own", access: anAgent,
			writes: true, takes: "Withdrawal", gives: ok(typeJSON, "Proposal", "the proposal, which stays readable"), handle: withdraw},

		// Judges.
		{method: get, path: "/api/agent/v1/calibrate", name: "questions", summary: "The calibration set, in one's own order", access: anAgent,
			writes: true, gives: ok(typeJSON, "Questions", "proposals to judge"), handle: questions},
		{method: post, path: "/api/agent/v1/calibrate", name: "calibrate", summary: "Answer the calibration set", access: anAgent,
			writes: true, takes: "Answers", gives: ok(typeJSON, "Calibrated", "the score"), handle: calibrate},
		{method: get, path: "/api/agent/v1/judge", name: "assigned", summary: "The proposals one is drawn to judge and has not judged", access: aJudge,
			writes: true, gives: ok(typeJSON, "Assigned", "open proposals, with what to sign"), handle: assigned},
		{method: post, path: "/api/agent/v1/judge", name: "judge", summary: "Judge a proposal", access: aJudge,
			writes: true, takes: "Judgement", gives: ok(typeJSON, "Proposal", "the proposal after the vote"), handle: judge},

		// Credentials.
		{method: post, path: "/api/credentials/dry-run", name: "dryRun", summary: "Validate an attestation body; nothing is kept",
			takes: "Envelope", large: true, gives: ok(typeJSON, "DryRun", "whether it is valid, and everything that is wrong with it"), handle: dryRun},
		{method: post, path: "/api/credentials/mint", name: "mint", summary: "Have the registry issue a credential about a body", access: anAgent,
			writes: true, takes: "Envelope", large: true, gives: made("Minted", "the credential and where it stands"), handle: mint},
		{method: post, path: "/api/credentials/revoke", name: "revoke", summary: "Revoke a credential that one had minted", access: anAgent,
			writes: true, takes: "Revocation", gives: ok(typeJSON, "Revoked", "it is revoked"), handle: revoke},
		{method: get, path: "/api/credentials/judgment/{kind}/{rid}/{jid}", name: "judgment", summary: "A credential by the run it is about",
			gives: ok(typeCredential, "Credential", "the credential"), handle: judgment},
		{method: get, path: "/credentials/status/{n}", name: "statusList", summary: "A status list: which credentials are revoked",
			gives: ok(typeCredential, "Credential", "a BitstringStatusListCredential"), handle: statusList},
		{method: get, path: "/credentials/index.json", name: "kinds", summary: "The kinds of credentials", gives: ok(typeJSON, "Kinds", "the kinds"), handle: kinds},
		{method: get, path: "/credentials/eval-run/v1", name: "schema", summary: "The JSON Schema of an attestation body",
			gives: ok(typeSchema, "AnyObject", "the schema"), handle: bodySchema},
		{method: get, path: "/docs/schemas/" + attest.Kind + ".schema.json", name: "schemaSource", summary: "The same schema",
			gives: ok(typeSchema, "AnyObject", "the schema"), handle: bodySchema},
		{method: post, path: "/api/knowledge/attestation/verify", name: "verifyAttestation", summary: "Verify the manifest chain of a proposal, or a credential",
			takes: "Attestation", large: true, gives: ok(typeJSON, "AttestationReport", "whether it verifies, and by what"), handle: verifyAttestation},
		{method: get, path: "/api/badge/v1/attestation/{kind}/{sha256}", name: "badge", summary: "The badge of a credential, as JSON or with .svg as a picture",
			gives: []gives{{200, typeJSON, "Badge", "the badge"}, {200, typeSVG, "", "the badge as a picture"}}, handle: badge},

		// VC-API.
		{method: post, path: "/credentials/issue", name: "vcIssue", summary: "VC-API: sign a credential", access: anAgent,
			writes: true, takes: "VCIssue", large: true, gives: []gives{{201, typeJSON, "VCIssued", "the signed credential"}}, handle: vcIssue},
		{method: post, path: "/credentials/verify", name: "vcVerify", summary: "VC-API: verify a credential",
			takes: "VCVerify", large: true, gives: []gives{{200, typeJSON, "VCVerified", "it verifies"}, {400, typeJSON, "VCVerifiedOrError", "it does not verify, or the request is malformed"}}, handle: vcVerify},

		// Keys and what the registry says about itself.
		{method: get, path: "/.well-known/jwks.json", name: "jwks", summary: "Current and retired keys", gives: ok(typeJWKS, "JWKS", "the key set"), handle: jwks},
		{method: get, path: "/.well-known/did.json", name: "did", summary: "The DID document of a did:web without a path", gives: ok(typeDID, "AnyObject", "the document"), handle: didDocument},
		{method: get, path: "/did.json", name: "didBelow", summary: "The DID document of a did:web with a path", gives: ok(typeDID, "AnyObject", "the document"), handle: didDocument},
		{method: get, path: "/.well-known/ip-knowledge.json", name: "about", summary: "What this registry is and where everything stands", gives: ok(typeJSON, "About", "about"), handle: about},
		{method: get, path: "/{$}", name: "home", summary: "The same, or the first page for a client that accepts text/html",
			query: []param{{"q", "words to look for; only the page has them", `{"type":"string"}`}},
			gives: []gives{{200, typeJSON, "About", "about"}, {200, typeHTML, "", "the page"}}, handle: home},
		{method: get, path: "/api/knowledge/signing-keys", name: "signingKeys", summary: "Which key signs what, and what that does not prove", gives: ok(typeJSON, "SigningKeys", "the keys"), handle: signingKeys},
		{method: get, path: "/docs/verification-recipe.md", name: "recipe", summary: "How to verify a credential without trusting this registry", gives: ok(typeMarkdown, "", "the recipe"), handle: recipe},
		{method: get, path: "/scripts/ip_eval_attest.py", name: "attestScript", summary: "A program of one file with which a runner signs the body of a run", gives: ok(typePython, "", "the program"), handle: script},
		{method: get, path: "/openapi.json", name: "openapi", summary: "This document", gives: ok(typeJSON, "AnyObject", "OpenAPI 3.1"), handle: spec},

		// Transparency.
		{method: get, path: "/checkpoint", name: "checkpoint", summary: "The signed tree head (C2SP tlog-checkpoint)", gives: ok(typeText, "", "the checkpoint"), handle: checkpoint},
		{method: get, path: "/tile/{path...}", name: "tile", summary: "A tile of the tree (C2SP tlog-tiles)", gives: ok(typeBytes, "", "the tile"), handle: tile},
		{method: get, path: "/receipt/{index}", name: "receipt", summary: "The proof that an entry is in the ledger (C2SP tlog-proof)", gives: ok(typeText, "", "the receipt"), handle: receipt},
		{method: get, path: "/entries", name: "entries", summary: "Entries of the ledger, one a line",
			query: []param{{"from", "the first index", `{"type":"integer","minimum":0}`}, {"n", "how many, 1 to 1000; 100 if it is not given", `{"type":"integer","minimum":1,"maximum":1000}`}},
			gives: ok(typeLines, "", "canonical JSON, one entry a line"), handle: entries},
		{method: get, path: "/feed.atom", name: "feed", summary: "The newest draws, decisions, revocations, take-downs and changes of judges (Atom)", gives: ok(typeAtom, "", "the feed"), handle: feed},
		{method: get, path: "/blob/{digest}", name: "blob", summary: "A text that entries name by its digest", gives: ok(typeBytes, "", "the bytes"), handle: blob},

		// Operations.
		{method: get, path: "/healthz", name: "health", summary: "The process is there", operations: true, gives: ok(typeText, "", "ok"), handle: health},
		{method: get, path: "/readyz", name: "ready", summary: "Requests can be answered", operations: true, gives: ok(typeText, "", "ok"), handle: ready},
	}...)
}
