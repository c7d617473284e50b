package web

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/digest"
)

// The feed tells of what became of proposals, credentials, texts and judges, the newest
// first, each with the entry that says so.
func TestTheFeedTellsWhatHappened(t *testing.T) {
	p := newPlace(t, nil)
	m := p.register()
	p.artifacts(m)
	judge := p.register()
	if err := p.reg.AdmitJudge(t.Context(), "ada", []string{judge.id}); err != nil {
		t.Fatal(err)
	}
	minted := p.post("/api/credentials/mint", m.key, envelope(exampleBody)).is(201)
	p.post("/api/credentials/revoke", m.key, `{"credential":"`+minted.has("digest")+`","reason":"<contaminated> & wrong"}`).is(200)
	name, err := digest.ParseContent(p.entryBlob(p.post("/api/knowledge/eval/propose", m.key, evalManifest("0.5")).is(201).has("entry")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.reg.TakeDown(t.Context(), name, "privacy"); err != nil {
		t.Fatal(err)
	}
	a := p.get("/feed.atom").is(200)
	var f atomFeed
	if err := xml.Unmarshal(a.Body.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	var titles []string
	last := time.Now().Add(24 * time.Hour)
	for _, e := range f.Entries {
		titles = append(titles, e.Title)
		at, err := time.Parse(time.RFC3339Nano, e.Updated)
		if err != nil || at.After(last) {
			t.Errorf("%+v: %v", e, err)
		}
		last = at
		p.get(strings.TrimPrefix(e.ID, base)).is(200)
	}
	want := []string{"A text is taken down", "A proposal is published", "A credential is revoked", "ada is admitted as a judge", "A proposal is published", "A proposal is published", "A proposal is published"}
	if strings.Join(titles, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", titles)
	}
	if f.Entries[2].Summary != "<contaminated> & wrong" {
		t.Errorf("%q", f.Entries[2].Summary)
	}
}
