package otel

import (
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/share/foreign"
)

// memoryOperations are what the GenAI conventions know of an agent's own memory. A span
// of one is told as a call of a tool that is called as the operation: what the agent
// says of it shows, and none of it is the memory of the reference agent.
var memoryOperations = map[string]bool{
	"create_memory": true, "update_memory": true, "upsert_memory": true, "delete_memory": true, "search_memory": true,
	"create_memory_store": true, "delete_memory_store": true,
}

const (
	searchMemory  = "search_memory"
	memoryRecords = "gen_ai.memory.records"
)

// memoryMembers are the arguments of such a call and the attributes that tell them, in
// the order of their names.
var memoryMembers = [][2]string{
	{"query", "gen_ai.memory.query.text"}, {"record", "gen_ai.memory.record.id"}, {"records", memoryRecords}, {"store", "gen_ai.memory.store.id"},
}

// memoryArguments are what was to be done: the records of a search are its result.
func (n *node) memoryArguments() []byte {
	out := []byte{'{'}
	for _, m := range memoryMembers {
		v, ok := n.attrs.get(m[1])
		if !ok || v.string() == "" || n.op == searchMemory && m[1] == memoryRecords {
			continue
		}
		n.use(m[1])
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(foreign.AppendText(out, m[0]), ':')
		if m[1] == memoryRecords {
			out = append(out, recordsOf(v)...)
		} else {
			out = append(out, v.raw()...)
		}
	}
	return append(out, '}')
}

// recalled are the records that a search found; "" if the span does not say.
func (n *node) recalled() string {
	v, ok := n.attrs.get(memoryRecords)
	if !ok || n.op != searchMemory || v.string() == "" {
		return ""
	}
	n.use(memoryRecords)
	return string(recordsOf(v))
}

// recordsOf gives records as JSON, also where an exporter has them as a text.
func recordsOf(v value) []byte {
	if text := jsontext.Value(v.bytes()); text.Kind() == '[' && text.IsValid() {
		return text
	}
	return v.raw()
}
