package web

import (
	"net/http"
)

// How says how a monitor checks the answers of a route.
type How string

// The ways in which answers are checked.
const (
	// Computed answers are made again from the entries and the texts that they name, and
	// compared byte by byte, with status, type and Link header.
	Computed How = "computed"
	// Verified answers are signed with a date, so that they cannot be made again: the
	// signature is verified and everything else is computed.
	Verified How = "verified"
	// Entered answers go to the holder of an API key alone. What the request did is an
	// entry, which is verified.
	Entered How = "entered"
	// Local answers are about the process that answers.
	Local How = "local"
)

// A Follows says what the answers of a route follow from.
type Follows struct {
	Route, Method, Path string
	From                string
	How                 How
	// Except are top-level members that do not follow from entries, with the reason. Only
	// their value is not compared: that they are there is.
	Except map[string]string
}

const (
	fromProgram = "the program alone: every registry of this version serves the same bytes"
	fromKeyed   = "the request and the state at that entry; only the holder of the API key sees it"
)

// follows has every route of the table by name. A test fails when one is missing.
var follows = map[string]Follows{
	"register":   {From: "`registry.agent`; the API key is shown to the asker alone, its hash is in the entry", How: Entered},
	"replaceKey": {From: "`registry.api_key`", How: Entered},
	"propose":    {From: "`registry.proposed`, and `registry.decided` without judges", How: Entered},
	"withdraw":   {From: "`registry.decided`", How: Entered},
	"questions":  {From: "the calibration set, which is secret; " + fromKeyed, How: Entered},
	"calibrate":  {From: "`registry.calibrated`", How: Entered},
	"assigned":   {From: "`registry.drawn` and `registry.judged`; " + fromKeyed, How: Entered},
	"judge":      {From: "`registry.judged`", How: Entered},
	"mint":       {From: "`credential.issued` and the credential that it names", How: Entered},
	"revoke":     {From: "`credential.revoked`", How: Entered},
	"vcIssue":    {From: "`credential.issued` and the credential that it names", How: Entered},

	"agent":       {From: "`registry.agent`, `registry.judge`", How: Computed},
	"list":        {From: "`registry.proposed`, `.drawn`, `.judged`, `.decided`, `.taken_down`, `credential.issued`, and the manifests and credentials that they name", How: Computed},
	"forArtifact": {From: "as list", How: Computed},
	"tree":        {From: "`registry.proposed`, `registry.decided`", How: Computed},
	"proposal":    {From: "as list, with `registry.agent` for the keys of judges", How: Computed},

	"dryRun": {From: "the request alone: the schema of bodies is in the program", How: Computed},
	"verifyAttestation": {From: "the request, `registry.proposed`, `.decided`, `key.published`, `credential.issued` and `.revoked`", How: Computed,
		Except: map[string]string{"verifiedVia": "names the HMAC where the server has its key, which no reader has"}},
	"vcVerify": {From: "the request, `key.published`, `credential.issued` and `.revoked`", How: Computed},

	"judgment":   {From: "the credential that `credential.issued` names by its digest", How: Computed},
	"badge":      {From: "`credential.issued`, `credential.revoked`", How: Computed},
	"statusList": {From: "`credential.issued` and `.revoked`, bit by bit; dates and proof are the issuer's, and must be in force and verify", How: Verified},
	"kinds": {From: "the settings in `registry.configured`", How: Computed,
		Except: map[string]string{"generatedAt": "says when the process began"}},
	"schema":       {From: fromProgram, How: Computed},
	"schemaSource": {From: fromProgram, How: Computed},

	"jwks":        {From: "`key.published`, with the time of the entry that put a key in use or retired it", How: Computed},
	"did":         {From: "`key.published`, `registry.configured`", How: Computed},
	"didBelow":    {From: "as did", How: Computed},
	"signingKeys": {From: "`key.published`, `ledger.opened`, `signers.changed`", How: Computed},
	"about": {From: "`registry.configured`, `registry.judge`, `ledger.opened`, `signers.changed`, the size of the tree", How: Computed,
		Except: map[string]string{"readOnly": "is about the process that answers"}},
	"home": {From: "as about; the page as list", How: Computed,
		Except: map[string]string{"readOnly": "is about the process that answers"}},
	"recipe":       {From: "the program, with the names of the settings in it", How: Computed},
	"attestScript": {From: fromProgram, How: Computed},
	"openapi":      {From: "the program, with the address of the settings in it", How: Computed},

	"checkpoint": {From: "the tree of all entries; the signature is the operator's", How: Verified},
	"tile":       {From: "the tree of all entries", How: Computed},
	"receipt":    {From: "the entry and the tree; its checkpoint is verified and may be an older one", How: Verified},
	"entries":    {From: "they are the truth: chained, and under the signed checkpoint", How: Verified},
	"feed":       {From: "the newest thousand entries: `registry.drawn`, `.decided`, `.taken_down`, `.judge`, `credential.revoked`", How: Computed},
	"blob":       {From: "the digest in its address; gone if `registry.taken_down` says so", How: Computed},

	"artifactPage":    {From: "as list and tree", How: Computed},
	"evaluationPage":  {From: "as proposal", How: Computed},
	"leaderboardPage": {From: "as list, with the credentials of runs", How: Computed},
	"pageAsset":       {From: fromProgram, How: Computed},
	"pageKeys":        {From: "`ledger.opened`, `signers.changed`", How: Computed},
	"pageCheckpoint":  {From: "as checkpoint", How: Verified},
	"pageReceipt":     {From: "as receipt", How: Verified},
	"pageBlob":        {From: "as blob", How: Computed},

	"health": {From: "whether the process is there", How: Local},
	"ready":  {From: "whether the process can answer", How: Local},
}

// AllFollows lists what the answers of each route follow from, in the order of the
// table of routes.
func AllFollows() []Follows {
	var all []Follows
	for _, r := range routes() {
		f := follows[r.name]
		f.Route, f.Method, f.Path = r.name, r.method, openAPIPath(r.path)
		all = append(all, f)
	}
	return all
}

// FollowsOf says what the answers of a request follow from.
func (s *Server) FollowsOf(r *http.Request) (Follows, bool) {
	handler, _ := s.mux.Handler(r)
	res, ok := handler.(*resource)
	if !ok || res.methods[r.Method] == nil {
		return Follows{}, false
	}
	f, known := follows[res.methods[r.Method].name]
	f.Route = res.methods[r.Method].name
	return f, known
}
