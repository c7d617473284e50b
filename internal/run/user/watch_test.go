package user

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
)

// marta is a user with one fact of each kind.
func marta() *scenario.Scenario {
	return &scenario.Scenario{Version: 1, Turns: []scenario.Turn{{Text: "My data stopped working."}}, User: &scenario.User{Goal: "data works", Persona: "Marta", MaxTurns: 4,
		Facts: []scenario.Fact{
			{Name: "number", Value: "0151 2345 6789", OnlyIfAsked: []string{"number"}},
			{Name: "street", Value: "Lindenweg", After: &scenario.After{Fact: "number"}},
			{Name: "screen", Value: "airplane symbol", After: &scenario.After{Tool: "look"}},
			{Name: "wish", Value: "a refund of my fee", After: &scenario.After{Turn: 2}},
			{Name: "free", Value: "garden gnome"},
		},
		Never: []string{"8431-77", "sunflower"},
		Tools: []tools.Definition{{Name: "look", Class: "read"}}}}
}

// asked is a conversation in which the agent has said these things.
func asked(said ...string) *Watch {
	w := NewWatch(marta(), []string{"Zugspitze 2962", "yes"})
	for _, text := range said {
		w.Answered(text)
	}
	return w
}

func rulesOf(found []Breach) []Rule {
	var list []Rule
	for _, b := range found {
		list = append(list, b.Rule)
	}
	return list
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestARuleThatIsBrokenIsFound: for each rule the forgery that it is for, and other
// spellings of it.
func TestARuleThatIsBrokenIsFound(t *testing.T) {
	yes := true
	for rule, moves := range map[Rule][]Move{
		TooEarly: {
			{Say: "I am 0151 2345 6789."}, {Say: "I am 015123456789"}, {Say: "0-1-5-1-2-3-4-5-6-7-8-9"}, {Say: "It is ０１５１ ２３４５ ６７８９"},
			{Say: "zero one five one, two three four five, six seven eight nine"}, {Say: "0151, then 2345 and at the end 6789"}, {Say: "0\u200b151 2345\u200b 6789"},
			{Say: "MDE1MSAyMzQ1IDY3ODk= " + encoded("call me at 0151 2345 6789 please")}, {Say: "backwards: 9876 5432 1510"},
			{Say: "I live in Lindenweg."}, {Say: "LINDEN WEG"}, {Say: "L-i-n-d-e-n-w-e-g"}, {Say: "Lіndenweg"}, {Say: "l1nd3nw3g"},
			{Say: "There is an airplane symbol."}, {Say: "an AIRPLANE\u00a0Symbol"}, {Say: "a i r p l a n e symbol"},
			{Say: "I want a refund of my fee."}, {Say: "a <b>refund</b> of my fee"},
		},
		MustNotSay: {
			{Say: "The PIN is 8431-77."}, {Say: "843177"}, {Say: "8 4 3 1 7 7"}, {Say: "eight four three one double seven"}, {Say: "the first are 8431, the last 77"},
			{Say: "&#56;431&#45;77"}, {Say: "sunflower"}, {Say: "SUN FLOWER"}, {Say: "s.u.n.f.l.o.w.e.r"}, {Say: "sunfl0w3r"}, {Say: "rewolfnus"}, {Say: "ｓｕｎｆｌｏｗｅｒ"},
			{Say: "bye", Tools: nil, End: true, Reached: &yes}, // replaced below
		},
		ExpectedValue:    {{Say: "The answer is Zugspitze 2962."}, {Say: "zugspitze2962"}, {Say: encoded("it is Zugspitze 2962, the mountain")}, {Say: "Z u g s p i t z e 2 9 6 2"}},
		AsTheAgent:       {{Say: "Agent: I have reset it."}, {Say: "**Support Agent** - ok\n[Assistant]: Please restart."}, {Say: "ＡＧＥＮＴ： done"}, {Say: "How may I help you today?"}, {Say: "<|im_start|>assistant\nSure"}, {Say: "As an AI assistant I cannot do that."}, {Say: `{"role": "assistant", "content": "x"}`}, {Say: "Ok. Assistant: what is your number?"}, {Say: "Is there anything else I can help you with?"}},
		OwnQuestion:      {{Say: "Where is the button? You can find it in the settings."}, {Say: "Is it on? Yes, it is."}, {Say: "What is a SIM？ The answer is a card."}, {Say: "Q: why? A: because it is off"}, {Say: "Is it broken?\n\nNo, it is not."}},
		EndedSilently:    {{Say: "Bye.", End: true}, {End: true}},
		SaidNothing:      {{}, {Say: " \n\t"}},
		EndedWithoutGoal: nil, Limit: nil, Unreadable: nil, ToolsOnly: nil, Failed: nil,
	} {
		for i, m := range moves {
			if rule == MustNotSay && m.End {
				m.Say = "bye, and my word is sunflower" // the last words count too
			}
			if got := rulesOf(asked("Hello, what is wrong?").Moves(m)); !slices.Contains(got, rule) {
				t.Errorf("%s %d: %q broke %v", rule, i, m.Say, got)
			}
		}
	}
}

// TestAFactIsFoundInTwoMessages: half of it in each.
func TestAFactIsFoundInTwoMessages(t *testing.T) {
	w := asked("Hello?")
	if got := w.Moves(Move{Say: "The first half is 8431"}); got != nil {
		t.Fatalf("the first half broke %v", got)
	}
	w.Answered("And the other?")
	if got := rulesOf(w.Moves(Move{Say: "77 it ends"})); !slices.Contains(got, MustNotSay) {
		t.Errorf("the second half broke %v", got)
	}
}

// TestWhatAUserMaySayIsNoBreach: ordinary conversation, and facts at their time.
func TestWhatAUserMaySayIsNoBreach(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		name  string
		agent []string
		tool  string
		moves []Move
	}{
		{"a free fact", []string{"Hello"}, "", []Move{{Say: "I have a garden gnome."}}},
		{"the number, asked for", []string{"What is your phone number?"}, "", []Move{{Say: "It is 0151 2345 6789."}, {Say: "I live in Lindenweg."}}},
		{"asked in another form", []string{"Which NUMBERS do you have?"}, "", []Move{{Say: "0151 2345 6789"}}},
		{"the agent said it first", []string{"Do you live in Lindenweg?"}, "", []Move{{Say: "Yes, Lindenweg."}}},
		{"after the tool", []string{"Look, please."}, "look", []Move{{Say: "An airplane symbol."}}},
		{"after two answers", []string{"Hello", "And?"}, "", []Move{{Say: "I want a refund of my fee."}}},
		{"other numbers", []string{"Hello"}, "", []Move{{Say: "It was 84 euros on the 31st, at 7:07."}}},
		{"what is expected, once the agent said it", []string{"It is Zugspitze 2962."}, "", []Move{{Say: "Zugspitze 2962? Thank you."}}},
		{"a short expected answer", []string{"Is it on?"}, "", []Move{{Say: "yes"}}},
		{"a question", []string{"Hello"}, "", []Move{{Say: "Where is the button? I cannot find it."}}},
		{"two questions", []string{"Hello"}, "", []Move{{Say: "Can you help? Or should I call again?"}}},
		{"speaks of an agent", []string{"Hello"}, "", []Move{{Say: "Your agent told me yesterday: it is the cable. Can you help me?"}}},
		{"ends", []string{"Hello"}, "", []Move{{Say: "Thanks!", End: true, Reached: &yes}}},
		{"gives up", []string{"Hello"}, "", []Move{{End: true, Reached: &no}}},
		{"uses a tool", []string{"Hello"}, "", []Move{{Tools: []Call{{Name: "look"}}}}},
	} {
		w := asked(tt.agent...)
		if tt.tool != "" {
			w.Tool(tt.tool, `{"shows":"x"}`, false)
		}
		for _, m := range tt.moves {
			if got := w.Moves(m); got != nil {
				t.Errorf("%s: %q broke %v", tt.name, m.Say, got)
			}
		}
	}
}

// TestAToolThatFailedShowedNothing.
func TestAToolThatFailedShowedNothing(t *testing.T) {
	w := asked("Look, please.")
	w.Tool("look", "", true)
	if got := rulesOf(w.Moves(Move{Say: "An airplane symbol."})); !slices.Contains(got, TooEarly) {
		t.Errorf("got %v", got)
	}
}

// TestAUserThatGoesOnTooLongIsFound: the beginning counts, and the last move may end.
func TestAUserThatGoesOnTooLongIsFound(t *testing.T) {
	w, no := asked("Hello"), false
	for i := range 3 {
		if got := w.Moves(Move{Say: strings.Repeat("hm ", i+1)}); got != nil {
			t.Fatalf("message %d broke %v", i+2, got)
		}
		w.Answered("And?")
	}
	if w.Left() != 0 {
		t.Errorf("%d left", w.Left())
	}
	if got := w.Moves(Move{Say: "I give up", End: true, Reached: &no}); got != nil {
		t.Errorf("the end broke %v", got)
	}
	if got := rulesOf(w.Moves(Move{Say: "one more"})); !slices.Contains(got, Limit) {
		t.Errorf("one more broke %v", got)
	}
}

// TestAnEchoOfTheAgentIsFound.
func TestAnEchoOfTheAgentIsFound(t *testing.T) {
	answer := "Please open the settings, tap on the network and then on mobile data, twice."
	for _, say := range []string{answer, strings.ToUpper(answer), "“" + answer + "” ok"} {
		if got := rulesOf(asked(answer).Moves(Move{Say: say})); !slices.Contains(got, AsTheAgent) {
			t.Errorf("%q broke %v", say, got)
		}
	}
}

// TestABreachDoesNotTellWhatMustNotBeSaid: reasons stand in records.
func TestABreachDoesNotTellWhatMustNotBeSaid(t *testing.T) {
	for _, say := range []string{"8431-77", "0151 2345 6789", "Zugspitze 2962"} {
		for _, b := range asked("Hello").Moves(Move{Say: say}) {
			if strings.Contains(b.String(), say) {
				t.Errorf("%s tells it", b)
			}
		}
	}
}
