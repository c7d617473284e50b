package user

import (
	"slices"
	"testing"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// talked is a conversation as its trajectory has it.
func talked(t *testing.T, turns ...trajectory.Payload) *trajectory.Verified {
	t.Helper()
	p := policy.ForMode(policy.Autonomous)
	log := trajectory.NewLogWithEvents()
	first := text("My data stopped working.")
	all := append([]trajectory.Payload{&trajectory.RunStarted{Attempt: "a", Case: "c", Class: "k", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
		Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "t", Vantage: vantage.Inside}, &trajectory.TurnStarted{Input: first}}, turns...)
	turn := 0
	for _, e := range append(all, &trajectory.RunCompleted{Status: "completed"}) {
		if _, ok := e.(*trajectory.TurnStarted); ok {
			turn++
		}
		if _, err := log.Append(turn, e, 0); err != nil {
			t.Fatal(err)
		}
	}
	return log.Verified()
}

func text(s string) *trajectory.Content {
	c := trajectory.NewContent([]byte(s), trajectory.PromptHead)
	return &c
}

func answered(s string) trajectory.Payload { return &trajectory.TurnCompleted{Answer: text(s)} }

func moved(say string) *trajectory.UserMoved {
	return &trajectory.UserMoved{By: trajectory.ByModel, Say: text(say), Source: "live"}
}

func heard(say string) trajectory.Payload {
	return &trajectory.TurnStarted{By: trajectory.ByModel, Input: text(say)}
}

func ended(state string) trajectory.Payload {
	return &trajectory.UserEnded{By: trajectory.ByModel, State: text(state), Turns: 2, Why: "reached"}
}

// TestBrokenFindsWhatTheTrajectoryLeavesOut: a record that hides a breach does not help.
func TestBrokenFindsWhatTheTrajectoryLeavesOut(t *testing.T) {
	yes := true
	end := &trajectory.UserMoved{By: trajectory.ByModel, End: true, Reached: &yes, Source: "live"}
	whole := func(c *trajectory.Content) (string, error) { return c.Head, nil }
	for _, tt := range []struct {
		name   string
		events []trajectory.Payload
		want   Rule // "" if the user kept to its rules
	}{
		{"an honest conversation", []trajectory.Payload{answered("What is your number?"), moved("0151 2345 6789"), heard("0151 2345 6789"), answered("Done."), end, ended(`{"on":true}`)}, ""},
		{"a breach without its event", []trajectory.Payload{answered("Hello"), moved("0151 2345 6789"), heard("0151 2345 6789"), answered("Done."), end, ended(`{"on":true}`)}, TooEarly},
		{"a turn that no move has", []trajectory.Payload{answered("Hello"), heard("I have a garden gnome."), answered("Done."), end, ended(`{"on":true}`)}, Unreadable},
		{"a turn with other words", []trajectory.Payload{answered("Hello"), moved("Hm."), heard("Hm, 8431-77."), answered("Done."), end, ended(`{"on":true}`)}, Unreadable},
		{"an end that the state denies", []trajectory.Payload{answered("Hello"), end, ended(`{"on":false}`)}, EndedWithoutGoal},
		{"an end without a word", []trajectory.Payload{answered("Hello"), &trajectory.UserMoved{By: trajectory.ByModel, End: true, Source: "live"}, ended(`{"on":true}`)}, EndedSilently},
		{"no end", []trajectory.Payload{answered("Hello"), moved("Hm."), heard("Hm."), answered("Done.")}, EndedSilently},
		{"an event of a breach", []trajectory.Payload{answered("Hello"), &trajectory.UserBrokeRule{By: trajectory.ByModel, Rule: "failed", Text: "it could not be asked"}, ended(`{"on":true}`)}, Failed},
		{"too many messages", []trajectory.Payload{answered("1"), moved("a"), heard("a"), answered("2"), moved("b"), heard("b"), answered("3"), moved("c"), heard("c"), answered("4"), moved("d"), heard("d"), answered("5"), end, ended(`{"on":true}`)}, Limit},
	} {
		s := marta()
		s.User.Reached = "state.on == true"
		found, err := Broken(s, nil, talked(t, tt.events...), whole)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := rulesOf(found); tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
			t.Errorf("%s: broke %v, expected %q", tt.name, got, tt.want)
		}
	}
}
