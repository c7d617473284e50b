package web

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/evidence"
)

// fedEntries is how many of the newest entries a feed is made of: who asks once an hour
// misses nothing of a registry that has a thousand entries an hour.
const fedEntries = 1000

// An atomFeed is RFC 4287, of what a reader would subscribe to.
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    atomLink `xml:"link"`
	Summary string   `xml:"summary,omitempty"`
}

// feed answers with the newest draws, decisions, revocations, take-downs and changes of
// judges. Each follows from one entry, whose receipt is its id.
func feed(c *call) (*reply, error) {
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	from := max(0, config.Entries-fedEntries)
	raws, err := c.s.reads.Entries(c.ctx(), from, fedEntries)
	if err != nil {
		return nil, err
	}
	f := atomFeed{ID: c.url("/feed.atom"), Title: "Registry " + config.Origin, Author: config.Origin, Links: []atomLink{{"self", c.url("/feed.atom")}, {"alternate", c.url("/")}}}
	for i, raw := range raws {
		entry, body, err := evidence.DecodeEntry(raw)
		if err != nil {
			return nil, err
		}
		f.Updated = entry.Time.String()
		if entry.Manual {
			continue
		}
		e, told := c.fed(body)
		if !told {
			continue
		}
		e.ID, e.Updated = c.url(fmt.Sprintf("/receipt/%d", from+int64(i))), entry.Time.String()
		f.Entries = append(f.Entries, e)
	}
	slices.Reverse(f.Entries)
	text, err := xml.Marshal(f)
	if err != nil {
		return nil, err
	}
	return given(typeAtom, append([]byte(xml.Header), append(text, '\n')...)), nil
}

// fed tells of one entry, if it is one to be told.
func (c *call) fed(body evidence.Body) (atomEntry, bool) {
	proposal := func(id string) atomLink { return atomLink{Href: c.url("/evaluation/" + id)} }
	switch b := body.(type) {
	case *evidence.RegistryDrawn:
		return atomEntry{Title: fmt.Sprintf("%d of %d judges are drawn", len(b.Judges), b.Of), Link: proposal(b.Proposal), Summary: strings.Join(b.Judges, ", ")}, true
	case *evidence.RegistryDecided:
		return atomEntry{Title: "A proposal is " + b.Outcome, Link: proposal(b.Proposal),
			Summary: fmt.Sprintf("%d for it, %d against, %d abstained, %d did not vote", b.Votes.For, b.Votes.Against, b.Votes.Abstained, b.Votes.Missing)}, true
	case *evidence.CredentialRevoked:
		_, hex, _ := strings.Cut(b.Credential.String(), ":")
		return atomEntry{Title: "A credential is revoked", Link: atomLink{Href: c.url("/api/badge/v1/attestation/" + shortKind + "/" + hex)}, Summary: b.Reason}, true
	case *evidence.RegistryTakenDown:
		return atomEntry{Title: "A text is taken down", Link: atomLink{Href: c.url("/blob/" + b.Blob.String())}, Summary: b.ReasonCode}, true
	case *evidence.RegistryJudge:
		word := "does not judge any more"
		if b.Admitted {
			word = "is admitted as a judge"
		}
		return atomEntry{Title: b.Person + " " + word, Link: atomLink{Href: c.url("/")}}, true
	}
	return atomEntry{}, false
}
