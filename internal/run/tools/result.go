package tools

import (
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
)

// A Result is what a call gave. A tool that failed, arguments that do not fit
// and a name that no tool has are results with an Error: the agent is told, and
// the case goes on.
type Result struct {
	JSON  canon.RawMessage // canonical; nil if there is an Error without more
	Error string

	Source string // as tool_executed has it: fixture, cassette, live or world
	Trust  string // as tool_executed has it: untrusted, imported, pinned or internal

	Latency      time.Duration
	CostMicroUSD int64
	Tokens       int64

	// Findings are what cleaning noticed in this result.
	Findings []Finding

	// Wrote lists the files of the working folder that the call has written or
	// removed, relative to it.
	Wrote []string
}

// A Finding is something about a text from outside that a security_event should
// record. It says what was found, not what was meant by it.
type Finding struct {
	Name     string
	Detail   string
	Severity evidence.Severity
}

// The names of findings.
const (
	ChangedDescription   = "changed_description"    // of an MCP tool, which was not called
	HiddenCharacters     = "hidden_characters"      // removed from a text
	OversizeDescription  = "oversize_description"   // cut
	OversizeResult       = "oversize_result"        // cut, or replaced by an error
	SchemaKeywordIgnored = "schema_keyword_ignored" // arguments of an MCP tool are checked in part
)
