package lab

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// What exporters of the GenAI conventions and of OpenInference send.
const spansJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[
 {"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060701","name":"execute_tool search","startTimeUnixNano":"20","endTimeUnixNano":"30",
  "attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"search"}},{"key":"gen_ai.tool.call.id","value":{"stringValue":"call_1"}},
   {"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"q\":\"x\"}"}},{"key":"gen_ai.tool.call.result","value":{"stringValue":"found"}}]},
 {"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060702","name":"lookup","startTimeUnixNano":"10","endTimeUnixNano":"15",
  "attributes":[{"key":"openinference.span.kind","value":{"stringValue":"TOOL"}},{"key":"tool.name","value":{"stringValue":"lookup"}},{"key":"input.value","value":{"stringValue":"{\"at\":1}"}},{"key":"output.value","value":{"stringValue":"a lamp"}}]},
 {"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060703","name":"GET /","startTimeUnixNano":"12","endTimeUnixNano":"13","attributes":[]}
]}]}]}`

func TestStepsOfSpansReadsBothConventions(t *testing.T) {
	steps, err := StepsOfSpans("application/json", []byte(spansJSON))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].Result.Name != "lookup" || string(steps[0].Result.Args) != `{"at":1}` || steps[0].Result.Sent != "a lamp" ||
		steps[1].Result.Name != "search" || steps[1].Result.ID != "call_1" || string(steps[1].Result.Args) != `{"q":"x"}` || steps[1].Result.Sent != "found" {
		t.Errorf("read as %+v", steps)
	}
}

func TestStepsOfSpansReadsProtobuf(t *testing.T) {
	text := func(b []byte, n protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	message := func(b []byte, n protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), m)
	}
	attribute := func(key, value string) []byte { return message(text(nil, 1, key), 2, text(nil, 1, value)) }
	span := message(nil, 1, []byte("0123456789abcdef"))
	span = message(span, 2, []byte("01234567"))
	span = text(span, 5, "execute_tool search")
	span = protowire.AppendFixed64(protowire.AppendTag(span, 7, protowire.Fixed64Type), 10)
	span = protowire.AppendFixed64(protowire.AppendTag(span, 8, protowire.Fixed64Type), 20)
	for _, a := range [][2]string{{"gen_ai.operation.name", "execute_tool"}, {"gen_ai.tool.name", "search"}, {"gen_ai.tool.call.result", "found"}} {
		span = message(span, 9, attribute(a[0], a[1]))
	}
	body := message(nil, 1, message(nil, 2, message(nil, 2, span)))
	steps, err := StepsOfSpans("application/x-protobuf", body)
	if err != nil || len(steps) != 1 || steps[0].Result.Name != "search" || steps[0].Result.Sent != "found" || steps[0].Start != 10 {
		t.Errorf("read as %+v, %v", steps, err)
	}
	for cut := 1; cut < len(body); cut++ {
		if steps, err := StepsOfSpans("application/x-protobuf", body[:cut]); err == nil && len(steps) > 0 {
			t.Fatalf("%d bytes of %d are read as %+v", cut, len(body), steps)
		}
	}
	if _, err := StepsOfSpans("application/json", []byte(`{"resourceSpans":7}`)); err == nil {
		t.Error("what is no spans is read as some")
	}
}
