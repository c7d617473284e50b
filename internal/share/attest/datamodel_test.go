package attest

import (
	"encoding/json"
	"strings"
	"testing"
)

// dataModelBase is a credential that breaks no rule.
const dataModelBase = `{
	"@context": ["https://www.w3.org/ns/credentials/v2"],
	"type": ["VerifiableCredential"],
	"issuer": "did:example:issuer",
	"credentialSubject": {"id": "did:example:subject", "https://a.example/alumniOf": "The School of Examples"}
}`

// The rows restate, in our words and with our own documents, what the W3C test
// suite for the data model asks of an issuer (w3c/vc-data-model-2.0-test-suite, sections as in
// the Recommendation). Each row changes the base; null removes a member.
func TestDataModelBySectionOfTheRecommendation(t *testing.T) {
	const mapped = `["https://www.w3.org/ns/credentials/v2", {"Alumni": "https://a.example/Alumni", "Bad": "alumni"}]`
	for _, tt := range []struct{ name, change, want string }{
		{"the base", `{}`, ""},

		{"4.3 no context", `{"@context": null}`, "/@context"},
		{"4.3 a context that is one text", `{"@context": "https://www.w3.org/ns/credentials/v2"}`, "/@context"},
		{"4.3 another first context", `{"@context": ["https://a.example/v1", "https://www.w3.org/ns/credentials/v2"]}`, "/@context"},
		{"4.3 the context of version 1", `{"@context": ["https://www.w3.org/2018/credentials/v1"]}`, "/@context"},
		{"4.3 URLs and objects", `{"@context": ["https://www.w3.org/ns/credentials/v2", {"x": "https://a.example/x"}, "https://a.example/v1"]}`, ""},
		{"4.3 a number as a context", `{"@context": ["https://www.w3.org/ns/credentials/v2", 7]}`, "/@context/1"},
		{"4.3 a context that is not a URL", `{"@context": ["https://www.w3.org/ns/credentials/v2", "no url"]}`, "/@context/1"},
		{"4.3 a context twice", `{"@context": ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/v2"]}`, "/@context/1"},

		{"4.4 an id", `{"id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33"}`, ""},
		{"4.4 an id that is not a URL", `{"id": "not-a-url"}`, "/id"},
		{"4.4 two ids", `{"id": ["did:example:1", "did:example:2"]}`, "/id"},
		{"4.4 two ids of the subject", `{"credentialSubject": {"id": ["did:example:1", "did:example:2"], "https://a.example/x": 1}}`, "/credentialSubject/id"},
		{"4.4 an id that is null", `{"credentialSubject": {"id": 5, "https://a.example/x": 1}}`, "/credentialSubject/id"},

		{"4.5 no type", `{"type": null}`, "type"},
		{"4.5 an empty list of types", `{"type": []}`, "type"},
		{"4.5 without VerifiableCredential", `{"type": ["https://a.example/T"]}`, "must contain VerifiableCredential"},
		{"4.5 one text", `{"type": "VerifiableCredential"}`, ""},
		{"4.5 a URL", `{"type": ["VerifiableCredential", "https://a.example/T"]}`, ""},
		{"4.5 in another order", `{"type": ["https://a.example/T", "VerifiableCredential"]}`, ""},
		{"4.5 a mapped term", `{"@context": ` + mapped + `, "type": ["VerifiableCredential", "Alumni"]}`, ""},
		{"4.5 a term mapped to something else", `{"@context": ` + mapped + `, "type": ["VerifiableCredential", "Bad"]}`, "not a URL"},
		{"4.5 a term that is not mapped", `{"type": ["VerifiableCredential", "Unmapped"]}`, "no context says"},
		{"4.5 a term of a context that is only named", `{"@context": ["https://www.w3.org/ns/credentials/v2", "https://a.example/v1"], "type": ["VerifiableCredential", "Alumni"]}`, ""},

		{"4.6 a name", `{"name": "n", "description": "d"}`, ""},
		{"4.6 a name with its language", `{"name": {"@value": "n", "@language": "en", "@direction": "ltr"}}`, ""},
		{"4.6 names in languages", `{"name": [{"@value": "n", "@language": "en"}, {"@value": "n", "@language": "fr"}]}`, ""},
		{"4.6 a name with another member", `{"name": {"@value": "n", "url": "did:example:2"}}`, "/name"},
		{"4.6 a description that is a number", `{"description": 4}`, "/description"},

		{"4.7 no issuer", `{"issuer": null}`, "issuer"},
		{"4.7 an issuer object", `{"issuer": {"id": "did:example:issuer", "name": "I"}}`, ""},
		{"4.7 an issuer that is a number", `{"issuer": 1}`, "/issuer"},
		{"4.7 an issuer that is not a URL", `{"issuer": "a name"}`, "/issuer"},
		{"4.7 an issuer object without id", `{"issuer": {}}`, "/issuer/id"},
		{"4.7 an issuer's id that is not a URL", `{"issuer": {"id": 3}}`, "/issuer/id"},
		{"4.7 an issuer's name with another member", `{"issuer": {"id": "did:example:i", "name": {"@value": "n", "x": 1}}}`, "/issuer/name"},

		{"4.8 no subject", `{"credentialSubject": null}`, "credentialSubject"},
		{"4.8 a subject without claims", `{"credentialSubject": {}}`, "/credentialSubject"},
		{"4.8 several subjects", `{"credentialSubject": [{"id": "did:example:1"}, {"id": "did:example:2"}]}`, ""},
		{"4.8 several subjects, one empty", `{"credentialSubject": [{"id": "did:example:1"}, {}]}`, "/credentialSubject"},
		{"4.8 no subject in the list", `{"credentialSubject": []}`, "credentialSubject"},
		{"4.8 a subject that is a text", `{"credentialSubject": "did:example:1"}`, "/credentialSubject"},

		{"4.9 dates", `{"validFrom": "2023-01-01T00:00:00.123Z", "validUntil": "2033-01-01T00:00:00-05:00"}`, ""},
		{"4.9 a date without a time zone", `{"validFrom": "2023-01-01T00:00:00"}`, "/validFrom"},
		{"4.9 a date that is a day", `{"validUntil": "2023-01-01"}`, "/validUntil"},
		{"4.9 a date that is a number", `{"validFrom": 5}`, "/validFrom"},
		{"4.9 until before from", `{"validFrom": "2023-01-02T00:00:00Z", "validUntil": "2023-01-01T00:00:00Z"}`, "/validUntil"},
		{"4.9 the same moment in two zones", `{"validFrom": "2023-01-01T05:00:00Z", "validUntil": "2023-01-01T00:00:00-05:00"}`, ""},

		{"4.10 a status without id", `{"credentialStatus": {"type": "BitstringStatusListEntry"}}`, ""},
		{"4.10 a status without type", `{"credentialStatus": {"id": "https://a.example/s"}}`, "/credentialStatus"},
		{"4.10 a status with two ids", `{"credentialStatus": {"type": "BitstringStatusListEntry", "id": ["did:example:1", "did:example:2"]}}`, "/credentialStatus/id"},
		{"4.10 a status of an unmapped type", `{"credentialStatus": {"type": "Mine"}}`, "/credentialStatus/type"},
		{"4.11 a schema", `{"credentialSchema": [{"id": "https://a.example/s", "type": "JsonSchema"}]}`, ""},
		{"4.11 a schema without type", `{"credentialSchema": {"id": "https://a.example/s"}}`, "/credentialSchema"},
		{"4.11 a schema without id", `{"credentialSchema": {"type": "JsonSchema"}}`, "/credentialSchema/id"},
		{"4.11 a schema whose id is not a URL", `{"credentialSchema": {"id": "s", "type": "JsonSchema"}}`, "/credentialSchema/id"},

		{"5.3 a related resource", `{"relatedResource": [{"id": "https://a.example/r", "digestSRI": "sha256-x"}]}`, ""},
		{"5.3 a related resource without digest", `{"relatedResource": [{"id": "https://a.example/r"}]}`, "/relatedResource"},
		{"5.3 a related resource without id", `{"relatedResource": [{"digestSRI": "sha256-x"}]}`, "/relatedResource/id"},
		{"5.3 a resource twice", `{"relatedResource": [{"id": "https://a.example/r", "digestSRI": "x"}, {"id": "https://a.example/r", "digestSRI": "y"}]}`, "twice"},
		{"5.4 a refresh service without type", `{"refreshService": {"id": "https://a.example/r"}}`, "/refreshService"},
		{"5.5 terms of use without type", `{"termsOfUse": [{"id": "https://a.example/t"}]}`, "/termsOfUse"},
		{"5.6 evidence without type", `{"evidence": [{"id": "https://a.example/e"}]}`, "/evidence"},
		{"5.6 evidence", `{"evidence": [{"type": "https://a.example/E"}]}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report, err := CheckDataModel(changed(t, dataModelBase, tt.change))
			if err != nil {
				t.Fatal(err)
			}
			if report.Valid != (tt.want == "") {
				t.Fatalf("valid is %v: %v", report.Valid, report.Problems)
			}
			if tt.want != "" && !strings.Contains(report.Problems[0].String(), tt.want) {
				t.Errorf("got %q, want something with %q", report.Problems, tt.want)
			}
		})
	}
}

// changed puts the members of a change into a document; null takes one out.
func changed(t *testing.T, base, change string) []byte {
	t.Helper()
	var doc, with map[string]any
	if err := json.Unmarshal([]byte(base), &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(change), &with); err != nil {
		t.Fatal(err)
	}
	for name, value := range with {
		if doc[name] = value; value == nil {
			delete(doc, name)
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDataModelRefusesWhatIsNotAnObjectOrNotStrictJSON(t *testing.T) {
	if r, err := CheckDataModel([]byte(`[]`)); err != nil || r.Valid {
		t.Errorf("a list: %v, %v", r, err)
	}
	for _, text := range []string{``, `{"id":"a:b","id":"a:c"}`, dataModelBase + "x"} {
		if _, err := CheckDataModel([]byte(text)); err == nil {
			t.Errorf("%.40q was read", text)
		}
	}
}
