package trajectory

import (
	"fmt"
	"strings"
)

// A Tier is a kind of memory.
type Tier string

// The memory tiers.
const (
	Working    Tier = "working"
	Episodic   Tier = "episodic"
	Semantic   Tier = "semantic"
	Procedural Tier = "procedural"
)

// MemoryProposedType is the type of [MemoryProposed].
const MemoryProposedType Type = "memory_proposed"

// MemoryProposed is a write that the agent wants. Supersedes is the entry that
// it would replace.
type MemoryProposed struct {
	Call       string  `json:"call"`
	Confidence float64 `json:"confidence"`
	Key        string  `json:"key"`
	Source     string  `json:"source"`
	Supersedes string  `json:"supersedes,omitempty"`
	Tier       Tier    `json:"tier"`
	Value      Content `json:"value"`
}

// Type is memory_proposed.
func (*MemoryProposed) Type() Type { return MemoryProposedType }

// Summary tells it in a line.
func (p *MemoryProposed) Summary() string {
	return fmt.Sprintf("wants to remember %s/%s: %s", p.Tier, p.Key, p.Value.Head)
}

// Subject is the key.
func (p *MemoryProposed) Subject() (string, bool) { return p.Key, true }

func (*MemoryProposed) golden() golden {
	return golden{line: []string{"call", "tier", "key"}, changes: []change{{ChangedMemory, anything}}}
}

// MemoryWrittenType is the type of [MemoryWritten].
const MemoryWrittenType Type = "memory_written"

// MemoryWritten is a write that took place and made an entry.
type MemoryWritten struct {
	Call       string  `json:"call"`
	Confidence float64 `json:"confidence"`
	Entry      string  `json:"entry"`
	Key        string  `json:"key"`
	Source     string  `json:"source"`
	Supersedes string  `json:"supersedes,omitempty"`
	Tier       Tier    `json:"tier"`
	Value      Content `json:"value"`
}

// Type is memory_written.
func (*MemoryWritten) Type() Type { return MemoryWrittenType }

// Summary tells it in a line.
func (p *MemoryWritten) Summary() string {
	return fmt.Sprintf("remembers %s/%s: %s", p.Tier, p.Key, p.Value.Head)
}

// Subject is the key.
func (p *MemoryWritten) Subject() (string, bool) { return p.Key, true }

func (*MemoryWritten) golden() golden {
	return golden{line: []string{"call", "entry", "tier", "key"}, changes: []change{{ChangedMemory, anything}}}
}

// MemoryRetrievedType is the type of [MemoryRetrieved].
const MemoryRetrievedType Type = "memory_retrieved"

// MemoryRetrieved says which entries the agent was given.
type MemoryRetrieved struct {
	Entries []string `json:"entries"`
	Query   *Content `json:"query,omitempty"`
}

// Type is memory_retrieved.
func (*MemoryRetrieved) Type() Type { return MemoryRetrievedType }

// Summary tells it in a line.
func (p *MemoryRetrieved) Summary() string {
	if len(p.Entries) == 0 {
		return "finds nothing in memory"
	}
	return "recalls " + strings.Join(p.Entries, ", ")
}

// Subject reports that there is none.
func (*MemoryRetrieved) Subject() (string, bool) { return "", false }

func (*MemoryRetrieved) golden() golden {
	return golden{changes: []change{{ChangedMemory, anything}}}
}
