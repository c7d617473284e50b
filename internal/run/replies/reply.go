// Package replies is the library of replies: every reply of a model that was paid for,
// one file for each draw, found again by what was asked. So the same prompt under
// another target's name, in a renamed class or in a second variant is not paid again.
//
// A reply is found by its key, the SHA-256 of who asked (the agent or the judge), the
// endpoint that answered, the API, the canonical request, which of several equal
// requests it was, the repetition, and the scope. All of them are in the key, so what
// must not answer each other has another name: a judge's reply is never an agent's, and
// a held-out case has a scope of its own. A file tells the members of its key, and is
// refused if they do not give its name.
//
// The file of a draw is never written over. The first draw under a key is the one that
// answers; later draws lie beside it. Each draw is a reply.drawn entry of the ledger
// before the reply is used ([Shelf], [Asked.Keep]). A file of which the ledger has
// another digest is refused; one that the ledger does not know, as from another
// workspace, answers and is called unlisted: nothing made of it is a recording.
//
// Where it stops: a lookup opens one file by its name. There is no index, no
// normalising, and nothing is ever removed. The folder is meant for git.
//
// docs/formats/replies.md states the format.
package replies

import (
	"encoding/hex"
	"fmt"
	"path"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// Format names the format of a reply's file, and keeps its key apart from every other
// hash.
const Format = "tallystick-reply/" + format.Version

// Dir is the library's folder, relative to the workspace.
const Dir = "cassettes/replies"

// A Scope says whom a reply may answer besides its party. Without one it answers every
// class that has none. A class with held-out cases has its own, and so has each of its
// held-out cases.
type Scope struct {
	Case  string `json:"case,omitempty"`
	Class string `json:"class"`
}

// ScopeOf is the scope of a case. HeldOut are the ids of all cases of its class that are
// held out.
func ScopeOf(class, id string, heldOut map[string]bool) *Scope {
	switch {
	case heldOut[id]:
		return &Scope{Class: class, Case: id}
	case len(heldOut) > 0:
		return &Scope{Class: class}
	}
	return nil
}

// A Reply is one draw: what was asked, by whom, and what came.
type Reply struct {
	Case      string              `json:"case"` // that it was drawn for, as Class and Target
	Class     string              `json:"class"`
	Draw      int64               `json:"draw"`     // 1 for the first under the key
	Endpoint  string              `json:"endpoint"` // the URL that was asked
	Format    string              `json:"format"`
	LatencyMS int64               `json:"latency_ms"`
	Model     *cassette.ModelCall `json:"model"`
	Ordinal   int64               `json:"ordinal"` // 0 for the first of equal requests that were answered
	Party     cassette.Purpose    `json:"party"`
	Repeat    int                 `json:"repeat,omitempty"` // of the repetitions of a case; absent for the first
	Scope     *Scope              `json:"scope,omitempty"`
	Target    string              `json:"target"`
}

// Key names what the reply answers.
func (r *Reply) Key() (digest.ID, error) {
	text, err := canon.Marshal(struct {
		API      wire.API         `json:"api"`
		Endpoint string           `json:"endpoint"`
		Format   string           `json:"format"`
		Ordinal  int64            `json:"ordinal"`
		Party    cassette.Purpose `json:"party"`
		Repeat   int              `json:"repeat,omitempty"`
		Request  canon.RawMessage `json:"request"`
		Scope    *Scope           `json:"scope,omitempty"`
	}{r.Model.API, r.Endpoint, Format, r.Ordinal, r.Party, r.Repeat, r.Model.Request, r.Scope})
	return digest.IDOf(text), err
}

// File is where a draw lies, relative to the workspace.
func File(key digest.ID, draw int64) string {
	name := hex.EncodeToString(key[:])
	return path.Join(Dir, name[:2], fmt.Sprintf("%s.%d.json", name, draw))
}

// Content names a call with its reply, however it was found: what a cassette and a
// reply.drawn entry have in common.
func Content(m *cassette.ModelCall) (digest.Content, error) {
	text, err := canon.Marshal(m)
	return digest.ContentOf(text), err
}

// interaction is the reply as a cassette has it.
func (r *Reply) interaction() (*cassette.Interaction, error) {
	it := cassette.Interaction{LatencyMS: r.LatencyMS, Model: r.Model, FromLibrary: true}
	it.MarkFor(r.Party)
	// What a cassette could not hold is not a reply.
	c, err := cassette.New(cassette.Recorded, nil, 0, []cassette.Interaction{it})
	if err != nil {
		return nil, err
	}
	return &c.Interactions[0], nil
}

// entry is the record of the draw in the ledger.
func (r *Reply) entry(key digest.ID, file []byte, kept bool) (*evidence.ReplyDrawn, error) {
	content, err := Content(r.Model)
	if err != nil {
		return nil, err
	}
	return &evidence.ReplyDrawn{API: string(r.Model.API), CaseID: r.Case, Class: r.Class, CostMicro: r.Model.CostMicrodollars, Digest: digest.ContentOf(file),
		Draw: r.Draw, Endpoint: r.Endpoint, Kept: kept, Key: key, Model: r.Model.ModelName(), Party: string(r.Party), Reply: content, Target: r.Target}, nil
}

// parse reads the file of a draw and refuses one that is not what its name says.
func parse(data []byte, key digest.ID, draw int64) (*Reply, error) {
	var r Reply
	if err := canon.UnmarshalCanonical(data, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Format != Format:
		return nil, fmt.Errorf("its format is %.60q, expected %s", r.Format, Format)
	case r.Model == nil:
		return nil, fmt.Errorf("it has no model call")
	case r.Draw != draw:
		return nil, fmt.Errorf("it is draw %d, its name says %d", r.Draw, draw)
	case r.Party != cassette.ForAgent && r.Party != cassette.ForJudge && r.Party != cassette.ForUser:
		return nil, fmt.Errorf("its party is %.40q, expected agent, judge or user", r.Party)
	case r.Ordinal < 0 || r.Repeat < 0 || r.Repeat == 1:
		return nil, fmt.Errorf("its ordinal is %d and its repetition %d, expected 0 or more, and a repetition from 2 on", r.Ordinal, r.Repeat)
	case r.Model.From == nil || r.Model.From.URL() != r.Endpoint:
		return nil, fmt.Errorf("its reply is of another endpoint than %.200q, which it is named for", r.Endpoint)
	case !r.Model.Answered():
		return nil, fmt.Errorf("its reply is an error or a stream that broke off, which answers nothing")
	}
	got, err := r.Key()
	if err == nil && got != key {
		err = fmt.Errorf("what it answers has the key %s", got)
	}
	return &r, err
}
