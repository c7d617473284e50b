package user

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"tallystick/internal/run/scenario"
	"tallystick/internal/run/sight"
)

// A Rule is one that a user may break. Its name is the one in events.
type Rule string

// The rules.
const (
	TooEarly         Rule = "too_early"          // a fact before it may be said
	MustNotSay       Rule = "must_not_say"       // a text that it must not say at all
	ExpectedValue    Rule = "expected_value"     // what the case expects of the agent
	AsTheAgent       Rule = "as_the_agent"       // it speaks for the agent
	OwnQuestion      Rule = "own_question"       // it answers what it asked
	EndedSilently    Rule = "ended_silently"     // without saying whether the goal is reached
	EndedWithoutGoal Rule = "ended_without_goal" // and says that it is reached
	Limit            Rule = "limit"              // it goes on for longer than it may
	SaidNothing      Rule = "said_nothing"
	Unreadable       Rule = "unreadable" // what it gave is not a move
	ToolsOnly        Rule = "tools"      // it calls its tools and never speaks
	Failed           Rule = "failed"     // it could not be asked
)

// A Breach is a rule that was broken. Text says how, without the text that must not be
// said.
type Breach struct {
	Rule Rule
	Fact string // that was given away, by name
	Text string
}

func (b Breach) String() string { return string(b.Rule) + ": " + b.Text }

// A Watch follows one conversation and finds the rules that the user breaks.
type Watch struct {
	spec     *scenario.User
	facts    []finder
	never    []finder
	expected []finder
	known    []string // that the case lets the user say: the expected value in it gives nothing away

	turns    int    // that the user has said
	answers  int    // of the agent
	before   string // the user's last message
	answer   string // the agent's last
	told     map[string]bool
	called   map[string]bool
	asked    map[int]bool // facts, by place, that the agent asked for
	disclose map[int]bool // facts that the agent said itself
}

// NewWatch begins at the beginning of a conversation. Expected are the values that the
// case wants of the agent.
func NewWatch(s *scenario.Scenario, expected []string) *Watch {
	u := s.User
	w := &Watch{spec: u, told: map[string]bool{}, called: map[string]bool{}, asked: map[int]bool{}, disclose: map[int]bool{}, known: []string{u.Persona, u.Goal}}
	for i := range u.Facts {
		w.facts = append(w.facts, newFinder(u.Facts[i].Value))
		w.known = append(w.known, u.Facts[i].Value)
	}
	for _, text := range u.Never {
		w.never = append(w.never, newFinder(text))
	}
	for _, text := range expected {
		if f := newFinder(text); f.answer.Decidable() {
			w.expected = append(w.expected, f)
		}
	}
	for _, t := range s.Turns {
		w.said(t.Text)
	}
	return w
}

// said counts a message of the user that the agent was given.
func (w *Watch) said(text string) {
	w.turns++
	w.known = append(w.known, text)
	for i := range w.facts {
		if w.facts[i].in(w.before + "\n" + text) {
			w.told[w.spec.Facts[i].Name] = true
		}
	}
	w.before = text
}

// Answered hears what the agent said.
func (w *Watch) Answered(text string) {
	w.answers++
	w.answer = text
	w.known = append(w.known, text)
	folded := sight.Fold(nil, []byte(text))
	for i := range w.spec.Facts {
		for _, word := range w.spec.Facts[i].OnlyIfAsked {
			w.asked[i] = w.asked[i] || says(folded, word)
		}
		w.disclose[i] = w.disclose[i] || w.facts[i].in(text)
	}
}

// Tool hears of a call of the user's own tool, and what it gave.
func (w *Watch) Tool(name, result string, failed bool) {
	if !failed {
		w.called[name] = true
	}
	w.known = append(w.known, result)
}

// Left is how many messages the user may still send.
func (w *Watch) Left() int { return max(0, w.spec.Most()-w.turns) }

// Moves looks at a move and gives what it breaks, nil if nothing. A move that breaks
// nothing and says something counts as said.
func (w *Watch) Moves(m Move) []Breach {
	var found []Breach
	add := func(rule Rule, fact, format string, args ...any) {
		found = append(found, Breach{rule, fact, fmt.Sprintf(format, args...)})
	}
	if m.End && m.Reached == nil {
		add(EndedSilently, "", "it ended the conversation and did not say whether its goal is reached")
	}
	if strings.TrimSpace(m.Say) == "" {
		if !m.End && len(m.Tools) == 0 {
			add(SaidNothing, "", "its move has no words, no call of a tool and no end")
		}
		return found
	}
	if !m.End && w.Left() == 0 {
		add(Limit, "", "it speaks again after %d messages, which is all that it may send, and should have ended", w.spec.Most())
	}
	w.secrets(m.Say, add)
	w.manners(m.Say, add)
	if found == nil && !m.End && len(m.Tools) == 0 {
		w.said(m.Say)
	}
	return found
}

// secrets looks for what a message must not give away. Half of it may stand at the end
// of the message before.
func (w *Watch) secrets(say string, add func(Rule, string, string, ...any)) {
	both := w.before + "\n" + say
	in := func(f *finder) bool { return f.in(say) || f.in(both) && !f.in(w.before) }
	for i := range w.spec.Facts {
		f := &w.spec.Facts[i]
		if why := w.tooEarly(i); why != "" && !w.disclose[i] && !w.told[f.Name] && in(&w.facts[i]) {
			add(TooEarly, f.Name, "it gave away the fact %s too early: %s", f.Name, why)
		}
	}
	for i := range w.never {
		if in(&w.never[i]) {
			add(MustNotSay, "", "it said text %d of never, which it must not say", i+1)
		}
	}
	for i := range w.expected {
		if in(&w.expected[i]) && !w.isKnown(&w.expected[i]) {
			add(ExpectedValue, "", "it told the agent what the case expects of it, which neither the agent nor the case had said")
			break
		}
	}
}

func (w *Watch) isKnown(f *finder) bool {
	for _, text := range w.known {
		if f.in(text) {
			return true
		}
	}
	return false
}

// tooEarly says why a fact may not be said yet; "" if it may.
func (w *Watch) tooEarly(i int) string {
	f := &w.spec.Facts[i]
	if len(f.OnlyIfAsked) > 0 && !w.asked[i] {
		return "the agent has not asked for it"
	}
	switch a := f.After; {
	case a == nil:
	case a.Fact != "" && !w.told[a.Fact]:
		return "it comes after the fact " + a.Fact
	case a.Tool != "" && !w.called[a.Tool]:
		return "it comes after a call of the tool " + a.Tool
	case a.Turn > 0 && w.answers < a.Turn:
		return fmt.Sprintf("it comes after %d answers of the agent", a.Turn)
	}
	return ""
}

// manners looks at the form of a message.
func (w *Watch) manners(say string, add func(Rule, string, string, ...any)) {
	if speaksAsAgent(say) {
		add(AsTheAgent, "", "it speaks as the agent")
	} else if core := coreOf(sight.Fold(nil, []byte(w.answer))); len(core) >= echoed && strings.Contains(coreOf(sight.Fold(nil, []byte(say))), core) {
		add(AsTheAgent, "", "it repeats what the agent said as its own words")
	}
	if answersItself(say) {
		add(OwnQuestion, "", "it answers the question that it asks in the same message")
	}
}

// echoed is how many letters and digits of the agent's words are no chance.
const echoed = 40

// lazily compiles a pattern when it is first used: every start of the program pays for
// what is compiled before.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// What gives a speaker away. Texts are folded, line by line.
var (
	roleLine   = lazily(`^[^a-z0-9]*(?:the )?(?:(?:support|service|sales|customer service|virtual|human|live|ai) ?)?(?:agent|assistant|representative|operator|chatbot|bot|support|system)[^a-z0-9]{0,6}[:=>\]](?:[^/]|$)`)
	roleInside = lazily(`(?:^|[.!?"'*\])] ?[^a-z0-9]{0,4})(?:agent|assistant|support agent|representative)[^a-z0-9]{0,3}:`)
	roleMarks  = lazily(`<\|(?:im_start|start_header_id)\|> ?(?:assistant|system)|["']?role["']? ?[:=] ?["'](?:assistant|agent|system|model)|\[/inst\]|<(?:assistant|agent|system)>`)
	agentWords = lazily(`\bhow (?:can|may|could) (?:i|we) (?:help|assist|be of (?:help|service|assistance))|\bas an ai\b|\bas (?:your|a|the) (?:support |service |virtual |ai |customer service )*(?:agent|assistant|representative)\b|` +
		`\bi(?:'m| am) (?:an ai|a (?:language model|bot|chatbot)|(?:your|the|a) (?:support |service |virtual |ai |customer service )*(?:agent|assistant|representative)|here to (?:help|assist) you)\b|` +
		`\banything else (?:that )?(?:i|we) can (?:help|assist|do for)|\bthank(?:s| you) for (?:contacting|calling|reaching out)|\b(?:happy|glad) to (?:help|assist) you\b|\b(?:i|we)(?:'ll| will| can) (?:help|assist) you (?:with|today|now)`)
)

// speaksAsAgent tells by the form of a message.
func speaksAsAgent(say string) bool {
	found := false
	sight.Unwrap([]byte(say), func(plainer []byte) {
		for _, line := range strings.FieldsFunc(string(plainer), isLineEnd) {
			folded := sight.FoldString(line)
			found = found || roleLine().MatchString(folded) || roleInside().MatchString(folded) || roleMarks().MatchString(folded) || agentWords().MatchString(folded)
		}
	})
	return found
}

func isLineEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

var (
	ownAnswer = lazily(`\?[^a-z0-9?]*(?:(?:yes|yeah|yep|no|nope|sure|correct|right|absolutely|certainly|of course)(?:[^a-z0-9' ]|$| (?:it|you|that|we|they|there)\b)|(?:the )?answer(?:'s| is| would be| ?:)|a ?[:)]|(?:it|that|this)(?:'s| is) because\b|because\b|` +
		`you (?:can|should|need to|have to|must|just)\b|(?:simply|just) (?:go|turn|restart|open|tap|press|switch)\b)`)
)

// answersItself tells by the form of a message.
func answersItself(say string) bool { return ownAnswer().MatchString(sight.FoldString(say)) }
