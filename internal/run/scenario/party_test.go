package scenario

import (
	"strings"
	"testing"

	"tallystick/internal/run/cassette"
)

func TestEachAuthoredReplyHasOneParty(t *testing.T) {
	named := func(model string, party cassette.Purpose) Reply {
		return Reply{Text: "x", For: party, When: &When{Agent: model}}
	}
	for _, tt := range []struct {
		name    string
		reply   Reply
		parties Parties
		want    cassette.Purpose
	}{
		{"names nothing", Reply{Text: "x"}, Parties{Judged: true, Judges: []string{"j"}}, cassette.ForAgent},
		{"has a condition only", Reply{Text: "x", When: &When{Contains: "j"}}, Parties{Judged: true, Judges: []string{"j"}}, cassette.ForAgent},
		{"names the judge", named("j", ""), Parties{Judges: []string{"j"}}, cassette.ForJudge},
		{"names the judge in another case", named("J", ""), Parties{Judges: []string{"j"}}, cassette.ForJudge},
		{"names the judge, whose model the agent asks too", named("j", ""), Parties{Judged: true, Judges: []string{"j"}, Agents: []string{"j"}}, cassette.ForJudge},
		{"names a judge of another judge.yaml", named("old", ""), Parties{Judged: true, Judges: []string{"j"}, Agents: []string{"m"}}, cassette.ForJudge},
		{"names the target's model", named("m", ""), Parties{Judged: true, Judges: []string{"j"}, Agents: []string{"m"}}, cassette.ForAgent},
		{"names a model where no model grades", named("x", ""), Parties{}, cassette.ForAgent},
		{"says that it is the agent's", named("j", cassette.ForAgent), Parties{Judged: true, Judges: []string{"j"}}, cassette.ForAgent},
		{"says that it is the judge's", named("m", cassette.ForJudge), Parties{Agents: []string{"m"}}, cassette.ForJudge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Scenario{Model: []Reply{tt.reply}}
			tt.parties.Assign(&s)
			for _, party := range []cassette.Purpose{cassette.ForAgent, cassette.ForJudge} {
				if got, want := s.RepliesFor(party).Len(), map[bool]int{true: 1}[party == tt.want]; got != want {
					t.Errorf("%s has %d replies, want %d", party, got, want)
				}
			}
		})
	}
}

func TestAReplyForAnUnknownPartyIsRefused(t *testing.T) {
	s := Scenario{Version: 1, Turns: []Turn{{Text: "x"}}, Model: []Reply{{Text: "x", For: "everybody"}}}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), `for is "everybody", expected agent, judge or user`) {
		t.Errorf("got %v", err)
	}
}
