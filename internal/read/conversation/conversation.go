// Package conversation tells what an agent and its world said to each other, from the
// events of one case.
//
// [Of] takes events in order and gives turns. A turn has items: what was said, an
// exchange with a model, a call of a tool, a change of memory or files, or a note of
// anything else. The events about one tool call are one item, and a request that repeats
// the conversation so far is told by what is new in it.
//
// Nothing is left out and nothing is made up: every event that was given belongs to
// exactly one item ([Item.Events]), and every text says in which event it stands and
// where ([Text]), so that who shows it can prove it. A text that was said before is named
// and not repeated.
//
// The package knows no HTML, no terminal and no evidence: texts are as they were
// recorded, not safe to print. What it is told of whole texts ([Options.Whole]) must
// have been verified by the caller.
package conversation

import (
	"time"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A Conversation is what a run, or a part of one, comes to.
type Conversation struct {
	Turns  []Turn
	Unseen string // why there may be tool calls that were not seen; "" if there are none
}

// A Turn begins with what the user says. Turn 0 is what comes before the first.
type Turn struct {
	N, Seq int // Seq is its first event here
	Items  []Item
}

// An Item is one thing that people look at. Exactly one of the pointers is set.
type Item struct {
	Events []int         // that it is made of, in order; the first is its place
	At     time.Duration // of the first, since the case began
	Bad    bool          // something went wrong, or was not permitted

	Speech   *Speech
	Exchange *Exchange
	Call     *Call
	Memory   *Memory
	Files    *Files
	Note     *Note
}

// Seq is the number of its first event.
func (i Item) Seq() int { return i.Events[0] }

// A Text is a text of an event, or the beginning of one.
type Text struct {
	Event int    // number of the event that has it
	At    string // JSON Pointer into the event's line: to the text, or to the content that stands for it
	In    string // JSON Pointer into the document that the content is, to the text; "" if the content is the text

	IsContent bool // At leads to a content, which may be the beginning of a text
	IsWhole   bool // Head was taken from the whole text of the content, and is longer than the event's
	IsJSON    bool // it is a value in canonical JSON, not a text
	Head      string
	Bytes     int64          // of the whole; 0 if that is not known
	Digest    digest.Content // of the whole content; zero if At leads to a text
	Cut       bool           // there is more than Head
	Redacted  bool
}

// IsEmpty reports whether there is nothing to show.
func (t *Text) IsEmpty() bool { return t == nil || t.Head == "" && !t.Cut }

// The roles of speakers.
const (
	User      = "user"
	Assistant = "assistant"
	System    = "system"
	Tool      = "tool"
	Plan      = "plan" // what the agent says that it means to do
)

// A Speech is what one speaker said.
type Speech struct {
	Role  string
	By    trajectory.Speaker // who plays the user; "" of the words of the case
	Agent string             // whose turn begins; "" if there is one agent
	Text  *Text              // nil if nothing was said
	Same  int                // the event that has the text, where it was said before; Text is then nil
	Ends  bool               // it is the answer of the turn

	Scores []trajectory.ReportedScore // that the agent's own process gave the answer
}

// An Exchange is a request to a model and its reply.
type Exchange struct {
	Model, Provider string
	Asked           int // event of the request; 0 if it is not among the events
	Replied         int // event of the reply; 0 if there is none
	Request         Request
	Reply           *Text    // the words of it; nil if there are none
	Calls           []string // names of the tools that the reply asks for and that have items of their own
	Untold          []Arg    // those it asks for of which no other event tells
	Answers         bool     // the reply is the answer of the turn

	Finish, Source, Error string
	TokensIn, TokensOut   int64
	Cost                  cost.Cost
	Latency               time.Duration
	Problems              []Problem
}

// A Request is what a model was sent.
type Request struct {
	Messages int       // that it has
	Repeated int       // parts of them that were said before; they are not listed
	New      []Message // that were not
	Whole    *Text     // all of it, as JSON
	Unread   string    // why it was not looked into; "" if it was

	Tools       []string // offered to a model for the first time
	Definitions []Arg    // what the request says of tools, where that is new
}

// A Message is a part of a request that was not said before.
type Message struct {
	Role string
	Text Text
}

// Words are the text of a message, for templates, which know no addresses.
func (m Message) Words() *Text { return &m.Text }

// A Call is a call of a tool, from all events about it.
type Call struct {
	Name    string // "" if it was not given
	ID      string // the provider's
	Vantage trajectory.Vantage
	Class   policy.Class
	Args    []Arg
	Wished  [][]Arg // with what it was asked for, where it was made with other arguments

	Decisions  []Decision
	Approvals  []Approval
	Violations []Violation
	Problems   []Problem
	Undone     *Undone

	Result   *Text // what it gave here
	Reported *Text // what the agent told its model, where that is another text
	Error    string
	Executed int // event; 0 if it was not executed here
	Failed   bool
	Denied   bool
	Stopped  bool // it is known not to have been made
	Source   string
	Trust    string
	Latency  time.Duration
	Cost     cost.Cost
}

// An Arg is an argument, or another value with a name.
type Arg struct {
	Name  string
	Value Text
}

// Words are the value, for templates.
func (a Arg) Words() *Text { return &a.Value }

// A Decision is what the policy said, in an event.
type Decision struct {
	Event        int
	Verdict      policy.Verdict
	Rule, Reason string
}

// An Approval is a question to a person and the answer.
type Approval struct {
	Event    int // of the question; 0 if it is not among the events
	Reason   string
	Answer   int // event; 0 if there is none yet
	Approved bool
	By, Note string
}

// A Violation is something that the policy did not permit.
type Violation struct {
	Event       int
	Rule, Text  string
	Unprevented bool // it was seen when it had happened
}

// A Problem is an error of a call.
type Problem struct {
	Event        int
	Name, Detail string
}

// Undone is the return to what was before a call.
type Undone struct {
	Event     int
	Reason    string
	Identical bool
	Standing  []string
}

// A Memory is a write to memory, wanted or done.
type Memory struct {
	Key, Source string
	Tier        trajectory.Tier
	Confidence  float64
	Before      *Text // of the entry that it replaces, if that is known
	After       Text
	Written     bool
	Decisions   []Decision
	Approvals   []Approval
	Violations  []Violation
	Problems    []Problem
	Undone      *Undone
}

// Now is what was to be remembered, for templates.
func (m *Memory) Now() *Text { return &m.After }

// Files are changes of the working folder that were seen together.
type Files struct{ Changed []FileChange }

// A FileChange is one of them.
type FileChange struct {
	Event   int
	Path    string // escaped
	Deleted bool
	Link    string
	Mode    string
	Bytes   int64
	Digest  digest.Content
	New     bool // it was not there, as far as the events tell
}

// A Note is any other event.
type Note struct {
	Type      trajectory.Type
	Summary   string
	Minor     bool // few people look at it
	Texts     []Text
	Decisions []Decision // of a hand-off or a question
	Approvals []Approval
}

// Words are the texts, for templates.
func (n *Note) Words() (list []*Text) {
	for i := range n.Texts {
		list = append(list, &n.Texts[i])
	}
	return list
}
