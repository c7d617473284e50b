package telemetry

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"tallystick/internal/trajectory"
)

// protoOf writes spans as the protobuf of OTLP, from the same JSON.
func protoOf(t testing.TB, data []byte) []byte {
	t.Helper()
	b, err := parseOTLP(data)
	if err != nil {
		t.Fatal(err)
	}
	message := func(dst []byte, n protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), body)
	}
	fixed := func(dst []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(dst, n, protowire.Fixed64Type), v)
	}
	attribute := func(a attribute) []byte {
		return message(message(nil, 1, []byte(a.key)), 2, protoValue(t, a.value))
	}
	var out []byte
	for _, s := range b.spans {
		var p []byte
		p = message(message(p, 1, s.trace[:]), 2, s.id[:])
		if s.parent != [8]byte{} {
			p = message(p, 4, s.parent[:])
		}
		p = fixed(fixed(message(p, 5, []byte(s.name)), 7, s.start), 8, s.end)
		for _, a := range s.attrs {
			p = message(p, 9, attribute(a))
		}
		for _, e := range s.events {
			ev := message(fixed(nil, 1, e.at), 2, []byte(e.name))
			for _, a := range e.attrs {
				ev = message(ev, 3, attribute(a))
			}
			p = message(p, 11, ev)
		}
		// A field that this program has never heard of.
		p = protowire.AppendVarint(protowire.AppendTag(p, 999, protowire.VarintType), 1)
		var resource []byte
		if s.service != "" {
			resource = message(nil, 1, message(message(nil, 1, []byte("service.name")), 2, message(nil, 1, []byte(s.service))))
		}
		out = message(out, 1, message(message(nil, 1, resource), 2, message(nil, 2, p)))
	}
	return out
}

// protoValue writes an AnyValue.
func protoValue(t testing.TB, v value) []byte {
	t.Helper()
	bytesField := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	if v.isText {
		return bytesField(1, []byte(v.text))
	}
	switch v.json.Kind() {
	case '0':
		if n, ok := wholeOf(v.json); ok {
			return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(n))
		}
		f, _ := numberOf(v.json)
		return protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), math.Float64bits(f))
	case 't', 'f':
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), protowire.EncodeBool(v.json.Kind() == 't'))
	case '"':
		s, _ := textOf(v.json)
		return bytesField(1, []byte(s))
	case '[':
		var list []byte
		for _, x := range elements(t, v.json) {
			list = append(list, bytesField(1, protoValue(t, value{json: x}))...)
		}
		return bytesField(5, list)
	case '{':
		var list []byte
		for _, m := range members(t, v.json) {
			list = append(list, bytesField(1, append(bytesField(1, []byte(m.key)), bytesField(2, protoValue(t, m.value))...))...)
		}
		return bytesField(6, list)
	}
	t.Fatalf("no protobuf for %s", v.json)
	return nil
}

func TestProtobufGivesTheSameTrajectory(t *testing.T) {
	for _, file := range []string{"current.json", "events.json", "indexed.json"} {
		t.Run(file, func(t *testing.T) {
			want := importFile(t, file)[0]
			got, err := Import("p", protoOf(t, load(t, file)))
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Source.Format != OTLPProtobuf {
				t.Errorf("format %s", got[0].Source.Format)
			}
			if d := cmp.Diff(lines(want), lines(got[0])); d != "" {
				t.Errorf("JSON -, protobuf +\n%s", d)
			}
			if d := cmp.Diff(want.Notes, got[0].Notes); d != "" {
				t.Errorf("JSON -, protobuf +\n%s", d)
			}
			if d := cmp.Diff(want.Evaluations, got[0].Evaluations); d != "" {
				t.Errorf("JSON -, protobuf +\n%s", d)
			}
		})
	}
}

// TestProtobufOfTheSpecification reads bytes written by hand from the field
// numbers of trace.proto, so that the reader and the writer above cannot be
// wrong in the same way.
func TestProtobufOfTheSpecification(t *testing.T) {
	// resource_spans{scope_spans{spans{trace_id, span_id, name "x",
	// start, end, attributes{gen_ai.operation.name: chat}, status{code: ERROR}}}}
	attr := "0a15" + hex.EncodeToString([]byte("gen_ai.operation.name")) + "1206" + "0a04" + hex.EncodeToString([]byte("chat"))
	span := "0a1000112233445566778899aabbccddeeff" + "12080102030405060708" + "2a0178" + "390100000000000000" + "410200000000000000" + "4a1f" + attr + "7a021802"
	body, err := hex.DecodeString(span)
	if err != nil {
		t.Fatal(err)
	}
	file := append([]byte{0x0a, byte(len(body) + 4), 0x12, byte(len(body) + 2), 0x12, byte(len(body))}, body...)
	got, err := Import("f", file)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].ID != "00112233445566778899aabbccddeeff" {
		t.Errorf("id %s", got[0].ID)
	}
	for e := range got[0].Verified.Events() {
		if p, ok := e.Payload.(*trajectory.ModelCallCompleted); ok && (p.Error != "error" || p.Call != "0102030405060708") {
			t.Errorf("got %+v", p)
		}
	}
}

func elements(t testing.TB, v jsontext.Value) []jsontext.Value {
	t.Helper()
	var out []jsontext.Value
	if err := json.Unmarshal(v, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// members gives the members of an object in their order.
func members(t testing.TB, v jsontext.Value) []attribute {
	t.Helper()
	var byName map[string]jsontext.Value
	if err := json.Unmarshal(v, &byName); err != nil {
		t.Fatal(err)
	}
	var out []attribute
	for _, k := range sortedKeys(byName) {
		out = append(out, attribute{k, value{json: byName[k]}})
	}
	return out
}
