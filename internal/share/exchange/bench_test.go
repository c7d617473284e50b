package exchange

import (
	"fmt"
	"testing"
)

// BenchmarkImport reads a file of 1,000 traces with a turn, two model calls and
// a tool call each.
func BenchmarkImport(b *testing.B) {
	var spans []string
	for i := range 1000 {
		trace := fmt.Sprintf(`"traceId":"%032x"`, i+1)
		for _, s := range []string{
			spanJSON(1, 0, 1, 100, "invoke_agent", "gen_ai.agent.name", "a"),
			spanJSON(2, 1, 2, 10, "chat", "gen_ai.request.model", "m", "gen_ai.input.messages", `[{"role":"user","content":"go"}]`, "gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"t","arguments":{"a":1}}]}]`),
			spanJSON(3, 1, 11, 20, "execute_tool", "gen_ai.tool.name", "t", "gen_ai.tool.call.id", "c", "gen_ai.tool.call.result", "r"),
			spanJSON(4, 1, 21, 30, "chat", "gen_ai.request.model", "m", "gen_ai.output.messages", "done"),
		} {
			spans = append(spans, `{`+trace+s[len(`{"traceId":"00000000000000000000000000000007"`):])
		}
	}
	file := otlp(spans...)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if out, err := Import("f", file); err != nil || len(out) != 1000 {
			b.Fatal(len(out), err)
		}
	}
}
