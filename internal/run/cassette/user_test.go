package cassette

import (
	"testing"

	"tallystick/internal/run/wire"
)

// TestTheUsersRepliesAreNobodyElses: what is recorded for the user answers the user alone,
// and a call of it that lost its purpose is not the agent's.
func TestTheUsersRepliesAreNobodyElses(t *testing.T) {
	body := []byte(`{"messages":[{"content":"` + JudgeMark + `agent:0:begin=====","role":"user"}],"model":"user-1"}`)
	request, err := ModelRequest(wire.OpenAIChat, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	players := map[Purpose]func(*Cassette) *Player{ForAgent: NewPlayer, ForJudge: NewJudgePlayer, ForUser: NewUserPlayer}
	for _, purpose := range []Purpose{ForUser, ""} {
		it := Interaction{Model: &ModelCall{API: wire.OpenAIChat, Request: request.Canonical(), Response: Response{Status: 200, Body: []byte(`{}`)}}, Purpose: purpose}
		c, err := New(Recorded, nil, 0, []Interaction{it})
		if err != nil {
			t.Fatal(err)
		}
		for party, player := range players {
			_, err := player(c).Next(request)
			if may := err == nil; may != (purpose == ForUser && party == ForUser) && !(purpose == "" && party == ForJudge) {
				t.Errorf("a call of the purpose %q answers the %s: %v", purpose, party, may)
			}
		}
	}
	it := Interaction{Model: &ModelCall{API: wire.OpenAIChat}}
	if it.MarkFor(ForUser); it.Purpose != ForUser {
		t.Errorf("the purpose is %q", it.Purpose)
	}
}
