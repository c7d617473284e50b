package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// A Framing is the form in which the events of a stream go over a connection.
// Inside this program, and in recordings, every stream is server-sent events.
type Framing int

// The forms.
const (
	ServerSent Framing = iota
	JSONArray          // the data of the events as the elements of one array
	AWSFrames          // application/vnd.amazon.eventstream: binary frames with check sums
)

// awsEventStream is the media type of [AWSFrames].
const awsEventStream = "application/vnd.amazon.eventstream"

// ContentType is the media type of a stream in this form.
func (f Framing) ContentType() string {
	switch f {
	case JSONArray:
		return "application/json"
	case AWSFrames:
		return awsEventStream
	}
	return "text/event-stream; charset=utf-8"
}

// FramingOf tells the form of a reply by its media type, and false if that is
// none of a stream.
func FramingOf(mediaType string) (Framing, bool) {
	switch mediaType {
	case "text/event-stream":
		return ServerSent, true
	case awsEventStream:
		return AWSFrames, true
	}
	return 0, false
}

// Encode writes an event in this form; first says that none was written before.
// What has no data, such as a comment, is written in server-sent events only.
func (f Framing) Encode(chunk string, first bool) string {
	if f == ServerSent {
		return chunk
	}
	name, data, ok := eventData(chunk)
	switch {
	case !ok:
		return ""
	case f == AWSFrames:
		return string(awsFrame(name, data))
	case first:
		return "[" + data
	}
	return ",\r\n" + data
}

// End is what stands behind the last event; none says that there was no event.
func (f Framing) End(none bool) string {
	switch {
	case f != JSONArray:
		return ""
	case none:
		return "[]"
	}
	return "]"
}

// Bounds of one frame, those of the SDKs.
const (
	framePrelude   = 12
	frameSum       = 4
	maxFrameBytes  = 16 << 20
	maxHeaderBytes = 128 << 10
)

// awsFrame is one frame: lengths and their sum, headers, payload, and a sum over
// all of it (Amazon Transcribe and S3 describe the format, botocore reads it). An
// event with the name of an exception, or error, which is our own, is one.
func awsFrame(name, payload string) []byte {
	kind, label := "event", ":event-type"
	if name == "error" {
		name = "validationException"
	}
	if strings.HasSuffix(name, "Exception") {
		kind, label = "exception", ":exception-type"
	}
	var headers []byte
	for _, h := range [][2]string{{label, name}, {":content-type", "application/json"}, {":message-type", kind}} {
		headers = append(append(append(headers, byte(len(h[0]))), h[0]...), 7) // 7 is a text
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(framePrelude+len(headers)+len(payload)+frameSum))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Decode gives a stream in this form as server-sent events, frame by frame as
// they come. A frame that is not one ends the stream with an error.
func (f Framing) Decode(r io.Reader) io.Reader {
	if f != AWSFrames {
		return r
	}
	return &frameReader{r: r}
}

type frameReader struct {
	r    io.Reader
	text []byte // of the frame that is being handed out
	err  error
}

func (f *frameReader) Read(p []byte) (int, error) {
	for len(f.text) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.text, f.err = f.next()
	}
	n := copy(p, f.text)
	f.text = f.text[n:]
	return n, nil
}

// errFrame is that a stream is not in the form that its type promises.
var errFrame = errors.New("a frame of the event stream is damaged")

func (f *frameReader) next() ([]byte, error) {
	var prelude [framePrelude]byte
	if _, err := io.ReadFull(f.r, prelude[:]); err != nil {
		return nil, err // io.EOF between two frames is the end
	}
	total, headers := binary.BigEndian.Uint32(prelude[:]), binary.BigEndian.Uint32(prelude[4:])
	switch {
	case binary.BigEndian.Uint32(prelude[8:]) != crc32.ChecksumIEEE(prelude[:8]):
		return nil, fmt.Errorf("%w: the sum of its lengths is wrong", errFrame)
	case total > maxFrameBytes || headers > maxHeaderBytes || total < framePrelude+frameSum || headers > total-framePrelude-frameSum:
		return nil, fmt.Errorf("%w: it has %d bytes, %d of them headers", errFrame, total, headers)
	}
	frame := make([]byte, total)
	copy(frame, prelude[:])
	if _, err := io.ReadFull(f.r, frame[framePrelude:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	body := frame[:total-frameSum]
	if binary.BigEndian.Uint32(frame[total-frameSum:]) != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("%w: its sum is wrong", errFrame)
	}
	name, err := frameName(body[framePrelude : framePrelude+headers])
	if err != nil {
		return nil, err
	}
	payload, err := ParseNode(body[framePrelude+headers:])
	if err != nil {
		return nil, fmt.Errorf("%w: its payload is not JSON", errFrame)
	}
	return []byte("event: " + name + "\ndata: " + string(payload.AppendJSON(nil)) + "\n\n"), nil
}

// frameName is the name of the event or of the exception that a frame holds.
func frameName(headers []byte) (string, error) {
	name := ""
	for len(headers) > 0 {
		label, rest, ok := cutBytes(headers, 1)
		if !ok || len(rest) < 1 || rest[0] != 7 {
			return "", fmt.Errorf("%w: a header is not a text", errFrame)
		}
		value, rest, ok := cutBytes(rest[1:], 2)
		if !ok {
			return "", fmt.Errorf("%w: its headers break off", errFrame)
		}
		if l := string(label); l == ":event-type" || l == ":exception-type" || l == ":error-code" {
			name = string(value)
		}
		headers = rest
	}
	for i := range len(name) {
		if !isIDByte(name[i]) {
			return "", fmt.Errorf("%w: its name is %.40q", errFrame, name)
		}
	}
	if name == "" {
		return "", fmt.Errorf("%w: it has no name", errFrame)
	}
	return name, nil
}

// cutBytes cuts off a piece whose length stands before it, in so many bytes.
func cutBytes(b []byte, size int) (piece, rest []byte, ok bool) {
	if len(b) < size {
		return nil, nil, false
	}
	n := 0
	for _, c := range b[:size] {
		n = n<<8 | int(c)
	}
	if b = b[size:]; len(b) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
