// Package tools is the tools of one case: what they are, what they answer, and
// what they remember.
//
// A [Definition] says what a tool is called, what it can do to the world, what
// its arguments look like, and where its answers come from: from replies
// written in the case (fixtures), from the cassette (recorded tools and MCP
// servers), or from the case's working folder. [New] checks the definitions
// and makes the [State] of one execution; [State.Call] answers a call.
//
// The same calls in the same order give the same answers on every machine:
// there is no clock, no randomness, no network and no code in a definition. A
// latency is a number that the definition or the recording gives.
//
// What comes from outside is cut to a size, loses invisible characters, and
// carries a label of its trust. Whether a text tries to instruct a model is not
// judged here: a list of suspicious words would be wrong in both directions.
// Nor does the package decide whether a call may be made: the runner of the
// agent asks package policy first. docs/formats/tools.md has the format.
package tools

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/run/policy"
)

// A Definition is one tool as a scenario lists it.
type Definition struct {
	Name        string `json:"name"` // 1 to 64 of A-Z a-z 0-9 _ . -
	Description string `json:"description,omitempty"`

	// Class is what the tool can do to the world. It may be left out only for
	// a folder tool, whose operation says it.
	Class policy.Class `json:"class,omitempty"`

	// Schema is the JSON Schema of the arguments, in the part of the language
	// that package schema reads. Without one, any object is accepted.
	Schema canon.RawMessage `json:"schema,omitempty"`

	// Trust says who wrote the description and the results: the bench, or an
	// unknown author outside.
	Trust string `json:"trust,omitempty"`

	// Source says where the answers come from: fixture (if left out),
	// cassette, mcp:SERVER, folder or world.
	Source string `json:"source,omitempty"`

	// Operation is what a folder tool does, if its name does not say it.
	Operation string `json:"operation,omitempty"`

	// Remote is what the MCP server, or the world, calls the tool, if that is not
	// its name.
	Remote string `json:"remote,omitempty"`

	// Pinned is the digest of what the MCP server says of the tool, so that one that
	// says something else later is noticed before it is called.
	Pinned string `json:"pinned,omitempty"`

	// Of a fixture: the replies in the order in which they are tried, the one
	// for calls that none of them fits, and values that the case starts with.
	// All tools of a case share one state.
	Replies []Reply                     `json:"replies,omitempty"`
	Default *Reply                      `json:"default,omitempty"`
	State   map[string]canon.RawMessage `json:"state,omitempty"`

	// What a call takes, unless the reply or the recording says it.
	LatencyMS    int64 `json:"latency_ms,omitempty"`
	CostMicroUSD int64 `json:"cost_microdollars,omitempty"`
	Tokens       int64 `json:"tokens,omitempty"`
}

// The values of [Definition.Trust]. Left out it is the bench, for tools of an
// MCP server always outside.
const (
	Bench   = "bench"
	Outside = "outside"
)

// The values of [Definition.Source]. The name of an MCP server follows MCPPrefix.
const (
	Fixture   = "fixture"
	Cassette  = "cassette"
	Folder    = "folder"
	World     = "world"
	MCPPrefix = "mcp:"
)

// The operations of folder tools.
const (
	FSRead    = "fs_read"    // {path, line?, lines?}
	FSWrite   = "fs_write"   // {path, text}
	FSList    = "fs_list"    // {path?, recursive?}
	FSDelete  = "fs_delete"  // {path}
	FSReplace = "fs_replace" // {path, old, new}: old occurs exactly once
)

// A Reply is one answer of a fixture, and the calls that it answers: those that
// meet everything that is given of Args, Has, Where, If, Call and Times.
type Reply struct {
	Args  *canon.RawMessage    `json:"args,omitempty"`  // the arguments are exactly this object
	Has   canon.RawMessage     `json:"has,omitempty"`   // the arguments have at least these members, at every depth
	Where map[string]Condition `json:"where,omitempty"` // by the path of an argument, as in order.id
	If    map[string]Condition `json:"if,omitempty"`    // by the path of a value of the state
	Call  int64                `json:"call,omitempty"`  // only the n-th call of this tool, from 1
	Times int64                `json:"times,omitempty"` // at most so many calls

	// Exactly one of the two. Texts in them are templates: {{args.PATH}} and
	// {{state.PATH}} stand for values, after the changes below.
	Result *canon.RawMessage `json:"result,omitempty"`
	Error  string            `json:"error,omitempty"`

	// Changes of the state, all of them or none. Texts are templates here too,
	// and stand for values as they were before.
	Set      map[string]canon.RawMessage `json:"set,omitempty"`
	Add      map[string]canon.RawMessage `json:"add,omitempty"`
	Subtract map[string]canon.RawMessage `json:"subtract,omitempty"`
	Append   map[string]canon.RawMessage `json:"append,omitempty"`
	Delete   []string                    `json:"delete,omitempty"`

	LatencyMS    *int64 `json:"latency_ms,omitempty"`
	CostMicroUSD *int64 `json:"cost_microdollars,omitempty"`
	Tokens       *int64 `json:"tokens,omitempty"`
}

// A Condition is what a value must be; everything that is given must hold.
// Texts in the values compared with are templates. Of a value that is not
// there only exists: false holds.
type Condition struct {
	Eq      *canon.RawMessage `json:"eq,omitempty"`
	Ne      *canon.RawMessage `json:"ne,omitempty"`
	Lt      *canon.RawMessage `json:"lt,omitempty"` // numbers with numbers, texts with texts by their bytes
	Le      *canon.RawMessage `json:"le,omitempty"`
	Gt      *canon.RawMessage `json:"gt,omitempty"`
	Ge      *canon.RawMessage `json:"ge,omitempty"`
	In      *canon.RawMessage `json:"in,omitempty"`      // is an item of this list
	Has     *canon.RawMessage `json:"has,omitempty"`     // is a list with this item, or a text with this part
	Matches string            `json:"matches,omitempty"` // is a text in which this pattern (RE2) is found
	Exists  *bool             `json:"exists,omitempty"`
}
