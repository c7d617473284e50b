package cassette

import (
	"bytes"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// heldPrefix is how many bytes of a literal secret a text must end in before
// the stream is held back. Fewer would delay ordinary words; so many may be
// passed on of a secret that comes in pieces.
const heldPrefix = 4

// An Arrival hands on a stream of server-sent events while it arrives, event by
// event, without the literal secrets of its redactor: the reader of the stream
// must not learn the key that paid for it.
//
// A secret inside one event is replaced, as in a recording. Events are held
// back while a text that grows over several of them could be spelling a secret,
// and if it does, the stream ends with an error: text that has been passed on
// cannot be taken back. Over several events only the spellings are looked for
// that protocols carry, not those of an agent that hides a secret. Secrets that
// are known by their shape only are not looked for; a recording of the same
// bytes removes those as well.
type Arrival struct {
	redactor *Redactor
	longest  int // form of a secret, in bytes

	line    []byte // bytes that came without a line break
	buffer  string // bytes before them that are not a whole event yet
	scanned int    // beginning of the last line of buffer
	data    bool   // a line before scanned was not blank

	held    []string
	tails   map[string]string // the end of each text that grows
	pending map[string]bool   // the texts whose end could go on as a secret
}

// NewArrival returns the beginning of a stream. R may be nil.
func NewArrival(r *Redactor) *Arrival {
	a := &Arrival{redactor: r, tails: map[string]string{}, pending: map[string]bool{}}
	if r != nil {
		for _, form := range r.near {
			a.longest = max(a.longest, len(form.text))
		}
	}
	return a
}

// Write takes the next bytes of the stream and returns the events that may be
// passed on now.
func (a *Arrival) Write(data []byte) ([]string, error) {
	a.line = append(a.line, data...)
	// A long line in many pieces is looked at when it has ended, not each time.
	if !bytes.ContainsAny(data, "\r\n") && !strings.HasSuffix(a.buffer, "\r") {
		return nil, nil
	}
	a.buffer += string(a.line)
	a.line = a.line[:0]
	var ready []string
	for {
		event, ok := a.cut()
		if !ok {
			return ready, nil
		}
		events, err := a.event(event)
		if err != nil {
			return ready, err
		}
		ready = append(ready, events...)
	}
}

// Close returns what is left: events that were held back, and the beginning of
// one if the stream broke off.
func (a *Arrival) Close() ([]string, error) {
	if rest := a.buffer + string(a.line); rest != "" {
		a.buffer, a.line = "", nil
		ready, err := a.event(rest)
		if err != nil {
			return nil, err
		}
		a.held = append(ready, a.held...)
	}
	ready := a.held
	a.held = nil
	return ready, nil
}

// cut takes the first whole event off the buffer. Blank lines in front of an
// event belong to it.
func (a *Arrival) cut() (string, bool) {
	for {
		end, next := wire.LineAt(a.buffer, a.scanned)
		// A line break may still be on its way, or the second half of one.
		if next == end || next == len(a.buffer) && a.buffer[next-1] == '\r' {
			return "", false
		}
		if end != a.scanned {
			a.data = true
		} else if a.data {
			event := a.buffer[:next]
			a.buffer, a.scanned, a.data = a.buffer[next:], 0, false
			return event, true
		}
		a.scanned = next
	}
}

// event takes one event and returns those that may be passed on.
func (a *Arrival) event(chunk string) ([]string, error) {
	chunk, err := a.withoutLiterals(chunk)
	if err != nil {
		return nil, err
	}
	events, _ := wire.JSONEvents([]string{chunk})
	for i := range events {
		if err := a.grow(&events[i].Data); err != nil {
			a.held = nil
			return nil, err
		}
	}
	a.held = append(a.held, chunk)
	if len(a.pending) > 0 {
		return nil, nil
	}
	ready := a.held
	a.held = nil
	return ready, nil
}

// withoutLiterals replaces the secrets that stand in this event as a whole.
func (a *Arrival) withoutLiterals(chunk string) (string, error) {
	found := a.redactor.holdsLiteral([]byte(chunk))
	events, _ := wire.JSONEvents([]string{chunk})
	for i := range events {
		found = found || a.redactor.holdsLiteral(events[i].Data.AppendJSON(nil))
	}
	if !found {
		return chunk, nil
	}
	clean, _, err := a.redactor.stream([]string{chunk})
	if err != nil {
		return "", err
	}
	return strings.Join(clean, ""), nil
}

// grow adds the texts of an event to those before them at the same place.
func (a *Arrival) grow(data *wire.Node) error {
	if a.longest == 0 {
		return nil
	}
	for _, piece := range slices.Concat(wire.GrowingTexts([]wire.Event{{Data: *data}})...) {
		text := a.tails[piece.Place] + piece.Leaf.Text
		if a.redactor.holdsLiteral([]byte(text)) {
			return refusal.Newf(refusal.Failed, "the provider's stream spells out a key in pieces; it was stopped before the end of it").
				WithHint("the operator of that server can read and repeat the key: revoke it and use another provider")
		}
		if a.beginsSecret(text) {
			a.pending[piece.Place] = true
		} else {
			delete(a.pending, piece.Place)
		}
		if len(text) > a.longest {
			text = text[len(text)-a.longest:]
		}
		a.tails[piece.Place] = text
	}
	return nil
}

// beginsSecret reports whether text ends in the beginning of a secret.
func (a *Arrival) beginsSecret(text string) bool {
	for _, form := range a.redactor.near {
		for n := min(len(text), len(form.text)-1); n >= heldPrefix; n-- {
			if strings.HasSuffix(text, form.text[:n]) {
				return true
			}
		}
	}
	return false
}
