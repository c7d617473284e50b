package exchange

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	diff "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"tallystick/internal/run/trajectory"
	"tallystick/internal/share/foreign"
)

// A jsonSpan is a span as OTLP has it in JSON, as far as tests look at it.
type jsonSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	Parent     string          `json:"parentSpanId"`
	Name       string          `json:"name"`
	Start      digits          `json:"startTimeUnixNano"`
	End        digits          `json:"endTimeUnixNano"`
	Attributes []jsonAttribute `json:"attributes"`
	Events     []struct {
		At         digits          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []jsonAttribute `json:"attributes"`
	} `json:"events"`

	resource []jsonAttribute
}

// digits are a whole number, which exporters write with and without quotes.
type digits string

func (d *digits) UnmarshalJSON(data []byte) error {
	*d = digits(strings.Trim(string(data), `"`))
	return nil
}

type jsonAttribute struct {
	Key   string    `json:"key"`
	Value jsonValue `json:"value"`
}

type jsonValue struct {
	Text  *string  `json:"stringValue"`
	Int   *digits  `json:"intValue"`
	Float *float64 `json:"doubleValue"`
	Bool  *bool    `json:"boolValue"`
	List  *struct {
		Values []jsonValue `json:"values"`
	} `json:"arrayValue"`
	Members *struct {
		Values []jsonAttribute `json:"values"`
	} `json:"kvlistValue"`
}

// textOf gives the text of an attribute, "" if there is none.
func textOf(list []jsonAttribute, key string) string {
	for _, a := range list {
		switch {
		case a.Key != key:
		case a.Value.Text != nil:
			return *a.Value.Text
		case a.Value.Int != nil:
			return string(*a.Value.Int)
		}
	}
	return ""
}

// jsonSpans reads all spans of a file.
func jsonSpans(t testing.TB, data []byte) (out []jsonSpan) {
	t.Helper()
	var f struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []jsonAttribute `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Spans []jsonSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.ResourceSpans {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				span.resource = r.Resource.Attributes
				out = append(out, span)
			}
		}
	}
	return out
}

func field(dst []byte, n protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), body)
}

// protoOf writes spans as the protobuf of OTLP, from the same JSON.
func protoOf(t testing.TB, data []byte) []byte {
	t.Helper()
	id := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil { // protobuf's own JSON has bytes in base64
			b, err = base64.StdEncoding.DecodeString(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	fixed := func(dst []byte, n protowire.Number, s digits) []byte {
		v, err := strconv.ParseUint(cmp.Or(string(s), "0"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendFixed64(protowire.AppendTag(dst, n, protowire.Fixed64Type), v)
	}
	var out []byte
	for _, s := range jsonSpans(t, data) {
		p := field(field(nil, 1, id(s.TraceID)), 2, id(s.SpanID))
		if s.Parent != "" {
			p = field(p, 4, id(s.Parent))
		}
		p = fixed(fixed(field(p, 5, []byte(s.Name)), 7, s.Start), 8, s.End)
		p = protoAttributes(p, 9, s.Attributes)
		for _, e := range s.Events {
			p = field(p, 11, protoAttributes(field(fixed(nil, 1, e.At), 2, []byte(e.Name)), 3, e.Attributes))
		}
		// A field that this program has never heard of.
		p = protowire.AppendVarint(protowire.AppendTag(p, 999, protowire.VarintType), 1)
		out = field(out, 1, field(field(nil, 1, protoAttributes(nil, 1, s.resource)), 2, field(nil, 2, p)))
	}
	return out
}

func protoAttributes(dst []byte, n protowire.Number, list []jsonAttribute) []byte {
	for _, a := range list {
		dst = field(dst, n, field(field(nil, 1, []byte(a.Key)), 2, protoValue(a.Value)))
	}
	return dst
}

func protoValue(v jsonValue) []byte {
	switch {
	case v.Text != nil:
		return field(nil, 1, []byte(*v.Text))
	case v.Bool != nil:
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), protowire.EncodeBool(*v.Bool))
	case v.Int != nil:
		n, err := strconv.ParseInt(string(*v.Int), 10, 64)
		if err != nil {
			panic(err)
		}
		return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(n))
	case v.Float != nil:
		return protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), math.Float64bits(*v.Float))
	case v.List != nil:
		var list []byte
		for _, x := range v.List.Values {
			list = field(list, 1, protoValue(x))
		}
		return field(nil, 5, list)
	case v.Members != nil:
		return field(nil, 6, protoAttributes(nil, 1, v.Members.Values))
	}
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
			if got[0].Source.Format != foreign.OTLPProtobuf {
				t.Errorf("format %s", got[0].Source.Format)
			}
			if d := diff.Diff(lines(want), lines(got[0])); d != "" {
				t.Errorf("JSON -, protobuf +\n%s", d)
			}
			if d := diff.Diff(want.Notes, got[0].Notes); d != "" {
				t.Errorf("JSON -, protobuf +\n%s", d)
			}
			if d := diff.Diff(want.Evaluations, got[0].Evaluations); d != "" {
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
