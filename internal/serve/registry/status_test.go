package registry

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
)

func TestTheStatusOfAProposedCredential(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	issuer := must[*seal.Key](t)(seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32))))
	pub, _ := issuer.Public().Ed25519()
	signer := attest.Signer{Key: issuer, Method: seal.DIDKeyMethod(pub), Created: w.clock()}
	const list = "https://lab.example/status/1"
	credential := func(score float64, status ...attest.StatusEntry) string {
		return string(must[[]byte](t)(attest.Issue(attest.Draft{Issuer: seal.DIDKey(pub), Imported: true, ValidFrom: w.clock(), Body: []byte(attestation(t, seal.DIDKey(pub), score)), Status: status}, signer)))
	}
	listOf := func(id string, revoked bool) string {
		bits := make([]byte, attest.MinStatusBytes)
		if revoked {
			attest.SetStatus(bits, 5)
		}
		return string(must[[]byte](t)(attest.IssueStatusList(attest.StatusDraft{ID: id, Issuer: seal.DIDKey(pub), Purpose: attest.Revocation, Bits: bits, ValidFrom: w.clock(), ValidUntil: w.clock().Add(time.Hour)}, signer)))
	}
	entry := attest.NewStatusEntry(list, 5, attest.Revocation)
	propose := func(credential, lists string) (*Proposal, error) {
		if lists != "" {
			lists = `"statusLists":` + lists + `,`
		}
		return w.Propose(ctx, a.Agent, Eval, []byte(fmt.Sprintf(`{%s"credential":%s,"artifactPath":%q,"evalHarnessPath":%q,"datasetPath":%q}`, lists, credential, modelPath, harnessPath, datasetPath)), "")
	}
	for _, tt := range []struct{ name, credential, lists, want, refused string }{
		{"no status", credential(0.1), "", "none", ""},
		{"its list is elsewhere", credential(0.2, entry), "", "not checked", ""},
		{"its list was sent", credential(0.3, entry), "[" + listOf(list, false) + "]", "checked in the list that was sent", ""},
		{"another list was sent", credential(0.4, entry), "[" + listOf("https://lab.example/status/2", false) + "]", "not checked", ""},
		{"it is revoked in the list that was sent", credential(0.5, entry), "[" + listOf(list, true) + "]", "", "no longer stands by"},
		{"the list was changed", credential(0.6, entry), "[" + strings.Replace(listOf(list, true), `"encodedList":"u`, `"encodedList":"uA`, 1) + "]", "", "status list"},
		{"no lists", credential(0.7, entry), `{}`, "", "statusLists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := propose(tt.credential, tt.lists)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			read := must[*Proposal](t)(w.Proposal(ctx, p.ID))
			if read.CredentialStatus != tt.want {
				t.Errorf("%q, want %q", read.CredentialStatus, tt.want)
			}
			if page := must[*Page](t)(w.List(ctx, Query{Limit: 1})); !strings.Contains(string(page.Rows[0]), `"credentialStatus":"`+tt.want+`"`) {
				t.Errorf("the row: %s", page.Rows[0])
			}
		})
	}

	// Our own lists are at hand.
	mint := func(score float64) *Minted {
		return must[*Minted](t)(w.Mint(ctx, a.Agent, []byte(`{"kind":"eval.run.attestation.v1","body":`+attestation(t, "did:web:x.example", score)+`}`), ""))
	}
	if p, err := propose(string(mint(0.8).Credential), ""); err != nil || p.CredentialStatus != "checked" {
		t.Errorf("ours: %+v %v", p, err)
	}
	gone := mint(0.9)
	if err := w.Revoke(ctx, a.Agent, gone.Digest, "mine", Once{}); err != nil {
		t.Fatal(err)
	}
	if p, err := propose(string(gone.Credential), ""); err == nil || !strings.Contains(err.Error(), "no longer stands by") {
		t.Errorf("ours, revoked: %+v %v", p, err)
	}
}
