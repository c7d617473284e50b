package trajectory

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// Bounds of a trajectory, so that neither a runaway agent nor a hostile file
// can exhaust memory.
const (
	MaxLineBytes = 1 << 20
	MaxBytes     = 256 << 20
	MaxEvents    = 1_000_000
)

// A Log is a trajectory being written. It is not safe for use by several
// goroutines: a case has one order of events.
type Log struct {
	data   []byte
	head   digest.ID
	order  order
	keep   bool
	events []Event
}

// logRoom is what the trajectory of a short case takes, so that most logs are
// never copied to a larger place.
const logRoom = 4 << 10

// NewLog returns an empty log.
func NewLog() *Log { return &Log{} }

// NewLogWithEvents returns an empty log that also keeps its events, for who
// will ask for [Log.Verified] at the end.
func NewLogWithEvents() *Log { return &Log{keep: true} }

// Continue verifies a trajectory that has no end yet, and returns a log that goes on
// after it.
func Continue(data []byte, pin Pin) (*Log, error) {
	v, err := Verify(data, pin)
	if err != nil {
		return nil, err
	}
	if v.Complete() {
		return nil, errors.New("the trajectory has its end already")
	}
	l := &Log{data: slices.Clip(data), head: v.head, keep: true, events: slices.Clip(v.events)}
	for i := range l.events {
		if err := l.order.follow(&l.events[i]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Append adds an event and returns its line, newline included, for the caller
// to write out before anything else happens. After an error the log is as it
// was.
//
// The first event is a [RunStarted], the last a [RunCompleted] or [RunFailed].
// Turn is the number of turns started, which a [TurnStarted] raises by one. At
// never goes back and is cut to whole milliseconds. The payload must not be
// changed afterwards.
func (l *Log) Append(turn int, p Payload, at time.Duration) ([]byte, error) {
	return l.AppendEncoded(turn, p, nil, at)
}

// AppendEncoded is [Log.Append] for who has the canonical bytes of the payload, as
// [canon.Append] gave them; nil if they are not made yet.
func (l *Log) AppendEncoded(turn int, p Payload, encoded canon.RawMessage, at time.Duration) ([]byte, error) {
	if p == nil {
		return nil, errors.New("an event without a payload")
	}
	e := Event{Seq: l.order.seq + 1, Turn: turn, Type: p.Type(), At: at.Truncate(time.Millisecond), Payload: p, Prev: l.head, payload: encoded}
	if l.data == nil {
		l.data = make([]byte, 0, logRoom)
	}
	data, err := e.append(l.data)
	if err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	next := l.order
	if err := next.follow(&e); err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	text := data[len(l.data):len(data):len(data)]
	if len(data) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "event %d (%s): the trajectory would have more than %d bytes", e.Seq, e.Type, MaxBytes).
			WithHint("set a limit on turns or output for the case")
	}
	l.order, l.head = next, digest.IDOf(text[:len(text)-1])
	l.data = data
	if l.keep {
		e.payload = canon.RawMessage(text[len(lineStart):bytes.LastIndex(text, []byte(restStart))])
		l.events = append(l.events, e)
	}
	return text, nil
}

// Verified is what [Verify] would make of the bytes and the head of a log that
// keeps its events, without reading them again: this program has just written
// every line.
func (l *Log) Verified() *Verified {
	return &Verified{slices.Clip(l.events), Summary{l.head, l.order.turn, l.order.seq, l.order.ended, true}}
}

// Bytes returns everything written so far, which must not be changed.
func (l *Log) Bytes() []byte { return slices.Clip(l.data) }

// Head is the SHA-256 of the last line without its newline, or zero.
func (l *Log) Head() digest.ID { return l.head }

// At is the time of the last event.
func (l *Log) At() time.Duration { return l.order.at }

// Event is the event of a number, from 1, of a log that keeps its events.
func (l *Log) Event(seq int) Event { return l.events[seq-1] }

// Len is the number of events so far.
func (l *Log) Len() int { return l.order.seq }

// append writes the event as a line after dst. After an error dst is as it was.
func (e *Event) append(dst []byte) ([]byte, error) {
	if err := e.Payload.Validate(); err != nil {
		return nil, err
	}
	data, err := e.appendPayload(append(dst, lineStart...))
	if err != nil {
		return nil, err
	}
	data = e.appendRest(data)
	if n := len(data) - len(dst); n > MaxLineBytes {
		return nil, refusal.Newf(refusal.TooLarge, "the line has %d bytes, at most %d are accepted", n, MaxLineBytes)
	}
	return append(data, '\n'), nil
}

func (e *Event) appendPayload(dst []byte) ([]byte, error) {
	if e.payload != nil {
		return append(dst, e.payload...), nil
	}
	return canon.Append(dst, e.Payload)
}

// A line is an object of six members, which are in the order of their names as
// they stand here, so the line is canonical when the payload is.
const (
	lineStart = `{"payload":`
	restStart = `,"prev":"sha256:`
)

// appendRest writes what comes after the payload.
func (e *Event) appendRest(dst []byte) []byte {
	dst = append(dst, restStart...)
	dst = hex.AppendEncode(dst, e.Prev[:])
	dst = strconv.AppendInt(append(dst, `","seq":`...), int64(e.Seq), 10)
	dst = strconv.AppendInt(append(dst, `,"t":`...), e.At.Milliseconds(), 10)
	dst = strconv.AppendInt(append(dst, `,"turn":`...), int64(e.Turn), 10)
	dst = append(append(dst, `,"type":"`...), e.Type...)
	return append(dst, `"}`...)
}

// decode reads a line without its newline.
//
// It is the place where most of the time goes, so it takes the line apart by
// hand: the rest is read leniently, written again and compared, and the payload
// is left for canon. What passes both is one canonical object.
func decode(text []byte) (Event, error) {
	e, err := decodeFrame(text)
	if err != nil {
		return Event{}, err
	}
	if err := canon.UnmarshalCanonical(e.payload, e.Payload); err != nil {
		return Event{}, fmt.Errorf("%s: payload: %w", e.Type, err)
	}
	if err := e.Payload.Validate(); err != nil {
		return Event{}, fmt.Errorf("%s: %w", e.Type, err)
	}
	return e, nil
}

// ReadEvent reads a line of a trajectory, without its newline, for those who have it
// from an [Index]. It says that the line is an event, not that it is one of a
// trajectory. The event keeps parts of the line, which must not be changed afterwards.
func ReadEvent(line []byte) (Event, error) { return decode(line) }

// decodeFrame reads all of a line but its payload, which is left empty.
func decodeFrame(text []byte) (Event, error) {
	if len(text) > MaxLineBytes {
		return Event{}, fmt.Errorf("the line has more than %d bytes", MaxLineBytes)
	}
	at := bytes.LastIndex(text, []byte(restStart))
	if at < 0 || !bytes.HasPrefix(text, []byte(lineStart)) {
		return Event{}, describe(text)
	}
	var e Event
	e.payload = canon.RawMessage(text[len(lineStart):at:at])
	e.parseRest(string(text[at+len(restStart):]))
	if !bytes.Equal(e.appendRest(make([]byte, 0, 192)), text[at:]) {
		return Event{}, describe(text)
	}
	if e.Payload = NewPayload(e.Type); e.Payload == nil {
		return Event{}, fmt.Errorf("no event type is called %.80q", string(e.Type))
	}
	if e.At < 0 {
		return Event{}, fmt.Errorf("t is %d, expected milliseconds since the case began", e.At.Milliseconds())
	}
	return e, nil
}

// parseRest reads what it can; a mistake shows when the rest is written again.
func (e *Event) parseRest(s string) {
	prev, s, _ := strings.Cut(s, `","seq":`)
	seq, s, _ := strings.Cut(s, `,"t":`)
	t, s, _ := strings.Cut(s, `,"turn":`)
	turn, typ, _ := strings.Cut(s, `,"type":"`)
	if len(prev) == 2*digest.Size {
		_, _ = hex.Decode(e.Prev[:], []byte(prev))
	}
	e.Seq, _ = strconv.Atoi(seq)
	e.Turn, _ = strconv.Atoi(turn)
	if ms, err := strconv.ParseInt(t, 10, 64); err == nil && ms <= math.MaxInt64/int64(time.Millisecond) && ms >= -1 {
		e.At = time.Duration(ms) * time.Millisecond
	}
	e.Type = Type(strings.TrimSuffix(typ, `"}`))
}

// describe says what is wrong with a line that is not in the form of one.
func describe(text []byte) error {
	var l struct {
		Payload canon.RawMessage `json:"payload"`
		Prev    digest.ID        `json:"prev"`
		Seq     int              `json:"seq"`
		T       int64            `json:"t"`
		Turn    int              `json:"turn"`
		Type    Type             `json:"type"`
	}
	if err := canon.UnmarshalCanonical(text, &l); err != nil {
		return err
	}
	if NewPayload(l.Type) == nil {
		return fmt.Errorf("no event type is called %.80q", string(l.Type))
	}
	return fmt.Errorf("seq %d, t %d or turn %d is out of range", l.Seq, l.T, l.Turn)
}

// An order knows which event may come next.
type order struct {
	seq, turn int
	at        time.Duration
	ended     bool
}

func (o *order) follow(e *Event) error {
	if e.Seq != o.seq+1 {
		return fmt.Errorf("found event %d, expected event %d: an event was dropped, added or moved", e.Seq, o.seq+1)
	}
	if e.Seq > MaxEvents {
		return fmt.Errorf("more than %d events", MaxEvents)
	}
	if (e.Type == RunStartedType) != (e.Seq == 1) {
		return errors.New("run_started is the first event and no other")
	}
	if o.ended {
		return errors.New("the run had ended before")
	}
	turn := o.turn
	if e.Type == TurnStartedType {
		turn++
	}
	if e.Turn != turn {
		return fmt.Errorf("turn is %d, expected %d", e.Turn, turn)
	}
	if e.At < o.at {
		return fmt.Errorf("t went back from %v to %v", o.at, e.At)
	}
	if err := checkHeads(e.Payload); err != nil {
		return fmt.Errorf("%s: %w", e.Type, err)
	}
	*o = order{e.Seq, turn, e.At, e.Type == RunCompletedType || e.Type == RunFailedType}
	return nil
}
