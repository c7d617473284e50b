package attest

import (
	"fmt"
	"slices"
	"strings"
)

// baseTerms are the terms that the context of VC 2.0 protects, with those of the parts
// that it defines. What they mean must be the same for every reader.
var baseTerms = []string{
	"id", "type", "name", "description", "digestMultibase", "digestSRI", "mediaType",
	"VerifiableCredential", "EnvelopedVerifiableCredential", "VerifiablePresentation", "EnvelopedVerifiablePresentation",
	"JsonSchemaCredential", "JsonSchema", "BitstringStatusListCredential", "BitstringStatusList", "BitstringStatusListEntry", "DataIntegrityProof",
	"credentialSchema", "credentialStatus", "credentialSubject", "confidenceMethod", "evidence", "issuer", "refreshService", "relatedResource", "renderMethod",
	"termsOfUse", "validFrom", "validUntil", "holder", "proof", "verifiableCredential",
	"statusPurpose", "statusListIndex", "statusListCredential", "encodedList", "ttl", "statusReference", "statusSize", "statusMessage",
	"cryptosuite", "created", "proofPurpose", "proofValue", "verificationMethod", "assertionMethod", "challenge", "domain", "expires", "nonce", "previousProof",
}

// baseNames are the IRIs of those terms: another word for one of them is as bad as
// another meaning.
var baseNames = []string{"https://www.w3.org/2018/credentials#", "https://w3id.org/security#", "https://www.w3.org/ns/credentials/status#"}

// Redefinitions lists where contexts that stand in a document redefine a term of the
// base context, at any depth: processors of JSON-LD refuse such a document, and those
// that read it as JSON see something else in it.
func Redefinitions(document any) []Problem {
	var found []Problem
	walkContexts("", document, func(path string, context map[string]any) {
		for name, definition := range context {
			at := path + "/" + pointerEscapes.Replace(name)
			switch iri := iriOf(definition); {
			case name == "@import" || name == "@propagate":
				found = append(found, Problem{at, "is not taken in a context that stands in the document"})
			case slices.Contains(baseTerms, name) && iri != "@"+name:
				found = append(found, Problem{at, fmt.Sprintf("must not redefine %s, a term of %s", name, contextCredentials)})
			case name != "@vocab" && slices.ContainsFunc(baseNames, func(base string) bool { return strings.HasPrefix(iri, base) }):
				found = append(found, Problem{at, "must not be another word for a term of " + contextCredentials})
			}
		}
	})
	slices.SortFunc(found, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return found[:min(len(found), maxProblems)]
}

// iriOf is what a definition of a term maps it to.
func iriOf(definition any) string {
	switch d := definition.(type) {
	case string:
		return d
	case map[string]any:
		id, _ := d["@id"].(string)
		return id
	}
	return ""
}

// walkContexts visits every context that stands in a value, also those in contexts.
func walkContexts(path string, v any, visit func(path string, context map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			at := path + "/" + pointerEscapes.Replace(name)
			if name == "@context" {
				for i, c := range list(sub) {
					if context, ok := c.(map[string]any); ok {
						visit(fmt.Sprintf("%s/%d", at, i), context)
					}
				}
			}
			walkContexts(at, sub, visit)
		}
	case []any:
		for i, sub := range v {
			walkContexts(fmt.Sprintf("%s/%d", path, i), sub, visit)
		}
	}
}
