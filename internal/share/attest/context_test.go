package attest

import (
	"encoding/json"
	"testing"
)

func TestContextsThatRedefineATermAreFound(t *testing.T) {
	const base = `"https://www.w3.org/ns/credentials/v2"`
	for name, tt := range map[string]struct {
		document string
		want     string // path of the first; empty for none
	}{
		"none":                    {`{"@context":[` + base + `]}`, ""},
		"terms of its own":        {`{"@context":[` + base + `,{"score":"https://e.example#score","@version":1.1}]}`, ""},
		"a vocabulary":            {`{"@context":[` + base + `,{"@vocab":"https://e.example#"}]}`, ""},
		"the same keyword":        {`{"@context":[` + base + `,{"id":"@id","type":"@type"}]}`, ""},
		"the issuer":              {`{"@context":[` + base + `,{"issuer":"https://e.example#issuer"}]}`, "/@context/1/issuer"},
		"as an object":            {`{"@context":[` + base + `,{"credentialSubject":{"@id":"https://e.example#s"}}]}`, "/@context/1/credentialSubject"},
		"taken away":              {`{"@context":[` + base + `,{"validUntil":null}]}`, "/@context/1/validUntil"},
		"alone":                   {`{"@context":{"proof":"https://e.example#p"}}`, "/@context/0/proof"},
		"in the subject":          {`{"@context":[` + base + `],"credentialSubject":{"@context":{"id":"https://e.example#i"}}}`, "/credentialSubject/@context/0/id"},
		"in a list":               {`{"@context":[` + base + `],"credentialSubject":[{"x":[{"@context":[{"type":"https://e.example#t"}]}]}]}`, "/credentialSubject/0/x/0/@context/0/type"},
		"in a term's own context": {`{"@context":[` + base + `,{"x":{"@id":"https://e.example#x","@context":{"name":"https://e.example#n"}}}]}`, "/@context/1/x/@context/0/name"},
		"another word":            {`{"@context":[` + base + `,{"whoSays":"https://www.w3.org/2018/credentials#issuer"}]}`, "/@context/1/whoSays"},
		"a prefix":                {`{"@context":[` + base + `,{"c":"https://www.w3.org/2018/credentials#"}]}`, "/@context/1/c"},
		"an import":               {`{"@context":[` + base + `,{"@import":"https://e.example/c"}]}`, "/@context/1/@import"},
	} {
		var v any
		if err := json.Unmarshal([]byte(tt.document), &v); err != nil {
			t.Fatal(err)
		}
		found := Redefinitions(v)
		switch {
		case tt.want == "" && len(found) > 0, tt.want != "" && (len(found) == 0 || found[0].Path != tt.want):
			t.Errorf("%s: %v, want %q", name, found, tt.want)
		}
	}
}

// A key that was revoked stands in the document and asserts nothing any more: it is a
// retired one, and no other.
func TestARevokedMethodOutsideAssertionMethodIsRetired(t *testing.T) {
	const did = "did:web:r.example"
	method := func(revoked string) string {
		return `{"id":"` + did + `","verificationMethod":[{"id":"#k1","type":"Multikey","controller":"` + did + `","publicKeyMultibase":"z6MkuhJxHXT1BxZTBjpZjYbU6yJHBBj54UQnBvMwAGnp3Jqv"` + revoked + `}],"assertionMethod":[]}`
	}
	for revoked, want := range map[string]int{"": 0, `,"revoked":"2026-01-01T00:00:00Z"`: 1} {
		var k Keys
		if err := k.AddDID([]byte(method(revoked))); err != nil {
			t.Fatal(err)
		}
		if len(k.listed) != want || want == 1 && !k.listed[0].retired {
			t.Errorf("%q: %+v", revoked, k.listed)
		}
	}
}
