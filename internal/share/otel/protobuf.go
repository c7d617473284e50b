package otel

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"

	"tallystick/internal/record/refusal"
	"tallystick/internal/share/foreign"
)

// TracesTag begins every message TracesData and ExportTraceServiceRequest:
// field 1, resource_spans, of which these have no others.
const TracesTag = 1<<3 | byte(protowire.BytesType)

// Field numbers are those of opentelemetry/proto/trace/v1/trace.proto and
// common/v1/common.proto.

// ParseProtobuf reads a message TracesData. It refuses everything that is not
// one, since nothing but its shape tells such a file from others.
func ParseProtobuf(data []byte, b *foreign.Budget) (*Batch, error) {
	out := &Batch{}
	err := fields(data, b, func(n protowire.Number, f field) error {
		if n != 1 || !f.isBytes {
			return fmt.Errorf("field %d, expected resource_spans", n)
		}
		return out.resourceSpans(f.bytes, b)
	})
	if err != nil {
		return nil, fmt.Errorf("not an OTLP protobuf message: %w", err)
	}
	return out, nil
}

// A field is one field of a message: bytes, or a number in one of three forms.
type field struct {
	bytes   []byte
	isBytes bool
	number  uint64
}

// fields reads a message. Groups, which OTLP does not have, are refused.
func fields(data []byte, b *foreign.Budget, visit func(protowire.Number, field) error) error {
	for len(data) > 0 {
		if err := b.Spend(1); err != nil {
			return err
		}
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var f field
		switch typ {
		case protowire.BytesType:
			f.isBytes = true
			f.bytes, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			f.number, n = protowire.ConsumeFixed64(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			f.number = uint64(v)
		default:
			return fmt.Errorf("field %d has wire type %d", num, typ)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := visit(num, f); err != nil {
			return err
		}
	}
	return nil
}

func (out *Batch) resourceSpans(data []byte, b *foreign.Budget) error {
	first, service := len(out.spans), ""
	err := fields(data, b, func(n protowire.Number, f field) error {
		switch n {
		case 1: // resource
			var attrs attributes
			err := fields(f.bytes, b, func(n protowire.Number, f field) error {
				if n != 1 {
					return nil
				}
				a, err := keyValue(f.bytes, b, 0)
				attrs = append(attrs, a)
				return err
			})
			service = attrs.text("service.name")
			return cmp.Or(err, attrs.checkNames())
		case 2: // scope_spans; 1000 was instrumentation_library_spans
			return fields(f.bytes, b, func(n protowire.Number, f field) error {
				if n != 2 {
					return nil
				}
				s, err := protoSpan(f.bytes, b)
				if err != nil {
					return err
				}
				if out.spans = append(out.spans, s); len(out.spans) > maxSpans {
					return refusal.Newf(refusal.TooLarge, "more than %d spans", maxSpans)
				}
				return nil
			})
		}
		return nil
	})
	for i := first; i < len(out.spans); i++ {
		out.spans[i].service = service
	}
	return err
}

func protoSpan(data []byte, b *foreign.Budget) (span, error) {
	var s span
	err := fields(data, b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			return copyID(s.trace[:], "trace_id", f.bytes)
		case 2:
			return copyID(s.id[:], "span_id", f.bytes)
		case 4:
			if len(f.bytes) == 0 {
				return nil
			}
			return copyID(s.parent[:], "parent_span_id", f.bytes)
		case 5:
			s.name = foreign.Clean(string(f.bytes))
		case 7:
			s.start = f.number & math.MaxInt64
		case 8:
			s.end = f.number & math.MaxInt64
		case 9:
			a, err := keyValue(f.bytes, b, 0)
			s.attrs = append(s.attrs, a)
			return err
		case 10, 12:
			s.dropped += int64(f.number & math.MaxInt32)
		case 11:
			e, err := protoEvent(f.bytes, b)
			s.events = append(s.events, e)
			return err
		case 15:
			return fields(f.bytes, b, func(n protowire.Number, f field) error {
				switch n {
				case 2:
					s.statusMessage = foreign.Clean(string(f.bytes))
				case 3:
					s.failed = f.number == 2
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && (s.trace == [16]byte{} || s.id == [8]byte{}) {
		err = errors.New("a span without trace_id or span_id")
	}
	return s, cmp.Or(err, s.attrs.checkNames())
}

func protoEvent(data []byte, b *foreign.Budget) (spanEvent, error) {
	var e spanEvent
	err := fields(data, b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			e.at = f.number & math.MaxInt64
		case 2:
			e.name = foreign.Clean(string(f.bytes))
		case 3:
			a, err := keyValue(f.bytes, b, 0)
			e.attrs = append(e.attrs, a)
			return err
		}
		return nil
	})
	return e, cmp.Or(err, e.attrs.checkNames())
}

func copyID(dst []byte, what string, id []byte) error {
	if len(id) != len(dst) {
		return fmt.Errorf("%s has %d bytes, expected %d", what, len(id), len(dst))
	}
	copy(dst, id)
	return nil
}

func keyValue(data []byte, b *foreign.Budget, depth int) (attribute, error) {
	a := attribute{value: value{json: jsontext.Value("null")}}
	err := fields(data, b, func(n protowire.Number, f field) error {
		var err error
		switch n {
		case 1:
			a.key = foreign.Clean(string(f.bytes))
		case 2:
			a.value, err = anyValue(f.bytes, b, depth)
		}
		return err
	})
	return a, err
}

// anyValue reads an AnyValue. Its JSON is made here, so a text that is not
// UTF-8 gets U+FFFD.
func anyValue(data []byte, b *foreign.Budget, depth int) (value, error) {
	v := value{json: jsontext.Value("null")}
	if depth > foreign.MaxDepth/4 {
		return v, refusal.Newf(refusal.TooLarge, "values nested deeper than %d", foreign.MaxDepth/4)
	}
	err := fields(data, b, func(n protowire.Number, f field) error {
		v = value{}
		switch n {
		case 1:
			v.text, v.isText = foreign.Clean(string(f.bytes)), true
		case 2:
			v.json = strconv.AppendBool(nil, f.number != 0)
		case 3:
			v.json = strconv.AppendInt(nil, int64(f.number), 10)
		case 4:
			d := math.Float64frombits(f.number)
			if math.IsNaN(d) || math.IsInf(d, 0) {
				v.text, v.isText = strconv.FormatFloat(d, 'g', -1, 64), true
				return nil
			}
			v.json = strconv.AppendFloat(nil, d, 'g', -1, 64)
		case 5, 6:
			list, err := valueList(f.bytes, b, depth, n == 6)
			v.json = list
			return err
		case 7:
			v.text, v.isText = base64.StdEncoding.EncodeToString(f.bytes), true
		default:
			v.json = jsontext.Value("null")
		}
		return nil
	})
	return v, err
}

// valueList reads an ArrayValue or a KeyValueList.
func valueList(data []byte, b *foreign.Budget, depth int, keyed bool) (jsontext.Value, error) {
	open, end := byte('['), byte(']')
	if keyed {
		open, end = '{', '}'
	}
	out := []byte{open}
	seen := map[string]bool{}
	err := fields(data, b, func(n protowire.Number, f field) error {
		if n != 1 {
			return nil
		}
		var a attribute
		var err error
		if keyed {
			a, err = keyValue(f.bytes, b, depth+1)
		} else {
			a.value, err = anyValue(f.bytes, b, depth+1)
		}
		if err != nil {
			return err
		}
		if keyed && seen[a.key] {
			return repeated(a.key)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if keyed {
			seen[a.key] = true
			out = append(foreign.AppendText(out, a.key), ':')
		}
		out = append(out, a.raw()...)
		return nil
	})
	return append(out, end), err
}
